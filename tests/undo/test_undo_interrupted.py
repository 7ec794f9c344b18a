"""kill -9 at any point of an undo or a redo: the next one completes it, or goes back on it, to the byte.

Children are forked: real processes, really killed, at every call that changes something on disk, and at
random moments.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import stat
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coder.history.undo.journal import UndoJournal
from coder.history.undo.shell_changes import ShellUndo
from kit import ScriptedServer
from kit.driving import Project

Picture = dict[str, tuple[str, int, bytes]]
CHANGING = ("rename", "replace", "unlink", "rmdir", "mkdir", "symlink", "chmod", "fchmod", "write")
LINES = "".join(f"{n}\n" for n in range(20))
COMMANDS = (
    "echo new > edited; rm gone; chmod 700 bits; ln -sf edited link; sed -i s/^3$/three/ merged",
    "rm -r folder; echo flat > folder; mkdir -p made/deep; echo x > made/deep/file; chmod 500 closed",
    "rm flat; mkdir flat; echo x > flat/inside; rm -r lost; : > empty",
)


def picture(root: Path) -> Picture:
    found: Picture = {}
    for path in root.rglob("*"):
        info = path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if path.is_symlink():
            found[str(path.relative_to(root))] = ("link", 0, os.fsencode(path.readlink()))
        elif path.is_dir():
            found[str(path.relative_to(root))] = ("folder", mode, b"")
        else:
            found[str(path.relative_to(root))] = ("file", mode, path.read_bytes())
    return found


class Stage:
    """A workspace with one turn behind it, and a person's edit after that; as often as wanted."""

    def __init__(self, directory: Path, commands: tuple[str, ...] = COMMANDS) -> None:
        self._kept, self._directory = directory / "kept", directory / "used"
        self.root, self._undo = self._directory / "ws", self._directory / "undo"
        self.root.mkdir(parents=True)
        for name in (
            "edited",
            "gone",
            "bits",
            "link",
            "flat",
            "folder/a",
            "folder/b/c",
            "closed/in",
            "lost/x",
        ):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("old\n", encoding="utf-8")
        (self.root / "lost").chmod(0o711)
        merged = self.root / "merged"
        merged.write_text(LINES, encoding="utf-8")
        journal = self.journal()
        journal.begin_turn(1)
        shell = ShellUndo(self.root, directory / "home", journal)
        for command in commands:
            shell.before(command)
            subprocess.run(["/bin/sh", "-c", command], cwd=self.root, check=True)
            shell.after()
        shell.close()
        merged.write_text(merged.read_text().replace("15\n", "by hand\n"), encoding="utf-8")
        self.done = picture(self.root)

    def keep(self) -> None:
        shutil.copytree(self._directory, self._kept, symlinks=True)

    def again(self) -> None:
        shutil.rmtree(self._directory)
        shutil.copytree(self._kept, self._directory, symlinks=True)

    def journal(self) -> UndoJournal:
        """As a new process has it."""
        return UndoJournal(self._undo)


