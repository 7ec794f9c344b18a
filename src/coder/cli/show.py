"""`coder show ID`: what happened in a session, read from its record alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import msgspec

from coder.cli.args import Say
from coder.cli.common import parser_for, session_named, settings_from
from coder.cli.errors import Exit
from coder.protocol.history import HistoryEvent
from coder.record.files import encode
from coder.record.log import read_log
from coder.record.store import SessionStore
from coder.terminal.render.sanitize import flat, safe, safe_json
from coder.texts import shortened


def run(arguments: list[str]) -> int:
    parser = parser_for("show", arguments)
    parser.arguments.add_argument("id", metavar="ID", help=parser.say("cli.help.id"))
    parser.options.add_argument("--json", action="store_true", help=parser.say("cli.help.json_record"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    store = SessionStore(options.cwd, options.log_dir)
    for event in read_log(store.log_path(session_named(store, chosen.id))):
        if chosen.json:
            sys.stdout.write(safe_json(encode(event)).decode("utf-8") + "\n")
        else:
            for line in lines_of(event, settings.texts.say):
                print(line)
    return Exit.ANSWERED


def lines_of(event: HistoryEvent, say: Say) -> Iterator[str]:
    """One event as a person reads it; bookkeeping is left out."""
    meta = event.meta
    if event.for_model_alone:
        return
    content = safe(event.content).rstrip("\n")
    match event.type:
        case "turn_start":
            yield from (
                "",
                f"── {say('cli.show.turn', n=event.turn)} · {flat(event.ts)}",
                *_prefixed("> ", content),
            )
        case "assistant":
            yield from filter(None, [safe(event.said).rstrip("\n")])
        case "observation":
            yield from _indented(content, say)
        case "command":
            yield f"$ {safe(str(meta.get('input', '')))}"
            yield from _indented(content, say)
        case "note":
            yield from _prefixed("» ", content)
        case "approval" if meta.get("answer"):
            reason, answer = flat(str(meta.get("reason") or "")), flat(str(meta["answer"]))
            yield f"  {say('cli.show.approval', answer=answer)} {reason}".rstrip()
        case _:
            if line := one_line(event, say):
                yield flat(line)


def one_line(event: HistoryEvent, say: Say) -> str:
    """The event in a line, for those that need no more; empty for bookkeeping."""
    form = _ONE_LINE.get(event.type)
    return form(event, say) if form else ""


_ONE_LINE: dict[str, Callable[[HistoryEvent, Say], str]] = {
    "session_start": lambda e, say: (
        f"{say('cli.show.session', id=e.session_id)} · {e.ts} · {e.meta.get('model', '')}"
    ),
    "action": lambda e, say: f"· {e.meta.get('tool')} {_short(e.meta.get('input'))}",
    "verify": lambda e, say: (
        "· "
        + say(
            "cli.show.verify",
            command=e.meta.get("command", ""),
            state=e.meta.get("state"),
            code=e.meta.get("exit_code"),
        )
    ),
    "compaction": lambda e, say: (
        "· "
        + say("cli.show.compaction", before=e.meta.get("tokens_before"), after=e.meta.get("tokens_after"))
    ),
    "undo": lambda e, say: "· " + say("cli.show.undo", turn=e.meta.get("undone_turn")),
    "turn_end": lambda e, say: (
        "── "
        + say(
            "cli.show.turn_end",
            status=e.meta.get("status"),
            n=e.meta.get("step_count", 0),
            tokens=_total(e.meta.get("tokens")),
        )
    ),
}


def _total(tokens: object) -> object:
    return tokens.get("total", 0) if isinstance(tokens, dict) else 0


def _prefixed(mark: str, text: str) -> Iterator[str]:
    return (mark + line for line in text.split("\n"))


def _short(value: object) -> str:
    return shortened(msgspec.json.encode(value).decode("utf-8"), 300)


def _indented(text: str, say: Say) -> Iterator[str]:
    lines = text.split("\n")
    for line in lines[:40]:
        yield f"    {line}"
    if len(lines) > 40:
        yield f"    {say('cli.show.more', n=len(lines) - 40)}"
