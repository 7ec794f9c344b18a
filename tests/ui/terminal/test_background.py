"""The `auto` theme asks the terminal for its background; the answer never becomes typed text."""

from __future__ import annotations

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from pty_kit import ENTER, Terminal

from coder.ui.terminal.input.keyboard import Keyboard
from coder.ui.terminal.render.live_region import BACKGROUND_QUERY, can_query_background, theme_for_background
from kit import ScriptedServer
from kit.driving import Project

WHITE, BLACK = "\x1b]11;rgb:ffff/ffff/f0f0", "\x1b]11;rgb:00/00/00"
LIGHT_TINT, DARK_TINT = b"48;5;254", b"48;5;236"


@pytest.mark.parametrize(
    ("answer", "theme"),
    [
        (WHITE, "light"),
        (BLACK, "dark"),
        ("\x1b]11;rgb:f/f/f", "light"),
        ("\x1b]11;rgba:2e2e/3434/3636/ffff", "dark"),
        ("\x1b]11;rgb:0000/0000/ffff", "dark"),  # blue is darker than it is bright
        ("\x1b]11;?", ""),
    ],
)
def test_what_an_answer_means(answer: str, theme: str) -> None:
    assert theme_for_background(answer) == theme


def test_who_is_asked() -> None:
    assert can_query_background("auto", {"TERM": "xterm-256color"})
    assert can_query_background("auto", {"TERM": "tmux-256color", "TMUX": "x"})
    assert not can_query_background("light", {"TERM": "xterm-256color"})
    assert not can_query_background("auto", {"TERM": "xterm-256color", "NO_COLOR": "1"})
    for term in ("dumb", "linux"):
        assert not can_query_background("auto", {"TERM": term})


def test_an_answer_in_pieces_types_nothing() -> None:
    for cut in range(2, len(WHITE) + 2):
        keys: list[KeyPress] = []
        heard: list[str] = []
        keyboard = Keyboard(keys.append)
        keyboard.background = heard.append
        whole = f"{WHITE}\x1b\\"
        keyboard.feed(f"a{whole[:cut]}")
        keyboard.flush()  # the time of an Esc is over
        keyboard.feed(f"{whole[cut:]}b")
        assert "".join(key.data for key in keys) == "ab"
        assert heard == [whole]
        keyboard.feed(f"{BLACK}\x07c")  # late, and unasked for
        assert "".join(key.data for key in keys) == "abc"


@pytest.mark.parametrize(
    ("answer", "tint"), [(WHITE, LIGHT_TINT), (BLACK, DARK_TINT)], ids=["white", "black"]
)
def test_the_theme_follows_the_terminal(project: Project, answer: str, tint: bytes) -> None:
    guess = "15;0" if answer == WHITE else "0;15"  # wrong both times
    with (
        ScriptedServer([{"text": "one"}, {"text": "two"}]) as server,
        Terminal(project, server.url, COLORFGBG=guess) as terminal,
    ):
        terminal.until_idle()
        terminal.until(lambda: BACKGROUND_QUERY.encode() in terminal.raw)
        terminal.type(f"dr{answer}\x1b\\aft{ENTER}")  # among the keys
        terminal.until("\none\n")
        assert "› draft\n" in terminal.text
        assert tint in terminal.raw
        terminal.until_idle()
        terminal.type(f"{answer[:6]}")  # a second one, late and broken off
        terminal.pump(0.3)
        terminal.type(f"{answer[6:]}\x07next{ENTER}")
        terminal.until("two")
        assert terminal.raw.count(BACKGROUND_QUERY.encode()) == 1
        assert ({LIGHT_TINT, DARK_TINT} - {tint}).pop() not in terminal.raw


def test_it_is_not_asked_where_nobody_would_answer(project: Project) -> None:
    project.configure(ui={"theme": "dark"})
    with ScriptedServer([{"text": "one"}]) as server:
        with Terminal(project, server.url) as terminal:
            terminal.until_idle()
            terminal.send("go")
            terminal.until("one")
            assert b"\x1b]11;" not in terminal.raw
        project.configure(ui={"theme": "auto"})
        with Terminal(project, server.url, term="dumb") as terminal:
            terminal.until_prompt()
            assert b"\x1b]11;" not in terminal.raw
        piped = project.coder("--once", "go", url=server.url)
        assert "\x1b]" not in piped.stdout + piped.stderr
