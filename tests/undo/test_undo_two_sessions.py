"""Two sessions run commands at the same time: a change that may be the other's is a conflict."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shop import Shop

from coder.history.undo.journal import KEPT_TURNS, UndoJournal
from coder.history.undo.shell_changes import ShellUndo
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project

Pair = tuple[Shop, Shop]


@pytest.fixture(params=["watched", "walked"])
def pair(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    if request.param == "walked":
        monkeypatch.setattr("coder.history.tree.index.InotifyWatch._open", lambda self: False)
    one, other = Shop(tmp_path), Shop(tmp_path, session="other")
    yield one, other
    one.shell.close()
    other.shell.close()


def test_what_changed_while_both_ran_is_refused_by_both_and_forced_by_either(pair: Pair) -> None:
    one, other = pair
    one.put("old", "1\n")
    one.shell.before("long")
    other.shell.before("short")
    one.do("echo 2 > old; echo x > made")
    other.shell.after()
    one.shell.after()
    for shop in pair:
        (previewed,) = shop.journal.preview()
        outcome = shop.journal.undo()
        assert previewed == outcome
        assert outcome.refused
        assert shop.names(outcome.shared) == ["made", "old"]
        assert one.held() == {"made": "x\n", "old": "2\n"}
    outcome = other.journal.undo(force=True)
    assert sorted(Path(copy).read_text() for copy in outcome.kept_copies) == ["2\n", "x\n"]
    assert one.held() == {"old": "1\n"}
    assert other.journal.redo().turn == 1
    assert one.held() == {"made": "x\n", "old": "2\n"}


def test_a_turn_with_a_shared_change_is_refused_whole_and_undone_by_force(pair: Pair) -> None:
    one, other = pair
    one.put("old", "1\n")
    one.tool("by-tool", "mine\n")
    one.run("echo alone > alone")
    one.shell.before("long")
    other.shell.before("short")
    one.do("echo 2 > old")
    one.shell.after()
    other.shell.after()
    expected = {"alone": "alone\n", "by-tool": "mine\n", "old": "2\n"}
    (previewed,) = one.journal.preview()
    outcome = one.journal.undo()
    assert previewed == outcome
    assert (outcome.refused, one.names(outcome.shared)) == (True, ["old"])
    assert one.held() == expected
    again = UndoJournal(one.journal.directory)
    (previewed,) = again.preview(force=True)
    forced = again.undo(force=True)
    assert one.names(forced.restored) == one.names(previewed.restored) == ["old"]
    assert one.names(forced.removed) == ["by-tool", "alone"]
    assert one.held() == {"old": "1\n"}
    again.redo()
    assert one.held() == expected


def test_several_turns_stop_at_a_conflict(pair: Pair) -> None:
    one, other = pair
    one.tool("first", "1\n")
    one.journal.begin_turn(2)
    one.tool("second", "2\n")
    other.shell.before("short")
    one.run("echo x > shared")
    other.shell.after()
    assert [o.turn for o in one.journal.preview(2)] == [2]
    assert [o.turn for o in one.journal.undo_turns(2)] == [2]
    assert one.held() == {"first": "1\n", "second": "2\n", "shared": "x\n"}
    assert [o.turn for o in one.journal.undo_turns(2, force=True)] == [2, 1]
    assert one.held() == {}


def test_what_one_did_before_and_after_the_other_s_command_is_its_own(pair: Pair) -> None:
    one, other = pair
    one.put("both", "1\n")
    one.shell.before("long")
    one.put("early", "x\n")
    wait_past(one.root / "early")
    other.shell.before("short")
    one.put("both", "2\n")
    other.shell.after()
    one.put("late", "x\n")
    one.shell.after()
    outcome = one.journal.undo()
    assert one.names(outcome.shared) == ["both"]
    assert one.held() == {"both": "2\n", "early": "x\n", "late": "x\n"}
    assert other.names(other.journal.undo().shared) == ["both"]


def test_a_command_that_still_runs_may_have_done_anything(pair: Pair) -> None:
    """Also what was changed before it began: times do not tell who made a change, a person does."""
    one, other = pair
    one.put("gone", "x\n")
    one.put("early", "1\n")
    one.shell.before("short")
    one.do("rm gone; echo 2 > early")
    other.shell.before("long")
    one.do("echo x > late")
    one.shell.after()
    outcome = one.journal.undo()
    assert outcome.refused
    assert one.names(outcome.shared) == ["early", "gone", "late"]
    assert one.held() == {"early": "2\n", "late": "x\n"}
    forced = one.journal.undo(force=True)
    assert one.held() == {"early": "1\n", "gone": "x\n"}, forced
    other.shell.after()


def wait_past(path: Path) -> None:
    """Until the file's time is surely past, as the file system's clock has it."""
    while time.time_ns() - path.stat().st_ctime_ns < 120_000_000:
        time.sleep(0.01)


def test_one_after_the_other_share_nothing(pair: Pair) -> None:
    one, other = pair
    for _ in range(2):
        assert one.run("echo 1 >> a").changed
        assert other.run("echo 2 >> b").changed
    assert one.journal.undo().shared == []
    assert one.held() == {"b": "2\n2\n"}
    other.shell.before("never ran")
    other.shell.not_run()
    one.journal.begin_turn(2)
    one.run("echo 1 > a")
    assert one.journal.undo().shared == []


def test_a_session_that_was_closed_or_killed_is_not_waited_for(pair: Pair) -> None:
    one, other = pair
    one.run("true")
    other.shell.before("for ever")
    child = os.fork()
    if not child:  # with the lock of its parent's file, which is no lock of its own
        os._exit(0)
    os.waitpid(child, 0)
    abandon(other.shell)
    one.run("echo 1 > a")
    assert one.journal.undo().shared == []


def abandon(shell: ShellUndo) -> None:
    """As a kill does: the lock is gone, and nothing else has been seen to."""
    commands = shell._commands
    commands._heartbeat.end()
    os.close(commands._descriptor)
    commands._descriptor = -1


# what is the other's for certain


def test_a_tool_s_write_after_the_command_s_is_not_the_command_s(pair: Pair) -> None:
    """A file that the command wrote after the other session's tool is a conflict."""
    one, other = pair
    for name in ("before", "after", "alone"):
        one.put(name, "1\n")
    one.shell.before("long")
    other.tool("alone", "1\ntool\n")
    one.do("echo command >> before")
    other.tool("before", "1\ncommand\ntool\n")
    other.tool("after", "1\ntool\n")
    one.do("echo command >> after")
    one.shell.after()
    outcome = one.journal.undo()
    assert (one.names(outcome.conflicts), one.names(outcome.shared)) == (["before"], ["after"])
    assert other.names(other.journal.undo().conflicts) == ["after"]
    forced = one.journal.undo(force=True)
    assert {Path(copy).read_text() for copy in forced.kept_copies} == {
        "1\ncommand\ntool\n",
        "1\ntool\ncommand\n",
    }
    assert one.held() == {"before": "1\n", "after": "1\n", "alone": "1\ntool\n"}


