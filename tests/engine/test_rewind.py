"""`/rewind`: files and conversation go back to before an earlier message, and the record keeps both ways."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from coder.history.rewound import current_log, earlier_messages
from coder.protocol.events import CommandDone, SessionStarted, TodosChanged
from kit.calls import bash, call, edit, write
from kit.driving import Driver, Project, of, play
from kit.prefix import split
from kit.validity import check_conversation

SCRIPT = [
    {"calls": [write("a.txt", "one\n")]},
    {"text": "first done"},
    {"calls": [edit("a.txt", "one", "two")]},
    {"calls": [bash("echo made > b.txt")]},
    {"calls": [call("todowrite", todos=[{"content": "later", "status": "pending"}])]},
    {"text": "second done"},
]
INPUTS = ["make a", "change a"]


def session_of(driver: Driver) -> str:
    return driver.engine.agent.session.id


def replies(driver: Driver) -> list[Any]:
    return of(driver.seen, CommandDone)


def go(project: Project, script: list[Any], inputs: list[str], **options: Any) -> Driver:
    return play(project, script, inputs, mode="yolo", **options)


def texts(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


def grows(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """The provider's cache of the earlier request serves the later one."""
    (head, said), (head_after, said_after) = split("chat", before), split("chat", after)
    return head == head_after and said_after.startswith(said[:-1])


def test_files_and_conversation_go_back_and_the_old_prefix_is_sent_again(project: Project) -> None:
    driver = go(project, [*SCRIPT, {"text": "third"}], [*INPUTS, "/rewind 2", "another way"])
    assert (project.cwd / "a.txt").read_text() == "one\n"
    assert not (project.cwd / "b.txt").exists()
    (done,) = replies(driver)
    assert done.data == {"rewound_to": 2, "draft": "change a"}
    assert "restored a.txt" in done.text
    assert "removed b.txt" in done.text
    assert done.text.splitlines()[-1] == "/redo takes the rewind back."
    (todos,) = of(driver.seen, TodosChanged)[-1:]
    assert todos.todos == []
    before, after = driver.chats[1], driver.chats[-1]
    assert grows(before, after)  # all of the first turn, byte for byte
    assert "change a" not in texts(after)
    assert "turn 2" not in texts(after)
    assert "another way" in texts(after)
    kinds = [event["type"] for event in project.events()]
    assert kinds.count("rewind") == 1
    assert kinds.count("turn_start") == 3
    check_conversation(project.snapshot()["messages"])


@pytest.mark.parametrize("killed", [False, True])
def test_a_rewound_session_resumes_rewound(project: Project, killed: bool) -> None:
    driver = go(project, SCRIPT, [*INPUTS, "/rewind 2"])
    log = project.logs()[0]
    if killed:  # right after the rewind was written
        lines = log.read_bytes().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if b'"type":"rewind"' in line)
        log.write_bytes(b"".join(lines[: at + 1]))
    live = driver.engine.agent.session
    again = go(project, [{"text": "ok"}], ["go on"], resume=session_of(driver))
    assert grows(driver.chats[1], again.chats[0])
    assert "change a" not in texts(again.chats[0])
    (started,) = of(again.seen, SessionStarted)
    assert [turn.text for turn in started.recent] == ["make a"]
    assert again.engine.agent.session.log.turn == 3
    assert "b.txt" not in live.action_log.whole_text()
    assert "b.txt" not in again.engine.agent.session.action_log.whole_text()


def test_what_was_rewound_is_shown_exported_and_counted(project: Project) -> None:
    driver = go(project, SCRIPT, [*INPUTS, "/rewind 1"])
    session = session_of(driver)
    shown = project.coder("show", session).stdout
    assert "second done" in shown
    assert "rewound to before turn 1" in shown
    for flag, name in (("--html", "x.html"), ("--md", "x.md")):
        project.coder("export", session, flag, str(project.home / name))
        page = (project.home / name).read_text()
        assert "second done" in page
        assert "rewound to before turn 1" in page
    again = go(project, [{"text": "ok"}], ["hi"], resume=session)
    total = sum(e["meta"]["tokens"]["total"] for e in project.events() if e["type"] == "assistant")
    assert again.engine.agent.session.meter.usage.total == total  # what was spent stays spent
    assert [event.content for event in current_log(project.logs()[0]) if event.type == "turn_start"] == ["hi"]


def test_a_refused_undo_changes_nothing_and_offers_both_ways(project: Project) -> None:
    driver = go(project, SCRIPT, INPUTS)
    project.write("a.txt", "by hand\n")
    session = session_of(driver)
    refused = go(project, [{"text": "ok"}], ["/rewind 2", "go on"], resume=session)
    (done,) = replies(refused)
    assert not done.ok
    assert done.data == {"refused": ["a.txt"], "turn": 2}
    assert "/rewind 2 conversation" in done.text
    assert "/rewind 2 force" in done.text
    assert (project.cwd / "b.txt").exists()  # all or nothing
    assert "change a" in texts(refused.chats[0])
    copied = project.home / "copy"
    shutil.copytree(project.cwd, copied)
    conversation = go(project, [{"text": "ok"}], ["/rewind 2 conversation", "go on"], resume=session)
    assert (project.cwd / "a.txt").read_text() == "by hand\n"
    assert (project.cwd / "b.txt").exists()
    assert "change a" not in texts(conversation.chats[0])
    assert "Changed meanwhile, and kept: a.txt, b.txt." in texts(conversation.chats[0])
    shutil.rmtree(project.cwd)
    copied.rename(project.cwd)
    forced = go(project, [{"text": "ok"}], ["/rewind 2 force", "go on"], resume=session)
    assert (project.cwd / "a.txt").read_text() == "one\n"
    assert not (project.cwd / "b.txt").exists()
    assert "your version is kept" in replies(forced)[0].text


