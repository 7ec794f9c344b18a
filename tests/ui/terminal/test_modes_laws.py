"""Laws of the mode bar and its form: whatever is typed, nothing fails, rows fit, and targets are whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modes_kit import definition, listed, rendered, state

from coder.protocol.events import InputDone, SessionStarted
from coder.protocol.modes import (
    USE_DEFAULT,
    ModeError,
    ModeStateChanged,
    ModeVariable,
    ModeVariableInput,
    PersistentModeTarget,
    RenderedMode,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)
from coder.texts import Catalog
from coder.ui.terminal.input.editing import Caret
from coder.ui.terminal.input.menu import MenuItem, ranked
from coder.ui.terminal.modes.form import FormField, ModeForm, caret_line, edited_text_line, field_of
from coder.ui.terminal.modes.known_modes import KnownModes
from coder.ui.terminal.modes.mode_bar import ModeBar, edited_in_place
from coder.ui.terminal.modes.mode_menu import ModeMenu
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.width import line_width, plain

TEXTS = Catalog("en")

TEXT = st.text(st.sampled_from("ab -=\\\"'\t\n\x1b\x00世界é\u0301😀🇩🇪{}\u202e"), max_size=12)
NAMED_KEYS = [
    *("left", "right", "up", "down", "home", "end", "enter", "escape", "tab", "s-tab", "backspace", "delete"),
    *(
        "paste",
        "newline",
        "c-a",
        "c-e",
        "c-u",
        "c-k",
        "c-w",
        "c-d",
        "c-b",
        "c-f",
        "c-n",
        "c-p",
        "f1",
        "pageup",
    ),
]
KEYS = st.one_of(
    st.sampled_from(NAMED_KEYS).map(lambda name: (name, "pasted\n世" if name == "paste" else "\x01")),
    st.sampled_from("ab 1世\x1b-").map(lambda char: (char, char)),
)
VARIABLES = st.lists(
    st.builds(
        ModeVariable,
        name=st.sampled_from(["a", "role", "a_very_long_name_of_a_variable", "x-1"]),
        type=st.sampled_from(["text", "boolean", "number", "path"]),
        default=st.one_of(st.none(), TEXT),
        required=st.booleans(),
        enum=st.lists(TEXT.filter(bool), max_size=4, unique=True),
        shortcuts=st.lists(st.sampled_from(["-t", "t="]), max_size=2),
        pattern=st.sampled_from([None, "^a+$"]),
        inline_edit=st.sampled_from([None, True, False]),
        mode_scoped=st.booleans(),
        description=TEXT,
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda variable: variable.name,
)


def one_row(text: str) -> bool:
    """Nothing in it moves the caret, and nothing hides or reorders what stands beside it."""
    return not set(text) & set("\n\t\r\x1b\x00\u202e")


@given(TEXT, st.integers(0, 12), st.lists(KEYS, max_size=20))
def test_the_caret_stays_in_the_text(text: str, at: int, keys: list[tuple[str, str]]) -> None:
    caret = Caret(text, min(at, len(text)))
    for name, data in keys:
        caret = edited_text_line(caret, name, data) or caret
        assert 0 <= caret.at <= len(caret.text)


@given(TEXT, st.integers(0, 12), st.integers(2, 20))
def test_a_line_with_its_caret_fits(text: str, at: int, room: int) -> None:
    line = caret_line(Caret(text, min(at, len(text))), room)
    # the character under the caret may be one that is shown as several
    assert line_width(line) <= max(room, line_width([line[1]]) + 2)
    assert one_row(plain(line))


@given(TEXT.filter(str.isprintable))
def test_what_is_typed_is_what_is_set(text: str) -> None:
    field = field_of(ModeVariable("v"), "")
    for char in text:
        field = field.key(char, char) or field
    assert field.text == text


@pytest.mark.thorough
@given(
    VARIABLES, st.lists(TEXT, max_size=5), st.lists(KEYS, max_size=25), st.integers(8, 90), st.integers(1, 30)
)
def test_a_form_takes_any_key_and_fits_any_screen(
    variables: list[ModeVariable], values: list[str], keys: list[tuple[str, str]], width: int, height: int
) -> None:
    given_values = {v.name: value for v, value in zip(variables, values, strict=False)}
    form = ModeForm("/m", "Title 标题 \x1b[31m", "persistent", variables, given_values)
    for name, data in keys:
        answer = form.key(name, data)
        if answer == "apply":  # only where every value is one that its variable takes
            assert all(field.problem() is None for field in form.fields)
        lines = form.lines(width, height, TEXTS)
        assert len(lines) <= max(height, 1 + (height > 1))
        assert all(line_width(line) <= width for line in lines)
        assert all(one_row(plain(line)) for line in lines)
    assert set(form.values) == {variable.name for variable in variables}


@pytest.mark.thorough
@given(
    st.lists(VARIABLES, min_size=1, max_size=4),
    st.lists(KEYS, max_size=30),
    st.integers(8, 90),
    st.integers(3, 30),
)
def test_a_bar_takes_any_key_and_every_op_is_a_whole_target(
    modes: list[list[ModeVariable]], keys: list[tuple[str, str]], width: int, rows: int
) -> None:
    known = KnownModes()
    definitions = [definition(f"/m{n}", variables) for n, variables in enumerate(modes)]
    known.handle(listed(*definitions))
    on = [rendered(one) for one in definitions]
    known.handle(changed(on))
    sent: list[SetModeState | TriggerInstantMode] = []

    def send(op: SetModeState | TriggerInstantMode) -> bool:
        sent.append(op)
        return True

    bar = ModeBar(known, TEXTS, Theme("none"), send, lambda: (width, rows))
    bar.enter()
    revisions = []
    for name, data in keys:
        before = set(known.wanted)
        if bar.key(name, data) != "stay":
            bar.enter()
        for op in sent:
            assert isinstance(op, SetModeState)
            assert len(before ^ {target.mode_id for target in op.modes}) <= 1
            revisions.append(op.client_rev or 0)
            known.handle(
                changed(
                    [mode for mode in on if mode.mode_id in {t.mode_id for t in op.modes}], rev=op.client_rev
                )
            )
            known.handle(InputDone(op="set_mode_state"))
        sent.clear()
        drawn = bar.rows(width)
        assert len(drawn) <= max(1, rows - 4) + 1
        assert all(line_width([("", row)]) <= width and one_row(row) for row in drawn)
    assert revisions == sorted(set(revisions))  # each newer than the one before


def changed(on: list[RenderedMode], rev: int | None = 1, **more: Any) -> ModeStateChanged:
    return ModeStateChanged(on, None, rev or 0, True, **more)


def test_three_states_of_a_value() -> None:
    fresh = field_of(ModeVariable("v", default="d"), "")
    assert (fresh.value_state, fresh.shown) == ("default", "d")
    set_now = fresh.key("x", "x")
    assert isinstance(set_now, FormField)
    assert (set_now.value_state, set_now.shown) == ("explicit", "x")
    had = field_of(ModeVariable("v", default="d"), "x")
    assert had.value_state == "explicit"
    cleared = had.key("backspace", "")
    assert isinstance(cleared, FormField)
    assert (cleared.value_state, cleared.shown) == ("pending_unset", "d")


def test_choices_by_arrows_letters_and_digits() -> None:
    field = field_of(ModeVariable("v", type="enum", enum=["stable", "beta", "sunset"], default="beta"), "")
    for key, wanted in (("right", "sunset"), ("right", "stable"), ("left", "sunset"), ("s", "stable"),
                        ("s", "sunset"), ("2", "beta"), ("x", "beta"), ("delete", "")):  # fmt: skip
        field = field.key(key, key) or field
        assert field.text == wanted, key
    flag = field_of(ModeVariable("v", type="boolean"), "")
    for key, wanted in ((" ", "true"), (" ", "false"), ("y", "true"), ("N", "false"), ("q", "false")):
        flag = flag.key(key, key) or flag
        assert flag.text == wanted, key


def test_where_a_variable_is_edited() -> None:
    """003 §6: in place where asked for or free text without a list; else in the form."""
    assert edited_in_place(ModeVariable("v"))
    assert edited_in_place(ModeVariable("v", type="enum", enum=["a"], inline_edit=True))
    assert not edited_in_place(ModeVariable("v", inline_edit=False))
    for kind in ("boolean", "number", "path"):
        assert not edited_in_place(ModeVariable("v", type=kind))
    assert not edited_in_place(ModeVariable("v", type="enum", enum=["a"]))


def test_an_edit_takes_back_no_other_one_neither_before_it_is_answered() -> None:
    known = KnownModes()
    one = definition("/m", [ModeVariable("a", default="A"), ModeVariable("b"), ModeVariable("c")])
    known.handle(listed(one))
    known.handle(changed([rendered(one, a=state("a", "", default="A"))]))
    sent: list[SetModeState | TriggerInstantMode] = []

    def send(op: SetModeState | TriggerInstantMode) -> bool:
        sent.append(op)
        return True

    bar = ModeBar(known, TEXTS, Theme("none"), send, lambda: (80, 24))
    bar.enter()
    for key in ("right", "enter", "x", "enter", "right", "enter", "y", "enter"):
        bar.key(key, key)
    values: dict[str, ModeVariableInput] = {"a": SetValue(""), "b": SetValue("x"), "c": SetValue("y")}
    assert [op.modes for op in sent if isinstance(op, SetModeState)] == [
        [PersistentModeTarget("/m", {"a": SetValue(""), "b": SetValue("x")})],
        [PersistentModeTarget("/m", values)],
    ]
    bar.key("tab", "")
    assert bar.form is not None
    assert bar.form.values == {"a": "", "b": "x", "c": "y"}
    for _ in sent:
        known.handle(InputDone(op="set_mode_state"))
    assert known.explicit("/m") == {"a": ""}  # nothing is under way any more: the engine's word holds


def test_the_caret_of_a_long_value_is_seen_where_there_is_little_room() -> None:
    known = KnownModes()
    one = definition("/mode-number-30", [ModeVariable("q")])
    known.handle(listed(one))
    known.handle(changed([rendered(one)]))
    bar = ModeBar(known, TEXTS, Theme("none"), lambda _op: True, lambda: (40, 10))
    bar.enter()
    bar.key("enter", "")
    bar.key("paste", "值" * 24)
    assert any(row.endswith("值 ]") for row in bar.rows(40)), bar.rows(40)


class TestTheBook:
    def known(self) -> tuple[KnownModes, RenderedMode, RenderedMode]:
        known = KnownModes()
        a = definition("/a", [ModeVariable("own", default="d"), ModeVariable("kept", mode_scoped=False)])
        b = definition("/b", [])
        known.handle(listed(a, b))
        one = rendered(a, own=state("own", "x", default="d"), kept=state("kept", "y"))
        two = rendered(b)
        known.handle(changed([one, two], rev=4))
        return known, one, two

    def test_targets_are_whole_and_newer_than_what_was_done(self) -> None:
        known, *_ = self.known()
        op = known.target_with("/a", {"own": SetValue("z"), "kept": USE_DEFAULT})
        assert op == SetModeState(
            [
                PersistentModeTarget("/a", {"own": SetValue("z"), "kept": USE_DEFAULT}),
                PersistentModeTarget("/b"),
            ],
            client_rev=5,
        )

    def test_what_is_asked_before_the_answer_builds_on_what_was_asked(self) -> None:
        known, *_ = self.known()
        assert [t.mode_id for t in known.target_without("/a").modes] == ["/b"]
        assert known.target_without("/b").modes == []
        assert [entry.wanted for entry in known.entries()] == [False, False]
        assert [entry.on for entry in known.entries()] == [True, True]  # the engine has the last word

    def test_what_is_off_stays_listed_without_its_own_values_until_the_bar_is_left(self) -> None:
        known, _, two = self.known()
        known.target_without("/a")
        known.handle(changed([two], rev=5))
        known.handle(InputDone(op="set_mode_state"))
        off, on = known.entries()
        assert (off.mode.mode_id, off.on, on.on) == ("/a", False, True)
        assert [(v.name, v.value) for v in off.mode.variables] == [("own", "d"), ("kept", "y")]
        assert known.target_with("/a").modes[-1] == PersistentModeTarget("/a")
        known.remove_disabled()
        assert [entry.mode.mode_id for entry in known.entries()] == ["/b"]

    def test_a_refusal_is_told_at_the_mode_and_goes_with_the_next_success(self) -> None:
        known, one, two = self.known()
        error = ModeError("/a", "no", variable="own", code="missing")
        known.handle(changed([one, two], errors=[error], refused_modes=[rendered(definition("/a", []))]))
        first, second = known.entries()
        assert (first.on, first.missing, first.mode, second.errors) == (True, ["own"], one, [])
        known.handle(changed([one, two], rev=6))
        assert known.entries()[0].missing == []

    def test_another_session_begins_with_nothing_on(self) -> None:
        known, *_ = self.known()
        known.handle(SessionStarted("s", "/", "m", "default", "balanced"))
        assert known.entries() == []
        op = known.target_with("/b")
        assert op.modes == [PersistentModeTarget("/b")]
        assert (op.client_rev or 0) > 4


class TestTheMenu:
    def test_a_tag_keeps_a_scope_and_words_rank_within_it(self) -> None:
        items = [MenuItem("/a", "alpha", scope="(global)"), MenuItem("/b", "beta", scope="(project:x)")]
        assert [i.insert for i in ranked(items, "(global)")] == ["alpha"]
        assert [i.insert for i in ranked(items, "(PROJECT:")] == ["beta"]
        assert [i.insert for i in ranked(items, "(project bet")] == ["beta"]
        assert ranked(items, "(global) beta") == []
        assert ranked(items, "(global) (project") == []

    @given(st.text("ab( )/:x", max_size=12))
    def test_no_query_fails_and_every_hit_was_there(self, query: str) -> None:
        items = [MenuItem(f"/{n}", name, scope="(global)") for n, name in enumerate(("ab", "a:b", "x"))]
        assert set(ranked(items, query)) <= set(items)

    def test_entries_are_made_once_for_each_change(self) -> None:
        known = KnownModes()
        menu = ModeMenu(known, TEXTS)
        one = definition("/a", [ModeVariable("r", required=True), ModeVariable("o")])
        known.handle(listed(one))
        first = menu.items()
        assert [item.hint for item in first] == ["<r> [o]"]
        assert menu.items() is first
        known.handle(changed([rendered(one)]))
        assert [item.label for item in menu.items()] == ["/a", "/modes off a"]
        assert [item.insert for item in menu.arguments("")] == ["off a"]

    def test_usage_leaves_room(self) -> None:
        known = KnownModes()
        known.handle(listed(definition("/a", [ModeVariable(f"variable{n}") for n in range(9)])))
        (item,) = ModeMenu(known, TEXTS).items()
        assert item.hint == "[variable0] [variable1] …"
