"""The event-stream parser: every line ending, any split, bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.http.sse import LineTooLong, SseParser


def parse(*pieces: bytes) -> list[str]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_line_endings_comments_and_fields(end: bytes) -> None:
    lines = [b": hello", b"event: x", b"data: one", b"", b"data:two", b"data: three", b"id: 7", b"", b""]
    assert parse(end.join(lines)) == ["one", "two\nthree"]


def test_a_byte_order_mark_and_empty_data() -> None:
    assert parse(b"\xef\xbb\xbfdata: a\n\ndata\n\ndata:  b\n\n") == ["a", "", " b"]


def test_an_event_without_its_blank_line_still_counts_at_the_end() -> None:
    assert parse(b"data: a\n\ndata: [DONE]") == ["a", "[DONE]"]


def test_unicode_line_separators_are_content() -> None:
    assert parse("data: a\u2028b\x0bc\x85d\n\n".encode()) == ["a\u2028b\x0bc\x85d"]


stream = st.lists(
    st.sampled_from(
        ["data: ", "data:", "data", "é", "漢", "😀", "x", ":", " ", "\n", "\r", "\r\n", "\ufeff"]
    ),
    max_size=40,
).map(lambda parts: "".join(parts).encode("utf-8"))


@given(stream, st.data())
def test_any_split_gives_the_same_events(data: bytes, choose: st.DataObject) -> None:
    cuts = choose.draw(st.lists(st.integers(0, len(data)), max_size=8).map(sorted))
    edges = [0, *cuts, len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert parse(*pieces) == parse(data)
    assert parse(*(data[at : at + 1] for at in range(len(data)))) == parse(data)


def test_a_line_without_end_is_refused() -> None:
    parser = SseParser(limit=1000)
    for _ in range(10):
        parser.feed(b"x" * 100)
    with pytest.raises(LineTooLong):
        parser.feed(b"x")


def test_an_event_of_endless_lines_is_refused() -> None:
    parser = SseParser(limit=1000)
    for _ in range(10):
        parser.feed(b"data: " + b"x" * 100 + b"\n")
    with pytest.raises(LineTooLong):
        parser.feed(b"data: x\n")
