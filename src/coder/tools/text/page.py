"""Implements `read`: whole files are remembered as seen, large ones are streamed."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from coder.base.process.output import PRIVATE_KEY_MARKER
from coder.base.safe_open import open_file, status_of
from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools import paths
from coder.tools.changes import SEEN_BYTES
from coder.tools.images import HEAD, Unusable, described, media_type_of, read_image
from coder.tools.paths import Stop, shown
from coder.tools.read import DEFAULT_LIMIT
from coder.tools.search.find import only_named
from coder.tools.search.listing import listed
from coder.tools.seen import Lines
from coder.tools.text.file import SAMPLE, NotText, TextFile, detect, load
from coder.tools.tool import Arguments, ToolContext, ToolResult, failed, read_summary, summed_up

CHUNK = 1 << 20
MAX_LINE = 2000  # characters of one line that are kept; the rest is counted


class Line(msgspec.Struct, frozen=True):
    """A line, cut at `MAX_LINE`; `cut` counts the characters left out."""

    text: str
    cut: int = 0


class Cancelled(Exception):
    """The caller was cancelled."""


def shorten(text: str) -> Line:
    return Line(text[:MAX_LINE], len(text) - MAX_LINE) if len(text) > MAX_LINE else Line(text)


def lines_from(file: BinaryIO, encoding: str, skip: int, stopped: Callable[[], bool]) -> Iterator[Line]:
    """The lines after the first `skip`, from where `file` stands. A last line without `\n` counts."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    kept, length, open_line = "", 0, False
    while True:
        if stopped():
            raise Cancelled
        data = file.read(CHUNK)
        chunk = decoder.decode(data, final=not data)
        if skip and (passed := chunk.count("\n")) < skip:
            skip -= passed
            chunk = "" if data else chunk
        *whole, rest = chunk.split("\n")
        for piece in whole:
            line = kept + piece[: MAX_LINE + 1 - len(kept)]
            length += len(piece)
            if skip:
                skip -= 1
            else:
                yield _line(line, length)
            kept, length, open_line = "", 0, False
        if rest:
            kept += rest[: MAX_LINE + 1 - len(kept)]
            length += len(rest)
            open_line = True
        if not data:
            if open_line and not skip:
                yield _line(kept, length)
            return


def _line(kept: str, length: int) -> Line:
    if length > MAX_LINE:
        return Line(kept[:MAX_LINE], length - MAX_LINE)
    return Line(kept.removesuffix("\r"))


def count_lines(file: BinaryIO, stopped: Callable[[], bool]) -> int:
    """Lines of a file in an encoding where the byte 0x0A is always a newline."""
    count, last = 0, b"\n"
    while data := file.read(CHUNK):
        if stopped():
            raise Cancelled
        count += data.count(b"\n")
        last = data[-1:]
    return count + (last != b"\n")


def seek_last(file: BinaryIO, wanted: int, stopped: Callable[[], bool]) -> int:
    """Move to where the last `wanted` lines begin; answers how many there are (fewer in a short file)."""
    at = file.seek(0, os.SEEK_END)
    ends_open = False
    if at:
        file.seek(at - 1)
        ends_open = file.read(1) != b"\n"
    # The newline that ends line k is the one before the last k lines.
    needed = wanted + (not ends_open)
    seen = 0
    while at > 0:
        if stopped():
            raise Cancelled
        size = min(CHUNK, at)
        at -= size
        file.seek(at)
        data = file.read(size)
        here = data.count(b"\n")
        if seen + here >= needed:
            position = len(data)
            for _ in range(needed - seen):
                position = data.rfind(b"\n", 0, position)
            file.seek(at + position + 1)
            return wanted
        seen += here
    file.seek(0)
    return seen + ends_open


MAX_BYTES = 256 * 1024  # of text in one answer
WHOLE_BYTES = SEEN_BYTES  # files up to this size are read whole; larger ones are streamed
COUNTED_BYTES = 1 << 30  # beyond this, lines near the end are numbered from the end


class Page(msgspec.Struct):
    """The part of a file that is shown. `first` is negative where lines are numbered from the end."""

    first: int
    lines: list[Line]
    has_more: bool
    total: int | None
    encoding: str
    remarks: list[str] = []
    around: str = ""  # the whole text, where a key in it may be shown in part


