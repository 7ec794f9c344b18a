"""What coder makes of calls as mediocre models make them: through the real engine, on real files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from calls import CALLS, FILES, SEEN, Call

from coder.models.arguments import plain_name
from coder.protocol.events import ToolCallChanged
from kit import ScriptedServer
from kit.driving import Project, drive, of

SKILL = "---\nname: hello\ndescription: Greets.\n---\nSay hello.\n"


class Outcome(NamedTuple):
    """What came of a call: its record, events, and the files afterwards."""

    action: dict[str, Any]
    observation: dict[str, Any]
    shown: set[str]
    sent: dict[str, Any]
    files: dict[str, str]


def outcome(call: Call, directory: Path) -> Outcome:
    project = Project(directory)
    for path, text in FILES.items():
        project.write(path, text)
    project.write(".coder/skills/hello/SKILL.md", SKILL)
    reading = [{"name": "read", "arguments": {"path": path}} for path in SEEN]
    script = [
        {"calls": reading},
        {"calls": [{"name": call.name, "arguments": _placed(call.arguments, project.cwd), "id": "it"}]},
        *[{"text": "the subagent's report"}] * 2,
    ]
    with ScriptedServer(script) as server:
        driver = drive(project, server.url, ["go"], mode="yolo", preset="yolo")
        sent = next(m for m in reversed(server.chats[-1]["messages"]) if m.get("tool_calls"))
    (action,) = (e["meta"] for e in project.of_type("action") if e["meta"]["call_id"] == "it")
    (seen,) = (e for e in project.of_type("observation") if e["meta"]["call_id"] == "it")
    shown = {e.tool for e in of(driver.seen, ToolCallChanged) if e.call_id == "it"}
    files = {
        path.relative_to(project.cwd).as_posix(): path.read_text(encoding="utf-8")
        for path in project.cwd.rglob("*")
        if path.is_file() and ".coder" not in path.parts
    }
    return Outcome(action, seen, shown, sent["tool_calls"][0]["function"], files)


def _placed(arguments: Any, root: Path) -> Any:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return text.replace("{root}", str(root))


def resolve_call(call: Call, came: Outcome) -> bool:
    """Whether the call was done at once, as it was meant."""
    observation, meta = came.observation, came.observation["meta"]
    return (
        meta["ok"]
        and meta["tool"] == call.tool
        and call.says in observation["content"]
        and (call.args is None or came.action["input"] == call.args)
        and all(came.files.get(path) == text for path, text in call.files.items())
    )


def _name(call: Call) -> str:
    return f"{call.family}-{call.name}"


_CAME: dict[int, Outcome] = {}


def came_of(number: int, factory: pytest.TempPathFactory) -> Outcome:
    if number not in _CAME:
        _CAME[number] = outcome(CALLS[number], factory.mktemp("mind"))
    return _CAME[number]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=map(_name, CALLS))
def test_each_call(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    call, came = CALLS[number], came_of(number, tmp_path_factory)
    content = came.observation["content"]
    if call.refused:
        assert not came.observation["meta"]["ok"]
        assert call.refused in content
        assert came.files == FILES, "a refused call has changed something"
        return
    assert resolve_call(call, came), (came.action, content, came.files)
    # Policy, events and record go by the tool that is run; what was sent stays as it was sent, in the
    # characters that servers take.
    assert came.shown == {call.tool}
    assert came.action["tool"] == call.tool
    assert came.sent["name"] == plain_name(call.name)
    if call.name != call.tool:
        assert came.action["sent"]["tool"] == call.name


def test_the_share_that_is_understood_without_a_further_step(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [number for number, call in enumerate(CALLS) if call.plain]
    done = [n for n in plain if resolve_call(CALLS[n], came_of(n, tmp_path_factory))]
    by_family = Counter(CALLS[n].family for n in plain)
    with capsys.disabled():
        share = len(done) / len(plain)
        print(f"\n{len(done)} of {len(plain)} plain calls understood at once: {share:.3f}")
        print(", ".join(f"{family} {n}" for family, n in sorted(by_family.items())))
    assert len(CALLS) >= 60
    assert {"GPT", "Claude", "Gemini", "Qwen", "DeepSeek", "Llama", "Mistral", "small"} <= set(by_family)
    assert share >= 0.9
