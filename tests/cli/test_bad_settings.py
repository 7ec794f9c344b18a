"""Wrong settings and flags: a clear sentence, the right status, no traceback."""

from __future__ import annotations

import subprocess

import pytest
from cli_kit import CODER, run, sentence

from kit import ScriptedServer
from kit.driving import Project

WRONG_CONFIGS = {
    "syntax": (b'{"runtime": {"max_steps": }', "config.json"),
    "unknown key": (b'{"runtime": {"max_stepz": 3}}', "max_stepz"),
    "unknown section": (b'{"runtim": {}}', "runtim"),
    "wrong type": (b'{"runtime": {"max_steps": "many"}}', "max_steps"),
    "wrong value": (b'{"permission": {"preset": "loose"}}', "preset"),
    "not an object": (b"[1, 2]", "config.json"),
    "not UTF-8": (b'{"ui": {"lang": "\xff\xfe"}}', "config.json"),
    "NUL bytes": (b"\0\0\0\0", "config.json"),
    "too deep": (b"[" * 100_000, "config.json"),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    [*((kind, "home") for kind in WRONG_CONFIGS), ("syntax", "project"), ("unknown key", "named")],
)
def test_a_wrong_configuration_names_file_and_key(project: Project, kind: str, place: str) -> None:
    content, named = WRONG_CONFIGS[kind]
    directory = {"home": project.home / ".coder", "project": project.cwd / ".coder", "named": project.cwd}[
        place
    ]
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_bytes(content)
    flags = ["--config", "config.json"] if place == "named" else []
    with ScriptedServer([{"text": "no"}]) as server:
        done = run(project, *flags, "--once", "hi", url=server.url)
        assert server.requests == []
    assert done.returncode == 2
    assert named in sentence(done)
    assert "config.json" in sentence(done)


@pytest.mark.parametrize("kind", ["folder", "missing", "link to itself"])
def test_a_named_configuration_that_is_no_file(project: Project, kind: str) -> None:
    path = project.cwd / "config.json"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.symlink_to(path)
    done = run(project, "--config", "config.json", "--once", "hi", url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "config.json" in sentence(done)


WRONG_FLAGS = {
    "--frobnicate": ["--frobnicate", "--once", "hi"],
    "--mode": ["--mode", "turbo", "--once", "hi"],
    "--permissions": ["--permissions", "root", "--once", "hi"],
    "--max-steps": ["--max-steps", "0", "--once", "hi"],
    "--max-prompt-tokens": ["--max-prompt-tokens", "-3", "--once", "hi"],
    "--warn-prompt-tokens": ["--warn-prompt-tokens", "1e9", "--once", "hi"],
    "--output": ["--output", "yaml", "--once", "hi"],
    "--lang": ["--lang", "xx", "--once", "hi"],
    "--model": ["--once", "hi", "--model"],
    "--once": ["--once"],
    "--cwd": ["--cwd", "nowhere", "--once", "hi"],
    "--tokenizer-model": ["--tokenizer-model", "no such", "--once", "hi"],
}


@pytest.mark.parametrize("flag", WRONG_FLAGS)
def test_a_wrong_flag_is_named(project: Project, flag: str) -> None:
    with ScriptedServer([{"text": "no"}]) as server:
        done = run(project, *WRONG_FLAGS[flag], url=server.url)
        assert server.chats == []
    assert done.returncode == 2
    assert (flag if flag != "--tokenizer-model" else "no such") in done.stderr.decode()
    assert project.logs() == []


@pytest.mark.parametrize("subcommand", ["sessions", "show", "doctor", "explain", "demo"])
def test_a_wrong_flag_of_a_subcommand_is_named(project: Project, subcommand: str) -> None:
    done = run(project, subcommand, "--frobnicate")
    assert done.returncode == 2
    assert done.stderr


def test_cwd_that_is_a_file(project: Project) -> None:
    project.write("file", "x")
    done = run(project, "--cwd", "file", "--once", "hi", url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "file" in sentence(done)


def test_a_current_directory_that_was_deleted(project: Project) -> None:
    gone = project.cwd / "gone"
    gone.mkdir()
    line = f'rmdir "{gone}"; exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", line, "sh", *CODER, "--once", "hi"],
        cwd=gone,
        env=project.environ("http://127.0.0.1:9/v1"),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert "folder" in sentence(done)
