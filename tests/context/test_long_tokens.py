"""Counting a long text in pieces: it comes to the same but for a few tokens at the cuts."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from splintr import AnyTokenizer, Tokenizer

from coder.context.conversation import TokenCounter


@pytest.fixture(scope="module")
def tokenizer() -> AnyTokenizer:
    return Tokenizer.from_pretrained("o200k_base")


@settings(max_examples=30)
@given(st.text(min_size=1, max_size=40), st.integers(1_000, 20_000))
def test_in_pieces_it_comes_to_the_same(tokenizer: AnyTokenizer, piece: str, length: int) -> None:
    text = (piece * (length // len(piece) + 1))[:length]
    text = text.encode("utf-8", "replace").decode("utf-8")
    counted = TokenCounter("o200k_base").count(text)
    assert abs(counted - len(tokenizer.encode_ordinary(text))) <= 8 * (length // 4_096)


def test_a_vocabulary_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and subagents have counters of their own, and share what takes 40 MB."""
    loaded = []

    class Fake:
        @staticmethod
        def from_pretrained(name: str) -> SimpleNamespace:
            loaded.append(name)
            return SimpleNamespace(encode_ordinary=str.split)

    monkeypatch.setitem(sys.modules, "splintr", SimpleNamespace(Tokenizer=Fake))
    assert [TokenCounter(name).count("one two") for name in ("a", "a", "b", "a")] == [2, 2, 2, 2]
    assert loaded == ["a", "b"]
