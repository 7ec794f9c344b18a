"""Nothing outside is read or written while somebody exchanges a directory for a link, over and over."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swapping import DEADLINE, NoJournal, swapping

from coder.base.files import ChangedMeanwhile, exchange_file, replace_file
from coder.base.safe_open import (
    SymlinkRace,
    delete_directory,
    delete_file,
    open_beneath,
    open_file,
    parent_of,
    read_file,
    scan_directory,
    status_of,
)
from coder.context.attachments import expand
from coder.context.memory import Memory
from coder.context.prompt import project_instructions
from coder.extend.modes.discover import ModeRoots, discover, read_text
from coder.extend.modes.render import NotThere, Refused, reader
from coder.extend.skills import Skills
from coder.history.undo.journal import UndoJournal
from coder.policy.workspace import DirectoryWorkspace
from coder.tools.edit import Edit
from coder.tools.list import List
from coder.tools.patch import Patch
from coder.tools.read import Read
from coder.tools.save_memory import NotSaved
from coder.tools.tool import Limits, OutsideWorkspace, ToolContext, ToolResult
from coder.tools.write import Write


class Contested:
    """A workspace whose directory `a` is now a directory and now a link to a private one outside."""

    def __init__(self, base: Path) -> None:
        self.outside = base / "outside"
        self.root = base / "project"
        for directory, text in ((self.outside, "PRIVATE"), (self.root / "a", "public")):
            (directory / "deep").mkdir(parents=True)
            (directory / "skill").mkdir()
            for name in ("file.txt", "deep/file.txt", "AGENTS.md", "memory.md", "mode.md"):
                (directory / name).write_text(f"{text}\n", encoding="utf-8")
            skill = f"---\nname: skill\ndescription: {text}\n---\n{text}"
            (directory / "skill" / "SKILL.md").write_text(skill, encoding="utf-8")
        (self.root / "b").symlink_to(self.outside)
        self.workspace = DirectoryWorkspace(self.root)
        self.context = ToolContext(self.workspace, NoJournal(), Limits(), base / "outputs", {})
        self.untouched = self._outside()

    def _outside(self) -> dict[str, bytes | None]:
        found = self.outside.rglob("*")
        return {str(path): path.read_bytes() if path.is_file() else None for path in found}

    def check(self) -> None:
        assert self._outside() == self.untouched

    def careless(self) -> str:
        """What check-then-open would have read: the proof that the exchange does hit the gap."""
        try:
            return self.workspace.resolve("a/file.txt").read_text(encoding="utf-8")
        except (OutsideWorkspace, OSError):
            return ""


@pytest.fixture
def contested(tmp_path: Path) -> Iterator[Contested]:
    place = Contested(tmp_path)
    with swapping(place.root / "a", place.root / "b"):
        yield place
    place.check()


def until_it_was_close(place: Contested, attempt: Callable[[int], None], rounds: int) -> None:
    """So many times, and on until a careless reader would have been fooled."""
    fooled, at, end = 0, 0, time.monotonic() + DEADLINE
    while (at < rounds or not fooled) and time.monotonic() < end:
        fooled += place.careless() == "PRIVATE\n"
        attempt(at)
        at += 1
    assert fooled, f"the gap was never hit in {at} rounds"
    assert at >= rounds


async def _results(place: Contested, at: int) -> list[ToolResult]:
    def call(tool: Any, **args: Any) -> Awaitable[ToolResult]:
        result: Awaitable[ToolResult] = tool.run(args, place.context, lambda text: None)
        return result

    add = f"*** Begin Patch\n*** Add File: a/sub{at}/p.txt\n+mine\n*** End Patch"
    drop = f"*** Begin Patch\n*** Delete File: a/sub{at}/p.txt\n*** End Patch"
    return [
        await call(Read(), path="a/file.txt"),
        await call(Read(), path="a/deep/file.txt"),
        await call(List(), path="a"),
        await call(Edit(), path="a/deep/file.txt", old_string="public", new_string=f"public {at % 7} public"),
        await call(Write(), path=f"a/new{at % 5}/w.txt", content=f"mine {at}\n"),
        await call(Patch(), patch=add),
        await call(Patch(), patch=drop),
    ]


@pytest.mark.thorough
def test_the_file_tools(contested: Contested) -> None:
    done: dict[bool, int] = {True: 0, False: 0}

    def attempt(at: int) -> None:
        for result in asyncio.run(_results(contested, at)):
            done[result.ok] += 1
            assert "PRIVATE" not in result.for_model + result.detail + repr(result.meta)

    until_it_was_close(contested, attempt, 150)
    assert done[True] > 100, done
    assert done[False] > 100, done  # so links were met


@pytest.mark.thorough
def test_reading_and_writing_thousands_of_times(contested: Contested) -> None:
    place = contested
    target = place.root / "a" / "deep" / "mine.txt"
    made = place.root / "a" / "x" / "y" / "z.txt"
    refused = 0

    def tried(action: Callable[[], object]) -> None:
        nonlocal refused
        try:
            assert b"PRIVATE" not in (action() or b"")  # type: ignore[operator] # bytes, or nothing
        except (FileNotFoundError, ChangedMeanwhile):
            pass
        except SymlinkRace:
            refused += 1
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # what was refused to delete is still in the directory
                raise

    def attempt(at: int) -> None:
        data = b"%d" % at
        tried(lambda: read_file(place.root / "a" / "file.txt"))
        tried(lambda: replace_file(target, data))
        tried(lambda: exchange_file(target, data, data + b"."))
        tried(lambda: replace_file(made, data, 0o600))
        tried(lambda: delete_file(made))
        tried(lambda: delete_directory(made.parent))

    until_it_was_close(place, attempt, 1000)
    assert refused > 0


@pytest.mark.thorough
def test_what_a_message_or_the_project_names(contested: Contested) -> None:
    """`@file`, a mode's `@file`, memory, AGENTS.md, skills and mode files."""
    place = contested
    own = place.root / ".coder"
    (own / "skills").mkdir(parents=True)
    (own / "modes").mkdir()
    (place.root / "AGENTS.md").symlink_to("a/AGENTS.md")
    (own / "memory.md").symlink_to("../a/memory.md")
    (own / "skills" / "skill").symlink_to("../../a/skill")
    (own / "modes" / "mode.md").symlink_to("../../a/mode.md")
    home = place.root.parent / "home"
    skills, memory = Skills(place.root, home, None), Memory(place.root, home)
    where = ModeRoots(cwd=place.root, homes=[home, home])
    seen: set[str] = set()

    def attempt(at: int) -> None:
        texts = {
            "@file": expand("@a/file.txt @a/deep/", place.workspace)[0],
            "memory": memory.text(),
            "instructions": project_instructions(place.root, home),
            "skills": skills.listing()[0],
            "modes": repr([read_text(found.path, found.bound) for found in discover(where)]),
        }
        with contextlib.suppress(NotThere, Refused):
            texts["mode's @file"] = reader(place.workspace)("a/file.txt", 1000)
        with contextlib.suppress(NotSaved):
            memory.save(f"fact {at}")
        for name, text in texts.items():
            assert "PRIVATE" not in text, name
            seen.update({name} if "public" in text else ())

    until_it_was_close(place, attempt, 150)
    assert seen == {"@file", "memory", "instructions", "skills", "modes", "mode's @file"}


