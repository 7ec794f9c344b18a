"""How the file tools find a path, and how they say that it is not there.

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
from coder.texts import Text
from coder.tools.search.find import named
from coder.tools.tool import OutsideWorkspace, ToolContext, ToolResult, denied, failed

if TYPE_CHECKING:
    from coder.base.ignore import SearchRoot

_SURROGATE = re.compile("[\ud800-\udfff]")
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


def clean(text: str) -> str:
    """`text` with bytes that are no UTF-8 (kept as surrogates by the file system layer) spelled out.
    Everything a tool hands back goes over the wire and into the record, which take valid UTF-8 only."""
    return _SURROGATE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def why(error: OSError) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, SymlinkRace):
        return "a link took its place just now, and links are followed only inside the workspace; try again"
    known = _SENTENCES.get(error.errno) if error.errno is not None else None
    return known or (error.strerror or str(error)).lower()


def locate(context: ToolContext, path: str, *, write: bool = False) -> Path:
    """The absolute path that `path` names inside the workspace; `Stop` where there is none. Quotes around a
    path, and an `@` before it, are taken off where nothing has that name."""
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
    if any(part.casefold() in _STEERING for part in parts):
        return True
    if any(part in _INSTRUCTIONS for part in parts):
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
    """As `locate`, for reading: also understands `path:12`, `path:12-20` and `path#L12`, where no file is
    called that; then the lines (from, to) come along."""
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
    try:
        return context.workspace.resolve(path, write=write)
    except OutsideWorkspace as outside:
        reason = clean(str(outside)) or f"{clean(path)} is outside the workspace"
        reason += _inside(context, path)
        raise Stop(denied(reason, Text("tool.path_refused", path=clean(path)), path=clean(path))) from outside
    except (ValueError, UnicodeError) as error:
        raise Stop(failed(f"{clean(path)!r} is not a usable path: {error}", path=clean(path))) from error
    except OSError as error:
        raise Stop(failed(f"cannot reach {clean(path)}: {why(error)}", path=clean(path))) from error
    except RuntimeError as error:  # pathlib says so of a loop of links
        raise Stop(failed(f"cannot reach {clean(path)}: {error}", path=clean(path))) from error


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
    return clean(context.workspace.show(path))


def closed_note(context: ToolContext, place: SearchRoot) -> list[str]:
    """The line that tells what a search left out because secrets are kept there, if anything."""
    names = [shown(context, Path(path)) for path in place.withheld]
    return [f"[not searched, since secrets are kept there: {', '.join(names)}]"] if names else []


def status(context: ToolContext, path: Path) -> os.stat_result:
    """What the file system says of `path`; `Stop` with the nearest names where it is missing."""
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
    return failed(
        f"cannot {doing} {name}: {reason}", Text("tool.unreachable", path=name, why=reason), path=name
    )


def missing(context: ToolContext, path: Path) -> ToolResult:
    """That `path` is not there, with what is there under its name or a similar one."""
    name = shown(context, path)
    parent = path.parent
    same = [shown(context, found) for found in named(context, path)]
    near = same + [shown(context, parent / other) for other in _similar(path.name, parent)]
    near = list(dict.fromkeys(near))[:3]
    said = Text("tool.missing", path=name)
    if near:
        return failed(
            f"{name} does not exist; did you mean {' or '.join(near)}?", said, path=name, nearest=near
        )
    if parent.is_dir():
        return failed(
            f"{name} does not exist; see what is there with list or glob", said, path=name, nearest=[]
        )
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


def kind_of(mode: int) -> str:
    """What a path that is not a regular file is, in words; empty for a regular file."""
    for test, words in (
        (stat.S_ISREG, ""),
        (stat.S_ISLNK, "a link that has just taken a file's place"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    ):
        if test(mode):
            return words
    return "not a regular file"


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
