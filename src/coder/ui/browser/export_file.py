"""A session as one file: HTML that loads nothing and runs one script of ours, or Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from coder.history.rewound import is_within, marked_log
from coder.history.sinks import encode
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.texts import Catalog
from coder.ui.browser.event_html import EventHtml, image_line
from coder.ui.browser.html import escape_controls, escaped, figures_summary, plot, tag
from coder.ui.browser.records import (
    Outline,
    RecordedImage,
    collect_image,
    directory_of,
    image_ids,
    read_all,
    read_event,
)

_WORDS = ("filter", "replay", "theme")  # of the script


def html_file(path: Path, session_id: str, title: str, texts: Catalog) -> Iterator[str]:
    """The page in pieces. Its policy allows only its own style sheet and script, by their hashes. Raises
    OSError."""
    style, script = (_page_file(name) for name in ("style.css", "file.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    outline = Outline(path)
    outline.read_on()
    shown = escaped(title or session_id)
    yield f'<!doctype html><html lang="{texts.lang}"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{shown}</title><style>{style}</style></head>\n"
    words = " ".join(f'data-{name}="{escaped(texts.say(f"viewer.page.{name}"))}"' for name in _WORDS)
    words += f' data-rewinds="{escaped(encode(outline.rewound).decode("ascii"))}"'
    yield f'<body class="file" {words}><h1>{shown}</h1>'
    yield _contents(outline, texts)
    render = EventHtml(texts, 0, root=directory_of(path), image_at=partial(read_event, path))
    gone = outline.rewinds.gone()
    for at, event in read_all(path):
        if html := render.html(event, at, rewound=is_within(at, gone)):
            yield html + "\n"
    yield f"<script>{script}</script></body></html>\n"


def _page_file(name: str) -> str:
    return files("coder.ui.browser").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _contents(outline: Outline, texts: Catalog) -> str:
    say = texts.say
    gone = outline.rewinds.gone()
    bars = [row.bar for row in outline.turns]
    parts = [tag("p", escaped(figures_summary(bars, texts)), class_="legend"), plot(bars, texts)]
    if outline.turns:
        rows = [
            tag(
                "li",
                tag("a", escaped(row.text), href=f"#turn-{row.turn}"),
                class_="rewound" if is_within(row.at, gone) else "",
                value=row.turn,
            )
            for row in outline.turns
        ]
        parts.append(tag("details", tag("summary", escaped(say("viewer.page.turns"))), tag("ol", *rows)))
    if outline.files:
        rows = [
            tag(
                "li",
                tag("code", escaped(path)),
                *(" " + tag("a", str(turn), href=f"#turn-{turn}") for turn in turns),
            )
            for path, turns in outline.files.items()
        ]
        parts.append(tag("details", tag("summary", escaped(say("viewer.page.files"))), tag("ul", *rows)))
    return tag("nav", *parts)


def markdown_file(path: Path, session_id: str, title: str, texts: Catalog) -> Iterator[str]:
    """Answers as the model wrote them; the rest quoted or fenced. Raises OSError."""
    yield f"# {_line(title or session_id)}\n\n"
    render = EventHtml(texts, root=directory_of(path))
    images: dict[str, RecordedImage] = {}
    for event, current in marked_log(path):
        if event.for_model_alone or collect_image(images, event, 0):
            continue
        yield from _markdown(event, render, current=current)
        for name in image_ids(event):
            if name in images:
                yield f"- {_line(image_line(images[name], texts))}\n\n"


def _markdown(event: HistoryEvent, render: EventHtml, *, current: bool) -> Iterator[str]:
    say = render.say
    match event.entry:
        case entries.TurnStart():
            yield f"## {say('viewer.turn', n=event.turn)}"
            yield "\n\n" if current else f" ({say('viewer.page.rewound')})\n\n"
            yield _quoted(event.content)
        case entries.Note(reason="person"):
            yield _quoted(event.content)
        case entries.Assistant(reasoning=reasoning):
            if reasoning:
                yield f"*{say('viewer.thinking')}*\n\n{_fenced(reasoning)}"
            if event.said.strip():
                yield _answer(escape_controls(event.said).strip()) + "\n\n"
        case entries.Action(tool="todowrite", input={"todos": list(todos)}):
            yield "**todowrite**\n\n" + "".join(map(_todo, todos)) + "\n"
        case entries.Action(tool=tool, input=given):
            main = next(iter(given.values()), "") if isinstance(given, dict) else given
            yield f"**{_line(tool)}**\n\n{_fenced(str(main))}"
        case entries.Observation(diff=diff, ok=True) if diff:
            yield _fenced(diff, "diff")
        case entries.Observation(ok=ok, denied=denied):
            yield "" if ok else f"*{say('viewer.denied' if denied else 'viewer.failed')}*\n\n"
            yield _fenced(event.content)
        case entries.Command(input=line):
            yield _fenced(f"{line}\n{event.content}")
        case entries.Approval() as entry:
            head, *reasons = map(_line, render.approval(entry))
            yield f"- {head}\n" + "".join(f"  - {reason}\n" for reason in reasons) + "\n"
        case _:
            line = render.line(event)
            yield f"- {_line(line)}\n\n" if line else ""


def _quoted(text: str) -> str:
    return "".join(f"> {_inert(line)}\n" for line in escape_controls(text).split("\n")) + "\n"


def _todo(todo: Any) -> str:
    given = todo if isinstance(todo, dict) else {"content": todo}
    mark = "x" if given.get("status") == "completed" else " "
    return f"- [{mark}] {_line(str(given.get('content', '')))}\n"


def _fenced(text: str, language: str = "") -> str:
    """In a fence longer than any in the text."""
    text = escape_controls(text).rstrip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}\n\n"


def _answer(text: str) -> str:
    """Makes an answer inert but for its code blocks. Only fences outside quotes count as code, since readers
    differ on the rest; an open fence is closed, else it would invert everything below."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": False}).parse(f"{text}\n\nend")
    lines = text.split("\n")
    shown = [_inert(line) for line in lines]
    quotes = 0
    for token in reversed(tokens):  # from the end: a fence adds lines
        quotes += (token.type == "blockquote_close") - (token.type == "blockquote_open")
        place = slice(*(token.map or (0, 0)))
        if token.type == "fence" and not quotes:
            shown[place] = lines[place]
        elif token.type == "code_block" and token.level == 0:
            shown[place] = _fenced(token.content).rstrip("\n").split("\n")
    left_open = tokens[-1].type == "fence" and tokens[-1].level == 0
    return "\n".join([*shown, tokens[-1].markup] if left_open else shown)


def _inert(text: str) -> str:
    """Without raw HTML and images, which a reader's viewer may load or run."""
    return re.sub("<(?=[A-Za-z/!?])", "&lt;", text).replace("![", "\\!\\[")


def _line(text: str) -> str:
    return _inert(" ".join(escape_controls(text).split()))
