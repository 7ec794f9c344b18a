"""`coder show ID`: prints a session's record."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coder.base.text import shortened
from coder.cli.arguments import Say
from coder.cli.common import parser_for, session_named, settings_from
from coder.history.entries_to_events import call_argument
from coder.history.rewound import marked_log
from coder.history.store import SessionStore
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.tools.registry import built_in_tools
from coder.ui.browser.event_html import undo_line
from coder.ui.browser.records import directory_of
from coder.ui.streams import Exit, show, show_json
from coder.ui.terminal.render.escapes import flat, safe

_LONGEST, _LONGEST_ABOUT = 300, 80  # characters of a call, and where an approval names it
_REWOUND = "┊ "  # before each line that a rewind left behind


def run(arguments: list[str]) -> int:
    parser = parser_for("show", arguments)
    parser.arguments.add_argument("id", metavar="ID", help=parser.say("cli.help.id"))
    parser.options.add_argument("--json", action="store_true", help=parser.say("cli.help.json_record"))
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    store = SessionStore(options.cwd, options.log_dir)
    path = store.log_path(session_named(store, chosen.id))
    root = directory_of(path)
    images: dict[str, entries.Image] = {}
    calls: dict[str, str] = {}
    for event, current in marked_log(path):
        if chosen.json:
            show_json(event)
            continue
        say = settings.texts.say
        for text in (*lines_of(event, say, root, calls, current=current), *_images(event, images, say)):
            for line in text.split("\n"):
                show(line if current or not line else _REWOUND + line)
    return Exit.ANSWERED


def lines_of(
    event: HistoryEvent, say: Say, root: str, calls: dict[str, str], *, current: bool = True
) -> Iterator[str]:
    """One event for people; bookkeeping is omitted. `root`: the session's directory. `calls`: by id, those
    that came before. `current`: no rewind left it behind."""
    if event.for_model_alone:
        return
    content = safe(event.content).rstrip("\n")
    match event.entry:
        case entries.TurnStart():
            yield from (
                "",
                f"── {say('cli.show.turn', n=event.turn)} · {flat(event.ts)}"
                + ("" if current else f" · {say('viewer.page.rewound')}"),
                *_prefixed("> ", content),
            )
        case entries.Assistant():
            yield from filter(None, [safe(event.said).rstrip("\n")])
        case entries.Observation(diff=diff):
            yield from _indented(content, say)
            yield from _indented(safe(diff).rstrip("\n"), say) if diff else ()
        case entries.Command(input=line):
            yield f"$ {safe(line)}"
            yield from _indented(content, say)
        case entries.Note():
            yield from _prefixed("» ", content)
        case entries.Action(tool=tool, input=given, call_id=call_id):
            calls[call_id] = _call(tool, given)
            yield flat(f"· {calls[call_id]}")
        case entries.Approval(answer=answer, reason=reason, call_id=call_id, tool=tool) if answer:
            told = (reason or "").rstrip("\n").split("\n")  # a line for each hunk that was not taken
            about = shortened(calls.get(call_id or "", tool), _LONGEST_ABOUT)
            yield flat(
                f"  {say('cli.show.approval', what=about, answer=answer)}" + f" · {told[0]}" * bool(told[0])
            )
            yield from (f"    {flat(line)}" for line in told[1:])
        case _:
            if line := one_line(event, say, root):
                yield flat(line)


def one_line(event: HistoryEvent, say: Say, root: str = "") -> str:
    """The event in a line, for those that need no more; empty for bookkeeping."""
    match event.entry:
        case entries.SessionStart(model=model):
            return f"{say('cli.show.session', id=event.session_id)} · {event.ts} · {model}"
        case entries.Verify(command="", refused=refused):
            return "· " + say("viewer.check_refused", commands=", ".join(refused)) if refused else ""
        case entries.Verify(command=command, state=state, exit_code=code):
            return "· " + say("cli.show.verify", command=command, state=state, code=code)
        case entries.Compaction(tokens_before=before, tokens_after=after):
            return "· " + say("cli.show.compaction", before=before, after=after)
        case entries.Undo() as entry:
            return "· " + undo_line(entry, say, root)
        case entries.Rewind(before=turn, back=back):
            return "· " + (say("cli.show.rewind_back") if back else say("cli.show.rewind", turn=turn))
        case entries.TurnEnd(status=status, step_count=n, tokens=tokens, error_message=why):
            ended = "── " + say("cli.show.turn_end", status=status, n=n, tokens=f"{tokens.total:,}")
            return f"{ended} · {why}" if why else ended
    return ""


def _images(event: HistoryEvent, known: dict[str, entries.Image], say: Say) -> Iterator[str]:
    """A line for each image of an input or a result. An image comes before those that name it."""
    match event.inner.entry:
        case entries.Image() as image:
            known[image.image_id] = image
        case entries.TurnStart(images=names) | entries.Observation(images=names):
            for image in (known[name] for name in names if name in known):
                line = say("viewer.image", name=image.name, width=image.width, height=image.height)
                yield f"  [{flat(line)}]"


def _prefixed(mark: str, text: str) -> Iterator[str]:
    return (mark + line for line in text.split("\n"))


def _call(tool: str, given: object) -> str:
    """As the terminal names it; with all that was given where the tool is not built in."""
    argument = call_argument(tool, given)
    if not argument and given and tool not in built_in_tools():
        argument = msgspec.json.encode(given).decode("utf-8")
    return f"{tool} {shortened(argument, _LONGEST)}".rstrip()


def _indented(text: str, say: Say) -> Iterator[str]:
    lines = text.split("\n")
    for line in lines[:40]:
        yield f"    {line}"
    if len(lines) > 40:
        yield f"    {say('cli.show.more', n=len(lines) - 40)}"
