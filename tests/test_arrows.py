"""The house rules that a machine can hold: which room may look where, and how long a file may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from coder.base.addons import addons
from coder.texts import ADDED, PARTS, catalogue

SOURCE = Path(__file__).parent.parent / "src" / "coder"
FILES = sorted(SOURCE.rglob("*.py"))

# Each package may import itself and the packages before it.
ORDER = (
    "texts",
    "base",
    "protocol",
    "config",
    "models",
    "tools",
    "policy",
    "context",
    "history",
    "extend",
    "engine",
    "ui",
    "addons",
    "cli",
)
ALLOWED = {package: set(ORDER[: at + 1]) for at, package in enumerate(ORDER)}
ALLOWED["cli"] -= {"addons"}
ALLOWED["addons"] = {"addons", "base", "protocol", "texts"}
FRONT_ENDS = {"ui", "addons", "cli"}

CORE = set(ORDER) - FRONT_ENDS - {"texts", "config"}

# What a front end needs of the engine besides ops and events: to open it.
ENGINE_DOORS = {"engine.engine", "engine.setup", "engine.sdk"}
# Who looks further, at what, and why. The list may get shorter, not longer.
LOOKS_FURTHER = {
    ("cli.trust", "engine.custom_modes"): "the commands of modes, which are part of what is trusted",
    ("ui.terminal.start", "engine.custom_modes"): "the commands of modes, as for cli.trust",
}

# Who below the front ends puts anything into words, and why. The list may get shorter, not longer.
KNOWS_A_LANGUAGE = {
    "protocol.events": "for readers that have no texts of their own",
    "policy.visible": "called by whoever shows a question",
    "policy.explain": "called by `coder explain`",
    "extend.modes.importing": "called by `coder modes import`",
    "engine.setup": "reads for the front end which language the person wants",
    "engine.sdk": "a front end",
}

MAX_LINES = 800


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    """The trees are 100 MB, which would slow down every later garbage collection."""
    yield
    tree.cache_clear()
    re.purge()  # `patterns()` in one expression


def name_of(path: Path) -> str:
    """`engine.turn` for src/coder/engine/turn.py."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Modules of ours that a file names anywhere, inside functions and for types alike."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room they reach into"
            names = [node.module or ""]
            if node.module == "coder":  # a package, whose modules are reached as its attributes
                names = [f"coder.{alias.name}" for alias in node.names if alias.name in ORDER]
        else:
            continue
        for name in names:
            if name.startswith("coder."):
                yield name.removeprefix("coder."), node.lineno


def room(name: str) -> str:
    return name.partition(".")[0]


def test_arrows_point_one_way() -> None:
    wrong = [
        f"{name_of(path)}, line {line}: {name}"
        for path in FILES
        if len(path.relative_to(SOURCE).parts) > 1
        for name, line in imports(path)
        if room(name) not in ALLOWED[room(name_of(path))]
    ]
    assert not wrong


def test_an_add_on_imports_no_other() -> None:
    wrong = [
        f"{name_of(path)}: {name}"
        for path in FILES
        if room(name_of(path)) == "addons"
        for name, _ in imports(path)
        if room(name) == "addons" and name.split(".")[1:2] != name_of(path).split(".")[1:2]
    ]
    assert not wrong


def test_every_room_is_known() -> None:
    rooms = {path.parent.name for path in FILES if path.parent.parent == SOURCE}
    assert rooms <= set(ALLOWED)


def test_nothing_imports_a_front_end_but_the_command_line() -> None:
    wrong = [
        f"{name_of(path)}: {name}"
        for path in FILES
        for name, _ in imports(path)
        if name_of(path)
        and room(name) in FRONT_ENDS
        and room(name_of(path)) not in ("cli", "__main__", room(name))
    ]
    assert not wrong


def test_front_ends_reach_the_engine_by_its_doors() -> None:
    wrong = [
        f"{name_of(path)}: {name}"
        for path in FILES
        if room(name_of(path)) in FRONT_ENDS
        for name, _ in imports(path)
        if room(name) == "engine" and name not in ENGINE_DOORS and (name_of(path), name) not in LOOKS_FURTHER
    ]
    assert not wrong


