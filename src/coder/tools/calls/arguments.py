"""Check a call's arguments against the tool's own parameters, so that tools can trust their types.

Only what our parameters use of JSON Schema: type, enum, items, properties, required. What a model plainly
meant (`"10"` for a number, `"true"` for a boolean) is taken as meant."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coder.models.json_repair import NotReadable, read_lenient
from coder.tools.calls.names import AGENTS, FILE_TYPES, PARAMETERS, STATUSES, folded
from coder.tools.search.globs import literally

_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


class BadArguments(Exception):
    """What is wrong, and what the tool accepts."""


def as_object(arguments: Any) -> dict[str, Any]:
    """For a tool that validates its own parameters; raises `BadArguments`."""
    if not isinstance(arguments, dict):
        raise BadArguments("the arguments must be a JSON object")
    return arguments


def checked(
    arguments: Any, parameters: dict[str, Any], extras: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments validated and coerced; raises `BadArguments`. `extras`: undocumented parameters that are
    accepted as well."""
    if not isinstance(arguments, dict):
        raise BadArguments(f"the arguments must be a JSON object with {takes(parameters)}")
    properties = {**parameters.get("properties", {}), **(extras or {})}
    given = {k: v for k, v in arguments.items() if v is not None}
    if missing := [name for name in parameters.get("required", []) if name not in given]:
        raise BadArguments(f"missing {', '.join(missing)}; the tool takes {takes(parameters)}")
    if parameters.get("additionalProperties") is False and (
        unknown := [name for name in given if name not in properties]
    ):
        raise BadArguments(f"unknown {', '.join(unknown)}; the tool takes {takes(parameters)}")
    return {
        name: _value(value, properties[name], name) if name in properties else value
        for name, value in given.items()
    }


def takes(parameters: dict[str, Any]) -> str:
    """The parameters in a few words, for a model that got them wrong."""
    required = parameters.get("required", [])
    names = [n if n in required else f"{n}?" for n in parameters.get("properties", {})]
    return ", ".join(names) or "no arguments"


def _value(value: Any, schema: dict[str, Any], name: str) -> Any:
    kind = schema.get("type")
    value = _meant(value, kind)
    if kind in _NAMES and not _is(value, kind):
        raise BadArguments(f"{name} must be {_NAMES[kind]}, not {_short(value)}")
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(map(str, schema["enum"]))
        raise BadArguments(f"{name} must be one of {choices}, not {_short(value)}")
    if kind == "array" and "items" in schema:
        return [_value(item, schema["items"], f"{name}[{at}]") for at, item in enumerate(value)]
    if kind == "object" and "properties" in schema:
        properties = schema["properties"]
        for needed in schema.get("required", []):
            if needed not in value:
                raise BadArguments(f"{name} needs {needed}")
        return {
            k: _value(v, properties[k], f"{name}.{k}") if k in properties else v for k, v in value.items()
        }
    return value


def _meant(value: Any, kind: str | None) -> Any:
    if kind == "integer":
        return _whole(value)
    if kind == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 20:
        return int(value)
    return value


def _is(value: Any, kind: str) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "array": list, "object": dict}[kind])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


Given = dict[str, Any]
_SEARCH, _REPLACE = re.compile(r"[<-]{5,9} ?SEARCH"), re.compile(r"[>+]{5,9} ?REPLACE")
_START_LINE, _RULE = re.compile(r":start_line:"), re.compile(r"-{5,9}\Z")
_RANGE = re.compile(r"\s*L?(\d+)\s*(?:-|,|:|\.\.|to)\s*L?(-?\d+)\s*")
_CHECKBOX = re.compile(r"\s*(?:[-*+]|\d+[.)])?\s*\[(.?)\]\s*(.+)")
_URL = re.compile(r"https?://[^\s<>\"')\]]+")


