"""Frontmatter: every field and attribute, what is allowed, and files that are broken (seed 003 §4)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from modeshop import SEED_EXAMPLE, Shop, done

from coder.protocol.modes import SetModeState, TriggerInstantMode
from coder.protocol.ops import AnyOp


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def fault(shop: Shop, header: str, body: str = "x") -> str:
    """The message of a broken file, without its path."""
    path = shop.mode("m", f"---\n{header}\n---\n{body}\n")
    error = shop.one().error
    assert error is not None
    assert error.mode_id == "/m"
    assert str(error.message).startswith(str(path))
    return str(error.message).removeprefix(str(path))


def test_the_example_of_the_seed(shop: Shop) -> None:
    shop.mode("design-review", SEED_EXAMPLE)
    mode = shop.one("design-review")
    assert mode.error is None
    assert mode.warnings == []
    assert (mode.kind, mode.display_name, mode.description) == (
        "persistent",
        "Design Review",
        "代码评审辅助模式",
    )
    assert mode.default_enabled
    role, region, ticket = mode.variables
    assert (role.name, role.type, role.required, role.enum) == ("role", "enum", True, ["author", "reviewer"])
    assert (region.default, region.mode_scoped, region.type) == ("emea", True, "text")
    assert (ticket.shortcuts, ticket.pattern) == (["-t", "ticket="], r"^[A-Z]+-\d+$")


def test_a_choice_that_is_listed_twice_is_one_choice(shop: Shop) -> None:
    shop.persistent("m", "{{x}}", "variables:\n  - name: x\n    enum: [a, a, b]\n")
    assert shop.one().variables[0].enum == ["a", "b"]


def test_utf_16_without_its_mark_is_no_text(shop: Shop) -> None:
    shop.mode("m", "").write_bytes("---\nkind: persistent\n---\nx".encode("utf-16-le"))
    error = shop.one().error
    assert error is not None
    assert str(error.message).endswith("m.md:1: The file is not UTF-8 text.")


def test_a_projects_mode_chooses_no_model_file(shop: Shop) -> None:
    shop.mode("m", "---\nmodel: local:x.gguf\n---\nBody\n")
    mode = shop.one()
    assert (mode.error, mode.model) == (None, None)
    assert "cannot choose a model file" in str(mode.warnings[0])


def test_every_field_and_attribute(shop: Shop) -> None:
    shop.mode(
        "m",
        """---
kind: instant
description: >
  folded
  text
argument_hint: "[env]"
display_name: Deploy
model: big-model
reasoning_effort: high
allowed_tools: [read, bash]
variables:
  - {name: env, type: enum, enum: [dev, prod], default: dev, required: true, inline_edit: true}
  - name: n
    type: number
    default: 3
    mode_scoped: false
  - name: on
    type: boolean
    default: yes
  - name: where
    type: path
    inline_edit: no
  - plain
