"""What a person's words about verification mean, in English and Chinese."""

from __future__ import annotations

from pathlib import Path

import pytest

from coder.engine.verify.choice import asked_for, named, refused

ASKED = [
    "please verify",
    "do it and verify",
    "Fix the bug and run the tests.",
    "Fix it, run the test suite, and tell me why they fail",
    "don't forget to run the tests",
    "3. run the tests",
    "Can you fix it and run the tests?",
    "make sure the tests pass",
    "add a feature and test it",
    "fix it and run cargo test",
    "verify with make check",
    "run `npm test`",
    "执行验证",
    "跑一下测试",
    "改完后跑测试",
    "别忘了跑测试",
    "能跑一下测试吗？",
    "修改 app.py，然后验证",
    "改好以后测试一下",
    "确保测试都通过",
    "测试必须通过",
    "用 cargo test",
    "用make check验证一下",
]
NOT_ASKED = [
    "hi",
    "add a test",
    "fix the failing tests",
    "why do the tests fail?",
    "why do the tests fail",
    "does this pass?",
    "Do the tests pass?",
    "how do I run the tests?",
    "should I run the tests?",
    "fix verify.py",
    "edit test_run.py",
    "run tests.py",
    "the verification code is wrong",
    "add a function to verify the token",
    "make login verify the password",
    "pytest -q fails, fix it",
    "Add a Makefile target to run the tests",
    'rename the button "Run tests" to Go',
    "fix the `run the tests` label",
    "use pytest for the tests",
    "run `python gen.py` and fix what it writes",
    "测试为什么失败？",
    "测试通过了吗？",
    "如何运行测试",
    "验证码错误",
    "加上邮箱验证功能",
    "登录验证逻辑有误",
    "写一个脚本来运行测试",
    "用 pytest 写单元测试",
    "补充测试",
]
REFUSED = [
    "don't run the tests",
    "Don\u2019t run tests",
    "fix it without running tests",
    "Fix it but do not verify",
    "Tests are slow, don't run them",
    "I don't want you to run the tests",
    "no need to run the tests",
    "skip the tests",
    "no tests please",
    "do not run pytest",
    "don't run `make check`",
    "I'll run the tests myself",
    "不要跑测试",
    "先别测试",
    "不用测试",
    "先不跑测试",
    "无需验证",
    "测试先别跑",
    "不要运行 pytest",
    "不要用 make check 验证",
    "我自己跑测试",
]
NOT_REFUSED = [
    "don't forget to run the tests",
    "don't change the tests",
    "don't break anything and run the tests",
    "there are no tests",
    "the tests do not pass",
    "don't verify the SSL certificate in the client",
    "不要忘记跑测试",
    "不要修改测试",
    "不要改接口，跑测试",
    "测试不通过，修一下",
]


@pytest.mark.parametrize("text", ASKED)
def test_a_request(text: str) -> None:
    assert asked_for(text)
    assert not refused(text)


@pytest.mark.parametrize("text", [*NOT_ASKED, *REFUSED])
def test_no_request(text: str) -> None:
    assert not asked_for(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize("text", [*NOT_REFUSED, *NOT_ASKED])
def test_no_refusal(text: str) -> None:
    assert not refused(text)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("verify with `make check`", ["make check"]),
        ('verify with "make check"', ["make check"]),
        ("verify it using tox", ["tox"]),
        ("verify by running ./check.sh now", ["./check.sh"]),
        ("Use `pytest tests/unit` to verify", ["pytest tests/unit"]),
        ("check it with `make check` and `pytest -q`", ["make check", "pytest -q"]),
        ("请用 `tox -e py311` 验证", ["tox -e py311"]),
        ("用 make check 验证", ["make check"]),
        ("run pytest -q.", ["pytest -q"]),
        ("run `pytest`", ["pytest -q"]),  # the same check as the list spells it
        ("run npm test", ["npm test -- --watch=false"]),
        ("verify with care", []),
        ("check it with `x=1`", []),
        ("don't verify with make check", []),
    ],
)
def test_the_command_that_is_named(text: str, commands: list[str]) -> None:
    assert named(text, Path("/")) == commands
