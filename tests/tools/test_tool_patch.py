"""`patch`: both formats, as diff tools and as models write them; all files or none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from world import World

from coder.base.diff import unified
from coder.tools.patch import Patch
from coder.tools.patching.formats import BadPatch, parse
from coder.tools.patching.plan import HunkFailed, apply_hunks
from coder.tools.read import Read
from coder.tools.text.file import load

FIVE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def applied(before: str | bytes, patch: str) -> bytes:
    data = before if isinstance(before, bytes) else before.encode()
    return apply_hunks(load(data), parse(patch)[0].hunks)


def test_git_diff_of_several_files(world: World) -> None:
    world.put("a.py", FIVE)
    world.put("gone.py", "x\n")
    world.put("old.py", FIVE)
    patch = """diff --git a/a.py b/a.py
index 111..222 100644
--- a/a.py
+++ b/a.py
@@ -1,4 +1,5 @@
 one
-two
+2
+2.5
 three
 four
diff --git a/new/b.py b/new/b.py
new file mode 100755
index 000..111
--- /dev/null
+++ b/new/b.py
@@ -0,0 +1,2 @@
+hello
+world
\\ No newline at end of file
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old.py b/moved/new.py
similarity index 90%
rename from old.py
rename to moved/new.py
--- a/old.py
+++ b/moved/new.py
@@ -5 +5 @@
-five
+5
diff --git a/empty.py b/empty.py
new file mode 100644
index 000..e69
"""
    result = world.call(Patch(), patch=patch)
    assert result.ok, result.for_model
    assert (world.root / "a.py").read_text(encoding="utf-8") == "one\n2\n2.5\nthree\nfour\nfive\n"
    assert (world.root / "new/b.py").read_bytes() == b"hello\nworld"
    assert (world.root / "new/b.py").stat().st_mode & 0o111
    assert not (world.root / "gone.py").exists()
    assert not (world.root / "old.py").exists()
    assert (world.root / "moved/new.py").read_text(encoding="utf-8") == FIVE.replace("five", "5")
    assert (world.root / "empty.py").read_bytes() == b""
    assert [(file["path"], file["operation"]) for file in result.meta["files"]] == [
        ("a.py", "updated"),
        ("new/b.py", "created"),
        ("gone.py", "deleted"),
        ("moved/new.py", "moved"),
        ("empty.py", "created"),
    ]
    assert result.meta["files"][0]["additions"] == 2
    assert (result.meta["additions"], result.meta["deletions"]) == (5, 3)
    assert result.meta["dry_run"] is False
    assert "+2.5" in result.meta["diff"]
    assert "rename to moved/new.py" in result.meta["diff"]
    assert {path.name for path, _, _ in world.journal.told} == {
        "a.py",
        "b.py",
        "gone.py",
        "old.py",
        "new.py",
        "empty.py",
    }
    world.journal.undo()
    assert (world.root / "old.py").read_text(encoding="utf-8") == FIVE


def test_envelope_with_all_its_parts(world: World) -> None:
    world.put(
        "a.py",
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n",
    )
    world.put("m.py", FIVE).chmod(0o755)
    world.put("d.py", "x\n")
    patch = envelope(
        "*** Update File: a.py",
        "@@ class B:",
        "@@     def f(self):",
        "-        return 1",
        "+        return 2",
        "*** Add File: n/new.py",
        "+first",
        "+",
        "+third",
        "*** Delete File: d.py",
        "*** Update File: m.py",
        "*** Move to: n/m.py",
        "@@",
        " four",
        "-five",
        "+5",
        "*** End of File",
    )
    result = world.call(Patch(), patch=patch)
    assert result.ok, result.for_model
    assert (
        (world.root / "a.py")
        .read_text(encoding="utf-8")
        .endswith("class B:\n    def f(self):\n        return 2\n")
    )
    assert (world.root / "a.py").read_text(encoding="utf-8").count("return 1") == 1
    assert (world.root / "n/new.py").read_bytes() == b"first\n\nthird\n"
    assert not (world.root / "d.py").exists()
    assert (world.root / "n/m.py").read_text(encoding="utf-8") == "one\ntwo\nthree\nfour\n5\n"
    assert (world.root / "n/m.py").stat().st_mode & 0o777 == 0o755
    assert "moved m.py to n/m.py (+1 -1)" in result.for_model


def test_all_files_or_none(world: World) -> None:
    first = world.put("a.py", FIVE)
    world.put("b.py", FIVE)
    patch = envelope(
        "*** Update File: a.py",
        "-two",
        "+2",
        "*** Update File: b.py",
        " one",
        "-zwei",
        "+2",
        " three",
        "*** Add File: c.py",
        "+x",
    )
    result = world.call(Patch(), patch=patch)
    assert not result.ok
    assert "b.py: hunk 1 fits nowhere; expected:\n\tone\n\tzwei" in result.for_model
    assert "the nearest text is:\n1\tone\n2\ttwo" in result.for_model
    assert first.read_text(encoding="utf-8") == FIVE
    assert not (world.root / "c.py").exists()
    assert world.journal.told == []


def test_dry_run_writes_nothing(world: World) -> None:
    path = world.put("a.py", FIVE)
    result = world.call(Patch(), patch=envelope("*** Update File: a.py", "-two", "+2"), dry_run=True)
    assert result.ok
    assert "nothing was written" in result.for_model
    assert "updated a.py (+1 -1)" in result.for_model
    assert result.meta["dry_run"] is True
    assert path.read_text(encoding="utf-8") == FIVE
    assert world.journal.told == []


def test_stale_and_denied_files_stop_the_whole_patch(world: World) -> None:
    path = world.put("a.py", FIVE)
    world.call(Read(), path="a.py")
    path.write_text("two\n" + FIVE, encoding="utf-8")
    both = ["*** Add File: b.py", "+x", "*** Update File: a.py", "-two", "+2"]
    assert "changed on disk" in world.call(Patch(), patch=envelope(*both)).for_model
    assert world.call(Patch(), patch=envelope(*both[:2], "*** Add File: ../c.py", "+x")).denied
    assert not (world.root / "b.py").exists()


def test_a_hunk_that_fits_exactly_is_applied_to_a_file_that_others_changed(world: World) -> None:
    path = world.put("a.py", FIVE)
    world.call(Read(), path="a.py")
    path.write_text(FIVE + "six\n", encoding="utf-8")
    result = world.call(Patch(), patch=envelope("*** Update File: a.py", " one", "-two", "+2"))
    assert result.for_model == (
        "updated a.py (+1 -1), line 2\n"
        "a.py: the file had changed since you read it (by a command, an undo or others); that is kept"
    )
    assert path.read_text(encoding="utf-8") == FIVE.replace("two", "2") + "six\n"
    path.write_text(FIVE, encoding="utf-8")
    loose = world.call(Patch(), patch=envelope("*** Update File: a.py", " uno", "-two", "+2"))
    assert "changed on disk" in loose.for_model
    assert path.read_text(encoding="utf-8") == FIVE


def test_context_that_is_not_in_the_file_is_told(world: World) -> None:
    path = world.put("a.py", FIVE)
    result = world.call(Patch(), patch=envelope("*** Update File: a.py", " uno", "-two", "+2", " three"))
    assert result.for_model == (
        "updated a.py (+1 -1), line 2\n"
        "a.py: hunk 1 applied without 1 context line that is not in the file there"
    )
    false = world.call(Patch(), patch=envelope("*** Update File: a.py", " no", "-three", "+3", " nor this"))
    assert false.for_model.endswith("hunk 1 applied without 2 context lines that are not in the file there")
    assert path.read_text(encoding="utf-8") == FIVE.replace("two", "2").replace("three", "3")


def test_removed_lines_that_occur_twice_need_one_true_line_of_context(world: World) -> None:
    path = world.put("a.py", "one\nx\ntwo\nx\n")
    hunk = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n {}\n-x\n+y\n nor this\n"
    refused = world.call(Patch(), patch=hunk.format("no"))
    assert "hunk 1 fits nowhere" in refused.for_model
    assert path.read_bytes() == b"one\nx\ntwo\nx\n"
    assert world.call(Patch(), patch=hunk.format("one")).ok
    assert path.read_bytes() == b"one\ny\ntwo\nx\n"


def test_clashes_are_refused(world: World) -> None:
    world.put("a.py", FIVE)
    missing = world.call(Patch(), patch=envelope("*** Update File: aa.py", "-two", "+2"))
    assert "did you mean a.py" in missing.for_model
    wrong = "--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    assert "has more lines" in world.call(Patch(), patch=wrong).for_model
    assert (world.root / "a.py").exists()


def test_two_sections_on_one_file_build_on_each_other(world: World) -> None:
    path = world.put("a.py", FIVE)
    patch = envelope("*** Update File: a.py", "-two", "+2", "*** Update File: a.py", " 2", "-three", "+3")
    result = world.call(Patch(), patch=patch)
    assert path.read_text(encoding="utf-8") == "one\n2\n3\nfour\nfive\n"
    assert len(result.meta["files"]) == 1


def test_hunk_elsewhere_than_stated() -> None:
    text = "".join(f"line {n}\n" for n in range(50))
    patch = "--- f\n+++ f\n@@ -3,3 +3,3 @@\n line 29\n-line 30\n+thirty\n line 31\n"
    assert applied(text, patch) == text.replace("line 30", "thirty").encode()


def test_nearest_of_equal_places_is_taken() -> None:
    text = "a\nx\nb\n" * 5
    patch = "--- f\n+++ f\n@@ -8 +8 @@\n-x\n+y\n"
    assert applied(text, patch).decode().split("\n").index("y") == 7


def test_place_without_line_number_must_be_unique() -> None:
    with pytest.raises(HunkFailed, match="fits at lines 1, 3"):
        applied("a\nb\na\n", envelope("*** Update File: f", "-a", "+c"))
    assert applied("a\nb\na\n", envelope("*** Update File: f", "@@ b", "-a", "+c")) == b"a\nb\nc\n"


def test_outer_context_may_differ() -> None:
    patch = "--- f\n+++ f\n@@ -1,5 +1,5 @@\n ONE\n two\n-three\n+3\n four\n FIVE\n"
    assert applied(FIVE, patch) == b"one\ntwo\n3\nfour\nfive\n"


def test_context_stays_the_files_own() -> None:
    text = "say “hi”  \n\told\nend\n"
    patch = '--- f\n+++ f\n@@ -1,3 +1,3 @@\n say "hi"\n-\told\n+\tnew\n end\n'
    assert applied(text, patch) == "say “hi”  \n\tnew\nend\n".encode()


def test_indentation_shift_is_applied_to_added_lines() -> None:
    text = "class A:\n    def f(self):\n        pass\n"
    patch = envelope("*** Update File: f", " def f(self):", "-    pass", "+    x = 1", "+    return x")
    assert applied(text, patch) == b"class A:\n    def f(self):\n        x = 1\n        return x\n"


@pytest.mark.parametrize(
    "patch",
    [
        "```diff\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```",
        "--- a/f\n+++ b/f\n@@\n one\n-two\n+2\n three\n",
        "--- a/f\n+++ b/f\n@@ ... @@\n one\n-two\n+2\n three\n",
        "--- a/f\n+++ b/f\n@@ -1,9 +1,7 @@ wrong counts\n one\n-two\n+2\n three\n",
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@ counts too small\n one\n-two\n+2\n three\n four\n",
        "--- f\t2024-01-01 00:00:00\n+++ f\t2024-01-01 00:00:01\n@@ -2 +2 @@\n-two\n+2\n",
        "--- a/f\r\n+++ b/f\r\n@@ -1,3 +1,3 @@\r\n one\r\n-two\r\n+2\r\n three\r\n",
        "Some words first.\n\n--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+2\n-- \n2.40.0\n",
        "*** Begin Patch\n*** Update File: f\n@@\n one\n-two\n+2\n three\n",
        "*** Update File: f\n-two\n+2\n",
        "```\n*** Begin Patch\n*** Update File: f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n*** End Patch\n```\n",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: f\n-two\n+2\n*** End Patch\nEOF\n",
    ],
)
def test_as_models_write_it(patch: str) -> None:
    assert parse(patch)[0].path == "f"
    assert applied(FIVE, patch) == FIVE.replace("two", "2").encode()


def test_blank_context_lines_without_their_space() -> None:
    text = "a\n\nb\n\nc\n"
    patch = "--- f\n+++ f\n@@ -1,5 +1,5 @@\n a\n\n-b\n+B\n\n c\n"
    assert applied(text, patch) == b"a\n\nB\n\nc\n"
    assert applied(text, envelope("*** Update File: f", " a", "", "-b", "+B", "", " c")) == b"a\n\nB\n\nc\n"


def test_line_endings_of_the_file_stay() -> None:
    crlf = FIVE.replace("\n", "\r\n").encode()
    patch = "--- f\n+++ f\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"
    expected = FIVE.replace("two", "2\n2.5").replace("\n", "\r\n").encode()
    assert applied(crlf, patch) == expected
    assert applied(crlf, patch.replace("\n", "\r\n")) == expected
    mixed = b"one\r\ntwo\nthree\r\nfour\n"
    assert applied(mixed, "--- f\n+++ f\n@@ -2 +2 @@\n-two\n+2\n") == b"one\r\n2\nthree\r\nfour\n"


def test_missing_final_newline_stays_or_changes_as_said() -> None:
    last = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert applied("a\nb", last) == b"a\nc"
    assert applied("a\nb\n", last) == b"a\nc\n"
    marker = "\\ No newline at end of file\n"
    assert applied("a\nb", f"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n{marker}+b\n") == b"a\nb\n"
    assert applied("a\nb\n", f"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n{marker}") == b"a\nb"


def test_quoted_names() -> None:
    old, new = '"a/caf\\303\\251.txt"', '"b/caf\\303\\251.txt"'
    patch = f"diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n"
    assert parse(patch)[0].path == "café.txt"


def test_mode_change_alone(world: World) -> None:
    path = world.put("run.sh", "x\n")
    path.chmod(0o640)
    result = world.call(Patch(), patch="diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n")
    assert result.ok, result.for_model
    assert path.stat().st_mode & 0o777 == 0o750


def test_diff_under_another_name_is_applied_to_the_file_that_is_there(world: World) -> None:
    path = world.put("a.py", FIVE)
    assert world.call(Patch(), patch="--- a.py\n+++ a.py.new\n@@ -2 +2 @@\n-two\n+2\n").ok
    assert path.read_text(encoding="utf-8") == FIVE.replace("two", "2")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("", "no file in the patch"),
        ("just some words", "no file in the patch"),
        ("@@ -1 +1 @@\n-a\n+b\n", "without a file name"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nnonsense here\n*rubbish\n", ""),
        ("*** Begin Patch\n*** Update File: f\nnonsense\n*** End Patch", "begins with none of"),
        ("*** Begin Patch\nnonsense\n*** End Patch", "under no file"),
        ("*** Begin Patch\n*** Update File: f\n*** End Patch", "no lines to change"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "binary"),
        ("diff --git a/l b/l\nnew file mode 120000\n", "symbolic link"),
    ],
)
def test_unreadable_patches_say_why(world: World, patch: str, words: str) -> None:
    result = world.call(Patch(), patch=patch)
    assert not result.ok
    assert words in result.for_model
    assert Patch().preview({"patch": patch}, world.context).kind == "text"
    Patch().argument({"patch": patch})


def test_argument_and_preview(world: World) -> None:
    world.put("a.py", FIVE)
    patch = envelope("*** Update File: a.py", "-two", "+2", "*** Add File: b.py", "+x")
    assert Patch().argument({"patch": patch}) == "a.py, b.py"
    preview = Patch().preview({"patch": patch}, world.context)
    assert preview.kind == "diff"
    assert "-two\n+2" in preview.subject
    assert (world.root / "a.py").read_text(encoding="utf-8") == FIVE


texts = st.one_of(
    st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "@@ z", " c", "\\ d", "*** e"]), max_size=14).map(
        "\n".join
    ),
    st.text("ab\n\f-+", max_size=30),
)


@settings(deadline=None)
@given(texts, texts, st.sampled_from(["\n", "\r\n"]), st.booleans())
@example("a", "a\n", "\n", False)
@example("a\nb", "a", "\n", False)
@example("", "a", "\r\n", True)
def test_the_diff_of_two_texts_leads_from_one_to_the_other(
    old: str, new: str, newline: str, carried: bool
) -> None:
    diff = unified(old, new, "a/f", "b/f")
    if not diff.lines:
        assert old == new
        return
    before, after = (text.replace("\n", newline).encode() for text in (old, new))
    patch = ("\r\n" if carried else "\n").join([*diff.lines, ""])
    if "\n" not in old:  # a file without a newline has no style of its own
        before, after = old.encode(), new.encode()
    assert applied(before, patch) == after


pieces = st.sampled_from(
    [
        "*** Begin Patch",
        "*** End Patch",
        "*** Update File: f",
        "*** Add File: g",
        "*** Move to: h",
        "*** End of File",
        "--- a/f",
        "+++ b/f",
        "+++ /dev/null",
        "diff --git a/f b/f",
        "rename from f",
        "@@ -1,2 +1,3 @@",
        "@@ -1 +0,0 @@",
        "@@",
        "@@ x",
        "\\ No newline at end of file",
        " one",
        "-one",
        "+two",
        "",
        "```",
        '--- "a\\',
        "@@ -99999999999999999999 +1 @@",
    ]
)


@settings(deadline=None)
@given(
    st.one_of(
        st.text(max_size=60), st.lists(st.one_of(pieces, st.text(max_size=5)), max_size=12).map("\n".join)
    )
)
def test_anything_is_parsed_or_refused(patch: str) -> None:
    try:
        files = parse(patch)
    except BadPatch:
        return
    for file in files:
        with contextlib.suppress(HunkFailed):
            apply_hunks(load(b"one\ntwo\n"), file.hunks)


def test_two_files_change_places(world: World) -> None:
    """By way of a third name; each is told, and takes its bits along."""
    world.put("a", "A\n").chmod(0o755)
    world.put("b", "B\n").chmod(0o600)

    def move(old: str, new: str, line: str) -> str:
        return f"*** Update File: {old}\n*** Move to: {new}\n@@\n-{line}\n+{line}{line}\n"

    steps = move("a", "t", "A") + move("b", "a", "B") + move("t", "b", "AA")
    result = world.call(Patch(), patch=f"*** Begin Patch\n{steps}*** End Patch\n")
    assert result.ok
    told = ["moved a to b (+1 -1), line 1", "moved b to a (+1 -1), line 1"]
    assert sorted(result.for_model.splitlines()) == told
    found = {name: (world.root / name).read_text(encoding="utf-8") for name in ("a", "b")}
    assert found == {"a": "BB\n", "b": "AAAA\n"}
    assert [(world.root / name).stat().st_mode & 0o777 for name in ("a", "b")] == [0o600, 0o755]
    assert not (world.root / "t").exists()
