"""Paths of the file tools: how they are resolved, and what is reported of missing ones.

`Stop` carries a finished result out of nested helpers, so that a tool's `run` reads straight down and still
never raises into the loop."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from coder.base.safe_open import SymlinkRace, real_path, status_of
from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools.search.find import named
from coder.tools.tool import OutsideWorkspace, ToolContext, ToolResult, denied, failed

if TYPE_CHECKING:
    from coder.base.ignore import SearchRoot

_PLACE = re.compile(r"(.+?)(?::|#L?)(\d+)(?:-L?(\d+)|:\d+)?:?")
_WORDS = re.compile(r"[^\W_]{3,}")
_PARTS_TRIED = 6
# Directories and files that tell coder and other agents what to do, at any depth.
_STEERING = (".coder", ".claude", ".codex", ".mcp.json", ".worktreeinclude")
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
_NAMES_COMPARED = 2000  # names of a directory compared for "did you mean"; more would be slow, not better

_SENTENCES = {
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its symbolic links go in a circle",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENOENT: "it does not exist",
    errno.EFBIG: "the file would be larger than allowed",
    errno.EIO: "the device reports an input/output error",
}


class Stop(Exception):
    """The call is decided: `result` is its answer."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.summary)
        self.result = result


def why(error: OSError) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, SymlinkRace):
        return "a link took its place just now, and links are followed only inside the workspace; try again"
    known = _SENTENCES.get(error.errno) if error.errno is not None else None
    return known or (error.strerror or str(error)).lower()


def locate(context: ToolContext, path: str, *, write: bool = False) -> Path:
    """The absolute path that `path` names inside the workspace; raises `Stop`. Quotes around a path and an
    `@` before it are removed if nothing has that name."""
    if not path.strip():
        raise Stop(failed("path is empty; give a path relative to the workspace"))
    found = _resolved(context, path, write)
    bare = _undressed(path)
    if (bare == path and not path.startswith("@")) or os.path.lexists(found):
        return found
    for other in (bare, bare.removeprefix("@")):
        if other and os.path.lexists(meant := _resolved(context, other, write)):
            return meant
    return _resolved(context, bare, write) if bare else found


def steers(root: Path, path: Path) -> bool:
    """Whether agents do what `path` in `root` (both resolved) says: by its name, or because a link by such a
    name leads to it."""
    if not path.is_relative_to(root):
        return False
    parts = path.relative_to(root).parts
    if any(part.casefold() in _STEERING or part in _INSTRUCTIONS for part in parts):
        return True
    if any(part.upper() in map(str.upper, _INSTRUCTIONS) for part in parts) and _ignores_case(root):
        return True
    above = [directory for directory in path.parents if directory.is_relative_to(root)]
    links = (directory / name for directory in above for name in (*_STEERING, *_INSTRUCTIONS))
    return any(path.is_relative_to(real_path(link)) for link in links if link.is_symlink())


def _ignores_case(directory: Path) -> bool:
    """Whether the file system takes names in another case for the same."""
    try:
        return directory.samefile(directory.with_name(directory.name.swapcase()))
    except (OSError, ValueError):
        return False


def locate_existing(context: ToolContext, path: str) -> tuple[Path, tuple[int, int | None] | None]:
    """As `locate`, for reading: also understands `path:12`, `path:12-20` and `path#L12`, if no file has that
    name; then the lines (from, to) come along."""
    place = _PLACE.fullmatch(_undressed(path))
    try:
        found = locate(context, path)
    except Stop:
        if place is None:
            raise
    else:
        if place is None or os.path.lexists(found):
            return found, None
    meant = locate(context, place[1])
    if not os.path.lexists(meant):
        return locate(context, path), None
    last = int(place[3]) if place[3] else None
    return meant, (int(place[2]), last)


def _undressed(path: str) -> str:
    """Without quotes, backticks and blanks around it."""
    bare = path.strip()
    while len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "`'\"":
        bare = bare[1:-1].strip()
    return bare


def _resolved(context: ToolContext, path: str, write: bool) -> Path:
    name = utf8_safe(path)
    try:
        return context.workspace.resolve(path, write=write)
    except OutsideWorkspace as outside:
        reason = utf8_safe(str(outside)) or f"{name} is outside the workspace"
        reason += _inside(context, path)
        raise Stop(denied(reason, Text("tool.path_refused", path=name), path=name)) from outside
    except (ValueError, UnicodeError) as error:
        raise Stop(failed(f"{name!r} is not a usable path: {error}", path=name)) from error
    except (OSError, RuntimeError) as error:  # pathlib raises RuntimeError for a loop of links
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise Stop(failed(f"cannot reach {name}: {reason}", path=name)) from error


