"""A command's door to the network, on every backend and with the programs that people use."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from box import Box, available, level_of

from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.config.schema import NetworkRules
from coder.policy.network import door as door_module
from coder.policy.network.door import Door, open_door
from coder.policy.network.rules import Rules
from coder.policy.sandbox.backends import Sandbox
from coder.policy.sandbox.places import LineAccess
from kit.mcp_client import until

RUNGS = available()
PUBLIC = "93.184.216.34"
CONNECT = asyncio.open_connection
PYTHON = os.path.realpath(sys.executable)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A web server: what it was asked, and by which Host."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    host = next(line for line in head.split("\r\n") if line.lower().startswith("host:"))
    body = f"{head.split()[1]} {host}\n".encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()


class World:
    """Names that exist here alone, and a server behind each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.port = 0

        async def look_up(host: str, port: int) -> list[str]:
            self.asked.append(host)
            found = self.names.get(host)
            if found is None:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return found

        async def open_connection(host: str, port: int, **options: Any) -> Any:
            """A public address leads to the server of this test."""
            self.connected.append((host, port))
            public = host == PUBLIC
            return await CONNECT("127.0.0.1" if public else host, self.port if public else port, **options)

        monkeypatch.setattr(door_module, "look_up", look_up)
        monkeypatch.setattr(asyncio, "open_connection", open_connection)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture(params=RUNGS)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    made = Box(request.param)
    yield made
    made.close()


async def run(box: Box, script: str, door: Door | None, **options: Any) -> ProcessOutcome:
    sandbox = Sandbox(
        level_of(box.backend), box.workspace, box.coder_home, network=False, environment=box.environment()
    )
    return await run_process(
        sandbox.wrap(["bash", "-c", script], LineAccess(door=door)),
        runs=Runs.IN_SANDBOX,
        cwd=box.workspace,
        environment=box.environment(),
        timeout_ms=60_000,
        keep_bytes=100_000,
        spill_to=box.root / "spill",
        spill_limit=0,
        on_output=lambda text: None,
    )


def tried(
    box: Box, world: World, script: str, *allow: str, ask: Callable[[str], Awaitable[str]] | None = None
) -> tuple[ProcessOutcome, Door]:
    async def scenario() -> tuple[ProcessOutcome, Door]:
        async with world.serving():
            door = await open_door(level_of(box.backend), NetworkRules(list(allow)), box.environment(), ask)
            assert door is not None
            try:
                filled = script.replace("{port}", str(world.port)).replace("{python}", PYTHON)
                return await run(box, filled, door), door
            finally:
                door.close()
                await door.settled()

    return asyncio.run(scenario())


SOCKS = "-x socks5h://${HTTP_PROXY#http://}"
URLLIB = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')"


@pytest.mark.parametrize(
    "program",
    ["curl -sS", "curl -sS --proxytunnel", f"curl -sS {SOCKS}", f'{{python}} -c "{URLLIB}"'],
)
def test_programs_reach_a_listed_host(box: Box, world: World, program: str) -> None:
    world.names["api.example.com"] = [PUBLIC]
    done, door = tried(box, world, f"{program} http://api.example.com/a?b=1", "API.example.com.:80")
    assert (done.stdout, done.stderr) == ("/a?b=1 Host: api.example.com\n", "")
    assert world.connected == [(PUBLIC, 80)]
    assert (door.refused, door.bypassed) == ({}, {})


