"""Completion on a real screen: commands and their arguments, models, files of the workspace."""

from __future__ import annotations

import asyncio
import re
import sys
from functools import partial

import pytest
from pty_kit import ANSWERS, BACKSPACE, DOWN, ENTER, ESC, TAB, UP, Terminal, sent

from coder.models.scripted import Recorded, http_answer
from kit import ScriptedServer
from kit.driving import Project

SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (200, 50)])
CLEAR = "\x15"


def menu_of(terminal: Terminal) -> list[str]:
    """The rows below the input, without what marks the chosen one."""
    return terminal.screen.rpartition("project> ")[2].split("\n")[1:]


def offers(terminal: Terminal, *names: str) -> bool:
    return all(any(row[2:].startswith(name) for row in menu_of(terminal)) for name in names)


@SIZES
def test_the_slash_menu(project: Project, columns: int, rows: int) -> None:
    """Fuzzy, with hints; Down and Up choose, Tab takes, Esc closes, Enter runs."""
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/")
        terminal.until(lambda: len(menu_of(terminal)) > 3)
        assert len(menu_of(terminal)) <= rows - 2
        terminal.type("prm")
        terminal.until(lambda: len(menu_of(terminal)) == 1 and "› /permissions [PRESET" in terminal.screen)
        terminal.type(ESC)
        terminal.until(lambda: menu_of(terminal) == [])
        assert terminal.screen.endswith("> /prm")
        terminal.type(CLEAR + "/mode")
        terminal.until(lambda: offers(terminal, "/mode", "/model", "/modes"))
        assert menu_of(terminal)[0].startswith("› /mode ")
        terminal.type(DOWN)
        terminal.until(lambda: menu_of(terminal)[1].startswith("› "))
        terminal.type(UP + TAB)
        terminal.until(lambda: offers(terminal, "plan", "default", "auto-edit", "yolo"))
        terminal.type("pl")
        terminal.until(lambda: "› plan" in terminal.screen)
        terminal.type(ENTER)
        terminal.until("\n[plan] ")
        assert not server.chats


