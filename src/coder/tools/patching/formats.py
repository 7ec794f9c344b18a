"""Reading a patch: which format it is, and the one form that both formats come down to.

`parse` raises `BadPatch` and nothing else, whatever a model wrote."""

from __future__ import annotations

import re

import msgspec


class BadPatch(Exception):
    """The text is no patch that can be followed; says where and why."""


class Hunk(msgspec.Struct):
    """One place to change. `lines` are (sign, text) with sign ` `, `-` or `+`. `start`: the line, from 1,
    that the patch says it begins at. `anchors`: lines to be found before it, in order. `old_open`,
    `new_open`: the last line of that side has no newline; None: not said."""

    lines: list[tuple[str, str]]
    start: int | None = None
    anchors: list[str] = []
    at_end: bool = False
    old_open: bool | None = None
    new_open: bool | None = None

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class FilePatch(msgspec.Struct):
    """What is to be done with one file."""

    operation: str  # add, delete or update
    path: str
    move_to: str = ""
    also: str = ""  # another name that the patch gives the same file
    hunks: list[Hunk] = []
    executable: bool | None = None


def parse(text: str) -> list[FilePatch]:
    """The files of a patch in either format."""
    lines = patch_lines(text)
    files = parse_envelope(lines) if looks_like_envelope(lines) else parse_unified(lines)
    if not files:
        raise BadPatch(
            "no file in the patch; give a unified diff (---, +++, @@) or *** Begin Patch … *** End Patch"
        )
    for file in files:
        _without_carriage_returns(file)
    return files


def patch_lines(text: str) -> list[str]:
    """The lines, without a code fence around them. Where all lines end in `\r` alone, those are the lines."""
    lines = text.split("\n") if "\n" in text else text.split("\r")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    if lines and re.match(r"^\s*(```|~~~)", lines[0]):
        fence = lines.pop(0).strip()[:3]
        if lines and lines[-1].strip() == fence:
            lines.pop()
    return lines


def _without_carriage_returns(file: FilePatch) -> None:
    """A patch of a CRLF file carries `\r` on every line; whether the file does is the file's matter. Where
    only some lines do, they are what the patch is about."""
    texts = [text for hunk in file.hunks for _, text in hunk.lines]
    if texts and all(text.endswith("\r") for text in texts):
        for hunk in file.hunks:
            hunk.lines = [(sign, text[:-1]) for sign, text in hunk.lines]


_HEADER = re.compile(r"^\*\*\* *(Add|Delete|Update) File *: *(.+?)(?: \*\*\*)?\s*$", re.IGNORECASE)
_MOVE = re.compile(r"^\s*\*\*\* *Move to *: *(.+?)(?: \*\*\*)?\s*$", re.IGNORECASE)
_BEGIN = re.compile(r"^\s*\*\*\* *Begin Patch", re.IGNORECASE)
_END = re.compile(r"^\*\*\* *End Patch", re.IGNORECASE)
_NUMBERS = re.compile(r"^-(\d+)(?:,\d+)? \+\d+(?:,\d+)?(?: @@ ?(.*))?$")
MOST_ERRORS = 20


def looks_like_envelope(lines: list[str]) -> bool:
    """What comes first decides: what a hunk of a unified diff quotes is not followed."""
    for at, line in enumerate(lines):
        if _BEGIN.match(line) or _HEADER.match(line.lstrip()):
            return True
        names = line.startswith("--- ") and "".join(lines[at + 1 : at + 2]).startswith("+++ ")
        if names or line.startswith("diff --git "):
            return False
    return False


