"""Command-line options and their errors. Help texts are looked up only for --help, to keep start-up fast."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from coder import __version__
from coder.base.addons import addons
from coder.config.schema import EFFORTS, OPERATING_MODES, PRESETS
from coder.texts import LANGUAGES, Text
from coder.ui.streams import UsageError

Say = Callable[..., str]

CHOOSE = "\0choose"  # `--resume` without an id
# argparse's messages and our translatable ones.
_COMPLAINTS = (
    (r"argument (?P<name>.+?): expected one argument", "cli.wrong.no_value"),
    (
        r"argument (?P<name>.+?): invalid choice: (?P<value>.+?) \(choose from (?P<allowed>.+)\)",
        "cli.wrong.choice",
    ),
    (r"argument (?P<name>.+?): invalid \w+ value: (?P<value>.+)", "cli.wrong.value"),
    (r"argument (?P<name>.+?): not from 1 on: (?P<value>.+)", "cli.wrong.positive"),
    (r"argument (?P<name>.+?): ignored explicit argument (?P<value>.+)", "cli.wrong.no_value_wanted"),
    (r"the following arguments are required: ID", "cli.wrong.no_id"),
    (r"the following arguments are required: (?P<name>.+)", "cli.wrong.missing"),
    (r"unrecognized arguments: (?P<name>-.+)", "cli.wrong.unknown"),
    (r"unrecognized arguments: (?P<name>.+)", "cli.wrong.surplus"),
)


def _no_text(key: str, /, **values: object) -> str:
    return ""


# `_complaint` translates its messages; looking for catalogues of them costs 2 ms at every start.
argparse._ = str  # type: ignore[attr-defined] # private, and in no stub


class Parser(argparse.ArgumentParser):
    """Reports errors in one sentence, without usage. `say` looks up help texts."""

    def __init__(self, prog: str, say: Say | None = None, **more: Any) -> None:
        self.say: Say = say or _no_text
        super().__init__(
            prog=prog, formatter_class=_formatter(self.say), allow_abbrev=False, add_help=False, **more
        )
        self.arguments = self.add_argument_group(self.say("cli.group.arguments") or None)
        self.options = self.add_argument_group(self.say("cli.group.options") or None)

    def error(self, message: str) -> NoReturn:
        what = _complaint(message)
        if what.key == "cli.wrong.unknown" and (near := self._nearest(str(what.values["name"]))):
            what = Text("cli.wrong.unknown_near", name=what.values["name"], near=near)
        raise UsageError("cli.usage", what=what, prog=self.prog)

    def _nearest(self, option: str) -> str:
        from difflib import get_close_matches

        known = [name for name in self._option_string_actions if name.startswith("--")]
        return ", ".join(get_close_matches(option.partition("=")[0], known, n=1, cutoff=0.7))


def _formatter(say: Say) -> type[argparse.HelpFormatter]:
    class Formatter(argparse.RawDescriptionHelpFormatter):
        """Translates "usage", and measures help in columns: Chinese has two to a character."""

        def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
            super().add_usage(usage, actions, groups, prefix or say("cli.usage_prefix") or None)

        def _split_lines(self, text: str, width: int) -> list[str]:
            from coder.ui.terminal.render.width import plain, wrap

            return [plain(row) for row in wrap([("", text)], width)]

    return Formatter


def _complaint(message: str) -> Text:
    for pattern, key in _COMPLAINTS:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return Text(key, **found.groupdict())
    return Text("cli.wrong.other", message=message)


def add_directory_options(parser: Parser) -> None:
    """Options common to all subcommands."""
    add, say = parser.options.add_argument, parser.say
    add("--cwd", type=Path, default=Path(), metavar="DIR", help=say("cli.help.cwd"))
    add("--config", type=Path, metavar="FILE", help=say("cli.help.config"))
    add("--log-dir", type=Path, metavar="DIR", help=say("cli.help.log_dir"))
    add("--lang", choices=LANGUAGES, default="", help=say("cli.help.lang"))


def main_parser(say: Say | None = None) -> Parser:
    """Without `say` there are no help texts."""
    known = say or _no_text
    usage = "".join(say(addon.usage) for addon in addons() if addon.usage) if say else ""
    parser = Parser("coder", say, description=known("cli.about"), epilog=known("cli.epilog", addons=usage))
    modes = ", ".join(OPERATING_MODES)
    parser.arguments.add_argument("words", nargs="*", metavar="QUESTION", help=known("cli.help.question"))
    add = parser.options.add_argument
    add("-h", "--help", action="store_true", help=known("cli.help.help"))
    add("--once", action="store_true", help=known("cli.help.once"))
    add("--mode", action="append", default=[], metavar="MODE", help=known("cli.help.mode", modes=modes))
    add("--permissions", choices=PRESETS, default="", metavar="PRESET", help=", ".join(PRESETS))
    add("--model", default="", metavar="NAME", help=known("cli.help.model"))
    effort = known("cli.help.effort", levels="|".join(EFFORTS))
    add("--effort", choices=EFFORTS, default="", metavar="LEVEL", help=effort)
    add("--resume", nargs="?", const=CHOOSE, default="", metavar="ID", help=known("cli.help.resume"))
    add("--continue", action="store_true", dest="latest", help=known("cli.help.continue"))
    add("--max-steps", type=positive, default=0, metavar="N", help=known("cli.help.max_steps"))
    add("--max-prompt-tokens", type=positive, default=0, metavar="N", help=known("cli.help.max_prompt"))
    add("--warn-prompt-tokens", type=positive, default=0, metavar="N", help=known("cli.help.warn_prompt"))
    add("--tokenizer-model", default="", metavar="NAME", help=known("cli.help.tokenizer"))
    add("--input", choices=("text", "stream-json"), default="text", help=known("cli.help.input"))
    add("--output", choices=("text", "json", "stream-json"), default="text", help=known("cli.help.output"))
    add("--version", action="version", version=f"coder {__version__}", help=known("cli.help.version"))
    add_directory_options(parser)
    return parser


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"not from 1 on: {text!r}")
    return int(text)
