"""Resolves a server's settings to a command line or a URL.

Expands variables (`${NAME}`, `${NAME:-default}`) from the person's environment without the provider's keys:
no server gets those, by whatever name.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from coder.base.process.programs import find_outside
from coder.config.schema import McpServer
from coder.extend.mcp.shapes import Endpoint, HttpEndpoint, McpError, StdioEndpoint

Wrap = Callable[[list[str]], list[str]]
_IN_DIRECTORY = 'cd -- "$1" && shift && exec "$@"'


class Surroundings(msgspec.Struct, frozen=True):
    """The context servers are started in. `variables`: for expansion; `own_keys`: the provider's keys;
    `home`: `$CODER_HOME`; `keep_secret`: told of a login's tokens, also of those that a session refreshes."""

    root: Path
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    own_keys: Sequence[str]
    home: Path | None = None
    keep_secret: Callable[[list[str]], None] | None = None

    def __repr__(self) -> str:
        return f"Surroundings(root={self.root!r})"


def is_program(settings: McpServer) -> bool:
    """Whether it is a local program, which we start, sandbox and cover by undo."""
    return bool(settings.command)


def endpoint_of(name: str, settings: McpServer, around: Surroundings, wrap: Wrap) -> Endpoint:
    """Raises `McpError`. `wrap` prepends the sandbox to a command line."""
    _check_kind(name, settings)
    fill = _Filling(name, around)
    if settings.url:
        return _address(name, settings, fill)
    command = fill.text(settings.command, "command")
    directory = _directory(name, settings, around, fill)
    environment = {**around.environment, **fill.named(settings.env, "env")}
    program = _program(name, command, directory, around.root, environment.get("PATH"))
    argv = [program, *(fill.text(arg, "args") for arg in settings.args)]
    if directory != around.root:
        argv = ["/bin/sh", "-c", _IN_DIRECTORY, "sh", str(directory), *argv]
    return StdioEndpoint(wrap(argv), around.root, environment)


def secrets_of(settings: Mapping[str, McpServer], variables: Mapping[str, str]) -> list[str]:
    """Secret values in servers' settings, by name, to be redacted from requests and records."""
    found: set[str] = set()
    for server in settings.values():
        for key, value in (*server.env.items(), *server.headers.items(), ("", server.url)):
            filled = _VARIABLE.sub(lambda m: variables.get(m["name"], m["otherwise"] or ""), value)
            found.update(_secrets_in(key, filled))
    return sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)


def _secrets_in(name: str, value: str) -> Iterator[str]:
    """The value of a secret name, without its scheme (`Bearer …`), and each of several (`a=…; b=…`); of
    other values the password and keys in a URL."""
    if _SECRET_NAME.search(name):
        words = value.split(" ")
        yield words[1] if len(words) == 2 and len(words[1]) >= _SHORTEST_SECRET else value
        yield from (part.partition("=")[2].strip(' ",') for part in value.split(";"))
    for match in _IN_ADDRESS.finditer(value):
        if match["password"] or _SECRET_NAME.search(match["name"] or ""):
            yield match["password"] or match["value"]


_SHORTEST_SECRET = 8  # characters; shorter ones occur by chance
_SECRET_NAME = re.compile(
    r"key|token|secret|pass|_pwd|credential|auth|cookie|session|bearer|(?<![a-z])pat(?![a-z])", re.IGNORECASE
)
_IN_ADDRESS = re.compile(
    r"://[^/?#@\s]*?:(?P<password>[^/?#\s]+)@|[?&](?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)"
)
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")


class _Filling:
    """Expands variables in a server's settings."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name = name
        self.around = around

    def text(self, text: str, where: str) -> str:
        def value(match: re.Match[str]) -> str:
            found = self.around.variables.get(match["name"]) or match["otherwise"]
            if found is None:
                raise McpError("servers.no_variable", name=self.name, where=where, variable=match["name"])
            return found

        filled = _VARIABLE.sub(value, text)
        if any(key in filled for key in self.around.own_keys):
            raise McpError("servers.own_key", name=self.name, where=where)
        return filled

    def named(self, values: Mapping[str, str], where: str) -> dict[str, str]:
        return {key: self.text(value, f"{where}.{key}") for key, value in values.items()}


def _check_kind(name: str, settings: McpServer) -> None:
    if "__" in name or name.endswith("_"):  # `mcp__a__b__c` would name tools of `a` and of `a__b`
        raise McpError("servers.ambiguous_name", name=name)
    if settings.command and settings.url:
        raise McpError("servers.two_endpoints", name=name)
    if not settings.command and not settings.url:
        raise McpError("servers.no_endpoint", name=name)
    wants = "command" if settings.type == "stdio" else "url" if settings.type else ""
    if wants and not getattr(settings, wants):
        raise McpError("servers.type_wants", name=name, type=settings.type, wants=wants)


def _address(name: str, settings: McpServer, fill: _Filling) -> HttpEndpoint:
    url = fill.text(settings.url, "url")
    if not url.startswith(("http://", "https://")):
        raise McpError("servers.bad_url", name=name)
    headers = fill.named(settings.headers, "headers")
    keyed = any(key.lower() == "authorization" for key in headers)
    around = fill.around
    home = None if keyed else around.home
    return HttpEndpoint(url, headers, settings.type == "sse", home, around.keep_secret)


def _directory(name: str, settings: McpServer, around: Surroundings, fill: _Filling) -> Path:
    if not settings.cwd:
        return around.root
    text = fill.text(settings.cwd, "cwd")
    if text == "~" or text.startswith("~/"):
        text = around.environment.get("HOME", "~") + text[1:]
    directory = around.root / text
    if not directory.is_dir():
        raise McpError("servers.no_folder", name=name, directory=text)
    return directory


def _program(name: str, command: str, directory: Path, root: Path, path: str | None) -> str:
    """A path such as `./server` is relative to the server's directory. A bare name is searched on PATH, but
    not inside the workspace, where a project may have planted it: that needs an explicit path."""
    if os.sep in command:
        found = shutil.which(str(directory / command))
    else:
        found = find_outside(command, path, root)
        if found is None and shutil.which(command, path=path) is not None:
            raise McpError("servers.workspace_program", name=name, program=command)
    if found is None:
        raise McpError("servers.no_program", name=name, program=command)
    return found
