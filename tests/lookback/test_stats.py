"""`coder stats`: what is counted, by what, and how it looks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from records import START, event, turn_of, write

from coder.protocol import entries
from coder.protocol.messages import Tokens
from kit import ScriptedServer
from kit.driving import Project, play


def stats(project: Project, *args: str) -> dict[str, Any]:
    done = project.coder("stats", "--json", *args, env={"TZ": "UTC"})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def history(project: Project) -> Path:
    return project.cwd / ".coder" / "history"


def timed_turn(day: str, model: str = "m", tool: str = "bash") -> bytes:
    """A turn of 10 s: 2 s for the model, 3 s for the person, 4 s for the tool, 1 s for the model."""

    def at(seconds: int) -> str:
        return f"{day}T12:00:{seconds:02d}.000Z"

    tokens = Tokens(prompt=100, completion=10, total=110, cached=60)
    answer = entries.Assistant(tokens=tokens, model=model, cost_usd=0.25)
    end = entries.TurnEnd(status="ok", step_count=2, tokens=tokens, verification=entries.Verification())
    start = entries.TurnStart(prompt_id="p", tokens=entries.PromptTokens(prompt=3))
    approved = entries.Approval(approval_id="a", tool=tool, subject="", reasons=[], call_id="c", answer="y")
    seen = entries.Observation(tool=tool, call_id="c", ok=False, denied=False)
    return b"".join(
        [
            event("turn_start", start, "go", ts=at(0)),
            event("assistant", answer, "", ts=at(2)),
            event("action", entries.Action(tool=tool, input={}, call_id="c"), ts=at(2)),
            event("approval", approved, ts=at(5)),
            event("observation", seen, "no", ts=at(9)),
            event("assistant", answer, "done", ts=at(10)),
            event("turn_end", end, ts=at(10)),
        ]
    )


def test_a_real_session_is_counted(project: Project) -> None:
    project.write("notes.txt", "a\n")
    script = [
        {"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]},
        {"calls": [{"name": "read", "arguments": {"path": "missing.txt"}}]},
        {"text": "Read.", "usage": {"prompt_tokens": 1000, "completion_tokens": 7, "total_tokens": 1007}},
        {"text": "Again."},
    ]
    play(project, script, ["read the notes", "and again"])
    total = stats(project)["total"]
    assert (total["sessions"], total["turns"], total["steps"]) == (1, 2, 4)
    assert total["turns_ended"] == {"ok": 2}
    read = total["tools"]["read"]
    assert (read["calls"], read["failures"], read["denied"]) == (2, 1, 0)
    recorded = [one["meta"]["tokens"] for one in project.of_type("assistant")]
    assert total["tokens"]["prompt"] == sum(tokens["prompt"] for tokens in recorded)
    assert total["tokens"]["completion"] == sum(tokens["completion"] for tokens in recorded)
    assert list(total["models"]) == ["scripted"]
    assert total["models"]["scripted"]["requests"] == 4


def test_the_sessions_counted_found_and_listed_are_the_same(project: Project) -> None:
    """One that holds only `/status` and the like is none of them; one with the person's own command is."""
    play(project, [], ["/status pelican"])
    play(project, [], ["!echo pelican"])
    play(project, [{"text": "a pelican"}], ["hello"])
    assert len(list(history(project).glob("*.jsonl"))) == 3
    listed = project.coder("sessions").stdout.splitlines()
    assert sorted(row.split("  ")[2] for row in listed) == ["0 turns", "1 turn"]
    assert stats(project)["total"]["sessions"] == 2
    found = project.coder("sessions", "--search", "pelican", "--json").stdout.splitlines()
    assert len(found) == 2
    assert project.coder("sessions").stderr == ""
    assert "--limit" in project.coder("sessions", "--limit", "1").stderr


def test_time_is_told_apart_and_the_cache_has_its_share(project: Project) -> None:
    write(history(project), "one", [timed_turn("2026-03-01")])
    total = stats(project)["total"]
    assert (total["model_ms"], total["person_ms"], total["tool_ms"]) == (3000, 3000, 4000)
    assert (total["cache_share"], total["cost_usd"]) == (0.6, 0.5)
    assert total["tools"]["bash"]["failures"] == 1


