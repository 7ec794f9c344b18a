"""The task file: one JSON object a line, every line checked before the first task starts.

Only ids, offsets and checksums stay in memory; a task is decoded again when it starts, so that a file of
100,000 tasks costs megabytes, not what its prompts weigh.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce
from itertools import product
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Annotated
from zlib import crc32

import msgspec

from coder import OPERATING_MODES
from coder.texts import CoderError, Text

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@=,+-]{0,149}")
# What leads git to another repository, or to other programs.
_OF_GIT = frozenset(
    f"GIT_{name}"
    for name in (
        *("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR"),
        *("NAMESPACE", "GRAFT_FILE", "SHALLOW_FILE", "PREFIX", "IMPLICIT_WORK_TREE", "EXEC_PATH"),
        *("EXTERNAL_DIFF", "TEMPLATE_DIR"),
    )
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
_LONGEST_NAME = 240  # bytes; file systems allow 255, and attempts have a number behind it
_FIRST_FAULTS = 10  # wrong lines that one run names
_SLUG = re.compile(r"[^A-Za-z0-9_.+-]+")
# Files of the output directory, where every task has a directory named by its id.
RESERVED = ("results.jsonl", "attempts.jsonl", "status.json", "batch.json", "batch.lock", "index.html")
MATRIX_FIELDS = ("model", "mode", "ref", "max_steps", "budget_usd", "timeout_s")

_MOST = 10**9  # more than anybody means, and less than any clock or message overflows at
Positive = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
Amount = Annotated[float, msgspec.Meta(gt=0, le=_MOST)]


class BatchError(CoderError):
    """Something that the person has to put right before the batch can run."""


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the task file. `base` is the line's own id where a matrix made several tasks of it."""

    id: str
    prompt: str
    cwd: str = ""
    repo: str = ""
    ref: str = ""
    until_ref: bool = False
    setup: str = ""
    check: str = ""
    mode: str = ""
    model: str = ""
    max_steps: Positive | None = None
    budget_usd: Amount | None = None
    timeout_s: Amount | None = None
    env: list[str] = []

    @property
    def source(self) -> str:
        return self.cwd or self.repo


class TaskFile:
    """The checked tasks of a file, times the combinations of the matrix, in order."""

    def __init__(self, path: Path, matrix: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> None:
        """Raises `BatchError` with every wrong line (the first ten) in it."""
        self.path = path
        self._directory = Path(os.path.realpath(path)).parent
        self._combinations = [dict(zip(matrix, values, strict=True)) for values in product(*matrix.values())]
        self._names = {name: _folder_names(values) for name, values in matrix.items()}
        self._offsets, self._sums = array("Q"), array("L")
        self._environ = environ
        self._known_directories: dict[str, bool] = {}
        self.ids: list[str] = []
        self.models: set[str] = set()  # named by tasks
        self.counted: set[str] = set()  # of tasks with `budget_usd`; empty: the batch's own
        self.variables: set[str] = set()
        try:
            self._file: IO[bytes] = path.open("rb")
            if not self._file.seekable():  # `… | coder batch /dev/stdin`
                self._directory = Path.cwd()
                self._file = _copied(self._file)
        except OSError as error:
            raise BatchError("batch.unreadable", file=path, why=error.strerror) from None
        try:
            self._check()
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self.ids)

    def task(self, index: int) -> Task:
        """The task at `index` in `ids`, read from the file again. Raises `BatchError`."""
        line, combination = divmod(index, len(self._combinations))
        self._file.seek(self._offsets[line])
        text = self._file.readline()
        if crc32(text) != self._sums[line]:
            raise BatchError("batch.changed", file=self.path)
        task = _decoded(text)
        return self._combined(self._placed(task), self._combinations[combination])

    def close(self) -> None:
        self._file.close()

    def _check(self) -> None:
        faults: list[Text] = []
        seen: dict[str, int] = {}
        for number, offset, line in self._lines():
            try:
                self._check_line(line, number, seen)
            except BatchError as error:
                faults.append(Text("batch.line", number=number, why=error.phrase))
                if len(faults) == _FIRST_FAULTS:
                    break
            else:
                self._offsets.append(offset)
                self._sums.append(crc32(line))
        if faults:
            raise BatchError(reduce(_and_line, faults, Text("batch.wrong_lines", file=self.path)))
        if not self.ids:
            raise BatchError("batch.no_tasks", file=self.path)

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        offset = 0
        for number, line in enumerate(self._file, start=1):
            if line.strip(b" \t\r\n\xef\xbb\xbf"):
                yield number, offset, line
            offset += len(line)

    def _check_line(self, line: bytes, number: int, seen: dict[str, int]) -> None:
        task = self._placed(_decoded(line))
        check_task(task, self._environ)
        if task.source and _is_path(task.source) and not self._is_directory(task.source):
            raise BatchError("batch.no_folder", directory=task.source)
        self.variables.update(task.env)
        for combination in self._combinations:
            made = self._combined(task, combination)
            if len(made.id) > _LONGEST_NAME:
                raise BatchError("batch.bad_id", id=made.id)
            folder = made.id.lower()  # as a file system that does not tell case apart
            if folder in seen:
                raise BatchError("batch.twice", id=made.id, first=seen[folder])
            seen[folder] = number
            self.ids.append(made.id)
            if made.model:
                self.models.add(made.model)
            if made.budget_usd is not None:
                self.counted.add(made.model)

    def _combined(self, task: Task, combination: Mapping[str, str]) -> Task:
        if not combination:
            return task
        parts = ",".join(f"{name}={self._names[name][value]}" for name, value in combination.items())
        return _with_values(task, {**combination, "id": f"{task.id}@{parts}"})

    def _is_directory(self, path: str) -> bool:
        if path not in self._known_directories:
            self._known_directories[path] = Path(path).is_dir()
        return self._known_directories[path]

    def _placed(self, task: Task) -> Task:
        """With absolute paths: relative ones are meant from the task file's directory."""
        if task.cwd:
            return msgspec.structs.replace(task, cwd=self._absolute(task.cwd))
        if task.repo and _is_path(task.repo):
            return msgspec.structs.replace(task, repo=self._absolute(task.repo))
        return task

    def _absolute(self, path: str) -> str:
        return os.path.normpath(self._directory / Path(path).expanduser())


