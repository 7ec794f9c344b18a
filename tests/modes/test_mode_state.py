"""Switching modes: full targets, revisions, three-state variables, last good state (seed 003 §5.1, §7–§9)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from modeshop import SEED_EXAMPLE, Shop, done, switch, target

from coder.extend.modes.mode_state import ModeKeeper
from coder.extend.modes.render import Ran
from coder.protocol.entries import ModeState, entry_of
from coder.protocol.modes import (
    ModeStateChanged,
    PersistentModeTarget,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)
from coder.protocol.ops import AnyOp

ROLE = "variables:\n  - name: role\n    required: true\n    enum: [author, reviewer]\n"
PAIR = "variables:\n  - name: own\n    default: d\n  - name: kept\n    default: k\n    mode_scoped: false\n"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    for name in "abc":
        shop.persistent(name, f"Mode {name.upper()}.")
    shop.persistent("role", "As {{role}}.", ROLE)
    shop.persistent("pair", "{{own}}/{{kept}}", PAIR)
    shop.instant("go", "Go {{own}}/{{kept}}!", PAIR)
    shop.persistent("cmd", "Now:\n!date {{x}}", "variables:\n  - name: x\n    default: y\n")
    return shop


@pytest.fixture
def keeper(shop: Shop) -> ModeKeeper:
    return shop.keeper("Base.")


def on(keeper: ModeKeeper) -> list[str]:
    return [mode.mode_id for mode in keeper.enabled]


def values(event: ModeStateChanged, mode_id: str) -> dict[str, tuple[str | None, str]]:
    (mode,) = (one for one in event.enabled_modes if one.mode_id == mode_id)
    return {v.name: (v.value, v.source) for v in mode.variables}


# -- full targets and their order -------------------------------------------------------------------------


def test_what_is_not_named_goes_off(keeper: ModeKeeper) -> None:
    assert switch(keeper, "/a", "/b").changed
    assert on(keeper) == ["/a", "/b"]
    event = switch(keeper, "/b")
    assert [m.mode_id for m in event.enabled_modes] == on(keeper) == ["/b"]
    assert "Mode A." not in keeper.block


def test_order_is_that_of_enabling(keeper: ModeKeeper) -> None:
    switch(keeper, "/b")
    switch(keeper, "/c", "/a", "/b")
    assert on(keeper) == ["/b", "/c", "/a"]
    assert keeper.block.index("Mode B.") < keeper.block.index("Mode C.") < keeper.block.index("Mode A.")
    switch(keeper, "/a", "/c")
    switch(keeper, "/a", "/b", "/c")
    assert on(keeper) == ["/c", "/a", "/b"]


def test_an_entry_with_enabled_false_is_off(keeper: ModeKeeper) -> None:
    switch(keeper, "/a")
    switch(keeper, PersistentModeTarget("/a", enabled=False), "/b")
    assert on(keeper) == ["/b"]


def test_a_mode_that_is_named_twice_loses_no_value(shop: Shop) -> None:
    shop.persistent("pair", "{{x}}{{y}}", "variables: [x, y]\n")
    answer = switch(shop.keeper(), target("pair", x="1"), target("/pair", y="2"))
    assert [v.value for v in answer.enabled_modes[0].variables] == ["1", "2"]


def test_the_block_is_made_anew_each_time(keeper: ModeKeeper) -> None:
    switch(keeper, target("/pair", own="1"))
    switch(keeper, target("/pair", own="2"))
    assert keeper.block.count("### Mode:") == 1
    assert "2/k" in keeper.block
    assert "1/k" not in keeper.block


# -- revisions --------------------------------------------------------------------------------------------


def test_the_client_s_revision_is_taken_over(keeper: ModeKeeper) -> None:
    assert switch(keeper, "/a", rev=7).server_rev == 7
    assert switch(keeper, "/a", "/b").server_rev == 8


def test_without_revisions_the_keeper_counts(keeper: ModeKeeper) -> None:
    assert [switch(keeper, "/a").server_rev, switch(keeper, "/a").server_rev, switch(keeper).server_rev] == [
        1,
        1,
        2,
    ]


def test_an_older_revision_is_refused(keeper: ModeKeeper) -> None:
    switch(keeper, "/a", rev=5)
    event = switch(keeper, "/b", rev=4)
    assert [e.code for e in event.errors] == ["stale"]
    assert (event.changed, event.server_rev, on(keeper)) == (False, 5, ["/a"])


def test_the_same_revision_again_is_a_retry_and_does_nothing(keeper: ModeKeeper) -> None:
    switch(keeper, "/a", rev=5)
    event = switch(keeper, "/b", rev=5)
    assert (event.errors, event.changed, on(keeper)) == ([], False, ["/a"])


def test_a_refused_request_does_not_use_up_its_revision(keeper: ModeKeeper) -> None:
    switch(keeper, "/a", rev=1)
    assert switch(keeper, "/role", rev=2).errors
    assert switch(keeper, target("/role", role="author"), rev=2).changed


def test_a_first_revision_is_not_older_than_what_the_session_began_with(shop: Shop) -> None:
    shop.persistent("auto", "x", "default_enabled: true\n")
    keeper = shop.keeper()
    done(keeper.start())
    assert switch(keeper, "/auto", "/a", rev=1).changed


# -- nothing new ------------------------------------------------------------------------------------------


def test_an_equal_rendering_is_no_change(keeper: ModeKeeper) -> None:
    first = switch(keeper, target("/pair", own="d"), rev=1)
    assert first.combined_user_instructions == keeper.user_instructions
    again = switch(keeper, target("/pair", own=None), rev=2)
    assert (again.changed, again.combined_user_instructions, again.server_rev) == (False, None, 2)
    assert values(again, "/pair")["own"] == ("d", "default")


def test_the_same_state_gives_the_same_bytes(shop: Shop) -> None:
    """What stands at the front of every request must not move, or the provider's cache is lost."""
    one, other = shop.keeper("Base."), shop.keeper("Base.")
    switch(one, "/a", target("/pair", own="1"))
    switch(one, "/a", "/pair")
    before = one.user_instructions
    switch(one, "/a", target("/pair", own="2"), "/b")
    switch(one, "/a", target("/pair", own="1"))
    switch(other, "/a", target("/pair", own="1"))
    assert before.encode() == one.user_instructions.encode() == other.user_instructions.encode()


