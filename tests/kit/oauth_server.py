"""An MCP server that wants a login, and its authorization server, in one: strict as the standards are.

It shares no code with the client under test.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

Json = dict[str, Any]


class OAuthServer(ThreadingHTTPServer):
    """`change` replaces fields of its metadata; `access` and `renewal` are what is valid now."""

    daemon_threads = True

    def __init__(self, change: Json | None = None, *, registers: bool = True, silent: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.url = f"{self.origin}/mcp"
        self.change = change or {}
        self.registers = registers
        self.silent = silent  # a path that is never answered
        self.over = threading.Event()
        self.access: set[str] = set()
        self.renewal: set[str] = set()
        self.clients: dict[str, list[str]] = {}
        self.codes: dict[str, Json] = {}
        self.issued = 0
        self.grants: list[str] = []  # the grant types that were honoured
        self.tokens_seen: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> OAuthServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def issue(self) -> Json:
        self.issued += 1
        access, renewal = f"access-token-{self.issued}", f"refresh-token-{self.issued}"
        self.access, self.renewal = {access}, {renewal}  # refresh tokens are used once
        return {"access_token": access, "refresh_token": renewal, "token_type": "Bearer", "expires_in": 60}


class _Handler(BaseHTTPRequestHandler):
    server: OAuthServer
    protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc] # no ClassVar in its base

    def log_message(self, *_: object) -> None:
        pass

    def say(self, status: int, body: Json | None = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        server, parts = self.server, urlsplit(self.path)
        if parts.path == server.silent:
            server.over.wait()
        if parts.path == "/metadata/of/mcp":
            self.say(200, {"resource": server.url, "authorization_servers": [f"{server.origin}/as"]})
        elif parts.path == "/.well-known/oauth-authorization-server/as":
            self.say(200, self.metadata())
        elif parts.path == "/as/authorize":
            self.authorize({name: values[0] for name, values in parse_qs(parts.query).items()})
        else:
            self.say(404)

    def do_DELETE(self) -> None:
        self.say(200)

    def metadata(self) -> Json:
        base = f"{self.server.origin}/as"
        about: Json = {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "code_challenge_methods_supported": ["S256"],
        }
        if self.server.registers:
            about["registration_endpoint"] = f"{base}/register"
        return {**about, **self.server.change}

    def authorize(self, asked: dict[str, str]) -> None:
        """The person agrees at once."""
        known = self.server.clients.get(asked["client_id"], [asked["redirect_uri"]])
        fits = asked["response_type"] == "code" and asked["redirect_uri"] in known
        if not fits or asked["code_challenge_method"] != "S256" or asked["resource"] != self.server.url:
            self.say(400)
            return
        code = f"code-{len(self.server.codes)}"
        self.server.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": f"{self.server.origin}/as"}
        self.say(302, Location=f"{asked['redirect_uri']}?{urlencode(back)}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == self.server.silent:
            self.server.over.wait()
        if self.path == "/mcp":
            self.mcp(json.loads(body))
        elif self.path == "/as/register":
            client = f"client-{len(self.server.clients)}"
            self.server.clients[client] = json.loads(body)["redirect_uris"]
            self.say(201, {"client_id": client})
        elif self.path == "/as/token":
            self.token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        else:
            self.say(404)

    def token(self, form: dict[str, str]) -> None:
        server = self.server
        if form["grant_type"] == "refresh_token":
            good = form["refresh_token"] in server.renewal
        else:
            asked = server.codes.pop(form["code"], {})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            good = (
                challenge == asked.get("code_challenge")
                and form["redirect_uri"] == asked["redirect_uri"]
                and form["client_id"] == asked["client_id"]
            )
        if not good or form["resource"] != server.url:
            self.say(400, {"error": "invalid_grant"})
            return
        server.grants.append(form["grant_type"])
        self.say(200, server.issue())

    def mcp(self, message: Json) -> None:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        self.server.tokens_seen.append(token)
        if kind != "Bearer" or token not in self.server.access:
            where = f'Bearer error="invalid_token", resource_metadata="{self.server.origin}/metadata/of/mcp"'
            self.say(401, WWW_Authenticate=where)
            return
        method = message.get("method")
        if "id" not in message:
            self.say(202)
        elif method == "initialize":
            about = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "guarded", "version": "1"}}
            self.result(message, {**about, "capabilities": {"tools": {}}})
        elif method == "tools/list":
            self.result(message, {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            self.result(message, {"content": [{"type": "text", "text": f"you sent {token}"}]})
        else:
            error = {"code": -32601, "message": "unknown"}
            self.say(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def result(self, message: Json, result: Json) -> None:
        self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
