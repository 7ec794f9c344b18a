"""`!` is a real terminal: the program has keys, screen, size and signals, and gives the terminal back."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from pty_kit import CTRL_C, ENTER, ESC, Terminal, messages
from repl_kit import cancelled_line

from coder.base.process.on_terminal import ScreenFilter, run_on_terminal
from coder.base.process.run import ProcessCancelled
from kit import ScriptedServer
from kit.driving import Project, left_running

SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (44, 20, "zh"), (200, 50, "en")],
    ids=["80x24 en", "44x20 zh", "200x50 en"],
)
# Paints the alternate screen, waits for a key, and tells which it was.
PAINTER = """
import os, sys, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
sys.stdout.write("\\x1b[?1049h\\x1b[2J\\x1b[5;3Hpainted")
sys.stdout.flush()
key = os.read(0, 16)
size = os.get_terminal_size()
sys.stdout.write("\\x1b[?1049l")
sys.stdout.flush()
termios.tcsetattr(0, termios.TCSADRAIN, before)
print("key", key, "size", size.columns, size.lines)
"""


def kept(project: Project) -> list[str]:
    return [entry["content"] for entry in project.of_type("command")]


@SCREENS
def test_colours_and_questions(project: Project, columns: int, rows: int, lang: str) -> None:
    line = (
        "!printf '\\033[31mred\\033[0m? \\033]0;stolen\\007'; read answer; echo \"got $answer\"; tty; exit 3"
    )
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type(line)
        terminal.until(lambda: "exit 3" in terminal.screen.replace("\n", ""))
        terminal.type(ENTER)
        terminal.until(lambda: b"\x1b[31mred\x1b[0m? " in bytes(terminal.raw))
        terminal.type("blue" + ENTER)
        terminal.until("got blue")
        terminal.until("/dev/")
        terminal.until({"en": "exit 3", "zh": "退出码 3"}[lang] + "\n")
        terminal.until_idle()
        assert "␛]0;stolen" in terminal.text  # shown, not obeyed
    (text,) = kept(project)
    assert text.startswith(f"command: {line[1:]}\nexit_code: 3\nstdout:\nred? ")
    assert "got blue" in text
    assert "\x1b" not in text


@SCREENS
def test_a_program_with_its_own_screen(project: Project, columns: int, rows: int, lang: str) -> None:
    painter = project.write("painter.py", PAINTER)
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send(f"!{sys.executable} {painter.name}")
        terminal.until(lambda: "painted" in terminal.screen)
        terminal.resize(columns + 3, rows + 2)
        terminal.type(ESC)  # the program's own
        terminal.until(lambda: "key b'" in terminal.text)
        terminal.until_idle()
        assert r"key b'\x1b'" in terminal.text
        terminal.send("/todos")
        terminal.until_idle()
    text = kept(project)[0]
    assert "painted" not in text
    assert "exit_code: 0" in text


def test_the_size_is_the_windows(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("!trap 'stty size; exit' WINCH; echo waiting; while :; do read -t 0.05 x; done")
        terminal.until("\nwaiting")
        terminal.resize(71, 19)
        terminal.until("19 71")
        terminal.until_idle()


def test_escape_ends_what_has_no_screen(project: Project) -> None:
    word = "61.25"
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send(f"!echo begun; sleep {word}")
        terminal.until("\nbegun")
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until_idle()
        assert f"sleep {word}" in cancelled_line(terminal)
        assert not left_running(f"sleep {word}")
    assert "cancelled" in kept(project)[0]
    assert "begun" in kept(project)[0]


def test_ctrl_c_is_the_programs(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("!trap 'echo caught; exit 7' INT; echo begun; sleep 61.5")
        terminal.until("\nbegun")
        terminal.type(CTRL_C)
        terminal.until("caught")
        terminal.until("exit 7\n")
        terminal.until_idle()
        assert "Cancelled" not in terminal.text
    assert "exit_code: 7" in kept(project)[0]


def test_the_cursor_stays_where_an_editor_left_it() -> None:
    """Resetting the margins moves it home; the prompt would then be drawn over what is on the screen."""
    screen = ScreenFilter()
    screen.whole = True
    screen.feed(b"\x1b[?1049h\x1b[1;30r\x1b[?25l text \x1b[?25h\x1b[?1049l")
    assert re.fullmatch(rb"(?:\x1b\[\?\d+[hl]|\x1b7\x1b\[r\x1b8|\x1b\(B\x0f|\x1b\[0m|\r\n)+", screen.end())


def test_a_program_that_dies_leaves_letters_letters(project: Project) -> None:
    """Not the line-drawing characters of the set that it had switched to."""
    program = "import os, sys, tty; tty.setcbreak(0); print('\\x1b(0', end='', flush=True); os.abort()"
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type(f'!{sys.executable} -c "{program}"{ENTER}')
        terminal.until("exit 134")
        terminal.until_idle()
        after = bytes(terminal.raw).rpartition(b"\x1b(0")[2]
        assert after.startswith(b"\x1b(B\x0f\x1b[0m")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_what_reorders_text_is_shown_however_it_arrives(size: int) -> None:
    screen, printed = (
        ScreenFilter(),
        "é \u202ecod.exe\u2066 \x9b2J \u061c…\x1b]52;c;eA==\x07 \x1b[31mred\x1b[0m".encode(),
    )
    shown = b"".join(screen.feed(printed[at : at + size]) for at in range(0, len(printed), size))
    told = "é \\u202ecod.exe\\u2066 \\x9b2J \\u061c…␛]52;c;eA==\x07 \x1b[31mred\x1b[0m"
    assert (shown + screen.end()).decode() == f"{told}\x1b[0m\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_controls_of_eight_bits_are_shown(size: int) -> None:
    """Also those that hide in a broken, overlong or unfinished character."""
    screen, printed = (
        ScreenFilter(),
        b"\x9b2J \xc3\xa9\x84 \xe2\x9b0 \xc0\x9b \xe0\x80\x9bA \xed\xa0\x9bB \xf0\x9f\x98",
    )
    printed += " 中😀\u2028…\n".encode() + b"\xf0\x9f\x98"
    shown = b"".join(screen.feed(printed[at : at + size]) for at in range(0, len(printed), size))
    told = b"\\x9b2J \xc3\xa9\\x84 \xe2\\x9b0 \xc0\\x9b \xe0\\x80\\x9bA \xed\xa0\\x9bB \xf0\\x9f\\x98"
    told += " 中😀\u2028…\n".encode() + b"\xf0\\x9f\\x98"
    assert shown + screen.end() == told + b"\x1b[0m\r\n"


def test_a_key_typed_while_the_program_starts_is_not_lost(tmp_path: Path) -> None:
    person, terminal = os.openpty()
    os.write(person, ESC.encode())  # the terminal is not raw yet

    async def run() -> None:
        await run_on_terminal(
            ["sleep", "600"],
            cwd=tmp_path,
            environment=os.environ,
            keys=terminal,
            screen=terminal,
            keep_bytes=1000,
            typed_ahead=lambda _keys: None,
        )

    try:
        with pytest.raises(ProcessCancelled):
            asyncio.run(asyncio.wait_for(run(), 60))
    finally:
        os.close(person)
        os.close(terminal)


def test_stderr_is_kept_apart_and_is_a_terminal(project: Project) -> None:
    line = "!echo out; test -t 2 && echo err >&2; stty size <&2; stty -a <&2 | grep -o 'rows [0-9]*'; exit 3"
    with ScriptedServer([]) as server, Terminal(project, server.url, columns=70, rows=21) as terminal:
        terminal.until_idle()
        terminal.send(line)
        terminal.until("exit 3\n")
        terminal.until_idle()
        assert "\nerr\n" in terminal.text
    (entry,) = project.of_type("command")
    assert entry["content"].endswith("exit_code: 3\nstdout:\nout\n21 70\nrows 21\nstderr:\nerr")


@pytest.mark.skipif(shutil.which("more") is None, reason="more is not installed")
def test_a_program_that_reads_keys_from_stderr_gets_them(project: Project) -> None:
    project.write("long.txt", "".join(f"row {n}\n" for n in range(200)))
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("!more long.txt")
        terminal.until("row 20\n")
        terminal.type(" ")
        terminal.until("row 40\n")
        terminal.type("q")
        terminal.until_idle()
    assert "row 199" not in kept(project)[0]


@pytest.mark.parametrize("enter", [False, True])
def test_what_was_typed_for_the_prompt_gets_there(project: Project, enter: bool) -> None:
    """As in a shell: what the command does not read is for the next prompt."""
    project.write("wait.sh", "read first; echo got $first; until test -e go; do sleep 0.02; done; echo ended")
    with (
        ScriptedServer([{"text": "answered"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("!sh wait.sh")
        terminal.pump(0.1)
        terminal.type("its own\rfor the é" + "\r" * enter)
        terminal.until("got its own")
        terminal.until("for the é")
        project.write("go", "")
        terminal.until("\nended")
        terminal.until("answered" if enter else lambda: terminal.screen.endswith("> for the é"))
        assert [messages(server)[-1] for _ in server.chats] == ["for the é"] * enter


def test_a_cancel_drops_what_was_typed(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("!echo begun; sleep 61.75")
        terminal.until("\nbegun")
        terminal.type("yes\r")
        terminal.until("\nyes")
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until_idle()
        assert server.chats == []
