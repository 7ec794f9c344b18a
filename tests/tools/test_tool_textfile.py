"""Text files: what is loaded is written back byte for byte, and a splice touches only its own lines."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coder.base.files import replace_file
from coder.tools.text.file import CannotEncode, NotText, load

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1", "gb18030")
texts = st.text(st.sampled_from("ab \t\r\n\f“é你\u2028"), max_size=40)


@given(
    st.one_of(
        st.binary(max_size=200), st.builds(str.encode, texts, st.sampled_from(("utf-8", "utf-16", "gb18030")))
    )
)
@example(b"\xef\xbb\xbfa\r\nb")
@example(b"\xff\xfea")
@example(b"a\r\r\nb\n")
def test_every_load_is_written_back_as_it_was(data: bytes) -> None:
    try:
        file = load(data)
    except NotText:
        return
    assert file.encode() == data
    assert file.replaced([]) == data
    assert "\r\n" not in file.text or "\r\r\n" in data.decode(file.encoding, "replace")


@given(
    st.lists(st.tuples(st.text("ab ", max_size=5), st.sampled_from(["\n", "\r\n"])), max_size=12), st.data()
)
def test_a_splice_leaves_all_other_lines_alone(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    raw = "".join(text + ending for text, ending in lines)
    file = load(raw.encode())
    start = data.draw(st.integers(0, len(file.text)))
    end = data.draw(st.integers(start, len(file.text)))
    new = data.draw(st.text("xy\n", max_size=6))
    after = file.replaced([(start, end, new)])
    assert load(after).text == file.text[:start] + new + file.text[end:]
    first, last = file.text.count("\n", 0, start), file.text.count("\n", end)
    pieces = raw.splitlines(keepends=True)
    assert after.startswith("".join(pieces[:first]).encode())
    # The line that the span ends in keeps its ending too, and all after it.
    assert after.endswith("".join(pieces[len(pieces) - last :])[-1:].encode() if last else b"")
    if last > 1:
        assert after.endswith("".join(pieces[len(pieces) - last + 1 :]).encode())


def test_splices_keep_mixed_endings() -> None:
    file = load(b"a\r\nb\nc\r\nd\n")
    assert file.mixed
    at = file.text.index("b")
    assert file.replaced([(at, at + 1, "B")]) == b"a\r\nB\nc\r\nd\n"
    assert file.replaced([(0, len(file.text), "a\nb\nC\nd\n")]) == b"a\r\nb\nC\r\nd\n"


def test_rewriting_keeps_what_lines_had() -> None:
    assert load(b"a\r\nb\r\n").rewritten("a\nx\n") == b"a\r\nx\r\n"
    assert load(b"a\r\nb\nc\r\n").rewritten("a\nnew\nb\nc\n").startswith(b"a\r\n")
    assert load(b"a\r\nb\nc\r\nd\n").rewritten("zero\na\nb\nc\nd\n") == b"zero\na\r\nb\nc\r\nd\n"
    assert load(b"\xef\xbb\xbfa\n").rewritten("b\n") == b"\xef\xbb\xbfb\n"
    assert load(b"a\nb\n").rewritten("a\r\nb\r\n") == b"a\r\nb\r\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encoding_survives_a_change(encoding: str) -> None:
    text = "eins\nzwei\n" if encoding != "gb18030" else "一二三四\nzwei\n"
    if encoding == "latin-1":
        text = "für größe\nzwei\n"
    data = text.encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    file = load(data)
    assert file.text == text
    at = text.index("zwei")
    expected = text.replace("zwei", "drei").encode(encoding)
    assert file.replaced([(at, at + 4, "drei")]) == (
        b"\xfe\xff" + expected if encoding == "utf-16-be" else expected
    )


def test_a_character_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(CannotEncode, match="latin-1"):
        load("für".encode("latin-1")).replaced([(0, 1, "你")])


@pytest.mark.parametrize("data", [b"\0", b"text\0text", bytes(range(128, 160)) * 9, b"\x7fELF\x01\x01\0\0"])
def test_binary_is_no_text(data: bytes) -> None:
    with pytest.raises(NotText):
        load(data)


def test_french_is_not_chinese() -> None:
    assert load("Un éléphant naïf a mangé à Noël".encode("latin-1")).encoding == "latin-1"


def test_replacing_keeps_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(0o751)
    owner = path.stat().st_uid, path.stat().st_gid
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
        owner = 12345, 23456
    path.chmod(0o4751)
    replace_file(path, b"new")
    info = path.stat()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(info.st_mode) == 0o4751
    assert (info.st_uid, info.st_gid) == owner


def test_new_files_get_what_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "deep" / "er" / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "er" / "a").stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    written: list[int] = []

    def full(descriptor: int, data: bytes) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(1)
        return 1

    monkeypatch.setattr("coder.base.files.os.write", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new content")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