# -- variables --------------------------------------------------------------------------------------------


def test_not_named_keeps_set_sets_and_use_default_goes_back(keeper: ModeKeeper) -> None:
    switch(keeper, target("/pair", own="1", kept="2"))
    assert values(switch(keeper, "/pair"), "/pair") == {"own": ("1", "explicit"), "kept": ("2", "explicit")}
    event = switch(keeper, target("/pair", own=None))
    assert values(event, "/pair") == {"own": ("d", "default"), "kept": ("2", "explicit")}
    empty = switch(keeper, target("/pair", own=""))
    assert values(empty, "/pair")["own"] == ("", "explicit")
    assert "/2" in keeper.block


def test_scoped_values_go_with_their_mode_and_others_stay_for_the_session(keeper: ModeKeeper) -> None:
    switch(keeper, target("/pair", own="1", kept="2"))
    switch(keeper)
    event = switch(keeper, "/pair")
    assert values(event, "/pair") == {"own": ("d", "default"), "kept": ("2", "session")}
    switch(keeper, target("/pair", kept=None))
    switch(keeper)
    assert values(switch(keeper, "/pair"), "/pair")["kept"] == ("k", "default")


def test_a_value_is_shared_with_no_other_mode_and_no_other_session(shop: Shop, keeper: ModeKeeper) -> None:
    shop.persistent("pair2", "{{own}}/{{kept}}", PAIR)
    keeper = shop.keeper()
    switch(keeper, target("/pair", kept="2"))
    assert values(switch(keeper, "/pair2"), "/pair2")["kept"] == ("k", "default")
    assert values(switch(shop.keeper(), "/pair"), "/pair")["kept"] == ("k", "default")


# -- errors -----------------------------------------------------------------------------------------------


def test_with_an_error_the_last_good_state_stays(keeper: ModeKeeper) -> None:
    switch(keeper, "/a")
    before = keeper.user_instructions
    event = switch(keeper, "/b", "/role")
    assert (event.changed, event.combined_user_instructions) == (False, None)
    assert [m.mode_id for m in event.enabled_modes] == ["/a"]
    assert keeper.user_instructions == before
    (error,) = event.errors
    assert (error.mode_id, error.variable, error.code) == ("/role", "role", "missing")
    assert str(error.message) == "/role: role is missing: allowed are author, reviewer."
    refused = {m.mode_id: m for m in event.refused_modes}["/role"]
    assert refused.rendered_instructions is None
    assert [(v.name, v.is_valid, v.required, v.enum) for v in refused.variables] == [
        ("role", False, True, ["author", "reviewer"])
    ]


