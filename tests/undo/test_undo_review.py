"""`/diff review`: hunks of the session or of a turn are kept or taken back one by one, merged past later
edits; redo does them again; what cannot be merged is refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_undo_one_turn import change_by_tool, content, world

from coder.base.diff import unified
from coder.history.undo.apply_steps import apply_steps
from coder.history.undo.journal import REVIEWS, UndoJournal
from coder.protocol.events import ApprovalRequested, CommandDone
from coder.protocol.ops import ApprovalReply
from coder.tools.text.hunks import Review, diff_of, hunks_of
from kit import ScriptedServer
from kit.driving import Driver, Project

SLOTS = 6
Decide = Callable[[ApprovalRequested], ApprovalReply]


def lines(*changed: int, word: str = "new") -> str:
    """Thirty lines; each of those changed is a hunk of its own."""
    return "".join(f"{word} {n}\n" if n in changed else f"line {n}\n" for n in range(30))


def write(path: str, text: str) -> dict[str, Any]:
    return {"calls": [{"name": "write", "arguments": {"path": path, "content": text}}]}


def read(path: str) -> dict[str, Any]:
    return {"calls": [{"name": "read", "arguments": {"path": path}}]}


WORK = [read("a.txt"), write("a.txt", lines(2, 15, 27)), write("new.txt", "made\n"), {"text": "done"}]


def keeping(*kept: int) -> Decide:
    """Keeps the hunks with these numbers."""

    def answer(event: ApprovalRequested) -> ApprovalReply:
        if event.tool != "review":
            return ApprovalReply(event.approval_id, "yes")
        amended = diff_of(hunk for at, hunk in enumerate(hunks_of(str(event.subject))) if at in kept)
        reply = "yes" if amended else "no"
        return ApprovalReply(event.approval_id, reply, "too much", amended=amended)  # type: ignore[arg-type] # of the two

    return answer


def play_deciding(
    project: Project, script: list[Any], *steps: str | Callable[[], Any], decide: Decide
) -> Driver:
    """Inputs, and what happens between them."""

    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start(project.logs()[0].stem if project.logs() else None)
        for step in steps:
            if isinstance(step, str):
                await driver.send(step, decide)
            else:
                step()
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(run(server.url))
        driver.chats = server.chats
    return driver


def said(driver: Driver) -> CommandDone:
    done = [event for event in driver.seen if isinstance(event, CommandDone)][-1]
    assert isinstance(done, CommandDone)
    return done


@pytest.fixture
def text(project: Project) -> Callable[[], str]:
    project.write("a.txt", lines())
    return lambda: (project.cwd / "a.txt").read_text(encoding="utf-8")


def test_each_hunk_is_kept_or_taken_back_and_redo_does_it_again(
    project: Project, text: Callable[[], str]
) -> None:
    driver = play_deciding(
        project, [*WORK, {"text": "ok"}], "go", "/diff review", "go on", decide=keeping(0, 2)
    )
    assert text() == lines(2, 27)
    assert not (project.cwd / "new.txt").exists()
    assert "/redo puts them back" in str(said(driver).text)
    told = driver.chats[-1]["messages"][-1]["content"]
    assert "taken back these parts of your changes\n- a.txt @@" in told
    assert "too much" in told  # the reason
    (entry,) = project.of_type("undo")
    assert [hunk.split()[0] for hunk in entry["meta"]["hunks"]] == ["a.txt", "new.txt"]
    assert [e["meta"].get("answer") for e in project.of_type("approval")][-2:] == [None, "yes"]
    driver = play_deciding(project, [], "/redo", decide=keeping())  # of the resumed session
    assert text() == lines(2, 15, 27)
    assert (project.cwd / "new.txt").read_text(encoding="utf-8") == "made\n"
    assert str(said(driver).text).startswith("Put these parts back")
    assert "There is nothing" in str(said(play_deciding(project, [], "/redo", decide=keeping())).text)


def test_taken_back_hunks_are_not_asked_about_again_and_undo_takes_the_rest(
    project: Project, text: Callable[[], str]
) -> None:
    play_deciding(project, WORK, "go", "/diff review", decide=keeping(0, 2, 3))
    asked: list[str] = []

    def all_of_it(event: ApprovalRequested) -> ApprovalReply:
        asked.append(str(event.subject))
        return ApprovalReply(event.approval_id, "yes")

    driver = play_deciding(project, [], "/diff review turn 1", decide=all_of_it)  # after a resume
    assert [hunk.path for hunk in hunks_of(asked[0])] == ["a.txt", "a.txt", "new.txt"]
    assert "new 15" not in asked[0]
    assert said(driver).text == "All parts are kept."
    play_deciding(project, [], "/undo", decide=keeping())
    assert text() == lines()
    assert not (project.cwd / "new.txt").exists()


def test_a_turn_that_was_taken_back_whole_has_nothing_left_to_undo(
    project: Project, text: Callable[[], str]
) -> None:
    for command in ("/undo show", "/undo"):
        inputs = ("go", "/diff review", command) if command == "/undo show" else (command,)
        driver = play_deciding(project, WORK, *inputs, decide=keeping())
        assert said(driver).text == "Turn 1 has no file changes left to undo."
    assert text() == lines()


def test_a_person_s_edit_of_other_lines_stays_and_of_the_same_lines_refuses_by_name(
    project: Project, text: Callable[[], str]
) -> None:
    path = project.cwd / "a.txt"

    def edited(old: str, new: str) -> Callable[[], Any]:
        return lambda: path.write_text(text().replace(old, new), encoding="utf-8")

    play_deciding(project, WORK, "go", edited("line 20", "mine"), "/diff review", decide=keeping(0, 2, 3))
    assert text() == lines(2, 27).replace("line 20", "mine")
    driver = play_deciding(project, [], edited("new 27", "mine too"), "/diff review", decide=keeping(0, 2))
    before = lines(2).replace("line 20", "mine").replace("line 27", "mine too")
    assert not said(driver).ok
    assert "a.txt" in str(said(driver).text)
    assert text() == before
    assert (project.cwd / "new.txt").exists()


def test_no_takes_all_back_and_yes_or_a_cancel_nothing(project: Project, text: Callable[[], str]) -> None:
    def yes(event: ApprovalRequested) -> ApprovalReply:
        return ApprovalReply(event.approval_id, "yes")

    play_deciding(project, WORK, "go", "/diff review", decide=yes)
    assert text() == lines(2, 15, 27)
    play_deciding(project, [], "/diff review", decide=keeping())
    assert text() == lines()
    assert not (project.cwd / "new.txt").exists()
    driver = play_deciding(project, [], "/diff review", decide=yes)
    assert said(driver).text == "This session has changed no file."


def test_without_a_person_it_is_only_shown(project: Project, text: Callable[[], str]) -> None:
    with ScriptedServer(WORK) as server:
        project.coder("--once", "go", "--mode", "auto-edit", url=server.url)
        name = project.logs()[0].stem
        done = project.coder("--once", "/diff review", "--resume", name, url=server.url)
        wrong = project.coder("--once", "/diff review turn 7", "--resume", name, url=server.url)
    assert "+new 15" in done.stdout
    assert "needs a terminal" in done.stdout
    assert text() == lines(2, 15, 27)
    assert "Turn 7 changed no file" in wrong.stdout + wrong.stderr


@pytest.mark.thorough
@settings(derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, SLOTS - 1)), min_size=1, max_size=8),
    st.lists(st.integers(0, SLOTS - 1), max_size=2),
    st.integers(0, 3),
    st.data(),
)
def test_laws(edits: list[tuple[int, int]], person: list[int], turn: int, data: st.DataObject) -> None:
    """What is taken back is as before the turn or the session, everything else stays byte for byte, redo
    restores the tree; or nothing is done and the file is named."""
    with TemporaryDirectory() as directory:
        root = Path(directory, "root")
        root.mkdir()
        path, journal = root / "a", UndoJournal(Path(directory, "undo", "s"))
        # Far apart, so that each slot is a hunk.
        slots = ["as it was"] * SLOTS
        make: Callable[[], bytes] = lambda: content([s for slot in slots for s in (slot, "-", "-", "-")])  # noqa: E731
        path.write_bytes(make())
        before: dict[int, list[str]] = {}
        after: dict[int, list[str]] = {}
        for number, (at_turn, slot) in enumerate(sorted(edits)):
            journal.begin_turn(at_turn)
            before.setdefault(at_turn, list(slots))
            slots[slot] = f"{number} of {at_turn}"
            after[at_turn] = list(slots)
            change_by_tool(journal, path, make())
        for slot in person:
            slots[slot] = f"person {slot}"
        path.write_bytes(make())
        start = world(root)
        files, left = journal.hunks(turn, lambda p: p.name)
        assert left == []
        if not files:
            return
        (file,) = files
        old = before[turn or min(before)]
        last = after[turn or max(after)]
        changed = [slot for slot in range(SLOTS) if old[slot] != last[slot]]
        chosen = data.draw(st.sets(st.sampled_from(file.places), min_size=1))
        outcome = journal.take_back([(file, dict.fromkeys(chosen))])
        spots = [changed[place] for place in chosen]
        if any(slots[spot] not in (last[spot], old[spot]) for spot in spots):
            assert outcome.conflicts == [str(path)]
            assert world(root) == start
            return
        assert outcome.conflicts == []
        assert outcome.turn >= REVIEWS
        for spot in spots:
            slots[spot] = old[spot]
        assert world(root) == {"a": make()}
        assert journal.turns() == sorted(before)
        assert UndoJournal(journal.directory).redo().turn == outcome.turn
        assert world(root) == start
        assert UndoJournal(journal.directory).redo().turn == 0


@given(st.data())
def test_what_is_taken_of_the_pieces_of_a_hunk_is_what_is_kept(data: st.DataObject) -> None:
    """Pieces make up their hunk; those that are left are unchanged lines of it."""
    line = st.sampled_from("abcd")
    old = data.draw(st.lists(line, max_size=12))
    new = data.draw(st.lists(line, max_size=12))
    ends = [data.draw(st.sampled_from(["", "\n"])) for _ in range(2)]
    texts = ["\n".join(side) + (end if side else "") for side, end in zip((old, new), ends, strict=True)]
    diff = unified(texts[0], texts[1], "a/f", "b/f").text(1000)
    review = Review(diff)
    event = ApprovalRequested("id", "call", "write", diff, "diff", [], can_always=False)
    hunks = list(review.hunks)
    choices: list[list[bool]] = []
    for hunk in hunks:
        assert [row for piece in hunk.pieces() for row in piece.body] == hunk.body
        choices.append([data.draw(st.booleans()) for _ in range(review.split())])
        for taken in choices[-1]:
            if taken:
                review.take()
            else:
                review.leave("")
    reply = review.reply(event)
    kept = {hunk.start: hunk for hunk in hunks_of(reply.amended)}
    for hunk, chosen in zip(hunks, choices, strict=True):
        if all(map(all, choices)):
            assert (reply.answer, reply.amended) == ("yes", "")
        elif not any(chosen):
            assert hunk.start not in kept
        else:
            assert hunk.kept_runs(kept[hunk.start]) == chosen


@pytest.mark.parametrize("action", ["undo", "redo"])
@pytest.mark.parametrize("applied", [False, True], ids=["before the files", "before the commit"])
def test_one_that_was_cut_off_is_completed_or_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, applied: bool
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    journal = UndoJournal(tmp_path / "undo" / "s")
    journal.begin_turn(1)
    (root / "a").write_text(lines(), encoding="utf-8")
    change_by_tool(journal, root / "a", lines(2, 15).encode())
    done = world(root)

    def dies(steps: Any) -> Any:
        if applied:
            apply_steps(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr("coder.history.undo.journal.apply_steps", dies)
    (file,), _ = journal.hunks(0, lambda path: path.name)
    with pytest.raises(KeyboardInterrupt):
        journal.take_back([(file, {1: None})])
    monkeypatch.undo()
    again = UndoJournal(journal.directory)
    outcome = again.undo() if action == "undo" else again.redo()
    assert outcome.turn >= REVIEWS
    assert world(root) == ({"a": lines(2).encode()} if action == "undo" else done)
    assert again.turns() == [1]
    if action == "undo":
        assert again.redo().turn == outcome.turn
        assert world(root) == done
    assert again.undo().turn == 1
    assert world(root) == {"a": lines().encode()}
