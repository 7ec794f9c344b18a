"""`/undo turn N`: one earlier turn is taken back alone. What others changed stays byte for byte, or nothing
is done and the files are named; redo leads back, in the order of undoing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shop import Shop
from test_undo_tree_law import picture
from typed import played, said

from coder.history.undo.journal import UndoJournal
from coder.history.undo.journal_files import UNDOING
from coder.history.undo.shell_changes import ShellUndo
from kit import ScriptedServer
from kit.calls import bash, write
from kit.driving import Project, drive

SLOTS = 4
NAMES = ["a", "b", "sub/c"]


def world(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def change_by_tool(journal: UndoJournal, path: Path, after: bytes | None) -> None:
    """As the file tools do it: the journal is told first."""
    journal.before_change(path, after)
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)


class Edit(NamedTuple):
    """A line of a file gets a new text, by a tool or a command of a turn, or by a person."""

    turn: int
    by: str
    name: str
    slot: int


def content(slots: list[str]) -> bytes:
    """Each line that changes stands between lines that never do."""
    return "".join(f"above {n}\n{slot}\nbelow {n}\n" for n, slot in enumerate(slots)).encode()


class Place:
    def __init__(self, directory: str) -> None:
        self.root = Path(directory, "root")
        (self.root / "sub").mkdir(parents=True)
        self.journal = UndoJournal(Path(directory, "home", "undo", "s"))
        self.commands = ShellUndo(self.root, Path(directory, "home"), self.journal)
        self.slots = {name: ["as it was"] * SLOTS for name in NAMES}
        for name in NAMES:
            (self.root / name).write_bytes(content(self.slots[name]))

    def apply(self, edit: Edit, number: int) -> None:
        self.slots[edit.name][edit.slot] = f"{edit.by} {number} of turn {edit.turn}"
        after, path = content(self.slots[edit.name]), self.root / edit.name
        if edit.by == "tool":
            change_by_tool(self.journal, path, after)
        elif edit.by == "command":
            self.commands.before()
            path.write_bytes(after)
            assert self.commands.after().changed
        else:
            path.write_bytes(after)


def edits_in_turns() -> st.SearchStrategy[list[Edit]]:
    who = st.sampled_from(["tool", "command", "person"])
    edit = st.builds(Edit, st.integers(1, 4), who, st.sampled_from(NAMES), st.integers(0, SLOTS - 1))
    return st.lists(edit, min_size=1, max_size=10).map(lambda edits: sorted(edits, key=lambda e: e.turn))


@pytest.mark.thorough
@settings(derandomize=True)
@given(edits_in_turns(), st.integers(1, 4))
def test_what_is_not_of_the_turn_stays_or_it_is_refused_by_name(edits: list[Edit], turn: int) -> None:
    with TemporaryDirectory() as directory:
        place = Place(directory)
        wanted = {name: list(slots) for name, slots in place.slots.items()}
        own: set[tuple[str, int]] = set()
        blocked: set[str] = set()
        for number, edit in enumerate(edits):
            place.journal.begin_turn(edit.turn)
            place.apply(edit, number)
            spot = edit.name, edit.slot
            if edit.turn == turn and edit.by != "person":
                own.add(spot)
                continue
            if spot in own:  # changed again by somebody else
                blocked.add(edit.name)
            wanted[edit.name][edit.slot] = place.slots[edit.name][edit.slot]
        before = world(place.root)
        outcomes = UndoJournal(place.journal.directory).undo_turn(turn)
        place.commands.close()
        if not own:
            assert (outcomes, world(place.root)) == ([], before)
            return
        (outcome,) = outcomes
        if blocked:
            assert {Path(path).relative_to(place.root).as_posix() for path in outcome.conflicts} == blocked
            assert world(place.root) == before
            return
        assert outcome.conflicts == []
        assert world(place.root) == {name: content(slots) for name, slots in wanted.items()}
        assert UndoJournal(place.journal.directory).redo().turn == turn
        assert world(place.root) == before


LINES = [
    "echo more >> {a}",
    "echo fresh > {a}",
    "rm -rf {a}",
    "mkdir -p d/new && echo x > d/new/file",
    "mv {a} {b}",
    "mv d moved",
    "cp {a} {b}",
    "ln -sfn {a} {b}",
    "chmod 755 {a}",
    "rm -rf {a} && mkdir {a} && echo in > {a}/in",
    "rm -rf d && echo flat > d",
    "sed -i s/two/TWO/ a.txt",
    "printf '\\0' >> {a}",
]
PLACES = ["a.txt", "b.txt", "d/c.txt", "d"]


class Line(NamedTuple):
    turn: int
    by_person: bool
    text: str


def shell_lines() -> st.SearchStrategy[list[Line]]:
    place = st.sampled_from(PLACES)
    text = st.builds(lambda line, a, b: line.format(a=a, b=b), st.sampled_from(LINES), place, place)
    line = st.builds(Line, st.integers(1, 3), st.booleans(), text)
    return st.lists(line, min_size=1, max_size=6).map(lambda lines: sorted(lines, key=lambda one: one.turn))


@pytest.mark.thorough
@settings(max_examples=30, derandomize=True)
@given(shell_lines(), st.integers(1, 3))
def test_redo_leads_back_after_any_commands(lines: list[Line], turn: int) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(Path(directory))
        shop.put("a.txt", "one\ntwo\nthree\nfour\n")
        shop.put("d/c.txt", "c\n")
        for line in lines:
            shop.journal.begin_turn(line.turn)
            if not line.by_person:
                shop.shell.before(line.text)
            subprocess.run(
                ["/bin/sh", "-c", line.text], cwd=shop.root, stderr=subprocess.DEVNULL, check=False
            )
            if not line.by_person:
                shop.shell.after()
        before = picture(shop.root)
        file = shop.journal.files.turn(turn)
        own = shop.names([one.path for one in shop.journal.files.changes(file)]) if file.exists() else []
        outcomes = shop.journal.undo_turn(turn)
        shop.shell.close()
        after = picture(shop.root)
        changed = {name for name in before | after if before.get(name) != after.get(name)}
        assert {name for name in changed if not any(f"{one}/".startswith(f"{name}/") for one in own)} == set()
        if not outcomes or outcomes[0].refused:
            assert after == before
            return
        assert shop.journal.redo().turn == turn
        assert picture(shop.root) == before


def in_turns(tmp_path: Path, *turns: Callable[[Path], bytes | None]) -> tuple[Path, UndoJournal]:
    """Each makes a content of the file's path, in a turn of its own."""
    path = tmp_path / "root" / "file"
    path.parent.mkdir()
    journal = UndoJournal(tmp_path / "undo")
    for number, make in enumerate(turns, 1):
        journal.begin_turn(number)
        change_by_tool(journal, path, make(path))
    return path, journal


