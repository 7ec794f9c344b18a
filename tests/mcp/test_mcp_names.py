"""What servers' tools are called, and where a server is reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.config.schema import McpServer
from coder.extend.mcp.endpoint import Surroundings, endpoint_of, secrets_of
from coder.extend.mcp.shapes import HttpEndpoint, McpError, StdioEndpoint, tool_name
from coder.tools.tool import is_mcp

KEY = "sk-provider-0123456789"


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_any_name_becomes_one_that_providers_take(server: str, tool: str, other: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert is_mcp(name)
    assert tool_name(server, tool) == name
    if other != tool:
        assert tool_name(server, other, {name}) != name


@given(st.text(min_size=1), st.text(min_size=1))
def test_replaced_letters_name_no_other_server(server: str, tool: str) -> None:
    if "__" in server or server.endswith("_"):
        return  # refused
    shown = tool_name(server, tool).removeprefix("mcp__")
    if "__" in shown:  # else the name was cut within the server's
        assert len(shown.partition("__")[0]) == len(server)


def test_plain_names_stay_readable() -> None:
    assert tool_name("github", "create_issue") == "mcp__github__create_issue"


def around(root: Path, **variables: str) -> Surroundings:
    return Surroundings(root, {"PATH": "/usr/bin:/bin", "HOME": str(root)}, variables, [KEY])


def reach(root: Path, settings: McpServer, **variables: str) -> StdioEndpoint | HttpEndpoint:
    return endpoint_of("s", settings, around(root, **variables), lambda argv: ["wrapped", *argv])


def test_a_program_is_wrapped_and_variables_are_put_in(tmp_path: Path) -> None:
    settings = McpServer(
        command="sh", args=["${A}", "${B:-else}", "$C"], env={"TOKEN": "Bearer ${A}", "PLAIN": "p"}
    )
    found = reach(tmp_path, settings, A="one")
    assert isinstance(found, StdioEndpoint)
    assert found.argv[0] == "wrapped"
    assert found.argv[1].endswith("/sh")
    assert found.argv[2:] == ["one", "else", "$C"]
    assert found.environment["TOKEN"] == "Bearer one"
    assert found.environment["PLAIN"] == "p"
    assert found.cwd == tmp_path


def test_a_program_of_the_project_is_found_from_its_directory(tmp_path: Path) -> None:
    program = tmp_path / "tools" / "server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    found = reach(tmp_path, McpServer(command="./server", cwd="tools"))
    assert isinstance(found, StdioEndpoint)
    assert str(tmp_path / "tools") in found.argv
    assert found.argv[-1] == str(program)


def test_a_bare_name_is_not_found_where_the_project_may_have_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought, own = tmp_path / "project" / ".venv" / "bin", tmp_path / "own"
    for directory in (brought, own):
        directory.mkdir(parents=True)
        (directory / "server").write_text("#!/bin/sh\n", encoding="utf-8")
        (directory / "server").chmod(0o755)
    own.chmod(0o777)  # the person named it: who else may write it is their own business
    monkeypatch.chdir(brought)
    root = tmp_path / "project"
    for path in (f"{brought}:{own}", f".:{own}"):
        found = reach(root, McpServer(command="server", env={"PATH": path}))
        assert isinstance(found, StdioEndpoint)
        assert found.argv[-1] == str(own / "server")
    with pytest.raises(McpError) as caught:
        reach(root, McpServer(command="server", env={"PATH": str(brought)}))
    assert "only inside the workspace" in str(caught.value)
    named = reach(root, McpServer(command=".venv/bin/server", env={"PATH": str(brought)}))
    assert isinstance(named, StdioEndpoint)
    assert named.argv[-1] == str(brought / "server")


def test_an_address_has_its_headers(tmp_path: Path) -> None:
    settings = McpServer(url="https://x/mcp", headers={"Authorization": "Bearer ${T}"})
    found = reach(tmp_path, settings, T="secret-token-1")
    assert found == HttpEndpoint("https://x/mcp", {"Authorization": "Bearer secret-token-1"})
    assert "secret-token-1" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (McpServer(), "neither"),
        (McpServer(command="sh", url="http://x"), "both"),
        (McpServer(command="sh", type="http"), "type http wants `url`"),
        (McpServer(url="http://x", type="stdio"), "type stdio wants `command`"),
        (McpServer(url="ftp://x"), "http://"),
        (McpServer(command="no-such-program"), "no-such-program was not found"),
        (McpServer(command="sh", cwd="nowhere"), "nowhere does not exist"),
        (McpServer(command="sh", args=["${UNSET}"]), "UNSET, which is not set"),
        (McpServer(command="sh", env={"K": "${UNSET}"}), "env.K names the variable UNSET"),
        (McpServer(command="sh", env={"K": KEY}), "env.K would hold the provider's own key"),
        (McpServer(command="sh", args=[f"--key={KEY}"]), "args would hold the provider's own key"),
        (McpServer(url="http://x", headers={"K": "${MINE}"}), "provider's own key"),
    ],
)
def test_what_cannot_be_reached_is_said_in_a_sentence(tmp_path: Path, settings: McpServer, says: str) -> None:
    with pytest.raises(McpError) as caught:
        reach(tmp_path, settings, MINE=f"x{KEY}")
    assert says in str(caught.value)
    assert KEY not in str(caught.value)


def test_what_servers_are_let_in_with_counts_as_secret() -> None:
    settings = {
        "a": McpServer(command="x", env={"GITHUB_TOKEN": "${T}", "LANG": "a-long-language", "KEY": "short"}),
        "b": McpServer(url="http://x", headers={"Authorization": "Bearer abcdefgh-1"}),
    }
    assert secrets_of(settings, {"T": "ghp_0123456789"}) == ["ghp_0123456789", "abcdefgh-1"]


@pytest.mark.parametrize(
    ("settings", "secret"),
    [
        (McpServer(env={"DB_PASS": "hunter2hunter2"}), "hunter2hunter2"),
        (McpServer(env={"GITHUB_PAT": "some-words"}), "some-words"),
        (McpServer(env={"KEY_PHRASE": "one two three"}), "one two three"),
        (McpServer(env={"DATABASE_URL": "postgres://me:hunter2hunter2@h/db"}), "hunter2hunter2"),
        (McpServer(headers={"Cookie": "sid=abcdefghijk; dark=1"}), "abcdefghijk"),
        (McpServer(headers={"X-Session": "abcdefgh"}), "abcdefgh"),
        (McpServer(url="https://h/mcp?region=eu-west-1&api_key=abcdefgh"), "abcdefgh"),
    ],
)
def test_secrets_under_other_names_and_in_addresses(settings: McpServer, secret: str) -> None:
    found = secrets_of({"s": settings}, {})
    assert secret in found
    assert "eu-west-1" not in found
