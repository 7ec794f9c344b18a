"""The line after `/name`: shortcuts, positions, quotes, leftovers (seed 003 §4, §5)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from modeshop import SEED_EXAMPLE, Shop, done

from coder.extend.modes.template import ModeFault
from coder.extend.modes.values import Bound, bind, problem_with, split_line
from coder.protocol.modes import (
    ModeDefinition,
    ModeScope,
    ModeVariable,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)

SCOPE = ModeScope("global", "(global)", "/")


def mode(*variables: ModeVariable) -> ModeDefinition:
    return ModeDefinition(mode_id="/m", display_name="m", scope=SCOPE, path="", variables=list(variables))


DEPLOY = mode(
    ModeVariable("env"),
    ModeVariable("ticket", shortcuts=["-t", "ticket="]),
    ModeVariable("note", shortcuts=["--note"]),
)


@pytest.mark.parametrize(
    ("line", "values", "leftover"),
    [
        ("prod", {"env": "prod"}, ""),
        ("prod ABC-1 hello", {"env": "prod", "ticket": "ABC-1", "note": "hello"}, ""),
        ("-t ABC-1 prod", {"env": "prod", "ticket": "ABC-1"}, ""),
        ("prod ticket=ABC-1", {"env": "prod", "ticket": "ABC-1"}, ""),
        ("ticket=", {"ticket": ""}, ""),
        ('ticket="A B" prod', {"env": "prod", "ticket": "A B"}, ""),
        ("ticket='A B' prod", {"env": "prod", "ticket": "A B"}, ""),
        ("--note x -t y z", {"env": "z", "ticket": "y", "note": "x"}, ""),
        # a variable that a shortcut bound is passed over by position
        ("-t ABC-1 prod hello rest", {"env": "prod", "ticket": "ABC-1", "note": "hello"}, "rest"),
        # only a full match is a shortcut
        ("-tABC-1", {"env": "-tABC-1"}, ""),
        ("--t x", {"env": "--t", "ticket": "x"}, ""),
        ("Ticket=x", {"env": "Ticket=x"}, ""),
        ('"foo bar"', {"env": "foo bar"}, ""),
        (r"foo\ bar", {"env": "foo bar"}, ""),
        (r'"a \"b\" \\ \d"', {"env": r'a "b" \ \d'}, ""),
        ("'a \"b\" \\'", {"env": 'a "b" \\'}, ""),
        ('a"b c"d', {"env": "ab cd"}, ""),
        ('""', {"env": ""}, ""),
        # quoted, a shortcut is a value like any other
        ('"-t" x', {"env": "-t", "ticket": "x"}, ""),
        (r"\-t x", {"env": "-t", "ticket": "x"}, ""),
        ('a b c please  do "it"', {"env": "a", "ticket": "b", "note": "c"}, 'please  do "it"'),
        ("a b c don't and can't", {"env": "a", "ticket": "b", "note": "c"}, "don't and can't"),
        ("a b one -t x --note y two", {"env": "a", "ticket": "x", "note": "y"}, "b one two"),
        ("a\nsecond line\nthird", {"env": "a"}, "second line\nthird"),
        ('"two\nlines"', {"env": "two\nlines"}, ""),
        ("", {}, ""),
        ("   ", {}, ""),
    ],
)  # fmt: skip
def test_binding(line: str, values: dict[str, str], leftover: str) -> None:
    bound = bind(DEPLOY, line)
    assert (bound.values, bound.leftover) == (values, leftover)


def test_values_come_in_order_of_declaration() -> None:
    assert list(bind(DEPLOY, "--note n -t t e").values) == ["env", "ticket", "note"]


def test_the_first_declared_shortcut_wins() -> None:
    both = mode(ModeVariable("a", shortcuts=["-x"]), ModeVariable("b", shortcuts=["-x"]))
    assert bind(both, "-x 1 2").values == {"a": "1", "b": "2"}


def test_a_flag_of_a_boolean_needs_no_value() -> None:
    flags = mode(ModeVariable("dry", type="boolean", shortcuts=["-n"]), ModeVariable("env"))
    assert bind(flags, "-n prod").values == {"dry": "true", "env": "prod"}
    assert bind(flags, "-n no prod").values == {"dry": "no", "env": "prod"}
    assert bind(flags, "prod -n").values == {"dry": "true", "env": "prod"}


def test_a_shortcut_at_the_end_lacks_its_value() -> None:
    with pytest.raises(ModeFault) as raised:
        bind(DEPLOY, "prod -t")
    assert (raised.value.variable, str(raised.value.phrase)) == ("ticket", "-t needs a value for ticket.")


@pytest.mark.parametrize("line", ['"open', "a 'open", 'ticket="open'])
def test_an_open_quote_is_said(line: str) -> None:
    with pytest.raises(ModeFault) as raised:
        bind(DEPLOY, line)
    assert raised.value.code == "argument"


def test_the_name_ends_at_the_first_space() -> None:
    assert split_line("  /a:b:c  x  y ") == ("/a:b:c", "x  y")
    assert split_line("/a\nmore") == ("/a", "\nmore")
    assert split_line("/a") == ("/a", "")


@pytest.mark.parametrize(
    ("variable", "good", "bad"),
    [
        (ModeVariable("a"), ["", "anything", "日本"], ["nul\0", "x" * 10_000]),
        (ModeVariable("a", type="enum", enum=["x", "y"]), ["x", "y"], ["z", "X", " x"]),
        (ModeVariable("a", type="boolean"), ["true", "False", "yes", "off", "1"], ["", "maybe", "2"]),
        (
            ModeVariable("a", type="number"),
            ["1", "-2.5", "1e3", "+.5"],
            ["", "one", "nan", "inf", "1 2", "٣"],
        ),
        (ModeVariable("a", type="path"), ["a/b c", "/x"], ["a\nb"]),
        (ModeVariable("a", pattern=r"^[A-Z]+-\d+$"), ["ABC-12"], ["abc-12", "", "xABC-1x"]),
        (ModeVariable("a", type="number", enum=["1", "2"]), ["1"], ["3"]),
    ],
)
def test_types_lists_and_patterns(variable: ModeVariable, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if problem_with(variable, value)] == []
    assert [value for value in bad if not problem_with(variable, value)] == []


# -- a line as an op --------------------------------------------------------------------------------------


def test_a_line_becomes_the_op_it_stands_for(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.mode("a/review", SEED_EXAMPLE)
    shop.instant("deploy", "Deploy to {{env}}.", "variables:\n  - name: env\n")
    keeper = shop.keeper()
    invoked = keeper.from_line("/a:review author -t ABC-1 us and then go")
    assert isinstance(invoked.op, SetModeState)
    (only,) = invoked.op.modes
    assert only.mode_id == "/a:review"
    assert only.variables == {
        "role": SetValue("author"),
        "region": SetValue("us"),
        "ticket": SetValue("ABC-1"),
    }
    assert invoked.leftover == "and then go"
    instant = keeper.from_line("/deploy prod")
    assert instant.op == TriggerInstantMode("/deploy", {"env": SetValue("prod")})


def test_a_line_keeps_the_modes_that_are_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.persistent("a", "A")
    shop.persistent("b", "B")
    keeper = shop.keeper()
    for line in ("/a", "/b", "/a"):
        op = keeper.from_line(line).op
        assert isinstance(op, SetModeState)
        done(keeper.set_state(op))
    assert [one.mode_id for one in keeper.enabled] == ["/a", "/b"]
    done(keeper.set_state(SetModeState(keeper.target_without("/a"))))
    assert [one.mode_id for one in keeper.enabled] == ["/b"]


def test_an_unknown_name_gets_the_nearest_ones(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.persistent("review", "x")
    invoked = shop.keeper().from_line("/reviw author")
    assert invoked.op is None
    (error,) = invoked.errors
    assert str(error.message) == "There is no mode /reviw. The nearest are /review."


def test_saved_prompts_take_their_words_by_number(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.mode("hi", "Greet $2 from $1 for $$5, $12 {{x}}.", "project/.coder/prompts")
    shop.mode("all", "Do: $ARGUMENTS", "project/.coder/prompts")
    shop.mode("bare", "As it is: @x !y {{z}}", "project/.coder/prompts")
    keeper = shop.keeper()

    def said(line: str) -> tuple[str, str]:
        invoked = keeper.from_line(line)
        assert isinstance(invoked.op, TriggerInstantMode)
        return done(keeper.trigger(invoked.op)).rendered_prompt, invoked.leftover

    assert said('/prompts:hi me "you all" and more') == (
        "Greet you all from me for $5, $12 {{x}}.",
        "and more",
    )
    assert said('/all one "two  three"') == ('Do: one "two  three"', "")
    assert said("/bare extra") == ("As it is: @x !y {{z}}", "extra")
    assert shop.ran == []


def test_of_shortcuts_that_fit_the_one_declared_first_is_taken() -> None:
    first = ModeVariable(name="first", shortcuts=["a=b=", "-x"])
    second = ModeVariable(name="second", shortcuts=["a=", "-x", "whole=1x"])
    both = msgspec.structs.replace(DEPLOY, variables=[first, second])
    assert bind(both, "a=b=c a=d").values == {"first": "c", "second": "d"}
    assert bind(msgspec.structs.replace(both, variables=[second, first]), "a=b=c").values == {"second": "b=c"}
    assert bind(both, "-x 1 whole=1x 2").values == {"first": "1", "second": "2"}


def test_many_shortcuts_are_not_tried_one_by_one_on_every_word() -> None:
    looked: list[str] = []

    class Shortcut(str):
        def __eq__(self, other: object) -> bool:
            looked.append(str(self))
            return str(self) == other

        __hash__ = str.__hash__

    shortcuts: list[str] = [Shortcut(f"-s{n}") for n in range(200)]
    many = msgspec.structs.replace(DEPLOY, variables=[ModeVariable(name="v", shortcuts=shortcuts)])
    assert bind(many, "w " * 200).values == {"v": "w"}
    assert len(looked) < 2_000


def test_bound_is_plain_data() -> None:
    assert bind(DEPLOY, "x") == Bound({"env": "x"}, "")