def parse_envelope(lines: list[str]) -> list[FilePatch]:
    """The files of an envelope. All that is wrong with any of them is said at once."""
    first = next((n for n, line in enumerate(lines) if _BEGIN.match(line)), -1) + 1
    lines = _unpadded(lines, first)
    files: list[FilePatch] = []
    errors: list[str] = []
    at = first
    while at < len(lines):
        line = lines[at]
        if _END.match(line):
            break
        header = _HEADER.match(line)
        if header is None:
            if line.strip() and not line.strip().startswith("```"):
                errors.append(f"line {at + 1} of the patch stands under no file: {line[:80]!r}")
            at += 1
            continue
        file = FilePatch(header[1].lower(), header[2])
        start = at = at + 1
        while at < len(lines) and not (_HEADER.match(lines[at]) or _END.match(lines[at])):
            at += 1
        try:
            _section(lines[start:at], start, file)
        except BadPatch as bad:
            errors.append(str(bad))
        files.append(file)
    if errors:
        raise BadPatch("\n".join(errors[:MOST_ERRORS]))
    return files


def _unpadded(lines: list[str], first: int) -> list[str]:
    """The lines with the markers and headers at their beginning. Their indentation is that of the
    first header: with another padding such a line is text of a file that shows patches, and must not be
    obeyed."""
    header = next((line for line in lines[first:] if _HEADER.match(line.lstrip())), "")
    padding = header[: len(header) - len(header.lstrip())]
    out = list(lines)
    for number, line in enumerate(lines[first:], first):
        bare = line[len(padding) :] if line.startswith(padding) else line
        if _HEADER.match(bare) or _END.match(bare):
            out[number] = bare
    last = max((n for n, line in enumerate(out) if line.strip() and line.strip() != "```"), default=0)
    if out and _END.match(out[last].lstrip()):  # at the very end it can be nothing else
        out[last] = out[last].lstrip()
    return out


def _section(body: list[str], at: int, file: FilePatch) -> None:
    """Read the body of one file, which begins at line `at`."""
    while body and not body[-1].strip() and not body[-1].startswith((" ", "+", "-")):
        body.pop()  # blank lines before the next header
    if file.operation == "add":
        file.hunks = [Hunk([("+", line[1:] if line.startswith("+") else line) for line in body])]
    elif file.operation == "update":
        _update(body, at, file)


def _update(body: list[str], at: int, file: FilePatch) -> None:
    hunk = Hunk([])
    for number, line in enumerate(body, at + 1):
        move = _MOVE.match(line)
        if move and not file.hunks and not hunk.lines:
            file.move_to = move[1]
        elif line.startswith("@@"):
            hunk = _opened(hunk, line, file)
        elif line.startswith("*** End of File"):
            hunk.at_end = True
            hunk = _closed(hunk, file)
        elif line.startswith((" ", "+", "-")):
            hunk.lines.append((line[0], line[1:]))
        elif not line.strip():
            hunk.lines.append((" ", line))
        elif not line.startswith("\\"):
            where = f"line {number} of the patch, in {file.path},"
            raise BadPatch(f"{where} begins with none of ' ', '+', '-', '@@': {line[:80]!r}")
    _closed(hunk, file)
    if not file.hunks and not file.move_to:
        raise BadPatch(f"the update of {file.path} has no lines to change")


def _opened(hunk: Hunk, line: str, file: FilePatch) -> Hunk:
    """The hunk that an `@@` line begins, or adds its anchor to."""
    hunk = _closed(hunk, file)
    text = line[2:].removeprefix(" ")
    numbers = _NUMBERS.match(text.strip())
    if numbers:
        hunk.start = int(numbers[1])
        text = numbers[2] or ""
    if text.endswith("@@"):
        text = text[:-2].rstrip()
    if text.strip():
        hunk.anchors.append(text)
    return hunk


def _closed(hunk: Hunk, file: FilePatch) -> Hunk:
    """File the hunk away if it has lines; answers the one to go on with."""
    if not hunk.lines:
        return hunk
    if any(sign != " " for sign, _ in hunk.lines):
        file.hunks.append(hunk)
    return Hunk([])


_HUNK = re.compile(r"^@@+(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@+)? ?(.*)$")
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
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
        """The file that these lines and hunks are about, or None if they name none."""
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
    """The hunk that begins at `at`, by its counts if they hold, else by the look of its lines."""
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
    """The two names of a `diff --git` line; needed if no `---` line follows."""
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
