"""What the current turn has seen and done, read from the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from coder.models.guided.repair import UNCHANGED, Watch
from coder.protocol.messages import Message, ToolCall, head_length

MOST_ITEMS = 5  # of a plan
LOOK = "look_"  # prefix of the ids of calls that the dialect itself makes
_NUMBERED = re.compile(r"(\d+)\t(.*)")
_NOTE = re.compile(r"(?:(?<!\s)\s+)?<note>(?:(?!<note>).)*?</note>\s*", re.DOTALL)
VERIFY = re.compile(r"\AVerification with `([^`]+)` failed \(exit code \d+\):\n")
# Messages of the engine, not of the person.
_NOTES = ("<note>", "Please continue.", "You seem to be going in circles")


class Item(msgspec.Struct):
    """One action of the plan. `told`: the engine's list says that it is done."""

    what: str
    path: str = ""
    done: bool = False
    told: bool = False


class State(msgspec.Struct):
    """`texts`: whole files as last seen. `stuck`: failed changes since the last success."""

    task: str = ""
    began: int = 0  # index of the task's message
    paths: list[str] = []
    texts: dict[str, str] = {}
    found: dict[str, list[str]] = {}  # by searched text: the files that have it
    changed: list[str] = []
    read: list[str] = []
    ran: list[str] = []
    denied: set[str] = set()
    stuck: int = 0
    looks: int = 0  # calls that the dialect made for this task
    steps: int = 0  # answers of the model to this task
    failing: bool = False  # the newest check fails
    failures: int = 0  # checks that failed after a change
    failed_before: bool = False  # in the same way before the first change
    unchecked: bool = False  # nothing was run since the newest change
    watch: Watch = msgspec.field(default_factory=Watch)
    broken: dict[str, str] = {}  # by path: what a change has broken
    faults: int = 0  # changes that have broken something
    repeated: int = 0  # the newest answer said the same as so many before it
    plan: list[Item] = []
    check: str = ""
    output: str = ""  # of the newest command
    refused: bool = False  # the policy or the person has denied something
    last_check: bool = False  # nothing is checked any more


def read_state(messages: Sequence[Message], task: str = "") -> State:
    """`task`: the newest one, without the files that its message has as well."""
    state = State(check=_check(messages))
    newest = max((at for at, message in enumerate(messages) if _is_task(message)), default=-1)
    calls: dict[str, ToolCall] = {}
    last = ""
    for at, message in enumerate(messages):
        if at < head_length(messages):
            continue
        if message.role == "user":
            if VERIFY.match(message.content):
                state.failing = True
                state.failures += 1
                state.output = message.content
                state.failed_before = "so your change did not cause this" in message.content
                state.last_check = "last automatic check" in message.content
            elif _is_task(message):
                _begin(state, at, message.content, task if at == newest else "")
        elif message.role == "assistant":
            said = "".join(f"{call.name} {call.function.arguments}" for call in message.tool_calls)
            own = bool(message.tool_calls) and all(not_of_model(call) for call in message.tool_calls)
            state.looks += own and message.tool_calls[0].name != "todowrite"
            state.steps += not own
            if not own and said:
                state.repeated = state.repeated + 1 if said == last else 0
                last = said
            calls.update({call.id: call for call in message.tool_calls})
        elif message.tool_call_id in calls:
            _result(state, calls[message.tool_call_id or ""], message.content)
    return state


def tries(state: State) -> int:
    """Changes that were of no use."""
    return state.faults + state.failures


def not_of_model(call: ToolCall) -> bool:
    """A look of ours, or the engine's own todo list."""
    return call.id.startswith(LOOK) or call.name == "todowrite"


def is_note(text: str) -> bool:
    return text.startswith(_NOTES) or bool(VERIFY.match(text))


def task_of(text: str) -> str:
    """What the person said, without the engine's notes."""
    return _NOTE.sub("", text).strip()


def _is_task(message: Message) -> bool:
    return message.role == "user" and not is_note(message.content)


def _begin(state: State, at: int, text: str, task: str) -> None:
    """Another task: what is known of files stays."""
    state.task, state.began = task or task_of(text), at
    state.changed, state.read, state.ran, state.plan = [], [], [], []
    state.stuck = state.looks = state.steps = state.repeated = state.faults = state.failures = 0
    state.watch, state.broken = Watch(state.task), {}
    state.failing = state.last_check = state.refused = state.unchecked = state.failed_before = False
    state.output = ""
    state.denied = denied_by(text)


