"""The lines a person reads: prompt and status, commands of the terminal, a conversation taken up again."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from functools import partial

import pytest
from pty_kit import Terminal
from talk_kit import SIZES, says, squeezed

from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    Content,
    PastTurn,
    SessionStarted,
    StateChanged,
    Thought,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.ops import Cancel, UserInput
from coder.terminal.render.live_rows import shortened_path
from coder.terminal.render.recap import recent_lines
from coder.terminal.render.status_row import busy_line
from coder.terminal.render.width import line_width, plain
from coder.terminal.state import PromptState, apply_event, input_sent
from coder.texts import Texts
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Driver, Project, drive, of

USAGE = {"prompt_tokens": 1_234_000, "completion_tokens": 567, "total_tokens": 1_234_567}


@SIZES
def test_context_model_cost_and_budget_before_each_prompt(project: Project, columns: int, rows: int) -> None:
    project.configure(
        budget={"max_usd": 9.5, "prices": {"scripted": {"input": 2.0, "output": 1000.0}}},
        runtime={"context_window": 2_000_000},
    )
    line = "context: 1234567 tokens · model: scripted"
    with (
        ScriptedServer([{"text": "hi", "usage": USAGE}]) as server,
        Terminal(project, server.url, "--mode", "plan", columns=columns, rows=rows) as terminal,
    ):
        terminal.until(lambda: "tokens · model: scripted" in terminal.screen)
        assert "\n[plan] " in terminal.screen
        terminal.send("go")
        terminal.until(lambda: line[: columns - 1] in terminal.screen)
        if columns > 60:
            assert f"{line} · 3.0350 of 9.50 USD\n[plan] " in terminal.screen
        terminal.send("/status")
        terminal.until(lambda: says(terminal, "context: 1234567 of 2000000 tokens (61 %)"))
        for label in ("session: ", "model: scripted", "mode: plan", "budget: ", "sandbox: ", "trust: "):
            assert label in terminal.text


@pytest.mark.parametrize(
    ("directory", "columns", "shown"),
    [
        ("~/code/project", 80, "~/code/project"),
        ("/some/where/far/away/in/the/tree/project", 60, "…/project"),
        ("/some/where/project", 40, "…/project"),
        ("/some/where/a-very-long-name-of-a-folder", 40, "…of-a-folder"),
        ("/some/where/项目的文件夹名称很长很长", 40, "…称很长很长"),
        ("/some/where/project", 10, "…project"),
    ],
    ids=["fits", "half", "narrow", "long-name", "wide-characters", "tiny"],
)
def test_the_directory_in_the_prompt_leaves_room_to_type(directory: str, columns: int, shown: str) -> None:
    assert shortened_path(directory, "default", columns) == shown


@SIZES
def test_help_lists_the_terminal_s_own_commands(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/help")
        terminal.until(lambda: says(terminal, "of your own."))
        lines = terminal.text.split("\n")
        for name in ("/exit", "/vim", "/theme", "/copy"):
            assert sum(line.startswith(f"{name} ") for line in lines) == 1, name
        at = {line.split()[0]: line for line in lines if line.startswith("/")}
        if columns > 40:
            assert at["/copy"].index("copy the last") == at["/exit"].index("leave") == 30
            assert at["/diff"].endswith("]]")  # a long usage does not narrow all descriptions
        else:
            assert at["/exit"] == "/exit  leave"
            assert "/copy  copy the last answer to the\n    clipboard\n" in terminal.text
        keys = next(n for n, line in enumerate(lines) if line.startswith("Enter sends"))
        assert not lines[keys - 1]
        assert lines.index(at["/copy"]) < keys
        for name in ("vim", "copy", "todos", "new"):
            terminal.until_idle()
            terminal.send(f"/{name} x")
            terminal.until(partial(says, terminal, f"/{name} takes no arguments"))
        assert len(project.logs()) == 1


@SIZES
def test_a_summary_of_the_differences_and_all_of_them_in_the_pager(
    project: Project, columns: int, rows: int
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    project.write("a.txt", "old\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project.cwd, check=True)
    project.write("a.txt", "".join(f"line {n}\n" for n in range(100)))
    pager = project.home / "pager.sh"
    pager.write_text(f"#!/bin/sh\ncat > {project.home}/paged\n", encoding="utf-8")
    pager.chmod(0o700)
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, PAGER=str(pager), columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/diff")
        terminal.until(lambda: says(terminal, "/diff full shows every line"))
        assert says(terminal, "1 file changed, 100 insertions(+), 1 deletion(-)")
        assert not (project.home / "paged").exists()
        terminal.until_idle()
        terminal.send("/diff full")
        terminal.until(lambda: says(terminal, "lines of differences, shown in the pager)"))
        terminal.until(lambda: "context: " in terminal.screen)
        assert "line 99" in (project.home / "paged").read_text(encoding="utf-8")
        assert "line 99" not in terminal.text


def test_colours_of_the_themes(project: Project) -> None:
    script = [{"text": f"# head{n}"} for n in range(3)]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        for at, (name, start) in enumerate(
            [("dark", b"\x1b[1;96m"), ("light", b"\x1b[1;34m"), ("none", b"")]
        ):
            terminal.send(f"/theme {name}")
            terminal.until(f"Theme: {name}")
            terminal.send("go")
            terminal.until(f"head{at}")
            terminal.until_idle()
            found = set(re.findall(rb"(\x1b\[[1-9][\d;]*m)?# head%d" % at, bytes(terminal.raw)))
            assert found == {start}  # once, or also live before it was final


@SIZES
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_conversation_that_is_taken_up_again_says_what_it_was(
    project: Project, term: str, columns: int, rows: int
) -> None:
    answer = "\n".join(f"row {n}" for n in range(30))
    with ScriptedServer([*({"text": f"answer {n}"} for n in range(4)), {"text": answer}]) as server:
        drive(project, server.url, [f"question {n}" for n in range(5)])
    with (
        ScriptedServer([{"text": "went on"}]) as server,
        Terminal(project, server.url, "--continue", columns=columns, rows=rows, term=term) as terminal,
    ):
        terminal.until(lambda: says(terminal, "row 29"))
        terminal.until(
            lambda: bool(re.search(r"\ncontext: \d{4} tokens[^\n]*\n\[default\] ", terminal.screen))
        )
        said = [f"›question{n}answer{n}" for n in range(4)]
        assert "".join(said) in squeezed(terminal.text)
        assert squeezed(answer) in squeezed(terminal.text)
        terminal.type("go\n" if term == "dumb" else "go\r")
        terminal.until("went on")
    assert [m["content"] for m in server.chats[0]["messages"]].count("question 1") == 1


def test_resume_at_the_prompt_says_it_too(project: Project) -> None:
    with ScriptedServer([{"text": "an answer"}]) as server:
        drive(project, server.url, ["an old question"])
    (log,) = project.logs()
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send(f"/resume {log.stem}")
        terminal.until("› an old question\nan answer\n")
        terminal.until(f"Resumed {log.stem}: an old question (1 turn)")
        terminal.until_idle()


def test_a_recap_is_short_however_long_the_lines_were() -> None:
    turns = [PastTurn("ask " * 100, "answer " * 300, "ok"), PastTurn("问" * 100, "答" * 2000, "cancelled")]
    for width in (20, 40, 80, 200):
        rows = recent_lines(turns, Texts("en"), width)
        assert all(line_width(row) <= width for row in rows)
        told = next(at for at, row in enumerate(rows) if plain(row).startswith("› ask ask"))
        assert len(rows) - told <= (3 + 6) + (3 + 12 + 1)
        assert "more lines)" in plain(rows[-2])
        assert plain(rows[-1]) == "  (cancelled)"


def test_recent_turns_tell_how_they_ended(project: Project) -> None:
    async def run() -> None:
        with ScriptedServer([{"text": "told"}, {"status": 400, "body": "no"}]) as server:
            driver = Driver(project, server.url)
            driver.start()
            await driver.send("works")
            await driver.send("fails")
            await driver.close()
        with ScriptedServer([]) as server:
            again = Driver(project, server.url)
            again.start(project.logs()[0].stem)
            await again.close()
        (started,) = of(again.seen, SessionStarted)
        told = [(turn.text, turn.answer, turn.status) for turn in started.recent]
        assert told == [("works", "told", "ok"), ("fails", "", "error")]

    asyncio.run(run())


def test_the_prompt_does_not_wait_for_a_vocabulary(project: Project) -> None:
    """Loading one holds Python's lock for a quarter of a second on a small machine, and keys with it."""

    async def run() -> None:
        with ScriptedServer([{"text": "hi", "usage": USAGE}]) as server:
            driver = Driver(project, server.url)
            driver.start()
            (state,) = of(await driver.send("/plan"), StateChanged)
            assert 500 < state.context_tokens < 20_000
            conversation = driver.engine.agent.session.conversation
            assert not conversation.counter.loaded
            assert 0.5 < conversation.tokens() / state.context_tokens < 2
            (state,) = of(await driver.send("hello"), StateChanged)
            assert state.context_tokens == USAGE["total_tokens"]
            await driver.close()

    asyncio.run(run())


def test_a_cancel_does_not_wait_for_a_vocabulary_either(project: Project) -> None:
    async def run() -> None:
        with ScriptedServer([{"text": "word " * 50, "delay": 0.01}]) as server:
            driver = Driver(project, server.url)
            driver.start()
            driver.engine.submit(UserInput("go"))

            def stop(event: AnyEvent) -> None:
                if isinstance(event, Content):
                    driver.engine.submit(Cancel())

            events = await driver.until_idle(watch=stop)
            assert of(events, TurnEnded)[0].status == "cancelled"
            assert not driver.engine.agent.session.conversation.counter.loaded
            await driver.close()

    asyncio.run(run())


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
    assert " · 7s" in plain(busy_line(state, Texts("en"), 80))


def test_counts_of_one_are_said_as_one(project: Project) -> None:
    project.configure(ui={"output_lines": 40})
    script = [bash_step("seq 41"), {"text": "x"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("… 1 line not shown …")
        terminal.until_idle()
        terminal.send("/copy")
        terminal.until("Copied 1 character to")


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
        said.append(Texts("en").say(state.status_key))
    assert said == ["waiting for the model", "thinking", "answering", "waiting for the model", "answering"]
