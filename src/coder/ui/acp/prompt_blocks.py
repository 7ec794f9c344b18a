"""Converts the blocks of a prompt to the engine's message.

Typed text and the names of references are the text; embedded resources are attached. A referenced workspace
file is named with `@`, so that the engine includes it by its own rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from coder.protocol import messages
from coder.ui.acp.params import (
    AudioBlock,
    Block,
    ImageBlock,
    LinkBlock,
    ResourceBlock,
    ResourceContents,
    TextBlock,
)

# About 48,000 tokens, as for files named with `@`.
MAX_ATTACHED = 192_000


class PromptMessage(msgspec.Struct, frozen=True):
    """The message for the engine, and the resources that were truncated or unusable."""

    text: str
    attached: str
    cut: list[str] = []  # names of truncated resources
    binary: list[str] = []
    images: list[messages.Image] = []


class UnsupportedBlock(Exception):
    """A block of an unsupported kind."""


def message_of(blocks: Sequence[Block], root: Path) -> PromptMessage:
    """Raises `UnsupportedBlock` for audio."""
    message_text, attached = "", list[str]()
    cut, binary, images = list[str](), list[str](), list[messages.Image]()
    room = MAX_ATTACHED
    for block in blocks:
        match block:
            case TextBlock(text):
                message_text = _joined(message_text, text)
            case LinkBlock(uri, name):
                shown = _reference(uri, name, root)
                message_text = _joined(message_text, shown if message_text.strip() else _no_command(shown))
            case ResourceBlock(resource):
                shown = _shown(resource.uri, root)
                message_text = _joined(message_text, shown) if message_text else message_text
                if resource.text is None and (resource.mime_type or "").startswith("image/"):
                    images.append(messages.Image(resource.mime_type or "", resource.blob or "", shown))
                    continue
                if resource.text is None:
                    binary.append(shown)
                    continue
                if len(resource.text) > room:
                    cut.append(shown)
                attached.append(_attached(resource, shown, room))
                room = max(0, room - len(resource.text))
            case ImageBlock(data, mime_type, uri):
                images.append(messages.Image(mime_type, data, _shown(uri, root) if uri else ""))
            case AudioBlock():
                raise UnsupportedBlock
    alone = len(blocks) == 1
    return _guarded(message_text, attached, alone=alone, cut=cut, binary=binary, images=images)


def _guarded(
    message_text: str,
    attached: list[str],
    *,
    alone: bool,
    cut: list[str],
    binary: list[str],
    images: list[messages.Image],
) -> PromptMessage:
    """`!` runs a shell command without the policy, so it must be the only line of the only block. A page
    that begins with an image (`![logo](…)`) is attached instead."""
    if message_text.lstrip().startswith("!") and not (alone and "\n" not in message_text.strip()):
        message_text, attached = "", [message_text, *attached]
    return PromptMessage(message_text, "\n\n".join(attached), cut, binary, images)


def _no_command(shown: str) -> str:
    """A reference at the start of a message was selected, not typed: it must not be parsed as a command."""
    return f"<{shown}>" if shown.lstrip().startswith(("!", "/")) else shown


def _joined(before: str, after: str) -> str:
    """Join blocks, with a space where needed."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return before + after
    return before + ("" if after[0] in ".,;:!?)" else " ") + after


def _attached(resource: ResourceContents, shown: str, room: int) -> str:
    text = resource.text or ""
    end = ""
    if len(text) > room:
        text, end = text[:room], "\n[the resource goes on; read the rest with the read tool if it is a file]"
    # Escape, so that neither name nor content can end the block (prompt injection).
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
    """The selected lines, which editors put into the fragment: `#L10-20`, `#L10:20`."""
    found = re.fullmatch(r"L(\d+)(?:[:-]L?(\d+))?", uri.partition("#")[2])
    if found is None:
        return ""
    return f" (lines {found[1]}-{found[2]})" if found[2] else f" (line {found[1]})"


def path_of(uri: str) -> str | None:
    """The absolute path of a `file:` URL or plain path; else None."""
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
    """The path relative to the workspace; None if it is outside, or the workspace itself. For display only:
    access is checked when the file is opened."""
    for base in (str(root), os.path.realpath(root)):
        relative = os.path.relpath(path, base)
        if relative != "." and not relative.startswith(".."):
            return relative
    return None
