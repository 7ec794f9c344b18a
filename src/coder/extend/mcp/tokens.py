"""Tokens of MCP servers that a person has logged in to, in one private file of `$CODER_HOME`.

A token belongs to one URL and is sent to that alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from coder.base.files import PRIVATE, locked, set_aside, write_durably
from coder.base.safe_open import open_beneath, read_open

FILE = "mcp-tokens.json"
_MAX_FILE = 4 * 1024 * 1024  # bytes


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A login at one server: who we are to its authorization server, and what that gave us."""

    issuer: str
    token_endpoint: str
    resource: str
    client_id: str
    client_secret: str = ""
    access_token: str = ""
    refresh_token: str = ""
    scope: str = ""

    def __repr__(self) -> str:
        return f"Login(issuer={self.issuer!r}, client_id={self.client_id!r})"


class TokenStore:
    """Read anew each time: another process may have refreshed a token."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE

    def get(self, url: str) -> Login | None:
        return self._read().get(url)

    def secrets(self) -> list[str]:
        """What no model and no record may see."""
        every = self._read().values()
        found = [x for one in every for x in (one.access_token, one.refresh_token, one.client_secret)]
        return [secret for secret in found if secret]

    def put(self, url: str, login: Login | None) -> None:
        """Keep a login; None forgets it. Raises `OSError`."""
        self.update(url, lambda _: login)

    def update(self, url: str, change: Callable[[Login | None], Login | None]) -> Login | None:
        """Read, change and replace under the lock. Raises `OSError`."""
        with locked(self.path):
            known = self._read(set_damaged_aside=True)
            login = change(known.pop(url, None))
            if login is not None:
                known[url] = login
            write_durably(self.path, msgspec.json.format(msgspec.json.encode(known)))
        return login

    def _read(self, *, set_damaged_aside: bool = False) -> dict[str, Login]:
        try:
            descriptor = open_beneath(self.path, None)
            with suppress(OSError):  # as a backup may have left it
                if os.fstat(descriptor).st_mode & 0o077:
                    os.fchmod(descriptor, PRIVATE)
            data = read_open(descriptor, self.path, _MAX_FILE)
            return msgspec.json.decode(data, type=dict[str, Login])
        except OSError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            if set_damaged_aside:
                set_aside(self.path)
            return {}