def test_filling_in_what_was_missing_clears_the_errors(keeper: ModeKeeper) -> None:
    assert switch(keeper, "/role").errors
    event = switch(keeper, target("/role", role="author"))
    assert (event.changed, event.errors) == (True, [])
    assert "As author." in keeper.block


def test_a_required_value_may_be_the_default_but_not_empty(shop: Shop) -> None:
    shop.persistent("need", "{{x}}", "variables:\n  - name: x\n    required: true\n    default: d\n")
    keeper = shop.keeper()
    assert switch(keeper, "/need").errors == []
    assert [e.code for e in switch(keeper, target("/need", x="")).errors] == ["missing"]


def test_every_error_of_a_request_is_told_by_mode(keeper: ModeKeeper) -> None:
    event = switch(keeper, target("/role", role="boss", nope="1"), "/gone", "/go", target("/pair", x="1"))
    assert [(e.mode_id, e.code, e.variable) for e in event.errors] == [
        ("/role", "unknown_variable", "nope"),
        ("/role", "invalid", "role"),
        ("/gone", "unknown_mode", None),
        ("/go", "wrong_kind", None),
        ("/pair", "unknown_variable", "x"),
    ]


def test_a_broken_file_is_refused_with_its_own_error(shop: Shop) -> None:
    shop.mode("bad", "---\nkind: nope\n---\n")
    event = switch(shop.keeper(), "/bad")
    assert str(event.errors[0].message).endswith(
        "bad.md:2: `kind` is nope; allowed is one of persistent, instant."
    )


# -- commands ---------------------------------------------------------------------------------------------


def test_commands_run_when_a_mode_changes_and_not_when_others_do(shop: Shop, keeper: ModeKeeper) -> None:
    switch(keeper, "/cmd")
    switch(keeper, "/cmd", "/a")
    switch(keeper, "/cmd")
    assert shop.ran == ["date y"]
    switch(keeper, target("/cmd", x="z"))
    switch(keeper)
    switch(keeper, "/cmd")
    assert shop.ran == ["date y", "date z", "date y"]


def test_requests_do_not_overtake_one_another(shop: Shop) -> None:
    async def slow(definition: object, command: str) -> Ran:
        await asyncio.sleep(0.02)
        return Ran("")

    async def both() -> list[str]:
        keeper = ModeKeeper(shop.catalogue(), lambda path, most: "", slow)
        await asyncio.gather(
            keeper.set_state(SetModeState([target("/cmd")])), keeper.set_state(SetModeState([target("/a")]))
        )
        return on(keeper)

    assert asyncio.run(both()) == ["/a"]


# -- instant modes ----------------------------------------------------------------------------------------


def test_an_instant_mode_gives_its_prompt_and_leaves_the_state(keeper: ModeKeeper) -> None:
    switch(keeper, "/a")
    event = done(keeper.trigger(TriggerInstantMode("/go", {"own": SetValue("1"), "kept": SetValue("2")})))
    assert (event.rendered_prompt, event.errors) == ("Go 1/2!", [])
    assert on(keeper) == ["/a"]
    again = done(keeper.trigger(TriggerInstantMode("/go")))
    assert again.rendered_prompt == "Go d/2!"
    reset = done(keeper.trigger(TriggerInstantMode("/go", {"kept": "use_default"})))
    assert reset.rendered_prompt == "Go d/k!"


def test_an_instant_mode_fails_with_errors_and_no_prompt(keeper: ModeKeeper) -> None:
    for op, code in (
        (TriggerInstantMode("/nope"), "unknown_mode"),
        (TriggerInstantMode("/a"), "wrong_kind"),
        (TriggerInstantMode("/go", {"x": SetValue("1")}), "unknown_variable"),
    ):
        event = done(keeper.trigger(op))
        assert (event.rendered_prompt, [e.code for e in event.errors]) == ("", [code])


def test_a_trigger_runs_once_per_revision(keeper: ModeKeeper) -> None:
    switch(keeper, "/a", rev=3)
    assert done(keeper.trigger(TriggerInstantMode("/go", client_rev=2))).errors[0].code == "stale"
    assert done(keeper.trigger(TriggerInstantMode("/go", client_rev=4))).rendered_prompt
    assert done(keeper.trigger(TriggerInstantMode("/go", client_rev=4))).errors[0].code == "stale"


# -- the session ------------------------------------------------------------------------------------------


