"""HTTPS against a server with a certificate of its own."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from coder.base.http.client import HttpClient
from coder.base.http.errors import HttpError

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=model.test"]
    command += ["-addext", "subjectAltName=DNS:model.test,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _serve(certificate: tuple[Path, Path]) -> tuple[asyncio.Server, int]:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
    return server, server.sockets[0].getsockname()[1]


async def _get(url: str, times: int, environment: dict[str, str]) -> list[bytes]:
    client = HttpClient(environment=environment)
    found = []
    for _ in range(times):
        response = await client.request("GET", url, {})
        found.append(await response.read(100))
        response.release()
    await client.close()
    return found


def test_a_trusted_certificate(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))

    async def run() -> None:
        server, port = await _serve(certificate)
        assert await _get(f"https://127.0.0.1:{port}/", 2, {}) == [b"ok", b"ok"]
        server.close()
        await asyncio.sleep(0.01)

    asyncio.run(run())


def test_an_unknown_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    async def run() -> None:
        server, port = await _serve(certificate)
        with pytest.raises(HttpError) as caught:
            await _get(f"https://127.0.0.1:{port}/", 1, {})
        assert caught.value.kind == "tls"
        assert "certificate" in str(caught.value)
        server.close()
        await asyncio.sleep(0.01)

    asyncio.run(run())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


def test_through_a_proxy(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy sees CONNECT and ciphertext, and resolves the name itself."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    asked: list[bytes] = []

    async def run() -> None:
        server, port = await _serve(certificate)

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))

        through = await asyncio.start_server(proxy, "127.0.0.1", 0)
        at = through.sockets[0].getsockname()[1]
        environment = {"https_proxy": f"http://me:pw@127.0.0.1:{at}"}
        assert await _get("https://model.test/v1", 2, environment) == [b"ok", b"ok"]
        assert len(asked) == 1
        assert asked[0].startswith(b"CONNECT model.test:443 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic bWU6cHc=\r\n" in asked[0]
        through.close()
        server.close()
        await asyncio.sleep(0.02)

    asyncio.run(run())


def test_bytes_that_a_proxy_sends_before_tls_are_no_answer(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"

    async def run() -> None:
        server, port = await _serve(certificate)

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n" + forged)
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))

        through = await asyncio.start_server(proxy, "127.0.0.1", 0)
        at = through.sockets[0].getsockname()[1]
        with pytest.raises(HttpError) as caught:
            await _get("https://model.test/v1", 1, {"https_proxy": f"http://127.0.0.1:{at}"})
        assert caught.value.kind == "proxy"
        through.close()
        server.close()
        await asyncio.sleep(0.02)

    asyncio.run(run())
