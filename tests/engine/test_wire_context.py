"""What is sent: how a context is put together, that it only grows, and where its tokens go."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from coder.context.conversation import TokenCounter
from coder.context.prompt import ROLE
from coder.engine.limits import LOOP_NOTE
from coder.protocol.events import Citation, CommandDone, Failed, MaxSessionTurns, TurnEnded
from kit.driving import Project, of, play
from kit.wire import asked, by_place, grows, main_chats, place_of, words

LIST = {"name": "list", "arguments": {}}


def test_the_system_prompt_is_short() -> None:
    assert TokenCounter("o200k_base").count(ROLE) < 400


def test_all_that_belongs_into_the_context_is_in_the_first_request(project: Project) -> None:
    project.write("AGENTS.md", "Indent with tabs.\n")
    project.write(".coder/memory.md", "- The build needs Java 21.\n")
    project.write(".claude/skills/brew/SKILL.md", "---\nname: brew\ndescription: How to brew.\n---\nBoil.\n")
    driver = play(project, [{"text": "ok"}], ["hi"])
    system, instructions, message = driver.chats[0]["messages"]
    assert system["content"].startswith(ROLE)
    assert f"folder: {project.cwd}" in system["content"]
    assert "- The build needs Java 21." in system["content"]
    assert "- brew: How to brew." in system["content"]
    assert "Boil" not in system["content"]
    assert "Indent with tabs." in instructions["content"]
    assert message["content"].startswith("hi")


def test_between_compactions_not_a_byte_of_what_was_sent_changes(project: Project) -> None:
    """Through tool calls, notes of the engine, commands, memory, undo, another mode, and a resume."""
    project.write("AGENTS.md", "Be kind.\n")
    project.write("a.py", "x = 1\n")
    edit = {"name": "edit", "arguments": {"path": "a.py", "old_string": "1", "new_string": "2"}}
    script = by_place(
        [
            {"calls": [{"name": "read", "arguments": {"path": "a.py"}}, LIST]},
            {"text": "Half an ans", "finish": "length"},
            {"text": "wer. 你好"},
            {"calls": [edit], "reasoning": "it should be two"},
            {"text": "done"},
            *[{"calls": [LIST]}] * 5,
            {"text": "no more circles"},
            {"text": "undone, I see"},
            {"text": "planned"},
        ]
    )
    inputs = [
        "look",
        "change it",
        "!echo from the person",
        "/memory add Tests are slow.",
        "and circle",
        "/undo",
        "/memory forget 1",
        "what now?",
        "/plan",
        "/status",
        "plan it",
    ]
    driver = play(project, script, inputs, mode="auto-edit", preset="yolo")
    assert len(driver.chats) == 13
    again = play(
        project, [{"text": "still here"}], ["go on"], resume=driver.engine.agent.session.id, preset="yolo"
    )
    chats = [*driver.chats, *again.chats]
    for before, after in pairwise(chats):
        assert grows(before, after)
    everything = json.dumps(chats[-1]["messages"], ensure_ascii=False)
    for told in (
        "from the person",
        "Tests are slow.",
        "The person has undone",
        "Operating mode plan",
        LOOP_NOTE[:30],
    ):
        assert everything.count(told) >= 1, told


def test_all_that_happened_between_two_messages_is_told_with_the_second(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made.txt", "content": "x"}}
    inputs = ["go", "/memory add One.", "/memory add Two.", "/undo", "/memory forget 1", "next"]
    driver = play(
        project, [{"calls": [write]}, {"text": "ok"}, {"text": "ok"}], inputs, mode="yolo", preset="yolo"
    )
    note = driver.chats[-1]["messages"][-1]["content"].split("<note>")[1]
    for told in ("One.", "Two.", "made.txt", "no longer holds: One."):
        assert told in note


@pytest.mark.parametrize(
    ("lang", "labels"),
    [
        ("en", ["system prompt", "memory", "skills' index", "instructions", "results of list", "answers"]),
        ("zh", ["系统提示词", "记忆", "技能索引", "指令", "list 的结果", "模型的回答"]),
    ],
)
def test_where_the_tokens_go(project: Project, lang: str, labels: list[str]) -> None:
    project.write("AGENTS.md", "Be kind.\n")
    project.write(".coder/memory.md", "- The build needs Java 21.\n")
    script = by_place([{"calls": [LIST]}, {"text": words(500)}], summary={"text": "short"})
    driver = play(project, script, ["hi", "/context", "/compact", "/context"], lang=lang)
    shown, _, compacted = (event.text for event in of(driver.seen, CommandDone))
    head, *rows = shown.splitlines()
    first = [row.split()[0].replace(",", "") for row in rows]
    figures = [int(word) for word in first if word.isdecimal()]
    assert len(figures) == len(rows) - 1  # the last tells what was cached
    assert f"{sum(figures):,}" in head
    assert figures == sorted(figures, reverse=True)
    for label in labels:
        assert label in shown, label
    assert ("summary and action log" if lang == "en" else "摘要与台账") in compacted


def test_requests_carry_the_prompts_id_and_so_does_the_record(project: Project) -> None:
    project.configure(routing={"fast": "small", "strong": "big"}, runtime={"context_window": 9_000})
    open_question = "tell me about the history of this repository and its main authors"
    script = by_place(
        [{"calls": [LIST]}, {"text": "Let me look further."}, {"text": words(1_800)}, {"text": "ok"}],
        routing={"text": "SIMPLE"},
        next_speaker={"text": "MODEL"},
        summary={"text": "short"},
    )
    requests = asked(project, script, [open_question, "hi"], model="auto")
    ids = [(place_of(r.json), r.headers["x-client-request-id"]) for r in requests]
    first, second = f"{session_of(project)}-1", f"{session_of(project)}-2"
    assert ids == [
        ("routing", first),
        ("main", first),
        ("main", first),
        ("next_speaker", first),
        ("main", first),
        ("summary", second),
        ("main", second),
    ]
    for kind in ("turn_start", "assistant", "turn_end"):
        found = [e["meta"].get("prompt_id") for e in project.of_type(kind) if e["meta"].get("by") != "engine"]
        assert set(found) == {first, second}, kind


def session_of(project: Project) -> str:
    (log,) = project.logs()
    return log.stem


def test_citations_are_shown_and_recorded(project: Project) -> None:
    source = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    message = {"role": "assistant", "content": "So they say.", "annotations": [source]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    driver = play(project, [{"status": 200, "body": body}], ["go"])
    assert of(driver.seen, Citation) == [Citation("A (http://a)")]
    assert [e["content"] for e in project.of_type("citation")] == ["A (http://a)"]
    assert of(driver.seen, TurnEnded)[0].text == "So they say."


def test_past_the_sessions_turns_nothing_is_asked_of_any_model(project: Project) -> None:
    project.configure(
        runtime={"max_session_turns": 1, "context_window": 7_000}, routing={"fast": "small", "strong": "big"}
    )
    script = by_place([{"text": words(1_900)}], routing={"text": "SIMPLE"}, summary={"text": "s"})
    long_one = "tell me about the history of this repository and its main authors"
    driver = play(project, script, ["hi", long_one], model="auto")
    assert len(driver.chats) == 1
    assert of(driver.seen, MaxSessionTurns) == [MaxSessionTurns(limit=1)]
    assert of(driver.seen, Failed)[0].code == "max_session_turns"


def test_a_note_of_the_engine_never_stands_between_a_call_and_its_result(project: Project) -> None:
    """Loop notes, continuations, modes and memory at once; `play` checks every request."""
    calls = [{"calls": [LIST, LIST]}] * 6
    script: list[Any] = [*calls, {"text": "", "finish": "length"}, {"text": "end"}]
    driver = play(project, script, ["go", "/plan", "/memory add One.", "next"])
    assert len(main_chats(driver)) >= 8


def test_a_long_file_at_the_root_leaves_room_for_the_nearest_one(project: Project) -> None:
    project.write("AGENTS.md", "a rule of the root\n" * 4_000)
    project.write("part/AGENTS.md", "the nearest rule\n")
    (project.cwd / ".git").mkdir()
    project.cwd = project.cwd / "part"
    (chat,) = play(project, [{"text": "ok"}], ["hi"]).chats
    text = chat["messages"][1]["content"]
    assert text.index("a rule of the root") < text.index("[cut at") < text.index("the nearest rule")
