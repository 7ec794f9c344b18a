"""Login at an MCP server by OAuth 2.1: discovery (RFC 9728, RFC 8414), dynamic registration (RFC 7591), PKCE
(RFC 7636) and a loopback redirect (RFC 8252); later the refresh of its token.

What the server and its authorization server say is not trusted: endpoints must be HTTPS (of a server on this
machine also HTTP on it: another must not reach what listens here), answers are bounded, and `state` and `iss`
must be those of this login.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from coder import __version__
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.base.process.own_process import is_own_socket
from coder.extend.mcp.shapes import Json, McpError, single_line
from coder.extend.mcp.tokens import Login, TokenStore

T = TypeVar("T")
PATIENCE = 300.0  # seconds for the person to log in
REQUEST_SECONDS = 30.0  # for the whole answer to a request
_ANSWER = 256 * 1024  # bytes of a metadata document or token response
_PAGE = "<!doctype html><meta charset=utf-8><title>coder</title><p>{words}</p>"
_ERRORS_OF_GRANT = ("invalid_grant", "invalid_client", "unauthorized_client")


class _Metadata(msgspec.Struct, frozen=True):
    """What is needed of an authorization server's metadata."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    code_challenge_methods_supported: list[str] = []
    authorization_response_iss_parameter_supported: bool = False


class _Resource(msgspec.Struct, frozen=True):
    """Protected resource metadata (RFC 9728)."""

    resource: str = ""
    authorization_servers: list[str] = []
    scopes_supported: list[str] = []


