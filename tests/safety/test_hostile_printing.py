"""What subcommands print of records and projects that others made: nothing of it acts on a terminal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kit import ScriptedServer
from kit.driving import Project

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\u202egnp\u2066\u061c\u2028 forged"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAME = "20260101-evil\x1b[2J\x9b\u202e\nforged"
KINDS = (
    *("session_start", "turn_start", "assistant", "action", "observation", "final", "command", "note"),
    *(
        "approval",
        "verify",
        "compaction",
        "undo",
        "loop",
        "citation",
        "state",
        "mode_state",
        "turn_end",
        EVIL,
    ),
)
FIELDS = (
    *("input", "tool", "command", "state", "exit_code", "answer", "reason", "status", "step_count", "model"),
    *("tokens", "tokens_before", "tokens_after", "undone_turn", "reasoning", "diff", "subject", "title"),
)
VALUES: tuple[Any, ...] = (EVIL, {EVIL: EVIL}, [EVIL, [EVIL]], 7, None, True)


def record() -> Iterator[dict[str, Any]]:
    for value in VALUES:
        for kind in KINDS:
            yield {
                "ts": EVIL,
                "session_id": EVIL,
                "type": kind,
                "turn": 1,
                "step": 0,
                "content": EVIL,
                "role": EVIL,
                "meta": dict.fromkeys(FIELDS, value),
            }


def hostile(project: Project) -> None:
    lines = "".join(json.dumps(event) + "\n" for event in record())
    path = project.write(f".coder/history/{NAME}.jsonl", lines)
    project.write(".coder/history/20260101-other.jsonl", lines)
    os.utime(path, (4e9, 4e9))  # the newest there is


@pytest.mark.parametrize(
    "command",
    [
        ["sessions"],
        ["show", NAME],
        ["show", "20260101"],
        ["show", f"missing{EVIL}"],
        ["trust", "--session", NAME],
        ["--continue", "--once", "hi"],
        ["--resume", NAME, "--once", "hi"],
        ["doctor"],
        ["modes"],
    ],
    ids=lambda command: command[0] + f"-{len(command[-1])}",
)
def test_text_is_shown_and_not_obeyed(project: Project, command: list[str]) -> None:
    hostile(project)
    project.write(
        f".coder/modes/m{EVIL.replace('/', '')}.md", f"---\ndescription: {EVIL!r}\nkind: {EVIL!r}\n---\n"
    )
    with ScriptedServer([{"text": "done"}]) as server:
        done = project.coder(*command, url=server.url)
    said = done.stdout + done.stderr
    assert said.strip()
    assert not RAW.search(said), repr(RAW.search(said))
    assert not re.search(r"(?m)^forged", said)


@pytest.mark.parametrize("command", [["sessions", "--json"], ["show", NAME, "--json"], ["modes", "--json"]])
def test_json_means_the_same_and_is_escaped(project: Project, command: list[str]) -> None:
    hostile(project)
    project.write(".coder/modes/m.md", "---\ndescription: x\n---\nbody\n")
    done = project.coder(*command)
    assert done.returncode == 0
    assert not RAW.search(done.stdout)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if command[0] == "sessions":
        assert NAME in {row["session_id"] for row in rows}
    if command[0] == "show":
        assert rows[0]["ts"] == EVIL


def test_an_exported_page_holds_nothing_raw(project: Project) -> None:
    hostile(project)
    assert project.coder("export", NAME, "--html", "page.html").returncode == 0
    page = (project.cwd / "page.html").read_text(encoding="utf-8")
    assert not RAW.search(page)
    assert "\\u202egnp" in page


def test_names_that_are_no_text_and_times_that_are_no_time(project: Project) -> None:
    hostile(project)
    odd = project.write(
        os.fsdecode(b".coder/history/20260102-\xff\xfe.jsonl"),
        json.dumps({**next(record()), "type": "turn_start"}) + "\n",
    )
    os.utime(odd, ns=(2**62, 2**62))
    for command in (["sessions"], ["sessions", "--json"]):
        done = project.coder(*command)
        assert done.returncode == 0
        assert "20260102-" in done.stdout
