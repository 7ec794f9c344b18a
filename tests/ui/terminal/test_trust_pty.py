"""The question of trust as a person meets it: once, and again with what changed."""

from __future__ import annotations

import json
import re

import pytest
from pty_kit import ANSWERS, CTRL_D, ENTER, Terminal

from kit import ScriptedServer
from kit.driving import Project


def squeezed(text: str) -> str:
    """Without spaces and bars: where a narrow terminal breaks a line, words are in two."""
    return "".join(re.sub(r"(?m)^[│┊] ", "", text).split())


@pytest.mark.thorough
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
    assert squeezed("Answer y for yes; n or Enter alone for no.") in first
    assert first.count(squeezed('permission.preset = "auto-edit"')) == 1
    assert squeezed("cat log.txt") in first
    assert "k7Xq2" in first  # whoever decides sees what they decide on
    kept = b"".join(path.read_bytes() for path in project.home.rglob("*") if path.is_file())
    assert b"k7Xq2" not in kept
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


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 12)])
def test_every_value_is_shown_whole(project: Project, columns: int, rows: int, lang: str) -> None:
    harmless = [f"--harmless={n}" for n in range(150)]
    server = {
        "command": "npx",
        "args": [*harmless, "--then=evil"],
        "env": {"NODE_OPTIONS": "--require ./evil.js"},
    }
    verify = ["pytest" + " " * 2500 + "; evil\u200b\u202e"]
    settings = {"mcp": {"servers": {"s": server}}, "workflow": {"verify_commands": verify}}
    project.write(".coder/config.json", json.dumps(settings))
    with (
        ScriptedServer(ANSWERS) as model,
        Terminal(project, model.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until("[y/N]")
        said = squeezed(terminal.text)
        assert squeezed(json.dumps(server["args"], separators=(",", ":"))) in said
        assert squeezed('"NODE_OPTIONS":"--require ./evil.js"') in said
        assert squeezed("pytest␠×2500; evil⟨U+200B⟩⟨U+202E⟩") in said
        assert squeezed({"en": "scroll up to read", "zh": "向上滚动可读"}[lang]) in said
        assert squeezed({"en": "2 characters in it cannot be seen", "zh": "2 个看不见的字符"}[lang]) in said
        terminal.type("n" + ENTER)
        terminal.until_idle()


def test_the_command_shows_every_value_whole(project: Project) -> None:
    commands = ["make " + "x" * 2000 + " evil\u2066"]
    project.write(".coder/config.json", json.dumps({"workflow": {"verify_commands": commands}}))
    told = project.coder("trust").stdout
    assert "x" * 2000 + " evil⟨U+2066⟩" in told
    commands = ["make " + "y" * 2000 + " evil"]
    project.write(".coder/config.json", json.dumps({"workflow": {"verify_commands": commands}}))
    assert project.coder("trust").stdout.count("y" * 2000 + " evil") == 2


def test_what_was_typed_before_the_question_is_no_answer(project: Project) -> None:
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')
    # Cold, so that it surely takes longer to ask than this process to type.
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, cold=True) as terminal:
        terminal.type("y" + ENTER)
        terminal.until("[y/N]")
        terminal.type("n" + ENTER)
        terminal.until_idle()
        terminal.type(CTRL_D)
        terminal.ended()
    assert not (project.home / ".coder" / "trust.json").exists()
