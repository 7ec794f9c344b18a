"""Undo of what commands did: what it covers, what it leaves alone, and what it says it could not keep."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shop import Shop

from coder.base.files import replace_file
from coder.history.tree.scan import TreeLimits
from coder.history.undo.journal import UNUSED_SECONDS, UndoJournal
from coder.history.undo.plan import three_way
from coder.history.undo.shell_changes import ShellChanges


@pytest.fixture(params=["watched", "walked"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Both ways of learning what changed: told by the kernel, and by walking where it does not tell."""
    if request.param == "walked":
        monkeypatch.setattr("coder.history.tree.index.InotifyWatch._open", lambda self: False)
    found = Shop(tmp_path)
    yield found
    found.shell.close()


def test_a_command_that_changes_nothing_leaves_nothing_to_undo(shop: Shop) -> None:
    shop.put("a", "1\n")
    assert shop.run("cat a; touch a") == ShellChanges()
    assert shop.journal.undo().turn == 0


def test_what_a_person_did_before_the_command_is_not_the_command_s(shop: Shop) -> None:
    shop.put("a", "1\n")
    shop.run("echo x > b")
    shop.put("a", "mine\n")
    shop.put("new", "mine too\n")
    assert shop.names(shop.run("echo y > c").changed) == ["c"]
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "mine\n"
    assert (shop.root / "new").exists()
    assert not (shop.root / "b").exists()


def test_it_works_from_one_process_to_the_next(shop: Shop) -> None:
    shop.put("a", "1\n")
    shop.run("true")
    shop.again()
    shop.put("a", "2\n")  # while nobody looked
    assert shop.names(shop.run("echo 3 > a").changed) == ["a"]
    shop.again()
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "2\n"


def test_a_file_rewritten_within_the_clock_s_tick_is_noticed(shop: Shop) -> None:
    """Same size, same moment: only the content tells."""
    path = shop.put("a", "1\n")
    for text in ("2\n", "3\n", "4\n"):
        changes = shop.run(f"printf '{text[0]}\\n' > a")
        assert shop.names(changes.changed) == ["a"]
        assert path.read_text() == text
    shop.journal.undo()
    assert path.read_text() == "1\n"


def test_ignored_files_are_left_alone_unless_a_tool_wrote_them(shop: Shop) -> None:
    shop.put(".gitignore", "build/\n*.log\n")
    shop.put("build/out", "old\n")
    tool_written = shop.root / "tool.log"
    shop.journal.before_change(tool_written, b"by a tool\n")
    tool_written.write_bytes(b"by a tool\n")
    shop.journal.begin_turn(2)
    changes = shop.run("echo new > build/out; echo x > other.log; echo y >> tool.log; echo z > kept")
    assert shop.names(changes.changed) == ["kept", "tool.log"]
    shop.journal.undo()
    assert (shop.root / "build/out").read_text() == "new\n"
    assert tool_written.read_text() == "by a tool\n"


@pytest.mark.parametrize("line", ["rm .gitignore", "echo > .gitignore", "mv .gitignore x"])
def test_what_is_ignored_no_more_is_not_taken_for_new(shop: Shop, line: str) -> None:
    """Else undo would delete a build that was there all along."""
    shop.put(".gitignore", "build/\n")
    shop.put("build/precious", "old\n")
    shop.run("true")
    shop.run(line)
    shop.journal.undo()
    assert (shop.root / "build/precious").read_text() == "old\n"
    assert (shop.root / ".gitignore").read_text() == "build/\n"


def test_new_rules_hold_for_what_the_same_command_makes(shop: Shop) -> None:
    changes = shop.run("mkdir -p node_modules/x; echo 1 > node_modules/x/y; echo node_modules/ > .gitignore")
    assert shop.names(changes.changed) == [".gitignore"]


def test_git_s_own_directory_is_not_touched_but_told_of(shop: Shop) -> None:
    shop.put(".git/HEAD", "ref: refs/heads/main\n")
    changes = shop.run("echo x > .git/HEAD; echo y > a")
    assert shop.names(changes.changed) == ["a"]
    assert changes.git
    shop.journal.undo()
    assert (shop.root / ".git/HEAD").read_text() == "x\n"
    assert not shop.run("echo z > b").git


def test_coder_s_own_record_is_not_undone(shop: Shop) -> None:
    shop.put(".coder/history/s.jsonl", "one\n")
    assert shop.run("echo two >> .coder/history/s.jsonl").changed == []


def test_hard_links_within_and_outside(shop: Shop) -> None:
    shop.put("a", "1\n")
    outside = shop.root.parent / "outside"
    os.link(shop.root / "a", outside)
    changes = shop.run("echo 2 >> ../outside")
    assert shop.names(changes.changed) == ["a"]
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "1\n"


