"""Implements `grep`: the lines that match, by file, with those around them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable
from itertools import groupby

import msgspec

from coder.base.ignore import SearchRoot
from coder.base.process.output import PRIVATE_KEY_MARKER
from coder.base.safe_open import read_file
from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools.grep import DEFAULT_MATCHES, MAX_MATCHES
from coder.tools.paths import Stop, closed_note, kind_of, locate_existing, shown, status
from coder.tools.search.find import BadPattern, Line, Outcome, find_lines
from coder.tools.search.globs import BadGlob, literally, matcher, name_globs
from coder.tools.search.ripgrep import MAX_LINE_BYTES
from coder.tools.text.file import NotText, load
from coder.tools.tool import Arguments, ToolContext, ToolResult, failed, grep_summary, summed_up

MAX_LINE = 300  # characters of a line that are shown
MAX_TEXT = 100_000  # characters of the whole answer
MAX_PATTERN = 10_000
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{16,90}")
_MAX_KEY_FILE = 1 << 20
MAX_CONTEXT = 20
_MAX_CONTEXT_FILE = 8 << 20


async def lines_matching(args: Arguments, context: ToolContext) -> ToolResult:
    pattern = args["pattern"]
    if not pattern or len(pattern) > MAX_PATTERN or "\0" in pattern:
        return failed(f"the pattern must have 1 to {MAX_PATTERN} characters and no NUL")
    try:
        return await _grep(pattern, pattern, args, context)
    except Stop as stop:
        return stop.result
    except BadGlob as bad:
        return failed(utf8_safe(str(bad)), pattern=utf8_safe(pattern))
    except BadPattern as bad:
        why = utf8_safe(str(bad))
    try:  # code that was meant as it stands: `foo(`, `arr[i`, `*args`
        result = await _grep(literally(pattern), pattern, args, context)
    except (Stop, BadPattern):
        reason = f"the pattern is not a valid regular expression: {why}; escape text characters with \\"
        return failed(reason, Text("tool.bad_pattern", why=why), pattern=utf8_safe(pattern))
    note = f"[searched as plain text, being no regular expression: {why}]"
    meta = {**result.meta, "literal": True}
    return msgspec.structs.replace(result, for_model=f"{note}\n{result.for_model}", meta=meta)


async def _grep(regex: str, pattern: str, args: Arguments, context: ToolContext) -> ToolResult:
    paths = await asyncio.to_thread(_paths, context, args.get("path") or ".")
    limit = min(max(1, args.get("max_matches") or DEFAULT_MATCHES), MAX_MATCHES)
    results: list[ToolResult] = []
    for path in paths:
        left = limit - sum(result.meta["matches"] for result in results)
        one = {**args, "path": path, "max_matches": max(1, left)}
        results.append(await _grep_in(regex, pattern, one, context))
        if not results[-1].ok:
            return results[-1]
    return results[0] if len(results) == 1 else _joined(results)


def _paths(context: ToolContext, path: str) -> list[str]:
    """The path, or the paths if it names several that exist."""
    parts = path.replace(",", " ").split()
    if len(parts) < 2 or os.path.lexists(locate_existing(context, path)[0]):
        return [path]
    parts = list(dict.fromkeys(parts))
    there = all(os.path.lexists(locate_existing(context, part)[0]) for part in parts)
    return parts if there else [path]


def _joined(results: list[ToolResult]) -> ToolResult:
    metas = [result.meta for result in results]
    meta = {
        **metas[0],
        "path": " ".join(meta["path"] for meta in metas),
        "matches": sum(meta["matches"] for meta in metas),
        "files": sum(meta["files"] for meta in metas),
        "truncated": any(meta["truncated"] for meta in metas),
        "timed_out": any(meta["timed_out"] for meta in metas),
    }
    return summed_up(
        grep_summary(meta),
        "\n".join(result.for_model for result in results),
        meta=meta,
        around="\n".join(result.around for result in results if result.around),
    )


async def _grep_in(regex: str, pattern: str, args: Arguments, context: ToolContext) -> ToolResult:
    start, _ = locate_existing(context, args.get("path") or ".")
    other = kind_of((await asyncio.to_thread(status, context, start)).st_mode)
    where = shown(context, start)
    if other not in ("", "a folder"):
        return failed(f"{where} is {other} and cannot be searched", path=where)
    limit = min(max(1, args.get("max_matches") or DEFAULT_MATCHES), MAX_MATCHES)
    place = SearchRoot(context.workspace.root, start, context.workspace.closed)
    glob = args.get("glob") or ""
    names = name_globs(glob) if glob else []
    found = await find_lines(context, place, regex, names, _wanted(glob, place), limit)
    wanted = min(max(0, args.get("context") or 0), MAX_CONTEXT)
    mode = args.get("output_mode") or "content"
    around = await asyncio.to_thread(_around, found.lines[:limit], place, wanted)
    return _result(found, limit, pattern, where, context, place, _Showing(mode, around))


class _Showing(msgspec.Struct, frozen=True):
    """How matches are shown. `around`: by path, the lines near its matches."""

    mode: str
    around: dict[str, dict[int, str]]


def _around(lines: list[Line], place: SearchRoot, wanted: int) -> dict[str, dict[int, str]]:
    """The lines around the matches, by path and number, of files that are text and not huge."""
    near: dict[str, dict[int, str]] = {}
    for path, group in groupby(lines, key=lambda line: line.path) if wanted else ():
        with contextlib.suppress(OSError, ValueError, NotText):
            text = load(read_file(place.base / path, _MAX_CONTEXT_FILE)).text.split("\n")
            if not text[-1]:
                text.pop()
            spans = [range(max(1, hit.number - wanted), hit.number + wanted + 1) for hit in group]
            near[path] = {n: text[n - 1] for span in spans for n in span if n <= len(text)}
    return near


def _wanted(glob: str, place: SearchRoot) -> Callable[[str], bool]:
    """The filter: relative to the searched directory, or to the workspace, as models mean either."""
    if not glob:
        return lambda path: True
    match = matcher(glob, any_depth=True)
    prefix = str(place.start.relative_to(place.base))
    skip = 0 if prefix == "." else len(prefix) + 1
    return lambda path: match(path[skip:]) or match(path)


def _result(
    found: Outcome,
    limit: int,
    pattern: str,
    where: str,
    context: ToolContext,
    place: SearchRoot,
    showing: _Showing,
) -> ToolResult:
    lines, total = found.lines[:limit], len(found.lines)
    parts: list[str] = []
    size = count = files = 0
    for path, group in groupby(lines, key=lambda line: line.path):
        hits = list(group)
        text = _block(shown(context, place.base / path).replace("\n", "\\n"), hits, showing)
        if size + len(text) > MAX_TEXT:
            break
        size += len(text)
        count += len(hits)
        files += 1
        parts.append(text)
    more = total > count or found.cut
    if not lines:
        parts.append(f"no matches for {utf8_safe(pattern)} in {where}")
    if more:
        of = f"more than {count}" if found.cut else str(total)
        advice = "narrow the pattern, path or glob, or raise max_matches"
        parts.append(f"[{count} of {of} matches shown; {advice}]")
    if found.timed_out:
        parts.append("[the search took too long and was ended; give a narrower path]")
    parts += closed_note(context, place)
    meta = {
        "pattern": utf8_safe(pattern),
        "path": where,
        "matches": count,
        "files": files,
        "truncated": more,
        "timed_out": found.timed_out,
        "engine": found.engine,
    }
    around = _keys_around(lines, place, showing.around)
    return summed_up(grep_summary(meta), "\n".join(parts), meta=meta, around=around)


def _block(name: str, hits: list[Line], showing: _Showing) -> str:
    """What is shown of one file."""
    if showing.mode == "files_with_matches":
        return name
    if showing.mode == "count":
        return f"{name}: {len(hits)}"
    rows = {hit.number: _line(hit) for hit in hits}
    near = showing.around.get(hits[0].path, {})
    rows |= {n: f"{n}- {utf8_safe(text)[:MAX_LINE]}" for n, text in near.items() if n not in rows}
    out, last = [name], 0
    for number in sorted(rows):
        if near and last and number > last + 1:
            out.append("--")
        out.append(rows[number])
        last = number
    return "\n".join(out)


def _keys_around(lines: list[Line], place: SearchRoot, near: dict[str, dict[int, str]]) -> str:
    """The files of matches that may be part of a private key: a line of base64 alone is not recognised."""
    texts = []
    likely = [line.path for line in lines if line.path in near or _BASE64.fullmatch(line.text.strip())]
    for path in dict.fromkeys(likely):
        with contextlib.suppress(OSError, ValueError):
            text = read_file(place.base / path, _MAX_KEY_FILE).decode("utf-8", errors="replace")
            if PRIVATE_KEY_MARKER in text:
                texts.append(text)
    return "\n".join(texts)


def _line(line: Line) -> str:
    """`12: text`, cut around the match where the line is long."""
    text = utf8_safe(line.text)
    if len(text) <= MAX_LINE:
        return f"{line.number}: {text}"
    column = line.column - 1
    start = max(0, min(column, len(text)) - MAX_LINE // 3) if MAX_LINE < column < MAX_LINE_BYTES else 0
    piece = text[start : start + MAX_LINE]
    return f"{line.number}: {'…' if start else ''}{piece}… [long line, match at column {line.column}]"