def read_json(value: Any) -> Any:
    """A JSON text of an object or a list as what it holds; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    text = value.strip()
    try:
        found, end = read_lenient(text)
    except (NotReadable, ValueError, RecursionError):
        return value
    return found if end == len(text) else value


def _first(given: Given, *names: str) -> Any:
    """An argument under any of its names."""
    return next((given[name] for name in names if given.get(name) is not None), None)


def _path(given: Given, *names: str) -> str:
    path = _first(given, *(names or ("path", "filepath", "file", "filename", "targetfile")))
    if not isinstance(path, str) or not path.strip() or "\n" in path:
        raise BadArguments("give the file as path")
    return path


def _editor(given: Given) -> tuple[str, Given]:
    """Anthropic's text editor tool: the verb is in `command`."""
    verb = folded(str(given.pop("command", "")))
    path = _path(given)
    if verb == "view":
        return "read", given
    if verb in ("create", "write"):
        return "write", given
    if verb in ("strreplace", "replace"):
        given.setdefault("newstr", "")  # left out where text is only taken away
        return "edit", given
    if verb == "insert":
        return "patch", {"patch": _insertion(path, given)}
    raise BadArguments(f"command {verb!r} is not known; it is view, create, str_replace or insert")


def _insertion(path: str, given: Given) -> str:
    text = _first(given, "newstr", "inserttext", "text", "content")
    line = _first(given, "insertline", "line", "linenumber")
    if not isinstance(text, str) or not str(line).isdecimal():
        raise BadArguments("insert needs insert_line (a number, 0 for the top) and insert_text")
    lines = text.removesuffix("\n").split("\n")
    body = "\n".join(f"+{one}" for one in lines)
    return f"--- a/{path}\n+++ b/{path}\n@@ -{line},0 +{int(line) + 1},{len(lines)} @@\n{body}\n"


def _deletion(given: Given) -> tuple[str, Given]:
    _refuse_others(given, "path", "filepath", "file", "filename", "targetfile", "explanation", "description")
    return "patch", {"patch": f"*** Begin Patch\n*** Delete File: {_path(given)}\n*** End Patch"}


def _move(given: Given) -> tuple[str, Given]:
    sources = ("source", "sourcepath", "from", "src", "oldpath", "old", "path", "filepath", "oldname")
    targets = ("destination", "destinationpath", "to", "dest", "newpath", "new", "target", "newname")
    _refuse_others(given, *sources, *targets, "explanation", "description")
    moved = f"*** Update File: {_path(given, *sources)}\n*** Move to: {_path(given, *targets)}"
    return "patch", {"patch": f"*** Begin Patch\n{moved}\n*** End Patch"}


def _refuse_others(given: Given, *names: str) -> None:
    if others := [name for name, value in given.items() if name not in names and value not in (None, False)]:
        raise BadArguments(f"unknown {', '.join(others)}; use bash for what needs more than a path")


def _search_files(given: Given) -> tuple[str, Given]:
    """Of some this searches names, of others contents: what it is given tells which."""
    if "regex" in given or "query" in given:
        return "grep", given
    pattern = str(given.get("pattern", ""))
    if re.search(r"[*?]", pattern) and not re.search(r"[.\\][*+]|[()|^$]", pattern):
        return "glob", given
    raise BadArguments("use grep to search in files, glob to find files by name")


def _job(action: str) -> Callable[[Given], tuple[str, Given]]:
    return lambda given: ("job", {**given, "action": action})


SHAPES: dict[str, Callable[[Given], tuple[str, Given]]] = {
    **dict.fromkeys(("strreplaceeditor", "strreplacebasededittool", "texteditor", "editor"), _editor),
    **dict.fromkeys(("deletefile", "removefile", "filedelete"), _deletion),
    **dict.fromkeys(("movefile", "renamefile", "filemove", "filerename"), _move),
    "searchfiles": _search_files,
    **dict.fromkeys(("bashoutput", "shelloutput", "taskoutput"), _job("output")),
    **dict.fromkeys(("killshell", "killbash", "taskstop"), _job("stop")),
}


def settled(meant: str, given: Given, root: Path) -> tuple[str, Given]:
    """The call, corrected by rules of its tool."""
    settle = _SETTLE.get(meant)
    return settle(given, root) if settle else (meant, given)


def _read(given: Given, root: Path) -> tuple[str, Given]:
    span, end = given.pop("range", None), given.pop("end", None)
    if isinstance(span, str) and (match := _RANGE.fullmatch(span)):
        span = [match[1], match[2]]
    if isinstance(span, list) and len(span) == 2:
        given["offset"], end = span
    elif span is not None:
        given.setdefault("limit", span)
    if end is not None and "limit" not in given:
        first, last = _as_integer(given.get("offset") or 1), _as_integer(end)
        if last != -1:  # the end of the file
            given["limit"] = last - max(first, 1) + 1
    return "read", given


