"""Two sessions of real processes in one workspace, at the same time: nothing is lost, torn or mixed up."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coder.config.allowlist import Allowlist
from coder.tools.changes import Change, apply
from coder.tools.paths import Stop
from coder.tools.tool import Limits, ToolContext
from config.place import run_at_once
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project
from kit.validity import check_conversation

EDITS = 8
SECONDS = 90  # for two processes on a busy machine; they end as soon as they are done


class Busy:
    """A model that does one thing after the other, and does again what somebody else got in the way of."""

    def __init__(self, calls: Callable[[int], list[dict[str, Any]]], count: int) -> None:
        self.calls, self.count, self.done, self.refused = calls, count, 0, 0
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked = request["messages"]
        last = self.asked[-1]
        if last["role"] == "tool":
            if last["content"].startswith("error: "):
                assert "changed" in last["content"], last["content"]
                self.refused += 1
            else:
                self.done += 1
        return {"calls": self.calls(self.done)} if self.done < self.count else {"text": "finished"}


@contextlib.contextmanager
def at_once(project: Project, *models: Busy) -> Iterator[list[str]]:
    """Both to their end; the ids of their sessions, in the order given."""
    project.configure(runtime={"max_steps": 1000, "loop_guard": False, "context_window": 10_000_000})
    with contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        for number, model in enumerate(models):
            server = stack.enter_context(ScriptedServer([model] * 1000))
            question = ("--once", f"session {number}", "--permissions", "yolo", "--output", "json")
            started.append(stack.enter_context(project.started(*question, url=server.url)))
        ids = []
        for child in started:
            out, err = child.communicate(timeout=SECONDS)
            assert child.returncode == 0, err.decode()
            ids.append(json.loads(out)["session_id"])
        yield ids


def logged(project: Project, session: str) -> list[dict[str, Any]]:
    return project.events(project.cwd / ".coder" / "history" / f"{session}.jsonl")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.thorough
def test_edits_of_one_file_and_their_undo(project: Project) -> None:
    original = [f"{who}{n}\n" for n in range(EDITS) for who in ("a", "-----", "b", "=====")]
    shared = project.write("shared.txt", "".join(original))

    def editing(who: str) -> Busy:
        def calls(at: int) -> list[dict[str, Any]]:
            change = call(
                "edit", path="shared.txt", old_string=f"{who}{at}\n", new_string=f"{who.upper()}{at}\n"
            )
            return [call("read", path="shared.txt"), change]

        return Busy(calls, EDITS)

    one, other = editing("a"), editing("b")
    with at_once(project, one, other) as (first, second):
        pass
    assert lines_of(shared) == "".join(original).replace("a", "A").replace("b", "B").splitlines()
    for session, model in ((first, one), (second, other)):
        events = logged(project, session)
        assert {event["session_id"] for event in events} == {session}
        assert (events[0]["type"], events[-1]["type"]) == ("session_start", "session_end")
        assert (
            sum(
                e["type"] == "observation" and e["meta"]["tool"] == "edit" and e["meta"]["ok"] for e in events
            )
            == EDITS
        )
        check_conversation(model.asked)
        snapshot = project.cwd / ".coder" / "sessions" / f"{session}.json"
        messages = json.loads(snapshot.read_text(encoding="utf-8"))["messages"]
        assert messages[1]["content"].startswith(f"session {int(session == second)}")
    # Each takes back its own, and leaves what the other did.
    with ScriptedServer([]) as server:
        done = project.coder("--once", "/undo", "--resume", first, url=server.url)
        assert done.returncode == 0, done.stderr
        assert lines_of(shared) == "".join(original).replace("b", "B").splitlines()
        done = project.coder("--once", "/undo", "--resume", second, url=server.url)
        assert done.returncode == 0, done.stderr
    assert lines_of(shared) == "".join(original).splitlines()
    assert not list(project.cwd.glob("**/*.tmp"))


@pytest.mark.thorough
def test_memory_files_and_commands(project: Project) -> None:
    def working(who: str) -> Busy:
        def calls(at: int) -> list[dict[str, Any]]:
            return [
                call("write", path=f"{who}/deep/{at}.txt", content=f"{who} {at}\n" * 2000),
                call("bash", command=f"echo {who} {at} >> log-{who}; seq 20000"),
                call("save_memory", fact=f"{who} found fact number {at}"),
            ]

        return Busy(calls, EDITS)

    with at_once(project, working("ann"), working("bob")) as (first, second):
        pass
    facts = lines_of(project.cwd / ".coder" / "memory.md")
    assert facts[:2] == ["# Memory", ""]
    assert sorted(facts[2:]) == sorted(
        f"- {w} found fact number {n}" for w in ("ann", "bob") for n in range(EDITS)
    )
    for who in ("ann", "bob"):
        assert lines_of(project.cwd / f"log-{who}") == [f"{who} {n}" for n in range(EDITS)]
        for n in range(EDITS):
            assert lines_of(project.cwd / who / "deep" / f"{n}.txt") == [f"{who} {n}"] * 2000
    for session, who, stranger in ((first, "ann", "bob"), (second, "bob", "ann")):
        text = json.dumps([e for e in logged(project, session) if e["type"] in ("action", "observation")])
        assert f"{who} found fact number 0" in text
        assert f"{stranger} found" not in text
        kept = [path.name for path in (project.home / ".coder" / "outputs" / session).iterdir()]
        assert kept, "the long outputs of a session lie in a folder of its own"


def test_what_two_people_always_allow_is_all_kept(project: Project) -> None:
    code = """
from pathlib import Path
from coder.config.allowlist import Allowlist
for n in range(10):
    Allowlist(Path(sys.argv[1]), Path(sys.argv[2])).add(f"{sys.argv[3]}{n}")
"""
    run_at_once([[code, str(project.home), str(project.cwd), who] for who in ("make", "npm")])
    kept = Allowlist(project.home, project.cwd).names()
    assert set(kept) == {f"{who}{n}" for who in ("make", "npm") for n in range(10)}


class _Directory:
    closed = ()

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, path: str, *, write: bool = False) -> Path:
        return self.root / path

    def show(self, path: Path) -> str:
        return path.name


class _Late:
    """A journal during whose work somebody else writes the file: the gap between looking and writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        if path == self.path:
            path.write_bytes(b"theirs\n")


@pytest.mark.parametrize("after", [b"ours\n", None], ids=["replaced", "deleted"])
def test_what_came_in_between_is_not_written_over(tmp_path: Path, after: bytes | None) -> None:
    root = tmp_path.resolve()
    mine, contested = root / "mine", root / "contested"
    mine.write_bytes(b"before\n")
    contested.write_bytes(b"before\n")
    context = ToolContext(_Directory(root), _Late(contested), Limits(), root, {})
    changes = [Change(mine, b"before\n", b"ours\n"), Change(contested, b"before\n", after)]
    with pytest.raises(Stop) as stop:
        apply(changes, context)
    assert "changed by someone else" in stop.value.result.for_model
    assert contested.read_bytes() == b"theirs\n"
    assert mine.read_bytes() == b"before\n"  # all or nothing