def test_front_ends_read_the_engine_through_its_view() -> None:
    """They change it by ops, and what they read is `Engine.view`: not the agent behind it."""
    wrong = [
        f"{name_of(path)}, line {node.lineno}: {ast.unparse(node)}"
        for path in FILES
        if room(name_of(path)) in FRONT_ENDS
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Attribute) and _is_inside_the_engine(node))
        or (isinstance(node, ast.Call) and _names_the_agent(node))
    ]
    assert not wrong


def _is_inside_the_engine(node: ast.Attribute) -> bool:
    owner = node.value
    named = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    private = node.attr.startswith("_") and named in ("engine", "view")
    return private or node.attr == "agent" or (node.attr == "_agent" and named != "self")


def _names_the_agent(node: ast.Call) -> bool:
    """By a string, or all that an object has."""
    called = getattr(node.func, "id", "")
    by_name = called == "getattr" and getattr(node.args[1], "value", None) in ("agent", "_agent")
    everything = called == "vars" and getattr(node.args[0], "id", "") in ("engine", "view")
    return by_name or everything


def test_the_language_is_the_front_end_s() -> None:
    """Events carry `AnyText`: only their readers have a `Catalog` to put it into words."""
    named = {
        name_of(path)
        for path in FILES
        if room(name_of(path)) in CORE
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.ImportFrom) and any(alias.name == "Catalog" for alias in node.names))
        or (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say")
    }
    assert named == set(KNOWS_A_LANGUAGE)


def test_no_module_of_the_engine_knows_a_wire() -> None:
    wires = ("models.wires", "base.http")
    named = {(name_of(p), n) for p in FILES if room(name_of(p)) == "engine" for n, _ in imports(p)}
    assert {(who, wire) for who, wire in named if wire.startswith(wires)} == set()


def test_no_file_is_too_long() -> None:
    everywhere = [*FILES, *Path(__file__).parent.rglob("*.py"), *Path(__file__).parents[1].glob("bench/*.py")]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in everywhere}
    assert {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in FILES if tree(path).body and not ast.get_docstring(tree(path))]
    assert silent == []


def said(path: Path) -> Iterator[tuple[str, int]]:
    """The keys that are put into words: the first argument of `say(…)`, `x.say(…)` and `Text(…)`."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called in (
            "say",
            "Phrase",
            "BatchError",
            "ConfigError",
            "McpError",
            "ShellParseError",
            "UsageError",
        ):
            yield from ((key, node.lineno) for key in literals(node.args[0]))


def literals(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*literals(node.body), *literals(node.orelse))


@cache
def all_texts(lang: str) -> dict[str, str]:
    """The catalogue and the texts of add-ons."""
    addons()  # makes their texts known
    texts: dict[str, str] = {}
    for part in ("", *PARTS):
        texts |= catalogue(lang, f"{part}.")
    for package in ADDED:
        texts |= import_module(f"{package}.{lang}").TEXTS
    return texts


def test_what_is_said_is_in_the_catalogue() -> None:
    """In the languages that are complete; any other says in English what it lacks."""
    unknown = [
        f"{name_of(path)}, line {line}: {key} in {lang}"
        for path in FILES
        if room(name_of(path)) != "texts"
        for key, line in said(path)
        for lang in ("en", "zh")
        if key not in all_texts(lang)
    ]
    assert not unknown


def test_the_scan_for_texts_finds_them() -> None:
    assert sum(len(list(said(path))) for path in FILES) > 50


def patterns() -> Iterator[str]:
    """What the source has as strings, and f-strings with anything where their values stand."""
    for path in FILES:
        if room(name_of(path)) == "texts" or path.parent.name == "texts":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
                if len("".join(parts)) >= 4:  # less would fit any key
                    yield "".join(re.escape(part) if part else ".+" for part in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value)
    yield from (re.escape(addon.usage) for addon in addons())


def test_no_text_is_kept_that_nobody_says() -> None:
    keys = set(all_texts("en"))
    fits = re.compile("|".join(sorted(set(patterns()))))
    assert [key for key in sorted(keys) if not fits.fullmatch(key.removesuffix(".one"))] == []
