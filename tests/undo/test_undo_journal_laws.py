"""Undo after any changes by tools and by a person: all is put back, or nothing and the files are named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.base.files import replace_file
from coder.history.undo.journal import KEPT_TURNS, UndoJournal
from coder.history.undo.plan import three_way

NAMES = ["a", "b", "new/deep/c", "na\udcefve"]
LINES = b"1\n2\n3\n4\n5\n"
CONTENTS = [b"", b"one\n", b"two\r\n\xff", LINES, LINES.replace(b"2", b"two"), LINES + b"6", b"0\0\n" + LINES]
MODES = [0o644, 0o755, 0o600]

names, contents, modes = st.sampled_from(NAMES), st.sampled_from(CONTENTS), st.sampled_from(MODES)
PathState = tuple[bytes, int]
World = dict[str, PathState]

by_tool = st.tuples(st.just("tool"), names, st.none() | contents, st.none() | modes)
by_person = st.tuples(st.just("person"), names, st.none() | contents, modes)


def world(root: Path) -> World:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): (p.read_bytes(), stat.S_IMODE(p.stat().st_mode)) for p in found}


def change_by_tool(journal: UndoJournal, path: Path, after: bytes | None, mode: int | None) -> None:
    """As the file tools do it: the journal is told first."""
    journal.before_change(path, after, mode)
    if after is None:
        path.unlink(missing_ok=True)
    else:
        replace_file(path, after, mode)


def change_by_person(path: Path, after: bytes | None, mode: int) -> None:
    if after is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(after)
    path.chmod(mode)


class Place:
    """A directory with files in it, and a journal beside it."""

    def __init__(self, directory: str, start: dict[str, PathState]) -> None:
        self.root = Path(directory) / "root"
        self.root.mkdir()
        self.journal = UndoJournal(Path(directory) / "undo")
        for name, (content, mode) in start.items():
            change_by_person(self.root / name, content, mode)


starts = st.dictionaries(names, st.tuples(contents, modes))


@pytest.mark.thorough
@given(starts, st.lists(by_tool, min_size=1, max_size=6))
def test_undo_of_what_only_tools_changed_is_the_identity(
    start: World, changes: list[tuple[str, str, bytes | None, int | None]]
) -> None:
    with TemporaryDirectory() as directory:
        place = Place(directory, start)
        before = world(place.root)
        place.journal.begin_turn(1)
        for _, name, after, mode in changes:
            change_by_tool(place.journal, place.root / name, after, mode)
        again = UndoJournal(place.journal.directory)  # a restart in between
        outcome = again.undo()
        assert outcome.conflicts == []
        assert outcome.turn == 1
        assert world(place.root) == before
        if "new/deep/c" not in start:
            assert not (place.root / "new").exists()  # directories that the turn made go as well
        assert again.undo().turn == 0


class Conflict(Exception):
    """The law says that undo must refuse, and name this path."""


Left = tuple[bytes | None, int | None]  # what a tool left behind: bits are None where only the umask knew


def law(start: PathState | None, own: list[Left], now: PathState | None) -> PathState | None:
    """What a path must hold after undo: `own` is what the turn made of `start`, one after the other, and
    `now` what was found.

    All that the turn itself made goes back to `start`. Taking back is a change from the last of `own` to
    `start`; on what is someone else's it is applied by lines, and where that is not clean it is refused.
    Permission bits that a person has set since stay.
    """
    content = taken_back(start and start[0], [one for one, _ in own], now and now[0])
    if content is None:
        return None
    if now is None:
        assert start is not None
        return content, start[1]
    theirs = [bits for one, bits in own if one == now[0]] or [
        bits for one, bits in own[-1:] if one is not None
    ]
    as_left = any(bits in (None, now[1]) for bits in theirs)
    return content, now[1] if start is None or not as_left else start[1]


def taken_back(start: bytes | None, own: list[bytes | None], now: bytes | None) -> bytes | None:
    end = own[-1]
    if now in own:
        return start
    if now == start or start == end:
        return now
    if start is None or end is None or now is None:
        raise Conflict
    merged = three_way(end, now, start)
    if merged is None:
        raise Conflict
    return merged


def expected(start: World, own: dict[str, list[Left]], now: World) -> tuple[World, set[str]]:
    """The files after an undo that is not refused, and those that would make it refuse."""
    found, conflicts = {n: held for n, held in now.items() if n not in own}, set()
    for name in own:
        try:
            held = law(start.get(name), own[name], now.get(name))
        except Conflict:
            conflicts.add(name)
            held = start.get(name)  # what force gives
        if held is not None:
            found[name] = held
    return found, conflicts


@pytest.mark.thorough
@settings(max_examples=300)
@given(starts, st.lists(by_tool, min_size=1, max_size=5), st.lists(by_person, max_size=3))
def test_the_law_of_undo_after_a_person_s_changes(
    start: World,
    changes: list[tuple[str, str, bytes | None, int | None]],
    later: list[tuple[str, str, bytes | None, int]],
) -> None:
    """Exactly: every file is what the law says, and the refusal names exactly those that it must."""
    with TemporaryDirectory() as directory:
        place = Place(directory, start)
        before = world(place.root)
        place.journal.begin_turn(1)
        own: dict[str, list[Left]] = {}
        for _, name, after, mode in changes:
            made = not (place.root / name).exists()
            change_by_tool(place.journal, place.root / name, after, mode)
            bits = None if after is None or (made and mode is None) else world(place.root)[name][1]
            own.setdefault(name, []).append((after, bits))
        for _, name, content, bits in later:
            change_by_person(place.root / name, content, bits)
        now = world(place.root)
        wanted, conflicts = expected(before, own, now)
        previewed = place.journal.preview()
        outcome = place.journal.undo()
        assert previewed == [outcome]
        assert {relative(path, place.root) for path in outcome.conflicts} == conflicts
        if conflicts:
            assert world(place.root) == now  # all or nothing
            outcome = place.journal.undo(force=True)
            copies = {Path(copy).read_bytes() for copy in outcome.kept_copies}
            assert {now[name][0] for name in conflicts & set(now)} <= copies
        assert world(place.root) == wanted
        assert place.journal.undo().turn == 0
        assert place.journal.redo().conflicts == []
        assert world(place.root) == now  # redo∘undo = id, also of a forced one


def relative(path: str, root: Path) -> str:
    return str(Path(os.fsdecode(path.encode("utf-8", "surrogateescape"))).relative_to(root))


@pytest.mark.thorough
@given(st.lists(st.lists(by_tool, min_size=1, max_size=3), min_size=1, max_size=4))
def test_turns_are_undone_one_by_one(turns: list[list[tuple[str, str, bytes | None, int | None]]]) -> None:
    with TemporaryDirectory() as directory:
        place = Place(directory, {"a": (b"start", 0o644)})
        worlds = []
        for number, changes in enumerate(turns, 1):
            worlds.append(world(place.root))
            place.journal.begin_turn(number)
            for _, name, after, mode in changes:
                change_by_tool(place.journal, place.root / name, after, mode)
        for number, expected in reversed(list(enumerate(worlds, 1))):
            assert place.journal.undo().turn == number
            assert world(place.root) == expected
        assert place.journal.undo().turn == 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path), {"a": (b"one\n", 0o644)})


def test_a_directory_where_the_file_was_is_a_conflict(place: Place) -> None:
    place.journal.begin_turn(1)
    change_by_tool(place.journal, place.root / "a", b"two", None)
    change_by_tool(place.journal, place.root / "b", b"new", None)
    (place.root / "b").unlink()
    (place.root / "b").mkdir()
    (place.root / "b" / "mine").write_bytes(b"mine")
    outcome = place.journal.undo()
    assert outcome.conflicts == [str(place.root / "b")]
    assert (place.root / "a").read_bytes() == b"two"
    assert (place.root / "b" / "mine").read_bytes() == b"mine"


def test_a_kill_before_the_change_itself(place: Place) -> None:
    """The journal was told, the change was never made: there is nothing to put back, and no conflict."""
    place.journal.begin_turn(1)
    place.journal.before_change(place.root / "a", b"two")
    outcome = UndoJournal(place.journal.directory).undo()
    assert (outcome.turn, outcome.conflicts, outcome.restored) == (1, [], [])
    assert (place.root / "a").read_bytes() == b"one\n"


def test_a_kill_within_a_line_of_the_journal(place: Place) -> None:
    place.journal.begin_turn(1)
    change_by_tool(place.journal, place.root / "a", b"two", None)
    manifest = place.journal.directory / "turn-000001.jsonl"
    manifest.write_bytes(manifest.read_bytes() + b'{"path": "/some')
    outcome = UndoJournal(place.journal.directory).undo()
    assert outcome.conflicts == []
    assert world(place.root) == {"a": (b"one\n", 0o644)}


def test_old_turns_are_forgotten_and_their_contents_with_them(place: Place) -> None:
    for number in range(1, KEPT_TURNS + 6):
        place.journal.begin_turn(number)
        change_by_tool(place.journal, place.root / "a", b"turn %d" % number, None)
    contents = list((place.journal.directory / "objects").iterdir())
    assert len(contents) <= 2 * KEPT_TURNS
    undone = 0
    while place.journal.undo().turn:
        undone += 1
    assert undone == KEPT_TURNS
    assert (place.root / "a").read_bytes() == b"turn 5"
