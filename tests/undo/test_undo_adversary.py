"""Someone tries to lose a byte: random walks of two sessions whose commands stash, move, delete and rewrite,
at the same time or one after the other, with a person's edits and undo, redo and restarts in between.

PathState to all along: a preview changes nothing and says what is then done; a refusal changes nothing; what
nobody touched since is given back to the byte; what somebody did is not taken away unless asked; redo leads
back.
"""

from __future__ import annotations

import os
import random
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from coder.base.files import replace_file
from coder.history.undo.journal import UndoJournal, UndoOutcome
from coder.history.undo.shell_changes import ShellUndo

Entry = tuple[str, int, bytes]
Picture = dict[str, Entry]
FILES = ["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "g", "x.log"]
COMMANDS = [
    *(
        "git stash -q",
        "git stash pop -q",
        "git stash -q -u",
        "git checkout -q -f .",
        "git checkout -q -f main",
    ),
    *("git checkout -q -B other", "git add -A", "git commit -qam {n}", "git reset -q --hard HEAD~1"),
    *(
        "git clean -fdq",
        "git mv {a} {b}",
        "mv {a} {b}",
        "mv d moved",
        "mv moved d",
        "rm -rf {d}",
        "rm -f {a}",
    ),
    *("sed -i 's/two/TWO{n}/' {a}", "sed -i 1d {a}", "echo more >> {a}", "echo {n} > {a}", ": > {a}"),
    *("cp {a} {b}", "ln -sf g {b}", "ln -f {a} hard", "echo {n} >> hard", "chmod 600 {a}", "chmod 755 {a}"),
    *("rm -rf {a}; mkdir {a}; echo in > {a}/in", "rm -rf {d}; echo flat > {d}", "mkdir -p {d}/new/deep"),
    *("tar cf t.tar d; rm -rf d; tar xf t.tar", "touch -r {a} {b}; echo z >> {b}", "exit 3", "true"),
]
GIT = {
    f"GIT_{who}_{what}": "x@example.org" if what == "EMAIL" else "x"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def picture(root: Path) -> Picture:
    found: Picture = {}
    for directory, directories, files in os.walk(root):
        if ".git" in directories:
            directories.remove(".git")
        for path in (Path(directory, name) for name in (*directories, *files)):
            mode = path.lstat().st_mode
            name = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                found[name] = ("link", 0, os.fsencode(path.readlink()))
            elif stat.S_ISDIR(mode):
                found[name] = ("folder", stat.S_IMODE(mode), b"")
            else:
                found[name] = ("file", stat.S_IMODE(mode), path.read_bytes())
    return found


class Session:
    """One of the two; `turns`: the tree before and after those that nobody else's command fell into."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name, self.turn = directory, name, 0
        self.turns: dict[int, tuple[Picture, Picture]] = {}
        self.start()

    def start(self) -> None:
        self.journal = UndoJournal(self.directory / "home" / "undo" / self.name)
        self.journal.begin_turn(self.turn)
        self.shell = ShellUndo(self.directory / "ws", self.directory / "home", self.journal)

    def restart(self) -> None:
        self.shell.close()
        self.start()

    def begin(self) -> None:
        self.turn += 1
        self.journal.begin_turn(self.turn)


class Walk:
    """A workspace under git with two sessions in it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root = directory / "ws"
        self.number = 0
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("one\ntwo\nthree\nfour\nfive\n", encoding="utf-8")
        self.sh("git init -q -b main; git add -A; git commit -qm one")
        self.sessions = [Session(directory, "ann"), Session(directory, "bob")]

    def sh(self, line: str) -> None:
        environment = {**os.environ, **GIT, "HOME": str(self.root.parent)}
        subprocess.run(
            ["/bin/sh", "-c", line], cwd=self.root, env=environment, capture_output=True, check=False
        )

    def line(self) -> str:
        self.number += 1
        pick = self.rng.choice
        names = {"a": pick(FILES), "b": pick(FILES), "d": pick(["d", "d/e", "moved"]), "n": self.number}
        return pick(COMMANDS).format(**names)

    def alone(self, session: Session, other: Session) -> None:
        session.begin()
        before = picture(self.root)
        for _ in range(self.rng.randint(1, 3)):
            if self.rng.random() < 0.25:
                self.tool(session)
                continue
            line = self.line()
            session.shell.before(line)
            self.sh(line)
            session.shell.after()
        session.turns[session.turn] = (before, picture(self.root))

    def together(self, session: Session, other: Session) -> None:
        """Both commands at once, in one order or another; or a tool of the other within a command."""
        session.begin()
        other.begin()
        mine, theirs = self.line(), self.line()
        session.shell.before(mine)
        order = self.rng.randint(0, 2)
        if order == 0:
            self.sh(mine)
            self.tool(other)
            session.shell.after()
            return
        other.shell.before(theirs)
        self.sh(mine)
        first, second = (session, other) if order == 1 else (other, session)
        first.shell.after()
        self.sh(theirs if first is session else self.line())
        second.shell.after()

    def tool(self, session: Session) -> None:
        path = self.root / self.rng.choice(FILES)
        if path.is_dir() or path.is_symlink() or os.path.realpath(path.parent) != str(path.parent):
            return  # what the real tools refuse
        self.number += 1
        try:
            session.journal.before_change(path, b"tool %d\n" % self.number)
            replace_file(path, b"tool %d\n" % self.number)
        except (NotADirectoryError, FileExistsError):
            return

    def person(self, session: Session, other: Session) -> None:
        files = [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]
        files = sorted(path for path in files if ".git" not in path.parts)
        if files:
            path = self.rng.choice(files)
            self.number += 1
            path.write_bytes(path.read_bytes() + b"by hand %d\n" % self.number)

    def restart(self, session: Session, other: Session) -> None:
        session.restart()

    def undo(self, session: Session, other: Session) -> None:
        count = self.rng.randint(1, 2)
        now = picture(self.root)
        previewed = session.journal.preview(count)
        assert picture(self.root) == now
        outcomes = session.journal.undo_turns(count)
        assert previewed == outcomes
        left = picture(self.root)
        if not outcomes or outcomes[0].refused:
            assert left == now
            return
        if len(outcomes) == 1 and outcomes[0].turn in session.turns:
            self.check(session.turns[outcomes[0].turn], now, left, outcomes[0])
        done = [outcome for outcome in outcomes if not outcome.refused]
        session.journal.redo_turns(len(done))
        assert picture(self.root) == now
        if self.rng.random() < 0.7:
            session.journal.undo_turns(len(done))
            assert picture(self.root) == left

    def check(self, turn: tuple[Picture, Picture], now: Picture, left: Picture, outcome: UndoOutcome) -> None:
        before, after = turn
        spared = [*outcome.kept, *outcome.uncovered, *outcome.merged]
        apart = [str(Path(path).relative_to(self.root)) for path in spared]
        for name in {*before, *after, *now, *left}:
            if any(name == path or name.startswith(f"{path}/") for path in apart):
                continue
            if now.get(name) == after.get(name):
                assert left.get(name) == before.get(name), name
            elif left.get(name) != now.get(name):  # somebody else's by now: at most the bits go back
                assert parts(left.get(name)) <= parts(now.get(name)) | parts(before.get(name)), name

    def redo(self, session: Session, other: Session) -> None:
        now = picture(self.root)
        outcomes = session.journal.redo_turns(self.rng.randint(1, 2))
        if not outcomes or outcomes[0].refused:
            assert picture(self.root) == now


def parts(entry: Entry | None) -> set[object]:
    return set(entry) if entry else {None}


@pytest.fixture
def walk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Walk]:
    found = Walk(tmp_path, request.param)
    yield found
    for session in found.sessions:
        session.shell.close()


@pytest.mark.parametrize("walk", range(12), indirect=True)
def test_no_byte_is_lost(walk: Walk) -> None:
    acts = [walk.alone, walk.together, walk.person, walk.undo, walk.redo, walk.restart]
    for _ in range(10):
        session, other = walk.rng.sample(walk.sessions, 2)
        act = walk.rng.choices(acts, [6, 3, 3, 5, 2, 1])[0]
        act(session, other)
    for session in walk.sessions:
        walk.undo(session, session)
