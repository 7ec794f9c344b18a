"""One event of a record as HTML."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

from coder.protocol import entries
from coder.protocol.evidence import known_of, outcome, told
from coder.protocol.history import HistoryEvent
from coder.texts import Texts, shortened
from coder.view.html.diff import diff_html
from coder.view.html.escape import plain, tag, text_of

_EVIDENCE_MARKS = {"passed": "✓", "failed": "✗", "unchecked": "○"}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CUT = 20_000  # characters of a text that are shown at once
_FOLDED_LINES = 24  # an output with more is folded
_MAIN = ("command", "path", "pattern", "url", "name", "objective", "action")  # what says most of a call


class Renderer:
    """`cut`: the longest text shown whole; 0 for all of it. `inline_images`: else the page asks for each."""

    def __init__(self, texts: Texts, cut: int = CUT, *, inline_images: bool = False) -> None:
        self._texts = texts
        self.say = texts.say
        self._cut = cut
        self._inline_images = inline_images

    def html(self, event: HistoryEvent, at: int = 0) -> str:
        """Empty for bookkeeping. `at`: the event's place in its record, to ask for the whole of it."""
        if event.for_model_alone:
            return ""
        found = self._image(event, at) or self._content(event)
        if not found:
            return ""
        kind, body = found
        place = {"data_at": at, "data_turn": event.turn, "data_step": event.step}
        if kind == "turn":
            return tag("article", body, class_="turn", id=f"turn-{event.turn}", **place)
        return tag("article", body, class_=kind, **place)

    def _content(self, event: HistoryEvent) -> tuple[str, str] | None:
        entry = event.entry
        match entry:
            case entries.TurnStart():
                head = tag("h2", self.say("viewer.turn", n=event.turn), " ", _time(event.ts))
                return "turn", head + tag("div", self._text(event.content), class_="said")
            case entries.Assistant():
                return self._answer(event, entry)
            case entries.Action(tool=tool, input=given):
                return "call", self._call(tool, given)
            case entries.Observation():
                return self._result(event, entry)
            case entries.Subagent(agent=agent):
                inner = self._content(event.inner)
                return ("sub " + inner[0], tag("small", text_of(agent)) + inner[1]) if inner else None
            case entries.Command(input=line):
                return "command", tag("code", text_of(line)) + self._folded(event.content)
            case entries.Note(reason=reason):
                return "note", self._details(self.say("viewer.note", reason=reason), event.content)
            case entries.Verify():
                return self._check(event, entry)
            case entries.Compaction():
                return "line", self._details(self.line(event), event.content)
            case entries.TurnEnd():
                return "end " + entry.status, self._end(entry)
        line = self.line(event)
        return ("line", text_of(line)) if line else None

    def _image(self, event: HistoryEvent, at: int) -> tuple[str, str] | None:
        """None where it is no image that a browser only draws."""
        found = image_of(event)
        if found is None:
            return None
        media_type, data = found
        encoded = base64.b64encode(data).decode("ascii")
        source = {"src": f"data:{media_type};base64,{encoded}"} if self._inline_images else {"data_image": at}
        told = self.line(event)
        return "image", tag("figure", tag("img", alt=told, **source), tag("figcaption", text_of(told)))

    def line(self, event: HistoryEvent) -> str:
        """The event in one line of plain text, for those that need no more; empty for bookkeeping."""
        match event.entry:
            case entries.TurnEnd() as entry:
                return " · ".join(filter(None, [*self._figures(entry), self._evidence(entry)[1]]))
            case entries.Verify(command=command, state=state):
                key = "viewer.check" if command else "viewer.check_skipped"
                return self.say(key, command=command, state=state)
            case entries.Compaction(tokens_before=before, tokens_after=after):
                return self.say("viewer.compaction", before=before, after=after)
            case entries.Approval() as entry:
                return self._approval(entry)
            case entries.Undo(undone_turn=None, redone_turn=None, action=action, hunks=hunks):
                key = "viewer.review_undo" if action == "undo" else "viewer.review_redo"
                return self.say(key, hunks=", ".join(hunks))
            case entries.Undo(undone_turn=undone, redone_turn=redone) as entry:
                paths = ", ".join([*entry.restored, *entry.removed, *entry.merged])
                return self.say(f"viewer.{'redo' if redone else 'undo'}", turn=undone or redone, paths=paths)
            case entries.Rewind(before=turn, back=back):
                return self.say("viewer.rewind_back") if back else self.say("viewer.rewind", turn=turn)
            case entries.Routing(model=model):
                return self.say("viewer.routing", model=model)
            case entries.Job(job_id=job, state=state, command=command):
                return self.say("viewer.job", job=job, state=state, command=command)
            case entries.Loop():
                return self.say("viewer.loop")
            case entries.State() as entry:
                return " · ".join(f"{name}: {value}" for name, value in msgspec.to_builtins(entry).items())
        return self._around_turns(event)

    def _around_turns(self, event: HistoryEvent) -> str:
        match event.entry:
            case entries.SessionStart(model=model, cwd=cwd):
                return self.say("viewer.session", id=event.session_id, when=event.ts, model=model, cwd=cwd)
            case entries.SessionEnd():
                return self.say("viewer.session_end", when=event.ts)
            case entries.Image(name=name, width=width, height=height):
                return self.say("viewer.image", name=name, width=width, height=height)
        return ""

    def _approval(self, entry: entries.Approval) -> str:
        if not entry.answer:
            return self.say("viewer.asked", tool=entry.tool, subject=_asked_about(entry.subject))
        who = (
            self.say("viewer.by_policy", why=entry.because) if entry.because else self.say("viewer.by_person")
        )
        subject = _asked_about(entry.subject)
        told = self.say("viewer.approval", tool=entry.tool, subject=subject, answer=entry.answer, who=who)
        return f"{told} {entry.reason}" if entry.reason else told

    def _answer(self, event: HistoryEvent, entry: entries.Assistant) -> tuple[str, str] | None:
        parts = []
        if entry.reasoning:
            inside = self._text(entry.reasoning)
            summary = tag("summary", text_of(self.say("viewer.thinking")))
            parts.append(tag("details", summary, inside, class_="thinking"))
        if event.said.strip():
            parts.append(tag("div", _markdown(self._shortened(event.said)), class_="text"))
            parts.append(self._more(event.said))
        return ("answer", "".join(parts)) if parts else None

    def _call(self, tool: str, given: Any) -> str:
        given = given if isinstance(given, dict) else {"": given}
        main = next((name for name in _MAIN if isinstance(given.get(name), str)), "")
        head = tag("b", text_of(tool)) + (" " + tag("code", text_of(given[main])) if main else "")
        rest = {name: value for name, value in given.items() if name != main}
        if not rest:
            return head
        written = msgspec.json.format(msgspec.json.encode(rest), indent=2).decode("utf-8", errors="replace")
        return head + self._details(shortened(", ".join(map(str, rest)), 80), written)

    def _result(self, event: HistoryEvent, entry: entries.Observation) -> tuple[str, str]:
        kind = "result" if entry.ok else "result denied" if entry.denied else "result failed"
        if entry.todos is not None:
            return kind, _todos(entry.todos)
        if entry.diff and entry.ok:
            return kind, tag("b", text_of(entry.path)) + diff_html(entry.diff)
        parts = [tag("small", text_of(entry.tool)), " "]
        if not entry.ok:
            words = "viewer.denied" if entry.denied else "viewer.failed"
            code = "" if entry.exit_code is None else f" ({entry.exit_code})"
            parts.append(tag("span", text_of(self.say(words) + code), class_="badge"))
        return kind, "".join([*parts, self._folded(event.content)])

    def _check(self, event: HistoryEvent, entry: entries.Verify) -> tuple[str, str]:
        badge = tag("span", text_of(self.line(event)), class_="badge")
        return f"check {entry.state}", badge + (self._folded(event.content) if event.content else "")

    def _figures(self, entry: entries.TurnEnd) -> list[str]:
        tokens = entry.tokens
        parts = [self.say("viewer.end", status=entry.status, n=entry.step_count, tokens=f"{tokens.total:,}")]
        if entry.cost_usd:
            parts.append(f"${entry.cost_usd:.4f}")
        if entry.duration_ms:
            parts.append(f"{entry.duration_ms / 1000:.1f} s")
        if entry.error_message:
            parts.append(entry.error_message)
        return parts

    def _end(self, entry: entries.TurnEnd) -> str:
        line = tag("p", text_of(" · ".join(self._figures(entry))))
        evidence, words = self._evidence(entry)
        if evidence is None:
            return line
        kind = f"evidence {outcome(evidence)}" + (" claim" if evidence.claim else "")
        mark = _EVIDENCE_MARKS[outcome(evidence)]
        return line + tag("p", f"{mark} {text_of(words)}", class_=kind)

    def _evidence(self, entry: entries.TurnEnd) -> tuple[entries.Evidence | None, str]:
        evidence = entry.evidence or known_of(entry.verification)
        if evidence is None:
            return None, ""
        return evidence, told(evidence, entry.verification).text(self._texts)

    # texts, cut where they are long

    def _shortened(self, text: str) -> str:
        return text[: self._cut] if self._cut else text

    def _more(self, text: str) -> str:
        if not self._cut or len(text) <= self._cut:
            return ""
        left = self.say("viewer.more", n=f"{len(text) - self._cut:,}")
        return tag("button", text_of(left), class_="more", type="button")

    def _text(self, text: str) -> str:
        return tag("pre", text_of(self._shortened(text))) + self._more(text)

    def _details(self, summary: str, text: str) -> str:
        return tag("details", tag("summary", text_of(summary)), self._text(text))

    def _folded(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= _FOLDED_LINES:
            return self._text(text) if text.strip() else ""
        return self._details(self.say("viewer.output", n=lines), text)


def image_of(event: HistoryEvent) -> tuple[str, bytes] | None:
    """Type and content of an image of a kind that holds neither script nor references."""
    entry = event.entry
    if not isinstance(entry, entries.Image) or entry.media_type not in _IMAGES:
        return None
    try:
        data = base64.b64decode(event.content, validate=True)
    except ValueError:
        return None
    return (entry.media_type, data) if data else None


def _time(ts: str) -> str:
    return tag("time", text_of(ts.replace("T", " ").removesuffix("Z")[:19]), datetime=ts)


def _todos(todos: list[dict[str, Any]]) -> str:
    marks = {"completed": "☑", "in_progress": "◐", "cancelled": "☒"}
    rows = [
        tag("li", f"{marks.get(str(todo.get('status')), '☐')} ", text_of(str(todo.get("content", ""))))
        for todo in todos
    ]
    return tag("ul", *rows, class_="todos")


def _markdown(text: str) -> str:
    """Links and images stay as they are written: a page about a session leads nowhere and loads nothing."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    off = ["link", "autolink", "image", "reference", "html_block", "html_inline"]
    return str(reader.disable(off).render(plain(text)))


def _asked_about(subject: str) -> str:
    """A command as it is; of a diff, which is shown with its call, the files."""
    if not subject.startswith("--- "):
        return subject
    heads = re.findall(r"^--- (?:a/)?(.*)\n\+\+\+ (?:b/)?(.*)$", subject, re.MULTILINE)
    return ", ".join(old if new == "/dev/null" else new for old, new in heads) or subject
