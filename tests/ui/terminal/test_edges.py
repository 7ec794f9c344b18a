"""The edges of the screen: colours of programs, clusters of characters, recalled pastes, retries, tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from editor_kit import typed
from hypothesis import given
from hypothesis import strategies as st
from pty_kit import BACKSPACE, ENTER, UP, Terminal

from coder.protocol.events import Content, Failed, Notice, ToolCallChanged, TurnEnded
from coder.protocol.messages import Usage
from coder.texts import Catalog, Text
from coder.ui.terminal.input.editing import cluster_end, cluster_start
from coder.ui.terminal.render import theme as themes
from coder.ui.terminal.render.escapes import coloured_lines
from coder.ui.terminal.render.event_lines import detail_lines, message_lines, todo_lines
from coder.ui.terminal.render.markdown import markdown_rows
from coder.ui.terminal.render.streamed_text import StreamedText
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import line_width, plain
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project

FAMILY, FLAG, TONE, ACCENT, HANGUL = "👨‍👩‍👧‍👦", "🇨🇳", "👍🏽", "e\u0301", "\u1112\u1161\u11ab"
CLUSTERS = (FAMILY, FLAG, TONE, ACCENT, HANGUL, "x", "字", " ", "\n")
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


# clusters


@given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=8))
def test_a_cluster_is_one_character(parts: list[str]) -> None:
    text, ends = "".join(parts), [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    at = len(text)
    for end in reversed(ends[:-1]):
        at = cluster_start(text, at)
        assert at == end
    for end in ends[1:]:
        at = cluster_end(text, at)
        assert at == end


@pytest.mark.parametrize(("columns", "lang"), [(80, "en"), (44, "zh")])
def test_keys_take_whole_clusters(project: Project, columns: int, lang: str) -> None:
    with (
        ScriptedServer([{"text": "fine"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns) as terminal,
    ):
        terminal.until_idle()
        terminal.type(f"a{FAMILY}b{FLAG}{ACCENT}c{TONE}")
        terminal.type("\x7f")  # the thumb
        terminal.type("\x1b[D\x1b[D\x1b[D")  # c, the accent, the flag
        terminal.type("\x1b[3~")  # Delete: the flag
        terminal.type("\x1b[D\x7f")  # b; the family goes
        terminal.type("\x1b[C\x1b[C+")  # behind the accent
        terminal.type(ENTER)
        terminal.until("fine")
        said = [m["content"] for m in server.chats[-1]["messages"] if m["role"] == "user"][-1]
        assert said.split("\n")[0] == f"ab{ACCENT}+c"


# colours of programs


def painted(text: str, depth: int = 1, name: str = "dark") -> str:
    return Theme(name, depth).line(coloured_lines(text, "dim")[0])


def test_sgr_is_colour_and_all_else_is_text() -> None:
    assert painted("\x1b[31mred\x1b[0m plain") == "\x1b[31mred\x1b[0m\x1b[2m plain\x1b[0m"
    assert painted("\x1b[1;38;5;208mx") == "\x1b[1;38;5;208mx\x1b[0m"
    assert painted("\x1b[38;5;208mx", depth=0) == "x"  # a terminal that does not have it
    assert painted("\x1b[38;2;1;2;3mx", depth=2) == "\x1b[38;2;1;2;3mx\x1b[0m"
    assert painted("\x1b[38:5:208mx") == "\x1b[38;5;208mx\x1b[0m"
    assert painted("\x1b[31mx", name="none") == "x"
    assert painted("\x1b[8;31msecret\x1b[28m") == "\x1b[31msecret\x1b[0m"  # conceals nothing
    assert painted("\x1b[30;40mhidden") == "\x1b[2mhidden\x1b[0m"
    assert painted("\x1b[38;5;999mx\x1b[38mx\x1b[;m") == "\x1b[2mx\x1b[0m\x1b[2mx\x1b[0m"
    for foreign in ("\x1b[2J", "\x1b[10;10H", "\x1b]0;title\x07", "\x1bP1$r\x1b\\", "\x9b31m", "\x1b[?25l"):
        line = ESCAPES.sub("", painted(f"\x1b[31ma{foreign}b"))
        assert "\x1b" not in line
        assert "\x9b" not in line
        assert line.startswith("a")
        assert line.endswith("b")


def test_a_colour_goes_on_to_the_next_line_and_ends_with_the_output() -> None:
    rows = detail_lines("\x1b[32mone\ntwo\x1b[m\nthree", "output", Catalog("en"), 40)
    assert [row[1][0] for row in rows] == ["sgr:32", "sgr:32", "dim"]
    text = detail_lines("\x1b[32mone", "text", Catalog("en"), 40)  # a file's text is no program's output
    assert plain(text[0]) == "  │ ␛[32mone"


@given(st.text(st.sampled_from("\x1b[]0123456789;:mHJK?\x07\r\nab")))
def test_nothing_but_colours_comes_through(text: str) -> None:
    for line in coloured_lines(text, ""):
        assert "\x1b" not in ESCAPES.sub("", Theme("dark", 2).line(line))
        assert ESCAPES.sub("", Theme("none").line(line)) == plain(line)


@pytest.mark.parametrize("no_colour", [False, True])
def test_colours_of_the_model_s_command(project: Project, no_colour: bool) -> None:
    command = r"printf '\033[32mgood\033[0m \033]0;evil\007\033[2Jrest\n\033[35mleaks'"
    environ: dict[str, Any] = {"NO_COLOR": "1"} if no_colour else {}
    with (
        ScriptedServer([bash_step(command), {"text": "finished"}]) as server,
        Terminal(project, server.url, "--mode", "yolo", **environ) as terminal,
    ):
        terminal.until(lambda: "[yolo]" in terminal.screen)
        terminal.send("go")
        terminal.until("\nfinished\n")
        assert "│ good ␛]0;evil\\x07␛[2Jrest\n" in terminal.text
        assert (b"\x1b[32mgood\x1b[0m" in terminal.raw) is not no_colour
        assert (b"\x1b[35mleaks\x1b[0m" in terminal.raw) is not no_colour
        assert "evil" not in "".join(terminal.paper.titles)
        told = [m["content"] for m in server.chats[-1]["messages"] if m["role"] == "tool"][-1]
        assert "good" in told
        assert "leaks" in told
        assert "\x1b" not in told


# yellow


def test_only_a_question_is_yellow() -> None:
    for name in themes.NAMES:
        for depth in (0, 1, 2):
            for role in {*themes._COMMON, *themes._DARK, *themes._TINTS["light"]} - {"ask"}:
                codes = Theme(name, depth).paint(role, "x")
                assert not re.search(r"[\[;](33|93)[;m]", codes), (name, depth, role)
    dark, light = Theme("dark", 1), Theme("light", 1)
    assert dark.paint("ask", "x") == "\x1b[33mx\x1b[0m"
    assert light.paint("ask", "x") == "\x1b[1;38;5;130mx\x1b[0m"  # readable on white
    roles = [dark.paint(role, "x") for role in ("ask", "note", "retry", "code", "bad", "good")]
    assert len(set(roles)) == len(roles)


# retries


def retry(attempt: int) -> Notice:
    reason = Text("fault.words", words="The server at http://127.0.0.1:1/v1 answered 503 " + "busy " * 20)
    return Notice(Text("model.retry", reason=reason, attempt=attempt, wait="0.5"), "warning")


@pytest.mark.parametrize("width", [44, 80, 200])
def test_retries_are_one_line(width: int) -> None:
    page = Transcript(Catalog("en"), lambda: width)
    page.handle(retry(1))
    assert page.drain(5) == []
    assert plain(page.live(5)[0]).startswith("↻ failed once · The server")
    page.handle(retry(2))
    (row,) = page.live(5)
    assert plain(row).startswith("↻ failed 2 times · The server")
    assert line_width(row) <= width
    page.handle(Content("well"))
    page.handle(TurnEnded(1, "ok", "", 1, Usage(), 0))
    assert [plain(line) for line in page.drain(5)] == [plain(row), "", "well"]


def test_a_retry_on_the_screen(project: Project) -> None:
    failing: dict[str, Any] = {"status": 503, "body": {"error": {"message": "busy"}}}
    with (
        ScriptedServer([failing, failing, {"text": "finished"}]) as server,
        Terminal(project, server.url, columns=44, rows=20) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("retrying in ")
        terminal.until("\nfinished\n")
        terminal.until_idle()
        assert terminal.text.count("↻ ") == 1
        assert "↻ failed 2 times" in terminal.text


def test_a_failure_that_says_how_often_it_was_tried_stands_alone() -> None:
    page = Transcript(Catalog("en"), lambda: 80)
    page.handle(retry(1))
    page.handle(Failed(Text("fault.gave_up", text="It is busy.", n=2)))
    assert [plain(line) for line in page.drain(5)] == ["It is busy. Gave up after 2 attempts."]
    page.handle(retry(1))
    page.handle(Failed("It is another error."))
    assert [plain(line)[:12] for line in page.drain(5)] == ["↻ failed onc", "It is anothe"]


def test_a_server_that_stays_busy_on_the_screen(project: Project) -> None:
    failing: dict[str, Any] = {
        "status": 503,
        "headers": {"Retry-After": "0"},  # else it takes a minute
        "body": {"error": {"message": "busy"}},
    }
    with ScriptedServer([failing] * 9) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(" attempts.")
        terminal.until_idle()
        assert "↻" not in terminal.text


# pastes


def test_a_recalled_paste_stays_folded(tmp_path: Path) -> None:
    keys = ("look at ", "\x1b[200~one\ntwo\nthree\x1b[201~", " please", ENTER)
    first = typed(*keys, UP, BACKSPACE, ENTER, UP, history=tmp_path / "history")
    second = typed("x", BACKSPACE, UP, BACKSPACE, ENTER, history=tmp_path / "history")
    assert first.text == "look at [pasted 3 lines] pleas"
    assert first.sent == ["look at one\ntwo\nthree please", "look at one\ntwo\nthree pleas"]
    assert second.sent == ["look at one\ntwo\nthree plea"]


def test_a_recalled_paste_on_the_screen(project: Project) -> None:
    with ScriptedServer([{"text": "first"}, {"text": "second"}]) as server:
        with Terminal(project, server.url) as terminal:
            terminal.until_idle()
            terminal.paste("alpha\nbeta\ngamma")
            terminal.type(ENTER)
            terminal.until("\nfirst\n")
            terminal.until_idle()
        with Terminal(project, server.url, columns=44, rows=20) as terminal:
            terminal.until_idle()
            terminal.type(UP)
            terminal.until(lambda: "> [pasted 3 lines]" in terminal.screen)
            terminal.type(ENTER)
            terminal.until("\nsecond\n")
            said = [m["content"] for m in server.chats[-1]["messages"] if m["role"] == "user"][-1]
            assert said.startswith("alpha\nbeta\ngamma")


# tables and messages

TABLE = """\
| Command | What it does | Since |
| --- | --- | --- |
| `coder doctor` | says what works here: provider, key, sandbox | 0.1.0 |
| `coder explain` | what the policy would do with a shell line | 0.1.0 |

