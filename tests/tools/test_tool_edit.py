"""`edit`: exact and tolerant matches, what is said where there is none, and what stays untouched."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import World

from coder.tools.edit import Edit
from coder.tools.read import Read
from coder.tools.text.file import load
from coder.tools.text.match import find
from coder.tools.write import Write


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def edited(text: str, old: str, new: str) -> tuple[str, str]:
    """The text after an edit that must match once, and the tolerance it took."""
    found = find(text, old, new)
    assert len(found.spans) == 1, found
    return load(text.encode()).replaced(found.spans).decode(), found.how


def test_replaces_the_one_match(world: World) -> None:
    path = world.put("a.py", "one\ntwo\nthree\n")
    result = world.call(Edit(), path="a.py", old_string="two", new_string="2")
    assert result.for_model == "updated a.py (+1 -1), line 2"
    assert path.read_bytes() == b"one\n2\nthree\n"
    assert result.meta["matches"] == 1
    assert result.meta["operation"] == "updated"
    assert "-two\n+2" in result.detail
    assert world.journal.told == [(path, b"one\n2\nthree\n", None)]
    assert world.context.files.known(path)


def test_several_matches_are_named(world: World) -> None:
    path = world.put("a.py", "x = 1\ny = 2\nx = 1\n")
    result = world.call(Edit(), path="a.py", old_string="x = 1", new_string="x = 2")
    assert "occurs 2 times in a.py, at lines 1, 3" in result.for_model
    assert "replace_all" in result.for_model
    assert result.meta["matches"] == 2
    assert path.read_bytes() == b"x = 1\ny = 2\nx = 1\n"
    result = world.call(Edit(), path="a.py", old_string="x = 1", new_string="x = 2", replace_all=True)
    assert result.for_model == "updated a.py (+2 -2), line 1; 2 places"
    assert path.read_bytes() == b"x = 2\ny = 2\nx = 2\n"


def test_the_lines_that_changed_are_named(world: World) -> None:
    world.put("a.txt", "".join(f"{n}\n" for n in range(1, 101)))
    edits = [{"old_string": f"{n}\n{n + 1}\n", "new_string": f"{n}\nnew\n"} for n in range(10, 90, 10)]
    several = world.call(Edit(), path="a.txt", edits=edits)
    assert several.for_model == "updated a.txt (+8 -8), lines 11, 21, 31, 41, 51, 61 …; 8 edits"
    gone = world.call(Edit(), path="a.txt", old_string="99\n100\n", new_string="99\n")
    assert gone.for_model == "updated a.txt (+0 -1), line 99"


def test_no_match_shows_the_nearest_text(world: World) -> None:
    world.put("a.py", "import os\n\ndef compute(value):\n    return value * 2\n\nprint(1)\n")
    result = world.call(
        Edit(), path="a.py", old_string="def compute(val):\n    return val * 3\n", new_string="x"
    )
    assert result.for_model.startswith(
        "error: old_string is not in a.py; the nearest text is:\n3\tdef compute(value):"
    )
    assert result.summary == "no such text in it"  # the row has the path
    nothing = world.call(Edit(), path="a.py", old_string="~~~~~~~~", new_string="x")
    assert "nor anything like it" in nothing.for_model


def test_nearest_prefers_equal_lines(world: World) -> None:
    body = "".join(f"def f{n}():\n    return {n}\n\n" for n in range(300))
    world.put("a.py", body)
    result = world.call(Edit(), path="a.py", old_string="def f200():\n    return 0\n    extra", new_string="")
    assert "\n601\tdef f200():" in result.for_model


def test_nearest_is_what_is_like_the_whole_text(world: World) -> None:
    """One equal line elsewhere is not more like it than a place where every line is nearly the same."""
    getitem = "    def __getitem__(self, key):\n        try:\n            return self.__data[key]\n"
    get = "    def get(self, key, default=None):\n        if key in self:\n            return self[key]\n"
    get += "        else:\n            return default\n"
    world.put("a.py", f"class Cache:\n{getitem}        except KeyError:\n            raise\n\n{get}")
    old = (
        get.replace("=None", " = None")
        .replace("self[key]", "self.__data[key]")
        .replace("        else:\n", "")
    )
    result = world.call(Edit(), path="a.py", old_string=old, new_string="x")
    assert "the nearest text is:\n8\t    def get(self, key, default=None):\n9\t" in result.for_model


def test_same_text_and_empty_text(world: World) -> None:
    path = world.put("a.py", "x\n")
    assert "the same" in world.call(Edit(), path="a.py", old_string="x", new_string="x").for_model
    assert "exists" in world.call(Edit(), path="a.py", old_string="", new_string="y").for_model
    assert path.read_bytes() == b"x\n"
    created = world.call(Edit(), path="new/b.py", old_string="", new_string="y\n")
    assert created.for_model == "created new/b.py (+1 -0)"
    assert "c.py does not exist" in world.call(Edit(), path="c.py", old_string="x", new_string="").for_model


def test_stale_file_is_edited_where_the_text_still_stands_once(world: World) -> None:
    path = world.put("a.py", "one\ntwo\n")
    world.call(Read(), path="a.py")
    path.write_bytes(b"one\nTWO\n")
    result = world.call(Edit(), path="a.py", old_string="one", new_string="1")
    assert result.for_model.startswith(
        "updated a.py (+1 -1), line 1; the file had changed since you read it (by a command"
    )
    assert path.read_bytes() == b"1\nTWO\n"
    # What the others did, the model has not seen: it may not replace the whole file.
    assert "you have not seen all" in world.call(Write(), path="a.py", content="x\n").for_model
    world.call(Read(), path="a.py")
    assert world.call(Write(), path="a.py", content="x\n").ok


@pytest.mark.parametrize("now", [b"one\nTWO\none\n", b"One\nTWO\n"])
def test_stale_file_is_answered_with_what_changed(world: World, now: bytes) -> None:
    path = world.put("a.py", "one\ntwo\n")
    world.call(Read(), path="a.py")
    path.write_bytes(now)
    result = world.call(Edit(), path="a.py", old_string="one", new_string="1")
    assert "a.py changed on disk since you last read it; nothing was written." in result.for_model
    assert "\n-two\n" in result.for_model
    assert "\n+TWO\n" in result.for_model
    assert result.meta["stale"] is True
    assert path.read_bytes() == now


def test_every_place_of_a_stale_file_is_replaced_where_it_is_the_places_that_were_seen(world: World) -> None:
    path = world.put("a.py", "x\ntwo\nx\n")
    world.call(Read(), path="a.py")
    path.write_bytes(b"x\nTWO\nx\n")
    assert world.call(Edit(), path="a.py", old_string="x", new_string="y", replace_all=True).ok
    assert path.read_bytes() == b"y\nTWO\ny\n"
    path.write_bytes(b"y\nTWO\ny\ny\n")
    more = world.call(Edit(), path="a.py", old_string="y", new_string="z", replace_all=True)
    assert "changed on disk" in more.for_model
    assert more.learned == ((path, b"y\nTWO\ny\ny\n"),)


def test_a_long_change_is_not_told_line_by_line(world: World) -> None:
    path = world.put("a.py", "one\n" * 500)
    world.call(Read(), path="a.py")
    path.write_bytes(b"two\n" * 500)
    result = world.call(Edit(), path="a.py", old_string="one", new_string="1")
    assert result.for_model.endswith("nothing was written. Read it again first")
    assert result.learned == ()


MID_LINE = 'if base:  # why\n    if bytes_ < base:\n        return f"{int(bytes_)}B"  # small\n'


def test_trailing_blanks_of_a_text_that_begins_and_ends_within_a_line(world: World) -> None:
    path = world.put("a.py", MID_LINE)
    old = 'bytes_ < base:   \n        return f"{int(bytes_)}B"'
    result = world.call(Edit(), path="a.py", old_string=old, new_string='bytes_ <= base:\n        return ""')
    assert "tolerance for trailing blanks" in result.for_model
    assert path.read_text(encoding="utf-8") == MID_LINE.replace("<", "<=").replace('f"{int(bytes_)}B"', '""')
    path.write_text(MID_LINE * 2, encoding="utf-8")
    world.call(Read(), path="a.py")
    twice = world.call(Edit(), path="a.py", old_string=old, new_string="x", replace_all=True)
    assert "old_string is not in a.py" in twice.for_model


def test_several_edits_of_one_file(world: World) -> None:
    path = world.put("a.py", "one\r\ntwo\r\ntwo\r\nthree\r\n")
    edits = [
        {"old_string": "one\ntwo", "new_string": "1\n2"},
        {"old_string": "1", "new_string": "uno"},  # builds on the one before
        {"old_string": "e", "new_string": "E", "replace_all": True},
    ]
    result = world.call(Edit(), path="a.py", edits=edits)
    assert result.for_model == "updated a.py (+3 -3), line 1; 3 edits"
    assert path.read_bytes() == b"uno\r\n2\r\ntwo\r\nthrEE\r\n"
    assert result.meta["diff"].count("\n@@") == 1
    world.journal.undo()
    assert path.read_bytes() == b"one\r\ntwo\r\ntwo\r\nthree\r\n"


def test_all_edits_or_none_and_all_faults_at_once(world: World) -> None:
    path = world.put("a.py", "one\ntwo\ntwo\nthree\n")
    edits = [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "two", "new_string": "2"},
        {"old_string": "thrice", "new_string": "3"},
    ]
    result = world.call(Edit(), path="a.py", edits=edits)
    assert result.for_model.startswith("error: nothing was changed. edit 2: old_string occurs 2 times")
    assert (
        "\nedit 3: old_string is not in a.py; the nearest text is:\n4\tthree\nIf that is meant"
        in result.for_model
    )
    assert path.read_bytes() == b"one\ntwo\ntwo\nthree\n"
    assert world.journal.told == []


def test_edit_without_its_texts_says_what_is_missing(world: World) -> None:
    world.put("a.py", "one\n")
    assert "missing old_string, new_string" in world.call(Edit(), path="a.py").for_model
    assert "missing new_string" in world.call(Edit(), path="a.py", old_string="one").for_model


def test_a_file_never_read_can_be_edited(world: World) -> None:
    world.put("a.py", "one\n")
    assert world.call(Edit(), path="a.py", old_string="one", new_string="1").ok


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree", b"one\r\n2\r\nnew\r\nthree"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\n2\nnew\n"),
        (b"\xff\xfe" + "one\ntwo\n".encode("utf-16-le"), b"\xff\xfe" + "one\n2\nnew\n".encode("utf-16-le")),
        (b"gr\xf6\xdfe\ntwo\n", b"gr\xf6\xdfe\n2\nnew\n"),
        (b"a\r\ntwo\nb\r\nc\n", b"a\r\n2\nnew\nb\r\nc\n"),
    ],
)
def test_everything_else_stays(world: World, before: bytes, after: bytes) -> None:
    path = world.put("a", before)
    path.chmod(0o750)
    assert world.call(Edit(), path="a", old_string="two", new_string="2\nnew").ok
    assert path.read_bytes() == after
    assert path.stat().st_mode & 0o777 == 0o750


def test_carriage_returns_of_the_model_do_not_matter(world: World) -> None:
    path = world.put("a", b"one\ntwo\nthree\n")
    world.call(Edit(), path="a", old_string="one\r\ntwo", new_string="1\r\n2")
    assert path.read_bytes() == b"1\n2\nthree\n"
    path = world.put("b", b"one\r\ntwo\r\nthree\r\n")
    world.call(Edit(), path="b", old_string="one\ntwo\n", new_string="1\n2\n")
    assert path.read_bytes() == b"1\r\n2\r\nthree\r\n"


def test_trailing_blanks() -> None:
    text = "def f():   \n    a = 1\t\n    b = 2\n"
    after, how = edited(text, "def f():\n    a = 1\n", "def f():\n    a = 5\n")
    assert after == "def f():   \n    a = 5\n    b = 2\n"
    assert "trailing" in how


def test_indentation_is_carried_over() -> None:
    text = "class A:\n    def f(self):\n        return 1\n\n    x = 2\n"
    old = "def f(self):\n    return 1\n"
    after, how = edited(text, old, "def f(self):\n    y = 1\n\n    return y\n")
    assert after == "class A:\n    def f(self):\n        y = 1\n\n        return y\n\n    x = 2\n"
    assert "indentation" in how
    deeper, _ = edited("if x:\n  y()\n", "      if x:\n        y()", "      if x:\n        z()")
    assert deeper == "if x:\n  z()\n"


def test_tabs_for_spaces() -> None:
    after, _ = edited(
        "f:\n\tif a:\n\t\tb()\n", "    if a:\n        b()\n", "    if a:\n        c()\n        d()\n"
    )
    assert after == "f:\n\tif a:\n\t\tc()\n\t\td()\n"


def test_uneven_indentation_is_no_match() -> None:
    assert find("  a\n      b\n", "a\nb\n", "x").spans == []


def test_quotes_of_another_kind() -> None:
    after, how = edited("say “hello” — ‘now’\n", "say \"hello\" - 'now'", "say \"hello\" - 'later'")
    assert after == "say “hello” — ‘later’\n"
    assert "quotes" in how


def test_line_numbers_copied_from_read() -> None:
    after, how = edited("one\ntwo\nthree\n", "     1\tone\n     2\ttwo", "     1\tone\n     2\t2")
    assert after == "one\n2\nthree\n"
    assert "line numbers" in how


def test_escapes_written_out() -> None:
    after, how = edited("a = 1\nb = 2\n", "a = 1\\nb = 2", "a = 1\\nb = 3")
    assert after == "a = 1\nb = 3\n"
    assert "escapes" in how
    untouched = find('s = "x"\n', '"x"\\n"y"', "z")
    assert untouched.spans == []


def test_tolerant_match_is_told_and_must_be_unique(world: World) -> None:
    path = world.put("a.py", "x = 1  \n")
    result = world.call(Edit(), path="a.py", old_string="x = 1\n", new_string="x = 2\n")
    assert "tolerance for trailing blanks" in result.for_model
    assert path.read_bytes() == b"x = 2\n"
    path = world.put("b.py", "if a:\n  f()\n   \nif b:\n    f()\n   \n")
    result = world.call(Edit(), path="b.py", old_string="f()\n\n", new_string="g()\n\n")
    assert "occurs 2 times" in result.for_model


def test_deleting_lines_tolerantly() -> None:
    assert edited("a\nb  \nc\n", "b\n", "")[0] == "a\nc\n"
    assert edited("a\nb  ", "a\nb\n", "a\n")[0] == "a"


def test_binary_file_is_refused(world: World) -> None:
    world.put("a.bin", b"one\0two")
    assert "binary" in world.call(Edit(), path="a.bin", old_string="one", new_string="1").for_model


def test_character_that_the_encoding_lacks(world: World) -> None:
    path = world.put("a", "für alle\n".encode("latin-1"))
    result = world.call(Edit(), path="a", old_string="alle", new_string="你")
    assert "latin-1" in result.for_model
    assert path.read_bytes() == "für alle\n".encode("latin-1")


def test_preview_never_raises(world: World) -> None:
    world.put("a.py", "one\n")
    args = {"path": "a.py", "old_string": "one", "new_string": "two"}
    assert Edit().preview(args, world.context).kind == "diff"
    for path in ("../x", "a\0", "missing", ""):
        assert Edit().preview({**args, "path": path}, world.context).kind == "text"


lines = st.lists(st.text("ab“\t ", max_size=4), min_size=1, max_size=8)


@pytest.mark.thorough
@settings(deadline=None)
@given(lines, st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8), st.data())
def test_edit_then_undo_is_nothing(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], endings: list[str], data: st.DataObject
) -> None:
    world = World(tmp_path_factory.mktemp("w"))
    before = "".join(text + ending for text, ending in zip(texts, endings, strict=False)).encode()
    path = world.put("a", before)
    text = load(before).text
    start = data.draw(st.integers(0, len(text) - 1))
    old = text[start : data.draw(st.integers(start + 1, len(text)))]
    new = data.draw(st.text("xyz\n", max_size=5))
    result = world.call(Edit(), path="a", old_string=old, new_string=new, replace_all=True)
    assert result.ok == (old != new)
    assert load(path.read_bytes()).text == text.replace(old, new)
    world.journal.undo()
    assert path.read_bytes() == before


@given(
    st.text('ab \n\t“"\\n1', max_size=30),
    st.text('ab \n\t“"\\n1', max_size=12),
    st.text("ab \n", max_size=12),
)
def test_find_gives_usable_spans_for_anything(text: str, old: str, new: str) -> None:
    if not old:
        return
    spans = find(text, old, new).spans
    assert all(0 <= start <= end <= len(text) for start, end, _ in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
