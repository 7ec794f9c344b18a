"""Parses arguments and starts the selected front end."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from coder.base.addons import addons, commands
from coder.cli import CORE_COMMANDS, enable_keyboard_interrupt
from coder.cli.arguments import CHOOSE, main_parser
from coder.config import ConfigError
from coder.config.schema import OPERATING_MODES, OperatingMode
from coder.texts import LANGUAGES, Catalog, CoderError, Text, pick_language
from coder.ui.streams import Exit, UsageError, complain, prepare, redirect_stdout_to_devnull

if TYPE_CHECKING:
    from coder.history.store import SessionStore

_ELSEWHERE = {  # subcommands of other programs: what does it here
    "config": "cli.elsewhere.config",
    "continue": "cli.elsewhere.resume",
    "init": "cli.elsewhere.init",
    "login": "cli.elsewhere.login",
    "redo": "cli.elsewhere.undo",
    "resume": "cli.elsewhere.resume",
    "setup": "cli.elsewhere.login",
    "undo": "cli.elsewhere.undo",
    "update": "cli.elsewhere.update",
    "upgrade": "cli.elsewhere.update",
    "version": "cli.elsewhere.version",
}
_PIPE_PATIENCE = 0.1  # seconds; piped data has usually arrived during start-up


def run(arguments: list[str]) -> int:
    """Returns the exit status; reports every expected error in one sentence."""
    prepare()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except (UsageError, ConfigError) as error:
        complain(error.text(texts_for(arguments)))
    except CoderError as error:  # e.g. the record is locked by another process
        complain(error.text(texts_for(arguments)))
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.CANCELLED
    except OSError as error:
        redirect_stdout_to_devnull()
        if not isinstance(error, BrokenPipeError):  # the reader closed the pipe: not an error
            what = os.fsdecode(error.filename) if error.filename else Text("cli.output")
            complain(texts_for(arguments).say("cli.system", what=what, why=error.strerror))
        return Exit.FAILED
    return Exit.USAGE


def texts_for(arguments: list[str]) -> Catalog:
    """Texts before arguments are parsed: by `--lang`, else by settings or locale."""
    flag = ""
    for at, argument in enumerate(arguments):
        if argument == "--":  # a server's command line or a question follows
            break
        if argument == "--lang" and at + 1 < len(arguments):
            flag = arguments[at + 1]
        elif argument.startswith("--lang="):
            flag = argument.removeprefix("--lang=")
    if flag not in LANGUAGES:
        flag = ""
    return Catalog(pick_language(flag, "" if flag else _configured_language(), os.environ))


def _configured_language() -> str:
    from coder.engine.setup import Options, read_settings

    try:
        return read_settings(Options(cwd=Path.cwd(), environ=dict(os.environ))).loaded.config.ui.lang
    except (ConfigError, OSError):  # may be the error being reported
        return ""


def _run(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0].isalpha() and _has_own_options(arguments[0]):
        return _subcommand(arguments[0], arguments)
    parser = main_parser()
    chosen, unknown = parser.parse_known_args(arguments)
    if _asks_for_help(chosen):
        return _run([*(word for word in arguments if word != "help"), "--help"])
    if chosen.words and not chosen.once and chosen.words[0] in subcommands():
        return _subcommand(chosen.words[0], arguments)
    if chosen.help:
        main_parser(texts_for(arguments).say).print_help()
        return Exit.ANSWERED
    if unknown:
        parser.error(f"unrecognized arguments: {unknown[0]}")
    _refuse_near_misses(chosen)
    return _session(chosen)


def subcommands() -> tuple[str, ...]:
    """All names, add-ons' among them."""
    return tuple(sorted({*CORE_COMMANDS, *commands()}))


def _has_own_options(name: str) -> bool:
    """Whether options of a subcommand may mean something else than a session's (`--resume` without an id)."""
    return any(name in addon.own_options for addon in addons())


def _asks_for_help(chosen: argparse.Namespace) -> bool:
    """`coder help`, `coder help doctor`; otherwise it is a question."""
    if chosen.once or not chosen.words or chosen.words[0] != "help":
        return False
    return len(chosen.words) == 1 or (len(chosen.words) == 2 and chosen.words[1] in subcommands())


def _refuse_near_misses(chosen: argparse.Namespace) -> None:
    """A single word that is close to a subcommand, or is one elsewhere, is no question: one costs money."""
    names_session = len(chosen.words) == 2 and chosen.words[0] == "resume" and chosen.words[1][:1].isdigit()
    alone = len(chosen.words) == 1 or names_session
    word = chosen.words[0].lower() if alone else ""
    if chosen.once or not word.replace("-", "").replace("_", "").isalpha():
        return
    if word in _ELSEWHERE:
        raise UsageError(_ELSEWHERE[word], word=word)
    from difflib import get_close_matches

    swapped = [name for name in subcommands() if sorted(name) == sorted(word)]
    near = dict.fromkeys([*swapped, *get_close_matches(word, subcommands(), n=2, cutoff=0.8)])
    if near:
        raise UsageError("cli.near_miss", word=chosen.words[0], near=", ".join(near))


