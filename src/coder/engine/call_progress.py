"""What a tool call will be, read from its arguments while they are being written.

For the person only: the call itself is judged when it is complete. Reads each piece once, so that a long file
costs no more than its length.
"""

from __future__ import annotations

import json
import re

from coder.models.model import CallDelta
from coder.protocol.events import CallWriting
from coder.tools.calls.names import PARAMETERS, TOOLS, folded
from coder.tools.registry import built_in

_HEAD = 2000  # characters in which a file's name is looked for
_OVERLAP = 40  # characters kept of the last piece: a key may be cut in two
_STEP = 200  # characters from which more of the same line is worth an event
_STRING = re.compile(r'"(\w+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_PATCHED = re.compile(r"(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)((?:[^\\\"]|\\[^n])+)\\n")
_NEW_TEXT = re.compile(r'"(\w+)"\s*:\s*"')


class CallProgress:
    """The call that is being written. `take` returns an event where there is something new to show."""

    def __init__(self) -> None:
        self._number = -1
        self._begin("")

    def _begin(self, name: str) -> None:
        self._tool = TOOLS.get(folded(name.rpartition(".")[2]), name)
        self._path = self._head = self._tail = self._half = ""
        self._lines = self._size = self._told_size = 0
        self._told: tuple[str, int] | None = None

    def take(self, delta: CallDelta) -> CallWriting | None:
        if delta.number != self._number:
            self._number = delta.number
            self._begin(delta.name)
        self._size += len(delta.text)
        if built_in(self._tool).edits_files():
            self._find_path(delta.text)
            self._count_lines(delta.text)
        new = (self._path, self._lines)
        if new == self._told and self._size < self._told_size + _STEP:
            return None
        self._told, self._told_size = new, self._size
        return CallWriting(self._tool, *new, self._size)

    def _find_path(self, text: str) -> None:
        if self._path or len(self._head) > _HEAD:
            return
        self._head += text[:_HEAD]
        if self._tool == "patch":
            names = [found[1] for found in _PATCHED.finditer(self._head)]
        else:
            known = PARAMETERS.get(self._tool, {})
            names = [f[2] for f in _STRING.finditer(self._head) if known.get(folded(f[1])) == "path"]
        if names:
            self._path = _unescaped(names[0])

    def _count_lines(self, text: str) -> None:
        """Count the newlines of the newest string: of an edit the new text, not what it replaces."""
        if self._tool == "edit":
            seen = self._tail + text
            found = [f for f in _NEW_TEXT.finditer(seen) if _is_new_text(f[1]) and f.end() > len(self._tail)]
            self._tail = seen[-_OVERLAP:]
            if found:
                self._lines, self._half, text = 0, "", seen[found[-1].end() :]
        text = self._half + text
        self._half = "\\" * ((len(text) - len(text.rstrip("\\"))) % 2)
        self._lines += text.removesuffix(self._half).replace("\\\\", "").count("\\n")


def _is_new_text(key: str) -> bool:
    return PARAMETERS["edit"].get(folded(key)) == "new_string"


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
