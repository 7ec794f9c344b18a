"""Settings that a project's configuration may not loosen before the person trusts the directory.

Each safety setting has one rule, which compares the person's layers with and without the project's.
Tightening always applies. Imported only where a project has a configuration.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from operator import lt, ne
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from coder.base.safe_open import read_whole
from coder.base.text import shown
from coder.config import ConfigError
from coder.config.errors import found
from coder.config.load import KeyPath, Settings, at, has
from coder.config.models import LOCAL_PREFIX, is_local
from coder.config.providers import resolve_provider
from coder.config.schema import Config, Decision, NetworkRules, Preset
from coder.texts import Catalog, Text

Reason = Literal["loosens", "starts", "sends", "costs"]
PresetTable = Callable[[Preset, str], Decision]  # a preset's decision for a tool

_PRESETS: Final[tuple[Preset, ...]] = get_args(Preset)  # strictest first
_SANDBOX: Final = ("require", "auto", "off")
_LARGEST: Final = 64 << 20  # bytes of a file whose content is trusted
_DECISIONS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")


class Ignored(msgspec.Struct, frozen=True):
    """A setting of the project's file that needs trust. `value` is shortened."""

    key: str
    reason: Reason
    value: str
    file: str = ".coder/config.json"

    def text(self, texts: Catalog) -> str:
        reason = Text(f"config.ignored.{self.reason}")
        return texts.say("config.ignored", file=self.file, key=self.key, reason=reason)


class Loosening(msgspec.Struct, frozen=True):
    """One setting of the project that needs trust."""

    path: KeyPath
    reason: Reason
    value: Any

    @property
    def key(self) -> str:
        """Unnormalized: if two names collided, trust in one would cover the other."""
        return ".".join(self.path)

    def as_ignored(self) -> Ignored:
        return Ignored(key=shown(self.key), reason=self.reason, value=found(self.value, self.key))


def loosenings(
    project: Settings,
    person: Config,
    together: Config,
    root: Path,
    environ: Mapping[str, str],
    preset_table: PresetTable,
) -> list[Loosening]:
    """Settings that `project` loosens. `person`: all layers without it; `together`: with it."""
    paths = [
        *_loosened_paths(project, person, together, root, preset_table),
        *_other_models(project, person, together, environ),
    ]
    return [Loosening(path=path, reason=reason, value=at(project, path)) for path, reason in paths]


