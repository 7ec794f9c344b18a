"""Counting a long text in pieces: it comes to the same but for a few tokens at the cuts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coder.context.tokens import TokenCounter


@settings(max_examples=30)
@given(st.text(min_size=1, max_size=40), st.integers(1_000, 20_000))
def test_in_pieces_it_comes_to_the_same(piece: str, length: int) -> None:
    from splintr import Tokenizer

    text = (piece * (length // len(piece) + 1))[:length]
    text = text.encode("utf-8", "replace").decode("utf-8")
    whole = len(Tokenizer.from_pretrained("o200k_base").encode_ordinary(text))
    counted = TokenCounter("o200k_base").count(text)
    assert abs(counted - whole) <= 8 * (length // 4_096)
