"""What a session has done, kept by the engine itself: no summary can lose it.

Built from the record's events, one at a time, live and on resume alike. Its text goes into the context at
each compaction, bounded; all of it goes into a file that `read` can page.
"""

from __future__ import annotations

from typing import Any

import msgspec

from coder.protocol.history import HistoryEvent
from coder.texts import one_line
from coder.tools.registry import built_in

_LINE = 200  # characters of one command, error or decision


class Ledger:
    """Files read and changed, skills, commands and their outcome, what failed, what was decided, todos."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.skills: dict[str, str] = {}  # by name, where each came from
        self.commands: dict[str, str] = {}
        self.failures: dict[str, tuple[str, int]] = {}  # by call: what it last said, how often it failed
        self.decisions: dict[str, int] = {}
        self.todos: list[dict[str, Any]] = []
        self._inputs: dict[str, Any] = {}

    def take(self, event: HistoryEvent) -> None:
        meta = event.meta
        if event.type == "subagent":
            self._take_part(event)
        elif event.type == "action":
            self._inputs[str(meta.get("call_id"))] = meta.get("input")
        elif event.type == "observation":
            self._observed(event)
        elif event.type == "verify" and "command" in meta:
            self._ran(meta["command"], f"exit {meta.get('exit_code')}")
        elif event.type == "command" and meta.get("kind") == "bang":
            outcome = f"exit {meta['exit_code']}" if "exit_code" in meta else "cancelled"
            self._ran(f"{meta.get('command')} (by the person)", outcome)
        elif event.type == "approval" and meta.get("answer") in ("no", "always") and "because" not in meta:
            reason = f": {meta['reason']}" if meta.get("reason") else ""
            self._decided(f"{meta['answer']} to {meta['tool']} {meta.get('subject', '')}{reason}")
        elif event.type == "undo":
            redone = meta.get("redone_turn")
            what = f"did the file changes of turn {redone} again" if redone else ""
            self._decided(what or f"undid the file changes of turn {meta.get('undone_turn')}")

    def _take_part(self, event: HistoryEvent) -> None:
        """What a subagent did was done for the session; what it planned was its own affair."""
        inner = event.meta.get("event")
        if not isinstance(inner, dict) or inner.get("type") not in ("action", "observation", "approval"):
            return
        meta = dict(inner.get("meta") or {})
        # Two subagents' models may number their calls alike.
        meta["call_id"] = f"{event.meta.get('task_id')} {meta.get('call_id')}"
        if meta.get("tool") != "todowrite":
            self.take(msgspec.structs.replace(event, type=str(inner["type"]), meta=meta))

    def _observed(self, event: HistoryEvent) -> None:
        meta = event.meta
        tool = str(meta.get("tool", ""))
        arguments = self._inputs.pop(str(meta.get("call_id")), None)
        given = arguments if isinstance(arguments, dict) else {}
        known = built_in(tool)
        if known.kind == "runs":
            self._ran(known.command(given), _outcome(event))
            return
        if meta.get("ok") and not event.for_model_alone:
            self._done(tool, meta, given)
        if not meta.get("ok"):
            call = f"{tool} {_short(known.argument(given))}".rstrip()
            _, times = self.failures.pop(call, ("", 0))
            self.failures[call] = _short(event.content), times + 1

    def _ran(self, line: str, outcome: str) -> None:
        self.commands.pop(_short(line), None)
        self.commands[_short(line)] = outcome

    def _done(self, tool: str, meta: dict[str, Any], given: dict[str, Any]) -> None:
        known = built_in(tool)
        if tool == "skill" and meta.get("name"):  # `list` has none
            self.skills[_short(str(meta["name"]))] = _short(str(meta.get("path", "")))
        elif tool == "todowrite":
            self.todos = list(meta.get("todos", []))
        elif known.kind == "looks" and known.touches == "files":
            named = known.paths(given)  # as the tool shows it: `./a.py` is a.py
            self.read |= dict.fromkeys([str(meta["path"])] if len(named) == 1 and meta.get("path") else named)
        elif known.edits_files() and not meta.get("dry_run"):
            for path in [f["path"] for f in meta.get("files", [])] or [meta.get("path", "")]:
                self.changed[str(path)] = None

    def _decided(self, text: str) -> None:
        self.decisions[_short(text)] = self.decisions.pop(_short(text), 0) + 1

    def sections(self) -> list[tuple[str, list[str]]]:
        """Everything, newest last."""
        return [
            ("Files changed", list(self.changed)),
            ("Files read", [path for path in self.read if path not in self.changed]),
            ("Skills loaded (load again what is still to be followed)", self._skill_lines()),
            ("Commands and outcome", [f"{line} → {outcome}" for line, outcome in self.commands.items()]),
            ("Failed", [_times(f"{call}: {text}", n) for call, (text, n) in self.failures.items()]),
            ("Decisions by the person", [_times(text, n) for text, n in self.decisions.items()]),
            ("Todos", [f"[{t.get('status')}] {t.get('content')}" for t in self.todos]),
        ]

    def _skill_lines(self) -> list[str]:
        return [f"{name} ({path})" for name, path in self.skills.items()]

    def whole_text(self) -> str:
        return "\n\n".join(
            f"## {title} ({len(lines)})\n" + "\n".join(f"- {line}" for line in lines)
            for title, lines in self.sections()
            if lines
        )

    def text(self, limit: int) -> str:
        """At most about `limit` characters: of each section the newest, with a word on what is left out."""
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


def _outcome(event: HistoryEvent) -> str:
    """How a command ended; where it failed, with what it said."""
    code = event.meta.get("exit_code")
    if code is None:
        return _short(event.content)
    said = event.content.removeprefix(f"error: exit code {code}").strip() if code else ""
    return _short(f"exit {code}: {said}" if said else f"exit {code}")


def _times(text: str, n: int) -> str:
    return f"{text} (×{n})" if n > 1 else text


def _short(text: str) -> str:
    return one_line(text, _LINE)
