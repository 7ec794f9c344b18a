"""Commands of the terminal itself: `/help`, `/diff`, `/theme`, `/copy`."""

from __future__ import annotations

import re
import subprocess
from functools import partial

import pytest
from pty_kit import Terminal
from repl_kit import SIZES, says

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project


@SIZES
def test_help_lists_the_terminal_s_own_commands(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/help")
        terminal.until(lambda: says(terminal, "of your own."))
        lines = terminal.text.split("\n")
        for name in ("/exit", "/vim", "/theme", "/copy"):
            assert sum(line.startswith(f"{name} ") for line in lines) == 1, name
        at = {line.split()[0]: line for line in lines if line.startswith("/")}
        if columns > 40:
            assert at["/copy"].index("copy the last") == at["/exit"].index("leave") == 30
            assert at["/diff"].endswith("]]")  # a long usage does not narrow all descriptions
        else:
            assert at["/exit"] == "/exit  leave"
            assert "/copy  copy the last answer to the\n    clipboard\n" in terminal.text
        keys = next(n for n, line in enumerate(lines) if line.startswith("Type what"))
        assert not lines[keys - 1]
        assert lines.index(at["/copy"]) < keys
        for name in ("vim", "copy", "todos", "new"):
            terminal.until_idle()
            terminal.send(f"/{name} x")
            terminal.until(partial(says, terminal, f"/{name} takes no arguments"))
        assert len(project.logs()) == 1


@pytest.mark.thorough
@SIZES
def test_a_summary_of_the_differences_and_all_of_them_in_the_pager(
    project: Project, columns: int, rows: int
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    project.write("a.txt", "old\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project.cwd, check=True)
    project.write("a.txt", "".join(f"line {n}\n" for n in range(100)))
    pager = project.home / "pager.sh"
    pager.write_text(f"#!/bin/sh\ncat > {project.home}/paged\n", encoding="utf-8")
    pager.chmod(0o700)
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, PAGER=str(pager), columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/diff")
        terminal.until(lambda: says(terminal, "/diff full shows every line"))
        assert says(terminal, "1 file changed, 100 insertions(+), 1 deletion(-)")
        assert not (project.home / "paged").exists()
        terminal.until_idle()
        terminal.send("/diff full")
        terminal.until(lambda: says(terminal, "lines of differences, shown in the pager)"))
        terminal.until(lambda: "context: " in terminal.screen)
        assert "line 99" in (project.home / "paged").read_text(encoding="utf-8")
        assert "line 99" not in terminal.text


def test_colours_of_the_themes(project: Project) -> None:
    script = [{"text": f"# head{n}"} for n in range(3)]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        for at, (name, start) in enumerate(
            [("dark", b"\x1b[1;96m"), ("light", b"\x1b[1;34m"), ("none", b"")]
        ):
            terminal.send(f"/theme {name}")
            terminal.until(f"Theme: {name}")
            terminal.send("go")
            terminal.until(f"head{at}")
            terminal.until_idle()
            found = set(re.findall(rb"(\x1b\[[1-9][\d;]*m)?# head%d" % at, bytes(terminal.raw)))
            assert found == {start}  # once, or also live before it was final


def test_counts_of_one_are_said_as_one(project: Project) -> None:
    project.configure(ui={"output_lines": 40})
    script = [bash_step("seq 41"), {"text": "x"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("… 1 line not shown …")
        terminal.until_idle()
        terminal.send("/copy")
        terminal.until("Copied 1 character to")
