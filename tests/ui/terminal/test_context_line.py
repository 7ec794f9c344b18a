"""The context line above the prompt, the directory in the prompt, and what neither of them waits for."""

from __future__ import annotations

import asyncio

import pytest
from pty_kit import Terminal
from repl_kit import SIZES, says

from coder.protocol.events import AnyEvent, Content, StateChanged, TurnEnded
from coder.protocol.ops import Cancel, UserInput
from coder.ui.terminal.render.live_rows import shortened_path
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, of

USAGE = {"prompt_tokens": 1_234_000, "completion_tokens": 567, "total_tokens": 1_234_567}


@pytest.mark.thorough
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
        terminal.until(lambda: says(terminal, "context: 1,234,567 of 2,000,000 tokens (61 %)"))
        for label in ("session: ", "model: scripted", "mode: plan", "budget: ", "sandbox: ", "trust: "):
            assert label in terminal.text


@pytest.mark.parametrize(
    ("lang", "one"), [("en", "model: scripted · 1 job\n"), ("zh", "scripted · 1 个任务\n")]
)
def test_a_job_that_runs_is_counted_until_it_ends(project: Project, lang: str, one: str) -> None:
    job = call("bash", command="until [ -e go ]; do sleep 0.05; done", background=True)
    with (
        ScriptedServer([{"calls": [job]}, {"text": "it runs"}]) as server,
        Terminal(project, server.url, "--mode", "yolo", "--lang", lang) as terminal,
    ):
        terminal.until(lambda: "scripted\n[yolo]" in terminal.screen)
        terminal.send("go")
        terminal.until(lambda: "it runs" in terminal.text and one + "[yolo]" in terminal.screen)
        project.write("go", "")
        terminal.until(lambda: "scripted\n[yolo]" in terminal.screen)


def test_yolo_stands_out_in_the_prompt(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        for mode, colour in (("default", "default"), ("yolo", "magenta")):
            if mode == "yolo":
                terminal.send("/yolo")
            terminal.until(lambda m=mode: terminal.prompt.startswith(f"[{m}]"))  # type: ignore[misc] # bound at once
            terminal.until_idle()
            assert terminal.paper.buffer[terminal.paper.cursor.y][1].fg == colour


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


def test_a_message_whose_answer_was_cancelled_counts(project: Project) -> None:
    """The provider's count is of the answer before it."""
    project.write("long.txt", "many words in a row\n" * 400)  # 8,000 bytes
    small = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}

    async def run() -> None:
        with ScriptedServer([{"text": "hi", "usage": small}, {"text": "never", "delay": 60}]) as server:
            driver = Driver(project, server.url)
            driver.start()
            (state,) = of(await driver.send("hello"), StateChanged)
            assert state.context_tokens == 1000
            driver.engine.submit(UserInput("see @long.txt"))
            while len(server.chats) < 2:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.01)
            driver.engine.submit(Cancel())
            *_, state = of(await driver.until_idle(), StateChanged)
            assert 2500 < state.context_tokens < 5000
            await driver.close()

    asyncio.run(run())
