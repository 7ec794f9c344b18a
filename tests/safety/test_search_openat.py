"""`grep` and `glob` tell nothing of what lies outside while somebody exchanges a directory for a link:
ripgrep opens by name and is led there; what it brings back is looked up again without following links."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swapping import DEADLINE, NoJournal, swapping

from coder.policy.workspace import DirectoryWorkspace
from coder.tools.glob import Glob
from coder.tools.grep import Grep
from coder.tools.search import ripgrep
from coder.tools.search.find import LineCheck, files_there
from coder.tools.tool import Limits, ToolContext, ToolResult


class Contested:
    """A workspace whose directory `a` is now a directory and now a link to a private one of the same make."""

    def __init__(self, base: Path) -> None:
        self.outside, self.root = base / "outside", base / "project"
        for directory, word in ((self.outside, "PRIVATE"), (self.root / "a", "public")):
            for name in ("", "deep", "deep/er"):
                (directory / name).mkdir(parents=True, exist_ok=True)
                (directory / name / "file.txt").write_text(f"{word} needle\n", encoding="utf-8")
                (directory / name / f"{word}.py").write_text("needle\n", encoding="utf-8")
        (self.root / "b").symlink_to(self.outside)
        self.context = ToolContext(
            DirectoryWorkspace(self.root), NoJournal(), Limits(), base / "outputs", dict(os.environ)
        )

    def call(self, tool: Any, **args: Any) -> ToolResult:
        result: ToolResult = asyncio.run(tool.run(args, self.context, lambda text: None))
        return result


@pytest.fixture
def contested(tmp_path: Path) -> Iterator[Contested]:
    place = Contested(tmp_path)
    with swapping(place.root / "a", place.root / "b"):
        yield place


def until(done: Callable[[], bool], attempt: Callable[[], None], rounds: int) -> None:
    """So many times, and on until it has been seen that ripgrep was led out."""
    at, end = 0, time.monotonic() + DEADLINE
    while (at < rounds or not done()) and time.monotonic() < end:
        attempt()
        at += 1
    assert done(), f"ripgrep was not led out in {at} rounds"
    assert at >= rounds


@pytest.mark.thorough
@pytest.mark.skipif(ripgrep.find_ripgrep(os.environ["PATH"], "/nonexistent") is None, reason="needs ripgrep")
def test_grep_and_glob_bring_nothing_from_outside(
    contested: Contested, monkeypatch: pytest.MonkeyPatch
) -> None:
    led_out = {"grep": 0, "glob": 0}
    inside = {"grep": 0, "glob": 0}
    holds = LineCheck.holds

    def told_line(self: LineCheck, path: str, offset: int, text: bytes) -> bool:
        led_out["grep"] += b"PRIVATE" in text or "PRIVATE" in path
        return holds(self, path, offset, text)

    def told_names(base: Path, names: list[str]) -> dict[str, int]:
        led_out["glob"] += any("PRIVATE" in name for name in names)
        return files_there(base, names)

    monkeypatch.setattr(LineCheck, "holds", told_line)
    monkeypatch.setattr("coder.tools.search.listing.files_there", told_names)

    def attempt() -> None:
        for tool, args in (
            (Grep(), {"pattern": "needle"}),
            (Glob(), {"pattern": "**/*.{py,txt}"}),
            (Glob(), {"pattern": "a/*"}),
        ):
            result = contested.call(tool, **args)
            said = result.for_model + result.summary + repr(result.meta) + result.around
            assert "PRIVATE" not in said
            assert result.meta["matches"] <= 6
            inside[tool.spec.name] += "public" in said

    until(lambda: all(led_out.values()), attempt, 40)
    assert all(inside.values()), inside


@pytest.mark.thorough
@pytest.mark.skipif(ripgrep.find_ripgrep(os.environ["PATH"], "/nonexistent") is None, reason="needs ripgrep")
def test_what_matches_outside_only_is_not_even_counted(
    contested: Contested, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a search would answer questions about it, one at a time."""
    led_out = {"PRIVATE needle": 0, "**/PRIVATE.py": 0}
    holds = LineCheck.holds

    def told_line(self: LineCheck, path: str, offset: int, text: bytes) -> bool:
        led_out["PRIVATE needle"] += 1
        return holds(self, path, offset, text)

    def told_names(base: Path, names: list[str]) -> dict[str, int]:
        led_out["**/PRIVATE.py"] += bool(names)
        return files_there(base, names)

    monkeypatch.setattr(LineCheck, "holds", told_line)
    monkeypatch.setattr("coder.tools.search.listing.files_there", told_names)

    def attempt() -> None:
        for tool in (Grep(), Glob()):
            pattern = "PRIVATE needle" if isinstance(tool, Grep) else "**/PRIVATE.py"
            result = contested.call(tool, pattern=pattern)
            assert result.for_model in (f"no matches for {pattern} in .", f"no files match {pattern} in .")
            assert result.meta["matches"] == 0
            assert not result.meta["truncated"]

    until(lambda: all(led_out.values()), attempt, 40)


