"""Which answers announce work that they do not do."""

from __future__ import annotations

import pytest

from coder.engine.continuation import announces

ANNOUNCE = [
    "Let me look at parse.py.",
    "I'll fix the off-by-one in src/app/parse.py now.",
    "I will update v1.2.3 of the package.",
    "Now I'll change `parse.py` and `test_parse.py`.",
    "The bug is in parse.py. Let me fix it",
    "I found it. I'm going to rewrite `read()` in a.b.c.py.",
    "Next, I'll run the tests with pytest -q tests/test_x.py:",
    "I need to look at config.json first.",
    "Let's start by reading README.md.",
    "Great, that works! Now let me run the tests.",
    "I’ll check the imports.",
    "I am going to add a test for e.g. empty input.",
    "Let me fix that!",
    "So the parser is wrong, and I'll change it.",
    "First done. Now I'll run the tests:",
    "Let me run it:\n```bash\npytest -q\n```",
    "I'll look into it. This may take a moment.",
    "Let me check setup.cfg. One moment...",
    "Next step: update docs/index.md.",
    "I'm now editing main.rs.",
    "Moving on to server.go.",
    "**Let me read `pyproject.toml`.**",
    "Now to fix the second failure in util.ts.",
    "We'll need a helper. I'll write helpers/io.py.",
    "接下来我将修改 parse.py。",
    "我来看看",
    "让我先查看 src/main.py 的内容。",
    "现在我会运行测试：",
    "下一步：修改 config.json。",
    "我先读取 README.md，然后修改它。",
    "我马上修复这个问题！",
    "问题找到了。我这就修改 a.py。",
    "接下来，运行 pytest。",
    "我需要先看一下 utils.py。请稍等。",
]

DO_NOT = [
    "All done.",
    "The tests pass.",
    "Let me know if you need more?",
    "Let me know if anything in parse.py is unclear.",
    "I fixed parse.py. The tests pass now.",
    "I have updated `parse.py`, and all 12 tests pass.",
    "Should I also change setup.py?",
    "If you like, I'll add a test to test_parse.py.",
    "I will wait for your answer.",
    "I'll leave README.md as it is.",
    "Once you confirm, I'll delete old.py.",
    "I need you to set API_KEY first.",
    "You can run it with `python -m app`.",
    "The function returns None when the file is missing.",
    "Which of a.py and b.py do you mean?",
    "The fix is in parse.py:\n```python\nreturn x\n```",
    "I'll be happy to help with anything else.",
    "Let me look at it first. Done: the cause is the cache in store.py.",
    "完成了。",
    "我修改了 parse.py，测试全部通过。",
    "如果你需要，我会再加一个测试。",
    "请告诉我要修改哪个文件。",
    "需要我修改 config.json 吗？",
    "我不会修改 a.py。",
]


@pytest.mark.parametrize("text", ANNOUNCE)
def test_announces(text: str) -> None:
    assert announces(text)
    assert announces("Some words before it, in a paragraph of their own.\n\n" + text)


@pytest.mark.parametrize("text", DO_NOT)
def test_does_not_announce(text: str) -> None:
    assert not announces(text)
    assert not announces("Let me read parse.py.\n\n" + text)
