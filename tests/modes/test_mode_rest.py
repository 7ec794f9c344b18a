"""A variable with `rest: true` takes the rest of the line; `$ARGUMENTS` of an imported command is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from modeshop import Shop, done

from coder.extend.modes.importing import as_mode
from coder.protocol.modes import InstantModeExecuted, TriggerInstantMode

REST = """\
variables:
  - name: ticket
  - name: words
    rest: true
  - name: urgent
    type: boolean
    shortcuts: ["-u"]
    default: "false"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def run(shop: Shop, line: str) -> InstantModeExecuted:
    keeper = shop.keeper()
    invocation = keeper.from_line(line)
    assert isinstance(invocation.op, TriggerInstantMode), invocation.errors
    executed = done(keeper.trigger(invocation.op))
    assert invocation.leftover == ""
    return executed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/m A-1 all of  this, please", "A-1|false|all of  this, please"),
        ("/m A-1 -u all of it", "A-1|true|all of it"),
        ("/m A-1 it doesn't say \"why", "A-1|false|it doesn't say \"why"),
        ('/m A-1 keep "the  quotes"', 'A-1|false|keep "the  quotes"'),
        ("/m A-1 first line\nsecond line\n\nlast", "A-1|false|first line\nsecond line\n\nlast"),
        ("/m A-1", "A-1|false|"),
    ],
)
def test_it_takes_what_the_others_left_as_typed(shop: Shop, line: str, said: str) -> None:
    shop.instant("m", "{{ticket}}|{{urgent}}|{{words}}", REST)
    assert run(shop, line).rendered_prompt == said


def test_only_one_variable_can(shop: Shop) -> None:
    path = shop.instant(
        "m", "{{a}}{{b}}", "variables:\n  - {name: a, rest: true}\n  - {name: b, rest: true}\n"
    )
    error = shop.one().error
    assert error is not None
    assert str(error.message) == (
        f"{path}:5: The variable b has rest: true as well; only one can take the rest of the line."
    )


def test_an_imported_command_gets_its_words_and_the_whole_line(shop: Shop) -> None:
    shop.mode("fix", as_mode("First: $1. Third: $3. All: $ARGUMENTS."))
    said = run(shop, '/fix 12 "very high" now and then').rendered_prompt
    assert said == 'First: 12. Third: now. All: 12 "very high" now and then.'


def test_an_imported_command_without_the_first_place_keeps_its_positions(shop: Shop) -> None:
    shop.mode("fix", as_mode("Second: $2."))
    assert run(shop, "/fix one two").rendered_prompt == "Second: two."


def test_a_saved_prompt_takes_an_open_quote(shop: Shop) -> None:
    shop.mode("ask", "Q: $ARGUMENTS", at="project/.coder/prompts")
    assert run(shop, '/ask why "that').rendered_prompt == 'Q: why "that'