def test_redo_takes_a_rewind_back_also_after_a_restart(project: Project) -> None:
    driver = go(project, SCRIPT, [*INPUTS, "/rewind 2", "/rewind 1"])
    assert not (project.cwd / "a.txt").exists()
    again = go(project, [{"text": "ok"}], ["/redo", "/redo", "/redo", "go on"], resume=session_of(driver))
    assert (project.cwd / "a.txt").read_text() == "two\n"
    assert (project.cwd / "b.txt").exists()
    first, second, third = replies(again)
    assert first.ok
    assert second.ok
    assert "There is nothing to redo." in third.text
    assert grows(driver.chats[-1], again.chats[0])  # as if nothing had happened
    assert [todo.content for todo in again.engine.agent.session.context.todos] == ["later"]


def test_a_list_of_one_that_the_engine_made_is_not_shown(project: Project) -> None:
    long = "Please look at the whole project and say in a sentence what it is for."
    again = go(project, [{"text": "a"}, {"text": "b"}], ["first", long, "/rewind 2", "/redo"])
    assert len(again.engine.agent.session.context.todos) == 1
    assert of(again.seen, TodosChanged) == []


@pytest.mark.parametrize(
    ("line", "head"),
    [("/rewind conversation", "/rewind N conversation goes back"), ("/rewind force", "/rewind N goes back")],
)
def test_without_a_number_the_messages_are_listed(project: Project, line: str, head: str) -> None:
    (reply,) = replies(go(project, SCRIPT, [*INPUTS, line]))
    assert reply.ok
    assert reply.text.startswith(head)
    assert [one["turn"] for one in reply.data["messages"]] == [1, 2]


def test_before_a_compaction_the_whole_conversation_is_back(project: Project) -> None:
    script = [{"text": "answer one"}, {"text": "answer two"}, {"text": "SUMMARY"}, {"text": "three"}]
    driver = go(
        project, [*script, {"text": "four"}], ["say one", "say two", "/compact", "third", "/rewind 2", "new"]
    )
    assert "SUMMARY" in texts(driver.chats[-2])
    assert "SUMMARY" not in texts(driver.chats[-1])
    assert grows(driver.chats[0], driver.chats[-1])
    resumed = go(project, [{"text": "ok"}], ["more"], resume=session_of(driver))
    assert grows(driver.chats[-1], resumed.chats[0])


def test_settings_and_jobs_stay(project: Project) -> None:
    script = [
        {"text": "hi"},
        {"calls": [bash("sleep 600", background=True)]},
        {"text": "runs"},
        {"text": "ok"},
    ]
    project.write(".coder/modes/terse.md", "---\nkind: persistent\n---\nBe terse.\n")
    driver = go(project, script, ["one", "/terse", "/model other", "start it", "/rewind 1", "again"])
    last = texts(driver.chats[-1])
    assert "Be terse." in last
    assert driver.chats[-1]["model"] == "other"
    assert "Background jobs that run: 1 (sleep 600)." in last
    assert "1 (sleep 600)" in replies(driver)[-1].text


def test_the_list_and_wrong_words(project: Project) -> None:
    lines = ["/rewind 9", f"/rewind {'9' * 5000}", "/rewind x", "/rewind 1 2"]
    driver = go(project, SCRIPT, ["/rewind", *INPUTS, "/rewind", *lines])
    none, listed, missing, beyond, *wrong = replies(driver)
    assert none.data == {"messages": []}
    assert [(m["turn"], m["text"], m["changed"]) for m in listed.data["messages"]] == [
        (1, "make a", ["a.txt"]),
        (2, "change a", ["a.txt", "b.txt"]),
    ]
    lines = listed.text.splitlines()
    assert lines[1].split() == ["2", "change", "a", "·", "2", "files", "changed"]
    assert not missing.ok
    assert "1, 2" in missing.text
    assert not beyond.ok
    assert [one.data for one in wrong] == [{"usage": True}] * 2


def test_one_turn_mode_takes_the_op_too(project: Project) -> None:
    driver = go(project, SCRIPT, INPUTS)
    done = project.coder("--resume", session_of(driver), "--once", "/rewind 2", url="http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert (project.cwd / "a.txt").read_text() == "one\n"
    assert [one.text for one in earlier_messages(project.logs()[0])] == ["make a"]


def test_turns_that_undo_has_forgotten_are_named(project: Project) -> None:
    driver = go(project, SCRIPT, INPUTS)
    undo = next(Path(project.home / ".coder" / "undo").iterdir())
    for file in undo.glob("turn-*1*"):
        file.unlink()
    again = go(project, [{"text": "ok"}], ["/rewind 1", "go"], resume=session_of(driver))
    assert "No longer covered by undo" in replies(again)[0].text
    assert "Changed meanwhile, and kept: a.txt." in texts(again.chats[0])


def test_the_model_is_told_of_an_undo_of_a_turn_that_the_conversation_still_has(project: Project) -> None:
    inputs = [*INPUTS, "/undo", "/undo", "/rewind 2", "another way"]
    driver = go(project, [*SCRIPT, {"text": "third"}], inputs)
    after = texts(driver.chats[-1])
    assert "undone the file changes of turn 1" in after
    assert "undone the file changes of turn 2" not in after
