"""Which tasks are complex, and the todo list such a task starts with."""

from __future__ import annotations

import re

import msgspec

from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.protocol.messages import Message, tool_call
from coder.tools.todo import unfinished

MIN_LENGTH = 40
MIN_KEYWORDS = 3
MIN_SEGMENTS = 3
MAX_ITEMS = 10

KEYWORDS = (
    *("并且", "同时", "另外", "分别", "步骤", "重构", "迁移", "优化"),
    *("refactor", "migrate", "optimize", "additionally", "respectively", "steps", "as well as", "afterwards"),
)
# Patterns stay text: compiling them is left to the first turn, off the start-up path.
_SEPARATORS = r"[，。；、,\n]"
_NUMBERED = r"(?:^|[\s:：，。；,;])(?:\(?(\d{1,2})[.)、）]|(第[一二三四五六七八九十]+[步点项])[，,：:]?)\s*"
_LETTERS = r"(?<![A-Za-z/])[A-Z](?:/[A-Z]){2,}(?![A-Za-z/])"


def is_complex(text: str) -> bool:
    """By explicit enumeration, then length, then keywords and segments, in that order."""
    text = text.strip()
    if _enumerated(text) or re.search(_LETTERS, text):
        return True
    if len(text) >= MIN_LENGTH:
        return True
    lowered = text.lower()
    return sum(word in lowered for word in KEYWORDS) >= MIN_KEYWORDS or len(_segments(text)) >= MIN_SEGMENTS


def _enumerated(text: str) -> list[str]:
    """The items of `1. … 2. …`, where the numbers count up from 1; else nothing."""
    marks = list(re.finditer(_NUMBERED, text))
    numbers = [m.group(1) for m in marks]
    counts_up = all(n is None or int(n) == at for at, n in enumerate(numbers, 1))
    if len(marks) < 2 or not counts_up:
        return []
    ends = [m.start() for m in marks[1:]] + [len(text)]
    items = [text[m.end() : end].strip(" \t\n,，;；。") for m, end in zip(marks, ends, strict=True)]
    return [item for item in items if item]


def _segments(text: str) -> list[str]:
    return [part.strip() for part in re.split(_SEPARATORS, text) if part.strip()]


def first_todos(text: str) -> list[str]:
    """What the person listed, or the parts of what they said, or the shape of any task."""
    items = _enumerated(text.strip())
    if len(items) < 2:
        items = _segments(text)
    if len(items) < 2:
        line = " ".join(text.split())
        items = [
            "Understand what is there",
            line if len(line) <= 120 else line[:119] + "…",
            "Check the result",
        ]
    return items[:MAX_ITEMS]


async def start_with_todos(session: Session, turn: Turn) -> None:
    """A complex task starts with a list, as a `todowrite` call with its result, unless one is still open."""
    wanted = session.desk.config.workflow.require_todo_for_complex and "todowrite" in session.desk.tools
    if not wanted or unfinished(session.context.todos) or not is_complex(turn.text):
        return
    todos = [{"content": item, "status": "pending"} for item in first_todos(turn.text)]
    arguments = msgspec.json.encode({"todos": todos}).decode("utf-8")
    call = tool_call(f"todo_{turn.number}", "todowrite", arguments)
    session.add_assistant(Message(role="assistant", content="", tool_calls=[call]), {"by": "engine"})
    session.add_action(call, {"todos": todos})
    tool = session.desk.tools["todowrite"]
    result = await tool.run({"todos": todos}, session.context, lambda _text: None)
    session.add_observation(call, result)
