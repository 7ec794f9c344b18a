"""Unified diffs, from git or not, as models write them: counts wrong or missing, blanks lost."""

from __future__ import annotations

import re

from coder.tools.patching.formats import BadPatch, FilePatch, Hunk

_HUNK = re.compile(r"^@@+(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@+)? ?(.*)$")
_ESCAPES = {
    "n": b"\n",
    "t": b"\t",
    "r": b"\r",
    '"': b'"',
    "\\": b"\\",
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "v": b"\v",
}
_NULL = "/dev/null"


class _Header:
    """The lines before the hunks of one file."""

    def __init__(self) -> None:
        self.git = self.named = False  # by a `diff --git` line; by `---` and `+++`
        self.old = self.new = ""
        self.rename_from = self.rename_to = ""
        self.operation = "update"
        self.executable: bool | None = None
        self.hunks: list[Hunk] = []

    def file(self) -> FilePatch | None:
        """The file that these lines and hunks are about, or None where they name none."""
        old, new = _stripped(self.old, self.new, self.git)
        operation = self.operation
        if old == _NULL:
            operation = "add"
        elif new == _NULL:
            operation = "delete"
        path = old if operation == "delete" else new
        move_to = ""
        if self.rename_from and self.rename_to:
            path, move_to = self.rename_from, self.rename_to
        if not path or path == _NULL:
            if self.hunks:
                raise BadPatch("hunks without a file name; put --- and +++ lines before @@")
            return None
        also = old if old not in (path, _NULL) and not move_to else ""
        return FilePatch(operation, path, move_to, also, self.hunks, self.executable)


def parse_unified(lines: list[str]) -> list[FilePatch]:
    files: list[FilePatch] = []
    header = _Header()
    at = 0
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        if line.startswith("diff --git ") or (_is_file_header(lines, at) and (header.hunks or header.named)):
            _add(files, header)
            header = _Header()
        if line.startswith("diff --git "):
            header.git = True
            header.old, header.new = _git_names(line[len("diff --git ") :])
        elif _is_file_header(lines, at):
            header.named = True
            header.old, header.new = _name(line[4:]), _name(lines[at + 1].removesuffix("\r")[4:])
            at += 1
        elif line.startswith("@@"):
            hunk, at = _hunk(lines, at)
            header.hunks.append(hunk)
            continue
        else:
            _extended(line, header)
        at += 1
    _add(files, header)
    return files


def _add(files: list[FilePatch], header: _Header) -> None:
    file = header.file()
    if file is not None:
        files.append(file)