def _as_integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise BadArguments(f"{value!r} is no line number") from None


def _list(given: Given, root: Path) -> tuple[str, Given]:
    if _flag(given, "recursive"):
        return "glob", {**given, "pattern": "**"}
    return "list", given


def _flag(given: Given, name: str, otherwise: bool = False) -> bool:
    """A switch, taken out of the arguments."""
    value = given.pop(name, otherwise)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool | int):
        raise BadArguments(f"{name} must be true or false, not {value!r}")
    return bool(value)


def _grep(given: Given, root: Path) -> tuple[str, Given]:
    literal = _flag(given, "literal") or not _flag(given, "is_regex", True)
    flags = "i" if _flag(given, "ignore_case") or not _flag(given, "case_sensitive", True) else ""
    flags += "s" if _flag(given, "multiline") else ""
    if _flag(given, "files_only"):
        given["output_mode"] = "files_with_matches"
    if isinstance(pattern := given.get("pattern"), str):
        pattern = literally(pattern) if literal else pattern
        given["pattern"] = f"(?{flags}){pattern}" if flags else pattern
    kind = given.pop("type", None)
    if isinstance(kind, str) and "glob" not in given:
        given["glob"] = f"*.{FILE_TYPES.get(kind.lower(), kind.lower()).lstrip('.')}"
    return "grep", given


def _write(given: Given, root: Path) -> tuple[str, Given]:
    content = given.get("content")
    if isinstance(content, dict | list) and str(given.get("path", "")).endswith(".json"):
        given["content"] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return "write", given


def _edit(given: Given, root: Path) -> tuple[str, Given]:
    diff = given.pop("diff", None)
    if isinstance(diff, str):
        blocks = _blocks(diff.replace("\r\n", "\n"))
        if not blocks:
            return "patch", {"patch": with_header(diff, given.get("path"))}
        given["edits"] = [{"old_string": old, "new_string": new} for old, new in blocks]
    edits = read_json(given.get("edits"))
    edits = [edits] if isinstance(edits, dict) else edits
    if isinstance(edits, list):
        given["edits"] = [_named("edit", item) for item in edits]
        _lift_path(given)
    return "edit", given


