"""`coder demo`: a tour without network or key.

The model is scripted, behind an HTTP server on loopback, or with `--live` a real one on this machine;
engine, tools, project and record are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from coder.base.text import shown
from coder.cli.common import parser_for, throwaway_environment
from coder.cli.demo_script import CHECK, LIVE_CONFIG, PROJECT, QUESTION, SCRIPT
from coder.config.load import home_directory
from coder.config.load import read_settings as read_file
from coder.config.models import LOCAL_MODEL, LOCAL_NAME, LOCAL_PREFIX, LOCAL_SIZE, gguf_of, is_fetched
from coder.engine.engine import Engine
from coder.engine.setup import Options, open_agent, provider_of, read_settings
from coder.models.scripted import ScriptedServer
from coder.policy.sandbox.caches import remove_tree
from coder.policy.workspace import scratch_of
from coder.protocol.events import AnyEvent, TurnEnded
from coder.protocol.ops import UserInput
from coder.texts import Text
from coder.ui.once import TextOutput, run_until_done
from coder.ui.streams import Exit, UsageError, wrap_for_stream
from coder.ui.terminal.start import command_name


def run(arguments: list[str]) -> int:
    parser = parser_for("demo", arguments)
    parser.options.add_argument("--fast", action="store_true", help=parser.say("cli.help.fast"))
    parser.options.add_argument("--live", action="store_true", help=parser.say("cli.help.live"))
    parser.options.add_argument("--keep", action="store_true", help=parser.say("cli.help.keep_demo"))
    chosen = parser.parse_args(arguments)
    if chosen.live and not is_fetched(home_directory(os.environ)):
        raise UsageError("demo.unfetched", coder=command_name(), size=LOCAL_SIZE // 1_000_000)
    delay = 0.0 if chosen.fast or not sys.stdout.isatty() else 0.02
    directory = Path(tempfile.mkdtemp(prefix="coder-demo-"))
    try:
        tour = _live_tour if chosen.live else _scripted_tour
        return asyncio.run(tour(directory, chosen.lang, delay, keep=chosen.keep))
    finally:
        if not chosen.keep:
            _remove(directory)


def _remove(directory: Path) -> None:
    """Remove the project and its scratch directory."""
    scratch = Path(scratch_of(directory))
    remove_tree(scratch)
    with contextlib.suppress(OSError):
        scratch.parent.rmdir()  # fails if it has others
    remove_tree(directory)


async def _scripted_tour(directory: Path, lang: str, delay: float, *, keep: bool) -> int:
    lay_out(directory)
    async with ScriptedServer([{**turn, "delay": delay} for turn in SCRIPT], model="scripted") as server:
        environ = environment(directory, server.url)
        return await _tour(directory, environ, lang, Text("demo.head"), keep=keep)


async def _live_tour(directory: Path, lang: str, delay: float, *, keep: bool) -> int:
    """The project's tests run after each edit: a small model does not think of it."""
    lay_out(directory)
    gguf = gguf_of(LOCAL_MODEL, home_directory(os.environ))
    environ = {**environment(directory), "CODER_MODEL": f"{LOCAL_PREFIX}{gguf}"}
    config = directory / ".coder" / "live.json"
    config.write_text(LIVE_CONFIG, encoding="utf-8")
    (directory / ".coder" / "config.json").unlink()
    head = Text("demo.live_head", name=LOCAL_NAME)
    return await _tour(directory, environ, lang, head, config, keep=keep, check=CHECK)


async def _tour(
    directory: Path,
    environ: Mapping[str, str],
    lang: str,
    head: Text,
    config: Path | None = None,
    *,
    keep: bool,
    check: str = "",
) -> int:
    """`check`: what must have passed at the end."""
    options = Options(
        cwd=directory,
        environ=environ,
        mode="yolo",  # in a temporary directory
        lang=lang,
        session_kind="once",
        config_file=config,
    )
    settings = read_settings(options)
    say = settings.texts.say
    engine = Engine(lambda emit: open_agent(options, settings, provider_of(options, settings), emit))
    engine.start()
    view = _Output(settings)
    view.line(settings.texts.of(head))
    view.line(f"> {QUESTION}\n")
    engine.submit(UserInput(QUESTION))
    status = await run_until_done(engine, view)
    if check and status in (Exit.ANSWERED, Exit.UNVERIFIED):
        view.line("\n" + say("demo.mended" if view.passed else "demo.not_mended", command=check))
        status = Exit.ANSWERED if view.passed else Exit.UNVERIFIED
    named = {"coder": command_name(), "directory": directory, "id": engine.view.session_id}
    view.line("")
    for key in ("demo.kept" if keep else "demo.gone", "demo.foot"):
        view.line(wrap_for_stream(say(key, **named), sys.stdout))
    return status


class _Output(TextOutput):
    """Which keeps whether the project's check has passed after the last change."""

    passed = False

    def show(self, event: AnyEvent) -> None:
        if isinstance(event, TurnEnded):
            self.passed = event.verification.status == "passed"
        super().show(event)


def lay_out(directory: Path) -> None:
    """Write the project with the failing test."""
    for name, text in PROJECT.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def environment(directory: Path, url: str = "") -> dict[str, str]:
    """Of a session in `directory`, with the scripted model at `url`."""
    file = home_directory(os.environ) / "config.json"
    kept = throwaway_environment(directory / ".coder", read_file(file, shown(str(file))) or {})
    return {**kept, "CODER_BASE_URL": url, "CODER_MODEL": "scripted"} if url else kept