def _is_file_header(lines: list[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _extended(line: str, header: _Header) -> None:
    """What git says between the names and the hunks."""
    if not header.git:
        return
    if line.startswith("rename from "):
        header.rename_from = unquoted(line[12:])
    elif line.startswith("rename to "):
        header.rename_to = unquoted(line[10:])
    elif line.startswith(("new file mode ", "new mode ")):
        mode = line.rpartition(" ")[2]
        if mode.startswith("12"):
            raise BadPatch("the patch makes a symbolic link; use a command for that")
        if line.startswith("new file"):
            header.operation = "add"
        header.executable = mode.endswith("755")
    elif line.startswith("deleted file mode "):
        header.operation = "delete"
    elif line.startswith(("GIT binary patch", "Binary files ")):
        raise BadPatch("the patch changes a binary file; only text can be patched")
    elif line.startswith("copy from "):
        raise BadPatch("the patch copies a file; write the copy instead")


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    """The hunk that begins at `at`, by its counts where they hold, else by what its lines look like."""
    head = _HUNK.match(lines[at].removesuffix("\r"))
    if head is None:
        raise BadPatch(f"line {at + 1} of the patch is no hunk header: {lines[at][:80]!r}")
    start = int(head[1]) if head[1] is not None else None
    anchor = head[5].strip().removesuffix("@@").strip()
    anchors = [anchor] if start is None and anchor else []
    if start is not None:
        counts = (int(head[2] or 1) if head[2] != "0" else 0, int(head[4] or 1) if head[4] != "0" else 0)
        end = _counted_end(lines, at + 1, *counts)
        if end is not None:
            return _built(lines[at + 1 : end], start, anchors, at + 1), end
    end = _visible_end(lines, at + 1)
    body = lines[at + 1 : end]
    while body and not body[-1].strip() and not body[-1].startswith((" ", "+", "-")):
        body.pop()
    return _built(body, start, anchors, at + 1), end


def _counted_end(lines: list[str], at: int, old: int, new: int) -> int | None:
    """Where the hunk ends if its counts are true; None if they are not."""
    while old > 0 or new > 0 or (at < len(lines) and lines[at].startswith("\\")):
        if at >= len(lines):
            return None
        sign = lines[at][:1]
        if sign in ("", " ", "\r"):
            old, new = old - 1, new - 1
        elif sign == "-":
            old -= 1
        elif sign == "+":
            new -= 1
        elif sign != "\\":
            return None
        at += 1
    if old < 0 or new < 0:
        return None
    if at < len(lines) and lines[at][:1] in (" ", "+", "-"):
        signature = lines[at].rstrip("\r") == "-- "
        return at if signature or _is_file_header(lines, at) else None
    return at


def _visible_end(lines: list[str], at: int) -> int:
    while at < len(lines):
        line = lines[at]
        if line.startswith(("@@", "diff --git ")):
            break
        if _is_file_header(lines, at) and at + 2 < len(lines) and lines[at + 2].startswith("@@"):
            break
        at += 1
    return at


def _built(body: list[str], start: int | None, anchors: list[str], first: int) -> Hunk:
    hunk = Hunk([], start, anchors)
    for number, line in enumerate(body, first + 1):
        if line.startswith("\\"):
            _no_newline(hunk)
        elif line[:1] in (" ", "+", "-"):
            hunk.lines.append((line[0], line[1:]))
        elif not line.strip():
            hunk.lines.append((" ", line))
        else:
            raise BadPatch(f"line {number} of the patch begins with none of ' ', '+', '-': {line[:80]!r}")
    # Said of one side only, it means that the other side has its newline.
    if hunk.old_open and hunk.new_open is None:
        hunk.new_open = False
    if hunk.new_open and hunk.old_open is None:
        hunk.old_open = False
    return hunk


def _no_newline(hunk: Hunk) -> None:
    sign = hunk.lines[-1][0] if hunk.lines else " "
    if sign in " -":
        hunk.old_open = True
    if sign in " +":
        hunk.new_open = True


def _git_names(text: str) -> tuple[str, str]:
    """The two names of a `diff --git` line; needed where no `---` line follows."""
    if text.startswith('"'):
        quoted = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', text)
        return (unquoted(quoted[0]), unquoted(quoted[1])) if len(quoted) == 2 else ("", "")
    half = len(text) // 2
    if text[half : half + 1] == " " and text[:half].partition("/")[2] == text[half + 1 :].partition("/")[2]:
        return text[:half], text[half + 1 :]
    old, _, new = text.partition(" b/")
    return (old, f"b/{new}") if new else ("", "")


def _name(text: str) -> str:
    """A name as `---` and `+++` give it: quoted, or up to a tab and a date."""
    if text.startswith('"'):
        return unquoted(text.strip())
    return text.partition("\t")[0].rstrip()


def unquoted(text: str) -> str:
    """git's C-style quoting undone."""
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    out = b""
    for match in re.finditer(r"\\([0-3][0-7]{2})|\\(.)|([^\\]+)", text[1:-1]):
        if match[1]:
            out += bytes([int(match[1], 8)])
        elif match[2]:
            out += _ESCAPES.get(match[2], match[2].encode("utf-8", "surrogatepass"))
        else:
            out += match[3].encode("utf-8", "surrogatepass")
    return out.decode("utf-8", "surrogateescape")


def _stripped(old: str, new: str, git: bool) -> tuple[str, str]:
    """The names without the `a/` and `b/` that diffs put before them."""
    pairs = [("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w")] if git else [("a", "b")]
    for left, right in pairs:
        fits_old = old == _NULL or old.startswith(f"{left}/")
        fits_new = new == _NULL or new.startswith(f"{right}/")
        if fits_old and fits_new:
            return (old if old == _NULL else old[2:]), (new if new == _NULL else new[2:])
    return old, new
