"""A command's proxy to the network: what it may reach, and what was refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

from coder.base.http.address import Address, proxy_for
from coder.base.http.connection import basic, tls_context
from coder.base.http.errors import HttpError
from coder.config.schema import NetworkRules
from coder.policy.network.proxy import HEAD_BYTES, Pair, Refused, Upstream, relay, serve
from coder.policy.network.rules import LOCAL, Rules, canonical, private_literal, shown
from coder.policy.sandbox.backends import SandboxLevel
from coder.tools.web import is_public, literal_address

Lookup = Callable[[str, int], Awaitable[list[str]]]
Ask = Callable[[str], Awaitable[str]]  # with `host:port`; the answer is why not, or empty

CONNECT_SECONDS = 30.0
_MOST_CLIENTS = 256  # connections at a time; more are closed
_MOST_NAMED = 20  # hosts that a result names
_FIRST_PORT = 3128  # of the proxy inside a network namespace
_INSIDE = Path(__file__).with_name("inside.py")


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Door:
    """`ask` puts a host that is not listed to the person; without it that is refused. `environment`: the
    person's, which may name a proxy of their own."""

    def __init__(
        self,
        rules: Rules,
        *,
        ask: Ask | None = None,
        environment: Mapping[str, str] | None = None,
        why_not: str = "",
    ) -> None:
        self.rules = rules
        self.token = ""
        self.port = 0
        self.refused: dict[str, str] = {}  # the reasons for the model, by `host:port`
        self.bypassed: dict[str, None] = {}  # addresses that a program tried without the proxy
        self._ask, self._environment, self._why_not = ask, environment or {}, why_not
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._servers: list[asyncio.Server] = []
        self._listeners: list[socket.socket] = []
        self._channel: tuple[socket.socket, socket.socket] | None = None
        self._loop = asyncio.get_running_loop()

    # opening and closing

    def open_inside(self) -> None:
        """For a command in its own network namespace: what opens the sockets there sends them here."""
        self.port = next(port for port in range(_FIRST_PORT, 65536) if port not in self.rules.local)
        ours, theirs = self._channel = socket.socketpair()
        ours.setblocking(False)
        self._loop.add_reader(ours, self._take_listeners, ours, theirs)

    async def open_here(self) -> None:
        """For a command that shares our network namespace: with a password, as others could connect too."""
        self.token = os.urandom(16).hex()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        self._servers.append(server)
        self.port = server.sockets[0].getsockname()[1]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that the command inherits."""
        return () if self._channel is None else (self._channel[1].fileno(),)

    def inside(self, argv: list[str]) -> list[str]:
        """The line that runs `argv` in its namespace."""
        (channel,) = self.descriptors
        ports = ",".join(map(str, (self.port, *sorted(self.rules.local))))
        # Not a virtual environment's symlink: it may be in /tmp, which is replaced in the sandbox.
        python = os.path.realpath(sys.executable)
        text = _INSIDE.read_text(encoding="utf-8")
        return [python, "-I", "-S", "-c", text, str(channel), ports, *argv]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables by which programs find the proxy. The loopback is reached directly."""
        login = f"coder:{self.token}@" if self.token else ""
        proxies = dict.fromkeys(
            ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), f"http://{login}127.0.0.1:{self.port}"
        )
        named = {**proxies, "NO_PROXY": ",".join(LOCAL)}
        return named | {name.lower(): value for name, value in named.items()}

    def close(self) -> None:
        """End every connection and question. From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and all of it with it
            if self._loop is _running_loop():
                self._close()
            else:
                self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._channel is not None:
            self._loop.remove_reader(self._channel[0])
            for end in self._channel:
                end.close()
            self._channel = None
        for server in self._servers:
            server.close()
        for listener in self._listeners:  # of a command that has ended before its server began
            listener.close()
        pending: list[asyncio.Future[Any]] = [*self._tasks, *self._answers.values()]
        for task in pending:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def settled(self) -> None:
        """Wait until what `close` has cancelled is over."""
        await asyncio.gather(*self._tasks, *self._answers.values(), return_exceptions=True)

    def _take_listeners(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._loop.remove_reader(ours)
        theirs.close()
        most = 2 * (1 + len(self.rules.local))
        _, descriptors, _, _ = socket.recv_fds(ours, 1, most)
        for descriptor in descriptors:
            listener = socket.socket(fileno=descriptor)
            self._listeners.append(listener)
            port = listener.getsockname()[1]
            if port == self.port or port in self.rules.local:
                self._start(self._listen(listener, None if port == self.port else port))

    async def _listen(self, listener: socket.socket, local: int | None) -> None:
        listener.setblocking(False)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._accept(reader, writer, local)

        self._servers.append(await asyncio.start_server(accept, sock=listener, limit=HEAD_BYTES))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, local: int | None = None
    ) -> None:
        if len(self._tasks) >= _MOST_CLIENTS:
            writer.transport.abort()
            return
        self._writers.add(writer)
        self._start(serve(self, reader, writer) if local is None else self._forward(local, (reader, writer)))

    async def _forward(self, port: int, client: Pair) -> None:
        """A listed port of this machine, on the same port inside."""
        try:
            await relay(client, await self._connect(["127.0.0.1", "::1"], port))
        except (OSError, TimeoutError):
            client[1].transport.abort()

    # reaching

    def saw_bypass(self, address: str) -> None:
        if len(self.bypassed) < _MOST_NAMED:
            self.bypassed[address] = None

    async def reach(self, host: str, port: int, *, plain: bool = False) -> Upstream:
        """Connect to a host that is listed, or that the person allows. Raises `Refused`."""
        try:
            name = canonical(host)
        except ValueError:
            raise Refused("The host has no valid name.") from None
        listed = self.rules.listed(name, port)
        if not listed:
            if private_literal(name):
                raise self._refusal(name, port, self._private(name, port))
            if reason := await self._asked(shown(name, port)):
                raise self._refusal(name, port, reason)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open(name, port, private=listed == "exact", plain=plain)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, HttpError) as error:
            why = getattr(error, "strerror", None) or str(error) or "no answer"
            raise Refused(f"{shown(name, port)} cannot be reached: {why}") from None

    async def _asked(self, host: str) -> str:
        """Why not, or empty; one question for all connections of the command."""
        if self._ask is None:
            return self._why_not or f"{host} is not listed in sandbox.network.allow."
        if host not in self._answers:
            self._answers[host] = asyncio.ensure_future(self._ask(host), loop=self._loop)
        return await asyncio.shield(self._answers[host])

    def _private(self, host: str, port: int, address: str = "") -> str:
        at = f"at the private or local address {address}"
        where = at if address not in ("", host) else "private or local"
        return f"{shown(host, port)} is {where}: sandbox.network.allow has to list that very host."

    def _refusal(self, host: str, port: int, sentence: str) -> Refused:
        if len(self.refused) < _MOST_NAMED:
            self.refused[shown(host, port)] = sentence
        return Refused(sentence, denied=True)

    async def _open(self, host: str, port: int, *, private: bool, plain: bool) -> Upstream:
        wanted = Address("http" if plain else "https", host, port, "/")
        proxy = proxy_for(wanted, self._environment)
        if proxy is not None and host not in LOCAL:  # which resolves the name
            return await self._through(proxy, wanted)
        if host in LOCAL:
            addresses = ["127.0.0.1", "::1"]
        else:
            addresses = [host] if literal_address(host) else await look_up(host, port)
        for address in () if private else addresses:
            if not is_public(address):
                raise self._refusal(host, port, self._private(host, port, address))
        return Upstream(*await self._connect(addresses, port))

    async def _connect(self, addresses: list[str], port: int) -> Pair:
        """To the first address that answers: these are the checked ones, and no name is resolved again."""
        problem = OSError("it has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS / len(addresses)):
                    reader, writer = await asyncio.open_connection(address, port, limit=HEAD_BYTES)
            except OSError as error:  # a time-out too
                problem = error
            else:
                self._writers.add(writer)
                return reader, writer
        raise problem

    async def _through(self, proxy: Address, wanted: Address) -> Upstream:
        """By the person's own proxy."""
        tls = tls_context() if proxy.scheme == "https" else None
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port, ssl=tls, limit=HEAD_BYTES)
        self._writers.add(writer)
        if wanted.scheme == "http":
            return Upstream(reader, writer, proxy)
        name = shown(wanted.host, wanted.port)
        login = f"Proxy-Authorization: {basic(proxy.credentials)}\r\n" if proxy.credentials else ""
        writer.write(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{login}\r\n".encode("latin-1"))
        status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(None, 2)[1:2] != ["200"]:
            writer.close()
            raise OSError(f"the proxy {proxy.shown} answered {status[:100]}")
        return Upstream(reader, writer)


async def open_door(
    level: SandboxLevel,
    network: bool | NetworkRules,
    environment: Mapping[str, str],
    ask: Ask | None = None,
    remembered: list[str] | None = None,
) -> Door | None:
    """The door of a command in the sandbox of this `level`; None if there can be none."""
    if not isinstance(network, NetworkRules) or not level.has_doors:
        return None
    door = Door(Rules(network.allow, remembered or ()), ask=ask, environment=environment)
    if level.backend == "bwrap":
        door.open_inside()
    else:
        await door.open_here()
    return door


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
