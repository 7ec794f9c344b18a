"""`/help NAME` in the terminal, which has commands of its own beside the engine's."""

from __future__ import annotations

import pytest

from coder.terminal.local_commands import LOCAL, run_local
from coder.terminal.render.theme import Theme
from coder.texts import Texts


class Nobody:
    """A terminal that a line of help must not touch."""

    theme = Theme("dark")
    last_answer = ""

    def toggle_vim(self) -> bool:
        raise AssertionError

    def send(self, sequence: str) -> None:
        raise AssertionError


@pytest.mark.parametrize("name", LOCAL)
def test_its_own_commands_have_their_line(name: str) -> None:
    said = run_local(f"/help {name}", Nobody(), Texts("en"))
    assert said == run_local(f"/help /{name}", Nobody(), Texts("en"))
    assert said is not None
    assert said.startswith(f"/{name}")
    assert Texts("en").say(f"help.{name}") in said


@pytest.mark.parametrize("text", ["/help", "/help undo", "/help nothing", "/helpvim", "help vim"])
def test_the_rest_is_the_engine_s_to_tell(text: str) -> None:
    assert run_local(text, Nobody(), Texts("en")) is None
