"""`todoread` and `todowrite`: the plan that the model keeps and the person sees."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.texts import Text
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Todo, Tool, ToolContext, ToolResult

MAX_TODOS = 100  # a longer plan is not a plan, and it is in the context at every step
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
_STATUSES = list(_MARKS)


def as_text(todos: list[Todo]) -> str:
    if not todos:
        return "(no todos)"
    return "\n".join(f"{_MARKS[t.status]} {t.id}. {t.content}" for t in todos)


def unfinished(todos: list[Todo]) -> bool:
    return any(t.status in ("pending", "in_progress") for t in todos)


class _OfTheList(Tool):
    """No argument stands for a call: the list itself is shown, and how much of it is done."""

    kind = "looks"
    for_subagents = False
    shown_as = "think"

    @classmethod
    def argument(cls, args: Arguments) -> str:
        return ""


class TodoRead(_OfTheList):
    """The list as it is."""

    spec = base.spec("todoread", "Read the todo list of this session.", {}, [])
    concurrent = True

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(subject=as_text(context.todos))

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        text = as_text(context.todos)
        return base.summed_up(
            Text("tool.todos", n=len(context.todos)), text, meta={"todos": _plain(context.todos)}
        )


class TodoWrite(_OfTheList):
    """The whole list, replaced."""

    spec = base.spec(
        "todowrite",
        "Replace the whole todo list. Use it for work of several steps: one item in_progress at most, "
        "and mark an item completed as soon as it is.",
        {
            "todos": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "content": {"type": "string"},
                        "status": {"type": "string", "enum": _STATUSES},
                        "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                    },
                    "required": ["content", "status"],
                },
            }
        },
        ["todos"],
    )

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        todos = _parse(args.get("todos"))
        return Preview(subject=todos if isinstance(todos, str) else as_text(todos))

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        todos = _parse(args["todos"])
        if isinstance(todos, str):
            return base.failed(todos)
        context.todos = todos
        done = sum(t.status == "completed" for t in todos)
        return base.summed_up(
            Text("tool.todos_done", done=done, all=len(todos)),
            f"kept; {done} of {len(todos)} completed",  # the list itself stands in the call
            meta={"todos": _plain(todos)},
        )


def _plain(todos: list[Todo]) -> list[dict[str, Any]]:
    return [{"id": t.id, "content": t.content, "status": t.status, "priority": t.priority} for t in todos]


def _parse(raw: Any) -> list[Todo] | str:
    """The list, or its error."""
    if not isinstance(raw, list):
        return "todos must be a list of {content, status}"
    if len(raw) > MAX_TODOS:
        return f"{len(raw)} todos are too many; keep at most {MAX_TODOS}"
    todos: list[Todo] = []
    for number, item in enumerate(raw, 1):
        if not isinstance(item, dict) or not str(item.get("content", "")).strip():
            return f"todo {number} needs a content"
        status = item.get("status", "pending")
        if status not in _MARKS:
            return f"todo {number}: status {status!r} is not one of {', '.join(_STATUSES)}"
        todos.append(
            Todo(
                id=str(item.get("id") or number),
                content=str(item["content"]).strip(),
                status=status,
                priority=str(item.get("priority") or "medium"),
            )
        )
    if sum(t.status == "in_progress" for t in todos) > 1:
        return "at most one todo may be in_progress; set the others to pending or completed"
    if len({t.id for t in todos}) != len(todos):
        return "two todos have the same id"
    return todos


def restore(raw: Any) -> list[Todo]:
    """The list as the record holds it; an entry that no longer fits is left out."""
    try:
        return msgspec.convert(raw, list[Todo])
    except msgspec.ValidationError:
        return []