@pytest.mark.thorough
def test_undo_and_its_memory(contested: Contested, tmp_path: Path) -> None:
    """What undo keeps is of the project, and what it puts back goes there or nowhere."""
    place = contested
    path = place.root / "a" / "deep" / "file.txt"
    moved = 0

    def attempt(at: int) -> None:
        nonlocal moved
        journal = UndoJournal(tmp_path / f"undo{at}")
        journal.begin_turn(1)
        journal.before_change(path, b"changed\n")
        with contextlib.suppress(OSError, ChangedMeanwhile):
            exchange_file(path, b"public\n", b"changed\n")
        with contextlib.suppress(OSError):
            moved += bool(journal.undo(force=True).restored)
        kept = [file.read_bytes() for file in journal.directory.rglob("*") if file.is_file()]
        assert not [data for data in kept if b"PRIVATE" in data]
        with contextlib.suppress(OSError):
            replace_file(path, b"public\n")

    until_it_was_close(place, attempt, 200)
    assert moved > 0


# without a race


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    place = Contested(tmp_path)
    (place.root / "inner").symlink_to("a/deep")
    context = place.context

    async def run() -> list[ToolResult]:
        return [
            await Read().run({"path": "inner/file.txt"}, context, lambda text: None),
            await Edit().run(
                {"path": "inner/file.txt", "old_string": "public", "new_string": "changed"},
                context,
                lambda text: None,
            ),
        ]

    read, edited = asyncio.run(run())
    assert "public" in read.for_model
    assert edited.ok
    assert (place.root / "a/deep/file.txt").read_text(encoding="utf-8") == "changed\n"
    assert (place.root / "inner").is_symlink()


