"""With no provider: a server on its usual port is offered, and used where the person wants it."""

from __future__ import annotations

import io
import socket
import sys

import pytest

from coder.engine.setup import Options, read_settings
from coder.terminal import first_run as module
from coder.terminal.theme import Theme
from coder.terminal.view import LineView
from kit.driving import Project


@pytest.mark.parametrize(("typed", "wanted"), [("y\n", True), ("\n", False), ("", False)])
def test_a_local_server_is_offered(
    project: Project, monkeypatch: pytest.MonkeyPatch, typed: str, wanted: bool
) -> None:
    options = Options(cwd=project.cwd, environ=project.environ())
    settings = read_settings(options)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys, "stdout", said)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(module, "USUAL_PORTS", ((1, "Nobody"), (port, "Somebody")))
        chosen = module.first_run(options, settings, LineView(said, None, settings.texts, Theme("none")))
        assert (chosen is not None and chosen.base_url == f"http://127.0.0.1:{port}/v1") is wanted
    assert "Somebody" in said.getvalue()
    assert "Nobody" not in said.getvalue()
    assert "CODER_API_KEY" in said.getvalue()
    assert ("coder demo` shows a tour that needs no model" in said.getvalue()) is not wanted
