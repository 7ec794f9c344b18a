"""`@` commands: what is named is put into the message, bounded, and what is not is said."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.safe_open import open_file
from coder.context.attachments import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, expand, mentioned_paths
from coder.policy.workspace import DirectoryWorkspace
from coder.ui.terminal.input.menu import FileIndex


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    for name in (
        "a.py",
        "src/b.py",
        "src/deep/c.py",
        "src/note.md",
        "with space.txt",
        "x.log",
        "build/out.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n", encoding="utf-8")
    return tmp_path


def expanded(text: str, root: Path) -> tuple[str, list[str]]:
    message, notes, _ = expand(text, DirectoryWorkspace(root))
    return message, [str(note) for note in notes]


def test_a_file_follows_the_text_that_names_it(root: Path) -> None:
    message, notes = expanded("explain @a.py, please", root)
    assert message == 'explain @a.py, please\n\n<file path="a.py">\ncontent of a.py\n</file>'
    assert notes == []


@pytest.mark.parametrize("text", ["see @a.py.", "(@a.py)", "看看，@a.py。", "@a.py", "@./a.py"])
def test_punctuation_around_a_name_is_not_part_of_it(root: Path, text: str) -> None:
    message, notes = expanded(text, root)
    assert "content of a.py" in message
    assert notes == []


@pytest.mark.parametrize(
    "text", ["@说明.md，请看", "看@a.py。再看、@说明.md、谢谢", "（@说明.md）", "@*明.md，请看"]
)
def test_a_full_width_mark_ends_a_name_without_a_space(root: Path, text: str) -> None:
    (root / "说明.md").write_text("内容\n", encoding="utf-8")
    message, notes = expanded(text, root)
    assert message.endswith('\n\n<file path="说明.md">\n内容\n</file>')
    assert notes == []


def test_a_full_width_mark_may_be_part_of_a_name(root: Path) -> None:
    (root / "一，二.md").write_text("both\n", encoding="utf-8")
    assert "both" in expanded("@一，二.md", root)[0]
    assert expanded("@三，请看", root)[1] == expanded("@三", root)[1]


@pytest.mark.parametrize(
    "text",
    ['see @"with space.txt", please', '@"with space.txt"', '(@"with space.txt")', '@"with space.txt\nx'],
)
def test_a_name_with_blanks_stands_in_quotes(root: Path, text: str) -> None:
    message, notes = expanded(text, root)
    assert "content of with space.txt" in message
    assert notes == []


@pytest.mark.parametrize("name", ["build", "build/", "build/sub"])
def test_an_ignored_directory_is_refused_as_its_files_are(root: Path, name: str) -> None:
    (root / "build" / "sub").mkdir()
    (root / "build" / "sub" / "deep.py").write_text("content of deep.py\n", encoding="utf-8")
    message, notes = expanded(f"look at @{name}", root)
    assert "content of" not in message
    assert notes == [note.replace("build/out.py", name) for note in expanded("@build/out.py", root)[1]]


def test_a_directory_gives_its_files_and_ignored_ones_are_skipped(root: Path) -> None:
    message, _ = expanded("@src", root)
    assert [
        name for name in ("src/b.py", "src/deep/c.py", "src/note.md") if f"content of {name}" in message
    ] == [
        "src/b.py",
        "src/deep/c.py",
        "src/note.md",
    ]
    everything, _ = expanded("@.", root)
    assert "content of a.py" in everything
    assert "x.log" not in everything.replace("*.log", "")
    assert "build/out.py" not in everything


def test_a_glob(root: Path) -> None:
    message, notes = expanded("@src/**/*.py", root)
    assert "content of src/b.py" in message
    assert "content of src/deep/c.py" in message
    assert "note.md" not in message
    assert notes == []
    assert expanded("@*.rs", root)[1] == ["@*.rs: no files there."]


def test_escaped_spaces(root: Path) -> None:
    assert "content of with space.txt" in expanded(r"@with\ space.txt", root)[0]


def test_what_is_not_put_in_is_said(root: Path) -> None:
    (root / "image.png").write_bytes(b"\x89PNG\0\0\x01")
    for name, said in (
        ("missing.txt", "there is no such file"),
        ("x.log", "ignored by .gitignore"),
        ("build/out.py", "ignored by .gitignore"),
        ("../outside", "outside the workspace"),
        ("image.png", "is not text"),
    ):
        message, notes = expanded(f"@{name}", root)
        assert message == f"@{name}"
        assert len(notes) == 1
        assert said in notes[0]


def test_bounds(root: Path) -> None:
    (root / "big.txt").write_text("长行\n" * 50_000, encoding="utf-8")
    message, notes = expanded("@big.txt", root)
    assert len(message.encode()) < MAX_FILE_BYTES + 500
    assert "长行\n[the file goes on" in message
    assert "�" not in message
    assert "long" in notes[0]
    many = root / "many"
    many.mkdir()
    for at in range(MAX_FILES + 5):
        (many / f"{at:03}.txt").write_text("x" * 4000, encoding="utf-8")
    message, notes = expanded("@many", root)
    assert len(message.encode()) < MAX_TOTAL_BYTES + 20_000
    assert "left out" in notes[0]


@pytest.mark.parametrize("room", [1, 13, 14, 15, 16, 40])
def test_the_last_file_gets_what_room_there_is(root: Path, room: int) -> None:
    """Also less than the bytes that tell its type."""
    for n in range(3):
        (root / f"full{n}.txt").write_bytes(b"x" * MAX_FILE_BYTES)
    (root / "most.txt").write_bytes(b"y" * (MAX_TOTAL_BYTES - 3 * MAX_FILE_BYTES - room))
    (root / "last.txt").write_bytes(b"z" * 5_000)
    message, notes = expanded("@full0.txt @full1.txt @full2.txt @most.txt @last.txt", root)
    assert message.count("z") == room
    assert any("last.txt" in note for note in notes)


def test_a_pipe_that_takes_a_file_s_place_is_not_waited_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    def swapped(path: Path) -> int:
        path.unlink()
        os.mkfifo(path)
        descriptor = open_file(path)
        held.append(os.open(path, os.O_WRONLY))
        return descriptor

    monkeypatch.setattr("coder.context.attachments.open_file", swapped)
    message, notes = expanded("see @a.py", root)
    os.close(held.pop())
    assert message == "see @a.py"
    assert ["not a regular file" in note for note in notes] == [True]


def test_names_inside_code_and_addresses_are_left_alone(root: Path) -> None:
    text = "mail me@a.py and `@a.py` and\n```\n@a.py\n```\n"
    assert expanded(text, root) == (text, [])


def test_the_menu_leaves_compiled_files_out(root: Path) -> None:
    for name in ("todo.py", "__pycache__/todo.cpython-311.pyc", "old/todo.pyc", "old/todo.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    listed = threading.Event()
    index = FileIndex(root, os.environ, listed.set)
    index.refresh()
    assert listed.wait(60)
    assert {item.label for item in index.search("tod")} == {"todo.py", "old/todo.txt"}
    assert index.search("pycache") == []


def test_the_same_file_twice_is_put_in_once(root: Path) -> None:
    assert expanded("@a.py @./a.py @a.py", root)[0].count("content of a.py") == 1


@given(st.text(max_size=200))
def test_any_text_is_expanded_without_fault_and_kept(text: str) -> None:
    message, *_ = expand(text, DirectoryWorkspace(Path("/nonexistent-workspace")))
    assert message.startswith(text)


@given(st.text(alphabet='ab \\c.py"', min_size=1).filter(lambda name: name.strip() == name))
def test_escaping_a_path_is_undone(name: str) -> None:
    from coder.ui.terminal.input.editing import escaped_path

    assert mentioned_paths(f"x @{escaped_path(name)} y") == [name]