def test_git_and_pip_take_the_proxy(box: Box, world: World) -> None:
    world.names["git.example.com"] = world.names["pypi.example.com"] = [PUBLIC]
    pip = "{python} -m pip download --no-cache-dir --disable-pip-version-check -i http://pypi.example.com/s x"
    script = f"git ls-remote http://git.example.com/r; {pip} --trusted-host pypi.example.com --retries 0"
    tried(box, world, script, "*.example.com")
    assert set(world.asked) == {"git.example.com", "pypi.example.com"}


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("curl -sS http://evil.com/", "coder: evil.com:80 is not listed in sandbox.network.allow.\n"),
        ("curl -sS --proxytunnel http://evil.com/ 2>&1", "CONNECT tunnel failed, response 403\n"),
        (f"curl -sS {SOCKS} http://evil.com/ 2>&1", "(2)\n"),  # "not allowed by ruleset"
        (
            f'{{python}} -c "{URLLIB}" http://evil.com/ 2>&1',
            "HTTP Error 403: Blocked by sandbox.network.allow\n",
        ),
    ],
)
def test_any_other_is_refused_at_once_and_says_why(box: Box, world: World, program: str, told: str) -> None:
    done, door = tried(box, world, program, "example.com", "*.evil.com")
    assert done.stdout.endswith(told)
    assert door.refused == {"evil.com:80": "evil.com:80 is not listed in sandbox.network.allow."}
    assert world.asked == []  # looking a name up would tell it to whoever serves it


def test_a_private_address_is_reached_only_by_a_host_that_is_listed_itself(box: Box, world: World) -> None:
    async def yes(host: str) -> str:
        return ""

    for name in ("a.corp.com", "b.corp.com", "asked.com"):
        world.names[name] = ["127.0.0.1"]
    script = "for h in a.corp.com b.corp.com asked.com 169.254.169.254 0xa.1 [::ffff:10.0.0.1] db; "
    script += "do curl -sS http://$h:{port}/; done"
    done, door = tried(box, world, script, "*.corp.com", "b.corp.com", ask=yes)
    assert done.stdout.count("Host: ") == 1
    refused = ["a.corp.com", "asked.com", "169.254.169.254", "10.0.0.1", "[::ffff:a00:1]", "db"]
    assert list(door.refused) == [f"{host}:{world.port}" for host in refused]
    assert world.connected == [("127.0.0.1", world.port)]
    assert "sandbox.network.allow has to list that very host" in done.stdout


def test_what_was_checked_is_connected_to(box: Box, world: World) -> None:
    """A name that means something else a moment later."""

    class Rebound(list[str]):
        def __iter__(self) -> Iterator[str]:
            world.names["a.com"] = ["127.0.0.1"]
            return super().__iter__()

    world.names["a.com"] = Rebound([PUBLIC])
    done, _ = tried(
        box, world, "curl -sS http://a.com/; curl -sS http://a.com:{port}/", "a.com:80", "*.a.com"
    )
    assert world.connected == [(PUBLIC, 80)]
    assert world.asked == ["a.com"]
    assert "Host: a.com\n" in done.stdout


def test_one_private_address_among_several_is_enough(box: Box, world: World) -> None:
    world.names["x.a.com"] = [PUBLIC, "10.0.0.1"]
    _, door = tried(box, world, "curl -sS http://x.a.com/", "*.a.com")
    assert "at the private or local address 10.0.0.1" in door.refused["x.a.com:80"]
    assert world.connected == []


def test_a_program_that_ignores_the_proxy_fails_at_once(box: Box, world: World) -> None:
    done, door = tried(box, world, f"time -p curl -sS --noproxy '*' http://{PUBLIC}/", "example.com")
    assert done.exit_code == 7
    assert "onnect" in done.stderr
    assert list(door.bypassed) == [f"{PUBLIC}:80"]
    assert world.connected == []


SENDING = """
import socket, sys
def tried(what, *kind):
    try:
        with socket.socket(*kind) as s:
            what(s)
            print("sent")
    except OSError as error:
        print(error.errno in (1, 13, 22, 93, 94, 101, 111))
there = (sys.argv[1], int(sys.argv[2]))
tried(lambda s: s.sendto(b"x", there), 2, 2)
tried(lambda s: s.connect(there) or s.send(b"x"), 2, 2)
tried(lambda s: s.sendto(b"x", 0x20000000, there), 2, 1)
tried(lambda s: s.sendmsg([b"x"], (), 0x20000000, there), 2, 1)
tried(lambda s: s.sendto(b"x", 0x20000000, there), 2, 1, 262)
tried(lambda s: s.sendto(b"x", there), 2, 1, 132)
tried(lambda s: s.sendto(b"x", there), 2, 3, 1)
"""