def test_a_change_that_was_reverted_and_made_again_later_is_the_later_turns(tmp_path: Path) -> None:
    path, journal = in_turns(tmp_path, lambda _: b"new\n", lambda _: None, lambda _: b"new\n")
    (outcome,) = journal.undo_turn(1)
    assert (outcome.conflicts, path.read_bytes()) == ([], b"new\n")
    assert journal.redo().turn == 1
    assert journal.undo().turn == 3
    assert not path.exists()


def test_a_file_that_a_later_turn_changed_is_not_removed(tmp_path: Path) -> None:
    path, journal = in_turns(tmp_path, lambda _: b"made\n", lambda p: p.read_bytes() + b"more\n")
    (outcome,) = journal.undo_turn(1)
    assert outcome.conflicts == [str(path)]
    assert path.read_bytes() == b"made\nmore\n"


def test_redo_goes_by_the_time_of_undoing(tmp_path: Path) -> None:
    root, journal = tmp_path / "root", UndoJournal(tmp_path / "undo")
    root.mkdir()
    for turn in range(1, 5):
        journal.begin_turn(turn)
        change_by_tool(journal, root / str(turn), b"x")
    order = [2, 4, 1, 3]
    states = []
    for turn in order:
        states.append(world(root))
        assert [one.turn for one in journal.undo_turn(turn)] == [turn]
    for turn in reversed(order):
        assert UndoJournal(journal.directory).redo().turn == turn
        assert world(root) == states.pop()


def cut_off(journal: UndoJournal, turn: int) -> None:
    """An undo of the turn is killed after its first file, which the turn had made."""
    found = journal.files.changes(journal.files.turn(turn))
    journal.files.begin(UNDOING, turn, [type(c)(c.path, c.after, c.before, by_tool=True) for c in found])
    Path(found[0].path).unlink()


def test_an_undo_of_an_early_turn_that_was_cut_off_is_finished_first(tmp_path: Path) -> None:
    root, journal = tmp_path / "root", UndoJournal(tmp_path / "undo")
    root.mkdir()
    for turn, name in ((1, "one"), (1, "other"), (2, "two")):
        journal.begin_turn(turn)
        change_by_tool(journal, root / name, b"x")
    cut_off(journal, 1)
    assert UndoJournal(journal.directory).undo().turn == 1
    assert sorted(world(root)) == ["two"]


