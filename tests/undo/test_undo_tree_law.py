"""The law of undo: after any mixture of file tools, commands and a person's own edits, undo gives back the
tree byte for byte, or refuses, names the files and changes nothing; a person's words are never lost."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.base.files import replace_file
from coder.history.undo.journal import UndoJournal
from coder.history.undo.plan import three_way
from coder.history.undo.shell_changes import ShellUndo

pytestmark = pytest.mark.thorough


Picture = dict[str, tuple[str, int, bytes]]
NAMES = ["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "g"]
START = {"a.txt": "one\ntwo\nthree\nfour\nfive\n", "d/c.txt": "c\n" * 5, "d/e/f.txt": "", "bin": "\0\1"}

COMMANDS = [
    "echo more >> {a}",
    "echo fresh > {a}",
    "rm -f {a}",
    "rm -rf {d}",
    "mkdir -p {d}/new/deep && echo x > {d}/new/deep/file",
    "mv {a} {b}",
    "mv d moved",
    "mv moved d",
    "cp {a} {b}",
    "ln -sf {a} {b}",
    "ln -f {a} hard && echo linked >> hard",
    "echo through >> hard",
    "chmod 755 {a}",
    "chmod 700 d",
    "mkdir {d}/empty",
    "rm -rf {a} && mkdir {a} && echo in > {a}/in",
    "rm -rf {d} && echo flat > {d}",
    "sed -i 's/two/TWO/' a.txt",
    "true > {a}; true > {b}",
    "ln -s nowhere dangling",
    "rm -rf d && ln -s ../elsewhere d",
    "for i in 1 2 3; do echo $i > n$i; done",
    "mkfifo pipe",
    "rm -f pipe",
    "printf 'tail without newline' >> {a}",
    "printf '\\0\\377' >> bin; cp bin {a}",
    "mv bin {b}; mkdir -p d/e/empty",
    "mv {a} {a}.old && cp {a}.old {a}",
    "chmod 000 {a}; chmod 555 d",
]


def picture(root: Path) -> Picture:
    found: Picture = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(directory, name)
            info = path.lstat()
            mode = stat.S_IMODE(info.st_mode)
            key = str(path.relative_to(root))
            if stat.S_ISLNK(info.st_mode):
                found[key] = ("link", 0, os.fsencode(path.readlink()))
            elif stat.S_ISDIR(info.st_mode):
                found[key] = ("folder", mode, b"")
            elif stat.S_ISREG(info.st_mode):
                found[key] = ("file", mode, path.read_bytes())
            else:
                found[key] = ("other", mode, b"")
    return found


class Workshop:
    """A workspace with a journal; the three kinds of people who change files in it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "ws"
        self.root.mkdir(parents=True)
        (directory / "elsewhere" / "e").mkdir(parents=True)  # what links out of the workspace lead to
        (directory / "elsewhere" / "c.txt").write_text("not ours\n", encoding="utf-8")
        for name, text in START.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.journal = UndoJournal(directory / "undo")
        self.shell = ShellUndo(self.root, directory / "home", self.journal)
        self.tokens = 0

    def tool(self, name: str, text: str) -> None:
        path = self.root / name
        if path.is_dir() or path.is_symlink() or os.path.realpath(path.parent) != str(path.parent):
            return  # what the real tools refuse
        try:
            self.journal.before_change(path, text.encode("utf-8"))
            replace_file(path, text.encode("utf-8"))
        except NotADirectoryError:
            return
        except FileExistsError:
            return

    def command(self, line: str) -> None:
        self.shell.before(line)
        subprocess.run(["/bin/sh", "-c", line], cwd=self.root, capture_output=True, check=False)
        self.shell.after()

    def person(self, name: str, at_end: bool) -> str | None:
        """A line of their own, at the top or at the end of a file; None where there is no such file."""
        path = self.root / name
        if not path.is_file() or path.is_symlink() or os.path.realpath(path) != str(path):
            return None
        self.tokens += 1
        token = f"by hand {self.tokens}"
        old = path.read_bytes()
        path.write_bytes(old + f"{token}\n".encode() if at_end else f"{token}\n".encode() + old)
        return token

    def text(self) -> bytes:
        return b"\n".join(entry[2] for entry in picture(self.root).values())


@contextmanager
def workshop() -> Iterator[Workshop]:
    directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="undo-")))
    shop = Workshop(directory)
    try:
        yield shop
    finally:
        shop.shell.close()
        shutil.rmtree(directory)


names = st.sampled_from(NAMES)
commands = st.builds(
    lambda line, a, b, d: line.format(a=a, b=b, d=d),
    st.sampled_from(COMMANDS),
    names,
    names,
    st.sampled_from(["d", "d/e", "moved"]),
)
tools = st.tuples(st.just("tool"), names, st.sampled_from(["", "x\n", "one\nTWO\nthree\nfour\nfive\n"]))
shells = st.tuples(st.just("shell"), commands, st.just(""))
people = st.tuples(st.just("person"), names, st.sampled_from(["top", "end"]))
Act = tuple[str, str, str]


def act(shop: Workshop, one: Act) -> str | None:
    kind, what, how = one
    if kind == "tool":
        shop.tool(what, how)
    elif kind == "shell":
        shop.command(what)
    else:
        return shop.person(what, how == "end")
    return None


