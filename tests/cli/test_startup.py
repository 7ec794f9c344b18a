"""What is loaded before the first answer can come: nothing that is not needed for it.

Counts modules, not milliseconds (those are in bench/): a heavy import on this path is the usual way in which
a quick start is lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from coder.cli.start import subcommands
from coder.tools.registry import built_in_tools
from kit import Chaos, ScriptedServer
from kit.driving import Project
from kit.fakes import WIRES
from kit.wire_exchange import MODELS

# Runs the command as its entry point does; tells which modules there are when the event of the audit hook
# comes (the connection to the provider) or, without one, at the end.
PROBE = """
import os, sys
before = set(sys.modules)
event, file = sys.argv[1], sys.argv[2]

def tell():
    with open(file, "w") as out:
        out.write("\\n".join(sorted(set(sys.modules) - before)))

leave = os._exit

def tell_and_leave(status):
    if not os.path.exists(file):
        tell()
    leave(status)

os._exit = tell_and_leave

def hook(name, args):
    if name == event and not os.path.exists(file):
        tell()

sys.argv = ["coder", *sys.argv[3:]]
sys.addaudithook(hook)
from coder.cli import main
main()
if not os.path.exists(file):
    tell()
"""

# Each costs more than 3 ms or belongs to a room that the first request does not enter.
HEAVY = {
    "other people's": ("splintr", "tree_sitter", "tree_sitter_bash", "yaml", "pathspec", "httpx", "httpx2"),
    "the terminal's": (
        "prompt_toolkit",
        "pygments",
        "markdown_it",
        "wcwidth",
        "termios",
        "readline",
        "curses",
    ),
    "tables of ours": ("coder.config.prices",),
    "servers'": ("mcp", "acp", "pydantic", "anyio", "xllamacpp"),
    "of Python": (
        *("json", "http", "urllib.request", "email", "xml", "html", "difflib", "dataclasses", "tempfile"),
        *("random", "csv", "ctypes", "sqlite3", "multiprocessing", "unittest", "pdb", "tomllib"),
        *(
            "importlib.metadata",
            "importlib.resources",
            "zipfile",
            "zoneinfo",
            "getpass",
            "webbrowser",
            "shutil",
        ),
    ),
}
# The loop's way to its first request runs through about a hundred small files, at some 0.2 ms
# each. More than this means that a room is entered which the first request does not need.
MOST_MODULES = 115


def loaded(project: Project, event: str, *args: str, url: str = "") -> list[str]:
    file = project.home / "modules"
    done = subprocess.run(
        [sys.executable, "-c", PROBE, event, str(file), *args],
        cwd=project.cwd,
        env=project.environ(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return file.read_text(encoding="utf-8").split("\n")


def under(modules: Sequence[str], names: Sequence[str]) -> list[str]:
    return [module for module in modules if any(module == n or module.startswith(n + ".") for n in names)]


def test_version_loads_next_to_nothing(project: Project) -> None:
    modules = loaded(project, "", "--version")
    assert under(modules, ["coder"]) == ["coder", "coder.cli"]
    assert under(modules, ["asyncio", "argparse", "msgspec", "re", "pathlib", "typing"]) == []
    assert len(modules) < 8


@pytest.fixture
def at_first_request(project: Project) -> list[str]:
    with ScriptedServer([{"text": "hi"}]) as server:
        modules = loaded(project, "socket.connect", "--once", "hi", url=server.url)
        assert len(server.chats) == 1
    return modules


def test_nothing_heavy_before_the_first_request(at_first_request: list[str]) -> None:
    found = {kind: under(at_first_request, names) for kind, names in HEAVY.items()}
    assert found == {kind: [] for kind in HEAVY}


# Imports what asyncio does, then shows whether OpenSSL is there and that a TLS connection can still be made.
TLS = """
import sys
from coder.cli.lazy_imports import import_lazily
import_lazily()
import asyncio, ssl
before = "_ssl" in sys.modules

async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.read()
    print(before, "_ssl" in sys.modules)
    try:
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
    except OSError as error:  # the server hangs up, or speaks no TLS
        print(isinstance(error, (ssl.SSLError, ConnectionError)))
    print(type(ssl).__name__, type(sys.modules["asyncio.sslproto"]).__name__, ssl.SSLSocket.__module__)

asyncio.run(main())
"""


def test_openssl_is_loaded_with_the_first_tls_connection() -> None:
    done = subprocess.run([sys.executable, "-c", TLS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False False\nTrue\nmodule module ssl\n", done.stderr


def test_openssl_is_loaded_once_whoever_asks_first() -> None:
    """Threads that meet at the first use see the whole module."""
    script = """
import threading
from coder.cli.lazy_imports import import_lazily
import_lazily()
import ssl
found, begin = [], threading.Barrier(8)
def use():
    begin.wait()
    found.append(ssl.create_default_context)
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "8 1\n", done.stderr


