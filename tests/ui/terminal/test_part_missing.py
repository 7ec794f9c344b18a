"""Our own files go away, or fail, under a running session: one sentence, and no turn that waits for ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pty_kit import CTRL_D, Terminal
from repl_kit import says

import coder
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project

HERE = Path(coder.__file__).parent


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of the package, compiled files included."""
    return Path(shutil.copytree(HERE, tmp_path / "lib" / "coder"))


@pytest.mark.thorough
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_removed_package_ends_the_turn_with_a_sentence(project: Project, library: Path, lang: str) -> None:
    with (
        ScriptedServer([{"text": "never"}]) as server,
        Terminal(
            project, server.url, "--lang", lang, PYTHONPATH=str(library.parent), CODER_STRICT_TEXTS=""
        ) as terminal,
    ):
        terminal.until_idle()
        shutil.rmtree(library)
        terminal.send("hello")
        sentence = {"en": "A part of coder is missing (No module", "zh": "coder 缺少一部分（No module"}[lang]
        terminal.until(lambda: says(terminal, sentence))
        terminal.until_idle()
        assert "Traceback" not in terminal.text
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        (log,) = project.logs()
        assert f"`coder --resume {log.stem}`" in terminal.text.split("\n")[-1]
        assert "Traceback" not in terminal.text


@pytest.mark.thorough
def test_an_error_of_the_screen_is_told_once_and_the_turn_goes_on(project: Project, library: Path) -> None:
    (library / "ui/terminal/render/diff_rows.py").write_text("raise RuntimeError('bent')\n")
    project.write("a.py", "limit = 1\n")
    steps = [
        {"calls": [call("edit", path="a.py", old_string=f"limit = {n}", new_string=f"limit = {n + 1}")]}
        for n in (1, 2)
    ]
    with (
        ScriptedServer([*steps, {"text": "done"}]) as server,
        Terminal(project, server.url, "--mode", "yolo", PYTHONPATH=str(library.parent)) as terminal,
    ):
        terminal.until(lambda: "[yolo]" in terminal.screen)
        terminal.send("go")
        terminal.until("\ndone\n")
        terminal.until_idle()
        assert terminal.text.count("(RuntimeError: bent)") == 1
        assert (project.cwd / "a.py").read_text() == "limit = 3\n"
        assert "Traceback" not in terminal.text
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
