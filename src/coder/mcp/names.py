"""Names of MCP tools: `mcp__server__tool`, in characters that every provider accepts."""

from __future__ import annotations

from collections.abc import Collection

from coder.tools.base import MCP_PREFIX

_LONGEST = 64  # characters: the smallest limit of all providers


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name for the model. If characters had to be replaced, or the name is taken, a hash of the original
    is appended, so that the name is unique and stable."""
    plain = f"{MCP_PREFIX}{server}__{tool}"
    name = "".join(letter if _is_plain(letter) else "_" for letter in plain)
    if name == plain and len(name) <= _LONGEST and name not in taken:
        return name
    from hashlib import blake2b

    digits = blake2b(f"{server}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{name[: _LONGEST - len(digits) - 1]}_{digits}"


def _is_plain(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "_-")