def _copied(stream: IO[bytes]) -> IO[bytes]:
    copy = TemporaryFile()  # noqa: SIM115 - closed with the task file
    with stream:
        copyfileobj(stream, copy)
    copy.seek(0)
    return copy


def _and_line(before: Text, line: Text) -> Text:
    return Text("batch.and_line", before=before, line=line)


def read_matrix(words: Sequence[str]) -> dict[str, list[str]]:
    """`model=a,b mode=plan,yolo`. Raises `BatchError`."""
    matrix: dict[str, list[str]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or name not in MATRIX_FIELDS:
            raise BatchError("batch.matrix", word=word, names=", ".join(MATRIX_FIELDS))
        chosen = list(dict.fromkeys(value for value in values.split(",") if value))
        if not chosen or name in matrix:
            raise BatchError("batch.matrix", word=word, names=", ".join(MATRIX_FIELDS))
        for value in chosen:
            _with_values(Task(id="x", prompt="x"), {name: value})
        matrix[name] = chosen
    return matrix


def check_task(task: Task, environ: Mapping[str, str]) -> None:
    """Raises `BatchError` for what the types cannot tell."""
    if not _ID.fullmatch(task.id) or task.id.lower() in RESERVED:
        raise BatchError("batch.bad_id", id=task.id)
    if not task.prompt.strip():
        raise BatchError("batch.no_prompt")
    for name in ("cwd", "repo", "ref", "setup", "check", "model", "mode"):
        if "\0" in getattr(task, name):
            raise BatchError("batch.wrong_value", why=f"a NUL character - at `$.{name}`")
    if bool(task.cwd) == bool(task.repo):
        raise BatchError("batch.cwd_or_repo")
    if task.source.startswith("-") or task.ref.startswith("-"):
        raise BatchError("batch.looks_like_option", value=task.ref if task.ref[:1] == "-" else task.source)
    _check_mode(task.mode)
    for name in task.env:
        if not _VARIABLE.fullmatch(name):
            raise BatchError("batch.bad_variable", name=name)
        if name in _OF_GIT or name.startswith("GIT_CONFIG"):
            raise BatchError("batch.git_variable", name=name)
        if name not in environ:
            raise BatchError("batch.no_variable", name=name)


def _check_mode(mode: str) -> None:
    if mode and not mode.startswith("/") and mode not in OPERATING_MODES:
        raise BatchError("batch.mode", name=mode, modes=", ".join(OPERATING_MODES))


def is_url(source: str) -> bool:
    return bool(_URL.match(source))


def _is_path(source: str) -> bool:
    return not is_url(source)


def _decoded(line: bytes) -> Task:
    try:
        return _DECODER.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        raise BatchError(_validation(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BatchError("batch.not_json", why=str(error)) from None


_DECODER = msgspec.json.Decoder(Task)


def _validation(message: str) -> Text:
    fields = [field.name for field in msgspec.structs.fields(Task)]
    if found := re.search(r"unknown field `(.*)`", message):
        near = get_close_matches(found[1], fields, n=1)
        return Text("batch.unknown_field", name=found[1], names=", ".join(near or fields))
    if found := re.search(r"missing required field `(.*)`", message):
        return Text("batch.missing_field", name=found[1])
    return Text("batch.wrong_value", why=message)


def _with_values(task: Task, values: Mapping[str, str]) -> Task:
    try:
        made = msgspec.convert({**msgspec.to_builtins(task), **values}, Task, strict=False)
    except msgspec.ValidationError as error:
        raise BatchError(_validation(str(error))) from None
    _check_mode(made.mode)
    return made


def _folder_names(values: Sequence[str]) -> dict[str, str]:
    """How values of a matrix are told in ids. Those that would look alike have a number of their own, which
    depends on nothing else."""
    names = {value: _SLUG.sub("-", value) for value in values}
    counted = Counter(name.lower() for name in names.values())
    return {
        value: f"{name}-{crc32(os.fsencode(value)):08x}" if counted[name.lower()] > 1 else name
        for value, name in names.items()
    }