def _blocks(text: str) -> list[tuple[str, str]]:
    """What is searched for and what replaces it, of blocks between lines of `<`, `=` and `>`."""
    found: list[tuple[str, str]] = []
    lines = text.split("\n")
    at = 0
    while (start := _line(lines, at, _SEARCH.match)) is not None:
        first = start + 1
        for heading in (_START_LINE, _RULE):
            first += bool(first < len(lines) and heading.match(lines[first]))
        middle = _line(lines, first, lambda line: line.startswith("====="))
        end = _line(lines, middle + 1, _REPLACE.match) if middle is not None else None
        if middle is None or end is None:
            break
        old, new = lines[first:middle], lines[middle + 1 : end]
        found.append(("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)))
        at = end + 1
    return found


def _line(lines: list[str], at: int, wanted: Callable[[str], object]) -> int | None:
    return next((number for number in range(at, len(lines)) if wanted(lines[number])), None)


def _lift_path(given: Given) -> None:
    """Move the path from the edits to the call, which is about one file."""
    named = {str(item.pop("path")) for item in given["edits"] if isinstance(item, dict) and "path" in item}
    named |= {str(given["path"])} if "path" in given else set()
    if len(named) > 1:
        raise BadArguments("the edits are of several files; make a call for each, or use patch")
    if named:
        given["path"] = named.pop()


def _patch(given: Given, root: Path) -> tuple[str, Given]:
    path, text = given.pop("path", None), given.get("patch")
    if isinstance(path, str) and isinstance(text, str):
        if _blocks(text):
            return _edit({"path": path, "diff": text}, root)
        given["patch"] = with_header(text, path)
    return "patch", given


def with_header(diff: str, path: Any) -> str:
    """A diff of hunks alone, under the name of the file that it is for."""
    if isinstance(path, str) and not re.search(r"^(\+\+\+ |\*\*\* |diff )", diff, re.MULTILINE):
        return f"--- a/{path}\n+++ b/{path}\n{diff}"
    return diff


def _named(tool: str, item: Any) -> Any:
    """One of several, with its keys under our names."""
    if not isinstance(item, dict):
        return item
    aliases = PARAMETERS[tool]
    return {aliases.get(folded(key), key): value for key, value in item.items()}


def command_line(words: list[Any]) -> str:
    """An argument vector as a shell line; `bash -c LINE` is that line."""
    texts = [str(word) for word in words]
    if not texts:
        raise BadArguments("command is empty")
    shell = len(texts) == 3 and re.fullmatch(r"(/bin/|/usr/bin/)?(ba|z|da)?sh", texts[0])
    if shell and texts[1] in ("-c", "-lc", "-cl"):
        return texts[2]
    if " " in texts[0].strip():
        raise BadArguments("command is one line; join several commands with && or a new line")
    return shlex.join(texts)


def _bash(given: Given, root: Path) -> tuple[str, Given]:
    directory = given.pop("cwd", None)
    if directory is not None and str(directory).rstrip("/") not in ("", ".", str(root), "$PWD"):
        raise BadArguments(
            f"commands run in the workspace; for another folder write cd {shlex.quote(str(directory))} && … "
            "in command"
        )
    seconds, either = given.pop("timeout_s", None), given.pop("timeout", None)
    if seconds is not None:
        given["timeout_ms"] = round(_amount(seconds) * 1000)
    elif either is not None and "timeout_ms" not in given:
        # Some peers count in seconds, some in milliseconds; nobody means 999 ms, or 17 minutes.
        given["timeout_ms"] = round(_amount(either) * (1000 if _amount(either) < 1000 else 1))
    return "bash", given


def _amount(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        why = f"timeout must be a number, not {value!r}; timeout_ms is in milliseconds"
        raise BadArguments(why) from None


def _todos(given: Given, root: Path) -> tuple[str, Given]:
    todos = given.get("todos")
    if isinstance(todos, str) and not todos.lstrip().startswith(("[", "{")):
        todos = [line for line in todos.splitlines() if line.strip()]
    todos = read_json(todos)
    if isinstance(todos, dict):
        todos = next((value for value in todos.values() if isinstance(value, list)), [todos])
    if isinstance(todos, list):
        given["todos"] = [_todo(item) for item in todos]
    return "todowrite", given


def _todo(item: Any) -> Any:
    if isinstance(item, str):
        box = _CHECKBOX.fullmatch(item)
        mark = (box[1] if box else "").strip().lower()
        done = {"x": "completed", ">": "in_progress", "~": "in_progress", "-": "cancelled"}
        return {"content": box[2] if box else item.strip(" -*"), "status": done.get(mark, "pending")}
    if not isinstance(item, dict):
        return item
    known = {folded(key): value for key, value in item.items()}
    content = _first(known, "content", "step", "title", "text", "task", "name", "todo", "description")
    status = _first(known, "status", "state")
    if status is None:
        status = "completed" if _first(known, "done", "completed") in (True, "true") else "pending"
    meant = STATUSES.get(folded(str(status)), status)
    kept = {key: known[key] for key in ("id", "priority") if known.get(key) is not None}
    if "id" in kept:
        kept["id"] = str(kept["id"])
    return {**kept, "content": content if content is not None else "", "status": meant}


def _task(given: Given, root: Path) -> tuple[str, Given]:
    if isinstance(agent := given.get("agent"), str):
        given["agent"] = AGENTS.get(folded(agent), agent)
    return "task", given


def _skill(given: Given, root: Path) -> tuple[str, Given]:
    given.setdefault("action", "load" if given.get("name") else "list")
    return "skill", given


def _fetch(given: Given, root: Path) -> tuple[str, Given]:
    prompt = given.pop("prompt", None)
    if "url" not in given and isinstance(prompt, str) and len(found := set(_URL.findall(prompt))) == 1:
        given["url"] = found.pop()
    return "fetch", given


_SETTLE: dict[str, Callable[[Given, Path], tuple[str, Given]]] = {
    "read": _read,
    "list": _list,
    "grep": _grep,
    "write": _write,
    "edit": _edit,
    "patch": _patch,
    "bash": _bash,
    "todowrite": _todos,
    "task": _task,
    "skill": _skill,
    "fetch": _fetch,
}
