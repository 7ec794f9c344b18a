"""The options of the command line (SPEC §2)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from coder import __version__
from coder.cli.errors import UsageError
from coder.policy.decide import OPERATING_MODES, PRESETS

_EPILOG = """\
subcommands:
  coder demo                   a tour with no network and no key
  coder sessions               the sessions of this folder
  coder show ID                what happened in one
  coder export ID --html FILE  the same as a page
  coder doctor                 what works here
  coder explain "shell line"   what the policy would do with it, and why
  coder modes                  custom modes and saved prompts
  coder schema                 the JSON Schema of ops and events
  coder trust                  let this folder's own settings take effect

exit status: 0 answered, 1 the turn failed, 2 wrong usage or configuration,
             3 step limit, 4 prompt-token limit, 130 cancelled"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence, without the page of usage before it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}. `{self.prog} --help` lists the options.")


def folder_options() -> argparse.ArgumentParser:
    """Options that every subcommand takes as well."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="the folder to work in")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a further configuration file")
    parser.add_argument("--log-dir", type=Path, metavar="DIR", help="where the record goes")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language of the interface")
    return parser


def main_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="coder",
        description="A coding agent for the terminal.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[folder_options()],
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="this page")
    add("words", nargs="*", metavar="QUESTION", help="a first message; without --once the session goes on")
    add("--once", action="store_true", help="one turn, then exit")
    add(
        "--mode",
        action="append",
        default=[],
        metavar="MODE",
        help=f"operating mode ({', '.join(OPERATING_MODES)}), or a custom mode as '/name args' (repeatable)",
    )
    add("--permissions", choices=PRESETS, default="", metavar="PRESET", help=f"{', '.join(PRESETS)}")
    add("--model", default="", metavar="NAME")
    add("--resume", default="", metavar="ID", help="go on with a session")
    add("--continue", action="store_true", dest="latest", help="go on with the latest session")
    add("--max-steps", type=_positive, default=0, metavar="N")
    add("--max-prompt-tokens", type=_positive, default=0, metavar="N")
    add("--warn-prompt-tokens", type=_positive, default=0, metavar="N")
    add("--tokenizer-model", default="", metavar="NAME", help="vocabulary for counting, e.g. cl100k_base")
    add("--output", choices=("text", "json", "stream-json"), default="text")
    add("--version", action="version", version=f"coder {__version__}")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