def test_nothing_leaves_in_another_way(box: Box, world: World) -> None:
    """Datagrams, connections that sending makes, other protocols: to servers of this machine."""
    box.put("project/sending.py", SENDING)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        done, _ = tried(box, world, f"{PYTHON} sending.py 127.0.0.1 {port}", "example.com")
        for one in (tcp, udp):
            one.setblocking(False)
        with pytest.raises(BlockingIOError):
            tcp.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(9)
    # With bubblewrap a datagram may be sent, to the loopback of its own.
    assert done.stdout.split()[2:] == ["True"] * 5, done.stderr


def test_a_listed_port_of_this_machine_is_reached_directly(box: Box, world: World) -> None:
    async def scenario() -> tuple[str, str]:
        async with world.serving():
            door = await open_door(level_of(box.backend), NetworkRules([f"localhost:{world.port}"]), {})
            assert door is not None
            script = (
                f"curl -sS http://localhost:{world.port}/d; curl -sS {SOCKS} http://127.0.0.1:{world.port}/s"
            )
            done = await run(box, f"{script}; curl -sS http://127.0.0.1:9/", door)
            door.close()
            return done.stdout, done.stderr

    out, err = asyncio.run(scenario())
    assert [line.split()[0] for line in out.splitlines()] == ["/d", "/s"]
    assert "onnect" in err


def test_a_command_does_not_reach_the_door_of_another(box: Box, world: World) -> None:
    world.names["a.com"] = [PUBLIC]

    async def scenario() -> tuple[ProcessOutcome, ProcessOutcome]:
        async with world.serving():
            other, own = [
                await open_door(level_of(box.backend), NetworkRules([*allow]), {})
                for allow in (["a.com"], [])
            ]
            assert other is not None
            assert own is not None
            other.port += other.port == own.port  # inside a namespace both have the same
            waiting = asyncio.create_task(run(box, "curl -sS http://a.com/ && read < pipe", other))
            os.mkfifo(box.workspace / "pipe")
            await until(lambda: bool(world.connected))
            proxy = other.variables["HTTP_PROXY"]
            done = await run(box, f"curl -sS -x {proxy} http://a.com/ ; echo > pipe", own)
            return done, await waiting

    done, other = asyncio.run(scenario())
    assert "Host:" in other.stdout
    assert "Host:" not in done.stdout
    assert "onnect" in done.stderr


@pytest.mark.skipif("landlock" not in RUNGS, reason="where the proxy listens in the namespace of all")
def test_others_on_this_machine_need_the_password(world: World) -> None:
    world.names["a.com"] = [PUBLIC]

    async def scenario() -> list[bytes]:
        async with world.serving():
            door = await open_door(level_of("landlock"), NetworkRules(["a.com"]), {})
            assert door is not None
            wrong = b"Proxy-Authorization: Basic Y29kZXI6eA==\r\n"
            tried = (
                b"GET http://a.com/ HTTP/1.1\r\n\r\n",
                b"CONNECT a.com:80 HTTP/1.1\r\n" + wrong + b"\r\n",
                b"\5\1\0\5\1\0\3\5a.com\0\x50",
                b"\5\1\2\1\5coder\1x\5\1\0\3\5a.com\0\x50",
            )
            found = [(await talked(door.port, data))[:12] for data in tried]
            door.close()
            return found

    assert asyncio.run(scenario()) == [b"HTTP/1.1 407", b"HTTP/1.1 407", b"\5\xff", b"\5\2\1\1"]
    assert world.connected == []


