"""`read`: pages, limits, encodings, and everything that is not a text file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from world import World

from coder.tools.read import Read
from coder.tools.text import page as page_module
from coder.tools.text.page import MAX_BYTES, MAX_LINE, count_lines, lines_from, seek_last


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def numbered(first: int, last: int) -> str:
    return "\n".join(f"{n}\tline {n}" for n in range(first, last + 1))


def some_lines(count: int) -> str:
    return "".join(f"line {n}\n" for n in range(1, count + 1))


def test_whole_file_with_numbers(world: World) -> None:
    path = world.put("a.txt", some_lines(3))
    result = world.call(Read(), path="a.txt")
    assert result.for_model == numbered(1, 3)
    assert result.meta == {
        "path": "a.txt",
        "offset": 1,
        "limit": 2000,
        "lines": 3,
        "total_lines": 3,
        "has_more": False,
        "encoding": "utf-8",
    }
    assert world.context.files.known(path)
    assert result.summary == "3 lines"


def test_page_says_how_to_go_on(world: World) -> None:
    world.put("a.txt", some_lines(10))
    result = world.call(Read(), path="a.txt", offset=3, limit=4)
    assert result.summary == "lines 3-6 of 10"
    assert result.for_model.startswith(numbered(3, 6) + "\n")
    assert "has_more" in result.for_model.splitlines()[-1]
    assert "offset=7" in result.for_model.splitlines()[-1]
    assert result.meta["has_more"] is True
    following = world.call(Read(), path="a.txt", offset=7)
    assert following.for_model.startswith(numbered(7, 10))
    assert following.meta["has_more"] is False


def test_default_limit_is_2000_lines(world: World) -> None:
    world.put("a.txt", some_lines(2500))
    result = world.call(Read(), path="a.txt")
    assert result.meta["lines"] == 2000
    assert "offset=2001" in result.for_model


def test_negative_offset_counts_from_the_end(world: World) -> None:
    world.put("a.txt", some_lines(10))
    assert world.call(Read(), path="a.txt", offset=-2).for_model.startswith(numbered(9, 10))
    assert world.call(Read(), path="a.txt", offset=-99, limit=2).for_model.startswith(numbered(1, 2))


def test_offset_zero_is_the_start_and_past_the_end_is_an_error(world: World) -> None:
    world.put("a.txt", some_lines(3))
    assert world.call(Read(), path="a.txt", offset=0).meta["offset"] == 1
    result = world.call(Read(), path="a.txt", offset=4)
    assert result.for_model == "error: offset 4 is past the end: a.txt has 3 lines"
    assert not world.call(Read(), path="a.txt", limit=0).ok


def test_answer_is_bounded_in_bytes(world: World) -> None:
    world.put("a.txt", ("x" * 1000 + "\n") * 1000)
    result = world.call(Read(), path="a.txt")
    assert len(result.for_model) < MAX_BYTES + 1000
    assert result.meta["has_more"] is True
    assert f"offset={result.meta['lines'] + 1}" in result.for_model


def test_long_lines_are_cut_and_say_so(world: World) -> None:
    world.put("a.txt", "y" * 5000 + "\nshort\n")
    result = world.call(Read(), path="a.txt")
    assert "[3000 more characters]" in result.for_model.splitlines()[0]
    assert result.for_model.splitlines()[1].endswith("\tshort")


def test_empty_file(world: World) -> None:
    world.put("a.txt", "")
    result = world.call(Read(), path="a.txt")
    assert result.ok
    assert "empty" in result.for_model
    assert result.meta["total_lines"] == 0


def test_what_the_text_does_not_show_is_said(world: World) -> None:
    world.put("a.txt", "one\r\ntwo")
    ending = world.call(Read(), path="a.txt").for_model.splitlines()[-1]
    assert "CRLF" in ending
    assert "no newline at the end" in ending


@pytest.mark.parametrize(
    ("encoding", "text", "named"),
    [
        ("utf-16", "größe\nzwei\n", "utf-16-le"),
        ("latin-1", "Die Größe ist für alle gleich.\n", "latin-1"),
        ("gb18030", "你好，世界。这是一个文件。\n", "gb18030"),
        ("utf-8-sig", "markiert\n", "utf-8"),
    ],
)
def test_other_encodings_are_read_and_named(world: World, encoding: str, text: str, named: str) -> None:
    world.put("a.txt", text.encode(encoding))
    result = world.call(Read(), path="a.txt")
    assert f"\t{text.splitlines()[0]}\n" in result.for_model
    assert result.meta["encoding"] == named
    assert named in result.for_model.splitlines()[-1]


def test_binary_file_gets_kind_and_size(world: World) -> None:
    path = world.put("a.sqlite", b"SQLite format 3\0" + bytes(3000))
    result = world.call(Read(), path="a.sqlite")
    assert not result.ok
    assert "SQLite database" in result.for_model
    assert "2.9 KB" in result.for_model
    assert not world.context.files.known(path)


def test_sparse_5_gb_file_is_answered_at_once(world: World) -> None:
    with (world.root / "disk.img").open("wb") as file:
        file.truncate(5 << 30)
    result = world.call(Read(), path="disk.img")
    assert "binary" in result.for_model
    assert "5.0 GB" in result.for_model


def test_100_mb_of_text_is_paged_without_loading_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"0123456789abcdef" * 63 + b"\n"
    path = world.root / "big.log"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(line * 1030)
    monkeypatch.setattr(page_module, "load", None)  # would be called with the whole file
    first = world.call(Read(), path="big.log", limit=2)
    assert first.meta["lines"] == 2
    assert first.meta["total_lines"] is None
    assert "offset=3" in first.for_model
    last = world.call(Read(), path="big.log", offset=-1)
    assert last.meta["offset"] == last.meta["total_lines"] == 103_000
    past = world.call(Read(), path="big.log", offset=200_000)
    assert "103000 lines" in past.for_model
    assert not world.context.files.known(path)


def test_very_large_file_is_numbered_from_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "WHOLE_BYTES", 10)
    monkeypatch.setattr(page_module, "COUNTED_BYTES", 20)
    world.put("a.txt", some_lines(50))
    result = world.call(Read(), path="a.txt", offset=-2)
    assert result.for_model.startswith("-2\tline 49\n-1\tline 50\n")


def test_streamed_and_whole_reading_agree(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"größe {n}" + "x" * (n % 7) + "\r\n" for n in range(300)) + "z" * 3000
    for encoding in ("utf-8", "utf-16", "latin-1"):
        world.put("a.txt", text.encode(encoding))
        for args in ({}, {"offset": 100, "limit": 5}, {"offset": -3}, {"offset": -9999, "limit": 1}):
            monkeypatch.setattr(page_module, "WHOLE_BYTES", 1 << 20)
            whole = world.call(Read(), path="a.txt", **args).for_model.splitlines()[:-1]
            monkeypatch.setattr(page_module, "WHOLE_BYTES", 10)
            assert world.call(Read(), path="a.txt", **args).for_model.splitlines()[:-1] == whole


def test_lines_that_span_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder.tools.text.page.CHUNK", 7)
    path = tmp_path / "a"
    lines = ["", "ä" * 20, "b", "", "c" * (MAX_LINE + 5), "last"]
    path.write_bytes("\n".join(lines).encode())
    for skip in range(8):
        with path.open("rb") as file:
            got = [line.text for line in lines_from(file, "utf-8", skip, lambda: False)]
        assert got == [line[:MAX_LINE] for line in lines[skip:]]
    for wanted in range(1, 9):
        with path.open("rb") as file:
            assert seek_last(file, wanted, lambda: False) == min(wanted, 6)
            got = [line.text for line in lines_from(file, "utf-8", 0, lambda: False)]
            assert got == [line[:MAX_LINE] for line in lines[-wanted:]]
    with path.open("rb") as file:
        assert count_lines(file, lambda: False) == 6


def test_missing_file_names_the_nearest(world: World) -> None:
    world.put("src/config.py", "")
    result = world.call(Read(), path="src/confg.py")
    assert result.for_model == "error: src/confg.py does not exist; did you mean src/config.py?"
    assert "nearest folder is src" in world.call(Read(), path="src/a/b/c.py").for_model


def test_a_directory_is_listed(world: World) -> None:
    world.put("src/a.py", "")
    world.put("src/deep/b.py", "")
    for path in ("src", "src/", "./src"):
        assert world.call(Read(), path=path).for_model == "deep/\na.py (0 B)"


@pytest.mark.parametrize(
    ("given", "first", "last"),
    [
        ("`src/a.py`", 1, 9),
        (" 'src/a.py' ", 1, 9),
        ("@src/a.py", 1, 9),
        ("src/a.py:4", 4, 9),
        ("src/a.py:4-6", 4, 6),
        ("./src/a.py:4:17", 4, 9),
        ("src/a.py#L4-L6", 4, 6),
        ("src/a.py#L4", 4, 9),
    ],
)
def test_paths_as_people_write_them(world: World, given: str, first: int, last: int) -> None:
    world.put("src/a.py", some_lines(9))
    result = world.call(Read(), path=given)
    assert result.for_model.splitlines()[: last - first + 1] == numbered(first, last).splitlines()
    assert result.meta["lines"] == last - first + 1


def test_a_file_of_that_very_name_comes_first(world: World) -> None:
    for name in ("@a", "a", "b:4", "b", "'c'", "c"):
        world.put(name, f"this is {name}\n")
    for name in ("@a", "b:4", "'c'"):
        assert world.call(Read(), path=name).for_model == f"1\tthis is {name}"


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_a_missing_path_is_looked_up_by_its_last_name(
    world: World, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "python":
        monkeypatch.setattr("coder.tools.search.ripgrep.find_ripgrep", lambda *_: None)
    world.put(".gitignore", "build/\n")
    for path in ("lib/app.py", "lib/deep/utils/x.py", "build/app.py", "other/config/app.toml"):
        world.put(path, "x\n")
    looked = world.call(Read(), path="src/app.py")
    assert looked.for_model == "src/app.py does not exist; this is lib/app.py:\n1\tx"
    assert looked.meta["path"] == "lib/app.py"
    directory = world.call(Read(), path="src/utils")
    assert directory.for_model == "error: src/utils does not exist; did you mean lib/deep/utils?"
    deep = world.call(Read(), path="app/config/APP.toml").for_model
    assert deep == "error: app/config/APP.toml does not exist; did you mean other/config/app.toml?"


def test_of_several_with_that_name_the_most_alike_is_first(world: World) -> None:
    for path in ("a/x/main.py", "b/main.py", "c/y/main.py"):
        world.put(path, "x\n")
    said = world.call(Read(), path="src/y/main.py").for_model
    assert (
        said == "error: src/y/main.py does not exist; did you mean c/y/main.py or b/main.py or a/x/main.py?"
    )


def test_names_with_a_word_in_common_come_before_those_with_some_letters(world: World) -> None:
    for path in ("setup.py", "test_inflection.py", "inflection.py", "tests.toml"):
        world.put(path, "x\n")
    said = world.call(Read(), path="tests.py").for_model
    assert said == "error: tests.py does not exist; did you mean tests.toml or test_inflection.py?"
    assert "did you mean setup.py?" in world.call(Read(), path="setpu.py").for_model


def test_a_path_that_begins_elsewhere_is_told_by_its_end(world: World) -> None:
    world.put("src/a.py", "x\n")
    for given in ("/workspace/src/a.py", "/src/a.py"):
        result = world.call(Read(), path=given)
        assert result.denied
        assert result.for_model.endswith("Did you mean src/a.py?")


def test_pipes_and_sockets_do_not_block(world: World) -> None:
    os.mkfifo(world.root / "pipe")
    assert "named pipe" in world.call(Read(), path="pipe").for_model
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(world.root / "s"))
        assert "socket" in world.call(Read(), path="s").for_model


def test_unreadable_file_is_one_sentence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("a.txt", "x")

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(page_module, "open_file", refuse)
    assert world.call(Read(), path="a.txt").for_model == "error: cannot read a.txt: permission denied"


def test_links_that_leave_the_workspace_are_denied(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("secret", encoding="utf-8")
    (world.root / "link").symlink_to(outside)
    for path in ("link", "../x", str(outside)):
        result = world.call(Read(), path=path)
        assert result.denied
        assert "secret\n" not in result.for_model


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "\ud800"])
def test_impossible_paths_are_errors(world: World, path: str) -> None:
    assert not world.call(Read(), path=path).ok
    Read().preview({"path": path}, world.context)


def test_names_that_are_not_utf8(world: World) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    world.put(name, "hello\n")
    result = world.call(Read(), path=name)
    assert "\thello" in result.for_model
    assert result.meta["path"] == "caf\\xe9.txt"


def test_escape_sequences_are_left_to_the_renderer(world: World) -> None:
    world.put("a.txt", "\x1b[31mred\n")
    assert "\x1b[31mred" in world.call(Read(), path="a.txt").for_model
