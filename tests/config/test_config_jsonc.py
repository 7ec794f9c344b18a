"""JSON with comments: same meaning as the plain JSON in it, and errors that name the place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.config import ConfigError
from coder.config.jsonc import MAX_DEPTH, JsoncError, decode_jsonc, strip

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
LINE_TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
BLOCK_TEXT = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), max_size=8)
GAP = st.one_of(
    st.text(" \t\r\n", max_size=3),
    LINE_TEXT.map(lambda text: f"//{text}\n"),
    BLOCK_TEXT.map(lambda text: f"/*{text}*/"),
)


def written(value: Any, draw: st.DrawFn) -> str:
    """A value as JSONC, with something that means nothing between any two tokens."""

    def gap() -> str:
        return draw(GAP)

    def trailing(items: list[str]) -> str:
        wanted = draw(st.booleans())
        return "," + gap() if items and wanted else ""

    if isinstance(value, dict):
        parts = [f"{gap()}{json.dumps(k)}{gap()}:{gap()}{written(v, draw)}{gap()}" for k, v in value.items()]
        return "{" + (",".join(parts) or gap()) + trailing(parts) + "}"
    if isinstance(value, list):
        parts = [f"{gap()}{written(item, draw)}{gap()}" for item in value]
        return "[" + (",".join(parts) or gap()) + trailing(parts) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def commented(draw: st.DrawFn) -> tuple[Any, str]:
    value = draw(JSON)
    return value, draw(GAP) + written(value, draw) + draw(GAP)


@pytest.mark.thorough
@given(commented(), st.booleans())
def test_comments_and_trailing_commas_change_nothing(case: tuple[Any, str], bom: bool) -> None:
    value, text = case
    data = (b"\xef\xbb\xbf" if bom else b"") + text.encode("utf-8", errors="surrogatepass")
    assert decode_jsonc(data, "f") == value


def stripped(data: bytes) -> bytes:
    """Stripped, up to a comment without an end, if there is one."""
    try:
        return strip(data)
    except JsoncError as fault:
        return strip(data[: fault.offset]) + data[fault.offset :]


@given(st.text() | st.text('{}[]",:/*\\\n 1a'))
def test_stripping_keeps_length_and_line_breaks(text: str) -> None:
    data = text.encode("utf-8", errors="replace")
    plain = stripped(data)
    assert len(plain) == len(data)
    assert [i for i, c in enumerate(plain) if c == 10] == [i for i, c in enumerate(data) if c == 10]


@given(st.binary() | st.text('{}[]",:/*\\\n 1atrue').map(str.encode))
def test_any_bytes_are_a_value_or_a_config_error(data: bytes) -> None:
    said = "f"
    try:
        decode_jsonc(data, "f")
    except ConfigError as error:
        said = str(error)
    assert said.startswith("f")


def test_what_looks_like_a_comment_in_a_string_stays() -> None:
    text = rb'{"url": "http://x/*y*/", "q": "\"// no", "t": [1,]} // yes'
    assert decode_jsonc(text, "f") == {"url": "http://x/*y*/", "q": '"// no', "t": [1]}


def test_nothing_but_comments_is_nothing() -> None:
    assert decode_jsonc(b"", "f") is None
    assert decode_jsonc(b"\xef\xbb\xbf // later\n", "f") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "a": 1 // one\n  "b": 2\n}', "f:3:3: expecting ',' delimiter."),
        ('{"é": /* é */ nul}', "f:1:15: expecting value."),
        ("[,]", "f:1:2: expecting value."),
        ("[1,,]", "f:1:4: expecting value."),
        ("{,}", "f:1:2: expecting property name enclosed in double quotes."),
        ("{\n /* never", "f:2:2: the comment that begins here has no end."),
        ("{} /*/", "f:1:4: the comment that begins here has no end."),
        ('{"a": "x', "f:1:7: unterminated string starting at."),
        ("{} {}", "f:1:4: extra data."),
        ("{'a': 1}", "f:1:2: expecting property name enclosed in double quotes."),
        ('{"a": 1e999}', "f:1:1: a number out of range, NaN or Infinity, or one half of a \\u pair."),
        ('\ufeff{"a" 1}', "f:1:6: expecting ':' delimiter."),
    ],
)
def test_errors_name_line_and_column(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_jsonc(text.encode(), "f")
    assert str(caught.value) == said


def test_not_utf8_is_said() -> None:
    with pytest.raises(ConfigError, match=r"^f is not UTF-8 text \(byte 3\)"):
        decode_jsonc(b'{"\xff": 1}', "f")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_bottomless_nesting_is_refused(opening: str) -> None:
    with pytest.raises(ConfigError, match="nested more than 100 levels"):
        decode_jsonc((opening * 100_000).encode(), "f")


def test_deep_but_bounded_nesting_is_read() -> None:
    assert decode_jsonc(("[" * MAX_DEPTH + "]" * MAX_DEPTH).encode(), "f") is not None
    many = json.dumps([[]] * 500)
    assert decode_jsonc(many.encode(), "f") == [[]] * 500
