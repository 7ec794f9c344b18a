"""`/undo`: a whole turn, across restarts, and never over what a person changed since."""

from __future__ import annotations

import stat
from pathlib import Path

from typed import played

from coder.protocol.events import CommandDone
from kit import ScriptedServer
from kit.calls import edit, read, write
from kit.driving import Driver, Project, drive, of


def said(driver: Driver) -> list[CommandDone]:
    return of(driver.seen, CommandDone)


def test_takes_back_all_of_the_last_turn(project: Project) -> None:
    script = project.write("run.sh", b"#!/bin/sh\r\necho one\r\n")
    script.chmod(0o755)
    project.write("gone.txt", "still needed\n")
    patch = "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n"
    calls = [
        edit("run.sh", "echo one", "echo two"),
        edit("run.sh", "echo two", "echo three"),
        write("deep/er/new.txt", "new\n"),
        {"name": "patch", "arguments": {"patch": patch}},
    ]
    driver = played(project, [calls], "/undo")
    assert script.read_bytes() == b"#!/bin/sh\r\necho one\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert (project.cwd / "gone.txt").read_text() == "still needed\n"
    assert not (project.cwd / "deep").exists()
    text = str(said(driver)[-1].text)
    assert all(name in text for name in ("run.sh", "gone.txt", "deep/er/new.txt"))
    assert project.of_type("undo")[0]["meta"]["undone_turn"] == 1


def test_one_turn_at_a_time_and_then_nothing(project: Project) -> None:
    driver = played(project, [[write("a", "1\n")], [edit("a", "1", "2")]], "/undo", "/undo", "/undo")
    assert not (project.cwd / "a").exists()
    assert [e.ok for e in said(driver)] == [True, True, True]
    assert "nothing to undo" in str(said(driver)[-1].text)


def test_a_person_s_later_change_is_not_overwritten(project: Project) -> None:
    project.write("a", "one\n")
    project.write("b", "one\n")
    first = played(project, [[edit("a", "one", "two"), edit("b", "one", "two")]])
    project.write("a", "mine\n")
    session = first.engine.agent.session.id
    with ScriptedServer([]) as server:
        refused = drive(project, server.url, ["/undo"], resume=session)
        assert (project.cwd / "a").read_text() == "mine\n"
        assert (project.cwd / "b").read_text() == "two\n"  # all or nothing
        assert not said(refused)[-1].ok
        assert "\n  a\n" in str(said(refused)[-1].text)
        forced = drive(project, server.url, ["/undo force"], resume=session)
    assert (project.cwd / "a").read_text() == "one\n"
    assert (project.cwd / "b").read_text() == "one\n"
    kept = str(said(forced)[-1].text).split("kept in ")[1].split()[0]
    assert Path(kept).read_text(encoding="utf-8") == "mine\n"


def test_survives_a_restart(project: Project) -> None:
    project.write("a", "one\n")
    first = played(project, [[edit("a", "one", "two")]])
    with ScriptedServer([]) as server:
        drive(project, server.url, ["/undo"], resume=first.engine.agent.session.id)
    assert (project.cwd / "a").read_text() == "one\n"


def test_the_model_is_told(project: Project) -> None:
    driver = played(project, [[write("a", "1\n")]], "/undo", "what now?")
    last = driver.chats[-1]["messages"][-1]["content"]
    assert "undone" in last
    assert "a" in last


def test_a_turn_without_edits_is_passed_over(project: Project) -> None:
    played(project, [[write("a", "1\n")], [read("a")]], "/undo")
    assert not (project.cwd / "a").exists()


def test_nothing_to_undo_says_so(project: Project) -> None:
    driver = played(project, [], "/undo")
    assert "nothing to undo" in str(said(driver)[0].text)