def lasting(found: Picture) -> Picture:
    """Without pipes: one that is gone cannot be made again, and undo names it."""
    return {name: entry for name, entry in found.items() if entry[0] != "other"}


walks = st.lists(st.tuples(st.sampled_from(["undo", "redo"]), st.integers(1, 3)), max_size=5)


@settings(max_examples=60)
@given(st.lists(st.lists(st.one_of(tools, shells), min_size=1, max_size=5), min_size=1, max_size=3), walks)
def test_undo_gives_back_the_tree_and_redo_the_work(
    turns: list[list[Act]], walk: list[tuple[str, int]]
) -> None:
    """Wherever undo and redo go among the turns, the tree is, byte for byte, what it was there."""
    with workshop() as shop:
        pictures = {0: lasting(picture(shop.root))}
        for number, acts in enumerate(turns, 1):
            shop.journal.begin_turn(number)
            for one in acts:
                act(shop, one)
            if {p.name for p in shop.journal.directory.glob(f"turn-{number:06d}.jsonl")}:
                pictures[number] = lasting(picture(shop.root))
        stops = sorted(pictures)  # turns that changed nothing are passed over
        at = len(stops) - 1
        for direction, count in [*walk, ("undo", len(turns))]:
            shop.journal = UndoJournal(shop.journal.directory)  # another process goes on
            if direction == "undo":
                previewed = shop.journal.preview(count)
                outcomes = shop.journal.undo_turns(count)
                assert previewed == outcomes
                at = max(0, at - count)
            else:
                outcomes = shop.journal.redo_turns(count)
                at = min(len(stops) - 1, at + count)
            assert not any(outcome.conflicts or outcome.kept for outcome in outcomes)
            assert all(path.endswith("/pipe") for outcome in outcomes for path in outcome.uncovered)
            assert lasting(picture(shop.root)) == pictures[stops[at]]


@settings(max_examples=80)
@given(
    st.lists(st.one_of(tools, shells, people), min_size=1, max_size=6),
    st.lists(people, max_size=2),
)
def test_what_a_person_wrote_is_never_lost(acts: list[Act], later: list[Act]) -> None:
    with workshop() as shop:
        shop.journal.begin_turn(1)
        for one in acts:
            act(shop, one)
        tokens = [token for one in later if (token := act(shop, one))]
        present = [token for token in tokens if token.encode() in shop.text()]
        before = picture(shop.root)
        outcome = shop.journal.undo()
        if outcome.conflicts:
            assert picture(shop.root) == before
            assert all(Path(path).is_relative_to(shop.root) for path in outcome.conflicts)
        assert all(token.encode() in shop.text() for token in present)


class Conflict(Exception):
    """The law says that undo must refuse, and name this path."""


def left_of(start: bytes | None, end: bytes | None, now: bytes) -> bytes:
    """A file that a person changed after the turn: the turn's change is taken out of it, or refused."""
    if start == end or now == start:
        return now
    merged = three_way(end, now, start) if start is not None and end is not None else None
    if merged is None:
        raise Conflict
    return merged


def bytes_of(found: Picture, name: str) -> bytes | None:
    return found[name][2] if name in found and found[name][0] == "file" else None


def law(start: Picture, end: Picture, now: Picture) -> tuple[Picture, set[str]]:
    """The tree after an undo that is not refused, and the files that would make it refuse."""
    wanted, conflicts = dict(start), set()
    for name in (n for n in now if now[n] != end.get(n)):
        kind, mode, content = now[name]
        assert kind == "file", "a person only writes into files here"
        try:
            content = left_of(bytes_of(start, name), bytes_of(end, name), content)
        except Conflict:
            conflicts.add(name)
            continue
        wanted[name] = (kind, start[name][1] if name in start else mode, content)
    return wanted, conflicts


@settings(max_examples=100)
@given(st.lists(st.one_of(tools, shells), min_size=1, max_size=4), st.lists(people, min_size=1, max_size=2))
def test_the_law_of_undo_after_a_person_s_changes(acts: list[Act], later: list[Act]) -> None:
    """Exactly: the tree is what the law says, or nothing is done and exactly the files in the way are named;
    forced, those are what they were, and a copy is kept."""
    with workshop() as shop:
        start = lasting(picture(shop.root))
        shop.journal.begin_turn(1)
        for one in acts:
            act(shop, one)
        end = lasting(picture(shop.root))
        for one in later:
            act(shop, one)
        now = lasting(picture(shop.root))
        wanted, conflicts = law(start, end, now)
        previewed = shop.journal.preview()
        outcome = shop.journal.undo()
        assert previewed == ([outcome] if outcome.turn else [])
        assert {str(Path(path).relative_to(shop.root)) for path in outcome.conflicts} == conflicts
        if conflicts:
            assert lasting(picture(shop.root)) == now
            outcome = shop.journal.undo(force=True)
            kept = [Path(copy).read_bytes() for copy in outcome.kept_copies]
            assert all(now[name][2] in kept for name in conflicts)
        assert lasting(picture(shop.root)) == wanted
        assert not shop.journal.redo().conflicts
        assert lasting(picture(shop.root)) == now
