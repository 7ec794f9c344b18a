"""The question about a record that somebody else made, as a person meets it."""

from __future__ import annotations

import json

import pytest
from pty_kit import ANSWERS, CTRL_D, ENTER, Terminal

from kit import ScriptedServer
from kit.driving import Project


def squeezed(text: str) -> str:
    """Without spaces: where a narrow terminal breaks a line, words are in two."""
    return "".join(text.split())


@pytest.mark.parametrize(
    ("lang", "columns", "about", "left"),
    [
        ("en", 80, "was not recorded by you", "is left as it is"),
        ("zh", 40, "不是你用这个coder主目录记录的", "保持原样"),
    ],
)
def test_asked_once_and_a_no_leaves_it(
    project: Project, lang: str, columns: int, about: str, left: str
) -> None:
    rows = [("session_start", 0, "prompt"), ("turn_start", 1, "the old question"), ("turn_end", 1, "")]
    common = {"ts": "2026-01-01T00:00:00.000Z", "session_id": "old", "step": 0, "role": None, "meta": {}}
    lines = [json.dumps({**common, "type": t, "turn": n, "content": c}) + "\n" for t, n, c in rows]
    log = project.write(".coder/history/old.jsonl", "".join(lines))
    before = log.read_bytes()

    def started(*answers: str) -> str:
        flags = ("--continue", "--lang", lang)
        with (
            ScriptedServer(ANSWERS) as server,
            Terminal(project, server.url, *flags, columns=columns) as terminal,
        ):
            for text in answers:
                terminal.until("[y/N]")
                terminal.type(text + ENTER)
            if "y" in answers or not answers:
                terminal.until_idle()
                terminal.type(CTRL_D)
            terminal.ended()
            return squeezed(terminal.text)

    refused = started("n")
    assert squeezed(about) in refused
    assert squeezed("the old question") in refused
    assert squeezed(left) in refused
    assert log.read_bytes() == before
    assert squeezed("the old question") in started("y")
    assert "[y/N]" not in started()
