"""`coder mcp`: test the configured MCP servers; `add` and `remove` those in the user's settings."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

from coder.base.process.programs import open_browser
from coder.cli.arguments import Parser
from coder.cli.common import parser_for, settings_from
from coder.config.save import is_in_user_file, set_in_user_file, unset_in_user_file
from coder.engine.setup import Options, Settings, log_in, try_servers
from coder.texts import CoderError, Text
from coder.ui.streams import Exit, UsageError, show, show_json


def run(arguments: list[str]) -> int:
    parser = parser_for("mcp", arguments)
    add, say = parser.options.add_argument, parser.say
    positional = parser.arguments.add_argument
    actions = ("list", "test", "login", "logout", "add", "remove")
    positional(
        "action", nargs="?", choices=actions, default="list", metavar="ACTION", help=say("cli.help.mcp")
    )
    positional("name", nargs="?", default="", metavar="NAME", help=say("cli.help.mcp_name"))
    positional("target", nargs="*", metavar="PROGRAM ARG | URL", help=say("cli.help.mcp_target"))
    add("--env", action="append", default=[], metavar="NAME=VALUE", help=say("cli.help.mcp_env"))
    add("--header", action="append", default=[], metavar="NAME=VALUE", help=say("cli.help.mcp_header"))
    add("--writable", action="append", default=[], metavar="DIR", help=say("cli.help.mcp_writable"))
    add("--json", action="store_true", help=say("cli.help.json_object"))
    chosen = _parsed(parser, arguments)
    options, settings = settings_from(chosen)
    if chosen.action == "add":
        return _add(chosen, settings)
    if chosen.env or chosen.header or chosen.writable:
        raise UsageError("cli.mcp_surplus")
    if chosen.action == "list" and chosen.name:
        raise UsageError("cli.mcp_list_usage")
    if chosen.action == "remove":
        if chosen.target:
            raise UsageError("cli.mcp_remove_usage")
        return _remove(chosen.name, settings)
    if chosen.action in ("test", "login", "logout"):
        _check_known(chosen, settings)
    if chosen.action in ("login", "logout"):
        return _log_in(chosen, options, settings)
    tried = asyncio.run(try_servers(options, settings, chosen.name if chosen.action == "test" else ""))
    if chosen.json:
        show_json({"servers": tried.data})
    else:
        for line in tried.lines or [settings.texts.say("servers.none")]:
            show(settings.texts.of(line))
        for one in settings.loaded.ignored:
            if one.key.startswith("mcp.servers."):
                show(one.text(settings.texts))
    return Exit.ANSWERED if tried.ok else Exit.FAILED


def _log_in(chosen: argparse.Namespace, options: Options, settings: Settings) -> int:
    texts, into = settings.texts, chosen.action == "login"

    def open_page(url: str) -> None:
        show(texts.say("servers.open_page", url=url))
        open_browser(url, options.environ, options.cwd)

    try:
        asyncio.run(log_in(options, settings, chosen.name, open_page if into else None))
    except (CoderError, OSError) as error:
        said = texts.of(error.phrase) if isinstance(error, CoderError) else error.strerror or str(error)
        show(said, sys.stderr)
        return Exit.FAILED
    show(texts.say("servers.logged_in" if into else "servers.logged_out", name=chosen.name))
    return Exit.ANSWERED


def _check_known(chosen: argparse.Namespace, settings: Settings) -> None:
    known = settings.loaded.config.mcp.servers
    if not chosen.name or chosen.target:
        raise UsageError("cli.mcp_test_usage", action=chosen.action)
    if chosen.name not in known:
        names = ", ".join(known) or Text("modes.none")
        raise UsageError("servers.no_server", name=chosen.name, names=names)


def _parsed(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """Everything after `--` is the server's command line; before it, our options may be anywhere."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, unknown = parser.parse_known_intermixed_args(arguments[:at])
    if unknown:
        if chosen.action == "add" and chosen.target and at == len(arguments):  # `--` was forgotten
            line = arguments[arguments.index(chosen.target[0], arguments.index(chosen.name) + 1) :]
            raise UsageError("cli.mcp_dashes", option=unknown[0], name=chosen.name, line=" ".join(line))
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    chosen.target += arguments[at + 1 :]
    return chosen


def _add(chosen: argparse.Namespace, settings: Settings) -> int:
    if not chosen.name or not chosen.target or not chosen.target[0]:
        raise UsageError("cli.mcp_add_usage")
    if "__" in chosen.name or chosen.name.endswith("_"):
        raise UsageError("servers.ambiguous_name", name=chosen.name)
    first, *rest = chosen.target
    entry: dict[str, Any]
    if "://" in first:
        if rest or chosen.env or chosen.writable:
            raise UsageError("cli.mcp_surplus")
        _check_address(first)
        entry = {"url": first, "headers": _pairs(chosen.header)}
    else:
        if chosen.header:
            raise UsageError("cli.mcp_surplus")
        entry = {"command": first, "args": rest, "env": _pairs(chosen.env), "writable": chosen.writable}
    kept = {key: value for key, value in entry.items() if value}
    _check_text(chosen.name, first, *rest, *chosen.env, *chosen.header, *chosen.writable)
    place = ("mcp", "servers", chosen.name)
    if is_in_user_file(settings.home, place):
        raise UsageError("servers.there_already", name=chosen.name, file=str(settings.home / "config.json"))
    file = set_in_user_file(settings.home, place, kept)
    show(settings.texts.say("servers.added", name=chosen.name, file=file))
    return Exit.ANSWERED


def _remove(name: str, settings: Settings) -> int:
    if not name:
        raise UsageError("cli.mcp_remove_usage")
    if not unset_in_user_file(settings.home, ("mcp", "servers", name)):
        file = settings.home / "config.json"
        raise UsageError("servers.not_yours", name=name, file=str(file))
    show(settings.texts.say("servers.removed", name=name))
    return Exit.ANSWERED


def _check_address(text: str) -> None:
    try:
        parts = urlsplit(text)
    except ValueError:  # unbalanced bracket
        parts = urlsplit("")
    if not text.startswith(("http://", "https://")) or not parts.netloc:
        raise UsageError("cli.mcp_address", text=text)


def _check_text(*words: str) -> None:
    """Reject undecodable bytes, which JSON cannot hold."""
    for word in words:
        if not word.isascii() and word != word.encode("utf-8", "replace").decode("utf-8"):
            raise UsageError("cli.mcp_not_text", text=ascii(word))


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError("cli.mcp_pair", text=text)
        pairs[name] = value
    return pairs