---
Body {{env}} {{n}} {{on}} {{where}} {{plain}}
""",
    )
    mode = shop.one()
    assert mode.error is None
    assert (mode.description, mode.argument_hint, mode.model) == ("folded text", "[env]", "big-model")
    assert (mode.reasoning_effort, mode.allowed_tools) == ("high", ["read", "bash"])
    assert [*map(str, mode.warnings)] == ["allowed_tools is reserved and restricts nothing yet"]
    env, n, on, where, plain = mode.variables
    assert (env.inline_edit, where.inline_edit, plain.inline_edit) == (True, False, None)
    assert (n.default, n.mode_scoped, on.default) == ("3", False, "yes")
    assert (where.type, plain.type, plain.required, plain.default) == ("path", "text", False, None)


def test_defaults_of_a_bare_file(shop: Shop) -> None:
    shop.mode("a/b", "Just a text.\n")
    mode = shop.one("a:b")
    assert (mode.display_name, mode.kind, mode.variables, mode.default_enabled) == (
        "a:b",
        "instant",
        [],
        False,
    )
    assert shop.catalogue().modes[0].body == "Just a text."


def test_order_of_declaration_is_kept_also_in_a_mapping(shop: Shop) -> None:
    shop.mode("m", "---\nvariables:\n  zeta:\n  alpha: {default: x}\n  mid:\n    required: true\n---\n")
    assert [v.name for v in shop.one().variables] == ["zeta", "alpha", "mid"]


def test_null_means_not_given_and_quoted_null_is_a_text(shop: Shop) -> None:
    shop.mode(
        "m",
        '---\nmodel: null\nvariables:\n  - name: a\n    default: ~\n  - name: b\n    default: "null"\n---\n',
    )
    assert shop.one().model is None
    assert [v.default for v in shop.one().variables] == [None, "null"]


def test_values_stay_as_written(shop: Shop) -> None:
    """YAML 1.1 would make numbers, dates and truths of these."""
    shop.mode(
        "m", "---\nvariables:\n  - name: a\n    enum: [on, 007, 1e3, 2020-01-01, no]\n    default: 007\n---\n"
    )
    assert shop.one().variables[0].enum == ["on", "007", "1e3", "2020-01-01", "no"]


def test_windows_line_ends_and_byte_order_mark(shop: Shop) -> None:
    path = shop.mode("m", "")
    path.write_bytes(b"\xef\xbb\xbf---\r\nkind: persistent\r\n---\r\nbody\r\nmore\r\n")
    assert shop.one().kind == "persistent"
    assert shop.catalogue().modes[0].body == "body\nmore"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("kind: sometimes", ":2: `kind` is sometimes; allowed is one of persistent, instant."),
        ("kind: [persistent]", ":2: `kind` is a list or mapping; allowed is one of persistent, instant."),
        (
            "description: a\ndefault_enabled: maybe",
            ":3: `default_enabled` is maybe; allowed is true or false.",
        ),
        ("reasoning_effort: huge", "`reasoning_effort` is huge; allowed is one of none, minimal, low,"),
        ("variables: 3", ":2: `variables` is 3; allowed is a list of variables, each with a name."),
        ("variables:\n  - default: x", ":3: A variable has no name."),
        ("variables:\n  - name: 'a b'", ":3: `name` is a b; allowed is a name of letters"),
        ("variables:\n  - name: a\n  - name: a", ":4: The variable a is declared twice."),
        ("variables:\n  - name: a\n    type: date", ":4: `type` is date; allowed is one of text, enum,"),
        ("variables:\n  - name: a\n    type: enum", ":3: The variable a is of type enum but lists no values"),
        ("variables:\n  - name: a\n    pattern: '('", ":4: `pattern` is (; allowed is a regular expression"),
        (
            "variables:\n  - name: a\n    enum: [x]\n    default: y",
            ":5: The default of a is not valid: y is not",
        ),
        (
            "variables:\n  - name: a\n    shortcuts: ['a b']",
            ":4: `shortcuts` is a list or mapping; allowed is words",
        ),
        ("kind: instant\nkind: instant", ":3: `kind` is given twice."),
        ("- a\n- b", ":2: The frontmatter must be fields"),
        ("a: [1, 2", "The frontmatter is no valid YAML: "),
        ("a: 'b' c", ":2: The frontmatter is no valid YAML: "),
        ("a: *nowhere", ":2: The frontmatter uses *nowhere"),
        ("? [a]\n: b", "A field of the frontmatter has no simple name."),
    ],
)
def test_a_broken_header_says_where_and_what_is_allowed(shop: Shop, header: str, message: str) -> None:
    assert message in fault(shop, header)


def test_a_header_without_an_end(shop: Shop) -> None:
    shop.mode("m", "---\nkind: instant\nand on it goes\n")
    error = shop.one().error
    assert error is not None
    assert error.line == 1
    assert "not closed" in str(error.message)


def test_undeclared_variables_are_named_with_mode_and_line(shop: Shop) -> None:
    message = fault(shop, "variables:\n  - name: who\n  - name: when", "hello {{who}}\n\nin {{ place }}")
    assert message == ":8: /m uses {{place}}, which it does not declare; declared: who, when."
    error = shop.one().error
    assert error is not None
    assert (error.variable, error.line, error.code) == ("place", 8, "template")


def test_unknown_fields_are_worth_a_warning(shop: Shop) -> None:
    shop.mode("m", "---\nkind: persistent\ncolour: red\nvariables:\n  - name: a\n    requird: true\n---\nx\n")
    mode = shop.one()
    assert mode.error is None
    unknown = [str(warning).split(" is not known")[0] for warning in mode.warnings]
    assert unknown == ["line 3: `colour`", "line 6: `requird`"]


def test_spellings_of_other_tools(shop: Shop) -> None:
    shop.mode("m", "---\nargument-hint: '[x]'\nallowed-tools: Bash\n---\nx\n")
    assert (shop.one().argument_hint, shop.one().allowed_tools) == ("[x]", ["Bash"])


def test_instant_modes_cannot_be_on_by_default(shop: Shop) -> None:
    shop.mode("m", "---\nkind: instant\ndefault_enabled: true\n---\nx\n")
    assert not shop.one().default_enabled
    assert [*map(str, shop.one().warnings)] == ["default_enabled has no meaning for an instant mode"]


def test_pattern_is_ignored_for_an_enum(shop: Shop) -> None:
    shop.mode("m", "---\nvariables:\n  - name: a\n    enum: [x]\n    pattern: '('\n---\n")
    assert shop.one().error is None
    assert shop.one().variables[0].pattern is None


def test_a_tag_constructs_nothing(shop: Shop) -> None:
    shop.mode("m", "---\ndescription: !!python/object/apply:os.system ['touch hacked']\n---\nx\n")
    error = shop.one().error
    assert error is not None
    assert "`description` is a list or mapping" in str(error.message)


def test_deep_nesting_does_not_end_the_process(shop: Shop) -> None:
    """libyaml's tree builder overflows the C stack on this."""
    shop.mode("m", "---\nkind: " + "[" * 60_000 + "\n---\nx\n")
    code = (
        "from pathlib import Path; from coder.extend.modes.discover import Catalogue; "
        "from coder.extend.modes.discover import ModeRoots; from coder.texts import Catalog; "
        f"print(Catalogue(ModeRoots(Path({str(shop.cwd)!r}), [])).definitions[0].error.message)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "nested more than" in ran.stdout


def test_a_bomb_of_aliases_stays_small(shop: Shop) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    shop.mode("m", f"---\n{bomb}variables: *i\n---\nx\n")
    error = shop.one().error
    assert error is not None
    assert "`variables` is a list or mapping" in str(error.message)


# -- what the documentation shows ------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "path", sorted((DOCS / "examples" / "modes").glob("*.md")), ids=lambda path: path.stem
)
def test_the_examples_are_valid_and_off(shop: Shop, path: Path) -> None:
    shop.mode(path.stem, path.read_text(encoding="utf-8"))
    mode = shop.one(path.stem)
    assert (mode.error, mode.warnings, mode.default_enabled) == (None, [], False)
    assert mode.description
    assert mode.variables
    invoked = shop.keeper().from_line(
        f"/{path.stem} v1.0" if path.stem == "release-notes" else f"/{path.stem}"
    )
    keeper = shop.keeper()
    if isinstance(invoked.op, SetModeState):
        assert done(keeper.set_state(invoked.op)).errors == []
    else:
        assert isinstance(invoked.op, TriggerInstantMode)
        assert done(keeper.trigger(invoked.op)).errors == []
        assert shop.ran == ["git log --no-merges --format=%s%n%b v1.0..HEAD"]


def test_there_are_three_examples() -> None:
    assert len(list((DOCS / "examples" / "modes").glob("*.md"))) == 3


def test_the_documented_mode_and_request_are_as_they_say(shop: Shop) -> None:
    text = (DOCS / "modes.md").read_text(encoding="utf-8")
    mode = text.split("```markdown\n")[1].split("```")[0]
    shop.mode("review", mode)
    assert (shop.one("review").error, shop.one("review").warnings) == (None, [])
    op = msgspec.json.decode(text.split("```json\n")[1].split("```")[0], type=AnyOp)
    keeper = shop.keeper("…what AGENTS.md says…")
    assert isinstance(op, SetModeState)
    assert done(keeper.set_state(op)).errors == []
    block = text.split("```text\n")[1].split("```")[0]
    assert keeper.user_instructions + "\n" == block.replace("(project:shop)", "(project:project)")


@pytest.mark.parametrize("body", ["one\n\nlone {{ here", "one\n\n{{}}", "one\n\n{{a b}}"])
def test_braces_without_a_name_are_told_when_the_file_is_read(shop: Shop, body: str) -> None:
    assert fault(shop, "kind: instant", body).startswith(":6: {{")
