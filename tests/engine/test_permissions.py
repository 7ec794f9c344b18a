"""`/permissions`: the matrix in force, what runs without asking and who said so, taking an `always` back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coder.config.allowlist import Allowlist
from coder.protocol.events import ApprovalRequested, CommandDone
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash, bash_step
from kit.driving import Driver, Project, drive, of, play


def play_always(project: Project, commands: list[str], *inputs: str, **options: Any) -> Driver:
    """A turn for each `go` in `inputs`, which runs the next command; a person says always to all of it."""
    script = [answer for line in commands for answer in (bash_step(line), {"text": "ok"})]
    return play(
        project,
        script,
        inputs,
        answer=lambda event: ApprovalReply(event.approval_id, "always"),
        can_ask=True,
        **options,
    )


def said(driver: Driver) -> list[CommandDone]:
    return of(driver.seen, CommandDone)


def rows(text: str) -> dict[str, str]:
    pairs = (line.strip().split("  ", 1) for line in text.splitlines() if line.startswith("  "))
    return {name: rest.strip() for name, rest in pairs}


@pytest.mark.thorough
def test_each_allowed_command_is_listed_with_its_origin(project: Project) -> None:
    project.configure(permission={"command_allowlist": ["make"]})
    driver = play_always(project, ["touch a", "mkdir d && touch d/b"], "go", "go", "/permissions")
    shown = said(driver)[-1]
    found = rows(str(shown.text))
    assert found["touch"] == found["mkdir"] == "by your “always”"
    assert found["make"] == f"by {project.home / '.coder' / 'config.json'}"
    assert found["write"] == "ask"
    assert shown.data["allowed"] == {
        "touch": "always",
        "mkdir": "always",
        "make": str(project.home / ".coder" / "config.json"),
    }


def test_the_project_s_own_file_is_named_once_it_is_trusted(project: Project) -> None:
    project.write(".coder/config.json", json.dumps({"permission": {"command_allowlist": ["make"]}}))
    untrusted = said(play_always(project, [], "/permissions"))[0]
    assert "make" not in rows(str(untrusted.text))
    project.coder("trust", stdin="y\n")
    trusted = said(play_always(project, [], "/permissions"))[0]
    assert rows(str(trusted.text))["make"] == "by .coder/config.json"


def test_a_revoked_command_is_asked_about_again(project: Project) -> None:
    inputs = ["go", "/permissions revoke touch", "go", "/permissions"]
    driver = play_always(project, ["touch a", "touch b"], *inputs)
    assert len(of(driver.seen, ApprovalRequested)) == 2
    revoked, _ = said(driver)
    assert revoked.ok
    assert "touch" in str(revoked.text)
    assert {"revoked": ["touch"]} in [e["meta"] for e in project.of_type("state")]


def test_names_of_two_words_and_all_of_them(project: Project) -> None:
    allowlist = Allowlist(project.home / ".coder", project.cwd)
    allowlist.add("git commit", "touch", "mkdir")
    one, rest, none = said(
        play_always(
            project,
            [],
            "/permissions revoke  git   commit",
            "/permissions revoke all",
            "/permissions revoke all",
        )
    )
    assert "git commit" in str(one.text)
    assert rest.ok
    assert "touch, mkdir" in str(rest.text)
    assert none.ok
    assert "Nothing was allowed" in str(none.text)
    assert allowlist.names() == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/permissions revoke", "/permissions revoke NAME, one of touch, all"),
        ("/permissions revoke nope", "nope was not allowed with “always”; allowed: touch."),
        ("/permissions revoke make", "take it out of permission.command_allowlist"),
        ("/permissions revok touch", "There is no preset"),
    ],
)
def test_what_cannot_be_revoked_is_said_and_stays(project: Project, line: str, words: str) -> None:
    project.configure(permission={"command_allowlist": ["make"]})
    allowlist = Allowlist(project.home / ".coder", project.cwd)
    allowlist.add("touch")
    (done,) = said(play_always(project, [], line))
    assert not done.ok
    assert words in str(done.text)
    assert allowlist.names() == ["touch"]


def test_a_damaged_list_is_said(project: Project) -> None:
    allowlist = Allowlist(project.home / ".coder", project.cwd)
    allowlist.add("touch")
    allowlist.path.write_text("{torn", encoding="utf-8")
    (done,) = said(play_always(project, [], "/permissions"))
    assert str(allowlist.path) in str(done.text)


def test_the_matrix_is_the_effective_one(project: Project) -> None:
    project.configure(permission={"tools": {"fetch": "deny"}}, sandbox={"mode": "off"})
    with ScriptedServer([]) as server:
        driver = drive(project, server.url, ["/permissions", "/plan", "/permissions", "/permissions yolo"])
    first, _, plan, yolo = (rows(str(done.text)) for done in said(driver))
    assert (first["fetch"], first["write"], first["bash, otherwise"]) == ("deny", "ask", "ask")
    assert (plan["write"], plan["bash, otherwise"], plan["bash, read-only"]) == ("deny", "deny", "allow")
    assert yolo["write"] == "deny"  # still in plan mode, whatever the preset


def test_two_sessions_that_allow_at_once_lose_nothing(project: Project) -> None:
    async def scenario(one: str, two: str) -> None:
        drivers = [Driver(project, url, can_ask=True) for url in (one, two)]
        for driver in drivers:
            driver.start()
        answers = [d.send("go", lambda e: ApprovalReply(e.approval_id, "always")) for d in drivers]
        await asyncio.gather(*answers)
        for driver in drivers:
            await driver.close()

    first = [{"calls": [bash(f"{name} x")]} for name in ("touch", "mkdir", "make", "cargo build")]
    second = [{"calls": [bash(f"{name} x")]} for name in ("gunzip", "touch", "gcc", "ninja")]
    with (
        ScriptedServer([*first, {"text": "ok"}]) as server,
        ScriptedServer([*second, {"text": "ok"}]) as other,
    ):
        asyncio.run(scenario(server.url, other.url))
    names = Allowlist(project.home / ".coder", project.cwd).names()
    wanted = {"touch", "mkdir", "make x", "cargo build", "gunzip", "gcc", "ninja x"}
    assert set(names) == wanted
    assert len(names) == len(wanted)
