"""Undo, attacked: each test is a rule of SPEC §1.1 / seed 001 §7 that the engine breaks."""

from __future__ import annotations

import stat
from typing import Any

from coder.protocol.events import CommandDone
from kit import ScriptedServer
from kit.calls import bash, edit, write
from kit.driving import Driver, Project, drive, of


def played(project: Project, turns: list[list[dict[str, Any]]], *inputs: str, **options: Any) -> Driver:
    """One turn for each list of calls, then the further inputs."""
    script: list[dict[str, Any]] = []
    for each in turns:
        script += [{"calls": [one]} for one in each] + [{"text": "done"}]
    project.configure(workflow={"auto_verify_after_edit": False})
    with ScriptedServer([*script, {"text": "told"}]) as server:
        return drive(project, server.url, [*["go"] * len(turns), *inputs], mode="yolo", **options)


def resumed(project: Project, driver: Driver, *inputs: str) -> Driver:
    with ScriptedServer([]) as server:
        return drive(project, server.url, inputs, resume=driver.engine.agent.session.id)


def last_said(driver: Driver) -> CommandDone:
    done: CommandDone = of(driver.seen, CommandDone)[-1]
    return done


def test_the_21st_turn_s_undo_still_has_what_the_file_held(project: Project) -> None:
    """SPEC §1.1: undo restores what the turn changed. `UndoJournal.before_change` keeps the blob, then calls
    `_forget_old`, which deletes every blob that no manifest names yet: the one just kept included."""
    project.write("precious", "only copy\n")
    turns = [[write(f"new{n}", f"{n}\n")] for n in range(3)] + [[edit("new0", "0", "zero")]]
    turns += [[write(f"more{n}", f"{n}\n")] for n in range(16)]
    driver = played(project, [*turns, [edit("precious", "only copy", "overwritten")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / "precious").read_text() == "only copy\n"


def test_twenty_turns_that_only_make_files_do_not_stop_the_next_one(project: Project) -> None:
    """SPEC §6: `write` writes. `UndoJournal._forget_old` lists `objects/`, which does not exist where no file
    was ever replaced; the 21st turn's first write is refused with "cannot keep … for undo"."""
    played(project, [[write(f"f{n}", "x\n")] for n in range(21)])
    results = [event for event in project.of_type("observation") if event["meta"]["tool"] == "write"]
    assert [event["content"] for event in results if not event["meta"]["ok"]] == []


def test_refuses_whole_where_a_made_file_has_become_a_folder(project: Project) -> None:
    """SPEC §1.1: refuses, saying which files, and all or nothing. `UndoJournal._in_conflict` takes a folder
    for "not there" (`_digest_of` is None for both), so the undo starts and breaks off half-way."""
    project.write("a", "one\n")
    driver = played(project, [[edit("a", "one", "two"), write("made", "new\n")]])
    (project.cwd / "made").unlink()
    project.write("made/mine.txt", "a person's\n")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "a").read_text() == "two\n", "half of the turn was undone"
    assert "made" in told.text


def test_a_person_s_chmod_is_not_taken_back_silently(project: Project) -> None:
    """SPEC §1.1: refuses rather than overwrite what a person changed since. `_in_conflict` compares digests
    only, `_put_back` then sets the bits of before the turn."""
    path = project.write("run.sh", "echo one\n")
    path.chmod(0o644)
    driver = played(project, [[edit("run.sh", "one", "two")]])
    path.chmod(0o755)
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok or stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_person_s_link_in_place_of_a_deleted_file_stays(project: Project) -> None:
    """SPEC §1.1: a link that the person put where the turn deleted a file is replaced without a word:
    `_digest_of` reads through it, gets nothing, and takes the path for still deleted."""
    project.write("gone", "text\n")
    patch = "*** Begin Patch\n*** Delete File: gone\n*** End Patch\n"
    driver = played(project, [[{"name": "patch", "arguments": {"patch": patch}}]])
    (project.cwd / "gone").symlink_to("made-later")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "gone").is_symlink()


def test_a_file_with_a_long_name_can_be_undone(project: Project) -> None:
    """SPEC §1.1: `write_atomically` (record/files.py) makes its temporary name longer than the file's own, so
    that a name the file tools could change (255 bytes are allowed) cannot be put back."""
    name = "n" * 245 + ".txt"
    project.write(name, "one\n")
    driver = played(project, [[edit(name, "one", "two")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / name).read_text() == "one\n"


def test_what_the_turn_s_own_command_did_to_its_file_is_no_person_s_change(project: Project) -> None:
    """SPEC §1.1: only what a *person* changed *since* the turn is a conflict. A formatter that the model
    ran in the same turn is part of the turn; the journal knows only what the file tool wrote, so `/undo`
    refuses."""
    project.write("a", "one\n")
    driver = played(project, [[edit("a", "one", "two"), bash("echo formatted >> a")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / "a").read_text() == "one\n"


def test_a_failed_put_back_leaves_nothing_half_undone(project: Project) -> None:
    """SPEC §1.1 and the journal's own word ("all of it, or nothing"): `undo` puts files back one by one and
    stops at the first `OSError`, here a folder on the way that has become a file."""
    project.write("a", "one\n")
    project.write("sub/b", "one\n")
    patch = "*** Begin Patch\n*** Delete File: sub/b\n*** End Patch\n"
    driver = played(project, [[edit("a", "one", "two"), {"name": "patch", "arguments": {"patch": patch}}]])
    (project.cwd / "sub").rmdir()
    project.write("sub", "now a file\n")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "a").read_text() == "two\n", "half of the turn was undone"
