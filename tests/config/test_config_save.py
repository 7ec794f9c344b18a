"""`/model` keeps the person's file as it is, but for the one value."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coder.config import save
from coder.config.files import ensure_directory
from coder.config.jsonc import decode_jsonc
from coder.config.save import save_model
from coder.texts import Catalog


def saved(directory: Path, before: str, name: str = "new") -> str:
    path = directory / ".coder" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before.encode())
    assert save_model(directory, name) is None
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"provider": {"model": "old"}}', '{"provider": {"model": "new"}}'),
        (
            '{\n  // me\n  "provider": {\n    "model": "old", // good\n    "dialect": "auto",\n  },\n}\n',
            '{\n  // me\n  "provider": {\n    "model": "new", // good\n    "dialect": "auto",\n  },\n}\n',
        ),
        (
            '{\n    "provider": {\n        "dialect": "auto"\n    }\n}',
            '{\n    "provider": {\n        "model": "new",\n        "dialect": "auto"\n    }\n}',
        ),
        (
            '{\n  // about ui\n  "ui": {"vim": true}\n}\n',
            '{\n  "provider": {"model": "new"},\n  // about ui\n  "ui": {"vim": true}\n}\n',
        ),
        (
            '{ // settings\r\n\t"ui": {}\r\n}',
            '{ // settings\r\n\t"provider": {"model": "new"},\r\n\t"ui": {}\r\n}',
        ),
        ('{"ui": {}}', '{"provider": {"model": "new"}, "ui": {}}'),
        ('{"provider": {}}', '{"provider": {"model": "new"}}'),
        ("{}", '{\n  "provider": {"model": "new"}\n}'),
        ("{\n}\n", '{\n  "provider": {"model": "new"}\n}\n'),
        ("{\n  // none yet\n}\n", '{\n  "provider": {"model": "new"}\n  // none yet\n}\n'),
        ('{"provider": {"model": /* x */ "old" /* y */}}', '{"provider": {"model": /* x */ "new" /* y */}}'),
        ('{"routing": {"fast": "model"}, "provider": {"model": "a"}}', None),
        ('{"provider": {"model": "first"}, "provider": {"model": "last"}}', None),
        ('{"mcp": {"servers": {"provider": {"model": "x"}}}}', None),
        ('\ufeff{"provider": {"model": "old"}}', '\ufeff{"provider": {"model": "new"}}'),
        ("", '{\n  "provider": {\n    "model": "new"\n  }\n}\n'),
        ("// soon\n", '// soon\n{\n  "provider": {\n    "model": "new"\n  }\n}\n'),
    ],
)
def test_only_the_model_changes(tmp_path: Path, before: str, after: str | None) -> None:
    text = saved(tmp_path, before)
    if after is not None:
        assert text == after
    value = decode_jsonc(text.encode(), "f")
    was = decode_jsonc(before.encode(), "f") or {}
    assert value == {**was, "provider": {**was.get("provider", {}), "model": "new"}}


@pytest.mark.parametrize("name", ['a"b\\c', "vendor/模型:7b", "x // y", "\u2028"])
def test_any_name_is_written_as_json(tmp_path: Path, name: str) -> None:
    assert (
        decode_jsonc(saved(tmp_path, '{"provider": {"model": "o"}}', name).encode(), "f")["provider"]["model"]
        == name
    )


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "provider": st.dictionaries(
            st.sampled_from(["model", "base_url", 'we"ird', "{", "é"]), st.text(max_size=5)
        ),
        "ui": st.dictionaries(st.text(max_size=4), st.lists(st.integers(), max_size=2), max_size=2),
        "mcp": st.dictionaries(
            st.text(max_size=4), st.dictionaries(st.text(max_size=3), st.none(), max_size=2)
        ),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(SETTINGS, st.sampled_from([None, 0, 2, 4, "\t"]), st.text(max_size=6))
def test_the_rest_means_the_same(
    tmp_path: Path, value: dict[str, dict[str, object]], indent: int | str | None, name: str
) -> None:
    text = saved(tmp_path, json.dumps(value, indent=indent, ensure_ascii=False), name)
    assert decode_jsonc(text.encode(), "f") == {
        **value,
        "provider": {**value.get("provider", {}), "model": name},
    }


def test_a_fresh_project_gets_directory_file_and_gitignore(tmp_path: Path) -> None:
    assert save_model(tmp_path, "new") is None
    assert decode_jsonc((tmp_path / ".coder/config.json").read_bytes(), "f") == {"provider": {"model": "new"}}
    assert (tmp_path / ".coder/.gitignore").read_text(
        encoding="utf-8"
    ) == "/.gitignore\n/history/\n/sessions/\n"


def test_git_ignores_history_and_sessions_and_nothing_else(tmp_path: Path) -> None:
    directory = ensure_directory(tmp_path)
    for name in ("history/a.jsonl", "sessions/a.json", "config.json", "modes/history/x.md"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(listed) == [".coder/config.json", ".coder/modes/history/x.md"]


def test_an_existing_gitignore_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".coder").mkdir()
    (tmp_path / ".coder/.gitignore").write_text("*\n", encoding="utf-8")
    assert ensure_directory(tmp_path) == tmp_path / ".coder"
    assert (tmp_path / ".coder/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_mode_bits_stay_and_nothing_is_left_behind(tmp_path: Path) -> None:
    saved(tmp_path, "{}")
    path = tmp_path / ".coder/config.json"
    path.chmod(0o640)
    assert save_model(tmp_path, "other") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".gitignore", "config.json"]


@pytest.mark.parametrize("broken", ["{", '{"provider": 3}', "[]", '"x"', "{'a': 1}"])
def test_a_broken_file_is_left_as_it_is(tmp_path: Path, broken: str) -> None:
    path = tmp_path / ".coder/config.json"
    path.parent.mkdir()
    path.write_text(broken, encoding="utf-8")
    said = str(save_model(tmp_path, "new"))
    assert said.endswith(".")
    assert ".coder/config.json" in said
    assert path.read_text(encoding="utf-8") == broken


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".coder").write_text("", encoding="utf-8")
    problem = save_model(tmp_path, "new")
    assert str(problem) == "The model could not be saved to .coder/config.json: File exists."
    assert "无法" in Catalog("zh").of(problem or "")
    assert "No such file" in str(save_model(tmp_path / "gone", "new"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, '{"provider": {"model": "old"}}', "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = str(save_model(tmp_path, "new"))
    assert said == "The model could not be saved to .coder/config.json: No space left on device."
    assert (tmp_path / ".coder/config.json").read_text(encoding="utf-8") == '{"provider": {"model": "old"}}'
    assert not list((tmp_path / ".coder").glob("*.tmp"))
    assert not list((tmp_path / ".coder").glob(".*.tmp"))


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    project = tmp_path / "project"
    (project / ".coder").mkdir(parents=True)
    (project / ".coder/config.json").symlink_to(outside)
    assert "link to a file outside the project" in str(save_model(project, "new"))
    assert outside.read_text(encoding="utf-8") == "{}"


def test_a_link_within_the_project_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared.json").write_text("{}", encoding="utf-8")
    (tmp_path / ".coder").mkdir()
    (tmp_path / ".coder/config.json").symlink_to("../shared.json")
    assert save_model(tmp_path, "new") is None
    assert (tmp_path / ".coder/config.json").is_symlink()
    assert decode_jsonc((tmp_path / "shared.json").read_bytes(), "f") == {"provider": {"model": "new"}}


def test_an_edit_that_would_change_more_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "with_member", lambda *_: b'{"provider": {"model": "new"}}')
    path = tmp_path / ".coder/config.json"
    path.parent.mkdir()
    path.write_text('{"ui": {"vim": true}}', encoding="utf-8")
    assert save_model(tmp_path, "new") is not None
    assert path.read_text(encoding="utf-8") == '{"ui": {"vim": true}}'