async def read_page(args: Arguments, context: ToolContext) -> ToolResult:
    stop_flag = threading.Event()
    try:
        path, lines = paths.locate_existing(context, args["path"])
        offset = args.get("offset")
        limit = args.get("limit")
        if lines and offset is None:
            offset = lines[0]
            limit = lines[1] - lines[0] + 1 if lines[1] and limit is None else limit
        limit = DEFAULT_LIMIT if limit is None else limit
        return await asyncio.to_thread(_read_meant, path, offset or 1, limit, context, stop_flag.is_set)
    except Stop as stop:
        return stop.result
    finally:
        stop_flag.set()  # a cancelled call leaves its thread at the next chunk


def _read_meant(
    path: Path, offset: int, limit: int, context: ToolContext, stopped: Callable[[], bool]
) -> ToolResult:
    """The file or, if it is missing, the only one of that name."""
    other = None
    with contextlib.suppress(OSError, ValueError):
        try:
            status_of(path)
        except FileNotFoundError:
            other = only_named(context, path)
    if other is None:
        return _read(path, offset, limit, context, stopped)
    found = paths.locate(context, shown(context, other))
    result = _read(found, offset, limit, context, stopped)
    if not result.ok:
        raise Stop(paths.missing(context, path))
    said = f"{shown(context, path)} does not exist; this is {shown(context, found)}:\n{result.for_model}"
    return msgspec.structs.replace(result, for_model=said)


def _read(
    path: Path, offset: int, limit: int, context: ToolContext, stopped: Callable[[], bool]
) -> ToolResult:
    name = shown(context, path)
    if limit < 1:
        return failed(f"limit must be at least 1, not {limit}", path=name)
    other = paths.kind_of(paths.status(context, path).st_mode)
    if other == "a folder":
        return listed(path, name, context)
    if other:
        return failed(f"{name} is {other} and cannot be read as a file", path=name)
    try:
        with os.fdopen(open_file(path), "rb") as file:
            try:
                page = _page(file, path, offset, limit, context, stopped)
            except NotText:
                return _image(file, name, context) or _binary(file, name)
    except Cancelled:
        return failed("reading was stopped", path=name)
    except (OSError, ValueError) as error:
        raise Stop(paths.unreachable(context, path, error)) from error
    if page.lines or page.total == 0:
        return _result(page, name, limit)
    lines = "1 line" if page.total == 1 else f"{page.total} lines"
    return failed(f"offset {offset} is past the end: {name} has {lines}", path=name, total_lines=page.total)


