"""Which sentences claim that tests pass, and which only speak of them."""

from __future__ import annotations

import pytest

from coder.engine.verify.claims import claim_in

CLAIMS = [
    "The tests in tests/test_keys.py pass.",
    "All tests for slugify and keys.py now pass.",
    "tests/test_keys.py and tests/test_lru.py pass.",
    "`pytest -q tests/test_lru.py` passes.",
    "I ran `pytest -q` and it passed.",
    "`npm run test -- --watch=false` succeeded.",
    "I ran the doctests and they pass.",
    "All tests pass.",
    "Tests pass.",
    "All 12 tests now pass.",
    "Fixed the comparison; the tests pass.",
    "I fixed the bug in `cache.py`, and all the tests are passing now.",
    "The full test suite passes.",
    "The test suite is green.",
    "I ran the tests and they all passed.",
    "I ran `pytest -q`; 14 passed.",
    "Result: 31 tests passed, 0 failed.",
    "**All tests pass.** The fix is in `a.py`.",
    "- All existing tests still pass",
    "✅ All unit tests pass",
    "Verified with pytest.",
    "Verified by running the test suite.",
    "The tests pass, but I did not update the docs.",
    "It was not easy. All tests pass.",
    "Done. Everything passes.",
    "docs/index.rst:163 has it. I ran the doctests and they pass.",
    "The new test and the existing tests pass.",
    "I don't like the name; the tests pass.",
    "All tests pass (12 of 12).",
    "All tests pass with Python 3.11.",
    "全部测试通过（12 个）。",
    "All the tests pass without errors.",
    "All of the tests passed successfully.",
    "`pytest` passes now.",
    "All 3 tests in tests/test_price.py pass.",
    "**Tests:** all pass",
    "All tests pass (5 of 5).",
    "我已运行测试，全部通过。",
    "All tests have passed, so this should be safe to merge.",
    "所有测试通过。",
    "所有测试均已通过。",
    "测试全部通过！",
    "单元测试都通过了。",
    "修复完成，测试已通过。",
    "已修改 `cache.py`，全部 12 个测试通过。",
    "现有用例全部通过。",
    "通过了全部测试。",
    "测试通过，但文档没有更新。",
    "**所有测试通过**",
]
NO_CLAIMS = [
    "`pytest -q` passes arguments through.",
    "make test passes FLAGS to the compiler.",
    "tests/test_a.py passes a list to f().",
    "The tests of the parser pass strings in.",
    "I did not run `pytest -q`.",
    "If `pytest -q` passes, merge.",
    "The tests do not pass.",
    "Not all tests pass.",
    "No tests pass.",
    "Only 3 of 5 tests pass.",
    "3 of 5 tests pass.",
    "Some tests pass, others fail.",
    "31 tests passed, 2 failed.",
    "Two of the tests passed, one failed.",
    "The tests pass except for test_foo.",
    "The tests pass, apart from test_foo.",
    "All but one of the tests pass.",
    "The test suite passes only on Linux.",
    "I doubt that the tests pass.",
    "除 test_a 外，测试都通过了。",
    "个别测试通过了。",
    "The tests don't pass yet.",
    "I could not run the tests.",
    "No tests were run.",
    "The tests should pass now.",
    "All tests will pass once you install the package.",
    "Tests would pass if the server were up.",
    "Run `pytest` to confirm that all tests pass.",
    "Please make sure the tests pass before you merge.",
    "If the tests pass, merge it.",
    "Once all tests pass I will commit.",
    "Do the tests pass?",
    "Whether the tests pass was not checked.",
    'You said "all tests pass".',
    "> all tests pass",
    "```\n14 passed in 0.1s\n```",
    "The tests passed before my change.",
    "I expect the tests to pass.",
    "Hopefully all tests pass.",
    "The test passes the path to the function.",
    "The tests pass through the parser.",
    "I haven't verified that the tests pass.",
    "Most tests pass; two fail.",
    "Some of the tests pass.",
    "I changed the fixture so that the tests pass.",
    "The goal: all tests pass.",
    "- [ ] all tests pass",
    "Added a test for the password check.",
    "The check that the tests pass is missing.",
    "Tests: not run.",
    "The tests pass `None` as the key.",
    "The new tests pass a mock client to it.",
    "All tests pass their own clock.",
    "测试通过 `pytest` 运行。",
    "测试通过 mock 完成。",
    "The value is passed to the tests.",
    "I added tests.",
    "The bypass is tested.",
    "测试没有通过。",
    "测试未通过。",
    "并非所有测试都通过。",
    "测试应该会通过。",
    "请确认测试通过。",
    "如果测试通过，就合并。",
    "测试是否通过？",
    "测试通过后再提交。",
    "确保所有测试通过。",
    "我没有运行测试。",
    "为了让测试通过，需要安装依赖。",
    "改动前测试是通过的。",
    "部分测试通过。",
    "你说“所有测试通过”。",
    "大部分测试通过，两个失败。",
    "运行 `pytest` 即可确认测试通过。",
    "新增了一个测试。",
    "测试通过率为 80%。",
]


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_claim_is_found(sentence: str) -> None:
    assert claim_in(sentence)


@pytest.mark.parametrize("sentence", NO_CLAIMS)
def test_other_sentences_are_no_claims(sentence: str) -> None:
    assert not claim_in(sentence)


def test_it_is_found_in_a_longer_answer_and_quoted_as_it_stands() -> None:
    answer = "## Summary\n\nFixed `a.py`:\n\n```py\nassert x\n```\n\nAll 3 tests now pass. See `a.py:3`."
    assert claim_in(answer) == "All 3 tests now pass."
    assert claim_in("**tests/test_my_keys.py passes**") == "tests/test_my_keys.py passes"


@pytest.mark.parametrize("text", ["all the " * 4000, "测试已" * 6000, "> " * 9000, "`" * 20_000, "12 " * 300])
def test_an_endless_sentence_is_no_claim_and_takes_no_time(text: str) -> None:
    assert not claim_in(text)