class OAuth:
    """The login at one server. Every failure is an `McpError`."""

    def __init__(self, name: str, url: str, http: HttpClient) -> None:
        self._name = name
        self._url = url
        self._http = http
        self._is_local = _is_here(_host(url))

    async def login(self, client_id: str, show: Callable[[str], None]) -> Login:
        """`client_id`: where the authorization server registers nobody by itself. `show` gets the address
        that the person opens in a browser."""
        resource = await self._resource()
        metadata = await self._metadata(resource)
        named = metadata.authorization_response_iss_parameter_supported
        redirect = _Redirect(self._name, metadata.issuer, needs_issuer=named)
        await redirect.start()
        try:
            client = await self._client(metadata, client_id, redirect.uri)
            verifier = _random()
            challenge = (
                urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")
            )
            scope = " ".join(resource.scopes_supported)
            asked = {
                "response_type": "code",
                "client_id": client.client_id,
                "redirect_uri": redirect.uri,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
                "state": redirect.state,
                "resource": resource.resource,
                **({"scope": scope} if scope else {}),
            }
            mark = "&" if "?" in metadata.authorization_endpoint else "?"
            show(metadata.authorization_endpoint + mark + urlencode(asked))
            code = await redirect.code()
        finally:
            redirect.close()
        login = Login(
            issuer=metadata.issuer,
            token_endpoint=metadata.token_endpoint,
            resource=resource.resource,
            client_id=client.client_id,
            client_secret=client.client_secret,
            scope=scope,
        )
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect.uri,
            "code_verifier": verifier,
        }
        return await self._granted(login, form)

    async def refresh(self, login: Login) -> Login | None:
        """None if the login is over and the person has to log in again."""
        if not login.refresh_token:
            return None
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
        try:
            return await self._granted(login, {**form, "scope": login.scope} if login.scope else form)
        except _Refused:
            return None

    # discovery

    async def _resource(self) -> _Resource:
        """What protects the server, and who lets in; older servers are their own authorization server."""
        try:
            parts = urlsplit(self._url)
        except ValueError as wrong:
            raise self._fault(f"its url is wrong: {wrong}") from None
        origin = f"{parts.scheme}://{parts.netloc}"
        path = parts.path.rstrip("/")
        named = await self._named_by_server()
        known = "/.well-known/oauth-protected-resource"
        for address in dict.fromkeys(filter(None, (named, origin + known + path, origin + known))):
            found = await self._document(address, _Resource)
            if found is None or not found.authorization_servers:
                continue
            if not _covers(found.resource, self._url):
                raise self._fault(f"its metadata is of {single_line(found.resource, 200)}")
            return found
        return _Resource(resource=origin + path, authorization_servers=[origin])

    async def _named_by_server(self) -> str:
        """The address in `WWW-Authenticate`, which a request without a token is answered with."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        async with self._soon():
            response = await self._ask("POST", self._url, headers, msgspec.json.encode(message))
        response.abort()
        said = response.headers.get("www-authenticate", "")
        _, mark, rest = said.partition("resource_metadata=")
        value = rest[1:].partition('"')[0] if rest.startswith('"') else rest.partition(",")[0].strip()
        return value if mark and _is_safe(value, local=self._is_local) else ""

    async def _metadata(self, resource: _Resource) -> _Metadata:
        issuer = resource.authorization_servers[0]
        self._check(issuer)
        parts = urlsplit(issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        addresses = (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}/.well-known/openid-configuration{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        )
        for address in dict.fromkeys(addresses):
            found = await self._document(address, _Metadata)
            if found is None:
                continue
            if found.issuer.rstrip("/") != issuer.rstrip("/"):  # mix-up attack
                raise self._fault(f"{single_line(issuer, 200)} says it is {single_line(found.issuer, 200)}")
            if "S256" not in found.code_challenge_methods_supported:
                raise self._fault("its authorization server knows no PKCE with S256")
            for endpoint in (found.authorization_endpoint, found.token_endpoint):
                self._check(endpoint)
            return found
        raise self._fault(f"{single_line(issuer, 200)} has no metadata of an authorization server")

    async def _client(self, metadata: _Metadata, client_id: str, redirect: str) -> Login:
        blank = Login(
            issuer=metadata.issuer, token_endpoint=metadata.token_endpoint, resource="", client_id=client_id
        )
        if client_id:
            return blank
        if not metadata.registration_endpoint:
            raise McpError("mcp.oauth_client", name=self._name)
        self._check(metadata.registration_endpoint)
        about = {
            "client_name": "coder",
            "software_version": __version__,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        answer = await self._json(
            "POST", metadata.registration_endpoint, headers, msgspec.json.encode(about), (200, 201)
        )
        given, secret = answer.get("client_id"), answer.get("client_secret")
        if not isinstance(given, str) or not given:
            raise self._fault("it registered us without a client_id")
        return msgspec.structs.replace(
            blank, client_id=given, client_secret=secret if isinstance(secret, str) else ""
        )

    # tokens

    async def _granted(self, login: Login, form: Mapping[str, str]) -> Login:
        fields = {**form, "client_id": login.client_id, "resource": login.resource}
        if login.client_secret:
            fields["client_secret"] = login.client_secret
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        body = urlencode(fields).encode("ascii")
        answer = await self._json("POST", login.token_endpoint, headers, body, (200,))
        token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
        fits = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
        if not fits or not token or str(kind).lower() != "bearer":
            raise self._fault("it gave no bearer token")
        new = answer.get("refresh_token")
        kept = new if isinstance(new, str) and new else login.refresh_token
        return msgspec.structs.replace(login, access_token=token, refresh_token=kept)

    # requests

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        try:
            return await self._http.request(method, url, headers, body)
        except HttpError as fault:
            raise McpError("mcp.unreachable", name=self._name, why=fault.phrase) from None

    async def _read(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, bytes]:
        async with self._soon():
            response = await self._ask(method, url, headers, body)
            try:
                return response.status, await response.read(_ANSWER)
            except HttpError as fault:
                raise McpError("mcp.unreachable", name=self._name, why=fault.phrase) from None
            finally:
                response.abort()

    @asynccontextmanager
    async def _soon(self) -> AsyncIterator[None]:
        """Bounds a request; the client itself would wait for days."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                yield
        except TimeoutError:
            raise self._fault(f"no answer within {REQUEST_SECONDS:g} s") from None

    async def _document(self, url: str, kind: type[T]) -> T | None:
        """None if there is no such document."""
        status, data = await self._read("GET", url, {"Accept": "application/json"})
        if status != 200:
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    async def _json(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, good: tuple[int, ...]
    ) -> Json:
        status, data = await self._read(method, url, headers, body)
        try:
            decoded: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decoded = None
        answer: Json = decoded if isinstance(decoded, dict) else {}
        if status in good:
            return answer
        code = single_line(answer.get("error"), 60)
        words = " ".join(filter(None, (code, single_line(answer.get("error_description"), 200))))
        why = words or f"HTTP status {status}"
        if code in _ERRORS_OF_GRANT:
            raise _Refused("mcp.oauth", name=self._name, why=why)
        raise self._fault(why)

    def _check(self, endpoint: str) -> None:
        if not _is_safe(endpoint, local=self._is_local):
            raise self._fault(f"{single_line(endpoint, 200)!r} is no HTTPS address of another machine")

    def _fault(self, why: str) -> McpError:
        return McpError("mcp.oauth", name=self._name, why=why)


