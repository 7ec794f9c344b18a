"""`coder show ID`: what happened in a session, read from its record alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import msgspec

from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit, UsageError
from coder.protocol.history import HistoryEvent
from coder.record.files import encode
from coder.record.log import read_log
from coder.record.store import SessionStore
from coder.terminal.safe import safe


def run(arguments: list[str]) -> int:
    parser = parser_for("show", "Show what happened in a session.")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--json", action="store_true", help="the record's own lines")
    chosen = parser.parse_args(arguments)
    options, _settings = settings_from(chosen)
    store = SessionStore(options.cwd, options.log_dir)
    if not store.exists(chosen.id):
        raise UsageError(f"There is no session {chosen.id}; `coder sessions` lists those of this folder.")
    for event in read_log(store.log_path(chosen.id)):
        if chosen.json:
            sys.stdout.write(encode(event).decode("utf-8") + "\n")
        else:
            for line in lines_of(event):
                print(line)
    return Exit.ANSWERED


def lines_of(event: HistoryEvent) -> Iterator[str]:
    """One event as a person reads it; bookkeeping is left out."""
    meta = event.meta
    content = safe(event.content).rstrip("\n")
    match event.type:
        case "turn_start":
            yield from ("", f"── turn {event.turn} · {event.ts}", *_prefixed("> ", content))
        case "assistant" if content:
            yield content
        case "observation":
            yield from _indented(content)
        case "command":
            yield f"$ {safe(str(meta.get('input', '')))}"
            yield from _indented(content)
        case "note":
            yield from _prefixed("» ", content)
        case "approval" if meta.get("answer"):
            yield f"  approval: {meta['answer']} {safe(str(meta.get('reason') or ''))}".rstrip()
        case _:
            if line := one_line(event):
                yield safe(line)


def one_line(event: HistoryEvent) -> str:
    """The event in a line, for those that need no more; empty for bookkeeping."""
    form = _ONE_LINE.get(event.type)
    return form(event) if form else ""


_ONE_LINE: dict[str, Callable[[HistoryEvent], str]] = {
    "session_start": lambda e: f"session {e.session_id} · {e.ts} · {e.meta.get('model', '')}",
    "action": lambda e: f"· {e.meta.get('tool')} {_short(e.meta.get('input'))}",
    "verify": lambda e: (
        f"· verify {e.meta.get('command', '')} → {e.meta.get('state')} (exit {e.meta.get('exit_code')})"
    ),
    "compaction": lambda e: (
        f"· history summarised: {e.meta.get('tokens_before')} → {e.meta.get('tokens_after')} tokens"
    ),
    "undo": lambda e: f"· undid the file changes of turn {e.meta.get('undone_turn')}",
    "turn_end": lambda e: (
        f"── {e.meta.get('status')} · {e.meta.get('step_count', 0)} steps"
        f" · {(e.meta.get('tokens') or {}).get('total', 0)} tokens"
    ),
}


def _prefixed(mark: str, text: str) -> Iterator[str]:
    return (mark + line for line in text.split("\n"))


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode("utf-8")
    return text if len(text) <= 300 else text[:299] + "…"


def _indented(text: str) -> Iterator[str]:
    lines = text.split("\n")
    for line in lines[:40]:
        yield f"    {line}"
    if len(lines) > 40:
        yield f"    … {len(lines) - 40} more lines (--json has them all)"
