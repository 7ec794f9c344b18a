"""What subcommands say: `doctor` with wrong settings, `sessions --json`."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from kit import ScriptedServer
from kit.driving import Project


@pytest.mark.parametrize(("lang", "word"), [("en", "settings"), ("zh", "设置")])
def test_doctor_lists_all_that_is_wrong_and_goes_on(project: Project, lang: str, word: str) -> None:
    project.configure(ui={"lang": "xx"}, budgett={}, runtime={"max_steps": 0})
    project.write(
        ".coder/config.json",
        '{"provider": {"base_url": "ftp://x", "headers": {"a b": "c"}}, "skills": {"paths": [1, "good", 2]}}',
    )
    project.write("named.json", '{"runtime": ')
    with ScriptedServer([]) as server:
        done = project.coder("doctor", "--config", "named.json", "--lang", lang, url=server.url)
    assert done.returncode == 2
    faults = [line for line in done.stdout.split("\n") if line.split()[1:2] == [word]]
    wrong = [
        *("ui.lang", "budgett", "runtime.max_steps", "provider.base_url", "provider.headers"),
        *("skills.paths[0]", "skills.paths[2]", "named.json"),
    ]
    for key in wrong:
        assert sum(key in line for line in faults) >= 1, key
    assert len(faults) == len(wrong)
    assert all(line.startswith("✗") for line in faults)
    assert server.url in done.stdout  # what the environment says is right, and holds
    assert "ripgrep" in done.stdout


def test_doctor_with_a_wrong_variable(project: Project) -> None:
    done = project.coder("doctor", url="zzz")
    assert done.returncode == 2
    assert "CODER_BASE_URL" in done.stdout
    assert "ripgrep" in done.stdout


def test_doctor_is_content_with_settings_that_are_right(project: Project) -> None:
    project.configure(runtime={"max_steps": 5})
    with ScriptedServer([]) as server:
        done = project.coder("doctor", url=server.url)
    assert "settings" not in done.stdout
    assert done.stdout.endswith("\n\nAll is well: `coder` begins a session.\n")


def test_doctor_ends_with_what_to_do(project: Project) -> None:
    """In a pipe every check is one line."""
    done = project.coder("doctor")
    *_, blank, last = done.stdout.splitlines()
    (provider,) = (line for line in done.stdout.splitlines() if line.startswith("✗   provider"))
    assert provider.endswith("`coder demo` needs none.")
    assert (blank, last) == ("", "Not ready yet: mend provider, then run `coder doctor` again.")
    project.configure(ui={"plain": True})
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')
    with ScriptedServer([]) as server:
        done = project.coder("doctor", url=server.url)
    assert "no  trust" in done.stdout
    assert "some of this folder's settings are ignored until you run `coder trust`" in done.stdout
    assert done.stdout.endswith("\n\ncoder works here. It does without what is marked no.\n")
    assert done.returncode == 0


def test_the_times_of_a_session_are_of_one_kind(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        project.coder("--once", "hi", url=server.url)
    (row,) = (json.loads(line) for line in project.coder("sessions", "--json").stdout.splitlines())
    created, updated = (datetime.fromisoformat(row[name]) for name in ("created_at", "updated_at"))
    assert created.tzinfo is not None
    assert created <= updated
    assert row["created_at"].endswith("Z")
    assert row["updated_at"].endswith("Z")