"""


def rendered(text: str, width: int) -> list[str]:
    stream = StreamedText(markdown_rows)
    return [plain(row) for row in (*stream.feed(text, width), *stream.finish(width))]


@pytest.mark.parametrize("width", range(16, 100, 3))
def test_a_narrow_table_breaks_no_word(width: int) -> None:
    rows = rendered(TABLE, width)
    words = set(re.findall(r"[\w.]+", " ".join(rows)))
    assert {"Command", "provider", "sandbox", "explain", "0.1.0"} <= words
    assert all(len(row) <= width for row in rows)
    if width < 31:
        assert rows[0].startswith("Command: coder")
        assert any(row.startswith("Since: ") for row in rows)


@given(
    st.lists(st.text(st.sampled_from("abcdef,.-'\"()"), min_size=1, max_size=16), min_size=1),
    st.integers(20, 90),
)
def test_a_message_breaks_between_words(words: list[str], width: int) -> None:
    rows = [plain(row) for row in message_lines(" ".join(words), width)]
    assert " ".join(row[2:].rstrip() for row in rows).split() == words


def test_a_long_new_file_shows_its_beginning_and_its_size() -> None:
    page = Transcript(Catalog("en"), lambda: 80)
    body = "".join(f"+line {n}\n" for n in range(200))
    diff = f"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,200 @@\n{body}"
    summary = Text("tool.created", path="new.py", added=200, deleted=0)
    event = ToolCallChanged("1", "write", "success", "new.py", summary, diff, "diff")
    page.handle(event)
    rows = [plain(row).strip() for row in page.drain(0)]
    assert rows[0].startswith("✓ write new.py +200")
    assert "20 + line 19" in rows
    assert rows[-1] == "… 180 more lines (ctrl+o: all of it)"
    page.folds = False  # nothing to unfold it with
    page.handle(event)
    assert len(page.drain(0)) > 200


# the window


@pytest.mark.parametrize(("lang", "light"), [("en", False), ("zh", True)])
def test_a_smaller_window_leaves_nothing_behind(project: Project, lang: str, light: bool) -> None:
    environ: dict[str, Any] = {"COLORFGBG": "0;15"} if light else {}
    asked = {"en": "Allow? ", "zh": "允许吗？"}[lang]
    keys = {"en": "y yes · a always `touch` in this project", "zh": "y 是 · a 在此项目中总是允许 `touch`"}[
        lang
    ]
    with (
        ScriptedServer([bash_step("touch x"), {"text": "finished"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=80, rows=24, **environ) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: asked.strip() in terminal.screen and keys in terminal.screen)
        for columns, rows in ((60, 18), (50, 12), (80, 24)):
            terminal.resize(columns, rows)
            terminal.until(lambda: keys in terminal.screen)  # as wide as the window, once it has settled
            assert terminal.screen.count("\ny ") == 1
            assert terminal.screen.rstrip().endswith(asked.strip())
        terminal.type("y")
        terminal.until("\nfinished\n")
        terminal.until_idle()
        for columns, rows in ((60, 18), (44, 10), (80, 24)):
            terminal.resize(columns, rows)
            terminal.until_idle()
            assert terminal.text.count("scripted\n[default]") == 1


def test_chinese_has_no_english_left(project: Project) -> None:
    """What a person meets in a session; names that scripts rely on stay (`Unknown command`, tools, modes)."""
    with (
        ScriptedServer([bash_step("sleep 30")]) as server,
        Terminal(project, server.url, "--lang", "zh", "--mode", "yolo", rows=50) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/permissions")
        terminal.until("MCP 工具")
        assert re.search(r"\n  bash，只读 +允许\n  bash，其他 +允许\n", terminal.text)
        assert not re.search(r"\b(allow|ask|deny|read-only|otherwise)\b", terminal.text)
        terminal.send("等一下")
        terminal.until("正在运行 sleep 30")
        terminal.type("\x1b")
        terminal.until("\n已取消")
        terminal.until_idle()
        words = set(re.findall(r"\b[A-Za-z]{4,}\b", terminal.screen.split("等一下")[1]))
        assert words <= {"sleep", "token", "scripted", "yolo", "project", "bubblewrap", "bash", "Landlock"}


@pytest.mark.parametrize("width", [0, 20, 80])
def test_a_todo_keeps_to_its_rows(width: int) -> None:
    """Else one with a newline could look like what the person said, or like a question."""
    lines = todo_lines([{"content": "tidy up\n› yes, all of it\nAllow? y", "status": "pending"}], width)
    assert all(plain(line).startswith("  ") and "\n" not in plain(line) for line in lines)
