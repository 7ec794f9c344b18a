"""Which inputs are complex (seed 000 §7), and the list such a task starts with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.engine.complex_tasks import first_todos, is_complex, without_pastes


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


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1. read 2. write 3. run", ["read", "write", "run"]),
        ("1．登录\n2．注册", ["登录", "注册"]),
        ("1、登录2、注册", ["登录", "注册"]),
        ("请做：（1）登录（2）注册", ["登录", "注册"]),
        ("①登录②注册③注销", ["登录", "注册", "注销"]),
        ("一、登录\n二、注册", ["登录", "注册"]),
        ("do A/B/C", ["A", "B", "C"]),
        ("登录/注册/注销", ["登录", "注册", "注销"]),
        ("请实现登录/注册/注销功能", ["登录", "注册", "注销"]),
        ("Please:\n- add a\n- fix b\n\nThen tell me.", ["add a", "fix b"]),
    ],
)
def test_an_enumeration_is_the_list(text: str, items: list[str]) -> None:
    assert is_complex(text)
    assert first_todos(text) == items


@pytest.mark.parametrize(
    "text",
    [
        "Hi, can you tell me what this project does, please, in one sentence?",
        "读代码，改错误，跑测试",
        "look at src/app/x.py, at https://a.example/b/c and at docs/a/b/c/d.md please",
        "it worked until 2024/05/10, with version 1.2 and version 2.3, and then it did not",
        "use 1/2/3 of it and/or less, between 1.5 and 2.5, as in figure (1) and (2) there",
        "看看 文档/接口/说明.md 和/或 src/登录/注册/页面.py 有没有什么问题，谢谢",
    ],
)
def test_without_one_the_first_sentence_is_the_list_and_never_a_piece_of_it(text: str) -> None:
    assert first_todos(text) == [text]


def test_the_first_sentence_is_found() -> None:
    asked = "Rename e.g. the parser's entry. Then update the docs. And the tests."
    assert first_todos(asked) == ["Rename e.g. the parser's entry."]
    assert first_todos("你好。请重构登录页，并且迁移接口。谢谢！") == ["请重构登录页，并且迁移接口。"]
    assert first_todos("看 @shot.png，下面是报错：\n让它返回空字符串") == ["让它返回空字符串"]
    assert len(first_todos("word " * 200)[0]) == 200
    assert len(first_todos("\n".join(f"{n}. item" for n in range(1, 30)))) == 10


def test_what_was_pasted_or_stands_in_a_fence_was_not_typed() -> None:
    log = "a, b, c\nd, e, f"
    assert without_pastes(f"fix {log} now", [log]) == "fix \n now"
    assert without_pastes(f"fix this\n```\n{log}\n```\n", []) == "fix this"


@given(st.text(max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    is_complex(text)
    todos = first_todos(text)
    assert all(todo.strip() for todo in todos) or not text.strip()
