"""`/help NAME` in the terminal, which has commands of its own beside the engine's."""

from __future__ import annotations

from typing import Any

import pytest

from coder.engine.setup import built_in_commands
from coder.protocol.events import CommandDone
from coder.texts import Catalog
from coder.ui.terminal.local_commands import LOCAL, resolve_command, run_local, with_local_help

NO_SCREEN: Any = None  # a line of help touches no terminal


@pytest.mark.parametrize("name", LOCAL)
def test_its_own_commands_have_their_line(name: str) -> None:
    said = run_local(f"/help {name}", NO_SCREEN, Catalog("en"))
    assert said == run_local(f"/help /{name}", NO_SCREEN, Catalog("en"))
    assert said is not None
    assert said.startswith(f"/{name}")
    assert Catalog("en").say(f"help.{name}") in said


@pytest.mark.parametrize("text", ["/help", "/help undo", "/help nothing", "/helpvim", "help vim"])
def test_the_rest_is_the_engine_s_to_tell(text: str) -> None:
    assert run_local(text, NO_SCREEN, Catalog("en")) is None


def test_the_everyday_commands_come_first_and_every_one_once() -> None:
    event = CommandDone("help", text="of the engine\n\nKeys: …", ok=True)
    first, others, keys = str(with_local_help(event, Catalog("en"), 200).text).split("\n\n")
    everyday, rest = (
        [line.split()[0] for line in part.split("\n") if line.startswith("/")] for part in (first, others)
    )
    assert (first.split("\n")[0], others.split("\n")[0], keys) == ("Every day:", "And also:", "Keys: …")
    assert everyday == ["/undo", "/diff", "/rewind", "/model", "/mode", "/resume", "/new", "/exit"]
    assert rest[-1] == "/fork"
    assert sorted([*everyday, *rest]) == sorted(f"/{name}" for name in [*built_in_commands(), *LOCAL])


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        *(("help", "/help"), ("Exit ", "/exit"), ("quit", "/quit"), (":q", "/quit"), ("/  undo", "/undo")),
        *((text, text) for text in ("help me", "exit 1", "/help", "/home/me", "/", "!exit", "")),
    ],
)
def test_a_word_that_means_a_command(typed: str, command: str) -> None:
    assert resolve_command(typed) == command