def test_what_was_left_out_and_is_gone_is_named(shop: Shop) -> None:
    shop.put(".gitignore", ".env\n")
    shop.put(".env", "secret\n")
    shop.put("inner/.git/HEAD", "ref: refs/heads/main\n")
    kept = shop.put("inner/a", "1\n")
    shop.run("true")
    changes = shop.run("rm -r inner .env")
    assert shop.names(changes.uncovered) == [".env", "inner/.git"]
    assert shop.names(shop.journal.undo().uncovered) == [".env", "inner/.git"]
    assert kept.read_text() == "1\n"
    assert shop.run("mkdir -p new/.git; echo x > .env") == ShellChanges([str(shop.root / "new")])


def test_a_file_written_by_way_of_a_link_that_is_gone(shop: Shop) -> None:
    """Nobody is told of such a write: neither the name it has left nor its count of links say so."""
    file = shop.put("a", "1\n")
    shop.put(".gitignore", "built\n")
    shop.run("true")
    shop.run("ln a b; echo 2 >> b; rm b")
    shop.run("mkdir built; ln a built/a; echo 3 >> built/a")
    assert file.read_text() == "1\n2\n3\n"
    shop.journal.undo()
    assert file.read_text() == "1\n"


def test_names_that_are_no_text(shop: Shop) -> None:
    name = os.fsdecode(b"caf\xe9 \n.txt")
    shop.put(name, "1\n")
    shop.run('for f in caf*; do echo 2 > "$f"; done')
    shop.journal.undo()
    assert (shop.root / name).read_text() == "1\n"


def test_what_is_too_large_is_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path, TreeLimits(file_bytes=100))
    shop.put("large", b"x" * 200)
    shop.put("small", b"y")
    changes = shop.run("echo more >> large; rm small; head -c 300 /dev/zero > made")
    assert shop.names(changes.uncovered) == ["large"]
    outcome = shop.journal.undo()
    assert shop.names(outcome.uncovered) == ["large"]
    assert (shop.root / "small").read_bytes() == b"y"
    assert not (shop.root / "made").exists()
    shop.shell.close()


def test_more_files_than_the_limit_is_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path, TreeLimits(entries=5))
    for number in range(10):
        shop.put(f"f{number}", "x")
    assert shop.run("echo y > f0").partial
    shop.shell.close()


def test_contents_beyond_the_bound_are_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path, TreeLimits(total_bytes=1000))
    for number in range(4):
        shop.put(f"f{number}", os.urandom(400))
    changes = shop.run("rm f*")
    assert len(changes.uncovered) == 2
    assert len(changes.changed) == 2
    shop.shell.close()


def test_lost_contents_are_read_again(shop: Shop) -> None:
    """The store is a cache: it may be deleted between two runs."""
    shop.put("a", "1\n")
    shop.run("true")
    shop.shell.close()
    for pack in (shop.home / "trees").rglob("*.pack"):
        pack.unlink()
    shop.again()
    shop.run("echo 2 > a")
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "1\n"


def test_many_sessions_after_it_take_nothing_from_one_that_goes_on(shop: Shop) -> None:
    """Each keeps contents of its own; what the first needs stays, as long as it is there."""
    for name in ("a", "b"):
        shop.put(name, "1\n")
    shop.run("true")
    for number in range(12):
        passing = Shop(shop.root.parent, session=f"passing-{number}")
        passing.run(f"echo {number} > passing")
        passing.shell.close()
    shop.run("echo 2 > a")
    for pack in (shop.home / "trees").rglob("*.pack"):
        pack.unlink()
    assert shop.run("echo 2 > b").uncovered == []
    shop.journal.undo()
    assert shop.held() == {"a": "1\n", "b": "1\n", "passing": "11\n"}


def test_packs_are_few_when_nobody_else_is_there(shop: Shop) -> None:
    for number in range(12):
        shop.put("a", f"{number}\n")
        shop.run(f"echo {number} > b")
        shop.again()
    assert len(list((shop.home / "trees").rglob("*.pack"))) <= 9


def test_nothing_is_kept_in_the_workspace_and_only_for_oneself(shop: Shop) -> None:
    shop.put("a", "1\n")
    shop.run("echo 2 > a")
    shop.again()
    assert [path.name for path in shop.root.iterdir()] == ["a"]
    kept = [
        p for directory in (shop.home, shop.journal.directory) for p in directory.rglob("*") if p.is_file()
    ]
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_what_nobody_has_used_for_a_month_is_forgotten(shop: Shop) -> None:
    """But not what a forced undo set aside of a person's own text, nor what is in use."""
    undo, trees = shop.journal.directory.parent / "undo-all", shop.home / "trees"
    shop.journal = shop.shell.journal = UndoJournal(undo / "this")
    shop.journal.begin_turn(1)
    for directory in (undo / "old", undo / "new", trees / "old", trees / "new"):
        for part in ("objects", "kept"):
            (directory / part).mkdir(parents=True)
            (directory / part / "blob").write_bytes(b"x")
        (directory / "turn-000001.jsonl").write_bytes(b"")
        month = time.time() - UNUSED_SECONDS + (60 if directory.name == "new" else -60)
        os.utime(directory, (month, month))
    shop.put("a", "1\n")
    shop.run("echo 2 > a")
    for place in (undo, trees):
        assert [p.relative_to(place / "old").as_posix() for p in (place / "old").rglob("*")] == [
            "kept",
            "kept/blob",
        ]
        assert len(list((place / "new").rglob("*"))) == 5
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "1\n"