def test_an_undo_and_a_redo_of_the_other_are_not_the_command_s(pair: Pair) -> None:
    one, other = pair
    one.put("a", "1\n")
    other.run("echo 2 > a; echo x > made")
    one.shell.before("long")
    other.journal.undo()
    assert one.shell.after().changed == []
    one.shell.before("long")
    other.journal.redo()
    assert one.shell.after().changed == []
    assert one.journal.undo().turn == 0
    assert one.held() == {"a": "2\n", "made": "x\n"}


@pytest.mark.parametrize("turns", [1, KEPT_TURNS + 5])
def test_what_the_other_did_is_known_also_when_it_has_gone_on(pair: Pair, turns: int) -> None:
    one, other = pair
    other.put("undone", "1\n")
    other.put("kept", "1\n")
    other.tool("undone", "2\n")
    one.shell.before("long")
    other.journal.undo()
    other.journal.begin_turn(2)
    other.tool("kept", "2\n")
    for turn in range(3, 3 + turns):
        other.journal.begin_turn(turn)
        other.tool("more", f"{turn}\n")
    assert one.shell.after().changed == []
    assert one.journal.undo().turn == 0


def test_a_change_that_the_other_could_not_undo_is_shared(pair: Pair) -> None:
    one, other = pair
    one.put("a", "1\n")
    one.shell.before("long")
    other.run("echo 2 > a")
    assert other.names(other.journal.undo().shared) == ["a"]
    other.journal.begin_turn(2)
    other.tool("c", "x\n")
    one.shell.after()
    assert one.names(one.journal.undo().shared) == ["a"]
    assert one.held() == {"a": "2\n", "c": "x\n"}


def test_a_directory_that_the_other_moved_is_not_taken_for_ours(pair: Pair) -> None:
    one, other = pair
    one.put("src/deep/file", "1\n")
    other.shell.before("mv src lib")
    one.shell.before("long")
    other.do("mv src lib")
    one.shell.after()
    outcome = one.journal.undo()
    assert outcome.refused
    moved = ["lib", "lib/deep", "lib/deep/file", "src", "src/deep", "src/deep/file"]
    assert one.names(outcome.shared) == moved
    other.shell.after()
    assert one.held() == {"lib/deep/file": "1\n"}


