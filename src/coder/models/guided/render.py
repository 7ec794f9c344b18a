"""The conversation as a small model is shown it: a short prompt, actions as JSON, results in a few lines.

Every message is rendered by what came before it, so that the prompt grows and the server's KV cache holds;
only after a wrong text or a failed check it goes on from an earlier point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coder.models.guided.actions import SHORT, text_to_mend
from coder.models.guided.repair import Watch, without_body
from coder.models.guided.state import (
    LOOK,
    VERIFY,
    State,
    arguments_of,
    is_note,
    listed_paths,
    not_of_model,
    plain_lines,
    succeeded,
    task_of,
)
from coder.protocol.messages import INSTRUCTIONS, Image, Message, ToolCall

_COMPARED = re.compile(r"(?:AssertionError: )?(?:assert )?(?P<got>.+?) (?P<how>==|!=) (?P<expected>.+)")
_WHERE = re.compile(r"\+\s+where (?P<value>.+?) = (?P<call>.+)")
_ERROR = re.compile(r"(?m)^(?:E\s+)?(?P<error>[A-Za-z_.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$")
_PLACE = re.compile(r"(?m)^(?P<place>[\w./-]+\.\w+:\d+)(?::|$)|File \"(?P<file>[^\"]+)\", line (?P<line>\d+)")
_CALLED = re.compile(r"(?m)^\s*(?:>\s+)?self\.assert\w+\((?P<call>.+)\)\s*$")
_LONGEST = 160


def summarize_failure(output: str) -> str:
    """Of the first failure. Where nothing was compared: the error and its place."""
    stated = [line[1:].strip() for line in output.split("\n") if re.match(r"E\s{2,}", line)]
    for at, line in enumerate(stated):
        compared = _COMPARED.fullmatch(line)
        if compared and compared["how"] == "==":
            where = next((found for one in stated[at + 1 :] if (found := _WHERE.match(one))), None)
            got = compared["got"]
            if where and where["value"] == got:
                return _lines(f"{where['call']} == {compared['expected']}", got)
            return _lines(compared["expected"], got)
    if found := re.search(r"(?m)^AssertionError: (?P<got>.+?) != (?P<expected>.+)$", output):
        call = _CALLED.search(output)
        expected = found["expected"].split(" : ")[0]
        subject = f"{call['call'].rpartition(',')[0]} == " if call and "," in call["call"] else ""
        return _lines(f"{subject}{expected}", found["got"])
    if errors := list(_ERROR.finditer(output)):
        error = errors[-1] if "Traceback" in output else errors[0]
        places = [one["place"] or f"{one['file']}:{one['line']}" for one in _PLACE.finditer(output)]
        at_place = f" at {places[-1]}" if places else ""
        return _lines("no error", error["error"].strip() + at_place)
    told = [line.strip() for line in output.strip().split("\n") if line.strip()]
    return "\n".join(line[:_LONGEST] for line in told[-2:])


def _lines(expected: str, got: str) -> str:
    return f"expected: {expected.strip()[:_LONGEST]}\ngot: {got.strip()[:_LONGEST]}"


PROMPT = """\
You work in a folder of files. Each answer is one JSON action, for example:
{"do": "read", "path": "app.py"}
{"do": "write", "path": "app.py"}
{"do": "done"}
When you are asked for the text of a file, answer with one code block: the whole file, \
changed as the task says. Copy all that the task does not speak of."""
_EDIT = (
    'Change its lines with {"do": "edit", "path": …, "old": a line of it, "new": what replaces that line}.'
)
_LANGUAGES = {
    "py": "python",
    "js": "javascript",
    "ts": "typescript",
    "sh": "bash",
    "rs": "rust",
    "yml": "yaml",
}

_CHANGED = "Changed {path}. If that is all that the task asks for, answer done."
_PASSES = "The check passes now."
_LINES = 40  # of a search or of a command's output
_NAMES = 60  # of a workspace
_RULES = 800  # characters of the project's instructions
_NOTE = 300  # characters of another message of the engine


def rendered(
    messages: Sequence[Message], state: State, action: Mapping[str, Any] | None = None
) -> list[Message]:
    """`action`: whose text is asked for, a file's, a function's or the answer's."""
    page = _Page()
    for message in messages:
        page.add(message)
    if action and action["do"] == "rewrite":
        return page.without_function(state, action["path"], action["name"])
    if action:
        page.ask(str(action.get("path")) if action["do"] == "write" else "")
    page.flush()
    return page.out


