"""One event of a record as HTML."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from coder.base.text import shortened
from coder.history.log import local_time
from coder.history.search.facts import seconds_of
from coder.protocol import entries
from coder.protocol.evidence import evidence_from, evidence_line, outcome
from coder.protocol.history import HistoryEvent
from coder.texts import Catalog
from coder.ui.browser.html import diff_html, escape_controls, escaped, tag
from coder.ui.browser.records import RecordedImage, collect_image, image_ids, image_of

_EVIDENCE_MARKS = {"passed": "✓", "failed": "✗", "unchecked": "–"}
CUT = 20_000  # characters of a text that are shown at once
_FOLDED_LINES = 24  # an output with more is folded
_MAIN = ("command", "pattern", "path", "url", "name", "objective", "action")  # the most telling arguments


# Words of records that have a translation; others are shown as they are.
_WORDS = (
    "always", "auto", "cancelled", "ended", "error", "failed", "gave_up", "max_steps", "no", "ok", "passed",
    "prompt_limit", "skipped", "yes",
)  # fmt: skip


class EventHtml:
    """Renders events in order. `cut`: the longest text shown whole; 0 for no limit. `images`: those before
    the first event. `root`: the session's directory. `image_at`: reads an event, for pages that embed
    images."""

    def __init__(
        self,
        texts: Catalog,
        cut: int = CUT,
        images: Mapping[str, RecordedImage] | None = None,
        *,
        root: str = "",
        image_at: Callable[[int], HistoryEvent | None] | None = None,
    ) -> None:
        self._texts = texts
        self.say = texts.say
        self._cut = cut
        self._images = dict(images or {})
        self._root = root
        self._image_at = image_at
        self._inlined: set[str] = set()
        self._calls: dict[str, str] = {}  # of a step, by id
        self._answered = False  # one of them has a result

    def html(self, event: HistoryEvent, at: int = 0, *, rewound: bool = False) -> str:
        """Empty for bookkeeping. `at`: the event's offset in its record, to request its full text."""
        if event.for_model_alone or collect_image(self._images, event, at):
            return ""
        found = self._content(event, rewound=rewound)
        if not found:
            return ""
        kind, body = found
        shown = [name for name in dict.fromkeys(image_ids(event)) if name in self._images]
        body += "".join(self._image(self._images[name]) for name in shown)
        own = {"id": f"turn-{event.turn}"} if kind == "turn" else {}
        place = {"data_at": at, "data_turn": event.turn, "data_step": event.step}
        return tag("article", body, class_=kind + (" rewound" if rewound else ""), **own, **place)

    def before(self, event: HistoryEvent) -> None:
        """Take an event above the first shown one: results name their calls."""
        if isinstance(event.entry, entries.Action):
            self._call(event.entry)
        elif isinstance(event.entry, entries.Observation):
            self._answered = True

    def _content(self, event: HistoryEvent, *, rewound: bool = False) -> tuple[str, str] | None:
        entry = event.entry
        match entry:
            case entries.TurnStart():
                head = tag(
                    "h2",
                    self.say("viewer.turn", n=event.turn),
                    " ",
                    _time(event.ts),
                    self._gone() if rewound else "",
                )
                return "turn", head + tag("div", self._text(event.content), class_="said")
            case entries.Assistant():
                return self._answer(event, entry)
            case entries.Action():
                return "call", self._call(entry)
            case entries.Observation():
                return self._result(event, entry)
            case entries.Subagent(agent=agent):
                return self._of_subagent(event.inner, agent)
            case entries.Command(input=line):
                return "command", tag("code", escaped(line)) + self._folded(event.content)
            case entries.Note(reason=reason):
                return self._note(reason, event.content)
            case entries.Verify():
                return self._check(event, entry)
            case entries.Approval(answer=answer):
                head, *reasons = map(escaped, self.approval(entry))
                listed = tag("ul", *(tag("li", reason) for reason in reasons)) if reasons else ""
                return "line answered" if answer else "line asked", head + listed
            case entries.Compaction():
                return "line", self._details(self.line(event), event.content)
            case entries.TurnEnd():
                return "end " + entry.status, self._end(entry)
        line = self.line(event)
        return ("line", escaped(line)) if line else None

    def _of_subagent(self, event: HistoryEvent, agent: str) -> tuple[str, str] | None:
        label = tag("small", escaped(agent)) + " "
        if isinstance(event.entry, entries.TurnStart):  # its task: the turn is the person's
            return "sub", label + tag("div", self._text(event.content), class_="said")
        inner = self._content(event)
        return ("sub " + inner[0], label + inner[1]) if inner else None

    def _note(self, reason: str, text: str) -> tuple[str, str]:
        if reason == "person":  # typed during the turn
            return "steered", tag("div", self._text(text), class_="said")
        return "note", self._details(self.say("viewer.note", reason=reason), text)

    def _gone(self) -> str:
        return " " + tag("span", escaped(self.say("viewer.page.rewound")), class_="badge gone")

    def _image(self, kept: RecordedImage) -> str:
        """Only its caption if a browser should not draw it, or has drawn it above."""
        label = image_line(kept, self._texts)
        caption = tag("figcaption", escaped(label))
        if not kept.drawn:
            return tag("figure", caption)
        if self._image_at is None:
            return tag("figure", tag("img", alt=label, data_image=kept.at), caption)
        event = self._image_at(kept.at) if kept.entry.image_id not in self._inlined else None
        found = image_of(event) if event is not None else None
        if found is None:
            return tag("figure", caption)
        self._inlined.add(kept.entry.image_id)
        source = f"data:{found[0]};base64,{base64.b64encode(found[1]).decode('ascii')}"
        return tag("figure", tag("img", alt=label, src=source), caption)

    def line(self, event: HistoryEvent) -> str:
        """The event as one line of plain text; empty for bookkeeping, and for events that need more."""
        match event.entry:
            case entries.TurnEnd() as entry:
                return " · ".join(filter(None, [*self._figures(entry), self._evidence(entry)[1]]))
            case entries.Verify(command="", refused=refused):  # the turn's evidence has what was not checked
                return self.say("viewer.check_refused", commands=", ".join(refused)) if refused else ""
            case entries.Verify(command=command, state=state):
                return self.say("viewer.check", command=command, state=self._word(state))
            case entries.Compaction(tokens_before=before, tokens_after=after):
                return self.say("viewer.compaction", before=before, after=after)
            case entries.Undo() as entry:
                return undo_line(entry, self.say, self._root)
            case entries.Rewind(before=turn, back=back):
                return self.say("viewer.rewind_back") if back else self.say("viewer.rewind", turn=turn)
            case entries.Routing(model=model):
                return self.say("viewer.routing", model=model)
            case entries.Job(job_id=job, state=state, command=command):
                return self.say("viewer.job", job=job, state=self._word(state), command=command)
            case entries.Loop():
                return self.say("viewer.loop")
            case entries.State() as entry:
                return " · ".join(f"{name}: {value}" for name, value in msgspec.to_builtins(entry).items())
        return self._around_turns(event)

    def _around_turns(self, event: HistoryEvent) -> str:
        match event.entry:
            case entries.SessionStart(model=model, cwd=cwd):
                return self.say(
                    "viewer.session", id=event.session_id, when=_when(event.ts), model=model, cwd=cwd
                )
            case entries.SessionEnd():
                return self.say("viewer.session_end", when=_when(event.ts))
        return ""

    def approval(self, entry: entries.Approval) -> list[str]:
        """The question or answer, then the reasons: one for each rejected hunk."""
        subject = _asked_about(entry.subject)
        if not entry.answer:
            return [self.say("viewer.asked", tool=entry.tool, subject=subject)]
        who = self.say("viewer.by_setting" if entry.answer == "auto" else "viewer.by_person")
        if entry.because:
            who = self.say("viewer.by_policy", why=entry.because)
        answer = self._word(entry.answer)
        line = self.say("viewer.approval", tool=entry.tool, subject=subject, answer=answer, who=who)
        return [line, *filter(str.strip, (entry.reason or "").split("\n"))]

    def _answer(self, event: HistoryEvent, entry: entries.Assistant) -> tuple[str, str] | None:
        parts = []
        if entry.reasoning:
            inside = self._text(entry.reasoning)
            summary = tag("summary", escaped(self.say("viewer.thinking")))
            parts.append(tag("details", summary, inside, class_="thinking"))
        if event.said.strip():
            parts.append(tag("div", _markdown(self._shortened(event.said)), class_="text"))
            parts.append(self._more(event.said))
        return ("answer", "".join(parts)) if parts else None

    def _call(self, entry: entries.Action) -> str:
        given = entry.input if isinstance(entry.input, dict) else {"": entry.input}
        main = next((name for name in _MAIN if isinstance(given.get(name), str)), "")
        head = tag("b", escaped(entry.tool))
        if main:
            head += " " + tag("code", escaped(given[main]))
        if self._answered:
            self._calls, self._answered = {}, False
        self._calls[entry.call_id] = shortened(f"{entry.tool} {given.get(main, '')}".rstrip(), 120)
        rest = {name: value for name, value in given.items() if name != main}
        if not rest:
            return head
        written = msgspec.json.format(msgspec.json.encode(rest), indent=2).decode("utf-8", errors="replace")
        return head + self._details(shortened(", ".join(map(str, rest)), 80), written)

    def _result(self, event: HistoryEvent, entry: entries.Observation) -> tuple[str, str]:
        kind = "result" if entry.ok else "result denied" if entry.denied else "result failed"
        call = self._calls.get(entry.call_id, entry.tool)
        alone = list(self._calls) == [entry.call_id]  # the result needs no label
        self._answered = True
        if entry.todos is not None:
            return kind, _todos(entry.todos)
        if entry.diff and entry.ok:
            return kind, tag("b", escaped(entry.path)) + diff_html(entry.diff)
        parts = [] if alone else [tag("small", escaped(call)), " "]
        if not entry.ok:
            words = "viewer.denied" if entry.denied else "viewer.failed"
            code = "" if entry.exit_code is None else f" ({entry.exit_code})"
            parts.append(tag("span", escaped(self.say(words) + code), class_="badge"))
        return kind, "".join([*parts, self._folded(event.content)])

    def _check(self, event: HistoryEvent, entry: entries.Verify) -> tuple[str, str] | None:
        line = self.line(event)
        if not line:
            return None
        badge = tag("span", escaped(line), class_="badge")
        return f"check {entry.state}", badge + (self._folded(event.content) if event.content else "")

    def _figures(self, entry: entries.TurnEnd) -> list[str]:
        tokens = entry.tokens
        status, total = self._word(entry.status), f"{tokens.total:,}"
        parts = [self.say("viewer.end", status=status, n=entry.step_count, tokens=total)]
        if entry.cost_usd:
            parts.append(f"${entry.cost_usd:.4f}")
        if entry.duration_ms:
            parts.append(f"{entry.duration_ms / 1000:.1f} s")
        if entry.error_message:
            parts.append(entry.error_message)
        return parts

    def _end(self, entry: entries.TurnEnd) -> str:
        line = tag("p", escaped(" · ".join(self._figures(entry))))
        evidence, words = self._evidence(entry)
        if evidence is None:
            return line
        kind = f"evidence {outcome(evidence)}" + (" claim" if evidence.claim else "")
        mark = _EVIDENCE_MARKS[outcome(evidence)]
        return line + tag("p", f"{mark} {escaped(words)}", class_=kind)

    def _evidence(self, entry: entries.TurnEnd) -> tuple[entries.Evidence | None, str]:
        evidence = entry.evidence or evidence_from(entry.verification)
        if evidence is None:
            return None, ""
        return evidence, evidence_line(evidence, entry.verification).text(self._texts)

    def _word(self, word: str) -> str:
        return self.say(f"viewer.word.{word}") if word in _WORDS else word

    # texts, cut where they are long

    def _shortened(self, text: str) -> str:
        return text[: self._cut] if self._cut else text

    def _more(self, text: str) -> str:
        if not self._cut or len(text) <= self._cut:
            return ""
        left = self.say("viewer.more", n=f"{len(text) - self._cut:,}")
        return tag("button", escaped(left), class_="more", type="button")

    def _text(self, text: str) -> str:
        return tag("pre", escaped(self._shortened(text))) + self._more(text)

    def _details(self, summary: str, text: str) -> str:
        return tag("details", tag("summary", escaped(summary)), self._text(text))

    def _folded(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= _FOLDED_LINES:
            return self._text(text) if text.strip() else ""
        return self._details(self.say("viewer.output", n=lines), text)


def image_line(kept: RecordedImage, texts: Catalog) -> str:
    entry = kept.entry
    return texts.say("viewer.image", name=entry.name, width=entry.width, height=entry.height)


def _when(ts: str) -> str:
    """Local time, as in lists of sessions."""
    seconds = seconds_of(ts)
    return local_time(seconds, seconds=True) if seconds else ts


def _time(ts: str) -> str:
    return tag("time", escaped(_when(ts)), datetime=ts)


def _todos(todos: list[dict[str, Any]]) -> str:
    marks = {"completed": "☑", "in_progress": "◐", "cancelled": "☒"}
    rows = [
        tag("li", f"{marks.get(str(todo.get('status')), '☐')} ", escaped(str(todo.get("content", ""))))
        for todo in todos
    ]
    return tag("ul", *rows, class_="todos")


def _markdown(text: str) -> str:
    """Links and images stay text: the page loads nothing."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.disable(["link", "autolink", "image", "reference", "html_block", "html_inline"])
    tokens = reader.parse(escape_controls(text))
    for token in tokens:
        if align := token.attrs.pop("style", ""):  # of a table's cell; the page's policy allows no style
            token.attrs["class"] = str(align).removeprefix("text-align:")
    return str(reader.renderer.render(tokens, reader.options, {}))


def undo_line(entry: entries.Undo, say: Callable[..., str], root: str) -> str:
    if entry.undone_turn is None and entry.redone_turn is None:
        key = "viewer.review_undo" if entry.action == "undo" else "viewer.review_redo"
        return say(key, hunks=", ".join(entry.hunks))
    inside = root.rstrip("/") + "/"
    paths = [path.removeprefix(inside) for path in (*entry.restored, *entry.removed, *entry.merged)]
    turn = entry.undone_turn or entry.redone_turn
    return say("viewer.redo" if entry.redone_turn else "viewer.undo", turn=turn, paths=", ".join(paths))


def _asked_about(subject: str) -> str:
    """Shortened, as the call has all of it: a command's first line, the files of a diff."""
    if not subject.startswith("--- "):
        first, *more = subject.strip().split("\n", 1)
        return shortened(first, 120) if not more else f"{shortened(first, 118)} …"
    heads = re.findall(r"^--- (?:a/)?(.*)\n\+\+\+ (?:b/)?(.*)$", subject, re.MULTILINE)
    return ", ".join(old if new == "/dev/null" else new for old, new in heads) or subject