def test_a_link_is_not_opened_at_any_place(tmp_path: Path) -> None:
    place = Contested(tmp_path)
    link = place.root / "b"
    (place.root / "last").symlink_to("a/file.txt")
    for action in (
        lambda: read_file(link / "file.txt"),
        lambda: read_file(link / "deep" / "file.txt"),
        lambda: read_file(place.root / "last"),
        lambda: open_file(link / "new", os.O_WRONLY | os.O_CREAT),
        lambda: replace_file(link / "deep" / "new", b"x"),
        lambda: delete_file(link / "file.txt"),
        lambda: delete_directory(link / "deep"),
        lambda: status_of(link / "file.txt"),
        lambda: scan_directory(link).__enter__(),
        lambda: parent_of(link / "deep" / "made" / "x", make=True).__enter__(),
    ):
        with pytest.raises(SymlinkRace):
            action()
    with pytest.raises(PermissionError, match="leads out of the project"):
        open_beneath(link / "file.txt", place.root)
    place.check()


@pytest.mark.parametrize("path", ["relative", "a/../b/file.txt", "./x"])
def test_only_resolved_paths_are_taken(path: str) -> None:
    with pytest.raises(ValueError, match="not a resolved path"):
        read_file(Path(path))


def test_a_link_that_takes_a_files_place_is_a_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Contested(tmp_path)
    resolved = place.workspace.resolve("a/file.txt")
    # As if the directory were exchanged right after the path was resolved.
    (place.root / "a").rename(place.root / "aside")
    (place.root / "a").symlink_to(place.outside)
    monkeypatch.setattr(place.workspace, "resolve", lambda path, write=False: resolved)

    async def run() -> list[ToolResult]:
        return [
            await Read().run({"path": "a/file.txt"}, place.context, lambda text: None),
            await Write().run({"path": "a/file.txt", "content": "x"}, place.context, lambda text: None),
        ]

    for result in asyncio.run(run()):
        assert result.for_model == (
            "error: cannot read a/file.txt: a link took its place just now, and links are followed only "
            "inside the workspace; try again"
        )
    place.check()


def test_agents_md_and_memory_of_a_project_do_not_lead_out(tmp_path: Path) -> None:
    """No race is needed for these: a cloned project may come with such links."""
    place = Contested(tmp_path)
    (place.root / "AGENTS.md").symlink_to(place.outside / "file.txt")
    (place.root / ".coder").mkdir()
    (place.root / ".coder" / "memory.md").symlink_to(place.outside / "file.txt")
    home = tmp_path / "home"
    home.mkdir()
    assert project_instructions(place.root, home) == ""
    assert Memory(place.root, home).text() == ""
    # The person's own files may be links to anywhere.
    (home / "AGENTS.md").symlink_to(place.outside / "file.txt")
    (home / "memory.md").symlink_to(place.outside / "file.txt")
    assert "PRIVATE" in project_instructions(place.root, home)
    assert "PRIVATE" in Memory(place.root, home).text()


def test_agents_md_may_be_a_link_inside_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "CLAUDE.md").write_text("house rules", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "AGENTS.md").symlink_to("../CLAUDE.md")
    assert "house rules" in project_instructions(tmp_path / "sub", tmp_path / "home")


def test_without_proc_every_directory_is_opened_from_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder.base.safe_open._open_directory_at_once", lambda path, flags: None)
    place = Contested(tmp_path)
    replace_file(place.root / "made" / "on" / "the" / "way.txt", b"here")
    assert read_file(place.root / "made" / "on" / "the" / "way.txt") == b"here"
    with scan_directory(place.root / "a") as (found, _descriptor):
        assert "deep" in {entry.name for entry in found}
    with pytest.raises(SymlinkRace):
        read_file(place.root / "b" / "deep" / "file.txt")
    with pytest.raises(NotADirectoryError):
        read_file(place.root / "a" / "file.txt" / "below")
