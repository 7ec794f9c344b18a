"""Import another tool's command files (`.codex/commands`, `.claude/commands`) as instant modes.

`$ARGUMENTS` and `$1` … `$9` become variables, literal braces are escaped, existing files are never
overwritten.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from coder.base.frontmatter import FrontmatterError, Node, read_header, split
from coder.base.safe_open import create_file, real_path
from coder.extend.modes.discover import MAX_DEPTH, MAX_FILES, read_text
from coder.extend.modes.template import PROMPT_PLACE, ModeFault
from coder.protocol.modes import ModeKind
from coder.texts import Catalog, CoderError, Text

DEFAULT_SOURCE = Path(".codex/commands")
_KEPT = ("description", "argument_hint", "display_name", "model", "reasoning_effort", "allowed_tools")

# `argument-hint: [pr] [reviewer]` is common, but invalid YAML
_HINT = re.compile(r"^(argument[-_]hint:[ \t]+)(\[.*\S)[ \t]*$", re.MULTILINE)


class Outcome(msgspec.Struct, frozen=True):
    """The result for one file."""

    source: str
    target: str
    state: Literal["done", "kept", "failed"]
    text: str


def import_commands(source: Path, target: Path, texts: Catalog) -> list[Outcome]:
    """Import every `.md` below `source`, sorted by name. Symlinks are skipped, and writes stay inside the
    directory of `target` (`.coder/modes`): a project must not write into the person's own modes."""
    bound = Path(os.path.realpath(target.parent.parent))
    return [_imported(source, path, target, bound, texts) for path in _commands(source)]


def _commands(source: Path) -> list[Path]:
    found: list[Path] = []
    for directory, directories, names in os.walk(source, followlinks=False):
        here = Path(directory)
        if len(here.relative_to(source).parts) >= MAX_DEPTH:
            directories.clear()
        found += [here / name for name in names if name.endswith(".md") and not (here / name).is_symlink()]
        if len(found) >= MAX_FILES:
            break
    return sorted(found)


def _imported(source: Path, path: Path, target: Path, bound: Path, texts: Catalog) -> Outcome:
    relative = path.relative_to(source)
    parts = [re.sub(r"[^A-Za-z0-9_-]+", "-", part).strip("-") or "command" for part in relative.parts[:-1]]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", relative.stem).strip("-") or "command"
    goal = target.joinpath(*parts, f"{stem}.md")
    shown = str(goal)

    def outcome(state: Literal["done", "kept", "failed"], **values: object) -> Outcome:
        key = {"done": "modes.import_done", "kept": "modes.import_exists", "failed": "modes.import_failed"}
        text = texts.say(key[state], source=relative.as_posix(), **values)
        return Outcome(str(path), shown, state, text)

    try:
        content = read_text(str(path))
        if isinstance(content, ModeFault):
            raise content
        text = as_mode(content)
        real = Path(real_path(goal))
        if not real.is_relative_to(bound):
            return outcome("failed", why=Text("modes.import_outside", directory=bound))
        create_file(real, text.encode("utf-8"))
    except (ModeFault, FrontmatterError) as fault:
        return outcome("failed", why=fault.phrase)
    except FileExistsError:
        return outcome("kept", target=shown)
    except OSError as error:
        return outcome("failed", why=error.strerror or error)
    return outcome("done", target=shown)


def as_mode(content: str) -> str:
    """The mode file for a command file. Raises `FrontmatterError`."""
    header, body, _ = split(content)
    header = _HINT.sub(lambda match: match[1] + _quoted(match[2]), header) if header else header
    fields = {k.replace("-", "_"): node for k, node in (read_header(header) if header else {}).items()}
    names = sorted({match[1] for match in PROMPT_PLACE.finditer(body) if match[1]})
    lines = ["---", "kind: instant"]
    lines += [
        f"{name}: {_yaml(fields[name])}" for name in _KEPT if name in fields and not fields[name].absent
    ]
    lines += _declarations(names)
    body = body.replace("{{", "\\{{")
    body = PROMPT_PLACE.sub(lambda match: f"{{{{{_variable(match[1])}}}}}" if match[1] else "$", body)
    return "\n".join([*lines, "---", body])


def _declarations(names: list[str]) -> list[str]:
    """Words are bound by position, so `$3` alone declares three. `$ARGUMENTS` comes first, to have all."""
    if not names:
        return []
    highest = max((int(name) for name in names if name.isdigit()), default=0)
    rest = [f"  - name: {_variable('ARGUMENTS')}", "    rest: true"] if "ARGUMENTS" in names else []
    words = [f"  - name: {_variable(str(number))}" for number in range(1, highest + 1)]
    return ["variables:", *rest, *words]


def _variable(name: str) -> str:
    return "arguments" if name == "ARGUMENTS" else f"arg{name}"


def _yaml(node: Node) -> str:
    """JSON is YAML."""
    if isinstance(node.value, list):
        return "[" + ", ".join(_yaml(item) for item in node.value) + "]"
    if isinstance(node.value, dict):
        return "{" + ", ".join(f"{_quoted(k)}: {_yaml(v)}" for k, v in node.value.items()) + "}"
    return _quoted(node.value)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode("utf-8")


_NAME = re.compile(r"/?[A-Za-z0-9_-]+([:/][A-Za-z0-9_-]+)*")

_INSTANT = """\
---
kind: instant
description: {name}
argument_hint: "[what]"
variables:
  - name: what
    rest: true
    default: the current changes
---
Look at {{{{what}}}} and say in three sentences what you see.
"""
_PERSISTENT = """\
---
kind: persistent
description: {name}
variables:
  - name: tone
    enum: [brief, thorough]
    default: brief
---
Answer in a {{{{tone}}}} way.
"""


def create_mode(directory: Path, name: str, kind: ModeKind, bound: Path | None = None) -> Path:
    """`a:b` is `a/b.md` below `directory`. `bound`: the project it must stay in. Raises `CoderError`
    where the name is not allowed or taken."""
    if not _NAME.fullmatch(name):
        raise CoderError("modes.bad_name", name=name)
    parts = re.split("[:/]", name.removeprefix("/"))
    path = directory.joinpath(*parts[:-1], f"{parts[-1]}.md")
    text = (_INSTANT if kind == "instant" else _PERSISTENT).format(name=parts[-1])
    try:
        real = Path(real_path(path))
        if bound is not None and not real.is_relative_to(real_path(bound)):
            raise CoderError("modes.not_made", path=path, why=Text("modes.import_outside", directory=bound))
        create_file(real, text.encode("utf-8"))
    except FileExistsError:
        raise CoderError("modes.file_exists", path=path) from None
    except OSError as error:
        raise CoderError("modes.not_made", path=path, why=error.strerror or error) from None
    return path