def _inside(context: ToolContext, path: str) -> str:
    """What the end of a path leads to: models take the workspace for `/` or `/workspace`."""
    parts = [part for part in path.split("/") if part and part != "."]
    for start in range(min(len(parts), _PARTS_TRIED)) if path.startswith("/") else ():
        with contextlib.suppress(OutsideWorkspace, OSError, ValueError, RuntimeError):
            found = context.workspace.resolve("/".join(parts[start:]))
            if os.path.lexists(found):
                return f" Did you mean {shown(context, found)}?"
    return ""


def shown(context: ToolContext, path: Path) -> str:
    """The path as it is shown and recorded."""
    return utf8_safe(context.workspace.show(path))


def closed_note(context: ToolContext, place: SearchRoot) -> list[str]:
    """The line that names what a search left out because secrets are kept there, if anything."""
    names = [shown(context, Path(path)) for path in place.withheld]
    return [f"[not searched, since secrets are kept there: {', '.join(names)}]"] if names else []


def status(context: ToolContext, path: Path) -> os.stat_result:
    """The status of `path`; raises `Stop`, with the nearest names if it is missing."""
    try:
        return status_of(path)
    except FileNotFoundError:
        raise Stop(missing(context, path)) from None
    except (OSError, ValueError) as error:
        raise Stop(unreachable(context, path, error)) from error


def unreachable(
    context: ToolContext, path: Path, error: OSError | ValueError, doing: str = "read"
) -> ToolResult:
    name = shown(context, path)
    reason = why(error) if isinstance(error, OSError) else str(error)
    summary = Text("tool.unreachable", path=name, why=reason)
    return failed(f"cannot {doing} {name}: {reason}", summary, path=name)


def missing(context: ToolContext, path: Path) -> ToolResult:
    """The error for a missing `path`, with files of the same or a similar name."""
    name = shown(context, path)
    parent = path.parent
    same = [shown(context, found) for found in named(context, path)]
    near = same + [shown(context, parent / other) for other in _similar(path.name, parent)]
    near = list(dict.fromkeys(near))[:3]
    said = Text("tool.missing", path=name)
    if near or parent.is_dir():
        hint = f"did you mean {' or '.join(near)}?" if near else "see what is there with list or glob"
        return failed(f"{name} does not exist; {hint}", said, path=name, nearest=near)
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    reason = f"{name} does not exist, nor does its folder; the nearest folder is {shown(context, parent)}"
    return failed(reason, said, path=name)


def _similar(name: str, directory: Path) -> list[str]:
    from difflib import get_close_matches

    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_NAMES_COMPARED), strict=False)]
    except OSError:
        return []
    lowered = {other.lower(): other for other in names}
    wanted = name.lower()
    stem = wanted.partition(".")[0]
    # A slip of the pen first, then a word in common; what has some letters in common only for want of these.
    near = get_close_matches(wanted, lowered, n=3, cutoff=0.8)
    near += [key for key in sorted(lowered) if stem and key.partition(".")[0] == stem]
    near += [key for key in sorted(lowered) if _shares_a_word(wanted, key)]
    near = near or get_close_matches(wanted, lowered, n=3, cutoff=0.6)
    return [lowered[key] for key in dict.fromkeys(near)][:3]


def _shares_a_word(name: str, other: str) -> bool:
    """Whether a word of one name begins a word of the other, as in `tests.py` and `test_app.py`."""
    one, two = PurePath(name), PurePath(other)
    if one.suffix != two.suffix:
        return False
    pairs = ((a, b) for a in _WORDS.findall(one.stem) for b in _WORDS.findall(two.stem))
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)


_KINDS = {
    stat.S_IFREG: "",
    stat.S_IFLNK: "a link that has just taken a file's place",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def kind_of(mode: int) -> str:
    """What a path that is not a regular file is, in words; empty for a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


def size_words(size: int) -> str:
    """A size as people read it."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KB", "MB", "GB", "TB"):
        amount /= 1024
        if amount < 1024 or unit == "TB":
            break
    return f"{amount:.1f} {unit}"