def test_one_question_for_all_connections_and_its_answer_holds_for_the_command(
    box: Box, world: World
) -> None:
    world.names["a.com"] = [PUBLIC]
    asked = []
    come = asyncio.Event()

    async def ask(host: str) -> str:
        asked.append(host)
        await come.wait()
        return "" if host == "a.com:80" else f"The person refused {host}."

    async def scenario() -> ProcessOutcome:
        async with world.serving():
            door = await open_door(level_of(box.backend), NetworkRules(), {}, ask)
            assert door is not None
            get = "curl -sS http://a.com/"
            running = asyncio.create_task(
                run(box, f"{get} & {get} & {get} & wait; {get}; curl -sS http://b.com", door)
            )
            await until(lambda: len(door._tasks) > 2)
            come.set()
            done = await running
            door.close()
            return done

    done = asyncio.run(scenario())
    assert done.stdout.count("Host: a.com") == 4
    assert done.stdout.endswith("coder: The person refused b.com:80.\n")
    assert asked == ["a.com:80", "b.com:80"]


def test_a_command_that_ends_at_once_leaves_no_socket() -> None:
    async def scenario() -> None:
        door = Door(Rules([]))
        door.open_inside()
        assert door._channel is not None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            door.port = listener.getsockname()[1]
            socket.send_fds(door._channel[1], [b"."], [listener.fileno()])
            door._take_listeners(*door._channel)
            door.close()
            await door.settled()
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", door.port)) == errno.ECONNREFUSED

    asyncio.run(scenario())


async def talked(port: int, data: bytes, *, end: bool = False) -> bytes:
    """All that the proxy answers to these bytes, until it closes."""
    reader, writer = await CONNECT("127.0.0.1", port)
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        writer.write(data)
        if end:
            writer.write_eof()
        async with asyncio.timeout(20):
            return await reader.read()
    return b""


HOSTILE = {
    b"\5\0": b"\5\xff",
    b"\0": b"",
    b"GET / HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"GET ftp://a.com/ HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"CONNECT a.com:99999 HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"CONNECT a b.com:80 HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"CONNECT a.com\0:80 HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"CONNECT \xff.com:80 HTTP/1.1\r\n\r\n": b"HTTP/1.1 403",
    b"CONNECT a.com/../b:80 HTTP/1.1\r\n\r\n": b"HTTP/1.1 403",
    b"hello\r\n\r\n": b"HTTP/1.1 400",
    b"GET http://listed.com/ HTTP/1.1\r\nA: b\n\nGET http://a.com/ HTTP/1.1\r\n\r\n": b"HTTP/1.1 400",
    b"GET http://listed.com/ HTTP/1.1\r\nA: b\rConnection: keep-alive\r\n\r\n": b"HTTP/1.1 400",
    b"GET http://listed.com/ HTTP/1.1\r\nA: b\r\n Connection: keep-alive\r\n\r\n": b"HTTP/1.1 400",
    b"GET http://listed.com/ HTTP/1.1\r\nA\0: b\r\n\r\n": b"HTTP/1.1 400",
    b"\x16\x03\x01" + b"x" * 40_000: b"HTTP/1.1 431",
    b"GET http://a.com/ HTTP/1.1\r\n" + b"A: b\r\n" * 20_000: b"HTTP/1.1 431",
    b"\5\1\0\5\2\0\3\5a.com\0\x50": b"\5\0\5\7",
    b"\5\1\0\5\1\0\x09\5a.com\0\x50": b"\5\0\5\x08",
    b"\5\1\0\5\1\0\3\5a\nb.c\0\x50": b"\5\0\5\x04",
}


