"""`patch` as models write it: padded, faulty in several places, over files that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import World

from coder.tools.patch import Patch
from coder.tools.read import Read

FIVE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def test_nothing_is_replaced_unseen(world: World) -> None:
    first, second = world.put("a.py", FIVE), world.put("b.py", "other\nlines\n")
    add = envelope("*** Add File: b.py", "+x")
    move = envelope("*** Update File: a.py", "*** Move to: b.py", "-two", "+2")
    for patch in (add, move):
        assert (
            "b.py exists and you have not read it; nothing was" in world.call(Patch(), patch=patch).for_model
        )
    world.call(Read(), path="b.py", limit=1)
    for patch in (add, move):
        assert "you have not seen all of b.py (lines 2)" in world.call(Patch(), patch=patch).for_model
    assert (first.read_bytes(), second.read_bytes()) == (FIVE.encode(), b"other\nlines\n")
    assert world.journal.told == []


def test_what_was_read_is_replaced(world: World) -> None:
    path = world.put("a.py", b"one\r\ntwo\r\n")
    world.call(Read(), path="a.py")
    result = world.call(Patch(), patch=envelope("*** Add File: a.py", "+drei", "+vier"))
    assert result.for_model == "updated a.py (+2 -2), line 1"
    assert path.read_bytes() == b"drei\r\nvier\r\n"
    source = world.put("b.py", FIVE)
    move = envelope("*** Update File: b.py", "*** Move to: a.py", "-two", "+2")
    shown = Patch().preview({"patch": move}, world.context).subject
    assert "\n-drei\n" in shown  # the person sees what goes
    moved = world.call(Patch(), patch=move)
    assert moved.for_model == "deleted b.py (+0 -5)\nupdated a.py (+5 -2), line 1"
    assert path.read_bytes() == FIVE.replace("two", "2").encode()
    assert not source.exists()
    world.journal.undo()
    assert (path.read_bytes(), source.read_bytes()) == (b"one\r\ntwo\r\n", FIVE.encode())


def test_all_faults_of_all_files_at_once(world: World) -> None:
    for name in ("a.py", "b.py", "d.py"):
        world.put(name, FIVE)
    world.put("bin", b"\0\1\2\3" * 20)
    patch = envelope(
        *("*** Update File: a.py", "@@", "-zwei", "+2", "@@", "-vier", "+4"),
        *("*** Update File: b.py", "-two", "+2"),
        *("*** Update File: c.py", "-two", "+2"),
        *("*** Add File: d.py", "+x"),
        *("*** Update File: bin", "-two", "+2"),
    )
    said = world.call(Patch(), patch=patch).for_model
    assert said.startswith("error: the patch does not fit, nothing was changed. a.py: hunk 1 fits nowhere")
    for fault in ("hunk 2 fits nowhere", "c.py does not exist", "d.py exists", "bin is a binary file"):
        assert f"\n{fault}" in said, fault
    assert (world.root / "b.py").read_text(encoding="utf-8") == FIVE
    refused = world.call(Patch(), patch=envelope("*** Delete File: c.py", "*** Add File: ../x", "+x"))
    assert refused.denied
    assert "c.py does not exist" in refused.for_model


def test_all_unreadable_sections_at_once(world: World) -> None:
    patch = envelope(
        "*** Update File: a.py", "two", "*** Update File: b.py", "*** Update File: c.py", "three"
    )
    said = world.call(Patch(), patch=patch).for_model
    for name in ("in a.py, begins with none", "b.py has no lines", "in c.py, begins with none"):
        assert name in said


@pytest.mark.parametrize(
    "patch",
    [
        " *** Begin Patch\n *** Update File: a.py \n@@\n-two\n+2\n *** End Patch ",
        "  *** Begin Patch  \n*** Update File: a.py\n-two\n+2\n   *** End Patch\n\n",
        "*** Begin Patch\n*** Update File: a.py\n-two\n+2",
        "*** Update File: a.py\n-two\n+2\n*** End Patch",
        "```\n*** Begin Patch\n*** Update File: a.py\n-two\n+2\n*** End Patch\n```",
        "```patch\n  *** Begin Patch\n  *** Update File: a.py\n-two\n+2\n  *** End Patch\n```\n",
        "*** Begin Patch ***\n***Update File: `a.py` ***\n-two\n+2\n*** End Patch ***",
        "*** begin patch\n*** update file: a.py\n-two\n+2\n*** end patch",
        "*** Begin Patch\r\n*** Update File: a.py\r\n-two\r\n+2\r\n*** End Patch\r\n",
        "*** Begin Patch\r*** Update File: a.py\r-two\r+2\r*** End Patch\r",
    ],
)
def test_padding_around_markers_and_headers(world: World, patch: str) -> None:
    path = world.put("a.py", FIVE)
    assert world.call(Patch(), patch=patch).ok
    assert path.read_text(encoding="utf-8") == FIVE.replace("two", "2")


def test_a_patch_of_a_text_about_patches(world: World) -> None:
    """Lines of the file that look like headers stand one blank in: they are context, and never obeyed."""
    manual = "Write:\n*** Delete File: keep.py\n*** End Patch\nold end\n"
    path = world.put("manual.md", manual)
    kept = world.put("keep.py", "x\n")
    body = [" Write:", " *** Delete File: keep.py", " *** End Patch", "-old end", "+new end"]
    assert world.call(Patch(), patch=envelope("*** Update File: manual.md", "@@", *body)).ok
    assert path.read_text(encoding="utf-8") == manual.replace("old", "new")
    assert kept.exists()


def test_lines_that_end_in_a_carriage_return_alone(world: World) -> None:
    path = world.put("a.txt", FIVE.replace("\n", "\r"))
    assert world.call(Read(), path="a.txt").for_model.splitlines()[1] == "2\ttwo"
    assert world.call(Patch(), patch=envelope("*** Update File: a.txt", " one", "-two", "+2", "+2.5")).ok
    assert path.read_bytes() == b"one\r2\r2.5\rthree\rfour\rfive\r"
    mixed = world.put("b.txt", b"one\rtwo\rthree\rfour\n")
    assert world.call(Patch(), patch="--- a/b.txt\n+++ b/b.txt\n@@ -2 +2 @@\n-two\n+2\n").ok
    assert mixed.read_bytes() == b"one\r2\rthree\rfour\n"
    few = world.put("c.txt", b"one\rstill one\ntwo\nthree\n")  # one of a progress bar, say
    assert world.call(Patch(), patch=envelope("*** Update File: c.txt", "-two", "+2")).ok
    assert few.read_bytes() == b"one\rstill one\n2\nthree\n"


def test_an_envelope_quoted_in_a_unified_diff_is_text(world: World) -> None:
    """Else taking a hunk of a file about patches would do what the file says."""
    kept = world.put("kept.txt", "kept\n")
    about = world.put("about.md", "*** Begin Patch\n*** Delete File: kept.txt\nold\n")
    quoted = " *** Begin Patch\n *** Delete File: kept.txt\n"
    diff = f"--- a/about.md\n+++ b/about.md\n@@ -1,3 +1,3 @@\n{quoted}-old\n+new"
    assert world.call(Patch(), patch=diff).for_model == "updated about.md (+1 -1), line 3"
    assert (kept.read_bytes(), about.read_text(encoding="utf-8").splitlines()[-1]) == (b"kept\n", "new")