def fail_at(call: int, names: tuple[str, ...] = CHANGING) -> None:
    """In a child: killed right before the so-many-th call that changes something; a write is begun first."""
    left = call

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def one(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        return one

    for name in names:
        setattr(os, name, dying(name, getattr(os, name)))


@contextlib.contextmanager
def forked(work: Callable[[], object]) -> Iterator[int]:
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    yield child


def was_killed(child: int) -> bool:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def act(journal: UndoJournal, action: str) -> None:
    outcome = journal.undo() if action == "undo" else journal.redo()
    assert outcome.conflicts == []


def dies_at(call: int, stage: Stage, action: str, names: tuple[str, ...] = CHANGING) -> None:
    fail_at(call, names)
    act(stage.journal(), action)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("next_one", ["undo", "redo"])
@pytest.mark.parametrize("killed", ["undo", "redo"])
def test_killed_at_every_call_that_changes_something(stage: Stage, killed: str, next_one: str) -> None:
    act(stage.journal(), "undo")
    undone = picture(stage.root)
    if killed == "undo":
        act(stage.journal(), "redo")
        assert picture(stage.root) == stage.done
    stage.keep()
    expected = {"undo": undone, "redo": stage.done}
    # Every other one here, and the others with the other direction: it takes as long as it must, not longer.
    for call in range(1 + (next_one == "redo"), 1000, 2):
        with forked(partial(dies_at, call, stage, killed)) as child:
            if not was_killed(child):
                assert call > 40, "it takes more than that"
                break
        other = {"undo": "redo", "redo": "undo"}[next_one]
        act(stage.journal(), next_one)
        assert picture(stage.root) == expected[next_one], call
        act(stage.journal(), other)
        assert picture(stage.root) == expected[other], call
        stage.again()
    else:
        pytest.fail("it never came to its end")


@pytest.mark.thorough
@pytest.mark.parametrize("first", ["undo", "redo"])
def test_killed_on_the_way_and_again_on_the_way_back(tmp_path: Path, first: str) -> None:
    """Permissions of directories are others while they are filled: neither way takes those for a person's."""
    second = {"undo": "redo", "redo": "undo"}[first]
    stage = Stage(tmp_path, ("chmod 500 closed; rm -r lost; mkdir made; chmod 711 made",))
    act(stage.journal(), "undo")
    expected = {"undo": picture(stage.root), "redo": stage.done}
    if first == "undo":
        act(stage.journal(), "redo")
    stage.keep()
    changing = ("mkdir", "rmdir", "chmod")
    both = 0
    for calls in itertools.product(range(1, 6), repeat=2):
        killed = []
        for action, call in zip((first, second), calls, strict=True):
            with forked(partial(dies_at, call, stage, action, changing)) as child:
                killed.append(was_killed(child))
        both += all(killed)
        for action in (first, second):
            act(stage.journal(), action)
            assert picture(stage.root) == expected[action], calls
        stage.again()
    assert both > 3


@pytest.mark.thorough
def test_killed_again_and_again_at_random_moments(stage: Stage) -> None:
    """Whatever was killed before, in whichever direction: one that is let through leads to one side or the
    other."""
    rng = random.Random(7)
    act(stage.journal(), "undo")
    undone = picture(stage.root)
    expected = {"undo": undone, "redo": stage.done}
    kills = 0
    while kills < 25:
        for _ in range(rng.randint(1, 3)):
            action = rng.choice(["undo", "redo"])
            with forked(partial(act, stage.journal(), action)) as child:
                time.sleep(rng.uniform(0, 0.02))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                kills += was_killed(child)
        action = rng.choice(["undo", "redo"])
        act(stage.journal(), action)
        assert picture(stage.root) == expected[action]


def test_a_temporary_file_of_somebody_else_is_left_alone(stage: Stage) -> None:
    """Only what is surely of an undo that was killed is tidied away."""
    theirs = stage.root / ".coder-0123456789ab.tmp"
    theirs.write_bytes(b"not what undo writes\n")
    with forked(partial(dies_at, 25, stage, "undo")) as child:
        assert was_killed(child)
    act(stage.journal(), "undo")
    assert [path.name for path in stage.root.rglob("*.tmp")] == [theirs.name]


@pytest.mark.thorough
def test_coder_killed_in_the_middle_of_undo(project: Project) -> None:
    line = "for i in $(seq 300); do echo new > f$i; done"
    call = {"calls": [{"name": "bash", "arguments": {"command": line}}]}
    for number in range(1, 301):
        project.write(f"f{number}", "old\n")
    with ScriptedServer([call, {"text": "ok"}]) as server:
        project.coder("--once", "go", "--mode", "yolo", url=server.url)
        contents = [project.cwd / f"f{number}" for number in range(1, 301)]
        assert {path.read_text() for path in contents} == {"new\n"}
        child = project.started("--continue", "--once", "/undo", url=server.url)
        try:
            deadline = time.monotonic() + 30
            while all(path.read_text() == "new\n" for path in contents):
                assert time.monotonic() < deadline
        finally:
            child.kill()
            child.communicate()
        project.coder("--continue", "--once", "/undo", url=server.url)
        assert {path.read_text() for path in contents} == {"old\n"}
        assert sorted(path.name for path in project.cwd.iterdir()) == sorted(
            [".coder", *(path.name for path in contents)]
        )
        assert list(project.cwd.rglob("*.tmp")) == []
        project.coder("--continue", "--once", "/redo", url=server.url)
        assert {path.read_text() for path in contents} == {"new\n"}
