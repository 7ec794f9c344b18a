"""Logins at MCP servers: the person's browser, the tokens that are kept, and servers that lie."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from coder.extend.mcp.http_transport import http_client
from coder.extend.mcp.oauth import OAuth
from coder.extend.mcp.shapes import McpError
from coder.extend.mcp.tokens import TokenStore
from kit import ScriptedServer
from kit.driving import Project
from kit.oauth_server import OAuthServer


def configured(project: Project, server: OAuthServer, **more: Any) -> None:
    allowed = {"tools": {"mcp__guarded__*": "allow"}}
    project.configure(mcp={"servers": {"guarded": {"url": server.url, **more}}}, permission=allowed)


def log_in(project: Project) -> subprocess.Popen[bytes]:
    """`coder mcp login`, and a browser that follows what it says."""
    process = project.started("mcp", "login", "guarded", url="")
    assert process.stdout is not None
    process.stdout.readline()
    page = process.stdout.readline().decode().strip()
    with urllib.request.urlopen(page, timeout=30) as answer:
        assert "You are logged in" in answer.read().decode()
    process.communicate(timeout=60)
    return process


def test_a_login_is_kept_used_refreshed_and_given_up(project: Project) -> None:
    file = project.home / ".coder" / "mcp-tokens.json"
    with OAuthServer() as server:
        configured(project, server)
        before = project.coder("mcp", "test", "guarded")
        assert before.returncode == 1
        assert "wants you to log in: coder mcp login guarded" in before.stdout
        assert log_in(project).returncode == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "guarded: ready" in project.coder("mcp", "test", "guarded").stdout
        assert server.grants == ["authorization_code"]
        server.access.clear()  # it has run out
        assert "guarded: ready" in project.coder("mcp", "test", "guarded").stdout
        assert server.grants == ["authorization_code", "refresh_token"]
        assert json.loads(file.read_text(encoding="utf-8"))[server.url]["refresh_token"] == "refresh-token-2"
        server.access.clear()
        server.renewal.clear()  # revoked
        assert "coder mcp login guarded" in project.coder("mcp", "test", "guarded").stdout
        assert server.url not in file.read_text(encoding="utf-8")
        log_in(project)
        assert project.coder("mcp", "logout", "guarded").returncode == 0
        assert "access-token" not in file.read_text(encoding="utf-8")


def test_a_token_file_that_others_may_read_is_made_private(project: Project) -> None:
    file = project.home / ".coder" / "mcp-tokens.json"
    with OAuthServer() as server:
        configured(project, server)
        log_in(project)
        file.chmod(0o644)
        assert "guarded: ready" in project.coder("mcp", "test", "guarded").stdout
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.unlink()
        os.mkfifo(file)  # is not waited for
        assert "wants you to log in" in project.coder("mcp", "test", "guarded").stdout


def test_a_token_reaches_neither_the_model_nor_the_record(project: Project) -> None:
    call = {"calls": [{"name": "mcp__guarded__whoami", "arguments": {}}]}
    with OAuthServer() as server, ScriptedServer([call, {"text": "done"}]) as model:
        configured(project, server)
        log_in(project)
        assert project.coder("--once", "go", url=model.url).returncode == 0
        assert server.tokens_seen[-1] == "access-token-1"
        assert "you sent" in str(model.chats[1])
        assert "access-token-1" not in str(model.chats)
    assert "access-token-1" not in str(project.events())


def test_a_token_that_the_session_refreshes_is_one_of_its_secrets(project: Project) -> None:
    call = {"calls": [{"name": "mcp__guarded__whoami", "arguments": {}}]}
    with OAuthServer() as server, ScriptedServer([call, {"text": "done"}]) as model:
        configured(project, server)
        log_in(project)
        server.access.clear()  # it has run out: the session refreshes it
        assert project.coder("--once", "go", url=model.url).returncode == 0
        assert server.tokens_seen[-1] == "access-token-2"
        assert "you sent" in str(model.chats[1])
        assert "access-token" not in str(model.chats)
    assert "access-token" not in str(project.events())


def test_a_key_in_the_settings_is_not_replaced(project: Project) -> None:
    with OAuthServer() as server:
        configured(project, server, headers={"Authorization": "Bearer mine"})
        done = project.coder("mcp", "test", "guarded")
        assert "check `headers` in its settings" in done.stdout
        assert set(server.tokens_seen) == {"mine"}
        assert "has none to log in at" in project.coder("mcp", "login", "guarded").stderr


def test_an_address_that_is_none_is_told(project: Project) -> None:
    project.configure(mcp={"servers": {"wrong": {"url": "http://[wrong"}}})
    done = project.coder("mcp", "login", "wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert "its url is wrong: Invalid IPv6 URL" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"issuer": "http://127.0.0.1:1/other"}, "says it is"),
        ({"code_challenge_methods_supported": ["plain"]}, "no PKCE with S256"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "no HTTPS address"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no HTTPS address"),
        ({"token_endpoint": "http://tokens.example/token"}, "no HTTPS address"),
        ({"token_endpoint": "https://"}, "no HTTPS address"),
        ({"registration_endpoint": "http://tokens.example/register"}, "no HTTPS address"),
        ({"registration_endpoint": ""}, "mcp.servers.guarded.client_id"),
    ],
)
def test_an_authorization_server_that_lies_gets_no_login(change: dict[str, Any], says: str) -> None:
    shown: list[str] = []

    async def scenario(url: str) -> None:
        http = http_client({})
        try:
            await OAuth("guarded", url, http).login("", shown.append)
        finally:
            await http.close()

    with OAuthServer(change) as server, pytest.raises(McpError) as caught:
        asyncio.run(scenario(server.url))
    assert says in str(caught.value)
    assert shown == []


def _get(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_only_the_answer_to_this_login_counts() -> None:
    """Any page of the browser can send requests to the loopback port."""

    async def scenario(server: OAuthServer) -> None:
        pages: asyncio.Queue[str] = asyncio.Queue()
        http = http_client({})
        login = asyncio.create_task(OAuth("guarded", server.url, http).login("own-client", pages.put_nowait))
        page = await pages.get()
        asked = dict(pair.split("=", 1) for pair in page.partition("?")[2].split("&"))
        assert asked["client_id"] == "own-client"
        back = urllib.parse.unquote(asked["redirect_uri"])
        assert await asyncio.to_thread(_get, f"{back}?code=theirs&state=guessed") == 404
        mixed = f"{back}?code=theirs&state={asked['state']}&iss=https://evil.example"
        assert await asyncio.to_thread(_get, mixed) == 400
        nameless = f"{back}?code=theirs&state={asked['state']}"
        assert await asyncio.to_thread(_get, nameless) == 400  # it promises to name itself
        assert not login.done()
        assert await asyncio.to_thread(_get, page) == 200
        assert (await login).access_token == "access-token-1"
        await http.close()

    promises = {"authorization_response_iss_parameter_supported": True}
    with OAuthServer(promises, registers=False) as server:
        asyncio.run(scenario(server))


@pytest.mark.parametrize("silent", ["/mcp", "/.well-known/oauth-authorization-server/as", "/as/register"])
def test_a_server_that_falls_silent_is_given_up(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder.extend.mcp.oauth.REQUEST_SECONDS", 0.3)

    async def scenario(url: str) -> None:
        http = http_client({})
        try:
            await OAuth("guarded", url, http).login("", lambda page: None)
        finally:
            await http.close()

    with OAuthServer(silent=silent) as server, pytest.raises(McpError, match=r"no answer within 0\.3 s"):
        asyncio.run(scenario(server.url))


HERE = [
    *("http://127.0.0.1:6379/", "https://localhost/token", "http://[::1]:80/", "https://localhost./"),
    *("https://127.0.0.2/", "https://127.1/", "https://2130706433/", "https://0x7f.1/", "https://0.0.0.0/"),
    *("https://[::ffff:127.0.0.1]/", "https://[::]/", "https://api.localhost/", "https://LOCALHOST/"),
]


@pytest.mark.parametrize("address", HERE)
def test_a_server_elsewhere_reaches_nothing_on_this_machine(address: str) -> None:
    """Its metadata is fetched from, and tokens are asked for, where it says (SSRF)."""

    async def scenario() -> None:
        http = http_client({})
        OAuth("near", "http://127.0.0.1:8000/mcp", http)._check(address)
        with pytest.raises(McpError, match="no HTTPS address of another"):
            OAuth("far", "https://mcp.example/mcp", http)._check(address)
        await http.close()

    asyncio.run(scenario())


def test_a_refresh_by_another_process_is_taken_up(project: Project) -> None:
    from coder.extend.mcp.oauth import refreshed
    from coder.extend.mcp.tokens import Login

    store = TokenStore(project.home)
    login = Login(
        issuer="i", token_endpoint="http://127.0.0.1:1/", resource="r", client_id="c", access_token="newer"
    )
    store.put("http://x/mcp", login)
    http = http_client({})
    assert asyncio.run(refreshed("s", "http://x/mcp", store, http, "older")) == "newer"
    assert asyncio.run(refreshed("s", "http://x/mcp", store, http, "newer")) == ""  # nothing to refresh with
    assert store.get("http://x/mcp") is None
