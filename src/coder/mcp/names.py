"""What the tools of MCP servers are called: `mcp__server__tool`, in letters that every provider takes."""

from __future__ import annotations

from collections.abc import Collection

from coder.tools.base import MCP_PREFIX

_LONGEST = 64  # characters: the shortest bound among providers


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name the model calls the tool by. Where letters had to be changed, or another tool has the name,
    a few digits of the true name keep it apart: the same server's tool is called the same every time."""
    plain = f"{MCP_PREFIX}{server}__{tool}"
    name = "".join(letter if _is_plain(letter) else "_" for letter in plain)
    if name == plain and len(name) <= _LONGEST and name not in taken:
        return name
    from hashlib import blake2b

    digits = blake2b(f"{server}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{name[: _LONGEST - len(digits) - 1]}_{digits}"


def _is_plain(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "_-")
