"""`coder models`: what is set up, and what is known or guessed of it."""

from __future__ import annotations

import json

import pytest

from kit import ScriptedServer
from kit.driving import Project

PRICES = {"gpt-5.5": {"input": 2.0, "cached_input": 0.2, "output": 8.0}}


def test_what_is_known_and_what_is_guessed(project: Project) -> None:
    project.configure(
        budget={"prices": PRICES},
        provider={"models": {"small": {"context_window": 4096, "dialect": "guided", "images": False}}},
    )
    environ = {"ANTHROPIC_API_KEY": "sk-ant-1", "CODER_MODEL": "gpt-5.5"}
    with ScriptedServer(model="unheard-of") as server:
        done = project.coder("models", "--json", url=server.url, env=environ)
        rows = {row["model"]: row for row in json.loads(done.stdout)["models"]}
        shown = project.coder("models", url=server.url, env=environ).stdout
    assert list(rows)[:3] == ["gpt-5.5", "small", "unheard-of"]
    assert rows["gpt-5.5"]["in_use"] is True
    assert rows["gpt-5.5"]["price"] == {**PRICES["gpt-5.5"], "cache_write": None}
    seeing = {name: rows[name]["images"] for name in ("gpt-5.5", "small", "unheard-of")}
    assert seeing == {"gpt-5.5": True, "small": False, "unheard-of": None}
    assert (rows["gpt-5.5"]["context_window"], rows["gpt-5.5"]["window_known"]) == (1_050_000, True)
    assert (rows["small"]["context_window"], rows["small"]["dialect"]) == (4096, "guided")
    assert (rows["unheard-of"]["window_known"], rows["unheard-of"]["price"]) == (False, None)
    claude = next(row for row in rows.values() if row["provider"] == "anthropic")
    assert (claude["wire"], claude["keeps_reasoning"]) == ("messages", True)
    assert [row["model"] for row in rows.values() if row["listed"]] == ["claude-sonnet-5-5"]
    assert claude["price"] == {"input": 2.0, "cached_input": 0.1, "output": 10.0, "cache_write": None}
    assert "2 / 0.1 / 10" in shown
    assert "list prices of 2026-11" in shown
    assert "gpt-5.5 *" in shown
    assert "2 / 0.2 / 8" in shown
    assert "128000?" in shown
    assert "?: not known; 128000 is a guess" in shown
    assert '{"budget": {"prices": {"small": {"input": 1.0, ' in shown
    assert str(project.home / ".coder" / "config.json") in shown.splitlines()[-1]
    assert "sk-ant-1" not in shown + done.stdout


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_dead_server_is_said_and_the_rest_shown(project: Project, lang: str) -> None:
    done = project.coder("models", "--lang", lang, url="http://127.0.0.1:1/v1")
    assert done.returncode == 0
    assert "scripted *" in done.stdout
    assert "127.0.0.1:1" in done.stdout.splitlines()[-1]


def test_without_a_provider_it_says_what_to_set(project: Project) -> None:
    done = project.coder("models")
    assert done.returncode == 2
    assert "CODER_API_KEY" in done.stderr


def test_a_name_that_a_server_lists_stays_in_its_row(project: Project) -> None:
    with ScriptedServer(model="a\nb\x1b[2J") as server:
        listed = project.coder("models", url=server.url).stdout
    assert "a\\nb\\x1b[2J" in listed
    assert "\x1b" not in listed