class _Page:
    """What the model is shown so far. A wrong answer of its own is left out, because a small model repeats
    what it sees; only what was wrong with it is told."""

    def __init__(self) -> None:
        self.out = [Message(role="system", content=PROMPT)]
        self._calls: dict[str, ToolCall] = {}
        self._failed: dict[str, str] = {}  # by path: the edit that did not fit
        self._texts: set[str] = set()  # calls that write what was asked for as a code block
        self._watch = Watch()
        self._task = 0  # index of the newest task
        self._later: dict[str, str] = {}  # files seen or written since the model's first answer to it
        self._opening = ""  # what was shown of the task before the model's first answer
        self._fails = False  # the newest check
        self._failure = ""  # of a check that was run at first: told last, next to what is asked for

    def add(self, message: Message) -> None:
        if message.role == "user":
            self._add_user(message)
        elif message.role == "assistant":
            self._calls.update({call.id: call for call in message.tool_calls})
            own = [call for call in message.tool_calls if not not_of_model(call)]
            if own and not self._opening:
                self._opening = self.out[-1].content
            if [call.name for call in own] == ["write"]:
                self._texts.add(own[0].id)  # shown with its result
            elif own:
                self.flush()
                _add(self.out, "assistant", _done(own))
            elif message.content:
                self.ask("")
                _add(self.out, "assistant", message.content)
        elif message.role == "tool" and message.tool_call_id in self._calls:
            self._add_result(self._calls[message.tool_call_id or ""], message)

    def without_function(self, state: State, path: str, name: str) -> list[Message]:
        """The task from its beginning, with a file that lacks what the function does."""
        text = text_to_mend(state, path)
        shown, hole = block(path, state.watch.first(path)), block(path, without_body(text, name))
        told = (self._opening or self.out[-1].content).replace(shown, hole)
        told += "" if hole in told else f"\n{path}:\n{hole}"
        if state.failing:
            found = VERIFY.match(state.output)
            told += f"\nThe check fails.\n{summarize_failure(state.output[found.end() if found else 0 :])}"
        aim = "so that the check passes" if state.failing else "as the task says"
        told += f"\nWhat {name} did was wrong and is left out. "
        told += f"Write the whole function {name} anew, {aim}, as one code block."
        return [*self.out[: self._task], Message(role="user", content=told)]

    def ask(self, path: str) -> None:
        """For the text of a file, or of the answer."""
        if not path:
            told = "Now say in one sentence what you changed."
            told = "Now say in one sentence what still fails." if self._fails else told
            told = told if self._watch.touched else "Now answer the task in one or two sentences."
        else:
            told = f"Now write the whole new text of {path} as one code block."
        self.flush()
        _add(self.out, "user", told)

    def flush(self) -> None:
        told, self._failure = self._failure, ""
        _add(self.out, "user", told)

    def _add_user(self, message: Message) -> None:
        text = message.content
        if found := VERIFY.match(text):
            self._fails = True
            self._begin_anew(f"The check `{found[1]}` fails.\n{summarize_failure(text[found.end() :])}")
            return
        if not is_note(text):
            self._watch, self._failure, self._later = Watch(task_of(text)), "", {}
            self._opening, self._fails = "", False
        _add(self.out, "user", _said(text), message.images)
        if not is_note(text):
            self._task = len(self.out) - 1

    def _begin_anew(self, failure: str) -> None:
        """From the files as they are now."""
        if self._task:
            del self.out[self._task + 1 :]
        files = "".join(f"{path} is now:\n{block(path, now)}\n" for path, now in self._later.items())
        _add(self.out, "user", f"{files}{failure}")

    def _add_result(self, call: ToolCall, message: Message) -> None:
        args, ok = arguments_of(call), succeeded(message.content)
        path = str(args.get("path") or "")
        if call.name == "write" and ok:
            _add(self.out, "user", self._written(call, path, str(args.get("content") or "")))
            return
        if call.name == "read" and self._task < len(self.out) - 1:
            self._later[path] = plain(message.content)
        elif call.name == "bash" and call.id.startswith(LOOK):
            self._fails = not ok
            told = _result(call, message.content, self._failed, self._watch) if not ok else ""
            if ok:
                _add(self.out, "user", _PASSES)
            elif self._watch.touched:
                self._begin_anew(told)
            else:
                self._failure = told
            return
        _add(self.out, "user", _result(call, message.content, self._failed, self._watch), message.images)

    def _written(self, call: ToolCall, path: str, content: str) -> str:
        self._later[path] = content
        if fault := self._watch.changed(path, content):
            return f"A try at {path} was wrong: {fault}."
        if call.id in self._texts:
            self.ask(path)
            _add(self.out, "assistant", block(path, content))
        return _CHANGED.format(path=path)


