"""A command that is killed together with its session: what it had done by then is covered too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shop import Shop

from coder.history.undo.journal import UndoJournal
from coder.history.undo.shell_changes import ShellUndo
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project

SECONDS = 30
COMMAND = "the command"
SESSION = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from shop import Shop
shop = Shop(Path(sys.argv[1]), session="killed")
shop.tool("by-tool", "tool\\n")
shop.run("echo 1 > earlier")
shop.shell.before("the command")
print("running", flush=True)
time.sleep(600)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def running(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of the session `killed`, in the middle of a command; killed at the end at the latest."""
    tests = Path(__file__).parent
    child = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(directory), str(tests)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout
        assert child.stdout.readline() == "running\n"
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """The session that comes after."""
    found = Shop(tmp_path, session="after")
    found.put("old", "1\n")
    found.put("gone", "1\n")
    yield found
    found.shell.close()


def killed(shop: Shop) -> UndoJournal:
    """The journal of the killed session, as a resumed one reads it."""
    return UndoJournal(shop.home / "undo" / "killed")


def resume(shop: Shop) -> UndoJournal:
    """As `/undo` in the resumed session does."""
    journal = killed(shop)
    journal.begin_turn(1)
    shell = ShellUndo(shop.root, shop.home, journal)
    shell.recover()
    shell.close()
    return journal


LEFT = {"by-tool": "tool\n", "earlier": "1\n", "made": "x\n", "old": "2\n"}


def test_undo_in_the_resumed_session_takes_back_the_whole_turn(shop: Shop) -> None:
    with running(shop.root.parent):
        shop.do("echo 2 > old; rm gone; echo x > made; chmod 700 by-tool")
    assert [command for _, command in killed(shop).cut_off()] == [COMMAND]
    journal = resume(shop)
    assert journal.cut_off() == []
    outcome = journal.undo()
    assert not outcome.refused
    assert shop.held() == {"gone": "1\n", "old": "1\n"}
    journal.redo()
    assert shop.held() == LEFT


def test_the_next_command_of_any_session_finds_it_out_first(shop: Shop) -> None:
    with running(shop.root.parent):
        shop.do("echo 2 > old; rm gone; echo x > made")
    shop.run("echo theirs >> old; echo theirs > new")
    assert list((shop.home / "trees").glob("*/open/*/window")) == [shop.shell._commands.directory / "window"]
    outcome = shop.journal.undo()
    assert (outcome.conflicts, outcome.shared) == ([], [])
    assert shop.held() == LEFT
    journal = killed(shop)
    assert journal.cut_off() == []
    assert journal.undo().turn == 1
    assert shop.held() == {"gone": "1\n", "old": "1\n"}


def test_one_that_was_running_already_does_the_same(shop: Shop) -> None:
    shop.run("true")
    with running(shop.root.parent):
        shop.do("echo 2 > old")
    shop.run("echo theirs > new")
    killed(shop).undo()
    assert shop.held() == {"gone": "1\n", "old": "1\n", "new": "theirs\n"}


def test_a_kill_before_the_command_began_puts_nothing_down_to_it(shop: Shop) -> None:
    """What was seen before an earlier command is not what there was before this one."""
    session = SESSION.replace("shop.shell.before", "shop.shell._tree.sync = stop\nshop.shell.before")
    session = session.replace("shop.tool", "def stop(**_):\n    by_hand(); os._exit(9)\nshop.tool", 1)
    person = "def by_hand():\n    shop.put('old', 'by hand\\n')\n"
    code = "import os\n" + person + session
    tests = Path(__file__).parent
    child = subprocess.run([sys.executable, "-c", code, str(shop.root.parent), str(tests)], check=False)
    assert child.returncode == 9
    shop.run("true")  # the next command here sees to what was left behind
    journal = resume(shop)
    journal.undo()
    assert shop.held() == {"gone": "1\n", "old": "by hand\n"}


