"""Expand `@path`: append the contents of files, directories and globs named in a message, images beside it.

The text stays as written; the contents follow it. Sizes are bounded, ignored files are skipped, and omissions
are reported in a note. Absolute paths of images, as a terminal writes dropped files, are taken as if each
had its `@`. An image that the person names comes from anywhere, everything else from the workspace.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from coder.base.ignore import IgnoreRules, SearchRoot
from coder.base.safe_open import open_file
from coder.base.text import shown
from coder.protocol.messages import IMAGE_SUFFIX, Image
from coder.texts import Text
from coder.tools.images import HEAD, Batch, Unusable, described, media_type_of, read_image
from coder.tools.search.globs import BadGlob, matcher
from coder.tools.search.walk import Walk
from coder.tools.text.file import NotText, load
from coder.tools.tool import ClosedPlace, OutsideWorkspace, Workspace

if TYPE_CHECKING:
    from coder.policy.workspace import DirectoryWorkspace
    from coder.tools.images import Batch

# About 12,000 tokens for one file and 48,000 for all; larger files are read in parts with a tool.
MAX_FILE_BYTES = 48_000
MAX_TOTAL_BYTES = 192_000
MAX_FILES = 100
_WALK_SECONDS = 5.0
_LONGEST_DROP = 10_000  # characters that are searched for paths without `@`
_MARKS = ".,;:!?)]}'\"»”’。，、；：！？）】》」"
_WIDE = re.compile("[”’。，、；：！？）】》」]")

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# In quotes, or with blanks escaped, or as a URL. A no-break space, as in names of macOS, ends no path.
_IMAGE_PATH = re.compile(
    r"""(?<![\w./~@:=\\-])(?:(['"])((?:~?/|file:)[^\n]+?)\1|((?:~?/|file:)(?:\\.|[^ \t\r\n\\'"])*?"""
    rf"""{IMAGE_SUFFIX.pattern})(?!\w|[./-]\w))""",
    re.ASCII | re.IGNORECASE,
)
_COMMAND = re.compile(
    r'(?:^|(?<=[\s(（，。、；：]))@(?:"([^"\n]+)(?:"|$)|((?:\\.|[^\s\\]|\u202f)+))', re.MULTILINE
)


class _Taken(msgspec.Struct):
    """What has been attached so far."""

    parts: list[str] = []
    notes: list[Text] = []
    seen: set[str] = set()
    room: int = MAX_TOTAL_BYTES
    images: Batch | None = None


class Expanded(NamedTuple):
    """A message with the contents of its paths, notes for the person, and images."""

    text: str
    notes: list[Text]
    images: list[Image]


def expand(
    text: str, workspace: DirectoryWorkspace, servers: Collection[str] = (), person: str = ""
) -> Expanded:
    """Blocking. `servers`: MCP servers, for `@server:uri`. `person`: the part typed by a person."""
    taken = _Taken()
    chosen = dict.fromkeys([*mentioned_paths(person), *dropped(person)])
    in_prose = [path for path in image_paths(person) if path not in chosen]
    for name in mentioned_paths(text) or dropped(text):
        if name.partition(":")[0] not in servers:
            _attach(name, workspace, taken, anywhere=name in chosen)
    for path in in_prose:
        _attach(path, workspace, taken, anywhere=True)
    return Expanded(
        "\n\n".join([text, *taken.parts]), taken.notes, taken.images.images if taken.images else []
    )


def dropped(text: str) -> list[str]:
    """The paths if the message is nothing but absolute paths or `file:` URLs of images."""
    text = text.strip()
    if len(text) > _LONGEST_DROP or not IMAGE_SUFFIX.search(text):
        return []
    if text.startswith("/") and IMAGE_SUFFIX.fullmatch(Path(text).suffix) and _is_file(text):
        return [text]  # copied with its blanks
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    paths = [_path_of_url(word) if word.startswith("file:") else word for word in words]
    alone = all(path.startswith("/") and IMAGE_SUFFIX.fullmatch(Path(path).suffix) for path in paths)
    return list(dict.fromkeys(paths)) if alone else []


def image_paths(text: str) -> list[str]:
    """The absolute paths of files with an image's name that stand among words; not those inside code."""
    if len(text) > _LONGEST_DROP or not IMAGE_SUFFIX.search(text):
        return []
    found = (
        quoted or re.sub(r"\\(.)", r"\1", bare)
        for _, quoted, bare in _IMAGE_PATH.findall(_without_code(text))
    )
    paths = (_path_of_url(path) if path.startswith("file:") else path for path in found)
    return [path for path in dict.fromkeys(paths) if IMAGE_SUFFIX.search(path) and _is_file(path)]


def _is_file(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # too long a name, no home, a NUL
        return False


def _path_of_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    path = unquote(parts.path)
    return path if parts.netloc in ("", "localhost") and "\0" not in path else ""


def mentioned_paths(text: str) -> list[str]:
    """The paths after `@`, unquoted and unescaped, deduplicated; not those inside code."""
    found = (
        match[1] or re.sub(r"\\(.)", r"\1", match[2]) for match in _COMMAND.finditer(_without_code(text))
    )
    return list(dict.fromkeys(found))


def _without_code(text: str) -> str:
    return _FENCED.sub(lambda found: " " * len(found[0]), text)


def _attach(name: str, workspace: DirectoryWorkspace, taken: _Taken, *, anywhere: bool) -> None:
    outside = ""
    for candidate in _readings(name):
        if not candidate:
            continue
        try:
            path = workspace.resolve(candidate)
        except ClosedPlace:
            taken.notes.append(Text("attach.closed", name=candidate))
            return
        except OutsideWorkspace:
            if anywhere and _attach_from_outside(candidate, workspace, taken):
                return
            outside = outside or candidate
            continue
        if (directory := path.is_dir()) or path.is_file():
            if _ignored(path, workspace.root, is_directory=directory):
                taken.notes.append(Text("attach.ignored", name=candidate))
            elif directory:  # its images would be sent unasked
                _attach_many(candidate, _files(workspace, path, taken), workspace, taken, images=False)
            else:
                _attach_file(path, workspace, taken)
            return
    if outside:
        taken.notes.append(Text("attach.outside", name=outside))
    elif any(char in name for char in "*?[{"):
        _attach_glob(_WIDE.split(name, maxsplit=1)[0].rstrip(",;:!"), workspace, taken)
    else:
        *_, shortest = _readings(name)
        taken.notes.append(Text("attach.missing", name=shortest))


def _attach_from_outside(name: str, workspace: DirectoryWorkspace, taken: _Taken) -> bool:
    """Attach an image, or note why not. False for other files, which stay outside."""
    try:
        path = workspace.chosen(name)
        with _opened(path) as file:
            head = file.read(HEAD)
            if not media_type_of(head):
                return False
            shown_as = workspace.show(path)
            if shown_as not in taken.seen:
                taken.seen.add(shown_as)
                _attach_image(shown_as, head, file, taken)
    except ClosedPlace:
        taken.notes.append(Text("attach.closed", name=name))
    except (OutsideWorkspace, FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError as error:
        taken.notes.append(Text("attach.unreadable", name=name, why=error.strerror or str(error)))
    return True


def _readings(name: str) -> Iterator[str]:
    """The name as written, without trailing punctuation, and up to a full-width mark."""
    seen = {""}
    for reading in (name, name.rstrip(_MARKS), _WIDE.split(name, maxsplit=1)[0]):
        if reading not in seen:
            seen.add(reading)
            yield reading


def _attach_glob(pattern: str, workspace: Workspace, taken: _Taken) -> None:
    try:
        fits = matcher(pattern)
    except BadGlob:
        taken.notes.append(Text("attach.missing", name=pattern))
        return
    base = len(os.fspath(workspace.root).rstrip("/")) + 1
    found = (path for path in _files(workspace, workspace.root, taken) if fits(os.fspath(path)[base:]))
    _attach_many(pattern, found, workspace, taken)


def _attach_many(
    name: str, paths: Iterator[Path], workspace: Workspace, taken: _Taken, *, images: bool = True
) -> None:
    count = left_out = 0
    for path in paths:
        count += 1
        if count > MAX_FILES or taken.room <= 0:
            left_out += 1
        else:
            _attach_file(path, workspace, taken, images=images)
    if not count:
        taken.notes.append(Text("attach.nothing", name=name))
    elif left_out:
        taken.notes.append(Text("attach.left_out", name=name, n=left_out))
        taken.parts.append(f"[{left_out} more files of {name} are not shown; read or search those you need]")


def _attach_file(path: Path, workspace: Workspace, taken: _Taken, *, images: bool = True) -> None:
    name = workspace.show(path)
    if name in taken.seen:
        return
    taken.seen.add(name)
    limit = min(MAX_FILE_BYTES, taken.room)
    try:
        with _opened(path) as file:
            head = file.read(HEAD)
            if images and media_type_of(head):
                _attach_image(name, head, file, taken)
                return
            if limit <= 0:
                taken.notes.append(Text("attach.full", name=name))
                return
            data = head + file.read(max(0, limit + 1 - len(head)))
        # Cut between lines: a split character would look like another encoding.
        cut = len(data) > limit
        content = load(data[:limit].rpartition(b"\n")[0] or data[:limit] if cut else data).text
    except OSError as error:
        taken.notes.append(Text("attach.unreadable", name=name, why=error.strerror or str(error)))
        return
    except NotText:
        taken.notes.append(Text("attach.binary", name=name))
        return
    if cut:
        taken.notes.append(Text("attach.cut", name=name, limit=f"{limit:,}"))
    taken.room -= min(len(data), limit)
    end = "\n[the file goes on; read the rest with the read tool]" if cut else ""
    # Escaped: neither name nor content can close the block.
    path_shown = _in_quotes(name)
    body = content.rstrip("\n").replace("</file>", "&lt;/file>")
    taken.parts.append(f'<file path="{path_shown}">\n{body}{end}\n</file>')


def _opened(path: Path) -> BinaryIO:
    """Raises OSError, also for a pipe that has taken the file's place."""
    file = os.fdopen(open_file(path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def _attach_image(name: str, head: bytes, file: BinaryIO, taken: _Taken) -> None:
    taken.images = taken.images or Batch()
    try:
        image = taken.images.add(name, lambda: read_image(name, head, file))
    except Unusable as error:
        taken.notes.append(error.phrase)
        return
    taken.parts.append(f'<image path="{_in_quotes(name)}">{described(image)}</image>')


def _in_quotes(name: str) -> str:
    return shown(name).replace('"', "&quot;")


def _files(workspace: Workspace, directory: Path, taken: _Taken) -> Iterator[Path]:
    """Files below a directory that are neither ignored nor closed, sorted by path."""
    place = SearchRoot(workspace.root, directory, workspace.closed)
    taken.notes += [Text("attach.closed", name=workspace.show(Path(path))) for path in place.withheld]
    return map(Path, Walk(place.root, directory, _WALK_SECONDS, place.closed).files())


def _ignored(path: Path, root: Path, *, is_directory: bool = False) -> bool:
    """Whether a `.gitignore` covers the path or a parent directory."""
    if root not in path.parents:
        return False
    rules = IgnoreRules.at(root, root)
    for directory in [*reversed(path.parents[: len(path.relative_to(root).parts) - 1]), path]:
        if rules.hide(os.fspath(directory), is_directory=is_directory or directory != path):
            return True
        if directory != path:
            rules = rules.inside(os.fspath(directory))
    return False
