"""The person's own editor: what it makes of the text, and all the ways in which it may fail."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pty_kit import ANSWERS, ENTER, Terminal, sent
from repl_kit import SIZES

from coder.ui.terminal.input.actions import edited_text
from kit import ScriptedServer
from kit.driving import Project

NOWHERE = Path("/nonexistent")  # the workspace


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o700)
    return str(path)


def test_the_text_goes_out_private_and_comes_back(tmp_path: Path) -> None:
    log = tmp_path / "seen"
    editor = script(tmp_path / "my editor", f'stat -c %a "$2" > "{log}"; echo "$1" >> "$2"')
    assert edited_text("汉字\nrow ", {"EDITOR": f"'{editor}' --flag"}, NOWHERE) == "汉字\nrow --flag"
    assert int(log.read_text(encoding="utf-8"), 8) == stat.S_IRUSR | stat.S_IWUSR
    assert edited_text("text", {"VISUAL": "true", "EDITOR": "false"}, NOWHERE) == "text"


@pytest.mark.parametrize("editor", ["false", '"unbalanced', "/nonexistent/editor"])
def test_an_editor_that_fails_gives_nothing(editor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    command = "/bin/false" if editor == "false" else editor
    assert edited_text("text", {"EDITOR": command}, NOWHERE) is None


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    editor = script(tmp_path / "edit", "printf 'a\\377\\r\\nb\\r\\n' > \"$1\"")
    assert edited_text("x", {"EDITOR": editor}, NOWHERE) == "a\ufffd\nb"


@SIZES
def test_from_the_prompt_and_back(project: Project, columns: int, rows: int) -> None:
    """A paste goes there in full; an editor that fails leaves the prompt as it was, placeholder and all."""
    editor = script(project.home / "edit", 'test -e fails && exit 1; printf " and this" >> "$1"')
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows, EDITOR=editor) as terminal,
    ):
        terminal.until_idle()
        project.write("fails", "")
        terminal.paste("one\ntwo")
        terminal.until("[pasted 2 lines]")
        terminal.type("\x18\x05")
        terminal.until(lambda: terminal.paper.bells > 0)
        terminal.until(lambda: terminal.screen.endswith("> [pasted 2 lines]"))
        (project.cwd / "fails").unlink()
        terminal.type("\x18\x05")
        terminal.until(lambda: terminal.screen.endswith("> one\n  two and this"))
        terminal.type(ENTER)
        assert sent(server, terminal) == "one\ntwo and this"


def test_it_gets_no_key_and_is_none_of_the_project_s(project: Project) -> None:
    """With a directory of the project first on PATH."""
    key, seen, ran = "zq7Kk3vXw9PLmn42TTyaQ8", project.home / "seen", project.home / "ran"
    for directory, body in ((project.cwd / "bin", f"touch {ran}"), (project.home / "bin", f"env > {seen}")):
        directory.mkdir()
        script(directory / "ed", f'{body}; printf " edited" >> "$1"')
    path = f"{project.cwd / 'bin'}:{project.home / 'bin'}:{os.environ['PATH']}"
    secrets: dict[str, Any] = {"CODER_API_KEY": key, "COPY_OF_IT": key, "EDITOR_TOKEN": key}
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, EDITOR="ed", PATH=path, **secrets) as terminal,
    ):
        terminal.until_idle()
        terminal.type("text\x18\x05")
        terminal.until(lambda: terminal.screen.endswith("> text edited"))
    assert not ran.exists()
    assert f"HOME={project.home}" in seen.read_text(encoding="utf-8")
    assert key not in seen.read_text(encoding="utf-8")