def test_what_the_other_had_half_done_when_ours_began_is_not_ours_to_go_back_to(pair: Pair) -> None:
    """Both end where they began, as far as the other one is concerned: it has nothing to say about it."""
    one, other = pair
    one.put("rewritten", "1\n")
    one.put("replaced", "1\n")
    other.shell.before("build")
    other.do(": > rewritten; rm replaced")
    one.shell.before("long")
    other.do("echo 1 > rewritten; echo 1 > replaced")
    other.shell.after()
    one.do("echo mine > mine")
    one.shell.after()
    outcome = one.journal.undo()
    assert one.names(outcome.shared) == ["mine", "replaced", "rewritten"]
    assert one.held() == {"mine": "mine\n", "replaced": "1\n", "rewritten": "1\n"}


def test_a_tool_s_write_that_is_journalled_but_not_done_yet(pair: Pair) -> None:
    one, other = pair
    path = one.put("a", "1\n")
    one.shell.before("long")
    one.do("echo command > a")
    other.journal.before_change(path, b"tool\n")
    one.shell.after()
    path.write_bytes(b"tool\n")
    assert one.names(one.journal.undo().conflicts) == ["a"]
    other.journal.undo()
    one.journal.undo()
    assert path.read_text() == "1\n"


# one session, several at once


def test_a_tool_beside_a_command_of_the_same_session_is_one_turn_s_work(pair: Pair) -> None:
    """Subagents and MCP tools: whoever did what, it is undone together, and nothing is in doubt."""
    one, _ = pair
    one.put("a", "1\n")
    one.put("b", "1\n")
    one.shell.before("subagent")
    one.do("echo 2 > a")
    one.shell.before("mcp__files__move")
    one.tool("b", "tool\n")
    one.do("echo 3 >> b")
    one.shell.after()
    one.tool("c", "tool\n")
    one.do("mv c d")
    one.shell.after()
    outcome = one.journal.undo()
    assert (outcome.conflicts, outcome.shared) == ([], [])
    assert one.held() == {"a": "1\n", "b": "1\n"}


# real processes


def two_overlapping_sessions(project: Project) -> list[str]:
    """Two sessions, each of which makes a file when the other's command runs, too; their ids. The first has
    written one with a tool before."""
    project.write(".gitignore", "*.here\n")
    written = {"calls": [{"name": "write", "arguments": {"path": "ann.txt", "content": "x\n"}}]}
    ids = []
    with contextlib.ExitStack() as stack:
        children = []
        for own, other, first in (("ann", "bob", [written]), ("bob", "ann", [])):
            line = "; ".join(
                f"touch {own}.{name}; until test -e {other}.{name}; do sleep 0.02; done"
                for name in ("here", "met")
            )
            server = stack.enter_context(ScriptedServer([*first, bash_step(line), {"text": "ok"}]))
            question = ("--once", "go", "--mode", "yolo", "--output", "json")
            children.append(stack.enter_context(project.started(*question, url=server.url)))
            stack.callback(children[-1].kill)
        for child in children:
            out, err = child.communicate(timeout=60)
            assert child.returncode == 0, err.decode()
            ids.append(json.loads(out)["session_id"])
    return ids


@pytest.mark.thorough
def test_two_processes_whose_commands_meet(project: Project) -> None:
    """`/undo` of either refuses and says why; force takes the changes back."""
    first, second = two_overlapping_sessions(project)
    before = files_of(project)
    assert {"ann.met", "bob.met", "ann.txt"} <= before
    why = "another session was running a command"
    with ScriptedServer([]) as server:

        def said(session: str, *words: str) -> subprocess.CompletedProcess[str]:
            return project.coder("--resume", session, "--once", *words, url=server.url)

        refused, chinese = said(second, "/undo"), said(second, "/undo show", "--lang", "zh")
        shown = said(first, "/undo show")
        assert files_of(project) == before
        assert refused.returncode == 1
        assert "Turn 1 was not undone" in refused.stderr
        for name in ("ann.met", "bob.met"):
            assert f"  {name}: {why}" in refused.stderr
            assert f"  {name}: {why}" in shown.stdout
        assert "/undo force replaces them" in refused.stderr
        assert "ann.met：当时另一个会话的命令也在运行" in chinese.stdout
        assert said(first, "/undo").returncode == 1
        assert files_of(project) == before
        undone = said(first, "/undo force").stdout
        assert "  removed ann.txt\n" in undone
        assert "  removed ann.met\n" in undone
        assert files_of(project) == before - {"ann.txt", "ann.met", "bob.met"}
        said(first, "/redo")
        assert files_of(project) == before


def files_of(project: Project) -> set[str]:
    found = (path.relative_to(project.cwd) for path in project.cwd.rglob("*"))
    return {str(path) for path in found if ".coder" not in path.parts}
