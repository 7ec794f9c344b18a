"""The actions that make sense now, as a JSON schema, and the tool calls that an action becomes."""

from __future__ import annotations

import json
import keyword
import os
import re
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from coder.models.guided.repair import UNCHANGED, at_fault, defined_in, functions_in, named_in, with_function
from coder.models.guided.state import LOOK, MOST_ITEMS, State, tries
from coder.protocol.messages import ToolCall, tool_call

MOST_FILES = 4  # read at the beginning
MOST_NAMES = 3  # searched for
PAGE = 160  # lines of a file that are read at once
_FEW = 3  # files of a workspace that is read whole
_IDENTIFIER = re.compile(
    r"`([A-Za-z_]\w{2,})(?:\(\))?`|\b([a-z]+_\w+|[a-z]+[A-Z]\w+|[A-Z]\w*[a-z]\w*[A-Z]\w+|[A-Z]{3,}\w*)\b|\b([A-Za-z_]\w+)\("
)
_PLAIN_NAME = re.compile(
    r"\b(?:function|method|class|variable|constant|rename)\s+`?([A-Za-z_]\w+)", re.IGNORECASE
)
_FAILS = re.compile(r"\bfail|\bbroken\b|\bpass\b|失败|不通过|通过", re.IGNORECASE)
_TESTS = re.compile(r"\btests?\b|\bchecks?\b|测试", re.IGNORECASE)
_ENDING = re.compile(
    r"\.(?:py|pyi|js|mjs|jsx|tsx?|json|toml|ya?ml|md|rst|txt|html?|css|s?css|sh|c|h|cc|cpp|hpp|rs|go|java|kt|rb|php|"
    r"sql|ini|cfg|conf|env|xml|csv|lua|swift|cs|vue|svelte|r|jl|pl|ex|exs|hs|ml|scala|dart|zig)\Z",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(r"\.(?:md|rst|txt|adoc)\Z|(?:\A|/)(?:LICENSE|CHANGELOG|NOTICE)\Z", re.IGNORECASE)
_TEXT = re.compile(r"\.(?:lock|png|jpe?g|gif|pdf|zip|gz|whl|so|pyc|ico|woff2?|gguf|bin)\Z", re.IGNORECASE)

Wanted = tuple[str, dict[str, Any]]


def first_look(state: State, tools: Collection[str]) -> list[Wanted]:
    """The calls of the next step; empty once there is nothing left to look for."""
    if state.steps:
        return []
    if state.looks == 0:
        calls: list[Wanted] = [("glob", {"pattern": "**/*"})] if "glob" in tools else [("list", {})]
        calls += [("grep", {"pattern": rf"\b{name}\b"}) for name in names_in(state.task) if "grep" in tools]
        if asks_about_tests(state.task) and state.check and "bash" in tools and "bash" not in state.denied:
            calls.append(("bash", {"command": state.check}))
        return [one for one in calls if one[0] in tools]
    if state.looks == 1 and "read" in tools:
        unread = [path for path in relevant(state) if path not in state.texts]
        return [("read", {"path": path, "limit": PAGE}) for path in unread]
    return []


def names_in(task: str) -> list[str]:
    """Identifiers that a task names."""
    found = [next(filter(None, groups)) for groups in _IDENTIFIER.findall(task)]
    found += _PLAIN_NAME.findall(task)
    words = [name for name in dict.fromkeys(found) if not re.search(rf"\b{re.escape(name)}\.\w", task)]
    return words[:MOST_NAMES]


def paths_in(task: str) -> list[str]:
    """The file names in a task; `Stack.pop` is none."""
    found = re.findall(r"(?<![\w/.-])[\w./-]*\w\.[A-Za-z]\w{0,4}\b(?!\()", task)
    return list(dict.fromkeys(name for name in found if "/" in name or _ENDING.search(name)))


def may_be_wrong(path: str) -> bool:
    """Whether it can make a test fail: the code, not what tests or describes it."""
    return not is_test(path) and not _DOCUMENT.search(path)


def asks_about_tests(task: str) -> bool:
    return bool(_TESTS.search(task) and _FAILS.search(task))


def relevant(state: State) -> list[str]:
    """The files to read first: named ones, then those that have the names, then all of a small workspace."""
    paths = [path for path in state.paths if not _TEXT.search(path) and not path.startswith(".")]
    chosen = [path for path in paths if named(path, state.task)]
    for files in state.found.values():
        chosen += [path for path in files if path in paths]
    chosen += [path for path in paths if PurePosixPath(path).name in state.output]
    if not chosen and len(paths) <= _FEW:
        chosen = paths
    chosen += [path for name in chosen for path in paths if path != name and _tests(name) == _tests(path)]
    # Tests first: what a later try shows in another way is the code, and the cache holds up to there.
    return sorted(list(dict.fromkeys(chosen))[:MOST_FILES], key=lambda path: not is_test(path))


def named(path: str, task: str) -> bool:
    name = PurePosixPath(path)
    if re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w-])", task):
        return True
    return bool(re.search(rf"(?<![\w.-]){re.escape(name.name)}(?![\w-])", task)) and "." in name.name


