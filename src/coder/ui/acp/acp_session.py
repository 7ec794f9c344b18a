"""An editor's session: its engine, the queue of prompts, and permission requests."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from coder.base.rpc import INTERNAL, INVALID_PARAMS, Gone, RpcError
from coder.base.text import one_line
from coder.config import ConfigError
from coder.config.providers import NoProvider, Provider
from coder.config.schema import OPERATING_MODES
from coder.engine.engine import Engine
from coder.engine.setup import (
    Options,
    built_in_commands,
    listed_models,
    open_agent,
    provider_of,
    read_settings,
    with_model_named,
)
from coder.history.rewound import current_log
from coder.history.sinks import HistoryError
from coder.history.store import SessionStore
from coder.models.model import ModelError
from coder.policy.visible import visible
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandDone,
    Failed,
    Finished,
    InputDone,
    StateChanged,
    TurnEnded,
)
from coder.protocol.messages import Usage
from coder.protocol.modes import CustomModesListed, ListCustomModes
from coder.protocol.ops import ApprovalReply, Cancel, SetOperatingMode, UserInput
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.tools.text.hunks import REVIEW, Hunk, Review
from coder.ui.acp.acp_tools import Update, own_name
from coder.ui.acp.params import (
    Block,
    FormAnswer,
    FormFields,
    NewSession,
    PermissionAnswer,
    UnsupportedBlock,
    mcp_servers,
    message_of,
)
from coder.ui.acp.updates import RecordReplay, Updates
from coder.ui.stdio import AUTH_REQUIRED, EditorPeer, log

if TYPE_CHECKING:
    from coder.ui.acp.acp_server import AcpChoices

_MOST_MODELS = 500
_STOP_REASONS = {"max_steps": "max_turn_requests", "prompt_limit": "max_tokens", "cancelled": "cancelled"}
_BY_FINISH = {"content_filter": "refusal", "length": "max_tokens"}


class _Input:
    """A queued input and its outcome. Only the first is submitted to the engine: the others can still be
    cancelled.

    Kinds: a prompt; the change of an option, which is not shown; the rest of a turn that a resumed session
    continues by itself.
    """

    def __init__(self, kind: Literal["prompt", "option", "rest"], op: UserInput | None = None) -> None:
        self.kind = kind
        self.op = op
        self.abandoned = False  # cancelled while queued
        self.done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieve_exception)
        self.ended: TurnEnded | None = None
        self.failed: Failed | None = None
        self.cancelled = False
        self.finish = ""

    def handle(self, event: AnyEvent) -> None:
        match event:
            case TurnEnded():
                self.ended = event
            case Failed():
                self.failed = event
            case Finished(reason):
                self.finish = reason
            case CommandDone("", _, ok) if not ok:
                self.cancelled = True

    def stop_reason(self) -> str | None:
        """None if it failed."""
        if self.cancelled:
            return "cancelled"
        if self.ended is not None and self.ended.status in _STOP_REASONS:
            return _STOP_REASONS[self.ended.status]
        if self.failed is not None or (self.ended is not None and self.ended.status == "error"):
            return None
        return _BY_FINISH.get(self.finish, "end_turn")

    def fault(self, texts: Catalog) -> RpcError:
        ended = self.ended.error if self.ended is not None else ""
        text = self.failed.text if self.failed is not None else ended
        data = {"code": self.failed.code} if self.failed is not None else None
        return RpcError(INTERNAL, texts.of(text) or "the turn failed", data)

    def response(self, reason: str) -> dict[str, Any]:
        response: dict[str, Any] = {"stopReason": reason}
        if self.ended is not None and self.ended.usage.total:
            response["usage"] = _usage(self.ended.usage)
        return response


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "totalTokens": usage.total,
        "inputTokens": usage.prompt,
        "outputTokens": usage.completion,
        "cachedReadTokens": usage.cached,
    }


class EditorSession:
    """Forwards the engine's events to the client, from `begin` on."""

    def __init__(self, peer: EditorPeer, engine: Engine, provider: Provider, texts: Catalog) -> None:
        self._peer = peer
        self.engine = engine
        self._provider = provider
        self.texts = texts
        view = engine.view
        self.id: str = view.session_id
        self.updates = Updates(peer, self.id, view.root, texts)
        self._mode: str = view.mode
        self._model = view.model
        self._models = view.configured_models
        self._custom = CustomModesListed([])
        self._commands: list[dict[str, Any]] = []
        self._inputs: deque[_Input] = deque()
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pump: asyncio.Task[None] | None = None
        self.ended = False
        self.notes: list[str] = []  # remarks to send when the session begins
        if view.is_waiting:  # the engine repeats its question and continues the turn
            self._inputs.append(_Input("rest"))

    def replay(self, store: SessionStore) -> Iterator[int]:
        """Send the record as updates, event by event."""
        replay = RecordReplay(self.updates)
        for number, event in enumerate(current_log(store.log_path(self.id))):
            replay.take(event)
            yield number
        replay.done()

    def begin(self) -> None:
        """Start sending updates, once the client knows the session's id."""
        if self.ended:  # closed before its id was sent
            return
        self._pump = asyncio.create_task(self._read())
        for note in self.notes:
            self.updates.remark(note)
        self._send_commands()
        self.engine.submit(ListCustomModes())
        self._start(self._fetch_models())

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # client requests

    async def prompt(self, blocks: list[Block]) -> dict[str, Any]:
        """Run a prompt; returns the stop reason or raises `RpcError`."""
        try:
            message = message_of(blocks, self.engine.view.root)
        except UnsupportedBlock:
            raise RpcError(INVALID_PARAMS, self.texts.say("acp.text_only")) from None
        if not (message.text.strip() or message.attached.strip() or message.images):
            raise RpcError(INVALID_PARAMS, self.texts.say("acp.empty_prompt"))
        for name in message.cut:
            self.updates.remark(self.texts.say("acp.resource_cut", name=name))
        for name in message.binary:
            self.updates.remark(self.texts.say("acp.resource_binary", name=name))
        if refused := self._refused(message.text):
            self.updates.remark(refused)
            return {"stopReason": "end_turn"}
        if self._questions and self._inputs and self._inputs[0].kind == "rest":
            self.engine.submit(Cancel())  # the person ignored the question
        item = self._submit(_Input("prompt", UserInput(message.text, message.attached, [], message.images)))
        return await asyncio.shield(item.done)

    def _submit(self, item: _Input) -> _Input:
        self._inputs.append(item)
        if len(self._inputs) == 1:
            self._submit_next()
        return item

    def _submit_next(self) -> None:
        """Submit the next input that is not cancelled."""
        while self._inputs and self._inputs[0].abandoned:
            self._inputs.popleft().done.set_result({"stopReason": "cancelled"})
        if self._inputs and (op := self._inputs[0].op) is not None:
            self.engine.submit(op)

    def _refused(self, text: str) -> str:
        """Reject commands that would switch the session."""
        first = text.split(maxsplit=1)[0] if text.strip() else ""
        if first.startswith("/") and first[1:] in NOT_HERE:
            return self.texts.say("acp.not_here", name=first[1:])
        return ""

    def cancel(self) -> None:
        if self._inputs:
            self.engine.submit(Cancel())
        for item in list(self._inputs)[1:]:
            item.abandoned = item.kind == "prompt"

    def set_mode(self, name: str) -> None:
        """Takes effect at once, even within a turn."""
        mode = next((mode for mode in OPERATING_MODES if mode == name), None)
        if mode is None:
            known = ", ".join(OPERATING_MODES)
            raise RpcError(INVALID_PARAMS, self.texts.say("mode.unknown", name=name, names=known))
        self.engine.submit(SetOperatingMode(mode))
        self._mode = mode

    async def set_option(self, name: str, value: Any) -> list[dict[str, Any]]:
        """Returns all options."""
        if name == MODE:
            self.set_mode(str(value))
            self._send_mode()
        elif name == MODEL:
            await self._set_model(value)
        else:
            raise RpcError(INVALID_PARAMS, self.texts.say("acp.no_option", name=name))
        return self.options()

    async def _set_model(self, value: Any) -> None:
        if not isinstance(value, str) or not value or any(c.isspace() for c in value):
            raise RpcError(INVALID_PARAMS, self.texts.say("model.one_name"))
        busy = bool(self._inputs)
        item = self._submit(_Input("option", UserInput(f"/model {value}")))
        self._model = value  # used from the next prompt on
        if busy:
            return
        try:
            await asyncio.shield(item.done)  # the queue needs its end, even if the client has cancelled
        except asyncio.CancelledError:
            if self._inputs and self._inputs[0] is item:
                self.engine.submit(Cancel())
            raise

    def modes(self) -> dict[str, Any]:
        return mode_state(self._mode, self.texts)

    def options(self) -> list[dict[str, Any]]:
        return config_options(self._mode, self._model, self._models, self.texts)

    # engine events

    async def _read(self) -> None:
        async for event in self.engine.events():
            try:
                self._take(event)
            except Exception as error:  # one bad event must not end the session
                log(f"session {self.id}: {type(error).__name__}: {error}")
        self.ended = True
        while self._inputs:  # no event will answer them
            self._inputs.popleft().done.set_result({"stopReason": "cancelled"})

    def _take(self, event: AnyEvent) -> None:
        if self._inputs:
            self._inputs[0].handle(event)
        match event:
            case InputDone(op="user_input"):
                self._input_done()
            case ApprovalRequested():
                self._questions[event.approval_id] = asyncio.create_task(self._ask(event))
            case ApprovalResolved(approval_id):
                if question := self._questions.pop(approval_id, None):
                    question.cancel()
                self.updates.handle(event)
            case CustomModesListed():
                self._custom = event
                self._send_commands()
            case StateChanged():
                self._state(event)
                self.updates.handle(event)
            case Failed(text):
                if not self._inputs:
                    self.updates.remark(text)
            case CommandDone(command) if not command or (self._inputs and self._inputs[0].kind == "option"):
                pass  # a cancellation is the stop reason
            case _:
                self.updates.handle(event)

    def _input_done(self) -> None:
        self.updates.close_open()
        if not self._inputs:
            return
        item = self._inputs.popleft()
        reason = item.stop_reason()
        if item.failed is not None and reason != "cancelled" and (reason or item.kind == "rest"):
            self.updates.remark(item.failed.text)
        if reason is None:
            item.done.set_exception(item.fault(self.texts))
        else:
            item.done.set_result(item.response(reason))
        self._submit_next()

    def _state(self, event: StateChanged) -> None:
        changed = (event.mode, event.model) != (self._mode, self._model)
        if event.mode != self._mode:
            self._mode = event.mode
            self._send_mode()
        self._model = event.model
        if changed:
            self.send_options()

    def _send_mode(self) -> None:
        self.updates.send({"sessionUpdate": "current_mode_update", "currentModeId": self._mode})

    def send_options(self) -> None:
        self.updates.send({"sessionUpdate": "config_option_update", "configOptions": self.options()})

    def _send_commands(self) -> None:
        found = available_commands(built_in_commands(), self._custom, self.texts)
        if found != self._commands:
            self._commands = found
            self.updates.send({"sessionUpdate": "available_commands_update", "availableCommands": found})

    async def _fetch_models(self) -> None:
        """Fetch the server's models once: the client does not report when its picker opens."""
        try:
            names = await listed_models(self._provider)
        except Exception as error:  # keep the configured ones
            log(f"no list of models: {error}")
            return
        more = [name for name in sorted(names)[:_MOST_MODELS] if name not in (*self._models, self._model)]
        if more:
            self._models += more
            self.send_options()

    # questions

    async def _ask(self, event: ApprovalRequested) -> None:
        """Submit the person's answer; an error, a cancel or a lost client cancels the turn."""
        call = self.updates.permission(event)
        try:
            reply = await ask_permission(self._peer, self.id, event, call, self.texts)
        except Gone:
            reply = None
        except Exception as error:  # the engine must not wait forever
            log(f"the permission was not decided: {type(error).__name__}: {error}")
            reply = None
        self.engine.submit(reply or Cancel())

    # the end

    async def close(self) -> None:
        """Cancel the turn, complete the record, end child processes."""
        for task in self._tasks:
            task.cancel()
        reading = self._pump or asyncio.create_task(self._read())
        await self.engine.close()
        await reading
        for question in self._questions.values():
            question.cancel()