def test_default_modes_are_on_where_their_variables_are_valid(shop: Shop) -> None:
    shop.mode("review", SEED_EXAMPLE)
    shop.persistent("x-on", "On.", "default_enabled: true\n")
    shop.mode("x-on", "---\nkind: persistent\ndefault_enabled: true\n---\nFar.\n", "home/.coder/modes")
    keeper = shop.keeper()
    event = done(keeper.start())
    assert event is not None
    assert (on(keeper), event.changed) == (["/x-on"], True)
    assert [(e.mode_id, e.variable) for e in event.errors] == [("/review", "role")]
    assert [m.mode_id for m in event.refused_modes] == ["/review"]
    assert "Far." not in keeper.block


def test_without_default_modes_a_session_starts_as_it_is(keeper: ModeKeeper) -> None:
    assert done(keeper.start()) is None


def test_model_and_effort_are_those_of_the_newest_mode_that_names_one(shop: Shop) -> None:
    shop.persistent("m1", "x", "model: one\nreasoning_effort: low\n")
    shop.persistent("m2", "x", "model: two\n")
    keeper = shop.keeper()
    assert (keeper.model, keeper.reasoning_effort) == (None, None)
    switch(keeper, "/m1", "/m2", "/a")
    assert (keeper.model, keeper.reasoning_effort) == ("two", "low")
    switch(keeper, "/m1")
    assert keeper.model == "one"
    switch(keeper)
    assert keeper.model is None


def test_a_record_brings_the_state_back(shop: Shop, keeper: ModeKeeper) -> None:
    switch(keeper, target("/pair", kept="2"))
    switch(keeper, "/b", target("/role", role="author"))
    record = msgspec.json.decode(msgspec.json.encode(keeper.record()), type=ModeState)
    later = shop.keeper("Base.")
    event = done(later.restore(record))
    assert event.errors == []
    assert later.user_instructions == keeper.user_instructions
    assert values(switch(later, "/pair"), "/pair")["kept"] == ("2", "session")


def test_a_record_of_modes_that_are_gone_restores_the_rest(keeper: ModeKeeper) -> None:
    record = entry_of("mode_state", {"modes": [{"mode_id": "/gone"}, {"mode_id": "/a"}, 3, {"x": 1}]})
    assert isinstance(record, ModeState)
    event = done(keeper.restore(record))
    assert ([e.code for e in event.errors], on(keeper)) == (["unknown_mode"], ["/a"])


# -- JSON -------------------------------------------------------------------------------------------------


def test_ops_have_a_natural_json_form() -> None:
    text = (
        b'{"op":"set_mode_state","client_rev":3,"modes":[{"mode_id":"/a:b","enabled":true,'
        b'"variables":{"x":{"set":"1"},"y":"use_default"}}]}'
    )
    op = msgspec.json.decode(text, type=AnyOp)
    assert op == SetModeState([PersistentModeTarget("/a:b", {"x": SetValue("1"), "y": "use_default"})], 3)
    assert msgspec.json.decode(msgspec.json.encode(op), type=AnyOp) == op
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"op":"trigger_instant_mode","mode_id":"/a","variables":{"x":"1"}}', type=AnyOp)


def test_events_survive_json(keeper: ModeKeeper) -> None:
    event = switch(keeper, "/a", target("/role", role="author"))
    assert msgspec.json.decode(msgspec.json.encode(event), type=ModeStateChanged) == event


def test_the_server_s_revision_never_runs_backwards(keeper: ModeKeeper) -> None:
    asked: list[tuple[list[str], int | None]] = [
        (["/a"], None),
        (["/a", "/b"], None),
        (["/a"], None),
        (["/b"], 1),
        (["/b", "/c"], 2),
        (["/c"], 9),
        ([], None),
    ]
    seen = [switch(keeper, *modes, rev=rev).server_rev for modes, rev in asked]
    assert seen == [1, 2, 3, 4, 5, 9, 10]


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("enum: [a, b]", '"" is not allowed; allowed are a, b'),
        ("type: number", '"" is not a number'),
        ("type: boolean", '"" is not true or false'),
        ('pattern: "^x+$"', '"" does not match ^x+$'),
    ],
)
def test_an_explicit_empty_value_is_validated(shop: Shop, declared: str, problem: str) -> None:
    shop.persistent("e", "{{v}}", f"variables:\n  - name: v\n    {declared}\n")
    (error,) = switch(shop.keeper(), target("/e", v="")).errors
    assert (error.code, error.variable) == ("invalid", "v")
    assert problem in str(error.message)
