"""Servers that run as children: both protocols, calls, cancels, deaths, floods, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.extend.mcp.client import Connection, McpError, StdioEndpoint
from coder.texts import Catalog
from kit.mcp_client import KIT_SERVER, McpClient, connected, gone, kit, program, running, until

ROOT = Path(__file__).parent


def open_files() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def refused(
    root: Path, endpoint: StdioEndpoint | None = None, *, within_ms: int = 30_000, **told: Any
) -> str:
    """The fault of a connection that does not come about."""

    async def scenario() -> str:
        client = McpClient()
        with pytest.raises(McpError) as caught:
            await client.open(root, endpoint or kit(root, **told), within_ms=within_ms)
        assert client.closed == []
        assert caught.value.text(Catalog("zh")) != str(caught.value)
        return str(caught.value)

    return asyncio.run(scenario())


# both protocols


@pytest.mark.parametrize(
    ("told", "version", "opened"),
    [
        (
            {"protocol": "legacy"},
            "2025-11-25",
            ["server/discover", "initialize", "notifications/initialized"],
        ),
        ({"protocol": "legacy", "version": "2024-11-05"}, "2024-11-05", ["server/discover", "initialize"]),
        ({"protocol": "modern"}, "2026-07-28", ["server/discover", "tools/list"]),
        ({"protocol": "both"}, "2026-07-28", ["server/discover", "tools/list"]),
        ({"protocol": "both", "supported": ["2025-06-18"], "version": "2025-06-18"}, "2025-06-18", []),
        ({"protocol": "both", "hello": {"supportedVersions": ["2025-11-25"]}}, "2025-11-25", []),
    ],
    ids=["legacy", "oldest", "modern", "both", "refuses-ours", "discovers-old"],
)
def test_each_era_is_found_out(tmp_path: Path, told: dict[str, Any], version: str, opened: list[str]) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, **told) as client:
            connection = client.connection
            assert connection.version == version
            assert connection.server.startswith("kit ")
            assert [tool.name for tool in connection.tools] == ["echo"]
            assert (await client.call("echo", text="héllo\n世界")).text == "héllo\n世界"
            heard = json.loads((await client.call("heard")).text)
            assert [message["method"] for message in heard][: len(opened)] == opened
            every = [message["params"].get("_meta", {}) for message in heard if "id" in message]
            carries = ["io.modelcontextprotocol/protocolVersion" in meta for meta in every]
            assert carries == [version == "2026-07-28" or at == 0 for at in range(len(every))]

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["hang", "die", "deaf", "garbage", "invalid"])
def test_an_old_server_that_cannot_bear_the_probe_is_connected_with(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with connected(
            tmp_path, within_ms=6_000, protocol="legacy", on={"server/discover": how}
        ) as client:
            assert client.connection.version == "2025-11-25"
            assert (await client.call("echo", text="hi")).text == "hi"
            assert client.closed == []

    asyncio.run(scenario())


def test_a_program_that_is_slow_to_start_is_not_taken_for_a_silent_one(tmp_path: Path) -> None:
    """It is started once, and an answer to the probe, however late, decides."""
    line = f'echo x >> "{tmp_path}/starts"; sleep 1.6; exec {sys.executable} -I -S {KIT_SERVER} "$0"'
    endpoint = program(tmp_path, "/bin/sh", "-c", line, '{"protocol": "both"}')

    async def scenario() -> None:
        async with connected(tmp_path, endpoint, within_ms=30_000) as client:
            assert client.connection.version == "2026-07-28"
            heard = json.loads((await client.call("heard")).text)
            assert "initialize" not in [message["method"] for message in heard]

    asyncio.run(scenario())
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "x\n"


def test_a_version_that_nobody_here_speaks_is_a_fault(tmp_path: Path) -> None:
    assert "2031-01-01" in refused(tmp_path, protocol="modern", supported=["2031-01-01"])
    assert "1999-01-01" in refused(tmp_path, protocol="legacy", version="1999-01-01")


def test_a_servers_words_about_itself_are_bounded_lines(tmp_path: Path) -> None:
    info = {"name": "two\nlines\x1b[2J" + "n" * 500, "version": ["no text"]}
    hello = {"serverInfo": info, "instructions": "i" * 100_000}

    async def scenario() -> None:
        async with connected(tmp_path, protocol="legacy", hello=hello) as client:
            assert client.connection.server.startswith("two lines[2Jnnn")
            assert len(client.connection.server) <= 80
            assert len(client.connection.instructions) < 9_000
            assert "left out" in client.connection.instructions

    asyncio.run(scenario())


# not coming about


def test_a_program_that_is_not_there_or_no_program(tmp_path: Path) -> None:
    assert "no program no-such-thing" in refused(tmp_path, program(tmp_path, "no-such-thing"))
    (tmp_path / "file").write_text("text", encoding="utf-8")
    assert "cannot be started" in refused(tmp_path, program(tmp_path, str(tmp_path / "file")))
    assert "cannot be started" in refused(tmp_path, program(tmp_path / "nowhere", "true"))
    assert "cannot be started" in refused(tmp_path, StdioEndpoint(["true", "a\0b"], tmp_path, {}))


def test_a_program_that_is_no_server_is_quoted_and_not_tried_again(tmp_path: Path) -> None:
    line = f'echo x >> "{tmp_path}/starts"; echo usage: thing --stdio; exit 2'
    said = refused(tmp_path, program(tmp_path, "/bin/sh", "-c", line))
    assert "exit status 2" in said
    assert "usage: thing --stdio" in said
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "x\n"


NPM = """npm error code EROFS
npm error rofs Invalid response body: EROFS: read-only file system, open '/home/.npm/_cacache'
npm error rofs Often virtualized file systems give this error.
npm error You can rerun the command with `--loglevel=verbose` to see the logs in your terminal
"""
NODE = """file:///server.js:3
Error: no such table
    at run (file:///server.js:3:7)

Node.js v22.1.0
"""
PYTHON = """Traceback (most recent call last):
  File "server.py", line 1, in <module>
ModuleNotFoundError: No module named 'thing'
"""


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (NPM, "EROFS: read-only file system"),
        (NODE, "Error: no such table"),
        (PYTHON, "ModuleNotFoundError: No module named 'thing'"),
        ("usage: server [--stdio]\nunknown option\n", "unknown option"),
    ],
    ids=["npm", "node", "python", "plain"],
)
def test_the_line_that_tells_why_is_quoted(tmp_path: Path, printed: str, told: str) -> None:
    endpoint = program(tmp_path, "/bin/sh", "-c", 'printf "%s" "$0" >&2; exit 1', printed)
    assert told in refused(tmp_path, endpoint)


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("hang", "did not answer within 2 s; it said: starting up"),
        ("die", "exit status 3); it said: dying of it"),
        ("error", "says no: told to fail"),
        ("invalid", "an answer that is none"),
        ("eof", "stopped talking"),
    ],
)
def test_trouble_in_each_opening_method_is_told(tmp_path: Path, method: str, how: str, words: str) -> None:
    within = 2_000 if how == "hang" else 30_000
    on, stderr = {method: how}, ["starting up"]
    assert words in refused(tmp_path, within_ms=within, protocol="legacy", on=on, stderr=stderr)


def test_cancelling_a_connection_on_its_way_leaves_nothing(tmp_path: Path) -> None:
    line = f'echo $$ > "{tmp_path}/pid"; exec sleep 3600'

    async def scenario() -> int:
        opening = asyncio.create_task(McpClient().open(tmp_path, program(tmp_path, "/bin/sh", "-c", line)))
        pid_file = tmp_path / "pid"
        await until(lambda: pid_file.exists() and bool(pid_file.read_text(encoding="utf-8").strip()))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        return int(pid_file.read_text(encoding="utf-8"))

    assert gone(asyncio.run(scenario()))


# calls


def test_two_hundred_calls_at_once_answered_in_the_other_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client, connected(tmp_path, protocol="modern") as other:
            calls = [client.call("reversed", text=f"n{n}", of=200) for n in range(200)]
            more = [other.call("reversed", text=f"m{n}", of=200) for n in range(200)]
            outcomes = await asyncio.gather(*calls, *more)
            expected = [f"n{n}" for n in range(200)] + [f"m{n}" for n in range(200)]
            assert [outcome.text for outcome in outcomes] == expected

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["legacy", "modern"])
def test_a_cancelled_call_returns_at_once_and_the_server_learns_of_it(tmp_path: Path, protocol: str) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, protocol=protocol) as client:
            heard: list[str] = []
            never = client.connection.call(
                "never", {"progress": 3}, timeout_ms=60_000, on_progress=heard.append
            )
            call = asyncio.create_task(never)
            await until(lambda: len(heard) == 3)
            assert heard == ["1/9 still at it", "2/9 still at it", "3/9 still at it"]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            sent = json.loads((await client.call("heard")).text)
            (asked,) = [m["id"] for m in sent if m.get("params", {}).get("name") == "never"]
            assert json.loads((await client.call("cancelled")).text) == [asked]
            assert (await client.call("echo", text="still here")).text == "still here"

    asyncio.run(scenario())


def test_a_call_that_takes_too_long_is_a_fault_and_is_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            with pytest.raises(McpError, match=r"never of the MCP server kit did not answer within 0\.3 s"):
                await client.call("never", timeout_ms=300, progress=100)
            assert len(json.loads((await client.call("cancelled")).text)) == 1

    asyncio.run(scenario())


def test_faults_of_a_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            with pytest.raises(McpError, match="refuses the call of absent: Unknown tool: absent"):
                await client.call("absent")
            with pytest.raises(McpError, match="result of raw that does not follow"):
                await client.call("raw", result={"content": 3})
            with pytest.raises(McpError, match="answer that is none"):
                await client.call("raw", result=None)
            outcome = await client.call("raw", result={"content": [], "isError": True})
            assert not outcome.ok

    asyncio.run(scenario())


def test_whatever_a_model_writes_can_be_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            await client.call("echo", text="half \ud83d", number=2**70, deep=[[[{"a": None}]]])
            heard = json.loads((await client.call("heard")).text)
            assert heard[-2]["params"]["arguments"]["number"] == 2**70

    asyncio.run(scenario())


def test_what_a_server_asks_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:

            async def ask(method: str) -> Any:
                return json.loads((await client.call("ask", method=method)).text)

            assert (await ask("ping"))["result"] == {}
            assert (await ask("roots/list"))["result"]["roots"][0]["uri"] == tmp_path.as_uri()
            assert "not supported" in (await ask("sampling/createMessage"))["error"]["message"]
            assert "not supported" in (await ask("elicitation/create"))["error"]["message"]

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["legacy", "modern"])
def test_a_list_that_changes_is_told_and_read_again(tmp_path: Path, protocol: str) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, protocol=protocol) as client:
            await client.call("change")
            await until(lambda: client.changed == 1)
            assert [tool.name for tool in await client.connection.refresh_tools()] == ["new"]
            assert [tool.name for tool in client.connection.tools] == ["new"]

    asyncio.run(scenario())


# noise and floods


def test_banners_and_logs_are_no_trouble(tmp_path: Path) -> None:
    banner = ["Server ready!", "{half a message", "[1, 2]", "", '"text"']

    async def scenario() -> None:
        async with connected(tmp_path, banner=banner, on={"tools/call": "garbage"}) as client:
            assert (await client.call("echo", text="hi")).text == "hi"

    asyncio.run(scenario())


def test_a_message_past_the_bound_is_a_fault_and_the_server_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, on={"ping": "huge"}) as client:
            wire = client.connection._wire
            asking = asyncio.create_task(client.call("never"))
            await wire.notify("ping", {})
            with pytest.raises(McpError, match="over 16 MB"):
                await asking
            assert (await client.call("echo", text="hi")).text == "hi"

    asyncio.run(scenario())


def test_a_long_result_within_the_bound_arrives(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            text = "x" * 900_000
            assert (await client.call("echo", text=text)).text == text

    asyncio.run(scenario())


def test_stderr_never_stops_a_server_and_its_end_is_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            assert (await client.call("chatter", lines=1000)).text == "done"
            await until(lambda: client.connection.stderr_tail().endswith("x\n"))
            assert len(client.connection.stderr_tail()) <= 16_384

    asyncio.run(scenario())


def test_a_server_that_does_not_read_makes_only_its_callers_wait(tmp_path: Path) -> None:
    """What was begun is finished, what was not is taken back, and closing does not wait for either."""

    async def scenario() -> None:
        async with connected(tmp_path) as deaf, connected(tmp_path) as other:
            stuck = asyncio.create_task(deaf.call("deaf"))
            large = [asyncio.create_task(deaf.call("echo", text="x" * 300_000)) for _ in range(5)]
            await asyncio.sleep(0)
            assert (await other.call("echo", text="quick")).text == "quick"
            for task in (stuck, *large):
                assert not task.done()
                task.cancel()
            results = await asyncio.gather(stuck, *large, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            # The rest of the first large line, and the two notices: of it, and of the call that was read.
            assert len(deaf.connection._wire._outbox._queue) == 3  # type: ignore[attr-defined]  # a look inside
            with pytest.raises(McpError, match="did not answer"):
                await deaf.call("echo", text="y" * 300_000, timeout_ms=200)

    asyncio.run(scenario())


# ends


@pytest.mark.parametrize(
    ("arguments", "status"), [({"status": 7}, 7), ({"signal": signal.SIGKILL}, 137)], ids=["exit", "signal"]
)
def test_a_server_that_dies_fails_all_who_wait_and_says_why(
    tmp_path: Path, arguments: dict[str, int], status: int
) -> None:
    async def scenario() -> None:
        async with connected(tmp_path) as client:
            waiting = [asyncio.create_task(client.call("never")) for _ in range(3)]
            with pytest.raises(McpError) as caught:
                await client.call("die", **arguments)
            words = f"The MCP server kit has ended (exit status {status}); it said: last words"
            assert str(caught.value) == words
            for task in waiting:
                with pytest.raises(McpError, match="has ended"):
                    await task
            with pytest.raises(McpError, match="has ended"):
                await client.call("echo", text="anybody?")
            assert [str(why) for why in client.closed] == [words]

    asyncio.run(scenario())


def test_a_server_that_leaves_with_its_first_list_is_told_of_one_way_or_the_other(tmp_path: Path) -> None:
    """Its death may be seen before the connection is handed out or after; it is never missed."""

    async def once() -> None:
        client = McpClient()
        try:
            await client.open(tmp_path, kit(tmp_path, leaves=True))
        except McpError as fault:
            client.closed.append(fault.phrase)
        await until(lambda: client.closed)
        assert "exit status 4" in str(client.closed[0])

    async def scenario() -> None:
        for _ in range(10):
            await once()

    asyncio.run(scenario())


def test_death_at_any_moment_is_told_and_never_waited_for(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def once() -> None:
        client = McpClient()
        await client.open(tmp_path, kit(tmp_path, protocol=chance.choice(["legacy", "modern"])))
        pid = int((await client.call("pid")).text)
        calls = [
            asyncio.create_task(client.call("echo", text="x" * chance.randrange(100_000))) for _ in range(8)
        ]
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        os.kill(pid, chance.choice([signal.SIGKILL, signal.SIGTERM]))
        async with asyncio.timeout(30):
            results = await asyncio.gather(*calls, return_exceptions=True)
            await until(lambda: len(client.closed) == 1)
        for result in results:
            assert not isinstance(result, BaseException) or isinstance(result, McpError)
        await client.connection.close()
        assert len(client.closed) == 1
        assert not running(pid)

    async def scenario() -> None:
        for _ in range(12):
            await once()

    asyncio.run(scenario())


@pytest.mark.parametrize("stubborn", [False, True], ids=["goes", "stubborn"])
def test_close_leaves_no_process_not_even_one_that_left(tmp_path: Path, stubborn: bool) -> None:
    async def scenario() -> list[int]:
        async with connected(tmp_path, stubborn=stubborn) as client:
            pids = [int(word) for word in (await client.call("pid", stray=True)).text.split()]
            assert all(running(pid) for pid in pids)
            await asyncio.gather(client.connection.close(), client.connection.close())
            assert client.closed == []
            with pytest.raises(McpError, match="closed"):
                await client.call("echo", text="anybody?")
            return pids

    assert not any(running(pid) for pid in asyncio.run(scenario()))


def test_a_loop_that_ends_without_closing_leaves_no_process(tmp_path: Path) -> None:
    kept: list[Connection] = []

    async def scenario() -> int:
        client = McpClient()
        kept.append(await client.open(tmp_path, kit(tmp_path)))
        return int((await client.call("pid")).text)

    assert not running(asyncio.run(scenario()))


@pytest.mark.thorough
def test_files_are_not_left_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path):
            pass
        before = open_files()
        for n in range(50):
            async with connected(tmp_path, protocol="modern" if n % 2 else "legacy") as client:
                await client.call("echo", text="hi")
        assert open_files() == before

    asyncio.run(scenario())
