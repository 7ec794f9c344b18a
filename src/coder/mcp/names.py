"""Names of MCP tools: `mcp__server__tool`, in characters that every provider accepts."""

from __future__ import annotations

from collections.abc import Collection

from coder.tools.base import MCP_PREFIX

_LONGEST = 64  # characters: the smallest limit of all providers


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name for the model. If characters had to be replaced, or the name is taken, a hash of the original
    is appended, so that the name is unique and stable. In a server's name they become `-`: underscores would
    make it look like another server's."""
    plain = f"{MCP_PREFIX}{server}__{tool}"
    name = f"{MCP_PREFIX}{_replaced(server, '-')}__{_replaced(tool, '_')}"
    if name == plain and len(name) <= _LONGEST and name not in taken:
        return name
    from hashlib import blake2b

    digits = blake2b(f"{server}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{name[: _LONGEST - len(digits) - 1]}_{digits}"


def former_name(server: str, tool: str) -> str:
    """The name that the model was told before `-` stood for what is replaced in a server's name."""
    former = f"{MCP_PREFIX}{_replaced(server, '_')}__{_replaced(tool, '_')}"
    shown = tool_name(server, tool)
    return shown if _replaced(server, "") == server else f"{former[: _LONGEST - 7]}{shown[-7:]}"


def _replaced(text: str, by: str) -> str:
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "_-") else by for letter in text
    )
