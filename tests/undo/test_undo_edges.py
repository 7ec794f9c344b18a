"""Undo of commands at the edges: hard links in large trees, closed files, strange names, sizes and times,
repositories inside repositories. What cannot be covered is named."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shop import Shop

from coder.history.tree.scan import _FEW, TreeLimits
from coder.history.undo.journal import UndoJournal
from coder.history.undo.journal_files import JournalFiles
from coder.history.undo.shell_changes import ShellUndo

NOBODY = 65534


@pytest.fixture(params=["watched", "walked"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    if request.param == "walked":
        monkeypatch.setattr("coder.history.tree.index.InotifyWatch._open", lambda self: False)
    found = Shop(tmp_path)
    yield found
    found.shell.close()


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Shop]:
    """More files than are all asked about each time."""
    shop = Shop(tmp_path)
    for number in range(_FEW + 50):
        shop.put(f"many/{number}", "")
    shop.put("a", "1\n")
    shop.put(".gitignore", "built\n")
    shop.put("built/x", "")
    shop.run("true")
    yield shop
    shop.shell.close()


# hard links


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line",
    [
        "ln a b; echo 2 >> b; rm b",
        "ln a b; echo 2 >> b; mv b /dev/shm/coder-undo-$$ 2>/dev/null; rm -f b /dev/shm/coder-undo-$$",
        "ln a built/b; echo 2 >> built/b",
        "ln a ../b; echo 2 >> ../b; rm ../b",
        "cp -l a built/b; echo 2 >> built/b; rm built/b",
        'python3 -c \'import os; os.link("a", "../b"); open("../b", "a").write("2\\n")\'',
    ],
)
def test_a_write_by_way_of_a_further_name_in_a_large_tree(large: Shop, line: str) -> None:
    assert large.names(large.run(line).changed) == ["a"]
    assert (large.root / "a").read_text() == "1\n2\n"
    large.journal.undo()
    assert (large.root / "a").read_text() == "1\n"


@pytest.mark.thorough
def test_a_script_s_name_that_came_and_went_in_a_large_tree(large: Shop) -> None:
    """Nothing in the line says that there were links."""
    script = large.root.parent / "script"
    script.write_text("ln a b; echo 2 >> b; rm b\n", encoding="utf-8")
    assert large.names(large.run(f"sh {script}").changed) == ["a"]
    large.journal.undo()
    assert (large.root / "a").read_text() == "1\n"


@pytest.mark.thorough
def test_what_is_written_through_a_known_link_in_a_large_tree(large: Shop) -> None:
    large.run("ln a many/linked")
    large.journal.begin_turn(2)
    assert large.names(large.run("echo 2 >> many/linked").changed) == ["a", "many/linked"]
    large.journal.undo()
    assert [(large.root / name).read_text() for name in ("a", "many/linked")] == ["1\n", "1\n"]


# what .gitignore hides


def test_an_ignored_file_that_a_tool_wrote_and_a_command_changed_or_deleted(shop: Shop) -> None:
    shop.put(".gitignore", "build/\n*.log\n")
    shop.tool("x.log", "tool\n")
    (shop.root / "build").mkdir()
    shop.tool("build/out", "tool\n")
    shop.journal.begin_turn(2)
    changes = shop.run("echo 2 >> x.log; rm -r build")
    assert shop.names(changes.changed) == ["build/out", "x.log"]
    assert shop.names(changes.uncovered) == ["build"]
    shop.again()  # another process still knows which of them tools wrote
    shop.journal.undo()
    assert (shop.root / "x.log").read_text() == "tool\n"
    assert (shop.root / "build/out").read_text() == "tool\n"


@pytest.mark.parametrize("line", ["rm -r d", "mv d ../away", "rm d/x.log", "mv d/x.log ../away"])
def test_ignored_files_that_a_command_took_away_are_named(shop: Shop, line: str) -> None:
    shop.put(".gitignore", "*.log\n")
    shop.put("d/x.log", "precious\n")
    shop.put("d/a", "1\n")
    shop.run("true")
    assert shop.names(shop.run(line).uncovered) == ["d/x.log"]
    assert shop.names(shop.journal.undo().uncovered) == ["d/x.log"]
    assert (shop.root / "d/a").read_text() == "1\n"


# git


def git(directory: Path, *words: str) -> None:
    settings = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *settings, *words], cwd=directory, check=True, capture_output=True)


def repository(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q")
    (directory / "tracked").write_text("1\n", encoding="utf-8")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "one")


COMMIT = "git -c user.name=x -c user.email=x@y commit -qam two"


@pytest.mark.parametrize("kind", ["nested", "submodule"])
def test_a_repository_inside_the_workspace(shop: Shop, kind: str) -> None:
    """Its working tree is covered; its own state is not, which is said."""
    repository(shop.root)
    if kind == "nested":
        repository(shop.root / "inner")
    else:
        repository(shop.root.parent / "other")
        git(shop.root, "submodule", "add", "-q", str(shop.root.parent / "other"), "inner")
    inner = shop.root / "inner"
    shop.run("true")
    changes = shop.run(f"cd inner; echo 2 > tracked; echo x > new; {COMMIT}")
    assert shop.names(changes.changed) == ["inner/new", "inner/tracked"]
    assert changes.git
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=inner, capture_output=True, check=True).stdout
    shop.journal.undo()
    assert (inner / "tracked").read_text() == "1\n"
    assert not (inner / "new").exists()
    now = subprocess.run(["git", "rev-parse", "HEAD"], cwd=inner, capture_output=True, check=True).stdout
    assert now == head
    assert not shop.run("echo 3 > inner/tracked").git


@pytest.mark.parametrize("kind", ["subfolder", "worktree"])
def test_a_workspace_that_is_a_part_of_a_repository(shop: Shop, kind: str) -> None:
    """The rules further up hold, nothing up there is touched, and a commit is told of."""
    top = shop.root.parent / "top"
    repository(top)
    (top / ".gitignore").write_text("*.log\n", encoding="utf-8")
    root = top / "part"
    if kind == "worktree":
        root = shop.root.parent / "tree"
        git(top, "add", ".")
        git(top, "commit", "-qm", "ignore")
        git(top, "worktree", "add", "-q", str(root))
    root.mkdir(exist_ok=True)
    part = ShellUndo(root, shop.home, shop.journal)
    (root / "tracked").write_text("1\n", encoding="utf-8")
    git(root, "add", "-A")
    part.before("x")
    for name in ("tracked", "x.log"):
        (root / name).write_text("2\n", encoding="utf-8")
    subprocess.run(["/bin/sh", "-c", COMMIT], cwd=root, check=True)
    changes = part.after()
    part.close()
    assert changes.git
    assert changes.changed == [str(root / "tracked")]
    shop.journal.undo()
    assert (root / "tracked").read_text() == "1\n"
    assert (root / "x.log").read_text() == "2\n"


# closed to their owner


@contextmanager
def as_nobody() -> Iterator[Path]:
    """A directory of somebody's for whom permission bits count; root passes over them."""
    directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="undo-closed-")))
    root = os.geteuid() == 0
    try:
        if root:
            os.chown(directory, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield directory
    finally:
        if root:
            os.seteuid(0)
        for path in directory.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(directory)


def run_as_nobody(shop: Shop, line: str) -> list[str]:
    shop.shell.before(line)
    user = NOBODY if os.getuid() == 0 else None
    if user is not None:
        os.seteuid(0)
    try:
        subprocess.run(["/bin/sh", "-c", line], cwd=shop.root, check=True, user=user)
    finally:
        if user is not None:
            os.seteuid(NOBODY)
    changes = shop.shell.after()
    assert all(name == "d/in" for name in shop.names(changes.uncovered))
    return shop.names(changes.changed)


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("chmod 000 a", ["a"]),
        ("echo 2 >> b; chmod 000 a; chmod 200 b", ["a", "b"]),
        ("chmod 000 d", ["d"]),
        ("rm a; mkdir a; chmod 000 a", ["a"]),
    ],
)
def test_what_a_command_closed_is_opened_again(line: str, changed: list[str]) -> None:
    with as_nobody() as directory:
        shop = Shop(directory)
        shop.put("a", "1\n")
        shop.put("b", "1\n")
        shop.put("d/in", "1\n")
        for path in (shop.root, shop.root / "d"):
            path.chmod(0o755)
        bits = {name: stat.S_IMODE((shop.root / name).stat().st_mode) for name in ("a", "b", "d")}
        shop.run("true")
        assert run_as_nobody(shop, line) == changed
        (previewed,) = shop.journal.preview()
        outcome = shop.journal.undo()
        assert previewed == outcome
        assert outcome.conflicts == []
        for name in ("a", "b", "d"):
            assert stat.S_IMODE((shop.root / name).stat().st_mode) == bits[name]
        assert shop.held() == {"a": "1\n", "b": "1\n", "d/in": "1\n"}
        shop.shell.close()


