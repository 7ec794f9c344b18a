"""The HTTP server of `coder view`: on 127.0.0.1 alone, for whoever has the token.

Against other pages in the same browser: `Host` must name this server (DNS rebinding), a foreign `Origin` is
refused, and the token is in a header, which no form or link can send. The page's own files hold nothing of
anybody's and need no token.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from coder.base.process.own_process import is_own_socket
from coder.texts import Catalog
from coder.ui.browser.html import escaped
from coder.ui.browser.pages import PageApi, UnknownPage

_TYPES = {"app.js": "text/javascript", "style.css": "text/css", "index.html": "text/html"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_MOST_CONNECTIONS = 128


class ViewServer(ThreadingHTTPServer):
    """Serves until `shutdown`. Above the limit the oldest connection is closed, so that slow clients
    (slowloris) cannot block others."""

    daemon_threads = True
    address_family = 2  # AF_INET

    def __init__(self, answers: PageApi, texts: Catalog, port: int = 0) -> None:
        """Raises OSError if the port is taken."""
        self.answers = answers
        self.texts = texts
        self.token = secrets.token_urlsafe(32)
        self._code = secrets.token_urlsafe(32)
        self._connections: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def hosts(self) -> tuple[str, ...]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def url(self, session: str = "") -> str:
        """For the person. The fragment stays in the browser: neither a log nor another server sees it."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}" + (f"&a={session}" if session else "")

    def one_time_url(self, session: str = "") -> str:
        """For the browser's command line, which other users of the machine can read: good for one use, by
        this user."""
        return self.url(session).replace(f"#token={self.token}", f"#code={self._code}")

    def redeem(self, code: str) -> str:
        """The token, for the code of `one_time_url`, once."""
        held, self._code = self._code, ""
        if held and hmac.compare_digest(held.encode(), code.encode("utf-8", errors="replace")):
            return self.token
        self._code = held
        return ""

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[request] = None
            ended = list(self._connections)[:-_MOST_CONNECTIONS]
            for oldest in ended:
                del self._connections[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def version_string(self) -> str:
        return "coder"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # the name is the base class's
        """Nothing: the terminal is the person's."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.close_connection = self.command == "POST"  # its body is never read
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=20))
            status, kind, body = self._respond(url.path, query)
        except (UnknownPage, OSError, ValueError):
            status, kind, body = HTTPStatus.NOT_FOUND, "text/plain", b"not found"
        except Exception:  # a record may contain anything
            status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"failed"
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind if kind.startswith("image/") else f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _respond(self, path: str, query: dict[str, str]) -> tuple[HTTPStatus, str, bytes]:
        refused = HTTPStatus.FORBIDDEN, "text/plain", b"refused"
        if self.headers.get("Host") not in self.server.hosts or not self._is_own_origin():
            return refused
        if self.command == "GET" and path.lstrip("/") in ("", *_TYPES):
            name = path.lstrip("/") or "index.html"
            return HTTPStatus.OK, _TYPES[name], page_file(name, self.server.texts)
        if not path.startswith("/api/"):
            raise UnknownPage
        if self.command == "POST" and path == "/api/token":
            # Only for our user: another may read the code from the browser's command line.
            is_own = is_own_socket(self.client_address[1], self.server.port)
            token = self.server.redeem(self.headers.get("X-Coder-Code", "")) if is_own else ""
            return (HTTPStatus.OK, "text/plain", token.encode()) if token else refused
        given = self.headers.get("X-Coder-Token", "").encode("utf-8", errors="replace")
        if self.command != "GET" or not hmac.compare_digest(given, self.server.token.encode()):
            return refused
        if path == "/api/image":
            return HTTPStatus.OK, *self.server.answers.image(query)
        answer = self.server.answers.answer(path.removeprefix("/api/"), query)
        return HTTPStatus.OK, "application/json", msgspec.json.encode(answer)

    def _is_own_origin(self) -> bool:
        """Browsers send `Origin` with every request of another site that has side effects or reads answers,
        and `Sec-Fetch-Site` with all."""
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site")
        own = origin is None or origin in [f"http://{host}" for host in self.server.hosts]
        return own and site in (None, "same-origin", "none")


def page_file(name: str, texts: Catalog) -> bytes:
    """A file of the page; in its HTML `{{key}}` is the text `viewer.page.key`."""
    data = files("coder.ui.browser").joinpath("page", name).read_bytes()
    if name != "index.html":
        return data
    parts = data.decode("utf-8").split("{{")
    html = parts[0]
    for part in parts[1:]:
        key, _, rest = part.partition("}}")
        html += (texts.lang if key == "lang" else escaped(texts.say(f"viewer.page.{key}"))) + rest
    return html.encode("utf-8")
