"""Terminals, locales, homes and environments that are not as one would like."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import CODER, observations, run

from kit import ScriptedServer
from kit.calls import step
from kit.driving import Project

PLAIN = [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"TERM": ""}, {"TERM": "no-such-thing"}]


@pytest.mark.parametrize("env", PLAIN)
def test_no_colour_where_none_is_wanted(project: Project, env: dict[str, str]) -> None:
    with ScriptedServer([step("list"), {"text": "hi"}]) as server:
        done = run(project, "--once", "go", url=server.url, env=env)
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    assert b"\x1b" not in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("variables", [{"LANG": "C"}, {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}])
@pytest.mark.parametrize("coerce", ["", "0"])
def test_chinese_in_the_c_locale(project: Project, variables: dict[str, str], coerce: str) -> None:
    env = {**variables, **({"PYTHONCOERCECLOCALE": coerce} if coerce else {})}
    project.write("文件.txt", "内容\n")
    with ScriptedServer([step("read", path="文件.txt"), {"text": "好的，完成。"}]) as server:
        done = run(project, "--once", "读一下文件", url=server.url, env=env)
        question = server.chats[0]["messages"][1]["content"]
    assert done.returncode == 0
    assert done.stdout.decode("utf-8") == "好的，完成。\n"
    assert question.startswith("读一下文件")
    assert "内容" in observations(project)[0]
    assert "文件.txt" in done.stderr.decode("utf-8")
    listed = run(project, "sessions", env=env)
    assert "读一下文件" in listed.stdout.decode("utf-8")
    refused = run(project, "--resume", "没有", "--once", "x", env=env)
    assert "没有" in refused.stderr.decode("utf-8")


def test_without_a_home(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        done = run(project, "--once", "hi", url=server.url, env={"HOME": ""})
    assert (done.returncode, done.stdout) == (0, b"hi\n")


def test_without_any_home_at_all(project: Project, tmp_path: Path) -> None:
    """Neither HOME nor CODER_HOME: the account's own directory is used."""
    if os.getuid() == 0 and Path("/root/.coder").exists():
        pytest.skip("this account has settings of its own")
    done = run(project, "sessions", env={"HOME": "", "CODER_HOME": ""})
    assert done.returncode == 0


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "hi"}]) as running:
        yield running


def test_an_environment_that_is_not_utf_8(project: Project, server: ScriptedServer) -> None:
    environ = {os.fsencode(k): os.fsencode(v) for k, v in project.environ(server.url).items()}
    environ[b"ODD"] = b"\xff\xfe"
    done = subprocess.run(
        [*CODER, "--once", "hi"], cwd=project.cwd, env=environ, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"hi\n")