def test_what_was_done_in_a_directory_that_was_then_closed_is_named_and_known_afterwards() -> None:
    with as_nobody() as directory:
        shop = Shop(directory)
        shop.put("d/in", "1\n")
        shop.root.chmod(0o755)
        shop.run("true")
        assert run_as_nobody(shop, "echo 2 > d/in; chmod 000 d") == ["d"]
        outcome = shop.journal.undo()
        assert shop.names(outcome.uncovered) == ["d/in"]
        assert (shop.root / "d/in").read_text() == "2\n"
        shop.journal.begin_turn(2)
        run_as_nobody(shop, "echo 3 > d/in")
        shop.journal.undo()
        assert (shop.root / "d/in").read_text() == "2\n"
        shop.shell.close()


# names, sizes, times


def test_a_directory_that_became_a_file_and_back(shop: Shop) -> None:
    shop.put("d/deep/a", "1\n")
    (shop.root / "d").chmod(0o711)
    shop.run("rm -r d; echo flat > d")
    shop.journal.begin_turn(2)
    shop.run("rm d; mkdir -p d/deep; echo 2 > d/deep/a; chmod 700 d")
    shop.journal.undo()
    assert (shop.root / "d").read_text() == "flat\n"
    shop.journal.undo()
    assert (shop.root / "d/deep/a").read_text() == "1\n"
    assert stat.S_IMODE((shop.root / "d").stat().st_mode) == 0o711
    shop.journal.redo_turns(2)
    assert (shop.root / "d/deep/a").read_text() == "2\n"


