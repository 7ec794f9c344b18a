"""The conversation as a small model is shown it: a short prompt, actions as JSON, results in a few lines.

Every message is rendered by itself and by what came before it, so that the prompt only grows and the server's
KV cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coder.model.guided.failure import two_lines
from coder.model.guided.faults import Watch
from coder.model.guided.state import (
    LOOK,
    PLAN,
    VERIFY,
    arguments_of,
    is_note,
    listed_paths,
    not_of_model,
    plain_lines,
    succeeded,
    task_of,
)
from coder.protocol.messages import INSTRUCTIONS, Image, Message, ToolCall

PROMPT = """\
You work in a folder of files. Each answer is one JSON action, for example:
{"do": "read", "path": "app.py"}
{"do": "edit", "path": "app.py", "old": "    return a\\n", "new": "    return a + 1\\n"}
{"do": "add", "path": "app.py", "text": "def g(b):\\n    return b * 2\\n"}
{"do": "done", "answer": "f in app.py now returns a + 1"}
"old" is copied exactly from the file: the lines that change, with their indentation. "new" replaces them. \
"add" puts "text" at the end of the file.
Change only what the task asks for. Keep everything else as it is."""

_LINES = 40  # of a search or of a command's output
_NAMES = 60  # of a workspace
_RULES = 800  # characters of the project's instructions
_NOTE = 300  # characters of another message of the engine


def rendered(messages: Sequence[Message]) -> list[Message]:
    out = [Message(role="system", content=PROMPT)]
    calls: dict[str, ToolCall] = {}
    failed: dict[str, str] = {}
    watch = Watch()
    for message in messages:
        if message.role == "user":
            watch = watch if is_note(message.content) else Watch()
            _add(out, "user", _said(message.content), message.images)
        elif message.role == "assistant":
            calls.update({call.id: call for call in message.tool_calls})
            _add(out, "assistant", _done(message))
        elif message.role == "tool" and message.tool_call_id in calls:
            result = _result(calls[message.tool_call_id or ""], message.content, failed, watch)
            _add(out, "user", result, message.images)
    return out


def _add(messages: list[Message], role: Any, text: str, images: Sequence[Image] = ()) -> None:
    if not text:
        return
    last = messages[-1]
    if last.role == role:
        content = f"{last.content}\n{text}"
        messages[-1] = Message(role=role, content=content, images=[*last.images, *images])
    else:
        messages.append(Message(role=role, content=text, images=list(images)))


def _said(text: str) -> str:
    if text.startswith(INSTRUCTIONS):
        return f"Rules of the project:\n{text.removeprefix(INSTRUCTIONS).partition('</')[0].strip()[:_RULES]}"
    if found := VERIFY.match(text):
        told = f"The check `{found[1]}` fails.\n{two_lines(text[found.end() :])}"
        last = "last automatic check" in text
        return f"{told}\n{'Say what still fails.' if last else 'Find the mistake and change the file.'}"
    if is_note(text):
        return task_of(text)[:_NOTE]
    return f"Task: {task_of(text)}"


def _done(message: Message) -> str:
    """The action that an answer was."""
    own = [call for call in message.tool_calls if not not_of_model(call)]
    if not message.tool_calls:
        return _json({"do": "done", "answer": message.content}) if message.content else ""
    if not own:
        return ""
    if len(own) > 1 and own[0].name in ("write", "edit"):
        return _json({"do": "rename", "in": [arguments_of(call).get("path") for call in own]})
    return _json(_action(own[0]))


def _action(call: ToolCall) -> dict[str, Any]:
    args = arguments_of(call)
    match call.name:
        case "edit":
            return {
                "do": "edit",
                "path": args.get("path"),
                "old": args.get("old_string"),
                "new": args.get("new_string"),
            }
        case "write":
            return {"do": "write", "path": args.get("path"), "content": args.get("content")}
        case "read":
            return {"do": "read", "path": args.get("path")}
        case "grep":
            return {"do": "search", "text": str(args.get("pattern") or "").replace("\\", "")}
        case "bash":
            return {"do": "run", "command": args.get("command")}
        case "todowrite":
            told = [str(one.get("content")).partition(": ") for one in args.get("todos") or []]
            return {"do": "plan", "steps": [{"path": path, "change": change} for path, _, change in told]}
    return {"do": call.name, **args}


def _json(value: dict[str, Any]) -> str:
    """As a model writes it: with a blank after colon and comma."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _result(call: ToolCall, content: str, failed: dict[str, str], watch: Watch) -> str:
    args = arguments_of(call)
    path = str(args.get("path") or "")
    ok = succeeded(content)
    match call.name:
        case "read" if ok:
            text = plain_lines(content)
            fault = "" if text is None else watch.saw(path, text)
            return f"{_state_of(call, path, failed)}\n{fenced(content)}{_mistake(path, fault)}"
        case "glob" | "list" if ok:
            names = [name for name in listed_paths(content, path) if not name.startswith(".")]
            return f"Files: {', '.join(names[:_NAMES])}" + ("" if len(names) <= _NAMES else ", …")
        case "grep" if call.id.startswith(LOOK):
            return ""  # the files that have it are read
        case "todowrite":
            return _steps(call, args)
        case "write" | "edit" if ok:
            text = str(args.get("content") or "") if call.name == "write" else None
            if fault := watch.changed(path, text):
                return f"Changed {path}.{_mistake(path, fault)}"
            return f"Changed {path}. If that is all that the task asks for, answer done."
        case "edit" if not content.startswith("denied:"):
            failed[path] = call.id
            return f"error: nothing was changed: {_why(content)}"
        case "bash" if not ok:
            return f"`{args.get('command')}` fails.\n{two_lines(content)}"
    return _shortened(content)


def _mistake(path: str, fault: str) -> str:
    return f"\nerror: {path} is wrong now: {fault}. Correct it." if fault else ""


def _steps(call: ToolCall, args: dict[str, Any]) -> str:
    """The engine's list, where it has several items; of the model's own plan the step that is next."""
    items = [one for one in args.get("todos") or [] if isinstance(one, dict)]
    if len(items) < 2:
        return ""
    if not call.id.startswith((LOOK, PLAN)):
        return "\n".join(f"{at}. {item.get('content')}" for at, item in enumerate(items, 1))
    left = [item for item in items if item.get("status") != "completed"]
    return f"Now do: {left[0].get('content')}" if left else ""


def _why(content: str) -> str:
    """The engine's words on a failed edit, for a model that knows `old` and `new`."""
    first = content.removeprefix("error: ").split("\n")[0].split(";")[0]
    return first.replace("old_string", '"old"').replace("new_string", '"new"') + "."


def _state_of(call: ToolCall, path: str, failed: dict[str, str]) -> str:
    if not call.id.startswith(LOOK):
        return f"{path}:"
    return f"{path} still is:" if failed.pop(path, "") else f"{path}:"


def fenced(content: str) -> str:
    """Numbered lines as the plain text of the file."""
    lines = []
    for line in content.split("\n"):
        number, tab, text = line.partition("\t")
        lines.append(text if tab and number.isdigit() else line)
    return "```\n" + "\n".join(lines) + "\n```"


def _shortened(content: str) -> str:
    lines = content.split("\n")
    if len(lines) > _LINES:
        lines = [*lines[: _LINES // 2], "…", *lines[-_LINES // 2 :]]
    return "\n".join(line[:200] for line in lines)