@pytest.mark.thorough
def test_looking_up_thousands_of_times(contested: Contested) -> None:
    """The proof itself: what it says yes to is in the project."""
    yes = no = 0
    for _ in range(3000):
        names = ["a/file.txt", "a/PRIVATE.py", "a/deep/er/PRIVATE.py", "a/public.py"]
        assert not [name for name in files_there(contested.root, names) if "PRIVATE" in name]
        with LineCheck(contested.root) as proof:
            assert not proof.holds("a/deep/file.txt", 0, b"PRIVATE needle")
            assert not proof.holds("a/file.txt", 0, b"PRIVATE needle")
            held = proof.holds("a/file.txt", 0, b"public needle")
        yes, no = yes + held, no + (not held)
    assert yes > 0
    assert no > 0


# without a race


@pytest.mark.parametrize(
    ("content", "pattern", "line"),
    [
        ("one\nfür needle\n".encode(), "needle", "2: für needle"),
        (b"\xef\xbb\xbfneedle with a mark\n", "needle", "1: needle with a mark"),
        ("one\nwide für needle\n".encode("utf-16"), "needle", "2: wide für needle"),
        ("one\nwide needle\n".encode("utf-16-be").join([b"\xfe\xff", b""]), "needle", "2: wide needle"),
        (b"one\r\nneedle\r\n", "needle$", "2: needle"),
        (b"a\0 is binary\nneedle\n", "needle", ""),
        (b"f\xfcr needle\n", "needle", "1: f\\xfcr needle"),
        (b"x" * 300_000 + b"\nneedle far down\n", "needle", "2: needle far down"),
        (b"one\nneedle\ntwo\n", r"needle\ntwo", "3: two"),
        (b"needle without an end", "needle", "1: needle without an end"),
    ],
    ids=["utf8", "mark", "wide", "wide-be", "crlf", "binary", "latin1", "large", "lines", "no-end"],
)
def test_whatever_ripgrep_finds_in_the_project_is_told(
    tmp_path: Path, content: bytes, pattern: str, line: str
) -> None:
    place = Contested(tmp_path)
    (place.root / "c").mkdir()
    (place.root / "c" / "odd name.txt").write_bytes(content)
    told = place.call(Grep(), pattern=pattern, path="c").for_model
    assert (line in told.splitlines()) if line else told.startswith("no matches")


@pytest.mark.parametrize("count", [1, 3])
def test_a_long_line_is_told_by_its_beginning(tmp_path: Path, count: int) -> None:
    place = Contested(tmp_path)
    (place.root / "long.txt").write_text("needle " + "é" * 9000 + " needle" * (count - 1), encoding="utf-8")
    told = place.call(Grep(), pattern="needle", path="long.txt")
    assert told.meta["matches"] == 1
    assert "needle é" in told.for_model


def test_of_very_many_files_the_number_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder.tools.search.listing.MAX_DATED", 5)
    monkeypatch.setattr("coder.tools.search.listing.MAX_SHOWN", 2)
    place = Contested(tmp_path)
    told = place.call(Glob(), pattern="**/*").for_model
    assert told.splitlines() == [
        "a/deep/er/file.txt",
        "a/deep/er/public.py",
        "[more than 5 files match; the 2 first by path are shown; narrow the pattern to see others]",
    ]


def test_a_directory_that_is_gone_is_no_error(tmp_path: Path) -> None:
    place = Contested(tmp_path)
    names = ["a/file.txt", "gone/file.txt", "b/file.txt", "a/file.txt/below"]
    assert list(files_there(place.root, names)) == ["a/file.txt"]
    with LineCheck(place.root) as proof:
        for name in ("gone/file.txt", "gone/file.txt", "b/file.txt", "b/file.txt"):
            assert not proof.holds(name, 0, b"PRIVATE")
        assert proof.holds("a/deep/file.txt", 7, b"needle")
        assert proof.holds("a/deep/file.txt", 0, b"public")
        assert not proof.holds("a/deep/file.txt", 0, b"needle")