def session_options(chosen: AcpChoices, cwd: Path, **more: Any) -> Options:
    return Options(
        cwd=cwd,
        environ=chosen.environ,
        mode=chosen.mode,
        preset=chosen.preset,
        model=chosen.model,
        lang=chosen.lang,
        config_file=chosen.config_file,
        log_dir=chosen.log_dir,
        can_ask=True,
        session_kind="acp",
        **more,
    )


def provider_problem(chosen: AcpChoices, texts: Catalog) -> str:
    """Why no provider can be used; empty if one is configured."""
    options = session_options(chosen, Path.cwd())
    try:
        provider_of(options, read_settings(options))
    except NoProvider as error:
        return error.text(texts)
    except ConfigError:
        return ""  # perhaps only in this directory: `session/new` reports it
    return ""


def store_of(chosen: AcpChoices, cwd: str) -> SessionStore:
    return SessionStore(Path(os.path.realpath(cwd)), chosen.log_dir)


async def open_session(
    peer: EditorPeer,
    chosen: AcpChoices,
    texts: Catalog,
    directory: Path,
    params: NewSession,
    resume: str | None,
) -> EditorSession:
    """Raises `RpcError` with a message for the person."""
    servers, wrong = mcp_servers(params.mcp_servers or [])
    options = session_options(chosen, directory, mcp_servers=servers)
    try:
        settings = read_settings(options)
        provider = await with_model_named(provider_of(options, settings))
        engine = Engine(lambda emit: open_agent(options, settings, provider, emit))
        engine.start(resume)
    except (NoProvider, ConfigError) as error:
        no_provider = error.phrase.key.startswith("config.no_provider")
        raise RpcError(AUTH_REQUIRED if no_provider else INTERNAL, error.text(texts)) from error
    except (ModelError, HistoryError) as error:
        raise RpcError(INTERNAL, error.text(texts)) from error
    session = EditorSession(peer, engine, provider, settings.texts)
    session.notes += [settings.texts.say("acp.mcp_wrong", name=name) for name in wrong]
    return session


