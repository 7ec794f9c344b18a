"""`coder export ID --html FILE`: a session as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from coder.cli.common import parser_for, session_named, settings_from
from coder.cli.errors import Exit, UsageError
from coder.cli.show import one_line
from coder.fs.atomic import write_atomically
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.record.log import read_log
from coder.record.store import SessionStore
from coder.terminal.render.sanitize import safe
from coder.texts import Texts

_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c1c1c; background: #fff }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0; padding: .5rem .8rem;
      background: #f5f5f2; border-radius: 4px; font: 13px/1.45 ui-monospace, monospace }
.user { border-left: 4px solid #3b6ea5; background: #eef4fb } .thought { color: #777; background: none }
.error { border-left: 4px solid #b3423a } .line { color: #666; margin: .3rem 0 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #242424 }
  .user { background: #1d2a38 } }"""


def run(arguments: list[str]) -> int:
    parser = parser_for("export", arguments)
    parser.arguments.add_argument("id", metavar="ID", help=parser.say("cli.help.id"))
    parser.options.add_argument(
        "--html", type=Path, required=True, metavar="FILE", help=parser.say("cli.help.html")
    )
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    store = SessionStore(options.cwd, options.log_dir)
    session_id = session_named(store, chosen.id)
    events = read_log(store.log_path(session_id))
    page = "\n".join(_page(session_id, store.title(session_id), events, settings.texts))
    try:
        write_atomically(chosen.html, page.encode("utf-8", errors="replace"), 0o644)
    except OSError as error:
        raise UsageError("cli.not_written", file=chosen.html, why=error.strerror) from error
    return Exit.ANSWERED


def _page(session_id: str, title: str, events: Iterator[HistoryEvent], texts: Texts) -> Iterator[str]:
    title = escape(safe(title or session_id))
    yield f'<!doctype html><html lang="{texts.lang}"><meta charset="utf-8"><title>{title}</title>'
    yield f"<style>{_STYLE}</style>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<h1>{title}</h1>"
    for event in events:
        if event.for_model_alone:
            continue
        yield from _parts(event, texts)
    yield "</html>"


def _parts(event: HistoryEvent, texts: Texts) -> Iterator[str]:
    match event.entry:
        case entries.TurnStart():
            yield f"<h2>{event.turn}</h2>" + _block("user", event.content)
        case entries.Assistant(reasoning=reasoning):
            if reasoning:
                yield _block("thought", reasoning)
            if event.said:
                yield _block("assistant", event.said)
        case entries.Observation(ok=ok, diff=diff):
            yield _block("" if ok else "error", diff or event.content)
        case entries.Command() | entries.Note():
            yield _block("user", event.content)
        case _:
            if line := one_line(event, texts.say):
                yield f'<p class="line">{escape(safe(line))}</p>'


def _block(kind: str, text: str) -> str:
    return f'<pre class="{kind}">{escape(safe(text))}</pre>'
