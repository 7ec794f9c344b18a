"""Program output as text for a model: sanitized of terminal control, truncated between whole lines."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

PRIVATE_KEY_MARKER = "PRIVATE KEY"  # text that contains a key, parts of which may be shown
_COLUMN_ONE = re.compile(r"\x1b\[1?G")
_ERASE_LINE = re.compile(r"\x1b\[[0-2]?K")
# CSI; OSC, DCS, SOS, PM and APC strings with their terminator; two-character escapes; the 8-bit CSI.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = {code: None for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_DROPPED = {**_CONTROLS, 0: "␀"}  # a NUL separates names (`find -print0`): without it they would run together
_TO_CLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ALIKE = re.compile(r"[\W\d_]+")
_FOLD_FROM = 10  # identical lines in a row


class Printed(msgspec.Struct, frozen=True):
    """One output stream: `head`, and if it was too long, `tail` and the `dropped` bytes and lines."""

    head: str = ""
    tail: str = ""
    dropped: tuple[int, int] = (0, 0)

    def plain(self) -> Printed:
        return Printed(plain(self.head), plain(self.tail), self.dropped)

    def folded(self) -> Printed:
        return Printed(folded(self.head), folded(self.tail), self.dropped)

    @property
    def size(self) -> int:
        return len(self.head.encode("utf-8", "replace")) + len(self.tail.encode("utf-8", "replace"))

    def fits(self, limit: int) -> bool:
        return not self.dropped[0] and self.size <= limit

    def cut(self, limit: int, where: str = "") -> str:
        """Truncate to about `limit` bytes of whole first and last lines. `where`: where the rest is."""
        if self.fits(limit):
            return self.head
        first, last = _ends(self.head, self.tail or self.head, limit)
        missing = self.dropped[0] + self.size - _size(first) - _size(last)
        lines = self.dropped[1] + self.head.count("\n") + self.tail.count("\n")
        lines -= first.count("\n") + last.count("\n")
        count = f"{lines} lines ({missing} bytes)" if lines else f"{missing} bytes"
        return f"{first.removesuffix(chr(10))}\n[… {count} left out{where} …]\n{last}"


def cut_pair(stdout: Printed, stderr: Printed, limit: int, where: str = "") -> tuple[str, str]:
    """Truncate both streams to one limit. The shorter gets up to a third of it."""
    if stdout.fits(limit) and stderr.fits(limit) and stdout.size + stderr.size <= limit:
        return stdout.head, stderr.head
    shorter = min(stdout.size, stderr.size, limit // 3)
    sizes = (limit - shorter, shorter) if stdout.size >= stderr.size else (shorter, limit - shorter)
    return stdout.cut(sizes[0], where), stderr.cut(sizes[1], where)


def _ends(head: str, tail: str, limit: int) -> tuple[str, str]:
    first = head.encode("utf-8", "replace")[: limit // 2]
    last = tail.encode("utf-8", "replace")[-(limit // 2) :] if limit > 1 else b""
    first, last = whole_lines(first, last)
    return first.decode("utf-8", "ignore"), last.decode("utf-8", "ignore")


def whole_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Drop partial lines at the cut, unless lines are very long: half a key is not recognised as a secret."""
    end, start = head.rfind(b"\n", len(head) // 2) + 1, tail.find(b"\n", 0, len(tail) // 2)
    return head[:end] or head, tail[start + 1 :]


def both_ends(text: str, half: int) -> tuple[str, str]:
    """The first and last `half` characters, in whole lines if possible."""
    first, last = text[:half].encode("utf-8", "surrogatepass"), text[len(text) - half :]
    first, end = whole_lines(first, last.encode("utf-8", "surrogatepass"))
    return first.decode("utf-8", "surrogatepass").removesuffix("\n"), end.decode("utf-8", "surrogatepass")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def plain(text: str) -> str:
    """Sanitize: strip escape sequences, apply backspaces and carriage returns."""
    if _TO_CLEAN.search(text) is None:
        return text
    text = _COLUMN_ONE.sub("\r", text)
    if "\r" in text:
        text = "\n".join(_redrawn(line) if "\r" in line else line for line in text.split("\n"))
    text = _ESCAPES.sub("", text)
    if "\b" in text:
        text = _with_backspaces(text)
    return text.translate(_DROPPED)


def _redrawn(line: str) -> str:
    """The last state of a progress bar; dissimilar texts (old Mac line ends) are all kept."""
    erased = _ERASE_LINE.search(line) is not None
    states = [state for state in (_ESCAPES.sub("", part) for part in line.split("\r")) if state]
    if len(states) < 2:
        return "".join(states)
    kinds = {_ALIKE.sub("", state) for state in states}
    if erased or len(kinds) <= max(2, len(states) // 2):
        return states[-1]
    return "\n".join(states)


def _with_backspaces(text: str) -> str:
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)


def folded(text: str) -> str:
    """Collapse runs of identical lines to one and a count."""
    lines = text.split("\n")
    if len(lines) < _FOLD_FROM:
        return text
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and lines[end] == lines[at]:
            end += 1
        if end - at >= _FOLD_FROM:
            kept += [lines[at], f"[… {end - at - 1} more lines like this …]"]
        else:
            kept += lines[at:end]
        at = end
    return "\n".join(kept)


def clean_file(path: Path) -> None:
    """Sanitize a file of raw output in place, as `read` shows it raw. Best effort."""
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
        cleaned = plain(text.replace("\r\n", "\n"))
        if cleaned != text:
            path.write_text(cleaned, encoding="utf-8")
    except OSError:
        return