def _retrieve_exception(future: asyncio.Future[dict[str, Any]]) -> None:
    """Keep asyncio from logging an exception that nobody awaits."""
    if not future.cancelled():
        future.exception()


_ANSWERS: dict[str, Literal["yes", "no", "always"]] = {"allow": "yes", "always": "always", "reject": "no"}
_SOME = "some"
_MOST_HUNKS = 50  # in a form
_LONGEST_TITLE = 120
_LONGEST_REASON = 2_000


async def ask_permission(
    peer: EditorPeer, session_id: str, event: ApprovalRequested, call: Update, texts: Catalog
) -> ApprovalReply | None:
    """The person's answer; None to cancel the turn. Raises what the peer raises."""
    review = Review(str(event.subject)) if peer.has_forms and _by_hunk(event) else None
    if review is not None and not 1 < len(review.hunks) <= _MOST_HUNKS:
        review = None
    options = _options(event, texts, by_hunk=review is not None)
    request = {"sessionId": session_id, "toolCall": call, "options": options}
    raw = await peer.ask("session/request_permission", request, session_id)
    outcome = msgspec.json.decode(raw, type=PermissionAnswer).outcome
    if outcome.outcome != "selected":
        return None
    if outcome.option_id not in [option["optionId"] for option in options]:
        return ApprovalReply(event.approval_id, "no")
    if outcome.option_id == _SOME and review is not None:
        return await _chosen(peer, session_id, event, str(call["toolCallId"]), review, texts)
    return ApprovalReply(event.approval_id, _ANSWERS[outcome.option_id])


