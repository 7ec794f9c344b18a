"""Undo restores everything a turn changed or refuses, and never overwrites a person's later change."""

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
    """Pruning old turns keeps the blob of a change that no manifest names yet."""
    project.write("precious", "only copy\n")
    turns = [[write(f"new{n}", f"{n}\n")] for n in range(3)] + [[edit("new0", "0", "zero")]]
    turns += [[write(f"more{n}", f"{n}\n")] for n in range(16)]
    driver = played(project, [*turns, [edit("precious", "only copy", "overwritten")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / "precious").read_text() == "only copy\n"


def test_twenty_turns_that_only_make_files_do_not_stop_the_next_one(project: Project) -> None:
    """Pruning works where no blob was ever stored."""
    played(project, [[write(f"f{n}", "x\n")] for n in range(21)])
    results = [event for event in project.of_type("observation") if event["meta"]["tool"] == "write"]
    assert [event["content"] for event in results if not event["meta"]["ok"]] == []


def test_refuses_whole_where_a_made_file_has_become_a_directory(project: Project) -> None:
    """A created file that has become a directory is a conflict: nothing is undone."""
    project.write("a", "one\n")
    driver = played(project, [[edit("a", "one", "two"), write("made", "new\n")]])
    (project.cwd / "made").unlink()
    project.write("made/mine.txt", "a person's\n")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "a").read_text() == "two\n", "half of the turn was undone"
    assert "made" in str(told.text)


def test_a_person_s_chmod_is_not_taken_back_silently(project: Project) -> None:
    """A later chmod by the person is a conflict."""
    path = project.write("run.sh", "echo one\n")
    path.chmod(0o644)
    driver = played(project, [[edit("run.sh", "one", "two")]])
    path.chmod(0o755)
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok or stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_person_s_link_in_place_of_a_deleted_file_stays(project: Project) -> None:
    """A symlink that the person put in place of a deleted file is a conflict."""
    project.write("gone", "text\n")
    patch = "*** Begin Patch\n*** Delete File: gone\n*** End Patch\n"
    driver = played(project, [[{"name": "patch", "arguments": {"patch": patch}}]])
    (project.cwd / "gone").symlink_to("made-later")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "gone").is_symlink()


def test_a_file_with_a_long_name_can_be_undone(project: Project) -> None:
    """The temporary name fits where the file's own name has the maximal length (255 bytes)."""
    name = "n" * 245 + ".txt"
    project.write(name, "one\n")
    driver = played(project, [[edit(name, "one", "two")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / name).read_text() == "one\n"


def test_what_the_turn_s_own_command_did_to_its_file_is_no_person_s_change(project: Project) -> None:
    """A formatter that the model ran in the same turn is part of the turn, not a conflict."""
    project.write("a", "one\n")
    driver = played(project, [[edit("a", "one", "two"), bash("echo formatted >> a")]], "/undo")
    assert last_said(driver).ok, last_said(driver).text
    assert (project.cwd / "a").read_text() == "one\n"


def test_a_failed_put_back_leaves_nothing_half_undone(project: Project) -> None:
    """Undo is all or nothing: here a parent directory has become a file."""
    project.write("a", "one\n")
    project.write("sub/b", "one\n")
    patch = "*** Begin Patch\n*** Delete File: sub/b\n*** End Patch\n"
    driver = played(project, [[edit("a", "one", "two"), {"name": "patch", "arguments": {"patch": patch}}]])
    (project.cwd / "sub").rmdir()
    project.write("sub", "now a file\n")
    told = last_said(resumed(project, driver, "/undo"))
    assert not told.ok
    assert (project.cwd / "a").read_text() == "two\n", "half of the turn was undone"