def check_again(state: State, tools: Collection[str]) -> list[Wanted]:
    """The check, after a change that was to fix it."""
    due = asks_about_tests(state.task) and state.unchecked and not state.broken and not state.last_check
    if not due or not state.check or "bash" not in tools or "bash" in state.denied:
        return []
    return [("bash", {"command": state.check})]


def is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.partition(".")[0].endswith("_test")


def _tests(path: str) -> str:
    """The name that a module and its tests share."""
    return PurePosixPath(path).stem.removeprefix("test_").removesuffix("_test")


SHORT = 60  # lines of a file that is written whole
_MOST_PATHS = 60  # named in a schema
_MOST_TRIES = 6  # changes that were wrong or did not help
_MOST_STEPS = 16
_CHANGE = re.compile(
    r"\b(?:fix|add|change|rename|replace|remove|delete|creat\w*|writ\w*|implement\w*|make|updat\w*|refactor|move|"
    r"correct|repair|convert|insert|set|rewrite|extract|append|put|use|sort|handle|support|return|raise|edit|"
    r"bump|increase|decrease|turn|let|save|document)\b|[改修加删写建换移补]|实现|创建|更新",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\A\W*(?:(?:what|where|who|when|which|why|how|is|are|does|do|did|can|could|should|has|have|explain|"
    r"describe|tell|list|show|find|count|summari[sz]e|name)(?=\s)|什么|哪|谁|为什么|怎么|如何|解释|列出|显示|说明|有多少)",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"\b(?:run|execute|command|install|commit|git|shell|output)\b|运行|执行|命令", re.IGNORECASE
)
_SEVERAL = re.compile(r",? \band\b|\bthen\b|\balso\b|[;；，。]|\. |并且|然后|同时", re.IGNORECASE)
_ADDS = re.compile(r"\b(?:add|creat|new|implement)|[加建]|实现", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_RENAME = re.compile(r"\brenam\w*|重命名|改名", re.IGNORECASE)

CHANGES = frozenset(("write", "edit", "rewrite", "rename"))

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
    over = state.steps >= _MOST_STEPS or state.last_check or state.repeated >= 4
    over = over or (state.failed_before and not asks_about_tests(state.task))
    over = over or state.stuck >= 4 or tries(state) >= _MOST_TRIES
    found: dict[str, Schema] = {}
    if not over and change and "write" in names and (place := _place_of_fault(state)):
        return {"rewrite": _object("rewrite", **{key: {"const": value} for key, value in place.items()})}
    if not over:
        if change:
            _changes(found, state, names)
        _looks(found, state, names)
        if "bash" in names and _RUN.search(state.task):
            found["run"] = _object("run", command=_string())
    right = not state.failing and not state.broken
    finished = bool(state.changed) and right and all(item.done for item in state.plan)
    if finished and not over:
        found = _more(found, state)
    if over or finished or state.refused or not change or not found:
        found["done"] = _object("done")
    return found


def _more(found: dict[str, Schema], state: State) -> dict[str, Schema]:
    """What may follow a change that is right: another file's, or what a long file still lacks. A small model
    that is asked once more about a short one undoes it."""
    if _RENAME.search(state.task):
        return {}
    left = [path for path in _changeable(state) if path not in state.changed]
    names = ("edit", "write", "run") if left else ("edit", "run")
    return {name: found[name] for name in names if name in found}


def _changeable(state: State) -> list[str]:
    """The files that were read and may be changed now: first those that are broken, then the plan's next."""
    if state.broken:
        return list(state.broken)
    if current := next((item.path for item in state.plan if not item.done and item.path), ""):
        return [current]
    seen = [path for path in state.read if path in state.paths]
    seen = [path for path in seen if named(path, state.task)] or seen
    if asks_about_tests(state.task):  # the code is at fault, not what tests it
        seen = [path for path in seen if may_be_wrong(path)] or seen
    return seen


def _place_of_fault(state: State) -> dict[str, str]:
    """The function to write anew, where a try at its file came back unchanged or failed the check."""
    if not state.changed or not (state.failing or UNCHANGED in state.broken.values()):
        return {}
    found = (function_at_fault(state, one) for one in [state.changed[-1], *_changeable(state)])
    return next(filter(None, found), {})


def function_at_fault(state: State, path: str) -> dict[str, str]:
    """Of one file: what the check points at, what the task names, or its only one."""
    text = text_to_mend(state, path)
    if not path.endswith(".py") or text.count("\n") > PAGE or not may_be_wrong(path):
        return {}
    name = at_fault(path, text, state.output) if state.failing else ""
    if not name and not _ADDS.search(state.task):
        only = list(functions_in(text)) if len(functions_in(text)) == 1 else [""]
        name = named_in(text, state.task) or only[0]
    return {"path": path, "name": name} if name else {}


def text_to_mend(state: State, path: str) -> str:
    """The file as it is, or as it was at first where a try has added or lost definitions, or nothing more
    than blank lines."""
    now, first = state.texts.get(path, ""), state.watch.first(path)
    kept = state.broken.get(path) != UNCHANGED and defined_in(now) == defined_in(first) and functions_in(now)
    return now if kept else first


def _changes(found: dict[str, Schema], state: State, names: set[str]) -> None:
    seen = _changeable(state)
    new = new_paths(state)
    if {"write", "edit"} <= names and not state.changed and (rename := _rename(state)):
        found["rename"] = rename
        return
    short = [path for path in seen if state.texts.get(path, "\n" * PAGE).count("\n") <= SHORT]
    if "write" in names and (new or short or not seen):
        found["write"] = _object("write", path=_one_of([*new, *short]) if new or short else _string())
    long = [path for path in seen if path not in short or "write" not in names]
    if "edit" in names and long:
        found["edit"] = _any([_edit(path, state) for path in long])


def _rename(state: State) -> Schema | None:
    """Both names are words of the task, the old one is in a file. Of a file's name it says nothing."""
    if not _RENAME.search(state.task) or new_paths(state) or state.stuck or state.repeated:
        return None
    words = [word for word in dict.fromkeys(_WORD.findall(state.task)) if not keyword.iskeyword(word)]
    known = {word for text in state.texts.values() for word in _WORD.findall(text)}
    old = [word for word in words if word in known]
    return _object("rename", old=_one_of(old), new=_one_of(words)) if old else None


def _edit(path: str, state: State) -> Schema:
    """`old` is a line that the file has once: what a small model copies wrong cannot be said."""
    lines = state.texts.get(path, "").split("\n")
    once = [line for line in lines if line.strip() and lines.count(line) == 1]
    old = _one_of(once) if once and not state.stuck else _string()
    return _object("edit", path={"const": path}, old=old, new=_string())


def new_paths(state: State) -> list[str]:
    """Files that the task names and that do not exist."""
    return [path for path in paths_in(state.task) if path not in state.paths]


def _looks(found: dict[str, Schema], state: State, names: set[str]) -> None:
    hits = {path for paths in state.found.values() for path in paths}
    if any(named(path, state.task) or path in hits for path in state.read) or new_paths(state):
        return  # what the task names was read, or is to be made
    if asks_about_tests(state.task) and any(map(may_be_wrong, state.read)):
        return
    unread = [path for path in state.paths if path not in state.read][:_MOST_PATHS]
    if "read" in names and unread:
        found["read"] = _object("read", path=_one_of(unread))
    if "grep" in names and len(state.found) < 6 and not state.changed:
        found["search"] = _object("search", text=_string())


def schema_of(actions: Mapping[str, Schema]) -> Schema:
    return _any(list(actions.values()))


def is_allowed(action: Action, actions: Mapping[str, Schema]) -> bool:
    """Whether it only looks, or something of its kind is offered. A server that constrains nothing lets a
    model answer with any action."""
    do = action.get("do")
    return not CHANGES.isdisjoint(actions) if do in CHANGES else do != "run" or do in actions


def only_action(actions: Mapping[str, Schema]) -> dict[str, Any] | None:
    """The one action that can come next, where nothing is left to choose."""
    if set(actions) == {"done"}:
        return {"do": "done"}
    if set(actions) == {"rewrite"}:
        return {key: value["const"] for key, value in actions["rewrite"]["properties"].items()}
    paths = actions["write"]["properties"]["path"].get("enum", []) if set(actions) == {"write"} else []
    return {"do": "write", "path": paths[0]} if len(paths) == 1 else None


def _any(schemas: list[Schema]) -> Schema:
    return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]


def _object(do: str, **parts: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"do": {"const": do}, **parts},
        "required": ["do", *parts],
        "additionalProperties": False,
    }


def _string() -> Schema:
    return {"type": "string"}


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
        case "write":
            content = text.get("content", "")
            content += "" if content.endswith("\n") or not content else "\n"
            calls = [_call("write", {"path": path, "content": content})]
            if path in state.paths and path not in state.texts:
                calls.append(_look("read", {"path": path, "limit": PAGE}))  # which says what `write` lacked
            return calls
        case "rewrite":
            whole = with_function(text_to_mend(state, path), text["name"], text.get("content", ""))
            return [_call("write", {"path": path, "content": whole})]
        case "rename":
            return _renamed(text.get("old", ""), text.get("new", ""), state)
    return []


def plan(state: State, tools: Collection[str]) -> list[Wanted]:
    """The engine's list: what the task says of each file, where it names several and not all at once."""
    paths = [path for path in state.read if named(path, state.task)]
    if state.plan or state.steps or "todowrite" not in tools or not 1 < len(paths) <= MOST_ITEMS:
        return []
    if not wants_change(state.task) or _RENAME.search(state.task) or asks_about_tests(state.task):
        return []
    clauses = [clause for clause in _SEVERAL.split(state.task) if clause.strip()]
    said = {path: [one.strip(" .,，。") for one in clauses if named(path, one)] for path in paths}
    order = sorted(paths, key=lambda path: state.task.find(said[path][0]) if said[path] else 0)
    todos = [{"content": f"{path}: {(said[path] or [state.task])[0]}", "status": "pending"} for path in order]
    return [("todowrite", {"todos": todos})] if len(clauses) > 1 else []


def plan_update(state: State) -> list[Wanted]:
    """The engine's list, where it does not know yet what is done."""
    if all(item.told == item.done for item in state.plan):
        return []
    todos = [{"content": one.what, "status": "completed" if one.done else "pending"} for one in state.plan]
    return [("todowrite", {"todos": todos})]


def _renamed(old: str, new: str, state: State) -> list[ToolCall]:
    """A change of every file that has the name as a whole word; a look only, where it is none."""
    if not (old.isidentifier() and new.isidentifier()):
        return [_call("grep", {"pattern": re.escape(old or new)})]
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


_STRING = r'''string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""'''
_RULE_NAME = r'word ::= "\"" [A-Za-z_] [A-Za-z0-9_]* "\""'


def grammar_of(schema: dict[str, Any]) -> str:
    return "\n".join([f"root ::= {_rule(schema)}", _STRING, _RULE_NAME])


def _rule(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(f"( {_rule(one)} )" for one in schema["anyOf"])
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return "( " + " | ".join(_literal(value) for value in schema["enum"]) + " )"
    if schema.get("type") == "array":
        item = _rule(schema["items"])
        more = int(schema["maxItems"]) - 1
        return f'"[" {item} ( ", " {item} ){{0,{more}}} "]"'
    if schema.get("type") == "object":
        members = [
            f"{_text(json.dumps(key) + ': ')} {_rule(value)}" for key, value in schema["properties"].items()
        ]
        return '"{" ' + ' ", " '.join(members) + ' "}"'
    return "word" if "pattern" in schema else "string"


def _literal(value: object) -> str:
    return _text(json.dumps(value))


def _text(text: str) -> str:
    """A terminal of the grammar, which has the escapes of a JSON string."""
    return json.dumps(text)