def _page(
    file: BinaryIO, path: Path, offset: int, limit: int, context: ToolContext, stopped: Callable[[], bool]
) -> Page:
    if os.fstat(file.fileno()).st_size > WHOLE_BYTES:
        return _streamed(file, offset, limit, stopped)
    data = file.read(WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES:  # grew meanwhile, or a file of /proc that gives no size
        file.seek(0)
        return _streamed(file, offset, limit, stopped)
    page = _whole(load(data), offset, limit)
    shown_lines = [(n, n) for n, line in enumerate(page.lines, page.first) if not line.cut]
    if not page.has_more and page.first == 1 and len(shown_lines) == len(page.lines):
        context.files.saw(path, data)
    else:
        context.files.saw_lines(path, data, _runs(shown_lines), page.total or 0)
    return page


def _runs(lines: list[Lines]) -> list[Lines]:
    """Neighbouring lines joined."""
    runs: list[Lines] = []
    for first, last in lines:
        if runs and runs[-1][1] == first - 1:
            first = runs.pop()[0]
        runs.append((first, last))
    return runs


def _whole(file: TextFile, offset: int, limit: int) -> Page:
    lines = file.text.split("\n")
    unfinished = bool(lines[-1])
    if not unfinished:
        lines.pop()
    total = len(lines)
    first = max(1, total + 1 + offset) if offset < 0 else offset
    shown_lines = _fitting(map(shorten, lines[first - 1 : first - 1 + limit]))
    page = Page(first, shown_lines, first - 1 + len(shown_lines) < total, total, file.encoding)
    if len(shown_lines) < total and PRIVATE_KEY_MARKER in file.text:
        page.around = file.text
    if file.encoding != "utf-8" or file.bom:
        page.remarks.append(file.encoding + (" with byte order mark" if file.bom else ""))
    if file.mixed:
        page.remarks.append("mixed line endings")
    elif file.newline != "\n":
        page.remarks.append("CR line endings" if file.newline == "\r" else "CRLF line endings")
    if unfinished and not page.has_more:
        page.remarks.append("no newline at the end")
    return page


def _streamed(file: BinaryIO, offset: int, limit: int, stopped: Callable[[], bool]) -> Page:
    encoding, bom = detect(file.read(SAMPLE), whole=False)
    size = os.fstat(file.fileno()).st_size
    remarks = [paths.size_words(size)] + ([encoding] if encoding != "utf-8" else [])
    if offset > 0:
        file.seek(len(bom))
        found = lines_from(file, encoding, offset - 1, stopped)
        lines = _fitting(islice(found, limit))
        has_more = next(found, None) is not None
        if lines:
            total = None if has_more else offset - 1 + len(lines)
            return Page(offset, lines, has_more, total, encoding, remarks)
        file.seek(len(bom))
        return Page(offset, [], False, sum(1 for _ in lines_from(file, encoding, 0, stopped)), encoding)
    return _streamed_end(file, encoding, len(bom), offset, limit, stopped, remarks)


def _streamed_end(
    file: BinaryIO,
    encoding: str,
    start: int,
    offset: int,
    limit: int,
    stopped: Callable[[], bool],
    remarks: list[str],
) -> Page:
    total: int | None
    if encoding.startswith(("utf-16", "utf-32")):
        file.seek(start)
        total = sum(1 for _ in lines_from(file, encoding, 0, stopped))
        first = max(1, total + 1 + offset)
        file.seek(start)
        found = lines_from(file, encoding, first - 1, stopped)
    else:
        file.seek(0)
        counted = os.fstat(file.fileno()).st_size <= COUNTED_BYTES
        total = count_lines(file, stopped) if counted else None
        available = seek_last(file, -offset, stopped)
        first = total + 1 - available if total is not None else -available
        found = lines_from(file, encoding, 0, stopped)
    lines = _fitting(islice(found, limit))
    return Page(first, lines, next(found, None) is not None, total, encoding, remarks)


def _fitting(lines: Iterator[Line]) -> list[Line]:
    """As many as fit into one result; at least one, or paging would never advance."""
    out: list[Line] = []
    size = 0
    for line in lines:
        size += len(line.text.encode("utf-8", "replace")) + 8
        if out and size > MAX_BYTES:
            break
        out.append(line)
    return out


def _result(page: Page, name: str, limit: int) -> ToolResult:
    meta = {"path": name, "offset": page.first, "limit": limit, "lines": len(page.lines)}
    meta |= {"total_lines": page.total, "has_more": page.has_more, "encoding": page.encoding}
    if page.total == 0:
        return summed_up(read_summary(meta), f"{name} is empty", meta=meta)
    last = page.first + len(page.lines) - 1
    text = "\n".join(
        f"{number}\t{utf8_safe(line.text)}{f'… [{line.cut} more characters]' if line.cut else ''}"
        for number, line in enumerate(page.lines, page.first)
    )
    total = f" of {page.total}" if page.total is not None else ""
    more = f"has_more: lines {page.first}-{last}{total} shown, continue with offset={last + 1}"
    if ending := [more] * page.has_more + page.remarks:
        text += f"\n[{'; '.join(ending)}]"
    return summed_up(read_summary(meta), text, meta=meta, around=page.around)


def _image(file: BinaryIO, name: str, context: ToolContext) -> ToolResult | None:
    """None for other binary files."""
    file.seek(0)
    head = file.read(HEAD)
    if not media_type_of(head):
        return None

    if not context.sees_images:
        size = paths.size_words(os.fstat(file.fileno()).st_size)
        what = f"{name} is an image ({size}), and you cannot see images"
        return failed(what, Text("tool.blind"), path=name, binary=True)
    try:
        image = read_image(name, head, file)
    except Unusable as error:
        return failed(str(error), error.phrase, path=name, binary=True)
    about = described(image)
    text = f"{name} is an image ({about}), shown beside this result"
    return summed_up(Text("tool.image", about=about), text, meta={"path": name}, images=(image,))


def _binary(file: BinaryIO, name: str) -> ToolResult:
    file.seek(0)
    head = file.read(16)
    size = os.fstat(file.fileno()).st_size
    kind = next((words for magic, words in _KINDS if head.startswith(magic)), "binary data")
    words = paths.size_words(size)
    reason = f"{name} is a binary file ({kind}, {words}), not text; inspect it with a command"
    return failed(reason, Text("tool.binary", size=words), path=name, binary=True, size=size, kind=kind)


_KINDS = (
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3", "SQLite database"),
    (b"RIFF", "RIFF media"),
    (b"OggS", "Ogg media"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O"),
)