@pytest.mark.parametrize(
    "name",
    [b"new\nline", b"\xff\xfe", b" lead and trail ", b"-rf", b"tab\t\x1b[31m", b'"q\\uote', b"\xe4\xb8"],
)
def test_names_of_all_kinds(shop: Shop, name: bytes) -> None:
    path = shop.root / os.fsdecode(name)
    inside = shop.root / os.fsdecode(name + b".d") / os.fsdecode(name)
    inside.parent.mkdir()
    path.write_text("1\n", encoding="utf-8")
    inside.write_text("1\n", encoding="utf-8")
    shop.run('for f in ./*; do test -d "$f" || echo 2 > "$f"; done; rm -r ./*.d; echo x > made')
    assert path.read_text() == "2\n"
    assert UndoJournal(shop.journal.directory).undo().conflicts == []
    assert (path.read_text(), inside.read_text()) == ("1\n", "1\n")
    assert not (shop.root / "made").exists()


def test_empty_files_and_very_large_ones(shop: Shop) -> None:
    shop.put("empty", "")
    huge = shop.put("huge", "")
    os.truncate(huge, 200 << 20)  # with holes: it takes no room
    shop.run("true")
    changes = shop.run("echo x > empty; rm huge; : > new; truncate -s 200M new-huge")
    assert shop.names(changes.changed) == ["empty", "new"]
    assert shop.names(changes.uncovered) == ["huge", "new-huge"]
    outcome = shop.journal.undo()
    assert shop.names(outcome.uncovered) == ["huge", "new-huge"]
    assert (shop.root / "empty").read_bytes() == b""
    assert not (shop.root / "new").exists()
    assert (shop.root / "new-huge").exists()  # named, and left


