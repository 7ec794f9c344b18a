"""The engine knows no language: each reader of the same events puts them into words of its own."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from coder.engine.redactor import SessionSecrets
from coder.protocol.events import AnyEvent, ApprovalRequested, Notice, localized
from coder.texts import Catalog, JoinedText, Text
from coder.tools.tool import failed
from coder.ui.once import JsonOutput, StreamJsonOutput
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from kit.calls import call
from kit.driving import Project, play

CHINESE = re.compile(r"[\u3400-\u9fff]")
SCRIPT = [
    {"calls": [call("bash", command="rm -r build"), call("read", path="gone.txt")]},
    {"calls": [call("write", path="a.txt", content="x\n")]},
    {"text": "done"},
]
COMMANDS = ["/help", "/status", "/permissions", "/tools", "/skills", "/context", "/undo", "/nothing"]


@pytest.fixture
def told(project: Project) -> list[AnyEvent]:
    """What one engine tells of a turn with a refused call and a failed one, and of commands."""
    project.configure(ui={"lang": "zh"})  # which the engine has no use for
    return play(project, SCRIPT, ["go", *COMMANDS], mode="default").told


def shown(events: list[AnyEvent], lang: str) -> str:
    out = io.StringIO()
    view = PlainRenderer(out, None, Catalog(lang), Theme("none"))
    for event in events:
        view.handle(event)
    return out.getvalue()


def test_two_readers_of_one_engine_have_each_their_language(told: list[AnyEvent]) -> None:
    english, chinese = shown(told, "en"), shown(told, "zh")
    assert CHINESE.findall(english) == []
    say_en, say_zh = Catalog("en").say, Catalog("zh").say
    for key in (
        "approval.nobody_short",
        "help.undo",
        "help.rewind",
        "status.label.sandbox",
        "tool.about.read",
    ):
        assert say_en(key) in english, key
        assert say_zh(key) in chinese, key
        assert say_en(key) not in chinese, key


@pytest.mark.parametrize(("lang", "expected"), [("en", False), ("zh", True)])
def test_programs_read_strings_in_the_language_of_the_run(
    told: list[AnyEvent], lang: str, expected: bool, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    texts = Catalog(lang)
    whole, stream = JsonOutput(texts), StreamJsonOutput(texts)
    for event in told:
        whole.show(event)
        stream.show(event)
    whole.finish(0)
    lines: list[dict[str, Any]] = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    said = [line["content"] for line in lines if line.get("type") in ("notice", "command_result")]
    said += [lines[-1]["text"], *lines[-1]["warnings"]]
    assert [bool(CHINESE.search(text)) for text in said] == [expected] * len(said)
    assert len(said) > len(COMMANDS)


def test_the_record_is_english_whatever_the_language(project: Project, told: list[AnyEvent]) -> None:
    assert [e for e in project.events() if CHINESE.search(json.dumps(e, ensure_ascii=False))] == []


def test_whole_events_in_words() -> None:
    reasons: list[Any] = ["as it is", Text("approval.refused")]
    event = ApprovalRequested("1", "2", "bash", "rm x", "command", reasons, can_always=False)
    assert localized(event, Catalog("zh")).reasons == ["as it is", Catalog("zh").say("approval.refused")]
    notice = Notice("as it is")
    assert localized(notice, Catalog("zh")) is notice


def test_a_secret_is_kept_out_of_every_language(project: Project) -> None:
    """Also inside a phrase that is a part of another, and where only the whole sentence shows it."""
    secrets = SessionSecrets(project.home, ["hunter2"], on=False)
    inner = Text("servers.failed", why=Text("model.current", model="hunter2"))
    for summary in (JoinedText(["a ", inner]), "say hunter2", JoinedText(["hun", "ter2"], "")):
        result = secrets.hidden(failed("no", summary))
        for lang in ("en", "zh"):
            assert "hunter2" not in Catalog(lang).of(result.said)
            assert "provider key" in Catalog(lang).of(result.said)