def block(path: str, text: str) -> str:
    """As a model writes it: with the language after the fence."""
    ending = path.rpartition(".")[2] if "." in path else ""
    return f"```{_LANGUAGES.get(ending, ending)}\n{text.rstrip()}\n```"


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
    if is_note(text):
        return task_of(text)[:_NOTE]
    return f"Task: {task_of(text)}"


def _done(own: Sequence[ToolCall]) -> str:
    """The action that an answer was."""
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
        case "read":
            return {"do": "read", "path": args.get("path")}
        case "grep":
            return {"do": "search", "text": str(args.get("pattern") or "").replace("\\", "")}
        case "bash":
            return {"do": "run", "command": args.get("command")}
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
            shown = block(path, plain(content))
            shown += f"\n{_EDIT}" if shown.count("\n") > SHORT + 2 else ""
            return f"{_state_of(call, path, failed)}\n{shown}{_mistake(path, fault)}"
        case "glob" | "list" if ok:
            names = [name for name in listed_paths(content, path) if not name.startswith(".")]
            return f"Files: {', '.join(names[:_NAMES])}" + ("" if len(names) <= _NAMES else ", …")
        case "grep" if call.id.startswith(LOOK):
            return ""  # the files that have it are read
        case "todowrite":
            return _steps(call, args)
        case "edit" if ok:
            watch.changed(path)
            return _CHANGED.format(path=path)
        case "edit" if not content.startswith("denied:"):
            failed[path] = call.id
            return f"error: nothing was changed: {_why(content)}"
        case "bash" if not ok:
            return f"`{args.get('command')}` fails.\n{summarize_failure(content)}"
    return _shortened(content)


def _mistake(path: str, fault: str) -> str:
    return f"\nerror: {path} is wrong now: {fault}. Correct it." if fault else ""


def _steps(call: ToolCall, args: dict[str, Any]) -> str:
    """The engine's list, where it has several items; of the model's own plan the step that is next."""
    items = [one for one in args.get("todos") or [] if isinstance(one, dict)]
    if len(items) < 2:
        return ""
    if not call.id.startswith(LOOK):
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


def plain(content: str) -> str:
    """Numbered lines as the plain text of the file."""
    lines = []
    for line in content.split("\n"):
        number, tab, text = line.partition("\t")
        lines.append(text if tab and number.isdigit() else line)
    return "\n".join(lines)


def _shortened(content: str) -> str:
    lines = content.split("\n")
    if len(lines) > _LINES:
        lines = [*lines[: _LINES // 2], "…", *lines[-_LINES // 2 :]]
    return "\n".join(line[:200] for line in lines)
