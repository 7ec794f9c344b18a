"""`/undo` and `/redo` as typed: what they say and record, whom they tell, whose work they spare."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from typed import played, said

from coder.protocol.events import CommandDone, ToolOutput
from coder.protocol.ops import Cancel, UserInput
from kit import ScriptedServer
from kit.calls import bash, write
from kit.driving import Driver, Project, drive, left_running, of

LINES = "one\ntwo\nthree\nfour\nfive\n"


def resumed(project: Project, driver: Driver, *inputs: str) -> Driver:
    with ScriptedServer([{"text": "told"}] * 3) as server:
        again = drive(project, server.url, inputs, resume=driver.engine.agent.session.id)
        again.chats = server.chats
    return again


def files(project: Project) -> dict[str, str]:
    found = (p for p in project.cwd.rglob("*") if p.is_file() and ".coder" not in p.parts)
    return {str(p.relative_to(project.cwd)): p.read_text() for p in found}


@pytest.mark.parametrize("word", ["show", "?"])
def test_show_tells_all_that_undo_then_does_and_changes_nothing(project: Project, word: str) -> None:
    project.write("edited", "old\n")
    project.write("merged", LINES)
    project.write("huge", b"x" * (9 << 20))
    line = "echo new > edited; sed -i s/two/TWO/ merged; mkdir made; echo x > made/file; echo y >> huge"
    driver = played(project, [[bash(line)]])
    project.write("merged", LINES.replace("two", "TWO").replace("five", "five by hand"))
    project.write("made/mine", "by hand\n")
    before = files(project)
    shown = resumed(project, driver, f"/undo {word}")
    assert files(project) == before
    (preview,) = said(shown)
    for text in (
        "turn 1",
        "  restore edited",
        "  remove made/file",
        "  take the change out of merged, and keep what changed later",
        "  kept made:",
        "  not covered: huge",
    ):
        assert text in preview, text
    done = resumed(project, driver, "/undo")
    (told,) = said(done)
    for text in (
        "  restored edited",
        "  removed made/file",
        "  took the change out of merged, and kept what changed later",
        "  kept made:",
        "  not covered: huge",
    ):
        assert text in told, text
    assert told.splitlines()[-1] == "/redo puts these changes back."
    assert len(told.splitlines()) - 1 == len(preview.splitlines()) == 6
    left = {name: text for name, text in files(project).items() if name != "huge"}
    assert left == {
        "edited": "old\n",
        "merged": LINES.replace("five", "five by hand"),
        "made/mine": "by hand\n",
    }


def test_caches_are_counted_and_a_new_folder_is_no_riddle(project: Project) -> None:
    """They are taken back as everything else, but nobody reads their names."""
    line = "mkdir -p made/__pycache__ .pytest_cache; echo x > made/a.py; echo p > made/__pycache__/a.pyc"
    driver = played(project, [[bash(f"{line}; echo c > .pytest_cache/v")]])
    listed, whole, turn, undone = said(
        resumed(project, driver, "/diff", "/diff session", "/diff turn 1", "/undo")
    )
    for text in (listed, whole, turn, undone):
        assert "made/a.py" in text
        assert "pycache" not in text
        assert "pytest" not in text
        assert any(f"  … and {n} cache files" in text.splitlines() for n in (2, 4))  # with their folders
        assert "was not kept" not in text
    assert files(project) == {}


THREE = [[write("a", "1\n")], [write("b", "2\n")], [bash("echo 3 > c; rm a")]]


def test_several_turns_back_and_forth_across_restarts(project: Project) -> None:
    driver = played(project, THREE)
    end = files(project)
    assert end == {"b": "2\n", "c": "3\n"}
    shown, undone = said(resumed(project, driver, "/undo show 2", "/undo 2"))
    assert [line for line in shown.splitlines() if "turn" in line] == [
        "/undo would undo the file changes of turn 3:",
        "/undo would undo the file changes of turn 2:",
    ]
    assert files(project) == {"a": "1\n"}
    assert ["turn 3" in undone, "turn 2" in undone, "turn 1" in undone] == [True, True, False]
    resumed(project, driver, "/undo")
    assert files(project) == {}
    first, rest = said(resumed(project, driver, "/redo", "/redo 5"))
    assert files(project) == end
    assert "Redid the file changes of turn 1" in first
    assert "Redid the file changes of turn 2" in rest
    assert "Redid the file changes of turn 3" in rest
    assert [line for line in rest.splitlines() if line.startswith("  ")] == [
        "  redid b",
        "  redid c",
        "  removed a again",
    ]
    assert said(resumed(project, driver, "/redo")) == ["There is nothing to redo."]
    resumed(project, driver, "/undo 99")
    assert files(project) == {}


def test_every_undo_and_redo_is_recorded(project: Project) -> None:
    played(project, THREE, "/undo 2", "/redo")
    events = project.of_type("undo")
    turns = [
        (e["meta"]["action"], e["meta"].get("undone_turn"), e["meta"].get("redone_turn")) for e in events
    ]
    assert turns == [("undo", 3, None), ("undo", 2, None), ("redo", None, 2)]
    root = project.cwd
    assert events[0]["meta"]["restored"] == [str(root / "a")]
    assert events[0]["meta"]["removed"] == [str(root / "c")]


def test_the_model_is_told_of_each_also_after_a_restart(project: Project) -> None:
    driver = played(project, THREE, "/undo", "/undo")
    again = resumed(project, driver, "/redo", "what now?", "and now?")
    first, second = again.chats
    told = first["messages"][-1]["content"]
    assert told.startswith("what now?")
    for text in ("undone the file changes of turn 3", "undone the file changes of turn 2", "turn 2", "again"):
        assert text in told
    assert told.index("turn 3") < told.index("turn 2")
    assert "undone" not in second["messages"][-1]["content"]  # once is enough


def test_what_stands_in_the_way_is_named_and_nothing_is_lost(project: Project) -> None:
    driver = played(project, THREE)
    project.write("b", "mine\n")
    shown, undone = said(resumed(project, driver, "/undo show 3", "/undo 3"))
    assert "would refuse turn 2" in shown
    assert "Turn 2 was not undone" in undone
    assert "\n  b\n" in undone
    assert files(project) == {"a": "1\n", "b": "mine\n"}  # turn 3 is undone, turn 2 and 1 are not
    again = resumed(project, driver, "/undo 2 force")
    assert files(project) == {}
    kept = said(again)[0].split("kept in ")[1].split()[0]
    assert Path(kept).read_text(encoding="utf-8") == "mine\n"
    resumed(project, driver, "/redo 2")
    assert files(project) == {"a": "1\n", "b": "mine\n"}


def test_a_redo_over_a_person_s_change_is_refused_with_names(project: Project) -> None:
    driver = played(project, [[write("a", "1\n")]], "/undo")
    project.write("a", "mine\n")
    again = resumed(project, driver, "/redo")
    (done,) = of(again.seen, CommandDone)
    assert not done.ok
    assert "\n  a\n" in done.text
    assert files(project) == {"a": "mine\n"}
    resumed(project, driver, "/redo force")
    assert files(project) == {"a": "1\n"}


@pytest.mark.parametrize(
    "line", ["/undo all", "/undo -1", "/undo 0", "/undo show me", "/redo show", "/redo x"]
)
def test_words_that_mean_nothing_change_nothing(project: Project, line: str) -> None:
    driver = played(project, [[write("a", "1\n")]], line)
    (done,) = of(driver.seen, CommandDone)
    assert not done.ok
    assert done.text.startswith("Usage: /")
    assert files(project) == {"a": "1\n"}


def test_the_person_s_own_commands_are_not_covered_and_named(project: Project) -> None:
    lines = ("!ls", "!echo mine > own", "/undo show", "/undo", "/undo")  # what only looks is not named
    _, _, shown, undone, nothing = said(played(project, [[write("a", "1\n")]], *lines))
    for text in (shown, undone, nothing):
        assert "you ran them: !echo mine > own" in text
    assert "nothing to undo" in nothing
    assert files(project) == {"own": "mine\n"}


def test_in_a_process_without_a_terminal_it_is_the_same(project: Project) -> None:
    project.write("a", "old\n")
    with ScriptedServer([{"calls": [bash("echo new > a")]}, {"text": "ok"}]) as server:
        project.coder("--once", "go", "--mode", "yolo", url=server.url)
        shown = project.coder("--continue", "--once", "/undo show", url=server.url)
        assert (project.cwd / "a").read_text() == "new\n"
        undone = project.coder("--continue", "--once", "/undo", url=server.url)
        assert (project.cwd / "a").read_text() == "old\n"
        redone = project.coder("--continue", "--once", "/redo", "--lang", "zh", url=server.url)
        project.write("a", "mine\n")
        refused = project.coder("--continue", "--once", "/undo", url=server.url)
    assert (shown.returncode, undone.returncode, redone.returncode, refused.returncode) == (0, 0, 0, 1)
    assert "  restore a" in shown.stdout
    assert "  restored a" in undone.stdout
    assert "重做" in redone.stdout
    assert "\n  a\n" in refused.stdout + refused.stderr


@pytest.mark.thorough
def test_a_killed_command_of_which_nothing_is_known_any_more_is_named(project: Project) -> None:
    """What there was before it is lost: nobody can tell what it had changed; that is said, and not passed
    over."""
    line = "echo half > made; while :; do sleep 0.05; done"
    with ScriptedServer([{"calls": [write("a", "1\n")]}, {"calls": [bash(line)]}]) as server:
        process = project.started("--once", "go", "--mode", "yolo", url=server.url)
        try:
            wait_for(project.cwd / "made")
        finally:
            process.kill()
            process.communicate()
        for path in (project.home / ".coder" / "trees").glob("*/open/*/base"):
            path.unlink()
        shown = project.coder("--continue", "--once", "/undo", url=server.url)
    assert "  removed a" in shown.stdout
    assert f"Not covered, since the session was killed while they ran: {line}" in shown.stdout
    with ScriptedServer([{"calls": [bash("touch b")]}, {"text": "ok"}]) as server:
        project.coder("--continue", "--once", "go", "--mode", "yolo", url=server.url)
        later = project.coder("--continue", "--once", "/undo", url=server.url)
        further = project.coder("--continue", "--once", "/undo show", url=server.url)
    assert "  removed b" in later.stdout
    assert "not covered" not in later.stdout  # that turn is covered
    assert f"Not covered, since the session was killed while they ran: {line}" in further.stdout


# what else happens in a turn


def test_a_turn_that_was_cancelled_within_a_command_can_be_undone(project: Project) -> None:
    project.write("a", "old\n")
    project.write("gone", "needed\n")

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        driver.start()

        def cancel(event: object) -> None:
            if isinstance(event, ToolOutput) and "half-way" in event.text:
                driver.engine.submit(Cancel())

        driver.engine.submit(UserInput("go"))
        await driver.until_idle(watch=cancel)
        assert files(project) == {"a": "new\n", "made": "x\n"}  # a cancel takes nothing back by itself
        await driver.send("/undo")
        await driver.close()
        return driver

    line = "echo new > a; rm gone; echo x > made; echo half-way; sleep 60; echo never > never"
    with ScriptedServer([{"calls": [bash(line)]}]) as server:
        asyncio.run(scenario(server.url))
    assert files(project) == {"a": "old\n", "gone": "needed\n"}


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_child_left_behind_writes_nothing_after_the_turn(project: Project, sandbox: str) -> None:
    project.configure(sandbox={"mode": sandbox})
    mark = f"writer-{sandbox}-of-the-test"
    loop = "while :; do echo more >> grown; done"
    line = f"setsid bash -c '{loop}' {mark} > /dev/null 2>&1 & until test -s grown; do :; done"
    played(project, [[bash(line)]], "/undo")
    assert left_running(mark) == []
    assert files(project) == {}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 25
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def test_a_subagent_s_commands_are_undone_with_the_turn(project: Project) -> None:
    """Two at once: the second's command begins when the first's has done half of its work."""
    project.write("left", "old\n")
    project.write("right", "old\n")

    def shell(own: str, other: str) -> dict[str, Any]:
        met = f"echo new > {own}; touch {own}.met; until test -e {other}.met; do sleep 0.01; done"
        return {"calls": [bash(f"{met}; echo more >> {own}")]}

    turns: dict[str, list[Any]] = {
        "do-left": [shell("left", "right"), {"text": "ok"}],
        "do-right": [shell("right", "left"), {"text": "ok"}],
        "main": [
            {
                "calls": [
                    {"name": "task", "arguments": {"agent": "general", "objective": f"do-{side}"}}
                    for side in ("left", "right")
                ]
            },
            {"text": "both"},
        ],
    }

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        first = next(m["content"] for m in request["messages"] if m["role"] == "user")
        name = next((n for n in turns if n in first), "main")
        if name == "do-right":
            wait_for(project.cwd / "left.met")
        turn: dict[str, Any] = turns[name].pop(0)
        return turn

    with ScriptedServer([answer] * 8) as server:
        driver = drive(project, server.url, ["go", "/undo show", "/undo"], mode="yolo", preset="yolo")
    assert files(project) == {"left": "old\n", "right": "old\n"}
    shown, _ = said(driver)
    assert "restore left" in shown
    assert "restore right" in shown


def test_two_sessions_in_one_directory_spare_each_other_s_later_edits(project: Project) -> None:
    project.write("shared", LINES)
    project.write("both", "start\n")
    sed = "sed -i s/two/TWO/ shared; echo first > both; mkdir made; echo 1 > made/one"
    one = played(project, [[bash(sed)]])
    two = played(project, [[bash("sed -i s/five/FIVE/ shared; echo 2 > made/two")]])
    assert "took the change out of shared" in said(resumed(project, one, "/undo"))[0]
    assert files(project) == {"shared": LINES.replace("five", "FIVE"), "both": "start\n", "made/two": "2\n"}
    resumed(project, two, "/undo")
    assert files(project) == {"shared": LINES, "both": "start\n"}
    assert not (project.cwd / "made" / "two").exists()
    resumed(project, one, "/redo")
    three = played(project, [[bash("echo third > both")]])
    refused = resumed(project, one, "/undo")
    assert "\n  both\n" in said(refused)[0]
    assert (project.cwd / "both").read_text() == "third\n"
    resumed(project, three, "/undo")
    resumed(project, one, "/undo")
    assert files(project) == {"shared": LINES, "both": "start\n"}


def test_what_a_mode_s_command_did_goes_with_its_turn(project: Project) -> None:
    mode = "---\nkind: instant\ndescription: d\n---\n!`echo by-mode > made; echo ok`\nGo on.\n"
    directory = project.home / ".coder" / "modes"
    directory.mkdir(parents=True)
    (directory / "prep.md").write_text(mode, encoding="utf-8")
    with ScriptedServer([{"calls": [write("a", "1\n")]}, {"text": "ok"}]) as server:
        driver = drive(project, server.url, ["/prep", "/undo"], mode="yolo", preset="yolo")
    assert "removed made" in said(driver)[-1]
    assert files(project) == {}