# several at once


def test_commands_that_run_beside_each_other_are_both_covered(shop: Shop) -> None:
    """Subagents: the second begins while the first has done half of its work."""
    shop.put("a", "1\n")
    shop.put("b", "1\n")
    shop.shell.before("first")
    shop.put("a", "2\n")
    shop.shell.before("second")
    shop.put("b", "2\n")
    shop.shell.after()
    shop.put("made", "3\n")
    shop.shell.after()
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "1\n"
    assert (shop.root / "b").read_text() == "1\n"
    assert not (shop.root / "made").exists()


def test_a_command_that_never_ran_claims_nothing(shop: Shop) -> None:
    shop.put("a", "1\n")
    shop.shell.before("cancelled before it began")
    shop.shell.not_run()
    shop.put("a", "by hand\n")
    assert shop.names(shop.run("echo x > b").changed) == ["b"]
    shop.journal.undo()
    assert (shop.root / "a").read_text() == "by hand\n"


def test_what_another_session_s_tool_writes_meanwhile_is_not_the_command_s(shop: Shop) -> None:
    path = shop.put("theirs", "1\n")
    other = UndoJournal(shop.journal.directory.parent / "undo-of-another")
    other.begin_turn(1)
    shop.shell.before("sleep")
    other.before_change(path, b"2\n")
    path.write_bytes(b"2\n")
    shop.put("ours", "x\n")
    assert shop.names(shop.shell.after().changed) == ["ours"]
    shop.journal.undo()
    assert path.read_text() == "2\n"
    assert not (shop.root / "ours").exists()
    other.undo()
    assert path.read_text() == "1\n"


def test_a_later_edit_of_another_session_is_merged_around_or_refused(shop: Shop) -> None:
    path = shop.put("a", "one\ntwo\nthree\nfour\nfive\n")
    shop.run("sed -i s/two/TWO/ a")
    other = UndoJournal(shop.journal.directory.parent / "undo-of-another")
    for turn, new in enumerate(["one\nTWO\nthree\nfour\nFIVE\n", "one\nTwo\nthree\nfour\nFIVE\n"], 1):
        other.begin_turn(turn)
        other.before_change(path, new.encode())
        path.write_text(new, encoding="utf-8")
    assert shop.names(shop.journal.undo().conflicts) == ["a"]
    assert other.undo().restored  # the other one takes its overlapping edit back; then ours comes out
    assert shop.names(shop.journal.undo().merged) == ["a"]
    assert path.read_text() == "one\ntwo\nthree\nfour\nFIVE\n"


def test_an_undo_that_was_cut_off_is_completed_and_can_be_done_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        shop.put(name, "1\n")
    shop.run("echo 2 > a; echo 2 > b; echo 2 > c")
    whole = shop.root / "b"

    def full(path: Path, data: bytes, mode: int | None = None) -> None:
        if path == whole:
            raise OSError(28, "No space left on device", str(path))
        replace_file(path, data, mode)

    with monkeypatch.context() as patch:
        patch.setattr("coder.history.undo.apply_steps.replace_file", full)
        with pytest.raises(OSError, match="No space left"):
            shop.journal.undo()
    again = UndoJournal(shop.journal.directory)
    assert [(shop.root / name).read_text() for name in "abc"] == ["1\n", "2\n", "2\n"]
    assert again.undo().turn == 1
    assert [(shop.root / name).read_text() for name in "abc"] == ["1\n"] * 3
    assert again.redo().turn == 1
    assert [(shop.root / name).read_text() for name in "abc"] == ["2\n"] * 3


def test_a_directory_with_something_of_a_person_s_in_it_stays_and_is_named(shop: Shop) -> None:
    shop.run("mkdir made; echo x > made/file")
    shop.put("made/mine", "by hand\n")
    previewed = shop.journal.preview()
    outcome = shop.journal.undo()
    assert previewed == [outcome]
    assert shop.names(outcome.kept) == ["made"]
    assert shop.names(outcome.removed) == ["made/file"]
    assert [p.name for p in (shop.root / "made").iterdir()] == ["mine"]


