"""Which inputs are complex (seed 000 §7), and the list such a task starts with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.engine.plan import first_todos, is_complex


@pytest.mark.parametrize(
    "text",
    [
        "1. 登录 2. 注册",
        "1) a 2) b",
        "做 A/B/C",
        "x" * 40,
        "测" * 40,
        "重构并且优化，同时迁移",  # three keywords
        "读，改，测",  # three segments
        "one, two, three",
        "a\nb\nc",
        "第一步，看 第二步，改",
    ],
)
def test_complex(text: str) -> None:
    assert is_complex(text)


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "x" * 39,
        "测" * 39,
        "重构，优化",
        "see src/a/b.py",
        "version 1.2 is out",
        "a,b",
        "和/或",
        "",
        ",,,",
        "A/B",
    ],
)
def test_not_complex(text: str) -> None:
    assert not is_complex(text)


def test_length_is_counted_in_characters_after_trimming() -> None:
    assert not is_complex("  " + "测" * 39 + "  \n")
    assert is_complex("  " + "测" * 40 + "  \n")


def test_todos_come_from_what_was_said() -> None:
    assert first_todos("1. read 2. write 3. run") == ["read", "write", "run"]
    assert first_todos("读代码，改错误，跑测试") == ["读代码", "改错误", "跑测试"]
    assert len(first_todos("please make the whole thing very much faster than it is now")) == 3
    assert len(first_todos(",".join("abcdefghijklmnopq"))) == 10


@given(st.text(max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    is_complex(text)
    todos = first_todos(text)
    assert all(todo.strip() for todo in todos) or not text.strip()