@pytest.mark.thorough
def test_days_models_and_projects(project: Project, tmp_path: Path) -> None:
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    earlier = (datetime.now(UTC) - timedelta(days=40)).strftime("%Y-%m-%d")
    write(history(project), "one", [timed_turn(earlier, "small"), timed_turn(today, "large")])
    found = stats(project)
    assert [(one["day"], one["turns"], list(one["models"])) for one in found["days"]] == [
        (earlier, 1, ["small"]),
        (today, 1, ["large"]),
    ]
    assert found["total"]["sessions"] == 1  # one session on two days
    assert list(stats(project, "--days", "7")["total"]["models"]) == ["large"]

    (tmp_path / "b").mkdir()
    other = Project(tmp_path / "b")
    other.home = project.home
    with ScriptedServer([{"text": "ok"}]) as server:
        assert other.coder("--once", "hello", url=server.url).returncode == 0
    play(project, [{"text": "ok"}], ["hi"], session_kind="interactive")  # remembers the project
    rows = {one["project"]: one["turns"] for one in stats(other, "--all")["projects"]}
    assert rows == {str(project.cwd): 3, str(other.cwd): 1}
    assert [one["project"] for one in stats(other)["projects"]] == [str(other.cwd)]


def test_what_was_appended_is_added_and_what_was_deleted_goes(project: Project) -> None:
    path = write(history(project), "one", [timed_turn("2026-03-01")])
    assert stats(project)["total"]["turns"] == 1
    with path.open("ab") as file:
        file.write(timed_turn("2026-03-02"))
    assert stats(project)["total"]["turns"] == 2
    path.unlink()
    assert stats(project)["total"]["sessions"] == 0


def test_the_page_has_bars_fits_the_width_and_is_harmless(project: Project) -> None:
    few = [timed_turn("2026-03-01", "small")]
    many = [timed_turn("2026-03-02", "grand\x1b[31m", "ba\nsh") for _ in range(4)]
    write(history(project), "one", [*few, *many])
    for lang, word in (("en", "By model"), ("zh", "按模型")):
        done = project.coder("stats", "--lang", lang, env={"COLUMNS": "100", "TZ": "UTC"})
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert word in lines
        assert "\x1b" not in done.stdout
        (short,) = (line for line in lines if "2026-03-01" in line)
        (long,) = (line for line in lines if "2026-03-02" in line)
        assert long.count("█") // 4 == short.count("█") > 0
        assert max(map(len, lines)) <= 100
    narrow = project.coder("stats", env={"COLUMNS": "40", "TZ": "UTC"}).stdout
    assert "█" not in narrow.split("By day")[1].split("By model")[0]
    assert "2026-03-01" in narrow
    plain = project.coder("stats", env={"COLUMNS": "100", "TERM": "dumb"}).stdout
    assert "█" not in plain
    assert "####" in plain


def test_nothing_recorded_and_numbers_beyond_reason(project: Project) -> None:
    done = project.coder("stats")
    assert done.returncode == 0
    assert done.stdout == "No session was recorded here.\n"
    lately = project.coder("stats", "--days", "7").stdout
    assert lately == "No session was recorded here in the last 7 days.\n"
    huge = Tokens(prompt=2**63 - 1, completion=0, total=0)
    answer = event("assistant", entries.Assistant(tokens=huge, model="m", cost_usd=1e308), "x")
    write(history(project), "odd", [answer * 3, turn_of("a", "b")])
    assert stats(project)["total"]["turns"] == 1
    assert project.coder("stats").returncode == 0


def test_days_before_the_clock_was_set(project: Project) -> None:
    """Sessions without a time are counted on a day of their own, and early years are whole dates."""
    timeless = turn_of("a", "b").replace(START.encode(), b"unknown")
    write(history(project), "a", [timeless])
    write(history(project), "b", [turn_of("a", "b").replace(START.encode(), b"0007-03-01T09:00:00.000Z")])
    days = {day["day"]: day["sessions"] for day in stats(project)["days"]}
    assert days == {"": 1, "7-03-01": 1}