def named_files(root: Path, loose: list[Loosening]) -> dict[str, str]:
    """Digests of the project's files that its hooks, MCP servers and status line run."""
    base, found = root.resolve(), dict[str, str]()
    for one in loose:
        if one.path[0] in ("hooks", "mcp") or one.path == ("ui", "statusline"):
            for word in sorted({word for text in _strings(one.value) for word in _words(text)}):
                if (base / word).is_symlink() or (base / word).is_file():
                    found[f"files/{word}"] = "unreadable"  # a link out of the project, for example
                    with contextlib.suppress(OSError):
                        found[f"files/{word}"] = sha256(read_whole(base / word, _LARGEST, base)).hexdigest()
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _words(text: str) -> Iterator[str]:
    """The text itself, its shell words, and what follows `=` in them, relative to the project."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in (text, *words):
        for name in (word, word.partition("=")[2]):
            name = re.sub(r"^\$\{?\w*PROJECT_DIR\}?/", "", name)
            if name.strip() and "\0" not in name and not name.startswith(("/", "..")):
                yield os.path.normpath(name)


def _loosened_paths(
    project: Settings, person: Config, together: Config, root: Path, preset_table: PresetTable
) -> Iterator[tuple[KeyPath, Reason]]:
    for section, name, reason, looser in _RULES:
        if has(project, (section, name)):
            mine, theirs = (getattr(getattr(config, section), name) for config in (person, together))
            if mine != theirs and looser(mine, theirs):
                yield (section, name), reason
    yield from _lifted_bounds(project, person, together)
    if has(project, ("skills", "paths")) and _leads_outside(person, together, root):
        yield ("skills", "paths"), "sends"
    for tool in at(project, ("permission", "tools")) or {}:
        if _tool_is_looser(tool, person, together, preset_table):
            yield ("permission", "tools", tool), "loosens"
    for event, groups in (project.get("hooks") or {}).items():
        if groups:  # the person's own hooks stay in any case: those of each file are read by themselves
            yield ("hooks", event), "starts"
    for section, name, reason in _ENTRIES:
        mine, theirs = (getattr(getattr(config, section), name) for config in (person, together))
        for entry, value in (at(project, (section, name)) or {}).items():
            if mine.get(entry) != theirs.get(entry) and value != {
                "disabled": True
            }:  # disabling is a tightening
                yield (section, name, entry), reason


def _other_models(
    project: Settings, person: Config, together: Config, environ: Mapping[str, str]
) -> Iterator[tuple[KeyPath, Reason]]:
    """Models that start a project's file in our process, or select another of the person's providers."""
    for path in _MODELS:
        mine, theirs = (getattr(getattr(config, path[0]), path[1]) for config in (person, together))
        if has(project, path) and mine != theirs and theirs.startswith(LOCAL_PREFIX):
            yield path, "starts"
    path, name = _MODELS[0], together.provider.model
    if has(project, path) and name != person.provider.model and not is_local(name):
        asked = msgspec.structs.replace(person.provider, model=name)
        with_theirs = msgspec.structs.replace(person, provider=asked)
        if _address(person, environ) != _address(with_theirs, environ):
            yield path, "sends"


def _address(config: Config, environ: Mapping[str, str]) -> str:
    try:
        return resolve_provider(config, environ).base_url
    except ConfigError:
        return ""


def _becomes_true(mine: object, theirs: object) -> bool:
    return bool(theirs) and not mine


def _becomes_false(mine: object, theirs: object) -> bool:
    return bool(mine) and not theirs


def _adds(mine: list[str], theirs: list[str]) -> bool:
    return not set(theirs) <= set(mine)


def _opens_network(mine: bool | NetworkRules, theirs: bool | NetworkRules) -> bool:
    """A list opens something even where the network is on: checks that run unasked reach what it names."""
    return _openness(theirs) > _openness(mine) or not _hosts(theirs) <= _hosts(mine)


def _openness(network: bool | NetworkRules) -> int:
    if isinstance(network, NetworkRules):
        return 2 if network.otherwise == "ask" else 1
    return 3 if network else 0


def _hosts(network: bool | NetworkRules) -> set[str]:
    return set(network.allow) if isinstance(network, NetworkRules) else set()


def _lifted_bounds(project: Settings, person: Config, together: Config) -> Iterator[tuple[KeyPath, Reason]]:
    for section, name, reason, looser in _BOUNDS:
        usual, mine, theirs = (getattr(getattr(c, section), name) for c in (Config(), person, together))
        if has(project, (section, name)) and mine not in (usual, theirs) and looser(mine, theirs):
            yield (section, name), reason


# Scalar settings: section, key, reason, and the test for looser
_RULES: Final[tuple[tuple[str, str, Reason, Callable[[Any, Any], bool]], ...]] = (
    ("provider", "base_url", "sends", ne),
    ("ui", "statusline", "starts", ne),
    ("ui", "keys", "loosens", ne),  # an everyday key may become the one for the operating mode
    ("provider", "api_key", "sends", ne),
    ("permission", "preset", "loosens", lambda mine, theirs: _PRESETS.index(theirs) > _PRESETS.index(mine)),
    ("permission", "command_allowlist", "loosens", _adds),
    ("approval", "interactive", "loosens", _becomes_false),
    ("approval", "auto_approve_ask", "loosens", _becomes_true),
    ("safety", "redact_secrets", "sends", _becomes_false),
    ("safety", "command_timeout_ms", "loosens", lt),
    ("safety", "output_limit_bytes", "loosens", lt),
    ("sandbox", "mode", "loosens", lambda mine, theirs: _SANDBOX.index(theirs) > _SANDBOX.index(mine)),
    ("sandbox", "backend", "loosens", lambda mine, theirs: theirs not in (mine, "bubblewrap")),
    ("sandbox", "network", "loosens", _opens_network),
    ("sandbox", "writable", "loosens", _adds),
    ("workflow", "auto_verify_after_edit", "starts", _becomes_true),
    ("workflow", "verify_commands", "starts", _adds),
    ("workflow", "verify_allow", "starts", _adds),
    (
        "budget",
        "max_usd",
        "costs",
        lambda mine, theirs: mine is not None and (theirs is None or theirs > mine),
    ),
    ("ide", "enabled", "sends", _becomes_true),
)
# Settings that name a model
_MODELS: Final = (("provider", "model"), ("routing", "fast"), ("routing", "strong"))
# Limits that a project may set, but not raise where the person has set one
_BOUNDS: Final[tuple[tuple[str, str, Reason, Callable[[Any, Any], bool]], ...]] = (
    ("workflow", "max_verify_attempts", "costs", lt),
    ("runtime", "max_steps", "costs", lt),
    ("runtime", "max_session_turns", "costs", lambda mine, theirs: theirs < 0 or theirs > mine),
    ("runtime", "max_continuations", "costs", lt),
    ("budget", "warn_at", "costs", lt),
)
# Settings with named entries, where any change counts
_ENTRIES: Final[tuple[tuple[str, str, Reason], ...]] = (
    ("provider", "headers", "sends"),
    ("mcp", "servers", "starts"),
    ("budget", "prices", "costs"),
)


def _tool_is_looser(tool: str, person: Config, together: Config, preset_table: PresetTable) -> bool:
    after = together.permission.tools.get(tool)
    if after is None:
        return False
    return _DECISIONS.index(after) > _DECISIONS.index(_person_decision(tool, person, preset_table))


def _person_decision(tool: str, person: Config, preset_table: PresetTable) -> Decision:
    """The person's own decision for a tool, or for all tools that a pattern could match."""
    own = person.permission.tools
    if tool in own:
        return own[tool]
    decisions = [own[name] for name in own if fnmatchcase(tool, name) or fnmatchcase(name, tool)]
    decisions.append(preset_table(person.permission.preset, tool))
    return min(decisions, key=_DECISIONS.index)


def _leads_outside(person: Config, together: Config, root: Path) -> bool:
    """Whether a skills directory that the person did not configure is outside the project."""
    base = Path(root).resolve()
    added = [text for text in together.skills.paths if text not in person.skills.paths]
    return any(text.startswith("~") or not _inside(base, text) for text in added)


def _inside(base: Path, text: str) -> bool:
    try:
        return (base / text).resolve().is_relative_to(base)
    except (OSError, ValueError, RuntimeError):  # invalid name, or a symlink loop
        return False
