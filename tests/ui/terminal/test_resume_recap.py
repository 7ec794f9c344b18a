"""A resumed conversation: its last turns are shown, and how they ended."""

from __future__ import annotations

import asyncio
import re

import pytest
from pty_kit import Terminal
from repl_kit import SIZES, says, squeezed

from coder.protocol.events import PastTurn, SessionStarted
from coder.texts import Catalog
from coder.ui.terminal.render.event_lines import recent_lines
from coder.ui.terminal.render.width import line_width, plain
from kit import ScriptedServer
from kit.driving import Driver, Project, drive, of


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
        rows = recent_lines(turns, Catalog("en"), width)
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
