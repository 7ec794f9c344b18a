"""`coder show ID`: prints a session's record."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import msgspec

from coder.cli.args import Say
from coder.cli.common import parser_for, session_named, settings_from
from coder.cli.errors import Exit
from coder.protocol import entries
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
    """One event for people; bookkeeping is omitted."""
    if event.for_model_alone:
        return
    content = safe(event.content).rstrip("\n")
    match event.entry:
        case entries.TurnStart():
            yield from (
                "",
                f"── {say('cli.show.turn', n=event.turn)} · {flat(event.ts)}",
                *_prefixed("> ", content),
            )
        case entries.Assistant():
            yield from filter(None, [safe(event.said).rstrip("\n")])
        case entries.Observation():
            yield from _indented(content, say)
        case entries.Command(input=line):
            yield f"$ {safe(line)}"
            yield from _indented(content, say)
        case entries.Note():
            yield from _prefixed("» ", content)
        case entries.Approval(answer=answer, reason=reason) if answer:
            yield f"  {say('cli.show.approval', answer=flat(answer))} {flat(reason or '')}".rstrip()
        case _:
            if line := one_line(event, say):
                yield flat(line)


def one_line(event: HistoryEvent, say: Say) -> str:
    """The event in a line, for those that need no more; empty for bookkeeping."""
    match event.entry:
        case entries.SessionStart(model=model):
            return f"{say('cli.show.session', id=event.session_id)} · {event.ts} · {model}"
        case entries.Action(tool=tool, input=given):
            return f"· {tool} {_short(given)}"
        case entries.Verify(command=command, state=state, exit_code=code):
            return "· " + say("cli.show.verify", command=command, state=state, code=code)
        case entries.Compaction(tokens_before=before, tokens_after=after):
            return "· " + say("cli.show.compaction", before=before, after=after)
        case entries.Undo(undone_turn=None, redone_turn=None, action=action, hunks=hunks):
            key = "viewer.review_undo" if action == "undo" else "viewer.review_redo"
            return "· " + say(key, hunks=", ".join(hunks))
        case entries.Undo(undone_turn=turn):
            return "· " + say("cli.show.undo", turn=turn)
        case entries.Rewind(before=turn, back=back):
            return "· " + (say("cli.show.rewind_back") if back else say("cli.show.rewind", turn=turn))
        case entries.TurnEnd(status=status, step_count=n, tokens=tokens):
            return "── " + say("cli.show.turn_end", status=status, n=n, tokens=tokens.total)
    return ""


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