def test_an_edit_of_the_same_size_that_puts_the_time_back(shop: Shop) -> None:
    path = shop.put("a", "1\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    wait_past(path)
    shop.run("true")
    assert shop.names(shop.run("cp -p a ../ref; echo 2 > a; touch -r ../ref a").changed) == ["a"]
    assert path.stat().st_mtime == 1_000_000_000
    shop.journal.undo()
    assert path.read_text() == "1\n"


def test_such_an_edit_between_two_processes(shop: Shop) -> None:
    path = shop.put("a", "1\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    wait_past(path)
    shop.run("true")
    shop.shell.close()
    path.write_text("2\n", encoding="utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    shop.again()
    shop.run("echo 3 > a")
    shop.journal.undo()
    assert path.read_text() == "2\n"


def wait_past(path: Path) -> None:
    """Until its change is so old that its times tell the next one."""
    while time.time_ns() - path.stat().st_ctime_ns < 120_000_000:
        time.sleep(0.01)


@pytest.mark.parametrize("hours", [-5, 5])
def test_the_clock_is_set(shop: Shop, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Between commands and within one, to and fro; nothing is overlooked and nothing of a tool's mistaken."""
    real = time.time_ns
    other = UndoJournal(shop.home / "undo" / "other")
    other.begin_turn(1)
    shop.put("a", "1\n")
    shop.put("theirs", "1\n")
    shop.run("true")
    monkeypatch.setattr(time, "time_ns", lambda: real() + hours * 3600 * 10**9)
    shop.run("echo 2 > a")
    assert (shop.root / "a").read_text() == "2\n"
    shop.shell.before("long")
    monkeypatch.setattr(time, "time_ns", real)
    other.before_change(shop.root / "theirs", b"2\n")
    shop.put("theirs", "2\n")
    shop.do("echo 3 > a")
    assert shop.names(shop.shell.after().changed) == ["a"]
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "1\n"
    assert (shop.root / "theirs").read_text() == "2\n"


# what cannot be taken back is named


def test_a_large_file_whose_time_was_put_back_is_named(shop: Shop) -> None:
    path = shop.put("large", b"1" * (TreeLimits().file_bytes + 1))
    shop.put("as", "")
    for name in ("large", "as"):
        os.utime(shop.root / name, (1_000_000_000, 1_000_000_000))
    wait_past(path)
    shop.run("true")
    changes = shop.run("printf 2 | dd of=large conv=notrunc status=none; touch -r as large")
    assert shop.names(changes.uncovered) == ["large"]
    assert shop.names(shop.journal.undo().uncovered) == ["large"]


def test_what_a_command_made_and_hid_at_once_is_named(shop: Shop) -> None:
    shop.put(".gitignore", "out/\n")
    shop.put("out/inner/file", "1\n")
    shop.run("true")
    changes = shop.run("printf '*.log\\nout/inner\\n' > .gitignore; echo x > new.log; echo x > new")
    assert shop.names(changes.uncovered) == ["new.log"]
    assert shop.names(shop.journal.undo().uncovered) == ["new.log"]


def test_what_is_made_where_once_everything_was_ignored(shop: Shop) -> None:
    shop.put(".gitignore", "out/\n")
    shop.put("out/old", "1\n")
    shop.run("rm .gitignore")
    shop.journal.begin_turn(2)
    assert shop.names(shop.run("echo 2 > out/old; echo x > out/new").changed) == ["out/new", "out/old"]
    assert shop.journal.undo().turn == 2
    assert shop.held() == {"out/old": "1\n"}


def test_a_file_too_large_to_look_at_stays_and_is_named_whatever_is_said(shop: Shop) -> None:
    shop.put("folder/file", "1\n")
    shop.run("echo x > made; echo 2 > folder/file")
    shop.do("rm -r folder")
    for name in ("made", "folder"):  # one is in the way of another
        shop.put(name, "")
        os.truncate(shop.root / name, 1 << 40)
    assert shop.names(shop.journal.undo().conflicts) == ["folder/file", "made"]
    outcome = shop.journal.undo(force=True)
    assert shop.names(outcome.kept) == ["folder/file", "made"]
    assert (outcome.restored, outcome.removed) == ([], [])
    assert (shop.root / "made").stat().st_size == 1 << 40


def test_a_directory_that_cannot_be_removed_is_not_told_as_removed() -> None:
    with as_nobody() as directory:
        shop = Shop(directory)
        shop.put("d/in", "1\n")
        shop.shell.before("mkdir")
        (shop.root / "d" / "made").mkdir()
        shop.shell.after()
        (shop.root / "d").chmod(0o500)
        with pytest.raises(PermissionError):
            shop.journal.undo()
        (shop.root / "d").chmod(0o700)
        assert shop.names(shop.journal.undo().removed) == ["d/made"]
        assert not (shop.root / "d" / "made").exists()
        shop.shell.close()


def test_what_is_closed_is_named_as_kept_also_when_forced() -> None:
    with as_nobody() as directory:
        shop = Shop(directory)
        shop.put("d/in", "1\n")
        shop.shell.before("echo")
        shop.put("d/in", "2\n")
        shop.put("made", "x\n")
        shop.shell.after()
        (shop.root / "d").chmod(0)
        outcome = shop.journal.undo(force=True)
        assert (shop.names(outcome.removed), shop.names(outcome.kept)) == (["made"], ["d/in"])
        shop.shell.close()


def test_one_file_for_which_there_is_no_room_does_not_take_the_others_with_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put("large", "1" * 1000)
    shop.put("small", "1\n")
    real = UndoJournal.keep

    def keep(self: UndoJournal, content: bytes, *, only_to_merge: bool = False) -> str:
        if len(content) > 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, content, only_to_merge=only_to_merge)

    monkeypatch.setattr(UndoJournal, "keep", keep)
    changes = shop.run("rm large; echo 2 > small")
    assert (shop.names(changes.changed), shop.names(changes.uncovered)) == (["small"], ["large"])
    assert shop.names(shop.journal.undo().restored) == ["small"]


def test_a_command_whose_changes_could_not_be_journalled_stays_known(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for command in ("echo 1 > a", "echo 2 > a"):
        with monkeypatch.context() as patched:
            patched.setattr(JournalFiles, "add_changes", full)
            with pytest.raises(OSError, match="No space"):
                shop.run(command)
        shop.run("true")
    assert shop.journal.cut_off() == [(1, "echo 1 > a"), (1, "echo 2 > a")]
