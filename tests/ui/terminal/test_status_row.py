"""The status row of a running turn: what is happening, how long, how much; what stays where it is narrow."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pty_kit import Terminal

from coder.engine.call_progress import CallProgress
from coder.models.model import CallDelta
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CallWriting,
    ChatCompressed,
    Content,
    Finished,
    ModelProgress,
    Notice,
    Thought,
    ToolCallChanged,
    VerifyChanged,
)
from coder.texts import Catalog, Text
from coder.ui.terminal.render.status_row import busy_line, short_number
from coder.ui.terminal.render.width import line_width, plain
from coder.ui.terminal.screen_state import PromptState, apply_event, input_sent
from kit import ScriptedServer
from kit.calls import call, write
from kit.driving import Project, of, play

LONG = CallWriting("write", "src/package/of/many/parts/module.py", 120, 4000)
RETRY = Text("model.retry", reason="503.", attempt=1, wait="2.6")


def row(*events: AnyEvent, columns: int = 80, lang: str = "en", seconds: float = 0) -> str:
    state = PromptState(model="m", mode="default")
    input_sent(state)
    state.since = time.monotonic() - seconds
    for event in events:
        apply_event(state, event)
    line = busy_line(state, Catalog(lang), columns)
    assert line_width(line) <= columns
    return plain(line)


def test_it_says_what_is_happening() -> None:
    executing = ToolCallChanged("1", "bash", "executing", "pytest -q")
    keys = " · 0s · esc stops · ctrl+s steers"
    assert row() == f"waiting for the model{keys}"
    assert row(executing) == f"running pytest -q{keys}"
    assert row(executing, ToolCallChanged("2", "read", "executing", "a")) == f"running pytest -q +1{keys}"
    assert row(ToolCallChanged("1", "mcp__a__b", "executing", "x")) == f"running mcp__a__b x{keys}"
    assert row(ModelProgress("compacting")) == f"compacting the conversation{keys}"
    assert row(ModelProgress("compacting"), ChatCompressed(9, 1, "")) == f"waiting for the model{keys}"
    assert row(Notice(RETRY, "warning")) == f"retrying in 3s{keys}"
    assert row(Notice(RETRY, "warning"), Content("x")).startswith("answering · ")
    assert row(LONG, seconds=14, columns=110) == (
        "writing src/package/of/many/parts/module.py, 120 lines · 14s · ~1.0k tokens · "
        "esc stops · ctrl+s steers"
    )
    assert row(CallWriting("bash", size=4)).startswith("preparing bash · ")
    assert row(Finished("tool_calls", 2140), seconds=75) == (
        "waiting for the model · 1m 15s · 2.1k tokens · esc stops · ctrl+s steers"
    )
    assert row(Content("so"), Finished("stop", 7)).startswith("finishing · 0s · 7 tokens")
    assert row(Content("so"), LONG, Finished("stop", 7)).startswith("waiting for the model · 0s · 7 tokens")
    assert row(LONG, Finished("stop", 7)).startswith("waiting for the model · 0s · 7 tokens")


def test_after_a_failed_check_the_model_is_waited_for() -> None:
    answered = Content("done"), Finished("stop", tokens=9), VerifyChanged("started", "pytest -q")
    assert row(*answered).startswith("running pytest -q · ")
    assert row(*answered, VerifyChanged("passed", "pytest -q")).startswith("finishing · ")
    assert row(*answered, VerifyChanged("failed", "pytest -q")).startswith("waiting for the model · ")


def test_a_cancelled_answer_does_not_count_for_the_next_turn() -> None:
    state = PromptState(model="m", mode="default")
    input_sent(state)
    apply_event(state, Content("half an answer, and then Esc"))
    assert " tokens" in plain(busy_line(state, Catalog("en"), 80))
    input_sent(state)
    assert plain(busy_line(state, Catalog("en"), 80)).startswith("waiting for the model · 0s · esc")


def test_the_time_that_a_question_waited_is_not_the_turn_s(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = PromptState(model="m", mode="default")
    input_sent(state)
    now[0] += 3
    apply_event(state, ApprovalRequested("a", "c", "bash", "touch x", "command", [], can_always=False))
    now[0] += 60
    apply_event(state, ApprovalResolved("a", "yes"))
    now[0] += 4
    assert " · 7s" in plain(busy_line(state, Catalog("en"), 80))


def test_the_spinner_says_what_the_model_is_at() -> None:
    state = PromptState(model="m", mode="default")
    input_sent(state)
    said = []
    for event in (
        None,
        Thought("hm"),
        Content("well"),
        ToolCallChanged("1", "read", "scheduled", "a"),
        Content("so"),
    ):
        if event is not None:
            apply_event(state, event)
        said.append(Catalog("en").say(state.status_key))
    assert said == ["waiting for the model", "thinking", "answering", "waiting for the model", "answering"]


def test_where_it_is_narrow_the_important_part_stays() -> None:
    assert row(LONG, columns=80).endswith("parts/module.py, 120 lines · 0s · ~1.0k tokens · esc stops")
    assert row(LONG, columns=60) == "writing …of/many/parts/module.py, 120 lines · 0s · esc stops"
    assert row(LONG, columns=42) == "writing …le.py, 120 lines · 0s · esc stops"
    assert row(LONG, columns=20).startswith("writing …")
    command = ToolCallChanged("1", "bash", "executing", "python3 -m unittest discover -s tests -q")
    assert row(command, columns=42) == "running python3 -m unitt… · 0s · esc stops"
    assert row(LONG, columns=42, lang="zh") == "正在写入 …ule.py，120 行 · 0 秒 · esc 停止"
    for columns in range(9, 120):
        row(LONG, columns=columns)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (9949, "9.9k"),
        (34_200, "34k"),
        (999_499, "999k"),
        (10**6, "1.0M"),
    ],
)
def test_short_numbers(number: int, shown: str) -> None:
    assert short_number(number) == shown


def progress(name: str, text: str, size: int) -> CallWriting:
    reader = CallProgress()
    last = CallWriting("")
    for at in range(0, len(text), size):
        last = reader.take(CallDelta(0, name, text[at : at + size])) or last
    return last


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_arguments_are_read_while_they_come(size: int) -> None:
    text = r'{"file_path": "a b\u00e9.py", "content": "x = \"\\n\"\ny\n\\\\\nz'
    seen = progress("write_file", text, size)
    assert (seen.tool, seen.argument, seen.lines) == ("write", "a bé.py", 3)
    edit = r'{"path": "b.py", "old_string": "a\nb\nc\n", "new_string": "d\ne\n"}'
    seen = progress("edit", edit, size)
    assert (seen.tool, seen.argument, seen.lines) == ("edit", "b.py", 2)
    seen = progress("apply_patch", r'{"input": "*** Begin Patch\n*** Add File: c/d.py\n+x\n', size)
    assert (seen.tool, seen.argument, seen.lines) == ("patch", "c/d.py", 3)
    seen = progress("bash", r'{"command": "seq 1\nseq 2"}', size)
    assert (seen.tool, seen.argument, seen.lines) == ("bash", "", 0)


def test_a_second_call_begins_anew() -> None:
    reader = CallProgress()
    first = reader.take(CallDelta(0, "write", r'{"path": "a", "content": "1\n2\n'))
    second = reader.take(CallDelta(1, "write", r'{"path": "b", "content": "1\n'))
    assert first is not None
    assert (first.argument, first.lines) == ("a", 2)
    assert second is not None
    assert (second.argument, second.lines) == ("b", 1)


def test_the_engine_tells_it(project: Project) -> None:
    body = "".join(f"line {n}\n" for n in range(40))
    seen = play(project, [{"calls": [write("new.txt", body)]}, {"text": "done"}], ["go"]).seen
    told = of(seen, CallWriting)
    assert told[-1].argument == "new.txt"
    assert told[-1].lines == 40
    assert [event.tokens for event in of(seen, Finished)] == [1, 2]


@pytest.mark.parametrize(("columns", "rows", "lang"), [(80, 24, "en"), (44, 20, "zh")])
def test_on_the_screen(project: Project, columns: int, rows: int, lang: str) -> None:
    body = "".join(f"line {n} of many\n" for n in range(60))
    slow: dict[str, Any] = {
        "calls": [call("write", path="new.txt", content=body)],
        "chunk": 200,
        "delay": 0.3,
    }
    with (
        ScriptedServer([slow, {"text": "done"}]) as server,
        Terminal(
            project, server.url, "--mode", "auto-edit", "--lang", lang, columns=columns, rows=rows
        ) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        writing = {"en": "writing new.txt, ", "zh": "正在写入 new.txt，"}[lang]
        terminal.until(lambda: writing in terminal.screen)
        busy = next(line for line in terminal.screen.split("\n") if writing in line)
        assert {"en": "esc stops", "zh": "esc 停止"}[lang] in busy
        assert columns < 80 or "tokens · esc stops · ctrl+s steers" in busy
        terminal.until("done")
        terminal.until_idle()
        assert writing not in terminal.screen
