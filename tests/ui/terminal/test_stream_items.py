"""Every kind of thing that streams, on three sizes of the screen: in its place, in its colours, harmless."""

from __future__ import annotations

import re

import pytest
from pty_kit import ESC, Terminal

from coder.ui.terminal.render.markdown import BlockState, markdown_rows
from coder.ui.terminal.render.markdown_blocks import Block
from coder.ui.terminal.render.width import plain
from kit import ScriptedServer
from kit.driving import Project

SIZES = [(80, 24), (40, 10), (200, 50)]
URL = "https://example.com/" + "path/" * 12 + "end"
MARKDOWN = f"""\
# Head of it

Some **strong** and `inline code`, a [link](https://example.org/x) and {URL} too.

1. first of the items, long enough to be wrapped where there are only forty columns
   - nested within it
10. tenth

> quoted words

| name | count | more |
|:-----|------:|------|
| alpha | 1 | {"cell " * 20}|
| beta | 12345 | b |

```python
def f(x):  # why
    return "text"
```

中文段落要在字与字之间换行，标点不能放在行首，也不能丢字，这一句话比四十列还要长一些。

- [x] done
"""
EVIL = "a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c\x1b]8;;http://x\x1b\\d\x9b31me\rf\u202eg\x07h"
HARMLESS = "a␛[2Jb␛]52;c;ZXZpbA==\\x07c␛]8;;http://x␛\\d\\x9b31me\\x0df\\u202eg\\x07h"


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_markdown_and_thinking(project: Project, columns: int, rows: int) -> None:
    script = [{"reasoning": f"thinking first {EVIL}", "text": MARKDOWN + "\n" + EVIL, "chunk": 7}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1 and "".join(HARMLESS.split()) in _packed(terminal))
        terminal.until_idle()
        raw, text, packed = bytes(terminal.raw).decode(), terminal.text, _packed(terminal)
    assert packed.count(HARMLESS) == 2  # thought and answer
    assert "\x1b]52" not in raw
    assert "\x1b]8" not in raw
    assert "\x1b[2J" not in raw
    assert "\x9b" not in raw
    assert "\u202e" not in raw
    assert "\x1b[2mthinking" in raw
    assert "# Head of it" in text
    assert "\x1b[96minline code" in raw
    assert URL in packed
    assert "link(https://example.org/x)" in packed
    assert "\n10. tenth" in text
    assert "\n   ◦ nested within it" in text
    assert "│ quoted words" in text
    if columns == 40:  # cells of more than three rows: a block for each row instead
        assert "\nname: alpha\ncount: 1\nmore: cell " in text
    else:
        assert _aligned([row for row in text.split("\n") if re.match(r"(name|alpha|beta) ", row)])
    assert "\x1b[95mdef\x1b[0m" in raw
    assert "\x1b[92m" in raw
    assert "☑ done" in text
    assert all(len(row) <= columns and row[:1] not in "，。" for row in text.split("\n") if row)
    assert "中文段落要在字与字之间换行，标点不能放在行首，也不能丢字，这一句话比四十列还要长一些。" in packed


def _packed(terminal: Terminal) -> str:
    return "".join(terminal.text.split())


def _aligned(rows: list[str]) -> bool:
    bars = [[at for at, char in enumerate(row) if char == "│"] for row in rows]
    return len(rows) == 3 and bars[0] == bars[1] == bars[2] and len(bars[0]) == 2


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_tools_and_todos(project: Project, columns: int, rows: int) -> None:
    project.write("evil.txt", f"{EVIL}\n")
    todos = [{"content": "look", "status": "completed"}, {"content": "change", "status": "in_progress"}]
    command = (
        "for n in 1 2 3; do echo live$n; sleep 0.1; done; cat evil.txt; until [ -e go ]; do sleep 0.02; done"
    )
    script = [
        {"calls": [{"name": "todowrite", "arguments": {"todos": todos}}]},
        {"calls": [{"name": "bash", "arguments": {"command": command}}]},
        {"calls": [{"name": "write", "arguments": {"path": "new.py", "content": "print('x')\n"}}]},
        {"text": "all done"},
    ]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--mode", "yolo", columns=columns, rows=rows) as terminal,
    ):
        terminal.until(lambda: "[yolo]" in terminal.screen)
        terminal.send("go")
        terminal.until(lambda: "  │ live3" in terminal.screen)  # while it runs
        assert re.search(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] running", terminal.screen)
        project.write("go", "")
        terminal.until("all done")
        terminal.until_idle()
        raw, text, packed = bytes(terminal.raw).decode(), terminal.text, _packed(terminal)
    assert "  ☑ look\n  ▸ change" in text
    assert re.search(r"✓runforn.*·\d+\.\ds", packed)
    assert packed.count("live3") == 1  # as a tail only while it ran
    assert HARMLESS in packed
    assert "\x1b]52" not in raw
    assert "\u202e" not in raw
    assert "  1 + print('x')\n" in text


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_fence_that_a_cancel_leaves_open(project: Project, columns: int, rows: int) -> None:
    code = "```python\n" + "".join(f"x{n} = 'value{n}'\n" for n in range(2000))
    with (
        ScriptedServer([{"text": code, "chunk": 9, "delay": 0.005}, {"text": "plain **again**"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("x20 = ")
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until_idle()
        terminal.send("next")
        terminal.until("plain again")
        terminal.until_idle()
        found = [int(n) for n in re.findall(r"^x(\d+) = 'v", terminal.text, re.MULTILINE)]
    assert found == list(range(len(found)))
    assert len(found) > 20


@pytest.mark.parametrize(
    "name", ["pkg/__init__.py:183", "src/__main__.py", "__init__.py", "a/_b_/c.py", "tests/__snapshots__/x"]
)
def test_underscores_of_a_name_are_no_emphasis(name: str) -> None:
    rows, _ = markdown_rows(Block(f"See {name} for __that__ and _this_.\n", "prose"), 100, BlockState())
    assert plain(rows[0]) == f"See {name} for that and this."
