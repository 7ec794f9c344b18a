"""From the blocks of a prompt to the message that the engine takes.

What the person typed, with the names of what they referred to, is the text; what came along is attached. A
file of the workspace that is only referred to is named with `@`, which puts it in by the engine's own rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from coder.servers.acp.params import Audio, Block, Contents, Image, Link, Resource, Text

# About 48,000 tokens: as much as files that are named with `@` may take.
MAX_ATTACHED = 192_000


class Message(msgspec.Struct, frozen=True):
    """What goes to the engine, and what of the prompt could not be used."""

    text: str
    attached: str
    cut: list[str] = []  # names of resources that are longer than what may be attached
    binary: list[str] = []


class CannotRead(Exception):
    """A block of a kind that we said we do not take."""


def message_of(blocks: Sequence[Block], root: Path) -> Message:
    """Raises `CannotRead` for pictures and sound."""
    said, attached = "", list[str]()
    cut, binary = list[str](), list[str]()
    room = MAX_ATTACHED
    for block in blocks:
        match block:
            case Text(text):
                said = _joined(said, text)
            case Link(uri, name):
                shown = _reference(uri, name, root)
                said = _joined(said, shown if said.strip() else _no_command(shown))
            case Resource(resource):
                shown = _shown(resource.uri, root)
                said = _joined(said, shown) if said else said
                if resource.text is None:
                    binary.append(shown)
                    continue
                if len(resource.text) > room:
                    cut.append(shown)
                attached.append(_attached(resource, shown, room))
                room = max(0, room - len(resource.text))
            case Image() | Audio():
                raise CannotRead
    return _guarded(said, attached, alone=len(blocks) == 1, cut=cut, binary=binary)


def _guarded(said: str, attached: list[str], *, alone: bool, cut: list[str], binary: list[str]) -> Message:
    """`!` is the person's own shell, past the policy: only for a line that is nothing else. A page that
    begins with a picture (`![logo](…)`) is a message."""
    if said.lstrip().startswith("!") and not (alone and "\n" not in said.strip()):
        said, attached = "", [said, *attached]
    return Message(said, "\n\n".join(attached), cut, binary)


def _no_command(shown: str) -> str:
    """A name that a message begins with was chosen, not typed: it can be neither a command nor a shell's."""
    return f"<{shown}>" if shown.lstrip().startswith(("!", "/")) else shown


def _joined(before: str, after: str) -> str:
    """Blocks follow each other as in a sentence; a name needs space around it."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return before + after
    return before + ("" if after[0] in ".,;:!?)" else " ") + after


def _attached(resource: Contents, shown: str, room: int) -> str:
    text = resource.text or ""
    end = ""
    if len(text) > room:
        text, end = text[:room], "\n[the resource goes on; read the rest with the read tool if it is a file]"
    # Neither a name nor a content can end the block that it stands in.
    name = shown.replace('"', "&quot;").replace("\n", " ")
    body = text.rstrip("\n").replace("</resource>", "&lt;/resource>")
    return f'<resource name="{name}">\n{body}{end}\n</resource>'


def _reference(uri: str, name: str, root: Path) -> str:
    path = path_of(uri)
    if path is None:
        return f"{name} ({uri})" if name and name != uri else uri
    inside = _inside(path, root)
    if inside is None:
        return path
    return "@" + re.sub(r"([\s\\])", r"\\\1", inside) + _lines_of(uri)


def _shown(uri: str, root: Path) -> str:
    path = path_of(uri)
    if path is None:
        return uri
    return (_inside(path, root) or path) + _lines_of(uri)


def _lines_of(uri: str) -> str:
    """Editors put the selected lines into the fragment: `#L10-20`, `#L10:20`."""
    found = re.fullmatch(r"L(\d+)(?:[:-]L?(\d+))?", uri.partition("#")[2])
    if found is None:
        return ""
    return f" (lines {found[1]}-{found[2]})" if found[2] else f" (line {found[1]})"


def path_of(uri: str) -> str | None:
    """The absolute path that a `file:` address names, or that it is; None for any other."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    return path if path.startswith("/") and "\0" not in path else None


def _inside(path: str, root: Path) -> str | None:
    """Relative to the workspace; None where it is elsewhere, or is the workspace itself. Only for showing:
    whether it may be read is decided where it is opened."""
    for base in (str(root), os.path.realpath(root)):
        relative = os.path.relpath(path, base)
        if relative != "." and not relative.startswith(".."):
            return relative
    return None
