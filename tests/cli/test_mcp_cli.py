"""`coder mcp`: servers added, tried and removed, by the real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kit.driving import Project, left_running

SERVER = str(Path(__file__).parent.parent / "kit" / "tool_server.py")


def settings(project: Project) -> dict[str, object]:
    text = (project.home / ".coder" / "config.json").read_text(encoding="utf-8")
    servers: dict[str, object] = json.loads(text)["mcp"]["servers"]
    return servers


def test_add_try_remove(project: Project) -> None:
    nothing = project.coder("mcp")
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert "coder mcp add NAME" in nothing.stdout
    words = ["--env", "TOKEN=${MINE:-none}", "--", sys.executable, SERVER, str(project.cwd)]
    assert project.coder("mcp", "add", "plain", *words).returncode == 0
    entry = {"command": sys.executable, "args": [SERVER, str(project.cwd)], "env": {"TOKEN": "${MINE:-none}"}}
    assert settings(project) == {"plain": entry}
    tried = project.coder("mcp")
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.startswith("plain: ready · 7 tools · plain 1\n  echo\n")
    (one,) = json.loads(project.coder("mcp", "--json").stdout)["servers"]
    assert (one["name"], one["state"], one["tools"][0], one["fault"]) == ("plain", "ready", "echo", "")
    assert left_running(str(project.cwd)) == []
    assert project.coder("mcp", "remove", "plain").returncode == 0
    assert settings(project) == {}
    assert project.coder("mcp", "add", "plain", "prog").returncode == 0
    assert "" not in (project.home / ".coder" / "config.json").read_text(encoding="utf-8").splitlines()


def test_an_address_with_headers(project: Project) -> None:
    done = project.coder(
        "mcp", "add", "far", "http://127.0.0.1:9/mcp", "--header", "Authorization=Bearer ${T}"
    )
    assert done.returncode == 0
    assert settings(project) == {
        "far": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}}
    }
    tried = project.coder("mcp", env={"T": "secret-token-value"})
    assert tried.returncode == 1
    assert tried.stdout.startswith("far: failed\n  ")
    assert "secret-token-value" not in tried.stdout + tried.stderr


@pytest.mark.parametrize(
    "words", [["far", "--header", "A=b", "http://there"], ["--header", "A=b", "far", "http://there"]]
)
def test_options_stand_where_they_like(project: Project, words: list[str]) -> None:
    assert project.coder("mcp", "add", *words).returncode == 0
    assert settings(project) == {"far": {"url": "http://there", "headers": {"A": "b"}}}


def test_a_program_is_given_a_directory_to_write(project: Project) -> None:
    words = ["docs", "--writable", "~/.npm", "--writable", "../out", "--", "npx", "--writable", "x"]
    assert project.coder("mcp", "add", *words).returncode == 0
    entry = {"command": "npx", "args": ["--writable", "x"], "writable": ["~/.npm", "../out"]}
    assert settings(project) == {"docs": entry}


def test_one_that_fails_is_said_and_is_the_status(project: Project) -> None:
    project.coder("mcp", "add", "gone", "--", "no-such-program")
    tried = project.coder("mcp", "--lang", "zh")
    assert tried.returncode == 1
    assert tried.stdout == "gone: 失败\n  MCP 服务器 gone：找不到程序 no-such-program。\n"


def test_what_a_project_wants_is_not_tried_before_trust(project: Project) -> None:
    marker = project.cwd / "started"
    project.write(
        ".coder/config.json",
        json.dumps({"mcp": {"servers": {"x": {"command": "touch", "args": [str(marker)]}}}}),
    )
    tried = project.coder("mcp")
    assert not marker.exists()
    assert "mcp.servers.x" in tried.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["add"], "coder mcp add NAME"),
        (["add", "x"], "coder mcp add NAME"),
        (["add", "x", "--env", "broken", "--", "sh"], "broken is not NAME=VALUE"),
        (["add", "x", "--header", "A=b", "--", "sh"], "--header is for an address"),
        (["add", "x", "https://x", "--env", "A=b"], "--env and --writable are for a program"),
        (["remove"], "coder mcp remove NAME"),
        (["remove", "x"], "There is no MCP server x"),
        (["remove", "x", "y"], "coder mcp remove NAME"),
        (["list", "x"], "takes no name"),
        (["list", "--env", "A=b"], "does not go together"),
        (["add", "x", "https://x", "--writable", "."], "for a program"),
        (["add", "x", "npx", "-y", "it"], "coder mcp add x -- npx -y it"),
        (["add", "x", "--evn", "A=b", "--", "npx"], "no option --evn"),
        (["add", "x", "htp://there"], "htp://there is not an address"),
        (["add", "x", "https://"], "https:// is not an address"),
        (["add", "x", "http://[there"], "is not an address"),
        (["add", "x", "--", ""], "coder mcp add NAME"),
        (["what"], "ACTION cannot be 'what'; allowed are 'list', 'test', 'login', 'logout', 'add', 'remove'"),
    ],
)
def test_wrong_words_get_a_sentence(project: Project, words: list[str], says: str) -> None:
    done = project.coder("mcp", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (project.home / ".coder" / "config.json").exists()


def test_what_is_there_is_not_written_over(project: Project) -> None:
    entry = {"command": "sh", "writable": ["~/.npm"], "env": {"T": "x"}}
    project.configure(mcp={"servers": {"s": entry}})
    done = project.coder("mcp", "add", "s", "--", "true")
    assert done.returncode == 2
    assert "coder mcp remove s" in done.stderr
    assert settings(project) == {"s": entry}


@pytest.mark.parametrize("words", [["a\udcff", "--", "sh"], ["a", "--", "sh", "\udcff"]])
def test_bytes_that_are_no_text_get_a_sentence(project: Project, words: list[str]) -> None:
    done = project.coder("mcp", "add", *words)
    assert done.returncode == 2
    assert "UTF-8" in done.stderr


def test_trying_them_gives_no_key_of_the_provider_away(project: Project) -> None:
    key, gate = "sk-provider-0123456789abcdef", "gate-0123456789abcdef"
    kept = project.cwd / "kept"
    settings = {"kept": {"command": "sh", "args": ["-c", f"env > {kept}"]}}
    named = {"named": {"command": "sh", "env": {"GIVEN": "${OTHER}"}}}
    project.configure(
        mcp={"servers": {**settings, **named}},
        provider={"api_key": key, "base_url": "http://127.0.0.1:9/v1", "headers": {"X-Auth": gate}},
    )
    tried = project.coder("mcp", env={"OTHER": key, "GATE": gate, "CODER_API_KEY": ""})
    assert "OTHER, which is not set" in tried.stdout
    seen = kept.read_text(encoding="utf-8")
    assert "PATH=" in seen
    assert key not in seen
    assert gate not in seen


def test_doctor_names_those_that_are_on(project: Project) -> None:
    project.configure(mcp={"servers": {"a": {"command": "x"}, "b": {"command": "x", "disabled": True}}})
    (row,) = [line for line in project.coder("doctor").stdout.splitlines() if "MCP" in line]
    assert row.endswith("a (coder mcp tries them)")
