"""The actions that make sense now, as a JSON schema, and the tool calls that an action becomes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from coder.model.guided.opening import PAGE, Wanted, asks_about_tests, named, paths_in
from coder.model.guided.state import LOOK, MOST_ITEMS, PLAN, State
from coder.protocol.messages import ToolCall, tool_call

SHORT = 80  # lines of a file that may be written whole
_MOST_PATHS = 60  # named in a schema
_MOST_STEPS = 16
_CHANGE = re.compile(
    r"\b(?:fix|add|change|rename|replace|remove|delete|creat\w*|writ\w*|implement\w*|make|updat\w*|refactor|move|"
    r"correct|repair|convert|insert|set|rewrite|extract|append|put|use|sort|handle|support|return|raise|edit|"
    r"bump|increase|decrease|turn|let|save|document)\b|[改修加删写建换移补]|实现|创建|更新",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\A\W*(?:what|where|who|when|which|why|how|is|are|does|do|did|can|could|should|has|have|explain|describe|"
    r"tell|list|show|find|count|summari[sz]e|name|什么|哪|谁|为什么|怎么|如何|解释|列出|显示|说明|有多少)",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"\b(?:run|execute|command|install|commit|git|shell|output)\b|运行|执行|命令", re.IGNORECASE
)
_SEVERAL = re.compile(r"\band\b|\bthen\b|\balso\b|[;；，]|并且|然后|同时", re.IGNORECASE)
_ADDS = re.compile(r"\b(?:add|append|implement|define|write|insert)\b|[加添]|实现|定义", re.IGNORECASE)
_RENAME = re.compile(r"\brenam\w*|重命名|改名", re.IGNORECASE)

Action = Mapping[str, Any]
Schema = dict[str, Any]


def wants_change(task: str) -> bool:
    """Whether files are to be changed: whatever is not put as a question, or has an order after one."""
    if _QUESTION.match(task) or task.rstrip().endswith(("?", "？")):
        parts = re.split(r"(?<=[.!?。！？])\s+|\band\b|，|然后", task)
        return any(_CHANGE.match(one.strip()) for one in parts[1:])
    return True


def offered(state: State, tools: Collection[str]) -> dict[str, Schema]:
    """By name: the actions that make sense now."""
    names = set(tools) - state.denied
    change = wants_change(state.task) and bool({"edit", "write"} & names)
    over = state.steps >= _MOST_STEPS or state.last_check or state.repeated >= 2
    over = over or state.stuck >= 4 or state.faults >= 4
    found: dict[str, Schema] = {}
    if change and not over and "todowrite" in names and _needs_plan(state):
        return {"plan": _plan(state)}
    if not over:
        if change:
            _changes(found, state, names)
        _looks(found, state, names)
        if "bash" in names and _RUN.search(state.task):
            found["run"] = _object("run", command=_string())
    right = not state.failing and not state.broken
    finished = bool(state.changed) and right and all(item.done for item in state.plan)
    if finished and not over:  # more than a further edit or the end would undo what is right
        found = {name: found[name] for name in ("edit", "run") if name in found}
    if over or finished or state.refused or not change or not found:
        found["done"] = _object("done", answer=_string())
    return found


def _needs_plan(state: State) -> bool:
    """Several files were read for a task that names several things, and nothing is planned or done yet."""
    if state.plan or state.steps or _RENAME.search(state.task) or asks_about_tests(state.task):
        return False
    return len([path for path in state.read if named(path, state.task)]) > 1 and bool(
        _SEVERAL.search(state.task)
    )


def _plan(state: State) -> Schema:
    item = {
        "type": "object",
        "properties": {"path": _one_of(state.read), "change": _string()},
        "required": ["path", "change"],
        "additionalProperties": False,
    }
    return _object("plan", steps={"type": "array", "items": item, "minItems": 1, "maxItems": MOST_ITEMS})


def _changes(found: dict[str, Schema], state: State, names: set[str]) -> None:
    current = next((item.path for item in state.plan if not item.done and item.path), "")
    seen = [current] if current else [path for path in state.read if path in state.paths]
    if asks_about_tests(state.task):  # the code is at fault, not what tests it
        seen = [path for path in seen if not _is_test(path)] or seen
    if "write" in names and "edit" in names and _RENAME.search(state.task) and not state.changed:
        found["rename"] = _object("rename", old=_word(), new=_word())
    if "edit" in names and seen:
        found["edit"] = _object("edit", path=_one_of(seen), old=_string(), new=_string())
    whole = [path for path in seen if path in state.texts]
    if "write" in names and whole and _ADDS.search(state.task):
        found["add"] = _object("add", path=_one_of(whole), text=_string())
    # A whole file is written where there is none yet, or where no edit would fit.
    new = [path for path in paths_in(state.task) if path not in state.paths]
    again = state.stuck or state.broken or state.failing
    if "write" in names and (new or not seen or again):
        short = [path for path in whole if state.texts[path].count("\n") <= SHORT] if again else []
        path = _one_of([*new, *short]) if new or short else _string()
        found["write"] = _object("write", path=path, content=_string())


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.partition(".")[0].endswith("_test")


def _looks(found: dict[str, Schema], state: State, names: set[str]) -> None:
    unread = [path for path in state.paths if path not in state.read][:_MOST_PATHS]
    if "read" in names and unread:
        found["read"] = _object("read", path=_one_of(unread))
    if "grep" in names and len(state.found) < 6 and not state.changed:
        found["search"] = _object("search", text=_string())


def schema_of(actions: Mapping[str, Schema]) -> Schema:
    return {"anyOf": list(actions.values())} if len(actions) > 1 else next(iter(actions.values()))


def _object(do: str, **parts: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"do": {"const": do}, **parts},
        "required": ["do", *parts],
        "additionalProperties": False,
    }


def _string() -> Schema:
    return {"type": "string"}


def _word() -> Schema:
    return {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


def _one_of(values: list[str]) -> Schema:
    return {"type": "string", "enum": values}


# from an action to calls


def calls_of(action: Action, state: State) -> list[ToolCall]:
    """The tool calls of an action; none where it is the answer, or names no action."""
    text = {key: value if isinstance(value, str) else str(value) for key, value in action.items()}
    path = text.get("path", "")
    match text.get("do"):
        case "read":
            return [_call("read", {"path": path, "limit": PAGE})]
        case "search":
            return [_call("grep", {"pattern": re.escape(text.get("text", "")), "max_matches": 30})]
        case "run":
            return [_call("bash", {"command": text.get("command", "")})]
        case "edit":
            arguments = {"path": path, "old_string": text.get("old", ""), "new_string": text.get("new", "")}
            return [_call("edit", arguments), _look("read", {"path": path, "limit": PAGE})]
        case "add":
            before = state.texts.get(path, "")
            return [_call("write", {"path": path, "content": _joined(before, text.get("text", ""))})]
        case "write":
            content = text.get("content", "")
            content += "" if content.endswith("\n") or not content else "\n"
            calls = [_call("write", {"path": path, "content": content})]
            if path in state.paths and path not in state.texts:
                calls.append(_look("read", {"path": path, "limit": PAGE}))  # which says what `write` lacked
            return calls
        case "plan":
            return [_call("todowrite", {"todos": _todos(action.get("steps"))}, PLAN)]
        case "rename":
            return _renamed(text.get("old", ""), text.get("new", ""), state)
    return []


def _joined(before: str, text: str) -> str:
    """The file with the text at its end, after as many blank lines as fit it."""
    text = text.strip("\n") + "\n"
    gap = "\n" if text.startswith((" ", "\t")) else "\n\n" if text.startswith(("def ", "class ", "@")) else ""
    return f"{before.rstrip()}\n{gap}{text}" if before.strip() else text


def _todos(steps: object) -> list[dict[str, str]]:
    items = [one for one in (steps if isinstance(steps, list) else []) if isinstance(one, dict)]
    return [
        {"content": f"{one.get('path')}: {one.get('change')}", "status": "pending"}
        for one in items[:MOST_ITEMS]
    ]


def plan_update(state: State) -> list[Wanted]:
    """The engine's list, where it does not know yet what is done."""
    if all(item.told == item.done for item in state.plan):
        return []
    todos = [{"content": one.what, "status": "completed" if one.done else "pending"} for one in state.plan]
    return [("todowrite", {"todos": todos})]


def _renamed(old: str, new: str, state: State) -> list[ToolCall]:
    """A change of every file that has the name as a whole word."""
    word = re.compile(rf"\b{re.escape(old)}\b")
    calls: list[ToolCall] = []
    for path, text in state.texts.items():
        if word.search(text):
            calls.append(_call("write", {"path": path, "content": word.sub(new, text)}))
    hits = {path for pattern, paths in state.found.items() if pattern == rf"\b{old}\b" for path in paths}
    calls += [
        _call("edit", {"path": path, "old_string": old, "new_string": new, "replace_all": True})
        for path in sorted(hits - set(state.texts))
    ]
    return calls or [_call("grep", {"pattern": rf"\b{re.escape(old)}\b"})]


def _call(name: str, arguments: Mapping[str, Any], prefix: str = "call_") -> ToolCall:
    return tool_call(f"{prefix}{os.urandom(9).hex()}", name, msgspec.json.encode(arguments).decode())


def look_calls(wanted: list[Wanted]) -> list[ToolCall]:
    return [_look(name, arguments) for name, arguments in wanted]


def _look(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return _call(name, arguments, LOOK)
