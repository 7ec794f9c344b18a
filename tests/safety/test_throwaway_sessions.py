"""`coder tune` and `coder demo` run commands with another `$CODER_HOME`: the person's stays closed, and their
settings hold."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from box import available, level_of

from coder.addons.tune import tune_command as tune
from coder.cli import demo
from coder.policy.sandbox import probe
from coder.policy.secrets.secret_places import closed_inside
from coder.policy.shell.judge import judge
from kit import ScriptedServer
from kit.calls import bash, call
from kit.driving import Project

SECRET = "correct horse battery staple"
FILES = ("config.json", "record.key", "mcp-tokens.json")


@pytest.fixture(params=[*available(), "none"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The strongest that this machine has."""
    monkeypatch.setattr(probe, "_strongest", lambda *_: level_of(request.param))
    return str(request.param)


@pytest.fixture(params=[".coder", "elsewhere"])
def person(request: pytest.FixtureRequest, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Whose keys are in `~/.coder`, also if `$CODER_HOME` is elsewhere."""
    for directory in (project.home / ".coder", project.home / request.param):
        directory.mkdir(exist_ok=True)
        for name in FILES:
            (directory / name).write_text(json.dumps({"ui": {"statusline": SECRET}}), encoding="utf-8")
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    for name, value in project.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CODER_HOME", str(project.home / request.param))
    monkeypatch.chdir(project.cwd)
    return project


def reading(person: Project) -> list[dict[str, Any]]:
    """What a model tries that wants the keys."""
    places = [str(path) for path in person.home.iterdir() if path.is_dir()]
    line = " ; ".join(f"cat {place}/{name} ; ls -la {place}" for place in places for name in FILES)
    files = [call("read", path=f"{place}/{name}") for place in places for name in FILES]
    return [{"calls": [bash(line)]}, {"calls": files}, {"text": "done"}]


def test_a_model_that_is_tuned_cannot_read_the_person_s_keys(
    person: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer([*reading(person), {"text": "done"}]) as server:
        monkeypatch.setenv("CODER_BASE_URL", server.url)
        tune.run(["--model", "m", "--task", "wrong-operator", "--only", "native", "--json"])
        sent = json.dumps(server.chats)
    assert f"cat {person.home}" in sent
    assert SECRET not in sent


def test_the_model_of_the_tour_cannot_read_them_either(
    person: Project, backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a real one with `--live`."""
    monkeypatch.setattr(demo, "SCRIPT", reading(person))
    assert demo.run(["--fast"]) == 0
    shown = capsys.readouterr().err
    assert f"cat {person.home}" in shown
    assert SECRET not in shown


def test_the_person_s_settings_hold_in_a_throw_away_directory(
    person: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = person.home / "granted"
    granted.mkdir()
    settings = {"sandbox": {"writable": [str(granted)]}, "permission": {"tools": {"write": "deny"}}}
    (Path(os.environ["CODER_HOME"]) / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    script = [
        {"calls": [bash(f"touch {granted}/file {person.home}/other")]},
        {"calls": [call("write", path="new.txt", content="x")]},
        {"text": "done"},
    ]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        monkeypatch.setenv("CODER_BASE_URL", server.url)
        tune.run(["--model", "m", "--task", "wrong-operator", "--only", "native", "--json"])
        sent = json.dumps(server.chats)
    assert (granted / "file").exists() is (
        backend != "none"
    )  # where yolo runs no command that nobody confirmed
    assert not (person.home / "other").exists()
    assert "denied" in sent


def test_no_session_reads_another_home_of_coder_s(person: Project) -> None:
    """Whatever `$CODER_HOME` it was given: by file tools or unasked."""
    homes = {str(path) for path in person.home.iterdir() if path.is_dir()}
    assert homes <= set(closed_inside(str(person.home), "", "/somewhere"))
    for home in homes:
        assert judge(f"cat {home}/record.key", person.home).read_only is False
