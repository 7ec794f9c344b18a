"""Undo after any changes by tools and by a person: all is put back, or nothing and the files are named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.record.undo import KEPT_TURNS, UndoJournal
from coder.tools.storing import replace_file

NAMES = ["a", "b", "new/deep/c", "na\udcefve"]
CONTENTS = [b"", b"one\n", b"two\r\n\xff", b"three"]
MODES = [0o644, 0o755, 0o600]

names, contents, modes = st.sampled_from(NAMES), st.sampled_from(CONTENTS), st.sampled_from(MODES)
Held = tuple[bytes, int]
World = dict[str, Held]

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
    """A folder with files in it, and a journal beside it."""

    def __init__(self, folder: str, start: dict[str, Held]) -> None:
        self.root = Path(folder) / "root"
        self.root.mkdir()
        self.journal = UndoJournal(Path(folder) / "undo")
        for name, (content, mode) in start.items():
            change_by_person(self.root / name, content, mode)


starts = st.dictionaries(names, st.tuples(contents, modes))


@given(starts, st.lists(by_tool, min_size=1, max_size=6))
def test_undo_of_what_only_tools_changed_is_the_identity(
    start: World, changes: list[tuple[str, str, bytes | None, int | None]]
) -> None:
    with TemporaryDirectory() as folder:
        place = Place(folder, start)
        before = world(place.root)
        place.journal.begin_turn(1)
        for _, name, after, mode in changes:
            change_by_tool(place.journal, place.root / name, after, mode)
        again = UndoJournal(place.journal.folder)  # a restart in between
        outcome = again.undo()
        assert outcome.conflicts == []
        assert outcome.turn == 1
        assert world(place.root) == before
        if "new/deep/c" not in start:
            assert not (place.root / "new").exists()  # folders that the turn made go as well
        assert again.undo().turn == 0


@given(starts, st.lists(by_tool, min_size=1, max_size=5), st.lists(by_person, max_size=3), st.booleans())
def test_a_person_s_later_change_is_never_lost_silently(
    start: World,
    changes: list[tuple[str, str, bytes | None, int | None]],
    later: list[tuple[str, str, bytes | None, int]],
    force: bool,
) -> None:
    with TemporaryDirectory() as folder:
        place = Place(folder, start)
        before = world(place.root)
        place.journal.begin_turn(1)
        held = {name: {before[name][0]} if name in before else set() for name in NAMES}
        for _, name, after, mode in changes:
            change_by_tool(place.journal, place.root / name, after, mode)
            held[name] |= {after} if after is not None else set()
        for _, name, content, bits in later:
            change_by_person(place.root / name, content, bits)
        now = world(place.root)
        touched = {name for _, name, _, _ in changes}
        outcome = place.journal.undo()
        if outcome.conflicts:
            assert world(place.root) == now  # all or nothing
            named = {relative(path, place.root) for path in outcome.conflicts}
            assert named <= touched
            assert named <= {name for _, name, _, _ in later}
            if not force:
                return
            outcome = place.journal.undo(force=True)
            copies = {Path(copy).read_bytes() for copy in outcome.kept_copies}
            replaced = {n for n in named & set(now) if bytes_of(world(place.root), n) != now[n][0]}
            assert {now[name][0] for name in replaced} <= copies
        merged = {relative(path, place.root) for path in outcome.merged}
        kept = {Path(copy).read_bytes() for copy in outcome.kept_copies}
        after_undo = world(place.root)
        for name in touched - merged:
            left = bytes_of(after_undo, name)
            own = name in now and now[name][0] not in held[name]  # nothing that the turn ever saw
            allowed = [bytes_of(before, name), *([now[name][0]] if own else [])]
            assert left in allowed
            assert not own or left == now[name][0] or now[name][0] in kept
        for name in set(now) - touched:
            assert after_undo[name] == now[name]


def relative(path: str, root: Path) -> str:
    return str(Path(os.fsdecode(path.encode("utf-8", "surrogateescape"))).relative_to(root))


def bytes_of(found: World, name: str) -> bytes | None:
    return found[name][0] if name in found else None


@given(st.lists(st.lists(by_tool, min_size=1, max_size=3), min_size=1, max_size=4))
def test_turns_are_undone_one_by_one(turns: list[list[tuple[str, str, bytes | None, int | None]]]) -> None:
    with TemporaryDirectory() as folder:
        place = Place(folder, {"a": (b"start", 0o644)})
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


def test_a_folder_where_the_file_was_is_a_conflict(place: Place) -> None:
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
    outcome = UndoJournal(place.journal.folder).undo()
    assert (outcome.turn, outcome.conflicts, outcome.restored) == (1, [], [])
    assert (place.root / "a").read_bytes() == b"one\n"


def test_a_kill_within_a_line_of_the_journal(place: Place) -> None:
    place.journal.begin_turn(1)
    change_by_tool(place.journal, place.root / "a", b"two", None)
    manifest = place.journal.folder / "turn-000001.jsonl"
    manifest.write_bytes(manifest.read_bytes() + b'{"path": "/some')
    outcome = UndoJournal(place.journal.folder).undo()
    assert outcome.conflicts == []
    assert world(place.root) == {"a": (b"one\n", 0o644)}


def test_old_turns_are_forgotten_and_their_contents_with_them(place: Place) -> None:
    for number in range(1, KEPT_TURNS + 6):
        place.journal.begin_turn(number)
        change_by_tool(place.journal, place.root / "a", b"turn %d" % number, None)
    contents = list((place.journal.folder / "objects").iterdir())
    assert len(contents) <= 2 * KEPT_TURNS
    undone = 0
    while place.journal.undo().turn:
        undone += 1
    assert undone == KEPT_TURNS
    assert (place.root / "a").read_bytes() == b"turn 5"