def _subcommand(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    rest = list(arguments)
    rest.remove(name)
    module = import_module(commands().get(name) or f"coder.cli.{name.replace('-', '_')}")
    enable_keyboard_interrupt()
    status: int = module.run(rest)
    return status


def working_directory(chosen: argparse.Namespace) -> Path:
    directory: Path = chosen.cwd
    try:
        absolute = directory.absolute()
    except FileNotFoundError:
        raise UsageError("cli.folder_gone") from None
    if not absolute.is_dir():
        raise UsageError("cli.no_folder", directory=directory)
    return absolute


def _session(chosen: argparse.Namespace) -> int:
    from coder.engine.setup import Options, provider_of, read_settings
    from coder.history.store import SessionStore

    cwd = working_directory(chosen)
    question, piped = " ".join(chosen.words), ""
    driven = chosen.input == "stream-json"
    if driven and chosen.output == "json":
        raise UsageError("cli.driven_json")
    interactive = not driven and _is_interactive(chosen)
    if chosen.resume == CHOOSE and not interactive:
        _refuse_choosing(chosen, cwd)
    if not interactive and not driven:
        question, piped = _with_stdin(chosen, question)
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
        effort=chosen.effort,
        max_steps=chosen.max_steps,
        max_prompt_tokens=chosen.max_prompt_tokens,
        warn_prompt_tokens=chosen.warn_prompt_tokens,
        tokenizer=chosen.tokenizer_model,
        can_ask=interactive or driven or (chosen.output == "text" and _on_terminal()),
        session_kind="interactive" if interactive else "stream" if driven else "once",
    )
    store = SessionStore(cwd, options.log_dir)
    resume = _session_to_resume(chosen, store)
    settings = read_settings(options)
    if resume is not None:
        from coder.cli.common import ask_about_foreign

        enable_keyboard_interrupt()
        ask_about_foreign(options, settings, store, resume, named=bool(chosen.resume))
    if interactive:
        from coder.ui.terminal.start import run_interactive

        _started()
        pick = chosen.resume == CHOOSE
        return run_interactive(options, settings, resume, question, pick=pick)
    import asyncio

    _started()
    provider = provider_of(options, settings)
    if driven:
        from coder.ui.json_input import run_json_input

        return asyncio.run(run_json_input(options, settings, provider, resume, question))
    from coder.protocol.ops import UserInput
    from coder.ui.once import run_once

    asked = UserInput(question, piped, pasted=[] if chosen.words else [question])
    return asyncio.run(run_once(options, settings, provider, resume, asked, chosen.output))


def _started() -> None:
    """Enable garbage collection, except for objects of start-up, and Ctrl+C."""
    import gc

    gc.freeze()
    gc.enable()
    enable_keyboard_interrupt()


def _is_interactive(chosen: argparse.Namespace) -> bool:
    return not chosen.once and chosen.output == "text" and _on_terminal()


def _on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _with_stdin(chosen: argparse.Namespace, question: str) -> tuple[str, str]:
    """The question and the piped input; one of them suffices."""
    if question.strip():
        return question, _stdin_text() if not _is_command(question) and _is_fed() else ""
    if chosen.words:
        raise UsageError("cli.empty_message")
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("cli.no_question")
    text = _stdin_text()
    if not text.strip():
        raise UsageError("cli.empty_stdin")
    return ("", text) if _is_only_text(text) else (text, "")


def _is_only_text(piped: str) -> bool:
    """Piped input is a message, not commands: a page may begin with `![logo](…)`, a source file with `/* …
    */`. Only a single line `/name` is a command, as it runs no program."""
    text = piped.strip()
    return text.startswith("!") or (text.startswith("/") and not (text[1:2].isalpha() and "\n" not in text))


def _is_command(question: str) -> bool:
    """Whether it is `!command` or a built-in command. These do not read stdin: it would become shell code or
    arguments, and in a shell's read loop it is the loop's own input."""
    first = question.split(maxsplit=1)[0]
    if not first.startswith("/"):
        return first.startswith("!")
    from coder.engine.setup import built_in_commands

    return first[1:] in built_in_commands(prompts=False)


def _stdin_text() -> str:
    return sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")  # strips a BOM


def _is_fed() -> bool:
    """Whether stdin has data beside the question. An open but silent pipe, as inherited from many programs,
    is not waited for."""
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
            continue  # a custom mode, checked by the engine
        chosen = next((mode for mode in OPERATING_MODES if mode == name), None)
        if chosen is None:
            known = ", ".join(OPERATING_MODES)
            raise UsageError("cli.no_mode", name=name, modes=known)
    return chosen


def _refuse_choosing(chosen: argparse.Namespace, cwd: Path) -> NoReturn:
    """`--resume` without an id, and nobody to choose."""
    from coder.base.text import shown
    from coder.history.store import SessionStore

    infos = SessionStore(cwd, chosen.log_dir.absolute() if chosen.log_dir else None).infos(10)
    rows = [f"{shown(info.session_id)}  {shown(info.title)}" for info in infos]
    raise UsageError("cli.resume_which", sessions="\n".join(rows) or "–")


def _session_to_resume(chosen: argparse.Namespace, store: SessionStore) -> str | None:
    if chosen.resume == CHOOSE:
        return None
    if chosen.resume:
        from coder.cli.common import session_named

        return session_named(store, chosen.resume)
    if chosen.latest:
        latest = store.latest()
        if latest is None:
            raise UsageError("cli.nothing_to_continue")
        return latest
    return None
