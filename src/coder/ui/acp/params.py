"""Parameters of client messages in the Agent Client Protocol (version 1).

Only the fields in use; others are ignored, as the protocol requires.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from coder.config.schema import McpServer
from coder.protocol import messages

PROTOCOL_VERSION = 1


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    """snake_case here, camelCase in JSON."""


class Initialize(_Params, frozen=True):
    """`protocol_version` is a number; old clients sent dates, which the SDKs treat as version 1."""

    protocol_version: Any = PROTOCOL_VERSION
    client_capabilities: Any = None

    @property
    def has_forms(self) -> bool:
        """Whether the client shows forms (`elicitation/create`)."""
        found = self.client_capabilities
        elicitation = found.get("elicitation") if isinstance(found, dict) else None
        return isinstance(elicitation, dict) and isinstance(elicitation.get("form"), dict)


class Authenticate(_Params, frozen=True):
    method_id: str


class CancelRequest(_Params, frozen=True):
    request_id: int | str | float | None = None


class NewSession(_Params, frozen=True):
    """`mcp_servers` are validated one by one, so that an invalid one does not fail the session."""

    cwd: str
    mcp_servers: list[Any] | None = None
    additional_directories: list[str] | None = None


class OldSession(NewSession, frozen=True, kw_only=True):
    """`session/load` and `session/resume`."""

    session_id: str


class ListSessions(_Params, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class OneSession(_Params, frozen=True):
    session_id: str


class SetMode(_Params, frozen=True):
    session_id: str
    mode_id: str


class SetOption(_Params, frozen=True):
    """`value` is a string; booleans are for options that we do not have."""

    session_id: str
    config_id: str
    value: Any


class _Block(_Params, frozen=True, tag_field="type"):
    """A piece of a prompt."""


class TextBlock(_Block, frozen=True, tag="text"):
    text: str


class ImageBlock(_Block, frozen=True, tag="image"):
    """An image; `data` is Base64."""

    data: str
    mime_type: str = ""
    uri: str | None = None


class AudioBlock(_Block, frozen=True, tag="audio"):
    """Unsupported; its data is dropped."""


class LinkBlock(_Block, frozen=True, tag="resource_link"):
    uri: str
    name: str = ""


class ResourceContents(_Params, frozen=True):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(_Block, frozen=True, tag="resource"):
    resource: ResourceContents


Block = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


class PromptRequest(_Params, frozen=True):
    session_id: str
    prompt: list[Block]


class PermissionOutcome(_Params, frozen=True):
    """The outcome of a permission request; `option_id` if an option was selected."""

    outcome: str
    option_id: str | None = None


class PermissionAnswer(_Params, frozen=True):
    outcome: PermissionOutcome


class FormFields(_Params, frozen=True):
    hunks: list[str] = []
    reason: str | None = None


class FormAnswer(_Params, frozen=True):
    """The answer to `elicitation/create`: `accept` with the fields, `decline` or `cancel`."""

    action: str
    content: FormFields | None = None


class NameValue(_Params, frozen=True):
    name: str
    value: str


class McpServerGiven(_Params, frozen=True):
    """An MCP server: a program (`command`) or a URL, by `type`."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[NameValue] = []
    url: str = ""
    headers: list[NameValue] = []


def mcp_servers(given: list[Any]) -> tuple[dict[str, McpServer], list[str]]:
    """The servers by name, and the names of invalid ones."""
    found: dict[str, McpServer] = {}
    wrong: list[str] = []
    for at, one in enumerate(given):
        try:
            server = msgspec.convert(one, McpServerGiven)
            found[server.name] = _server(server)
        except (msgspec.ValidationError, ValueError):
            name = one.get("name") if isinstance(one, dict) else None
            wrong.append(str(name or f"mcpServers[{at}]")[:100])
    return found, wrong


def _server(given: McpServerGiven) -> McpServer:
    if given.type == "stdio" and given.command:
        env = {one.name: one.value for one in given.env}
        return McpServer(type="stdio", command=given.command, args=given.args, env=env)
    if given.type in ("http", "sse") and given.url:
        headers = {one.name: one.value for one in given.headers}
        return McpServer(type="http" if given.type == "http" else "sse", url=given.url, headers=headers)
    raise ValueError(given.type)


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
    path = path_from_uri(uri)
    if path is None:
        return f"{name} ({uri})" if name and name != uri else uri
    inside = _inside(path, root)
    if inside is None:
        return path
    return "@" + re.sub(r"([\s\\])", r"\\\1", inside) + _lines_of(uri)


def _shown(uri: str, root: Path) -> str:
    path = path_from_uri(uri)
    if path is None:
        return uri
    return (_inside(path, root) or path) + _lines_of(uri)


def _lines_of(uri: str) -> str:
    """The selected lines, which editors put into the fragment: `#L10-20`, `#L10:20`."""
    found = re.fullmatch(r"L(\d+)(?:[:-]L?(\d+))?", uri.partition("#")[2])
    if found is None:
        return ""
    return f" (lines {found[1]}-{found[2]})" if found[2] else f" (line {found[1]})"


def path_from_uri(uri: str) -> str | None:
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
