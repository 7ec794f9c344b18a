"""The HTTP client against servers that answer byte for byte what a test says."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from coder.base.http.client import HttpClient
from coder.base.http.errors import HttpError

T = TypeVar("T")
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"


class Raw:
    """Each request gets the next list of byte pieces; None closes the connection."""

    def __init__(self, *answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                self.requests.append(head + body)
                self.asked.set()
                for piece in self.answers.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


def with_server(
    use: Callable[[HttpClient, str, Raw], Awaitable[T]], *answers: Sequence[bytes | None], idle: float = 5.0
) -> T:
    async def run() -> T:
        raw = Raw(*answers)
        server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
        client = HttpClient(idle=idle, environment={})
        try:
            return await use(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x", raw)
        finally:
            await client.close()
            server.close()
            await asyncio.sleep(0.01)

    return asyncio.run(run())


async def get(client: HttpClient, url: str, body: bytes = b"") -> tuple[int, bytes]:
    response = await client.request("POST" if body else "GET", url, {}, body)
    data = await response.read(1 << 24)
    response.release()
    return response.status, data


async def get_once(client: HttpClient, url: str, raw: Raw) -> tuple[int, bytes]:
    return await get(client, url)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"], b"hello"),
        ([b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", None], b"hello"),
        ([b"HTTP/1.0 200 OK\r\n\r\nhello", None], b"hello"),
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"3;x=1\r\nhel\r\n2\r\nlo\r\n0\r\nT: v\r\n\r\n",
            ],
            b"hello",
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], b"ok"),
        ([b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"], b"ok"),
        ([b"HTTP/1.1 204 No\r\n\r\n"], b""),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello"), None], b"hello"),
        ([GZIP + gzip.compress(b"hel") + gzip.compress(b"lo"), None], b"hello"),
        ([GZIP + gzip.compress(b"hel"), gzip.compress(b"lo") + b"\0\0", None], b"hello"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello"), None], b"hello"),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello")[2:-4], None],
            b"hello",
        ),
    ],
)
def test_framings(answer: list[bytes | None], body: bytes) -> None:
    assert with_server(get_once, answer)[1] == body
    in_bytes: list[bytes | None] = []
    for piece in answer:
        in_bytes += [None] if piece is None else [piece[at : at + 1] for at in range(len(piece))]
    assert with_server(get_once, in_bytes)[1] == body


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", None], "closed"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhel", None], "closed"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n"], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nX: y", None], "closed"),
        ([None], "closed"),
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], "address"),
        ([b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 12_000], "protocol"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"], "protocol"),
        ([b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"], "redirect"),
        ([b"HTTP/1.1 307 T\r\nLocation: http://127.0.0.2:1/y\r\nContent-Length: 0\r\n\r\n"], "redirect"),
        ([b"HTTP/1.1 307 T\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"] * 9, "redirect"),
    ],
)
def test_faults_have_a_kind(answer: list[bytes | None], kind: str) -> None:
    many = [answer] if kind != "redirect" else [[piece] for piece in answer]
    with pytest.raises(HttpError) as caught:
        with_server(get_once, *many)
    assert caught.value.kind == kind


@pytest.mark.parametrize("location", ["y", "./y", "/y", "//127.0.0.1:PORT/y"])
def test_where_a_redirect_leads_is_said(location: str) -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> str:
        port = url.split(":")[2].partition("/")[0]
        moved = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
        raw.answers.append([moved % location.replace("PORT", port).encode()])
        with pytest.raises(HttpError) as caught:
            await client.request("GET", url, {})
        return str(caught.value).replace(port, "PORT")

    assert with_server(use).endswith("to http://127.0.0.1:PORT/y")


def test_a_redirect_within_the_origin_keeps_method_and_body() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        assert await get(client, url, b"payload") == (200, b"ok")
        assert raw.requests[1].startswith(b"POST /y?z HTTP/1.1\r\n")
        assert raw.requests[1].endswith(b"payload")

    with_server(
        use,
        [b"HTTP/1.1 308 P\r\nLocation: /y?z\r\nContent-Length: 0\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"],
    )


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_connection_serves_many_requests() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        for _ in range(3):
            assert await get(client, url) == (200, b"ok")
        assert raw.connections == 1

    with_server(use, [OK], [OK], [OK])


def test_connection_close_is_obeyed() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        for _ in range(2):
            assert await get(client, url) == (200, b"ok")
        assert raw.connections == 2

    with_server(use, [closing], [closing])


def test_a_kept_connection_that_died_is_replaced_silently() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        assert await get(client, url) == (200, b"ok")
        # The second request gets no byte on the kept connection: it is closed as the request arrives.
        assert await get(client, url, b"again") == (200, b"ok")
        assert raw.connections == 2
        assert raw.requests[1] == raw.requests[2]

    with_server(use, [OK], [None], [OK])


def test_a_fresh_connection_that_dies_is_not_tried_again() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        with pytest.raises(HttpError):
            await get(client, url)
        assert len(raw.requests) == 1

    with_server(use, [None], [OK])


def test_unread_leftovers_do_not_leak_into_the_next_answer() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        assert await get(client, url) == (200, b"ok")
        assert await get(client, url) == (200, b"ok")
        assert raw.connections == 2

    with_server(use, [OK + b"HTTP/1.1 500 smuggled\r\n\r\n"], [OK])


def test_silence_is_a_time_out() -> None:
    with pytest.raises(HttpError) as caught:
        with_server(get_once, [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"], idle=0.05)
    assert caught.value.kind == "idle_timeout"


def test_cancelling_closes_the_socket_at_once() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        task = asyncio.create_task(get(client, url))
        await asyncio.wait_for(raw.asked.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The answer has been played; the server now waits for the client to leave.
        await asyncio.wait_for(raw.gone.wait(), 60)

    with_server(use, [])


def test_request_line_host_and_credentials() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        await get(client, url.replace("http://", "http://me:pw@"))
        head = raw.requests[0].decode()
        assert head.startswith("GET /x HTTP/1.1\r\nHost: 127.0.0.1:")
        assert "Authorization: Basic bWU6cHc=\r\n" in head
        assert "Accept-Encoding: identity\r\n" in head

    with_server(use, [OK])


def test_a_header_cannot_smuggle_another() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        with pytest.raises(HttpError) as caught:
            await client.request("GET", url, {"X-A": "b\r\nX-Evil: secret"})
        assert "secret" not in str(caught.value)
        assert raw.requests == []

    with_server(use, [OK])


def test_dead_addresses() -> None:
    async def run(url: str) -> None:
        await HttpClient(environment={}).request("GET", url, {})

    for host in ("127.0.0.1", "localhost", "[::1]"):
        with pytest.raises(HttpError) as caught:
            asyncio.run(run(f"http://{host}:1/"))
        assert caught.value.kind == "refused"
        assert "Errno" not in str(caught.value)


def test_https_to_a_plain_port_is_a_tls_fault() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        with pytest.raises(HttpError) as caught:
            await get(client, url.replace("http://", "https://"))
        assert caught.value.kind in ("tls", "closed")

    async def run() -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        await use(
            HttpClient(environment={}), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", Raw()
        )
        server.close()

    asyncio.run(run())


def test_a_plain_proxy_gets_the_absolute_form() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        proxy = url.removesuffix("/x").replace("http://", "http://u:p@")
        through = HttpClient(environment={"HTTP_PROXY": proxy})
        assert await get(through, "http://model.invalid/v1/chat") == (200, b"ok")
        await through.close()
        head = raw.requests[0].decode()
        assert head.startswith("GET http://model.invalid/v1/chat HTTP/1.1\r\nHost: model.invalid\r\n")
        assert "Proxy-Authorization: Basic dTpw\r\n" in head

    with_server(use, [OK])


def test_a_proxy_is_asked_to_connect_for_https() -> None:
    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        through = HttpClient(environment={"HTTPS_PROXY": url.removesuffix("/x")})
        with pytest.raises(HttpError) as caught:
            await get(through, "https://model.invalid/v1/chat")
        assert caught.value.kind == "proxy"
        assert "403" in str(caught.value)
        assert raw.requests[0].startswith(b"CONNECT model.invalid:443 HTTP/1.1\r\n")

    with_server(use, [b"HTTP/1.1 403 Forbidden\r\n\r\n"])


def test_a_fast_drip_arrives_whole_and_in_order() -> None:
    pieces = [b"%d," % n for n in range(400)]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(b"".join(pieces))
    assert with_server(get_once, [head, *pieces]) == (200, b"".join(pieces))


def test_a_compressed_bomb_is_inflated_in_bounded_pieces() -> None:
    bomb = gzip.compress(b"\0" * (8 << 20))

    async def use(client: HttpClient, url: str, raw: Raw) -> None:
        response = await client.request("GET", url, {})
        assert len(await response.read(1000)) == 1000
        response.abort()

    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with_server(use, [head + bomb])