def test_changes_after_the_kill_are_not_covered(shop: Shop) -> None:
    with running(shop.root.parent) as child:
        shop.do("echo 2 > old; echo x > made")
        beat = next((shop.home / "trees").glob("*/open/*/beat"))
        first = beat.stat().st_mtime_ns
        wait_until(lambda: beat.stat().st_mtime_ns > first)  # it goes on as long as the command does
        child.kill()
        child.wait()
    wait_until(lambda: time.time_ns() > beat.stat().st_mtime_ns + 1_200_000_000)
    shop.put("old", "2\nby hand\n")
    shop.put("new", "by hand\n")
    (shop.root / "gone").unlink()
    journal = resume(shop)
    (previewed,) = journal.preview()
    outcome = journal.undo()
    assert previewed == outcome
    assert shop.names(outcome.uncovered) == ["gone", "new", "old"]
    assert shop.names(outcome.removed) == ["by-tool", "earlier", "made"]
    by_hand = {"new": "by hand\n", "old": "2\nby hand\n"}
    assert shop.held() == by_hand
    journal.redo()
    assert shop.held() == {"by-tool": "tool\n", "earlier": "1\n", "made": "x\n"} | by_hand


def test_what_tools_of_the_resumed_session_did_first_is_a_turn_of_its_own(shop: Shop) -> None:
    with running(shop.root.parent):
        shop.do("echo 2 > old")
    journal = killed(shop)
    journal.begin_turn(2)
    journal.before_change(shop.root / "old", b"2\ntool\n")
    shop.put("old", "2\ntool\n")
    journal = resume(shop)
    assert journal.undo().turn == 2
    assert shop.held()["old"] == "2\n"
    assert journal.undo().turn == 1
    assert shop.held() == {"gone": "1\n", "old": "1\n"}


def test_what_ran_beside_it_is_not_known_to_be_its_doing(shop: Shop) -> None:
    with running(shop.root.parent):
        shop.shell.before("beside it")
        shop.do("echo 2 > old")
    shop.shell.after()
    assert shop.names(shop.journal.undo().shared) == ["old"]
    shop.run("true")
    outcome = killed(shop).undo()
    assert shop.names(outcome.shared) == ["old"]
    assert shop.held() == {"by-tool": "tool\n", "earlier": "1\n", "gone": "1\n", "old": "2\n"}


@pytest.mark.parametrize("lost", ["base", "packs"])
def test_where_what_there_was_is_lost_the_command_is_named(shop: Shop, lost: str) -> None:
    with running(shop.root.parent):
        shop.do("echo 2 > old")
    for path in (shop.home / "trees").rglob("base" if lost == "base" else "*.pack"):
        path.unlink()
    journal = resume(shop)
    assert journal.cut_off() == [(1, COMMAND)]
    journal.undo()
    assert shop.held() == {"gone": "1\n", "old": "2\n"}


def test_a_kill_between_two_commands_leaves_nothing_to_find_out(shop: Shop) -> None:
    with running(shop.root.parent) as child:
        window = next((shop.home / "trees").glob("*/open/*/window"))
        child.kill()
        child.wait()
    os.truncate(window, 0)
    shop.put("old", "by hand\n")
    shop.run("true")
    assert not window.parent.exists()
    killed(shop).undo()
    assert shop.held() == {"gone": "1\n", "old": "by hand\n"}


# the whole program


@pytest.mark.thorough
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_kill_9_of_coder_then_resume_and_undo(project: Project, sandbox: str) -> None:
    project.configure(sandbox={"mode": sandbox})
    project.write("old", "1\n")
    project.write("gone", "1\n")
    line = "rm gone; echo 2 > old; echo half > made; for i in $(seq 600); do sleep 0.05; done"
    with ScriptedServer([bash_step(line)]) as server:
        process = project.started("--once", "go", "--mode", "yolo", url=server.url)
        try:
            wait_until((project.cwd / "made").exists)
        finally:
            process.kill()
            process.communicate()
        shown = project.coder("--continue", "--once", "/undo show", url=server.url)
        assert "  restore old\n" in shown.stdout
        undone = project.coder("--continue", "--once", "/undo", url=server.url)
    assert undone.returncode == 0, undone.stdout
    assert "not covered" not in undone.stdout
    left = {p.name: p.read_text() for p in project.cwd.iterdir() if p.is_file()}
    assert left == {"old": "1\n", "gone": "1\n"}
