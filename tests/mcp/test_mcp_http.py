"""Servers at an address: both protocols, JSON and event streams, sessions, refusals, secret keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from coder.extend.mcp.client import HttpEndpoint, McpError
from coder.extend.mcp.http_transport import http_client
from coder.extend.mcp.versions import header_value, marked_parameters, param_headers
from coder.texts import Catalog
from kit.mcp_client import McpClient, connected, until
from kit.mcp_http import Exchange, HttpServer, http_server

SECRET = "very-secret-value-12345"


def endpoint(server: HttpServer, **more: Any) -> HttpEndpoint:
    return HttpEndpoint(server.url, {"Authorization": f"Bearer {SECRET}"}, **more)


def fault_of(root: Path, told: dict[str, Any], protocol: str = "legacy", *, within_ms: int = 30_000) -> str:
    """What is said where a connection does not come about; the key is never in it."""

    async def scenario() -> str:
        async with http_server(protocol) as server:
            server.on.update(told)
            with pytest.raises(McpError) as caught:
                await McpClient().open(root, endpoint(server), within_ms=within_ms)
            said = str(caught.value)
            assert SECRET not in said + repr(caught.value) + caught.value.text(Catalog("zh"))
            return said

    return asyncio.run(scenario())


def status(number: int, text: str = "", **headers: str) -> Any:
    return lambda exchange: exchange.body(number, text, **headers)


# both protocols


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
def test_the_old_era(tmp_path: Path, events: bool) -> None:
    async def scenario() -> None:
        async with http_server("legacy", events=events) as server:
            async with connected(tmp_path, endpoint(server)) as client:
                assert client.connection.version == "2025-06-18"
                assert client.connection.server == "http-kit 1"
                assert [tool.name for tool in client.connection.tools] == ["echo"]
                assert json.loads((await client.call("echo", text="世界")).text) == {"text": "世界"}
                await until(lambda: server.streams)
            assert server.rpcs()[:3] == ["server/discover", "initialize", "notifications/initialized"]
            assert server.rpcs()[-1] == "DELETE"
            assert all(one.headers["authorization"] == f"Bearer {SECRET}" for one in server.seen)
            after = [one for one in server.seen if one.rpc not in ("server/discover", "initialize")]
            assert {one.headers.get("mcp-session-id") for one in after} == {"s-1"}
            assert not any("mcp-session-id" in one.headers for one in server.seen[:2])

    asyncio.run(scenario())


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
def test_the_new_era(tmp_path: Path, events: bool) -> None:
    async def scenario() -> None:
        async with http_server("modern", events=events) as server:
            server.on["subscriptions/listen"] = server.hang
            async with connected(tmp_path, endpoint(server)) as client:
                assert client.connection.version == "2026-07-28"
                assert (await client.call("echo", text=1)).text == '{"text": 1}'
            assert "initialize" not in server.rpcs()
            assert "DELETE" not in server.rpcs()
            assert "GET" not in server.rpcs()
            (call,) = [one for one in server.seen if one.rpc == "tools/call"]
            assert (call.headers["mcp-method"], call.headers["mcp-name"]) == ("tools/call", "echo")

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [400, 404, 405, 500])
def test_a_probe_refused_with_any_status_means_the_old_era(tmp_path: Path, number: int) -> None:
    async def scenario() -> None:
        async with http_server("legacy") as server:
            server.on["server/discover"] = status(number, "<html>no</html>", kind="text/html")
            async with connected(tmp_path, endpoint(server)) as client:
                assert client.connection.version == "2025-06-18"

    asyncio.run(scenario())


def test_a_probe_that_is_not_answered_means_the_old_era(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server("legacy") as server:
            server.on["server/discover"] = server.hang
            async with connected(tmp_path, endpoint(server), within_ms=3_000) as client:
                assert client.connection.version == "2025-06-18"
            await until(lambda: server.dropped == ["server/discover"])

    asyncio.run(scenario())


def test_a_modern_refusal_is_not_answered_with_the_old_handshake(tmp_path: Path) -> None:
    def mismatch(exchange: Exchange) -> None:
        exchange.body(400, json.dumps(exchange.error(-32021, "wants sampling")))

    assert "wants sampling" in fault_of(tmp_path, {"server/discover": mismatch}, "modern")


# refusals


@pytest.mark.parametrize("number", [401, 403])
def test_a_server_that_does_not_let_us_in_names_the_setting(tmp_path: Path, number: int) -> None:
    said = fault_of(tmp_path, {"server/discover": status(number, f"bad token {SECRET}")})
    assert f"({number})" in said
    assert "`headers`" in said


def test_statuses_and_answers_that_are_none(tmp_path: Path) -> None:
    assert "HTTP status 503" in fault_of(tmp_path, {"initialize": status(503)})
    assert "ended its answer" in fault_of(tmp_path, {"initialize": status(202)})
    assert "ended its answer" in fault_of(tmp_path, {"initialize": status(200, "<html>", kind="text/html")})
    assert "an answer that is none" in fault_of(
        tmp_path, {"initialize": lambda e: e.body(200, json.dumps({"id": e.message["id"], "result": 3}))}
    )
    assert "not at home" in fault_of(
        tmp_path, {"initialize": lambda e: e.body(400, json.dumps(e.error(-32600, "not at home")))}
    )


def test_a_stream_that_ends_or_breaks_before_the_result_is_a_fault(tmp_path: Path) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.stream()
        exchange.event(": nothing yet")

    def broken(exchange: Exchange) -> None:
        exchange.head(200, Content_Type="application/json", Content_Length="100")
        exchange.writer.write(b'{"half')
        exchange.streaming = True

    assert "ended its answer" in fault_of(tmp_path, {"tools/list": cut})
    assert "cannot be reached" in fault_of(tmp_path, {"tools/list": broken})


def test_addresses_that_lead_nowhere(tmp_path: Path) -> None:
    async def scenario(url: str) -> str:
        with pytest.raises(McpError) as caught:
            await McpClient().open(tmp_path, HttpEndpoint(url, {"X-Key": SECRET}))
        return str(caught.value)

    assert "refused" in asyncio.run(scenario("http://127.0.0.1:9/mcp"))
    assert "cannot be reached" in asyncio.run(scenario("ftp://127.0.0.1/mcp"))


def test_a_redirect_to_another_origin_is_not_followed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as thief, http_server() as server:
            for method in ("server/discover", "initialize"):
                server.on[method] = status(307, Location=thief.url)
            with pytest.raises(McpError, match="cannot be reached"):
                await McpClient().open(tmp_path, endpoint(server))
            assert thief.seen == []

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_silence_in_the_opening_is_bounded(tmp_path: Path, method: str) -> None:
    async def scenario() -> None:
        async with http_server() as server:
            server.on[method] = server.hang
            with pytest.raises(McpError, match=r"within 0\.5 s"):
                await McpClient().open(tmp_path, endpoint(server), within_ms=500)
            await until(lambda: method in server.dropped)

    asyncio.run(scenario())


# sessions


def test_a_session_that_is_forgotten_is_begun_again_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server, connected(tmp_path, endpoint(server)) as client:
            server.session = "s-2"
            outcomes = await asyncio.gather(*(client.call("echo", n=n) for n in range(5)))
            assert [json.loads(outcome.text)["n"] for outcome in outcomes] == list(range(5))
            assert server.rpcs().count("initialize") == 2
            assert (client.changed, client.kinds) == (2, {"tools", "prompts"})
            server.on["tools/call"] = status(404)
            with pytest.raises(McpError, match="forgets its sessions"):
                await client.call("echo")
            assert server.rpcs().count("initialize") == 3

    asyncio.run(scenario())


def test_a_server_without_sessions_is_not_listened_to_and_given_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server(session="") as server:
            async with connected(tmp_path, endpoint(server)) as client:
                await client.call("echo")
            assert not {"GET", "DELETE"} & set(server.rpcs())

    asyncio.run(scenario())


def test_a_get_that_is_refused_is_fine_and_closing_waits_for_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server:
            server.on["GET"] = status(405)
            server.on["DELETE"] = lambda exchange: asyncio.sleep(3600)
            async with connected(tmp_path, endpoint(server)) as client:
                await until(lambda: "GET" in server.rpcs())
                assert (await client.call("echo")).ok
            assert server.rpcs().count("GET") == 1

    asyncio.run(scenario())


# what a server says by itself


@pytest.mark.parametrize("protocol", ["legacy", "modern"])
def test_a_list_that_changes_is_told(tmp_path: Path, protocol: str) -> None:
    async def scenario() -> None:
        async with http_server(protocol) as server:

            async def listen(exchange: Exchange) -> None:
                exchange.stream()
                server.streams.append(exchange)
                await asyncio.sleep(3600)

            if protocol == "modern":
                server.on["subscriptions/listen"] = listen
            async with connected(tmp_path, endpoint(server)) as client:
                await until(lambda: server.streams)
                server.streams[0].event({"method": "notifications/tools/list_changed"})
                await until(lambda: client.changed == 1)

    asyncio.run(scenario())


def test_progress_requests_and_the_result_come_on_one_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server:

            def work(exchange: Exchange) -> None:
                token = exchange.message["params"]["_meta"]["progressToken"]
                exchange.stream()
                exchange.event(
                    {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
                )
                exchange.event({"id": "q", "method": "roots/list"})
                exchange.event(exchange.result({"content": [{"type": "text", "text": "done"}]}))

            server.on["tools/call"] = work
            async with connected(tmp_path, endpoint(server)) as client:
                heard: list[str] = []
                outcome = await client.connection.call("t", {}, timeout_ms=30_000, on_progress=heard.append)
                assert (outcome.text, heard) == ("done", ["1"])
                await until(lambda: any(one.message.get("id") == "q" for one in server.seen))
                (answer,) = [one.message for one in server.seen if one.message.get("id") == "q"]
                assert answer["result"]["roots"][0]["uri"] == tmp_path.as_uri()

    asyncio.run(scenario())


def test_a_server_that_asks_without_end_is_not_answered_without_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server:

            def ask(exchange: Exchange) -> None:
                exchange.stream()
                for n in range(5000):
                    exchange.event({"id": f"q{n}", "method": "ping"})
                exchange.event(exchange.result({"content": []}))

            server.on["tools/call"] = ask
            async with connected(tmp_path, endpoint(server)) as client:
                assert (await client.call("t")).ok
                answered = sum(str(one.message.get("id")).startswith("q") for one in server.seen)
                assert answered < 1000

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["legacy", "modern"])
def test_a_cancelled_call_closes_its_response(tmp_path: Path, protocol: str) -> None:
    """With the legacy protocol the server is told as well: there a closed response means nothing."""

    async def scenario() -> None:
        async with http_server(protocol) as server:
            server.on["tools/call"] = server.hang
            async with connected(tmp_path, endpoint(server)) as client:
                call = asyncio.create_task(client.call("slow"))
                await until(lambda: "tools/call" in server.rpcs())
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                await until(lambda: "tools/call" in server.dropped)
                if protocol == "legacy":
                    await until(lambda: "notifications/cancelled" in server.rpcs())
                with pytest.raises(McpError, match="did not answer"):
                    await client.call("slow", timeout_ms=100)
            assert ("notifications/cancelled" in server.rpcs()) == (protocol == "legacy")

    asyncio.run(scenario())


def test_an_answer_past_the_bound_is_a_fault(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server, connected(tmp_path, endpoint(server)) as client:
            server.on["tools/call"] = status(200, "x" * (17 * 1024 * 1024))
            with pytest.raises(McpError, match="over 16 MB"):
                await client.call("echo")

            def stream(exchange: Exchange) -> None:
                exchange.stream()
                exchange.event("x" * (17 * 1024 * 1024))

            server.on["tools/call"] = stream
            with pytest.raises(McpError, match="over 16 MB"):
                await client.call("echo")

    asyncio.run(scenario())


def test_a_client_may_be_shared_and_is_its_owners_to_close(tmp_path: Path) -> None:
    async def scenario() -> None:
        http = http_client({})
        async with http_server() as server, http_server("modern") as other:
            for one in (server, other, server):
                client = McpClient()
                await client.open(tmp_path, endpoint(one), http=http)
                outcomes = await asyncio.gather(*(client.call("echo", n=n) for n in range(20)))
                assert [json.loads(outcome.text)["n"] for outcome in outcomes] == list(range(20))
                await client.connection.close()
        await http.close()

    asyncio.run(scenario())


def test_what_a_server_answers_after_it_has_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as server:
            client = McpClient()
            await client.open(tmp_path, endpoint(server))
            await server.stop()
            with pytest.raises(McpError, match="cannot be reached"):
                await client.call("echo")
            await client.connection.close()

    asyncio.run(scenario())


# headers that repeat arguments


def test_names_and_arguments_travel_in_headers_where_asked_for(tmp_path: Path) -> None:
    marked = {"region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"}}
    wrong = {"items": {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}}}

    async def scenario() -> None:
        async with http_server("modern") as server:
            server.tools = [
                {"name": "sql", "inputSchema": {"type": "object", "properties": marked}},
                {"name": "wrong", "inputSchema": {"type": "object", "properties": wrong}},
            ]
            async with connected(tmp_path, endpoint(server)) as client:
                assert [tool.name for tool in client.connection.tools] == ["sql"]
                assert client.connection.left_out == 1
                await client.call("sql", region="Zürich", n=3)
                await client.call("sql", n=3)
            first, second = (one.headers for one in server.seen if one.rpc == "tools/call")
            assert first["mcp-param-region"] == header_value("Zürich") == "=?base64?WsO8cmljaA==?="
            assert "mcp-param-region" not in second

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_values_are_carried_as_the_specification_has_them(text: str, carried: str) -> None:
    assert header_value(text) == carried


def test_where_a_mark_may_stand() -> None:
    def schema(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "properties": properties}

    mark = {"type": "boolean", "x-mcp-header": "Flag"}
    assert marked_parameters(schema(a=schema(b=mark), c={"type": "string"})) == {("a", "b"): "Flag"}
    assert marked_parameters(schema(a={"type": "string", "default": {"x-mcp-header": 3}})) == {}
    assert marked_parameters(None) == {}
    for wrong in (
        {"type": "object", "x-mcp-header": "Top"},
        {"anyOf": [schema(a=mark)]},
        schema(a=mark, b={"type": "string", "x-mcp-header": "flag"}),
        schema(a={"type": "number", "x-mcp-header": "N"}),
        schema(a={"type": "string", "x-mcp-header": "two words"}),
        schema(a={"type": "string", "x-mcp-header": ""}),
        {"$defs": {"a": mark}},
    ):
        assert marked_parameters(wrong) is None, wrong
    found = {("a", "b"): "Flag", ("n",): "N", ("big",): "Big"}
    arguments = {"a": {"b": True}, "n": -7, "big": 2**60}
    assert param_headers(found, arguments) == {"Mcp-Param-Flag": "true", "Mcp-Param-N": "-7"}
    assert param_headers(found, {"a": "text", "n": None}) == {}


# the transport of 2024-11-05


async def old_stream(exchange: Exchange, server: HttpServer, posts: str) -> None:
    exchange.stream()
    exchange.writer.write(f"event: endpoint\ndata: {posts}\n\n".encode())
    server.streams.append(exchange)
    await exchange.writer.drain()
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("posts", "said"),
    [("/posts?session=1", True), ("posts", True), ("full", True), ("/posts", False)],
    ids=["path", "beside", "full", "found-out"],
)
def test_the_oldest_transport(tmp_path: Path, posts: str, said: bool) -> None:
    """Where the settings ask for it, or where the address takes no posts."""

    async def scenario() -> None:
        async with http_server(session="") as server:
            where = server.url.replace("/mcp", "/posts") if posts == "full" else posts
            server.on["GET"] = lambda exchange: old_stream(exchange, server, where)

            def on_the_stream(exchange: Exchange) -> None:
                if exchange.path == "/mcp":
                    exchange.body(405)
                    return
                exchange.body(202)
                server.streams[0].event(server._result(exchange))

            for method in ("initialize", "tools/list", "tools/call"):
                server.on[method] = on_the_stream
            async with connected(tmp_path, endpoint(server, legacy_sse=said)) as client:
                assert json.loads((await client.call("echo", a=1)).text) == {"a": 1}
                used = [one for one in server.seen if one.path.startswith("/posts")]
                assert [one.rpc for one in used][-2:] == ["tools/list", "tools/call"]
                assert server.rpcs()[0] == ("GET" if said else "server/discover")
                server.streams[0].writer.close()
                await until(lambda: len(client.closed) == 1)
                with pytest.raises(McpError, match="ended its answer"):
                    await client.call("echo")

    asyncio.run(scenario())


def test_the_oldest_transport_stays_at_its_origin(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with http_server() as thief, http_server(session="") as server:
            server.on["GET"] = lambda exchange: old_stream(exchange, server, thief.url)
            with pytest.raises(McpError, match="another origin"):
                await McpClient().open(tmp_path, endpoint(server, legacy_sse=True))
            server.on["GET"] = status(401)
            with pytest.raises(McpError, match="`headers`"):
                await McpClient().open(tmp_path, endpoint(server, legacy_sse=True))
            assert thief.seen == []

    asyncio.run(scenario())


def test_an_endpoint_does_not_show_its_keys() -> None:
    shown = repr(HttpEndpoint(f"https://me:{SECRET}@host/mcp?key={SECRET}", {"Authorization": SECRET}))
    assert SECRET not in shown
    assert "Authorization" in shown