# What others import with themselves and seldom use.
SELDOM = """
import sys
from coder.cli.lazy_imports import import_lazily
import_lazily()
import asyncio, traceback, urllib.parse
import inspect, ipaddress, textwrap, tokenize
names = "inspect", "ipaddress", "textwrap", "tokenize"
print([type(sys.modules[name]).__name__ for name in names])
try:
    urllib.parse.urlsplit("http://[v1.x")
except ValueError as error:
    print("".join(traceback.format_exception(error)).splitlines()[-1])
print(urllib.parse.urlsplit("http://[::1]:80/").hostname, asyncio.iscoroutinefunction(print))
print(textwrap.dedent("  a"), tokenize.NAME, [type(sys.modules[name]).__name__ for name in names])
"""


def test_what_is_seldom_used_is_loaded_when_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SELDOM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        str(["_LazyModule"] * 4),
        "ValueError: Invalid IPv6 URL",
        "::1 False",
        "a 1 " + str(["module"] * 4),
    ]


# What the prompt imports, before and after somebody needs the rest of it.
PROMPT = """
import sys
from coder.cli.lazy_imports import import_lazily
import_lazily()
import coder.ui.terminal.repl
from prompt_toolkit.utils import get_cwidth
parts = "prompt_toolkit.shortcuts", "prompt_toolkit.widgets.base", "wcwidth.bisearch"
print(get_cwidth("[default] a · b>"), [part in sys.modules for part in parts])
first = sys.modules["wcwidth"].wcwidth
print(get_cwidth("汉"), [part in sys.modules for part in parts])
import prompt_toolkit, wcwidth
print(all(first(chr(n)) == wcwidth.wcwidth(chr(n)) for n in range(0x3000)), first is wcwidth.wcwidth)
print(prompt_toolkit.PromptSession.__name__, type(prompt_toolkit).__name__)
"""


def test_what_a_line_of_ascii_does_not_need_is_not_loaded_for_the_prompt() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROMPT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "16 [False, False, False]",
        "2 [False, False, True]",
        "True False",
        "PromptSession module",
    ], done.stderr


def test_no_room_is_entered_that_is_not_needed(at_first_request: list[str]) -> None:
    ours = under(at_first_request, ["coder"])
    assert len(ours) <= MOST_MODULES, ours
    assert under(ours, ["coder.engine.turn", "coder.models.wires"])  # the hook came in time
    others = [f"coder.cli.{name}" for name in subcommands()]
    shell = ["coder.policy.shell.judge", "coder.policy.shell.syntax", "coder.engine.commands.table"]
    unused = [
        "coder.models.scripted",
        "coder.ui.terminal",
        "coder.ui.browser",
        "coder.ui.acp",
        "coder.texts.zh",
    ]
    assert under(ours, [*others, *shell, *unused]) == []


@pytest.mark.parametrize("wire", WIRES)
def test_of_the_wires_only_the_one_in_use_is_loaded(project: Project, wire: str) -> None:
    project.configure(provider={"wire": wire})
    with Chaos([{"text": "hi"}], wire=wire) as server:
        modules = loaded(project, "socket.connect", "--once", "hi", "--model", MODELS[wire], url=server.url)
        assert len(server.requests) == 1
    found = {name.split(".")[3] for name in modules if name.startswith("coder.models.wires.")}
    assert found - {"wire"} == {{"chat": "chat_completions", "messages": "messages_api"}.get(wire, wire)}


def test_of_the_tools_only_the_declarations_are_loaded(at_first_request: list[str]) -> None:
    """The first request carries what each tool declares; what it works with waits for its first call."""
    declared = {tool.__module__ for tool in built_in_tools().values()}
    shared = {"coder.tools", "coder.tools.tool", "coder.tools.registry", "coder.tools.seen"}
    assert set(under(at_first_request, ["coder.tools"])) == declared | shared


def test_nothing_heavy_in_a_step_of_the_loop(project: Project) -> None:
    """Running a command in yolo mode takes no parser of shell lines and no tokenizer either."""
    script = [{"calls": [{"name": "bash", "arguments": {"command": "true"}}]}, {"text": "done"}]
    with ScriptedServer(script) as server:
        modules = loaded(project, "", "--mode", "yolo", "--once", "go", url=server.url)
        assert len(server.chats) == 2
    # pathspec is there for undo, which looks at the tree, and at what is ignored in it, around a command
    others = [name for name in HEAVY["other people's"] if name != "pathspec"]
    heavy = [*others, *HEAVY["the terminal's"], *HEAVY["servers'"]]
    assert under(modules, heavy) == []
    assert under(modules, ["http", "email", "xml", "difflib"]) == []


def test_importing_the_package_costs_nothing(project: Project) -> None:
    line = (
        "import sys, coder; print([m for m in sys.modules if m.startswith(('coder.', 'msgspec', 'asyncio'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", line], env=project.environ(), capture_output=True, check=True, timeout=60
    )
    assert done.stdout.strip() == b"[]"
