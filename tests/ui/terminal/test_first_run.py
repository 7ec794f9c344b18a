"""With no provider: one screen says what to set; a model's server on its usual port is offered and used."""

from __future__ import annotations

import io
import os
import pty
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pty_kit import CTRL_C, ENTER, Terminal

from coder.addons.local import local_command as fetching
from coder.config.models import LOCAL_FILE
from coder.engine.setup import Options, read_settings
from coder.texts import Catalog
from coder.ui.terminal import start as module
from coder.ui.terminal.ask.question import ask_at_start
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from kit import ScriptedServer
from kit.driving import Project
from kit.local_model import gguf


def port_of(server: ScriptedServer) -> int:
    return int(server.url.removesuffix("/v1").rpartition(":")[2])


@pytest.mark.parametrize(
    ("typed", "wanted", "told"),
    [
        ("y\n", True, "To keep it: export CODER_BASE_URL=http://127.0.0.1:"),
        ("是\n", True, "To keep it"),
        ("\n", False, "(needs no model):\n"),
        ("", False, "Use it? [y/N] \n"),
    ],
    ids=["yes", "yes-in-chinese", "no", "end-of-input"],
)
def test_a_local_server_is_offered(
    project: Project, monkeypatch: pytest.MonkeyPatch, typed: str, wanted: bool, told: str
) -> None:
    options = Options(cwd=project.cwd, environ=project.environ())
    settings = read_settings(options)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys, "stdout", said)
    monkeypatch.setenv("COLUMNS", "200")
    with ScriptedServer([]) as server:
        monkeypatch.setattr(module, "USUAL_PORTS", ((1, "Nobody"), (port_of(server), "Somebody")))
        chosen = module.first_run(options, settings, PlainRenderer(said, None, settings.texts, Theme("none")))
        assert (chosen is not None and chosen.base_url == server.url) is wanted
    assert "Somebody" in said.getvalue()
    assert "Nobody" not in said.getvalue()
    assert "CODER_API_KEY" in said.getvalue()
    assert told in said.getvalue()


def test_ctrl_c_is_heard_where_it_does_not_interrupt_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when it arrives between Python's last look for signals and the system call. Here always: the main
    thread is not interrupted, since another one takes the signal."""
    near, far = pty.openpty()

    def press() -> None:
        seen = b""
        while b"Use it?" not in seen:
            seen += os.read(near, 1000)
        stopped.wait(0.2)  # until it reads
        os.kill(os.getpid(), signal.SIGINT)
        if not stopped.wait(10):
            unheard.set()
            os.write(near, b"y\n")

    stopped, unheard = threading.Event(), threading.Event()
    pressing = threading.Thread(target=press)
    with os.fdopen(far) as typed, os.fdopen(os.dup(far), "w") as shown:
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stdout", shown)
        pressing.start()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            answer = ask_at_start("Use it?", Catalog("en"))
        finally:
            stopped.set()
            pressing.join()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            monkeypatch.undo()
    os.close(near)
    assert answer is None
    assert not unheard.is_set()


def test_what_is_no_model_server_is_not_offered(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(cwd=project.cwd, environ=project.environ())
    settings = read_settings(options)
    said = io.StringIO()
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(module, "USUAL_PORTS", ((silent.getsockname()[1], "Some other program"),))
        assert (
            module.first_run(options, settings, PlainRenderer(said, None, settings.texts, Theme("none")))
            is None
        )
    assert "Some other program" not in said.getvalue()


@pytest.mark.parametrize("fetched", [True, False], ids=["there", "not-yet"])
@pytest.mark.parametrize("typed", ["y\n", "\n"], ids=["yes", "no"])
def test_a_model_that_needs_no_server_is_offered(
    project: Project, monkeypatch: pytest.MonkeyPatch, typed: str, fetched: bool
) -> None:
    options = Options(cwd=project.cwd, environ=project.environ())
    settings = read_settings(options)
    said = io.StringIO()
    model = settings.home / "models" / LOCAL_FILE
    if fetched:
        gguf(model)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys, "stdout", said)
    monkeypatch.setattr(module, "USUAL_PORTS", ())
    monkeypatch.setattr(fetching, "find_spec", lambda name: name)
    monkeypatch.setattr(fetching, "fetch_shown", lambda *_: bool(gguf(model)))
    chosen = module.first_run(options, settings, PlainRenderer(said, None, settings.texts, Theme("none")))
    assert (chosen is not None and chosen.model == "local") is (typed == "y\n")
    assert model.exists() is (fetched or typed == "y\n")
    assert ("Apache-2.0" in said.getvalue()) is not fetched
    assert "Qwen2.5-Coder-1.5B" in said.getvalue()


SIZES = pytest.mark.parametrize(
    ("columns", "rows"), [(80, 24), (44, 20), (200, 50)], ids=["80x24", "44x20", "200x50"]
)


@SIZES
def test_one_screen_says_what_to_set(project: Project, columns: int, rows: int) -> None:
    path = f"{_installed(project)}{os.pathsep}{os.environ['PATH']}"
    with Terminal(project, columns=columns, rows=rows, PATH=path) as terminal:
        assert terminal.ended() == 2
        assert not terminal.paper.scrolled
        for name in ("Welcome", "CODER_API_KEY", "CODER_BASE_URL", "config.json", "coder demo"):
            assert name in terminal.screen
        given, _, rest = terminal.screen.partition("An export ends")
        assert "coder demo" in rest  # which gives no model
        assert "coder demo" not in given
    with Terminal(project, "", "--lang", "zh", columns=columns, rows=rows, PATH=path) as terminal:
        assert terminal.ended() == 2
        assert "欢迎" in terminal.screen
        assert not terminal.paper.scrolled
        assert "CODER_API_KEY" in terminal.screen


def _installed(project: Project) -> Path:
    """A directory for PATH that has `coder`."""
    program = project.home / "bin" / "coder"
    program.parent.mkdir()
    program.touch(mode=0o755)
    return program.parent


def test_what_to_type_can_be_typed_where_coder_is_not_on_path(project: Project) -> None:
    with Terminal(project, columns=200, PATH="/nowhere") as terminal:
        assert terminal.ended() == 2
        for name in ("local", "demo"):
            assert f"{sys.executable} -m coder {name}" in terminal.screen


@contextmanager
def on_a_usual_port(server: ScriptedServer) -> Iterator[None]:
    """Hands what arrives on the first of the usual ports that is free here on to the scripted server."""
    listener = None
    for port, _ in module.USUAL_PORTS:
        try:
            listener = socket.create_server(("127.0.0.1", port))
            break
        except OSError:
            continue
    if listener is None:
        pytest.skip("all usual ports are taken here")
    ends: list[socket.socket] = []

    def carry(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", port_of(server)))
            ends.extend([near, far])
            for pair in ((near, far), (far, near)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for end in ends:
            end.close()


def test_a_server_found_is_talked_to_in_the_same_session(project: Project) -> None:
    with ScriptedServer([{"text": "hello from here"}]) as server, on_a_usual_port(server):
        with Terminal(project) as terminal:
            terminal.until("Use it? [y/N]")
            terminal.type(CTRL_C)
            assert terminal.ended() == 2
        with Terminal(project) as terminal:
            terminal.until("Use it? [y/N]")
            terminal.type("y" + ENTER)
            terminal.until("To keep it: export CODER_BASE_URL=")
            terminal.until_idle()
            terminal.send("hi")
            terminal.until("hello from here")
