"""`write`, and the machinery that it shares with edit and patch: staleness, undo, all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from world import World

from coder.base.files import exchange_file
from coder.tools import changes as changes_module
from coder.tools.changes import Change, apply, diff_bytes
from coder.tools.edit import Edit
from coder.tools.paths import Stop
from coder.tools.read import Read
from coder.tools.write import Write


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_creates_with_directories_and_tells_shortly(world: World) -> None:
    result = world.call(Write(), path="src/deep/a.py", content="one\ntwo\n")
    assert result.for_model == "created src/deep/a.py (+2 -0)"
    assert (world.root / "src/deep/a.py").read_bytes() == b"one\ntwo\n"
    assert result.meta["operation"] == "created"
    assert result.meta["additions"] == 2
    assert result.meta["deletions"] == 0
    assert result.meta["path"] == "src/deep/a.py"
    assert result.meta["diff"].startswith("--- /dev/null\n+++ b/src/deep/a.py\n@@ -0,0 +1,2 @@\n+one\n+two")
    assert result.detail == result.meta["diff"]
    assert result.detail_kind == "diff"


def test_updates_what_was_read(world: World) -> None:
    world.put("a.py", "one\ntwo\nthree\n")
    world.call(Read(), path="a.py")
    result = world.call(Write(), path="a.py", content="one\n2\nthree\n")
    assert result.for_model == "updated a.py (+1 -1), line 2"
    assert result.meta["operation"] == "updated"
    assert "-two\n+2" in result.meta["diff"]


def test_unchanged_writes_nothing(world: World) -> None:
    path = world.put("a.py", "one\r\n")
    world.call(Read(), path="a.py")
    before = path.stat()
    result = world.call(Write(), path="a.py", content="one\n")
    assert result.meta["operation"] == "unchanged"
    assert result.for_model == "unchanged a.py"
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert world.journal.told == []


def test_existing_file_must_be_read_first(world: World) -> None:
    path = world.put("a.py", "mine\n")
    result = world.call(Write(), path="a.py", content="theirs\n")
    assert not result.ok
    assert "Read it first" in result.for_model
    assert path.read_bytes() == b"mine\n"
    assert world.journal.told == []


def test_change_by_someone_else_is_not_overwritten(world: World) -> None:
    path = world.put("a.py", "one\n")
    world.call(Read(), path="a.py")
    path.write_bytes(b"two\n")
    result = world.call(Write(), path="a.py", content="three\n")
    assert "changed on disk" in result.for_model
    assert path.read_bytes() == b"two\n"
    world.call(Read(), path="a.py")
    assert world.call(Write(), path="a.py", content="three\n").ok


def test_a_file_of_which_only_a_part_was_read_is_not_replaced(world: World) -> None:
    path = world.put("a.py", "".join(f"line {n}\n" for n in range(1, 101)))
    world.call(Read(), path="a.py", limit=40)
    result = world.call(Write(), path="a.py", content="short\n")
    assert "you have not seen all of a.py (lines 41-100); nothing was written" in result.for_model
    assert result.summary == "was not read whole"
    world.call(Read(), path="a.py", offset=90)
    assert "lines 41-89" in world.call(Write(), path="a.py", content="short\n").for_model
    # An edit shows nothing more of the file.
    assert world.call(Edit(), path="a.py", old_string="line 7\n", new_string="line seven\n").ok
    assert not world.call(Write(), path="a.py", content="short\n").ok
    for offset in (1, 51):
        world.call(Read(), path="a.py", offset=offset, limit=50)
    assert world.call(Write(), path="a.py", content="short\n").ok
    assert path.read_bytes() == b"short\n"


def test_a_file_with_a_line_cut_short_was_not_read_whole(world: World) -> None:
    world.put("a.json", '{"a": "' + "x" * 5000 + '"}\n')
    world.call(Read(), path="a.json")
    assert (
        "you have not seen all of a.json (lines 1)"
        in world.call(Write(), path="a.json", content="{}").for_model
    )


def test_an_edit_keeps_what_was_seen_of_the_file(world: World) -> None:
    path = world.put("a.py", "".join(f"line {n}\n" for n in range(1, 101)))
    world.call(Read(), path="a.py", limit=40)
    world.call(Edit(), path="a.py", old_string="line 7\n", new_string="seven\nand more\n")
    world.call(Edit(), path="a.py", old_string="ne 90\n", new_string="ninety\n")
    said = world.call(Write(), path="a.py", content="short\n").for_model
    assert "you have not seen all of a.py (lines 42-101)" in said
    world.call(Read(), path="a.py", offset=42)
    path.write_bytes(path.read_bytes().replace(b"line 3\n", b"others\n"))
    world.call(Edit(), path="a.py", old_string="line 5\n", new_string="five\n")
    assert "(lines 3)" in world.call(Write(), path="a.py", content="short\n").for_model
    world.call(Read(), path="a.py", offset=3, limit=1)
    assert world.call(Write(), path="a.py", content="short\n").ok


def test_own_writes_are_known(world: World) -> None:
    world.call(Write(), path="a.py", content="one\n")
    assert world.call(Write(), path="a.py", content="two\n").ok


def test_a_touch_without_change_is_not_stale(world: World) -> None:
    path = world.put("a.py", "one\n")
    world.call(Read(), path="a.py")
    os.utime(path, ns=(1, 1))
    assert world.call(Write(), path="a.py", content="two\n").ok


def test_line_endings_encoding_bom_and_mode_stay(world: World) -> None:
    path = world.put("a.bat", b"\xef\xbb\xbfone\r\ntwo\r\n")
    path.chmod(0o755)
    world.call(Read(), path="a.bat")
    world.call(Write(), path="a.bat", content="one\n2\n")
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"
    assert path.stat().st_mode & 0o777 == 0o755


def test_undo_knows_before_the_write(world: World) -> None:
    path = world.put("a.py", "one\n")
    world.call(Read(), path="a.py")
    world.call(Write(), path="a.py", content="two\n")
    world.call(Write(), path="new.py", content="x")
    assert world.journal.told == [(path, b"two\n", None), (world.root / "new.py", b"x", None)]
    assert world.journal.held == {path: b"one\n", world.root / "new.py": None}


def test_a_link_is_written_through(world: World) -> None:
    target = world.put("real.py", "one\n")
    (world.root / "link.py").symlink_to("real.py")
    world.call(Read(), path="link.py")
    world.call(Write(), path="link.py", content="two\n")
    assert (world.root / "link.py").is_symlink()
    assert target.read_bytes() == b"two\n"


def test_a_link_out_of_the_workspace_is_denied(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (world.root / "way").symlink_to(outside)
    result = world.call(Write(), path="way/a", content="x")
    assert result.denied
    assert list(outside.iterdir()) == []
    assert "denied" in Write().preview({"path": "way/a", "content": "x"}, world.context).subject


def test_hard_links_are_cut_and_it_is_said(world: World) -> None:
    path = world.put("a.py", "one\n")
    os.link(path, world.root / "b.py")
    world.call(Read(), path="a.py")
    assert "hard links" in world.call(Write(), path="a.py", content="two\n").for_model
    assert (world.root / "b.py").read_bytes() == b"one\n"


def test_targets_that_are_no_files(world: World) -> None:
    (world.root / "dir").mkdir()
    os.mkfifo(world.root / "pipe")
    world.put("file", "x")
    assert "a folder" in world.call(Write(), path="dir", content="x").for_model
    assert "named pipe" in world.call(Write(), path="pipe", content="x").for_model
    assert "not a folder" in world.call(Write(), path="file/below", content="x").for_model


def test_half_a_character_is_refused(world: World) -> None:
    assert "half of a character" in world.call(Write(), path="a", content="x\ud83d").for_model
    assert not (world.root / "a").exists()


def test_full_disk_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.put("a.py", "one\n")
    world.call(Read(), path="a.py")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("coder.base.files.os.write", full)
    result = world.call(Write(), path="a.py", content="two\n")
    assert result.for_model == "error: cannot write a.py: no space left on the device; nothing was changed"
    assert world.call(Write(), path="new/b.py", content="two\n").for_model.endswith("nothing was changed")
    assert path.read_bytes() == b"one\n"
    assert world.leftovers() == []
    assert not (world.root / "new").exists()


def _mounted(directory: Path, *options: str) -> bool:
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        return False
    command = [mount, "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(directory)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_really_full_disk(world: World) -> None:
    disk = world.root / "disk"
    disk.mkdir()
    if not _mounted(disk, "size=64k"):
        pytest.skip("needs to mount a small file system")
    try:
        world.call(Write(), path="disk/a", content="one\n")
        result = world.call(Write(), path="disk/a", content="x" * 200_000)
        assert "no space left" in result.for_model
        assert (disk / "a").read_bytes() == b"one\n"
        assert world.leftovers() == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_read_only_directory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.put("a.py", "one\n")
    world.call(Read(), path="a.py")
    real = os.open

    def refuse(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr("coder.base.files.os.open", refuse)
    result = world.call(Write(), path="a.py", content="two\n")
    assert result.for_model == "error: cannot write a.py: the file system is read-only; nothing was changed"
    assert path.read_bytes() == b"one\n"


def test_all_or_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.put("first", "1")
    first.chmod(0o640)
    gone = world.put("gone", "g")
    real = exchange_file

    def failing(path: Path, before: bytes | None, after: bytes | None, mode: int | None = None) -> None:
        if path.name == "third":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, before, after, mode)

    monkeypatch.setattr(changes_module, "exchange_file", failing)
    wanted = [
        Change(first, b"1", b"changed"),
        Change(world.root / "made/new/second", None, b"2"),
        Change(gone, b"g", None),
        Change(world.root / "third", None, b"3"),
    ]
    with pytest.raises(Stop, match="third"):
        apply(wanted, world.context)
    assert first.read_bytes() == b"1"
    assert first.stat().st_mode & 0o777 == 0o640
    assert gone.read_bytes() == b"g"
    assert not (world.root / "made").exists()
    assert len(world.journal.told) == 4


def test_undo_that_cannot_remember_stops_the_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, after: bytes | None, mode: int | None = None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(world.journal, "before_change", refuse)
    assert "for undo" in world.call(Write(), path="a", content="x").for_model
    assert not (world.root / "a").exists()


def test_preview_shows_the_diff_and_changes_nothing(world: World) -> None:
    preview = Write().preview({"path": "new/a", "content": "x\n"}, world.context)
    assert preview.kind == "diff"
    assert "+x" in preview.subject
    assert not (world.root / "new").exists()


def test_long_diffs_are_cut_for_the_person_but_counted_whole(world: World) -> None:
    result = world.call(Write(), path="a", content="x\n" * 1000)
    assert result.meta["additions"] == 1000
    assert "603 more lines of diff" in result.detail
    assert result.meta["diff"].count("\n+x") == 1000


def test_diff_of_repeated_lines_does_not_take_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("difflib.SequenceMatcher", None)  # would take hours on these
    old, new = "a\nb\n" * 5_000, "x\n" + "b\na\n" * 5_000
    diff = diff_bytes(old.encode(), new.encode(), "f", "f")
    assert (diff.additions, diff.deletions) == (10_001, 10_000)


def test_binary_content_is_said_to_differ() -> None:
    assert diff_bytes(b"\0", b"\0\0", "f", "f").lines == ["Binary files a/f and b/f differ"]
