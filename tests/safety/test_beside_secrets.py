"""Tokens are found whatever stands beside them, and places that hold them are closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coder.policy.sandbox.places import places_for
from coder.policy.secrets.formats import find_secrets
from coder.policy.shell.judge import judge
from kit import ScriptedServer
from kit.driving import Project, drive

TOKENS = (
    "AKIA" + "Q3EGTRZ5WXYB7KLM",
    "ASIA" + "Q3EGTRZ5WXYB7KLM",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github_pat_" + "11ABCDEFG0a1B2c3D4e5F6_h7I8j9K0l1M2n3O4p5Q6r7S8t9U0",
    "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "sk-ant-api03-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "sk-" + "a1B2c3D4e5F6G7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4",
    "AIzaSy" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "npm_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "xoxb-" + "123456789012-1234567890123-a1B2c3D4e5F6g7H8",
    "sk_live_" + "a1B2c3D4e5F6g7H8i9J0",
    "hvs." + "CAESIa1B2c3D4e5F6g7H8i9J0k1L2",
    "dop_v1_" + "0123456789abcdef" * 4,
    "r8_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s",
)
BESIDE = (
    "x{}",
    "_{}",
    "-{}",
    "+{}",
    "9{}",
    "令牌{}密",
    "https://h/?t={}&x=1",
    "https://h/{}/p",
    "{}_old.txt",
    "{}+x",
)


@pytest.mark.parametrize("around", BESIDE)
@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:8])
def test_a_token_is_found_whatever_stands_beside_it(token: str, around: str) -> None:
    text = around.format(token)
    left = text
    for start, end, _kind in reversed(find_secrets(text)):
        left = left[:start] + left[end:]
    assert token not in left
    assert token[-12:] not in left


@pytest.mark.parametrize(
    "text",
    [
        "task-0123456789abcdef0123456789abcdef01234567",
        "disk-usage-by-department-report-2024",
        "risk-3f9a8b7c-2d1e-4f5a-6b7c-8d9e0f1a2b3c",
        "ASIAPACIFICREGIONSTRATEGY",
        "EURASIAPACIFICREGIONSTRATEGIES",
    ],
)
def test_words_are_no_tokens(text: str) -> None:
    assert find_secrets(text) == []


def test_a_token_in_a_file_name_reaches_no_model_and_no_record(project: Project) -> None:
    token = TOKENS[2]
    project.write(f"backup_{token}.txt", "one\n")
    calls = [
        ("list", {}),
        ("glob", {"pattern": "*.txt"}),
        ("grep", {"pattern": "one"}),
        ("bash", {"command": "ls"}),
    ]
    calls.append(("write", {"path": "note.txt", "content": "x\n"}))
    script = [{"calls": [{"name": name, "arguments": args}]} for name, args in calls]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode="yolo")
    assert token not in repr(server.chats)
    kept = "".join(path.read_text(encoding="utf-8") for path in (project.cwd / ".coder").rglob("*.json*"))
    assert token not in kept
    assert "backup___coder_secret_" in kept


CLOSED = (
    *(".m2/settings.xml", ".m2/settings-security.xml", ".config/containers/auth.json", ".huggingface/token"),
    *(
        ".cache/huggingface/token",
        ".local/share/fish/fish_history",
        ".zsh_history",
        ".sh_history",
        ".lesshst",
    ),
    *(
        ".psql_history",
        ".mysql_history",
        ".sqlite_history",
        ".node_repl_history",
        ".gradle/gradle.properties",
    ),
    *("snap/firefox/common/x", ".var/app/com.google.Chrome/x", ".config/github-copilot/apps.json"),
    *(".pulumi/credentials.json", ".terraform.d/credentials.tfrc.json", ".config/composer/auth.json"),
    *(".local/share/uv/credentials/x", ".config/pypoetry/auth.toml", ".config/Bitwarden CLI/data.json"),
)


@pytest.mark.parametrize("name", CLOSED)
def test_a_place_of_secrets_is_closed_to_commands_and_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = tmp_path / "home"
    file = home / name
    file.parent.mkdir(parents=True)
    file.write_text("secret", encoding="utf-8")
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    hidden = places_for(workspace, home / ".coder", [], True, {"HOME": str(home)}).hidden
    assert any(os.path.commonpath([place, file]) == place for place in hidden)
    # Also where the workspace is the home directory itself.
    line = f"cat '{name}'"
    assert not judge(line, home).read_only
    assert judge("cat notes.txt", home).read_only


def test_file_tools_reach_only_this_session_s_outputs(project: Project) -> None:
    other = project.home / ".coder" / "outputs" / "20260101-000000-abcdef"
    other.mkdir(parents=True)
    (other / "bash-1.txt").write_text("secret of another project\n", encoding="utf-8")
    looks = [
        ("read", {"path": str(other / "bash-1.txt")}),
        ("list", {"path": str(other)}),
        ("list", {"path": str(other.parent)}),
        ("grep", {"pattern": "secret", "path": str(other.parent)}),
        ("glob", {"pattern": "*.txt", "path": str(other)}),
    ]
    script = [{"calls": [{"name": name, "arguments": args}]} for name, args in looks]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode="yolo")
    results = project.of_type("observation")
    assert [event["meta"]["ok"] for event in results] == [False] * len(looks)
    assert "another project" not in repr(server.chats[-1]["messages"][2:])


def test_a_resumed_session_still_reaches_its_own_outputs(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        drive(project, server.url, ["hello"])
    session = project.snapshot()["session_id"]
    own = project.home / ".coder" / "outputs" / session
    own.mkdir(parents=True)
    (own / "bash-1.txt").write_text("what was cut\n", encoding="utf-8")
    call = {"calls": [{"name": "read", "arguments": {"path": str(own / "bash-1.txt")}}]}
    with ScriptedServer([call, {"text": "done"}]) as server:
        drive(project, server.url, ["go on"], resume=session)
    (result,) = project.of_type("observation")
    assert result["meta"]["ok"]
    assert "what was cut" in result["content"]
