"""What a person sets up for themselves: the status line, keys by name, vim's mode."""

from __future__ import annotations

import asyncio
import json

import pytest
from editor_kit import ESCAPE, Bench
from pty_kit import ENTER, ESC, Terminal

from coder.config.schema import DEFAULT_KEYS, bound_keys, key_names
from kit import ScriptedServer
from kit.driving import Project

SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (44, 20, "zh"), (200, 50, "en")],
    ids=["80x24 en", "44x20 zh", "200x50 en"],
)
VIM = {"en": "-- NORMAL --", "zh": "-- 普通 --"}


@SCREENS
def test_the_status_line_is_the_commands_and_vim_shows_its_mode(
    project: Project, columns: int, rows: int, lang: str
) -> None:
    seen = project.home / "seen"
    prints = "printf '\\033[31mmy\\033[0m \\033]0;owned\\007line\\nsecond\\n'"
    script = f"cat >> ../home/seen; echo >> ../home/seen; {prints}"
    project.configure(ui={"statusline": script, "vim": True})
    with (
        ScriptedServer([{"text": "hello"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        normal = VIM[lang]
        terminal.until(lambda: "my ␛]0;owned" in terminal.screen)
        assert terminal.paper.buffer[terminal.paper.cursor.y + 1][0].fg == "red"  # in its own colours
        assert "second" not in terminal.screen
        assert "owned" not in terminal.paper.titles
        assert normal not in terminal.screen
        assert b"\x1b[5 q" in terminal.raw or b"\x1b[6 q" in terminal.raw  # a beam
        terminal.type("go")
        terminal.type(ESC)
        terminal.until(lambda: normal in terminal.screen)
        assert b"\x1b[1 q" in terminal.raw or b"\x1b[2 q" in terminal.raw  # a block
        terminal.type(ENTER)
        terminal.until("hello")
        terminal.until(lambda: seen.read_text().count("\n") >= 2)
        terminal.until(lambda: normal not in terminal.screen)
        told = [json.loads(line) for line in seen.read_text().splitlines() if line]
        assert told[0]["model"] == "scripted"
        assert {"session_id", "cwd", "mode", "context_tokens", "tokens", "cost_usd"} <= told[0].keys()
        assert told[-1]["tokens"] != told[0]["tokens"]
        assert len(told) == len({json.dumps(one) for one in told})  # only when something has changed
        at = len(terminal.raw)
        terminal.send("/quit")
        assert terminal.ended() == 0
        assert b"\x1b[0 q" in terminal.raw[at:]  # as it was


def test_a_projects_status_line_waits_for_trust_and_a_failing_one_says_so(project: Project) -> None:
    project.write(".coder/config.json", json.dumps({"ui": {"statusline": "echo theirs > ran; exit 3"}}))
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until("[y/N]")
        terminal.type("n\r")
        terminal.until("context: ")
        terminal.send("/status")
        terminal.until("balanced")
        assert not (project.cwd / "ran").exists()
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until("[y/N]")
        assert "ui.statusline" in terminal.text
        terminal.type("y\r")
        terminal.until("statusline: 3")


@SCREENS
def test_keys_by_name(project: Project, columns: int, rows: int, lang: str) -> None:
    project.configure(ui={"keys": {"transcript": "f5", "mode": "alt+m", "rewind": "ctrl+t", "search": "f6"}})
    keep = project.write("../home/keep", "#!/bin/sh\ncat > ../home/paged\n")
    keep.chmod(0o755)
    with (
        ScriptedServer([{"text": "hello"}]) as server,
        Terminal(
            project, server.url, "--lang", lang, columns=columns, rows=rows, PAGER=str(keep)
        ) as terminal,
    ):
        terminal.until_idle()
        terminal.type("?")
        terminal.until(lambda: all(key in terminal.screen for key in ("F5", "F6", "Alt+M")))
        assert "Ctrl+O" not in terminal.screen
        terminal.type("\x1bm")
        terminal.until(lambda: "[auto-edit]" in terminal.prompt)
        terminal.send("hi")
        terminal.until("hello")
        terminal.until(lambda: "context: " in terminal.screen or "上下文：" in terminal.screen)
        terminal.type("\x0f\x1b[15~")
        terminal.until((project.home / "paged").exists)
        terminal.type("\x14")
        terminal.until(lambda: "search>" in terminal.screen or "搜索>" in terminal.screen)


def test_a_wrong_name_or_key_is_a_clear_error(project: Project) -> None:
    for keys, told in (
        ({"transcript": "ctrl+c"}, 'ui.keys.transcript is "ctrl+c"'),
        ({"transcript": "hyper+x"}, "ctrl+x ctrl+t"),
        ({"transkript": "f5"}, "transcript"),
        ({"transcript": "f5", "steer": "f5"}, "f5 is chosen for more than one action"),
    ):
        project.configure(ui={"keys": keys})
        done = project.coder("--once", "/status", url="http://127.0.0.1:9")
        assert done.returncode == 2
        assert told in done.stderr, done.stderr


def test_a_chosen_key_leaves_its_former_action() -> None:
    assert bound_keys({"steer": "ctrl+o"})["transcript"] == ()
    assert bound_keys({"steer": ""})["steer"] == ()
    assert key_names({})["newline"] == "Alt+Enter, Ctrl+J"
    assert bound_keys({}) == DEFAULT_KEYS

    async def typed() -> str:
        return (await Bench(keys={"newline": "ctrl+t"}).type("a\x14b")).editor.buffer.text

    assert asyncio.run(typed()) == "a\nb"


def test_esc_esc_on_an_empty_line_is_rewind_and_on_text_clears_it() -> None:
    async def typed() -> tuple[str, list[str], list[str]]:
        bench = await Bench().type("x", ESCAPE, ESCAPE)
        text, before = bench.editor.buffer.text, list(bench.sent)
        bench.actions._escaped = float("-inf")  # as after a pause
        await bench.type(ESCAPE, ESCAPE)
        return text, before, bench.sent

    assert asyncio.run(typed()) == ("", [], ["rewind"])