def _by_hunk(event: ApprovalRequested) -> bool:
    known = event.tool == REVIEW or built_in(own_name(event.tool)).edits_files()
    return event.subject_kind == "diff" and known


def _options(event: ApprovalRequested, texts: Catalog, *, by_hunk: bool) -> list[dict[str, str]]:
    about = "call" if event.call_id else "review" if event.tool == REVIEW else "turn"
    say: Callable[[str], str] = texts.say
    found = [{"optionId": "allow", "name": say(f"acp.{about}.allow"), "kind": "allow_once"}]
    if by_hunk:
        found.append({"optionId": _SOME, "name": say("acp.call.some"), "kind": "allow_once"})
    if event.can_always:
        names = ", ".join(visible(name).text for name in event.always_names)
        always = texts.say("acp.call.always_names", names=names) if names else say(f"acp.{about}.always")
        found.append({"optionId": "always", "name": always, "kind": "allow_always"})
    return [*found, {"optionId": "reject", "name": say(f"acp.{about}.reject"), "kind": "reject_once"}]


async def _chosen(
    peer: EditorPeer, session_id: str, event: ApprovalRequested, call_id: str, review: Review, texts: Catalog
) -> ApprovalReply | None:
    """The answer of the form. Declining it refuses the whole change."""
    named = [{"const": str(n), "title": _title(hunk)} for n, hunk in enumerate(review.hunks, 1)]
    every = [one["const"] for one in named]
    hunks = {"type": "array", "title": texts.say("acp.form.hunks"), "items": {"anyOf": named}}
    properties = {
        "hunks": {**hunks, "default": every},
        "reason": {"type": "string", "title": texts.say("acp.form.reason")},
    }
    request: dict[str, Any] = {
        "sessionId": session_id,
        "toolCallId": call_id,
        "mode": "form",
        "message": texts.say("acp.form.message"),
        "requestedSchema": {"type": "object", "properties": properties, "required": ["hunks"]},
    }
    raw = await peer.ask("elicitation/create", request, session_id)
    answer = msgspec.json.decode(raw, type=FormAnswer)
    if answer.action == "decline" and event.tool != REVIEW:
        return ApprovalReply(event.approval_id, "no")
    if answer.action != "accept":
        return None
    fields = answer.content or FormFields()
    reason = (fields.reason or "")[:_LONGEST_REASON].strip()
    for number in every:
        if number in fields.hunks:
            review.take()
        else:
            review.leave(reason)
    return review.reply(event)