def test_an_undo_of_an_early_turn_that_was_cut_off_leaves_what_a_later_one_made_again(tmp_path: Path) -> None:
    path, journal = in_turns(tmp_path, lambda _: b"new\n", lambda _: None, lambda _: b"new\n")
    other = path.with_name("other")
    other.write_bytes(b"x")
    journal.begin_turn(1)
    journal.before_change(other, b"y")
    journal.files.begin(UNDOING, 1, journal.files.changes(journal.files.turn(1))[1:])
    (outcome,) = UndoJournal(journal.directory).undo_turns(1)  # it was killed before it changed anything
    assert (outcome.turn, outcome.conflicts, outcome.removed) == (1, [], [])
    assert path.read_bytes() == b"new\n"


# as typed


def test_one_turn_is_taken_back_and_done_again(project: Project) -> None:
    project.write("poem", "".join(f"line {n}\n" for n in range(12)))
    turns = [
        [bash("sed -i 's/line 1$/FIRST/' poem; echo only > first")],
        [bash("sed -i 's/line 9/SECOND/' poem")],
        [write("third", "3\n")],
    ]
    inputs = ("/undo show turn 1", "/undo turn 1", "and now?", "/redo", "/diff turn 2", "/diff session")
    driver = played(project, turns, *inputs)
    shown, undone, redone, of_turn, of_session = said(driver)
    assert "take the change out of poem, and keep what changed later" in shown
    assert "took the change out of poem, and kept what changed later" in undone
    assert "removed first" in undone
    (entry, again) = project.of_type("undo")
    assert entry["meta"]["undone_turn"] == 1
    assert [Path(path).name for path in entry["meta"]["merged"]] == ["poem"]
    assert again["meta"]["redone_turn"] == 1
    told = str(driver.chats[-1]["messages"])
    assert "undone the file changes of turn 1" in told
    assert "Redid the file changes of turn 1" in redone
    text = (project.cwd / "poem").read_text()
    assert "FIRST" in text
    assert "SECOND" in text
    assert (project.cwd / "first").read_text() == "only\n"
    assert "+SECOND" in of_turn
    assert "FIRST" not in [line.strip("+-") for line in of_turn.splitlines() if line[:1] in "+-"]
    assert {"+FIRST", "+SECOND", "+only", "+3"} <= set(of_session.splitlines())


def test_a_turn_that_cannot_be_taken_out_is_refused_by_name(project: Project) -> None:
    project.write("poem", "one\n")
    driver = played(
        project,
        [[bash("echo two > poem")], [bash("echo three > poem")]],
        "/undo turn 1",
        "/undo show turn 1",
        "/undo turn 7",
    )
    refused, would, unknown = said(driver)
    assert "poem" in refused
    for answer in (refused, would):
        assert "/undo turn 1 force" in answer  # `/undo force` would take back another turn
    assert "1, 2" in unknown
    assert (project.cwd / "poem").read_text() == "three\n"
    assert project.of_type("undo") == []


def test_from_a_turn_on(project: Project) -> None:
    turns = [[write(name, "x\n")] for name in ("a", "b", "c")]
    played(project, turns, "/undo 2..")
    assert [one["meta"]["undone_turn"] for one in project.of_type("undo")] == [3, 2]
    assert (project.cwd / "a").exists()
    assert not (project.cwd / "b").exists()


@pytest.mark.parametrize("words", ["/undo 3..", "/rewind 3"])
def test_an_earlier_turn_whose_undo_was_cut_off_is_none_of_those_that_are_named(
    project: Project, words: str
) -> None:
    turns = [[write("a", "x\n"), write("a2", "x\n")], *([write(name, "x\n")] for name in ("b", "c", "d"))]
    driver = played(project, turns)
    session = driver.engine.agent.session
    cut_off(session.undo.journal, 1)
    inputs = [words, "/redo"] if words == "/rewind 3" else [f"/undo show {words[6:]}", words]
    with ScriptedServer([]) as server:
        again = drive(project, server.url, inputs, mode="yolo", resume=session.id)
    undone = [turn for one in project.of_type("undo") if (turn := one["meta"].get("undone_turn"))]
    assert undone == [1, 4, 3]
    left = {path.name for path in project.cwd.iterdir() if len(path.name) < 3}
    if words == "/rewind 3":  # the first turn's undo was asked for before: it is no part of the rewind
        assert left == {"b", "c", "d"}
    else:
        assert left == {"b"}
        assert all(f"of turn {turn}:" in said(again)[0] for turn in undone)


@pytest.mark.parametrize("words", ["turn", "turn x", "turn 1 2", "turn 2..", "2.. 3", "0..", "..", "x"])
def test_other_words_get_the_usage(project: Project, words: str) -> None:
    driver = played(project, [[write("a", "x\n")]], f"/undo {words}")
    assert said(driver)[0].startswith("Usage: /undo")
    assert (project.cwd / "a").exists()