class _Refused(McpError):
    """The authorization server does not take what we have."""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_here(host: str) -> bool:
    """Whether it is this machine, however it is written: `localhost.`, `127.1`, `0`, `::ffff:127.0.0.1`."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True

    try:
        six = IPv6Address(host)
        found = six.ipv4_mapped or six
    except ValueError:
        try:
            found = IPv4Address(socket.inet_aton(host))
        except OSError:
            return False
    return found.is_loopback or found.is_unspecified


def _is_safe(url: str, *, local: bool) -> bool:
    """HTTPS; with `local`, also HTTP on this machine. It is sent secrets, or handed to the browser: no other
    scheme."""
    host = _host(url)
    plain = url.isascii() and url.isprintable() and " " not in url
    scheme = url.partition(":")[0].lower()
    here = _is_here(host)
    return plain and bool(host) and (here <= local) and (scheme == "https" or (scheme == "http" and here))


def _covers(resource: str, url: str) -> bool:
    """Whether metadata of `resource` is about `url`: the same, or a path above it."""
    try:
        of, here = urlsplit(resource), urlsplit(url)
    except ValueError:
        return False
    same = (of.scheme, of.netloc.lower()) == (here.scheme, here.netloc.lower())
    above, below = of.path.rstrip("/"), here.path.rstrip("/")
    return same and (below == above or below.startswith(above + "/"))


def _random() -> str:
    return urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode("ascii")


class _Redirect:
    """A server on the loopback interface for the one request that brings the code."""

    def __init__(self, name: str, issuer: str, *, needs_issuer: bool = False) -> None:
        """`needs_issuer`: the authorization server promises to name itself (RFC 9207)."""
        self._name = name
        self._issuer = issuer
        self._needs_issuer = needs_issuer
        self.state = _random()
        self.uri = ""
        self._port = 0
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=16_384)
        self._port = self._server.sockets[0].getsockname()[1]
        self.uri = f"http://127.0.0.1:{self._port}/callback"

    async def code(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._answer
        except TimeoutError:
            raise McpError("mcp.oauth_late", name=self._name, seconds=f"{PATIENCE:g}") from None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._answer.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            if not is_own_socket(writer.get_extra_info("peername")[1], self._port):
                return  # another user, who has our `state` from the browser's command line, with their login
            status, words = self._take(head.split(b"\r\n", 1)[0].decode("latin-1"))
            body = _PAGE.format(words=words).encode("utf-8")
            lines = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n"
            writer.write(f"{lines}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a stray connection; the browser's own may still come
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[str, str]:
        """Another page of the browser may reach this port: only what has our `state` counts."""
        words = line.split(" ")
        path, _, query = words[1].partition("?") if len(words) == 3 else ("", "", "")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        ours = hmac.compare_digest(given.get("state", "").encode(), self.state.encode())
        if words[0] != "GET" or path != "/callback" or not ours or self._answer.done():
            return "404 Not Found", "Nothing is here."
        named = given.get("iss", "" if self._needs_issuer else self._issuer)
        if named.rstrip("/") != self._issuer.rstrip("/"):
            return "400 Bad Request", "Another server answered."
        if "code" in given:
            self._answer.set_result(given["code"])
            return "200 OK", "You are logged in. This window can be closed."
        why = single_line(given.get("error_description"), 200) or single_line(given.get("error"), 60) or "-"
        self._answer.set_exception(McpError("mcp.oauth", name=self._name, why=why))
        return "200 OK", "The login was refused. This window can be closed."


async def refreshed(name: str, url: str, store: TokenStore, http: HttpClient, used: str) -> str:
    """A newer access token than the one `used`, or an empty text where a login is needed. Another process may
    have refreshed it already: a refresh token often works once."""
    login = store.get(url)
    if login is None:
        return ""
    if login.access_token and login.access_token != used:
        return login.access_token
    new = await OAuth(name, url, http).refresh(login)
    kept = store.update(url, lambda known: new if known is not None and known.access_token == used else known)
    return kept.access_token if kept is not None and kept.access_token != used else ""