def _title(hunk: Hunk) -> str:
    """Its place, its size, and the first line that changes."""
    changed = [line for line in hunk.body if line[:1] in ("+", "-")]
    added = sum(line.startswith("+") for line in changed)
    counts = f"+{added} -{len(changed) - added}"
    shown = visible(f"{hunk.path} {hunk.head.partition(' @@')[0]} @@ {counts}: {' '.join(changed[:1])}").text
    return one_line(shown, _LONGEST_TITLE)


# The editor itself switches sessions and exits.
NOT_HERE = ("new", "resume", "exit")
_NOT_OFFERED = (*NOT_HERE, "sessions", "fork", "help")

MODE = "mode"
MODEL = "model"


def mode_state(current: str, texts: Catalog) -> dict[str, Any]:
    """The `modes` state, for clients without support for options."""
    available = [
        {"id": name, "name": name, "description": texts.say(f"help.{name}")} for name in OPERATING_MODES
    ]
    return {"currentModeId": current, "availableModes": available}


def config_options(mode: str, model: str, models: Sequence[str], texts: Catalog) -> list[dict[str, Any]]:
    """All `configOptions` with their current values."""
    names = list(dict.fromkeys([model, *models]))
    return [
        {
            "id": MODE,
            "name": texts.say("acp.option.mode"),
            "category": "mode",
            "type": "select",
            "currentValue": mode,
            "options": [
                {"value": name, "name": name, "description": texts.say(f"help.{name}")}
                for name in OPERATING_MODES
            ],
        },
        {
            "id": MODEL,
            "name": texts.say("acp.option.model"),
            "category": "model",
            "type": "select",
            "currentValue": model,
            "options": [{"value": name, "name": name} for name in names],
        },
    ]


def available_commands(
    built_in: dict[str, str], custom: CustomModesListed, texts: Catalog
) -> list[dict[str, Any]]:
    """Built-in commands, then custom modes and saved prompts, then those of MCP servers and packages."""
    replaced = {mode.command.removeprefix("/") for mode in custom.modes}
    found = [
        _command(name, texts.say(f"help.{name}"), arguments)
        for name, arguments in built_in.items()
        if name not in _NOT_OFFERED and name not in replaced
    ]
    for mode in custom.modes:
        if mode.command and mode.error is None:
            about = mode.description or mode.display_name
            found.append(_command(mode.command.removeprefix("/"), about, mode.usage))
    found += [
        _command(name, one.description or one.source, one.arguments)
        for one in custom.commands
        if (name := one.command.removeprefix("/")) not in replaced
    ]
    return found


def _command(name: str, about: str, hint: str) -> dict[str, Any]:
    command: dict[str, Any] = {"name": name, "description": about}
    return {**command, "input": {"hint": hint}} if hint else command