def denied_by(text: str) -> set[str]:
    """The tools that the engine's note says are denied."""
    found = re.search(r"(?:Denied|these are denied): ([^.]*)\.", text)
    return {word.strip() for word in found[1].split(",")} if found else set()


def arguments_of(call: ToolCall) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(call.function.arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def succeeded(content: str) -> bool:
    return not content.startswith(("error:", "denied:"))


def _result(state: State, call: ToolCall, content: str) -> None:
    args = arguments_of(call)
    path = str(args.get("path") or "")
    ok = succeeded(content)
    state.refused = state.refused or content.startswith("denied:")
    match call.name:
        case "glob" | "list" if ok:
            seen = (name for name in listed_paths(content, path) if not name.startswith((".coder/", ".git/")))
            state.paths = list(dict.fromkeys([*state.paths, *seen]))
        case "grep" if ok:
            files = [line for line in content.split("\n") if line and not _is_match(line)]
            state.found[str(args.get("pattern") or "")] = [p for p in files if p in state.paths]
        case "read" if ok:
            _saw(state, path, content)
        case "write" | "edit":
            _changed(state, call.name, args, ok=ok)
        case "bash":
            state.ran.append(str(args.get("command") or ""))
            state.failing, state.output, state.unchecked = not ok, content, False
            state.failures += not ok and bool(state.changed)
        case "todowrite" if ok:
            _planned(state, call, args)


def _saw(state: State, path: str, content: str) -> None:
    lines = plain_lines(content)
    if path not in state.read:
        state.read.append(path)
    if path not in state.paths:
        state.paths.append(path)
    if lines is not None:
        state.texts[path] = lines
        _judge(state, path, state.watch.saw(path, lines))


def _judge(state: State, path: str, fault: str) -> None:
    state.broken.pop(path, None)
    if fault:
        state.broken[path] = fault
        state.faults += 1


def plain_lines(content: str) -> str | None:
    """The text of numbered lines; None if it is only a part of the file."""
    if content.endswith(" is empty"):
        return ""
    out: list[str] = []
    for at, line in enumerate(content.split("\n"), 1):
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None:
            return None if "has_more" in line or at == 1 else "".join(out)
        if int(numbered[1]) != at:
            return None
        out.append(numbered[2] + "\n")
    return "".join(out)


def _changed(state: State, name: str, args: Mapping[str, Any], *, ok: bool) -> None:
    path = str(args.get("path") or "")
    if not ok:
        state.stuck += 1
        return
    state.stuck = 0
    state.changed.append(path)
    if path not in state.paths:
        state.paths.append(path)
    if name == "write":
        state.texts[path] = str(args.get("content") or "")
        _judge(state, path, state.watch.changed(path, state.texts[path]))
    else:
        state.texts.pop(path, None)  # a `read` follows
        state.watch.changed(path)
    state.unchecked = state.broken.get(path) != UNCHANGED
    state.failing = state.failing and not state.unchecked
    here = [item for item in state.plan if not item.done and item.path in ("", path)]
    for item in sorted(here, key=lambda item: not item.path)[:1]:
        item.done = True


def _planned(state: State, call: ToolCall, args: Mapping[str, Any]) -> None:
    """A plan is the model's or the engine's list of several items; ours only tell what is done."""
    items = [one for one in args.get("todos") or [] if isinstance(one, dict)]
    told = [(str(one.get("content") or ""), one.get("status") == "completed") for one in items]
    if len(told) > 1:
        done = [item.done for item in state.plan] if call.id.startswith(LOOK) else []
        state.plan = [Item(what, path_of(what), ok, told=ok) for what, ok in told[:MOST_ITEMS]]
        for item, was in zip(state.plan, done, strict=False):
            item.done = item.done or was


def path_of(what: str) -> str:
    """An item of the model's plan is `path: what`."""
    path, colon, _ = what.partition(": ")
    return path if colon and " " not in path else ""


def listed_paths(content: str, directory: str) -> Iterator[str]:
    for line in content.split("\n"):
        name = re.sub(r" \([^()]*\)\Z", "", line).strip()
        if name and not name.endswith("/") and not line.startswith(("[", "(", "no files match ")):
            yield f"{directory.rstrip('/')}/{name}" if directory not in ("", ".") else name


def _is_match(line: str) -> bool:
    return bool(re.match(r"\d+[:-] ?|\[|--", line))


def _check(messages: Sequence[Message]) -> str:
    """The project's check, of which the system message tells."""
    head = messages[0].content if messages and messages[0].role == "system" else ""
    found = re.search(r"(?m)^tests: (.+)$", head)
    return found[1].strip() if found else ""
