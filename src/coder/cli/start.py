"""From arguments to the front end that was asked for."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from coder.cli import SUBCOMMANDS
from coder.cli.args import main_parser
from coder.cli.errors import Exit, UsageError, complain
from coder.cli.streams import forsake_stdout, prepare
from coder.config.errors import ConfigError
from coder.policy.decide import OPERATING_MODES, OperatingMode

_PIPE_PATIENCE = 0.1  # seconds; what is piped has usually arrived while we started


def run(arguments: list[str]) -> int:
    """The exit status; every foreseeable error ends here as a sentence."""
    prepare()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except UsageError as error:
        complain(str(error))
    except ConfigError as error:
        complain(_in_language(error))
    except KeyboardInterrupt:
        return Exit.CANCELLED
    except OSError as error:
        forsake_stdout()
        if not isinstance(error, BrokenPipeError):  # whoever read our output has left: not worth a word
            what = os.fsdecode(error.filename) if error.filename else "The output cannot be written"
            complain(f"{what}: {error.strerror}.")
        return Exit.FAILED
    return Exit.USAGE


def _in_language(error: ConfigError) -> str:
    from coder.texts import Texts, pick_language

    return error.text(Texts(pick_language("", "", os.environ)))


def _run(arguments: list[str]) -> int:
    parser = main_parser()
    chosen, unknown = parser.parse_known_args(arguments)
    if chosen.words and chosen.words[0] in SUBCOMMANDS and not chosen.once:
        return _subcommand(chosen.words[0], arguments)
    if chosen.help:
        parser.print_help()
        return Exit.ANSWERED
    if unknown:
        parser.error(f"unknown option {unknown[0]}")
    _refuse_near_misses(chosen)
    return _session(chosen)


def _refuse_near_misses(chosen: argparse.Namespace) -> None:
    """One bare word that is nearly a subcommand is a slip, not a question."""
    if chosen.once or len(chosen.words) != 1 or not chosen.words[0].isalpha():
        return
    from difflib import get_close_matches

    near = get_close_matches(chosen.words[0], SUBCOMMANDS, n=1, cutoff=0.8)
    if near:
        word = chosen.words[0]
        raise UsageError(
            f"There is no subcommand {word}; did you mean {near[0]}? To ask it: coder --once {word}"
        )


def _subcommand(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    rest = list(arguments)
    rest.remove(name)
    status: int = import_module(f"coder.cli.{name}").run(rest)
    return status


def working_folder(chosen: argparse.Namespace) -> Path:
    folder: Path = chosen.cwd
    try:
        absolute = folder.absolute()
    except FileNotFoundError:
        raise UsageError("The current folder no longer exists; name one with --cwd.") from None
    if not absolute.is_dir():
        raise UsageError(f"--cwd {folder} is not a folder.")
    return absolute


def _session(chosen: argparse.Namespace) -> int:
    from coder.engine.setup import Options, provider_of, read_settings
    from coder.record.store import SessionStore

    cwd = working_folder(chosen)
    question = " ".join(chosen.words)
    interactive = _is_interactive(chosen)
    if not interactive:
        question = _with_stdin(chosen, question)
    options = Options(
        cwd=cwd,
        environ=dict(os.environ),
        mode=_operating_mode(chosen.mode),
        custom_modes=[name for name in chosen.mode if name.startswith("/")],
        preset=chosen.permissions,
        model=chosen.model,
        lang=chosen.lang,
        config_file=chosen.config,
        log_dir=chosen.log_dir.absolute() if chosen.log_dir else None,
        max_steps=chosen.max_steps,
        max_prompt_tokens=chosen.max_prompt_tokens,
        warn_prompt_tokens=chosen.warn_prompt_tokens,
        tokenizer=chosen.tokenizer_model,
        can_ask=interactive or (chosen.output == "text" and _on_terminal()),
        session_kind="interactive" if interactive else "once",
    )
    resume = _session_to_resume(chosen, SessionStore(cwd, options.log_dir))
    settings = read_settings(options)
    if interactive:
        from coder.terminal.loop import run_interactive

        _look_for_garbage()
        return run_interactive(options, settings, resume, question)
    from coder.cli.once import run_once

    _look_for_garbage()
    provider = provider_of(options, settings)
    return run_once(options, settings, provider, resume, question, chosen.output)


def _look_for_garbage() -> None:
    """From now on, and not in what start-up has made."""
    import gc

    gc.freeze()
    gc.enable()


def _is_interactive(chosen: argparse.Namespace) -> bool:
    return not chosen.once and chosen.output == "text" and _on_terminal()


def _on_terminal() -> bool:
    """Whether somebody is there to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _with_stdin(chosen: argparse.Namespace, question: str) -> str:
    """The question, and below it what is piped in; either alone will do."""
    if question.strip():
        piped = _stdin_text() if _is_fed() else ""
        return f"{question}\n\n{piped}" if piped.strip() else question
    if chosen.words:
        raise UsageError("The message is empty.")
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError('--once needs a question: coder --once "…", or text on stdin.')
    text = _stdin_text()
    if not text.strip():
        raise UsageError('There is nothing to do: stdin is empty. Try coder --once "…".')
    return text


def _stdin_text() -> str:
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def _is_fed() -> bool:
    """Whether someone pipes something in beside the question. A pipe that stays open and silent, as many
    programs hand on to what they start, is not waited for."""
    import select
    import stat

    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return True
    return stat.S_ISFIFO(mode) and bool(select.select([0], [], [], _PIPE_PATIENCE)[0])


def _operating_mode(named: list[str]) -> OperatingMode | None:
    chosen = None
    for name in named:
        if name.startswith("/"):
            continue  # a custom mode: the engine knows which there are
        chosen = next((mode for mode in OPERATING_MODES if mode == name), None)
        if chosen is None:
            known = ", ".join(OPERATING_MODES)
            raise UsageError(f"--mode {name}: there is no such mode here; operating modes are {known}.")
    return chosen


def _session_to_resume(chosen: argparse.Namespace, store: object) -> str | None:
    from coder.record.store import SessionStore

    assert isinstance(store, SessionStore)
    if chosen.resume:
        if not store.exists(chosen.resume):
            raise UsageError(
                f"There is no session {chosen.resume}; `coder sessions` lists those of this folder."
            )
        return str(chosen.resume)
    if chosen.latest:
        latest = store.latest()
        if latest is None:
            raise UsageError("There is no session to continue in this folder.")
        return latest
    return None
