"""Directories of the project that become links while coder uses them lead nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coder.config.save import save_model
from coder.history.sinks import HistoryError, JsonlHistorySink
from coder.history.store import SessionStore
from coder.history.undo.apply_steps import PathState
from coder.history.undo.journal import remove_leftovers
from coder.history.undo.plan import JournalChange
from kit.driving import Project


@pytest.fixture
def outside(project: Project) -> Path:
    directory = project.home / "precious"
    directory.mkdir()
    return directory


def lead_out(project: Project, name: str, outside: Path) -> None:
    path = project.cwd / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        path.rename(project.home / "before")
    path.symlink_to(outside)


@pytest.mark.parametrize("name", [".coder", ".coder/history"])
def test_a_record_is_not_written_where_a_new_link_leads(project: Project, outside: Path, name: str) -> None:
    store = SessionStore(project.cwd)
    path = store.log_path("one")
    lead_out(project, name, outside)
    with pytest.raises(HistoryError):
        JsonlHistorySink(path, resolved=True).open()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", [".coder", ".coder/sessions"])
def test_a_snapshot_is_not_written_where_a_new_link_leads(project: Project, outside: Path, name: str) -> None:
    store = SessionStore(project.cwd)
    lead_out(project, name, outside)
    with pytest.raises(OSError, match=r"link"):
        store.write_snapshot("one", "", "", {}, [], [])
    assert list(outside.iterdir()) == []


def test_a_record_that_has_become_a_pipe_is_not_waited_for(project: Project) -> None:
    store = SessionStore(project.cwd)
    path = store.log_path("one")
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    assert store.infos() == []
    assert not store.exists("one")


def test_settings_that_a_link_brings_from_elsewhere_are_not_read(project: Project, outside: Path) -> None:
    (outside / "config.json").write_text('{"ui": {"lang": "zh"}}', encoding="utf-8")
    (project.cwd / ".coder").mkdir()
    (project.cwd / ".coder" / "config.json").symlink_to(outside / "config.json")
    done = project.coder("doctor")
    assert "leads out of the project" in done.stdout + done.stderr
    assert save_model(project.cwd, "new") is not None
    assert "new" not in (outside / "config.json").read_text(encoding="utf-8")


def test_a_new_mode_is_not_made_outside_the_project(project: Project, outside: Path) -> None:
    lead_out(project, ".coder", outside)
    done = project.coder("modes", "new", "mine")
    assert done.returncode != 0
    assert "leads out of" in done.stderr
    assert list(outside.iterdir()) == []


def test_a_pipe_among_leftovers_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / ".coder-aaaaaaaaaaaa.tmp"
    os.mkfifo(pipe)
    part = tmp_path / ".coder-bbbbbbbbbbbb.tmp"
    part.write_bytes(b"begun")
    state = PathState("blob", 0o644)
    change = JournalChange(str(tmp_path / "a.txt"), state, state, [])
    remove_leftovers([change], lambda blob: b"begun and done")
    assert pipe.exists()
    assert not part.exists()