@SIZES
def test_arguments_of_commands(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("title of it")
        sent(server, terminal)
        for typed, offered in (
            ("/mode ", ("plan", "default", "auto-edit", "yolo")),
            ("/permissions ", ("strict", "balanced", "auto-edit", "yolo")),
            ("/permissions st", ("strict",)),
            ("/theme ", ("dark", "light", "none")),
            ("/model ", ("scripted",)),
            ("/resume ", (project.logs()[0].stem,)),
        ):
            terminal.type(CLEAR + typed)
            terminal.until(partial(offers, terminal, *offered))
        assert "title" in terminal.screen.rpartition("/resume")[2]


@SIZES
def test_models_of_the_configuration_and_of_the_server(project: Project, columns: int, rows: int) -> None:
    project.configure(
        routing={"fast": "small-one", "strong": "large-one"},
        budget={"prices": {"priced-one": {"input": 1, "output": 2}}},
    )
    with (
        ScriptedServer(ANSWERS, model="listed-one") as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        assert not server.requests  # the server is asked when somebody wants to know
        terminal.type("/model ")
        terminal.until(
            lambda: offers(terminal, "scripted", "small-one", "large-one", "priced-one", "listed-one")
        )
        terminal.type("lst")
        terminal.until(lambda: offers(terminal, "listed-one") and not offers(terminal, "small-one"))
        terminal.type(BACKSPACE * 3 + "lar" + TAB + ENTER)
        terminal.until("model: large-one")
        terminal.type("/model ")
        terminal.until(lambda: offers(terminal, "large-one", "listed-one"))
        assert [request.method for request in server.requests] == ["GET"]


class _Listless(ScriptedServer):
    """A server that lists no models."""

    async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            writer.write(http_answer(500, b"no"))
        else:
            await super().answer(request, writer)


@SIZES
def test_a_server_that_lists_nothing_changes_nothing(project: Project, columns: int, rows: int) -> None:
    project.configure(routing={"fast": "small-one"})
    with (
        _Listless(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/model ")
        terminal.until(lambda: len(server.requests) == 1)
        terminal.until(lambda: offers(terminal, "scripted", "small-one"))
        terminal.type("my-own" + ENTER)
        terminal.until("model: my-own")
        terminal.send("go")
        sent(server, terminal)
        assert server.chats[-1]["model"] == "my-own"
        assert not re.search(r"\b500\b", terminal.text)


@SIZES
def test_at_offers_the_files_that_are_not_ignored(project: Project, columns: int, rows: int) -> None:
    project.write(".gitignore", "*.secret\nbuild/\n")
    project.write("src/alpha.py", "alpha = 1\n")
    project.write("src/my file.py", "beta = 1\n")
    project.write("alpha.secret", "no\n")
    project.write("build/alpha.py", "no\n")
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("@alph")
        terminal.until(lambda: menu_of(terminal) == ["› src/alpha.py"])
        terminal.type(TAB + "@sr")
        terminal.until(lambda: offers(terminal, "src/"))
        terminal.type(BACKSPACE * 2 + "myfi")
        terminal.until(lambda: menu_of(terminal)[-1:] == ["› src/my file.py"])
        terminal.type(TAB + "now")
        terminal.until(lambda: terminal.screen.endswith("now"))
        terminal.type(ENTER)
        said = sent(server, terminal)
        assert said.startswith('@src/alpha.py @"src/my file.py" now')
        assert "alpha = 1" in said
        assert "beta = 1" in said


@SIZES
def test_a_missing_file_says_so_and_the_message_goes_out(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("see @missing.py please")
        assert sent(server, terminal) == "see @missing.py please"
        assert "@missing.py: there is no such file" in terminal.text


def test_a_file_made_while_the_session_runs_is_found(project: Project) -> None:
    """The list is made anew when it has grown old; a name that is typed in full needs no list."""
    project.write("old.py", "old = 1\n")
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("@ol")
        terminal.until(lambda: menu_of(terminal) == ["› old.py"])
        project.write("brand_new.py", "new = 2\n")
        terminal.type(CLEAR + "@brand_new.py" + ENTER)
        assert "new = 2" in sent(server, terminal)


@pytest.mark.thorough
def test_many_files(project: Project) -> None:
    for directory in range(50):
        place = project.cwd / f"folder{directory:02}"
        place.mkdir()
        for name in range(100):
            (place / f"file{name:03}.txt").touch()
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        for letter in "@f42/f037":
            terminal.type(letter)
        terminal.until(lambda: "› folder42/file037.txt" in terminal.screen)
        terminal.type(BACKSPACE + "8")
        terminal.until(lambda: "› folder42/file038.txt" in terminal.screen)
        terminal.type("zq")
        terminal.until(lambda: menu_of(terminal) == [])


NOTES = """
import json, sys
HELLO = {"serverInfo": {"name": "n", "version": "1"}, "capabilities": {"resources": {}}}
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", **HELLO},
    "resources/list": {"resources": [{"uri": "note://todo", "name": "To do"}, {"uri": "note://done"}]},
    "resources/read": {"contents": [{"uri": "note://todo", "text": "water the basil"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = ANSWERS.get(message["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def test_resources_of_a_server(project: Project) -> None:
    path = project.write("notes.py", NOTES)
    project.configure(mcp={"servers": {"notes": {"command": sys.executable, "args": [str(path)]}}})
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.send("hi")  # a turn waits for the server
        terminal.until("answer0")
        terminal.until_idle()
        terminal.type("see @notes:")
        terminal.until(lambda: offers(terminal, "notes:note://todo", "notes:note://done"))
        assert "To do" in menu_of(terminal)[0]
        terminal.type("tod" + TAB + ENTER)
        terminal.until("answer1")
        assert "water the basil" in str(server.chats[-1]["messages"][-1]["content"])
