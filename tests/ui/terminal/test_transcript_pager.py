"""Looking back inside a session: the transcript in the pager, a resumed session's conversation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pty_kit import ENTER, Terminal
from repl_kit import Gate, says, squeezed

from kit import ScriptedServer
from kit.calls import bash, call, edit
from kit.driving import Project, drive

CTRL_O = "\x0f"
SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang", "theme"),
    [(80, 24, "en", "dark"), (44, 20, "zh", "light"), (200, 50, "en", "light")],
    ids=["80x24 en dark", "44x20 zh light", "200x50 en light"],
)
SCRIPT = [
    {"reasoning": "I think so.", "calls": [call("read", path="a.txt"), call("list")]},
    {"calls": [bash("seq 1 900; printf '\\033]0;owned\\007\\033[31mred'; exit 3")]},
    {"calls": [edit("a.txt", "one", "two")]},
    {"text": "# Done\n\nIt is **two** now."},
]


def pager(project: Project, *, waits: bool = False) -> Path:
    """A pager that keeps what it got, and ends at once or when a file says so."""
    body = "cat > ../home/paged.tmp; mv ../home/paged.tmp ../home/paged"
    if waits:
        body += "; while [ ! -e ../home/enough ]; do sleep 0.05; done"
    project.write("../home/keep", f"#!/bin/sh\n{body}\n").chmod(0o755)
    return project.home / "paged"


@pytest.mark.thorough
@SCREENS
def test_the_whole_transcript_is_in_the_pager_at_rest_and_while_it_works(
    project: Project, columns: int, rows: int, lang: str, theme: str
) -> None:
    project.write("a.txt", "one\n")
    project.configure(ui={"output_lines": 20, "theme": theme, "thinking": "off"})
    paged = pager(project)
    gate = Gate({"text": "finished"})
    keep = str(project.home / "keep")
    with (
        ScriptedServer([*SCRIPT, gate]) as server,
        Terminal(
            project, server.url, "--mode", "yolo", "--lang", lang, columns=columns, rows=rows, PAGER=keep
        ) as terminal,
    ):
        terminal.until_idle()
        terminal.send("change it")
        terminal.until(lambda: len(server.chats) == len(SCRIPT) and says(terminal, "It is two now."))
        terminal.until_idle()
        assert "I think so." not in terminal.text
        terminal.type(CTRL_O)
        terminal.until(paged.exists)
        terminal.until_idle()
        text = paged.read_text(encoding="utf-8")
        plain = re.sub(r"\x1b\[[\d;]*m", "", text)
        numbers = set(re.findall(r"^ *(?:│ )?(\d+)$", plain, re.MULTILINE))
        assert {str(n) for n in range(1, 901)} <= numbers  # on the screen 20 lines of it are shown
        assert "I think so." in plain
        assert "\x1b]" not in text
        for said in ("› change it", "read a.txt", "✗ run seq", "edit a.txt", "It is two now."):
            assert squeezed(said) in squeezed(plain), said
        assert text != plain  # coloured
        paged.unlink()
        terminal.send("and more")
        terminal.until(lambda: len(server.chats) == len(SCRIPT) + 1)
        terminal.type(CTRL_O)
        terminal.until(paged.exists)
        assert "and more" in paged.read_text(encoding="utf-8")
        gate.open()
        terminal.until("finished")
        terminal.until_idle()


def test_what_is_being_written_is_in_it_and_the_terminal_comes_back(project: Project) -> None:
    paged = pager(project, waits=True)
    script = [{"text": "first, then more, and the end", "chunk": 6, "delay": 0.3}]
    keep = str(project.home / "keep")
    with ScriptedServer(script) as server, Terminal(project, server.url, PAGER=keep) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("first,")
        terminal.type(CTRL_O)
        terminal.until(paged.exists)
        assert "first," in paged.read_text(encoding="utf-8")
        terminal.until(lambda: "the end" in project.logs()[0].read_text(encoding="utf-8"))
        assert "the end" not in terminal.text  # the pager has the terminal
        project.write("../home/enough", "")
        terminal.until("first, then more, and the end")
        terminal.until_idle()
        terminal.type("typed after")
        terminal.until(lambda: terminal.prompt.endswith("typed after"))


@pytest.mark.thorough
@SCREENS
def test_a_resumed_session_shows_its_conversation(
    project: Project, columns: int, rows: int, lang: str, theme: str
) -> None:
    project.write("a.txt", "one\n")
    project.configure(ui={"theme": theme})
    many = [{"text": f"answer {n}"} for n in range(12)]
    with ScriptedServer([*SCRIPT, *many]) as server:
        drive(
            project,
            server.url,
            ["change it", *(f"question {n}" for n in range(12)), "!echo mine; exit 4"],
            mode="yolo",
        )
    with (
        ScriptedServer([{"text": "went on"}]) as server,
        Terminal(project, server.url, "--continue", "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.type("typed early\r")
        terminal.until("went on")
        terminal.until_idle()
        text = squeezed(terminal.text)
        expected = ["change it", "I think so.", "run seq", "edit a.txt", "It is two now."]
        expected.append({"en": "Only documents were changed", "zh": "只改动了文档"}[lang])
        expected += [f"› question {n} answer {n}" for n in range(12)]
        status = {"en": "exit 4", "zh": "退出码 4"}[lang]
        expected += [f"› !echo mine; exit 4 mine {status} › typed early", "went on"]
        places = [text.index(squeezed(one)) for one in expected]
        assert places == sorted(places)
        assert "owned" not in terminal.paper.titles
        assert text.count(squeezed("It is two now.")) == 1


def test_what_stands_below_the_prompt_again_is_worth_it(project: Project) -> None:
    """Calls as they were, refusals as the person's; not how things stood at the time."""
    calls = [{"calls": [bash("echo made > a")]}, {"calls": [bash("touch b")]}, {"text": "finished"}]
    rows = re.compile(r"(?m)^[✓✗] run .*(?= · \d)")
    with ScriptedServer(calls) as server, Terminal(project, server.url, rows=40) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.type("y")
        terminal.until(lambda: "│ touch b" in terminal.screen and "Allow?" in terminal.screen)
        terminal.type("n")
        terminal.until(lambda: "No, because" in terminal.screen)
        terminal.type("not here" + ENTER)
        terminal.until("finished")
        terminal.until_idle()
        live = rows.findall(terminal.text)
        terminal.send("/status")
        terminal.until("preset balanced")
        terminal.until_idle()
    assert live == ["✓ run echo made > a · exit 0", "✗ run touch b · refused by you"]
    with ScriptedServer([]) as server, Terminal(project, server.url, "--continue", rows=40) as terminal:
        terminal.until("› /status\n(not shown again)\n")
        terminal.until_idle()
        assert rows.findall(terminal.text) == [live[0], f"{live[1]}: not here"]
        assert "preset balanced" not in terminal.text


def test_look_ups_say_the_same_when_a_session_is_shown_again(project: Project) -> None:
    project.write("a.py", "def f(x):\n    return x\n")
    project.write("empty.py", "")
    calls = [
        call("read", path="a.py"),
        call("read", path="a.py", limit=1),
        call("read", path="empty.py"),
        call("read", path="."),
        call("list"),
        call("glob", pattern="*.py"),
        call("grep", pattern="def|return"),
        call("grep", pattern="nowhere"),
    ]
    script = [*({"calls": [one]} for one in calls), {"text": "finished"}]
    rows = re.compile(r"(?m)^✓ (?:read|list|glob|grep) .*(?= · \d)")
    with ScriptedServer(script) as server, Terminal(project, server.url, rows=40) as terminal:
        terminal.until_idle()
        terminal.send("look")
        terminal.until("finished")
        terminal.until_idle()
        live = rows.findall(terminal.text)
        assert len(live) == len(calls)
        assert "✓ grep def|return · 2 matches in 1 file" in live
        terminal.send("/exit")
        terminal.ended()
    with ScriptedServer([]) as server, Terminal(project, server.url, "--continue", rows=40) as terminal:
        terminal.until("finished")
        terminal.until_idle()
        assert rows.findall(terminal.text) == live
