"""Action log of a session, kept by the engine so that no summary can lose it.

Built from the record's events, live and on resume. Each compaction adds a bounded text of it to the context
and writes all of it to a file.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from coder.base.text import one_line
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.tools.registry import built_in, declared

_LINE = 200  # characters of one command, error or decision


class ActionLog:
    """Files read and changed, skills, commands and their outcome, failures, decisions, todos."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.skills: dict[str, str] = {}  # name to origin
        self.commands: dict[str, str] = {}
        self.failures: dict[str, tuple[str, int]] = {}  # by call: last error, number of failures
        self.decisions: dict[str, int] = {}
        self.todos: list[dict[str, Any]] = []
        self._inputs: dict[str, Any] = {}

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case entries.Subagent(task_id=task_id):
                self._take_part(event.inner, task_id)
            case entries.Observation(ok=True) if event.for_model_alone:
                self.todos = []  # it replaced the list, and only repeats a message
            case entry:
                self._take(entry, event.content)

    def _take(self, entry: entries.AnyEntry | None, content: str) -> None:
        match entry:
            case entries.Action(call_id=call_id, input=given):
                self._inputs[call_id] = given
            case entries.Observation():
                self._observed(entry, content)
            case entries.Verify(command=command, exit_code=code) if command:
                self._ran(command, f"exit {code}")
            case entries.Command(kind="bang", command=command, exit_code=code):
                outcome = "cancelled" if code is None else f"exit {code}"
                self._ran(f"{command} (by the person)", outcome)
            case entries.Job(command=command, exit_code=code, stopped_by=by):
                how = f"exit {code}" if isinstance(code, int) else "ended"
                self._ran(command, f"background job, {f'stopped by the {by}' if by else how}")
            case entries.Approval(answer="no" | "always", because="") if (
                entry.tool != "review"
            ):  # its undo is told
                reason = f": {entry.reason}" if entry.reason else ""
                self._decided(f"{entry.answer} to {entry.tool} {entry.subject}{reason}")
            case entries.Approval(answer="yes", because="", reason=reason) if (
                reason and entry.tool != "review"
            ):
                for line in reason.splitlines():  # one for each part that was left or changed
                    self._decided(f"of {entry.tool}: {line}")
            case entries.Undo(undone_turn=None, redone_turn=None, hunks=hunks, action=action):
                what = f"took back parts of the changes: {', '.join(hunks)}"
                self._decided(what if action == "undo" else "put back the parts taken back last")
            case entries.Undo(undone_turn=undone, redone_turn=redone):
                what = f"did the file changes of turn {redone} again" if redone else ""
                self._decided(what or f"undid the file changes of turn {undone}")

    def _take_part(self, event: HistoryEvent, task_id: str) -> None:
        """Include a subagent's actions, but not its plans or failures: its tools and rules differ."""
        entry = event.entry
        if isinstance(entry, entries.Observation) and not entry.ok and entry.exit_code is None:
            self._inputs.pop(f"{task_id} {entry.call_id}", None)
            return
        if (
            isinstance(entry, entries.Action | entries.Observation | entries.Approval)
            and entry.tool != "todowrite"
        ):
            # Call ids of two subagents may collide.
            self._take(replace(entry, call_id=f"{task_id} {entry.call_id}"), event.content)

    def _observed(self, entry: entries.Observation, content: str) -> None:
        arguments = self._inputs.pop(entry.call_id, None)
        given = arguments if isinstance(arguments, dict) else {}
        known = built_in(entry.tool)
        content = content.partition("\n\n<note>\n")[0]  # what happened meanwhile
        self.changed |= dict.fromkeys(entry.changed)
        if known.kind == "runs":
            self._ran(declared(known.command, given) or "", _outcome(entry, content))
            return
        if entry.ok:
            self._done(entry, given)
        else:
            argument = declared(known.argument, given) or ""
            call = f"{entry.tool} {_short(argument)}".rstrip()
            _, times = self.failures.pop(call, ("", 0))
            self.failures[call] = _short(content), times + 1

    def _ran(self, line: str, outcome: str) -> None:
        line = _short(line)
        self.commands.pop(line, None)
        self.commands[line] = outcome

    def _done(self, entry: entries.Observation, given: dict[str, Any]) -> None:
        known = built_in(entry.tool)
        if entry.tool == "skill" and entry.name:  # `list` has none
            self.skills[_short(entry.name)] = _short(entry.path)
        elif entry.tool == "todowrite":
            self.todos = entry.todos or []
        elif known.kind == "looks" and known.touches == "files":
            named = declared(known.paths, given) or []  # normalized: `./a.py` is a.py
            self.read |= dict.fromkeys([entry.path] if len(named) == 1 and entry.path else named)
        elif known.edits_files() and not entry.dry_run:
            for path in [file.path for file in entry.changed_files] or [entry.path]:
                self.changed[path] = None

    def _decided(self, text: str) -> None:
        self.decisions[_short(text)] = self.decisions.pop(_short(text), 0) + 1

    def sections(self) -> list[tuple[str, list[str]]]:
        """Everything, newest last."""
        return [
            ("Files changed", list(self.changed)),
            ("Files read", [path for path in self.read if path not in self.changed]),
            (
                "Skills loaded (load again what is still to be followed)",
                [f"{name} ({path})" for name, path in self.skills.items()],
            ),
            ("Commands and outcome", [f"{line} → {outcome}" for line, outcome in self.commands.items()]),
            ("Failed", [_times(f"{call}: {text}", n) for call, (text, n) in self.failures.items()]),
            ("Decisions by the person", [_times(text, n) for text, n in self.decisions.items()]),
            ("Todos", [f"[{t.get('status')}] {t.get('content')}" for t in self.todos]),
        ]

    def whole_text(self) -> str:
        return "\n\n".join(
            f"## {title} ({len(lines)})\n" + "\n".join(f"- {line}" for line in lines)
            for title, lines in self.sections()
            if lines
        )

    def text(self, limit: int) -> str:
        """At most about `limit` characters: the newest of each section, with a count of the rest."""
        whole = self.whole_text()
        if len(whole) <= limit:
            return whole
        filled = [(title, lines) for title, lines in self.sections() if lines]
        share = limit // max(1, len(filled))
        return "\n\n".join(_newest(title, lines, share) for title, lines in filled)


def _newest(title: str, lines: list[str], room: int) -> str:
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 3
        if room < 0:
            break
        kept.append(f"- {line}")
    left_out = len(lines) - len(kept)
    head = f"## {title} ({len(lines)})"
    if left_out:
        head += f"\n- … {left_out} earlier ones"
    return "\n".join([head, *reversed(kept)])


def _outcome(entry: entries.Observation, content: str) -> str:
    """How a command ended; the end of its output where it failed, without rules drawn across the page."""
    code = entry.exit_code
    if entry.background and entry.job_id:  # its end comes as an event of its own
        return f"runs as background job {entry.job_id}"
    if code is None:
        return _short(content)
    said = content.removeprefix(f"error: exit code {code}").strip() if code else ""
    said = " ".join(re.sub(r"([=_!*#-])\1{3,}", "", said[-5 * _LINE :]).split())
    if len(said) > _LINE:
        said = f"…{said[-_LINE:]}"
    return f"exit {code}: {said}" if said else f"exit {code}"


def _times(text: str, n: int) -> str:
    return f"{text} (×{n})" if n > 1 else text


def _short(text: str) -> str:
    return one_line(text, _LINE)
