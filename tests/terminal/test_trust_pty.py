"""The question of trust as a person meets it: once, and again with what changed."""

from __future__ import annotations

import pytest
from pty_kit import ANSWERS, CTRL_D, ENTER, Terminal

from kit import ScriptedServer
from kit.driving import Project


def squeezed(text: str) -> str:
    """Without spaces: where a narrow terminal breaks a line, words are in two."""
    return "".join(text.split())


@pytest.mark.parametrize("columns", [80, 40])
def test_asked_once_and_again_where_something_changed(project: Project, columns: int) -> None:
    project.write(
        ".coder/config.json", '{"permission": {"preset": "auto-edit"}, "provider": {"api_key": "k7Xq2"}}'
    )
    project.write(".coder/modes/log.md", "---\nkind: instant\n---\n!cat log.txt\n")

    def said(*answer: str) -> str:
        with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, columns=columns) as terminal:
            for n, text in enumerate(answer, 1):
                terminal.until(lambda n=n: terminal.text.count("[y/N]") == n)  # type: ignore[misc] # bound at once
                terminal.type(text + ENTER)
            terminal.until_idle()
            terminal.type(CTRL_D)
            terminal.ended()
            return squeezed(terminal.text)

    first = said("perhaps", "n")  # what is neither is asked again
    assert squeezed("That is no answer: y is yes; n, or Enter alone, is no.") in first
    assert first.count(squeezed('permission.preset = "auto-edit"')) == 1
    assert squeezed("cat log.txt") in first
    assert squeezed("k7Xq2") not in first
    assert squeezed("changed") not in first
    said("y")
    assert "[y/N]" not in said()
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')
    project.write(".coder/modes/log.md", "---\nkind: instant\n---\n!cat other.txt\n")
    again = said("n")
    assert squeezed("changed since you trusted them") in again
    assert squeezed('changed: permission.preset: "auto-edit" → "yolo"') in again
    assert squeezed('changed: modes/log: ["cat log.txt"] → ["cat other.txt"]') in again
    assert squeezed("gone: provider.api_key") in again
    said("y")
    assert "[y/N]" not in said()
