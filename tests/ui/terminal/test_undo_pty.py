"""Leaving the sandbox, taking back and doing again, revoking: as a person does it at the prompt."""

from __future__ import annotations

from pty_kit import Terminal

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project


def flat(text: str) -> str:
    """Without the line breaks that the width of the screen made."""
    return " ".join(text.split())


def test_what_commands_did_is_undone_and_what_the_sandbox_holds_is_said(project: Project) -> None:
    project.write("a", "old\n")
    line = "echo new > a; sh -c 'touch ../outside'"
    script = [bash_step(line), {"text": "first done"}, bash_step("touch b"), {"text": "second done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)  # the policy's question
        terminal.send("y")
        terminal.until("first done")
        terminal.until_idle()
        assert "Commands may not write" in flat(terminal.text)
        assert terminal.text.count("needs your approval") == 1  # never about leaving the sandbox
        assert not (project.cwd.parent / "outside").exists()

        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.send("a")
        terminal.until("second done")
        terminal.until_idle()

        terminal.send("/undo show 2")
        terminal.until("restore a")
        terminal.until_idle()
        assert (project.cwd / "a").read_text() == "new\n"
        terminal.send("/undo 2")
        terminal.until("restored a")
        terminal.until_idle()
        assert (project.cwd / "a").read_text() == "old\n"
        assert not (project.cwd / "b").exists()
        terminal.send("/redo 2")
        terminal.until("Redid the file changes of turn 2")
        terminal.until_idle()
        assert (project.cwd / "a").read_text() == "new\n"
        assert (project.cwd / "b").exists()

        terminal.type("/permissions rev")
        terminal.until(lambda: "revoke touch" in terminal.screen and "revoke all" in terminal.screen)
        terminal.type("oke touch\r")
        terminal.until("asked about again: touch")
