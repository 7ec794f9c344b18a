"""What calls a person who looks elsewhere: the title, the bell, a notification."""

from __future__ import annotations

import time

import pytest
from pty_kit import CTRL_D, Terminal
from repl_kit import SIZES, WRITE

from coder.config.schema import UiSection
from coder.ui.terminal import statusline as notify
from kit import ScriptedServer
from kit.driving import Project

SCRIPT = [{"text": "first answer"}, WRITE, {"text": "second answer"}]


def two_turns(project: Project, url: str, columns: int, rows: int) -> Terminal:
    """One that ends by itself and one that asks; the terminal as it then is."""
    with Terminal(project, url, columns=columns, rows=rows) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("first answer")
        terminal.until_idle()
        terminal.send("again")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.send("n")
        terminal.until("second answer")
        terminal.until_idle()
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        return terminal


@SIZES
def test_the_bell_rings_at_the_end_of_a_long_turn_and_at_its_questions(
    project: Project, columns: int, rows: int
) -> None:
    project.configure(ui={"bell_seconds": 0, "notify": True})
    with ScriptedServer(SCRIPT) as server:
        terminal = two_turns(project, server.url, columns, rows)
    assert terminal.paper.bells == 3
    raw = terminal.raw.decode()
    assert raw.count("\x1b]9;coder · project: done\x07") == 2
    assert raw.count("\x1b]9;coder · project: a question is waiting\x07") == 1


@SIZES
def test_a_person_who_is_there_hears_nothing_and_the_title_says_what_goes_on(
    project: Project, columns: int, rows: int
) -> None:
    with ScriptedServer(SCRIPT) as server:
        terminal = two_turns(project, server.url, columns, rows)
    assert terminal.paper.bells == 0
    assert b"\x1b]9;" not in terminal.raw
    rest, busy = "coder · project", "● coder · project"
    assert terminal.paper.titles == [rest, busy, rest, busy, rest]
    assert terminal.raw.index(b"\x1b[22;2t") < terminal.raw.index(b"\x1b]2;")  # the old one is kept …
    assert terminal.raw.rindex(b"\x1b[23;2t") > terminal.raw.rindex(b"\x1b]2;")  # … and comes back


@SIZES
def test_bell_and_title_can_be_switched_off(project: Project, columns: int, rows: int) -> None:
    project.configure(ui={"bell_seconds": 0, "bell": False, "title": False})
    with ScriptedServer(SCRIPT) as server:
        terminal = two_turns(project, server.url, columns, rows)
    assert terminal.paper.bells == 0
    assert terminal.paper.titles == []
    assert b"\x1b[22;2t" not in terminal.raw
    assert b"\x1b[23;2t" not in terminal.raw


def test_keys_put_the_bell_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    sent: list[str] = []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    notifier = notify.Notifier(UiSection(), {}, "coder", sent.append)
    now[0] = 19
    notifier.key_pressed()
    now[0] = 38
    notifier.alert("done")
    assert sent == []
    now[0] = 39
    notifier.alert("done")
    assert sent == ["\a"]


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;coder, x: a␛b\x07"),
        ({"TERM": "foot"}, "\x1b]777;notify;coder, x;a␛b\x07"),
        ({"TERM": "xterm", "VTE_VERSION": "7600"}, "\x1b]777;notify;coder, x;a␛b\x07"),
        ({"TERM": "tmux-256color", "TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;coder, x: a␛b\x07\x1b\\"),
    ],
    ids=["osc-9", "osc-777", "vte", "tmux"],
)
def test_the_notification_that_this_terminal_knows(environ: dict[str, str], sequence: str) -> None:
    assert notify.notification_sequence("coder; x", "a\x1bb", environ) == sequence