def test_hostile_bytes_are_answered_and_reach_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder.policy.network.proxy.HEAD_SECONDS", 0.3)
    monkeypatch.setattr("coder.policy.network.door._MOST_CLIENTS", 20)

    async def scenario() -> None:
        door = Door(Rules(["listed.com"]))
        await door.open_here()
        door.token = ""
        for data, wanted in HOSTILE.items():
            told = await talked(door.port, data, end=True)
            assert told[: len(wanted)] == wanted, data[:60]
        # Slow clients: cut off, and no more than there may be.
        slow = [asyncio.create_task(talked(door.port, b"GET http://a")) for _ in range(30)]
        assert await asyncio.gather(*slow) == [b""] * 30
        assert not door._tasks
        door.close()
        await door.settled()

    asyncio.run(scenario())
    assert world.connected == []
    assert world.asked == []


def test_a_half_closed_connection_goes_on_and_an_open_one_ends_with_its_door(world: World) -> None:
    world.names["a.com"] = [PUBLIC]

    async def scenario() -> None:
        async with world.serving():
            door = Door(Rules(["a.com"]))
            await door.open_here()
            door.token = ""
            connect = b"CONNECT a.com:80 HTTP/1.1\r\n\r\n"
            told = await talked(door.port, connect + b"GET /half HTTP/1.1\r\nHost: a.com\r\n\r\n", end=True)
            assert told.endswith(b"/half Host: a.com\n")
            waiting = asyncio.create_task(talked(door.port, connect))
            await until(lambda: len(world.connected) == 2)
            door.close()
            await door.settled()
            await waiting
            assert not door._tasks

    asyncio.run(scenario())


def test_the_persons_own_proxy_is_gone_through(box: Box, world: World) -> None:
    heard = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heard.append(head.decode())
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n")
        writer.close()

    async def scenario() -> ProcessOutcome:
        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
            url = f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
            own = {"https_proxy": url, "http_proxy": url}
            door = await open_door(level_of(box.backend), NetworkRules(["a.com"]), own)
            assert door is not None
            script = "curl -sS http://a.com/x; curl -sSp http://a.com:443/; curl -sS http://b.com/; env"
            done = await run(box, script, door)
            door.close()
            return done

    done = asyncio.run(scenario())
    assert done.stdout.startswith("hi\nhi\ncoder: b.com:80 is not listed")
    assert [head.split()[:2] for head in heard] == [["GET", "http://a.com/x"], ["CONNECT", "a.com:443"]]
    assert all("Proxy-Authorization: Basic bWU6c2VjcmV0" in head for head in heard)
    assert "secret" not in done.stdout
    assert world.asked == []  # that proxy resolves names


SERVING = """
import socket, sys
for host, family in (("127.0.0.1", 2), ("0.0.0.0", 2), ("::", 10), ("", 2)):
    with socket.create_server((host, 0), family=family, dualstack_ipv6=family == 10) as server:
        port = server.getsockname()[1]
        name = "localhost" if family == 10 else "127.0.0.1"
        with socket.create_connection((name, port), timeout=20) as one:
            print("own", server.accept()[1][0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1"))
with socket.socket() as unbound:
    try:
        unbound.listen()
        print("listens", sys.argv[2])
    except PermissionError:
        print("listens bwrap")
with socket.socket() as one:
    print("other", one.connect_ex(("127.0.0.1", int(sys.argv[1]))))
"""


@pytest.mark.parametrize("door", [True, False])
def test_servers_of_a_commands_own_are_reached_and_others_are_not(box: Box, world: World, door: bool) -> None:
    """As tests start them: on the loopback, or on all interfaces, which are the loopback here."""
    box.put("project/serving.py", SERVING)

    async def scenario() -> ProcessOutcome:
        async with world.serving():
            made = await open_door(level_of(box.backend), NetworkRules(), {}) if door else None
            return await run(box, f"{PYTHON} serving.py {world.port} {box.backend}", made)

    done = asyncio.run(scenario())
    wanted = [*["own True"] * 4, "listens bwrap", "other 111"]
    for line, start in zip(done.stdout.splitlines(), wanted, strict=True):
        assert line.startswith(start), done.stderr