def test_a_directory_that_has_to_be_made_for_it_goes_with_the_redo(shop: Shop) -> None:
    shop.put("d/e/f", "1\n")
    shop.run("rm -r d/e")
    (shop.root / "d").rmdir()
    previewed = shop.journal.preview()
    outcome = shop.journal.undo()
    assert previewed == [outcome]
    assert shop.names(outcome.restored) == ["d/e", "d/e/f", "d"]
    assert shop.held() == {"d/e/f": "1\n"}
    shop.journal.redo()
    assert list(shop.root.iterdir()) == []


# a person's change since


def test_a_change_elsewhere_in_the_file_is_merged(shop: Shop) -> None:
    path = shop.put("a", "one\ntwo\nthree\nfour\nfive\n")
    shop.run("sed -i s/two/TWO/ a")
    path.write_text("one\nTWO\nthree\nfour\nFIVE by hand\n", encoding="utf-8")
    preview = shop.journal.preview()
    assert shop.names(preview[0].merged) == ["a"]
    outcome = shop.journal.undo()
    assert shop.names(outcome.merged) == ["a"]
    assert path.read_text() == "one\ntwo\nthree\nfour\nFIVE by hand\n"
    shop.journal.redo()
    assert path.read_text() == "one\nTWO\nthree\nfour\nFIVE by hand\n"


def test_a_change_of_the_same_lines_is_refused_and_nothing_done(shop: Shop) -> None:
    path = shop.put("a", "one\ntwo\n")
    shop.run("sed -i s/two/TWO/ a; echo x > b")
    path.write_text("one\nTWO by hand\n", encoding="utf-8")
    assert shop.names(shop.journal.preview()[0].conflicts) == ["a"]
    assert shop.names(shop.journal.undo().conflicts) == ["a"]
    assert path.read_text() == "one\nTWO by hand\n"
    assert (shop.root / "b").exists()


def test_a_person_s_edit_between_two_commands_of_a_turn_survives(shop: Shop) -> None:
    path = shop.put("a", "".join(f"{n}\n" for n in range(20)))
    shop.run("sed -i s/^1$/ONE/ a")
    path.write_text(path.read_text().replace("10\n", "TEN by hand\n"), encoding="utf-8")
    shop.run("sed -i s/^18$/EIGHTEEN/ a")
    shop.journal.undo()
    assert path.read_text() == "".join(f"{n}\n" for n in range(20)).replace("10\n", "TEN by hand\n")


def test_a_link_put_in_the_way_is_not_written_through(shop: Shop) -> None:
    shop.put("d/a", "1\n")
    shop.run("echo 2 > d/a")
    elsewhere = shop.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_text("2\n", encoding="utf-8")
    (shop.root / "d" / "a").unlink()
    (shop.root / "d").rmdir()
    (shop.root / "d").symlink_to(elsewhere)
    for force in (False, True):
        shop.journal.undo(force=force)
        assert (elsewhere / "a").read_text() == "2\n"


def test_a_new_turn_ends_redo(shop: Shop) -> None:
    shop.run("echo 1 > a")
    shop.journal.undo()
    shop.journal.begin_turn(2)
    shop.run("echo 2 > b")
    assert shop.journal.redo().turn == 0
    assert not (shop.root / "a").exists()


def test_several_turns_at_once_stop_at_a_conflict(shop: Shop) -> None:
    for turn, line in enumerate(["echo 1 > a", "echo 2 > b", "echo 3 > c"], 1):
        shop.journal.begin_turn(turn)
        shop.run(line)
    shop.put("b", "by hand\n")
    previewed = shop.journal.preview(3)
    outcomes = shop.journal.undo_turns(3)
    assert previewed == outcomes
    assert [(o.turn, bool(o.conflicts)) for o in outcomes] == [(3, False), (2, True)]
    assert (shop.root / "a").exists()


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        (b"a\nb\nc\nd\n", b"a\nB\nc\nd\n", b"a\nb\nc\nD\n", b"a\nB\nc\nD\n"),
        (b"a\nb\n", b"A\nb\n", b"A\nb\n", b"A\nb\n"),
        (b"a\nb\nc\n", b"x\na\nb\nc\n", b"a\nb\n", b"x\na\nb\n"),
        (b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\r\n", b"a\r\nb\r\nc", b"A\r\nb\r\nc"),
        (b"a\nb\n", b"A\nb\n", b"aa\nb\n", None),
        (b"a\nb\n", b"A\nb\n", b"a\nB\n", None),
        (b"a\0", b"b\0", b"c\0", None),
        (b"\xff\nb\nc\n", b"\xfe\nb\nc\n", b"\xff\nb\n", b"\xfe\nb\n"),
    ],
)
def test_three_way(base: bytes, ours: bytes, theirs: bytes, merged: bytes | None) -> None:
    assert three_way(base, ours, theirs) == merged
