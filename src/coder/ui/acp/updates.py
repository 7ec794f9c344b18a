"""Converts engine events to `session/update` notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coder.base.text import head_and_tail
from coder.history.entries_to_events import call_argument
from coder.policy.visible import visible, warnings
from coder.protocol.entries import Action, Assistant, Command, Image, Note, Observation, TurnStart, Verify
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ChatCompressed,
    Citation,
    CommandDone,
    Content,
    ContentRestarted,
    JobChanged,
    LoopDetected,
    Notice,
    Recorded,
    StateChanged,
    Thought,
    TodosChanged,
    ToolCallChanged,
    ToolOutput,
    TurnStarted,
    VerifyChanged,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.history import title_of as session_title
from coder.protocol.modes import InstantModeExecuted
from coder.texts import AnyText, Catalog
from coder.ui.acp.acp_tools import (
    MAX_TEXT,
    SILENT,
    Update,
    changed_places,
    content_of,
    diff_content,
    fenced,
    image_block,
    kind_after,
    locations,
    output_block,
    own_name,
    raw_output,
    tail_block,
    text_block,
    tool_kind,
    tool_title,
    truncate_value,
)
from coder.ui.stdio import EditorPeer, encoded

_STATUS = {"success": "completed", "error": "failed", "cancelled": "failed", "executing": "in_progress"}
_PRIORITIES = ("high", "medium", "low")


class _Call(msgspec.Struct):
    update_id: str  # its id in the protocol: a model's ids may repeat
    tool: str
    args: Any = None
    result: HistoryEvent | None = None
    printed: str = ""
    announced: bool = False


class Updates:
    """Sends one session's updates. Does not handle prompts and their responses."""

    def __init__(self, peer: EditorPeer, session_id: str, root: Path, texts: Catalog) -> None:
        self._peer = peer
        self.id = session_id
        self.root = root
        self.texts = texts
        self.say = texts.say
        self._calls: dict[str, _Call] = {}
        self._asked: dict[str, str] = {}  # approvals without a call: their id in the protocol
        self._message = 0
        self._shell_call = ""
        self._subagent_calls = 0  # calls of subagents so far
        self._images: dict[str, Update] = {}  # blocks by id: a result names images that were recorded before
        self.titled = False

    # sending

    def send(self, update: Update) -> None:
        self._peer.tell("session/update", {"sessionId": self.id, "update": update}, self.id)

    def chunk(self, kind: str, text: str) -> None:
        """A chunk of a message; consecutive chunks of a kind form one message."""
        if not text:
            return
        session_id, message = self.id, f"{self.id}.{self._message}.{kind}"

        def encode(whole: str) -> bytes:
            content = {"type": "text", "text": whole}
            update = {"sessionUpdate": kind, "content": content, "messageId": message}
            return encoded("session/update", {"sessionId": session_id, "update": update})

        self._peer.outbox.put_text(self.id, (kind, message), text, encode)

    def next_message(self) -> None:
        self._message += 1

    def remark(self, said: AnyText) -> None:
        """A remark about the turn, as a quote."""
        lines = self.texts.of(said).split("\n")
        self.next_message()
        self.chunk("agent_message_chunk", "\n".join(f"> {line}" for line in lines) + "\n\n")
        self.next_message()

    def thought_remark(self, said: AnyText) -> None:
        """An unimportant remark, as a thought."""
        self.next_message()
        self.chunk("agent_thought_chunk", self.texts.of(said) + "\n\n")
        self.next_message()

    # events

    def handle(self, event: AnyEvent) -> None:
        match event:
            case Content(text):
                self.chunk("agent_message_chunk", text)
            case Thought(text):
                self.chunk("agent_thought_chunk", text)
            case Recorded(entry):
                self._recorded(entry)
            case ToolCallChanged():
                self._tool(event)
            case ToolOutput(call_id, text):
                self._printed(call_id, text)
            case TodosChanged(todos):
                self.plan(todos)
            case VerifyChanged():
                self._verify(event)
            case CommandDone():
                self._command(event)
            case TurnStarted(text=text):
                self._started(text)
            case StateChanged():
                self._usage(event)
            case _:
                self._remarks(event)

    def _remarks(self, event: AnyEvent) -> None:
        match event:
            case Notice(text, in_answer=True):  # not a separate message: the answer continues
                self.chunk("agent_thought_chunk", self.texts.of(text) + "\n\n")
            case Notice(text, "warning"):
                self.remark(text)
            case Notice(text):
                self.thought_remark(text)
            case JobChanged(job_id, command, "ended", code):
                self.thought_remark(self.say("job.ended", id=job_id, command=command, code=code))
            case ContentRestarted():
                self.remark(self.say("view.restarted"))
            case ChatCompressed(before, after, summary):
                key = "view.compressed" if summary else "view.shortened"
                self.thought_remark(self.say(key, before=f"{before:,}", after=f"{after:,}"))
            case LoopDetected(reason):
                self.remark(self.say("view.loop", reason=reason))
            case Citation(text):
                self.remark(self.say("view.citation", text=text))
            case InstantModeExecuted(_, _, warnings, leftover=leftover):
                left = [self.say("modes.leftover", text=leftover)] if leftover else []
                for text in (*warnings, *left):
                    self.remark(text)
            case ApprovalResolved(approval_id, answer) if approval_id in self._asked:
                status = "completed" if answer in ("yes", "always") else "failed"
                self.progress(self._asked.pop(approval_id), status=status)

    def _started(self, text: str) -> None:
        self.next_message()
        if not self.titled:
            self.titled = True
            self.send({"sessionUpdate": "session_info_update", "title": session_title(text)})

    def plan(self, todos: list[dict[str, Any]]) -> None:
        """Without cancelled entries, for which the protocol has no status."""
        entries = [
            {
                "content": str(todo.get("content", "")),
                "priority": todo.get("priority") if todo.get("priority") in _PRIORITIES else "medium",
                "status": todo.get("status"),
            }
            for todo in todos
            if todo.get("status") in ("pending", "in_progress", "completed")
        ]
        self.send({"sessionUpdate": "plan", "entries": entries})

    def _usage(self, event: StateChanged) -> None:
        update: Update = {
            "sessionUpdate": "usage_update",
            "used": event.context_tokens,
            "size": event.context_window,
        }
        if event.cost_usd:
            update["cost"] = {"amount": event.cost_usd, "currency": "USD"}
        self.send(update)

    # tool calls

    def _recorded(self, event: HistoryEvent) -> None:
        """Keep a call's arguments and result fields, which events do not carry."""
        match event.entry:
            case Image() as image:
                self.keep_image(image, event.content)
            case Action(call_id=call_id, tool=tool, input=given):
                self._calls[call_id] = _Call(f"{event.turn}.{event.step}.{call_id}", tool, given)
            case Observation(call_id=call_id) if call_id in self._calls:
                self._calls[call_id].result = event

    def keep_image(self, image: Image, data: str) -> None:
        if block := image_block(data):
            self._images[image.image_id] = block

    def images(self, ids: Sequence[str]) -> list[Update]:
        """The content blocks of images that this client has received."""
        return [self._images[image_id] for image_id in ids if image_id in self._images]

    def call(self, call_id: str, tool: str) -> _Call:
        """The call; new for a subagent's call or the person's `!`, which are not recorded under this id."""
        key = self._key(call_id, tool)
        if key not in self._calls:
            self._subagent_calls += key != call_id
            self._calls[key] = _Call(call_id if key == call_id else f"{call_id}.{self._subagent_calls}", tool)
        return self._calls[key]

    def _key(self, call_id: str, tool: str) -> str:
        """Ids of subagents may collide with the parent's: both may have a `call_0`."""
        known = self._calls.get(call_id)
        if tool == "!" or (known is not None and known.tool == tool):
            return call_id
        return f"{own_name(tool)}\0{call_id}"

    def _tool(self, event: ToolCallChanged) -> None:
        key = self._key(event.call_id, event.tool)
        call = self.call(event.call_id, event.tool)
        ended = event.state not in ("scheduled", "executing")
        if event.tool in SILENT and event.state != "error":
            if ended:
                self._calls.pop(key, None)
            return
        if event.tool == "!":
            self._shell_call = event.call_id
        self.announce(call, event.argument)
        if event.state == "executing":
            self.progress(call.update_id, status="in_progress")
        elif ended:
            self._calls.pop(key, None)
            self._ended(call, event)

    def announce(self, call: _Call, argument: str) -> None:
        """Send the `tool_call`, once."""
        if call.announced:
            return
        call.announced = True
        self.next_message()
        update: Update = {
            "sessionUpdate": "tool_call",
            "toolCallId": call.update_id,
            "title": tool_title(call.tool, argument),
            "kind": tool_kind(call.tool),
            "status": "pending",
            "locations": locations(call.tool, call.args, self.root),
        }
        if call.args is not None:
            update["rawInput"] = truncate_value(call.args)
        self.send(update)

    def _ended(self, call: _Call, event: ToolCallChanged) -> None:
        recorded = call.result
        more: Update = {"rawOutput": raw_output(recorded.meta)} if recorded else {}
        if event.detail_kind == "diff" and (places := changed_places(event.detail, self.root)):
            more["locations"] = places
        images: list[Update] = []
        if recorded and isinstance(recorded.entry, Observation):
            images = [{"type": "content", "content": one} for one in self.images(recorded.entry.images)]
            if kind := kind_after(recorded.entry):
                more["kind"] = kind
        summary = self.texts.of(event.summary) or (
            self.say("view.cancelled") if event.state == "cancelled" else ""
        )
        content = [*content_of(event.detail, event.detail_kind, summary, self.root), *images]
        self.progress(call.update_id, status=_STATUS[event.state], content=content, **more)

    def _printed(self, call_id: str, text: str) -> None:
        call = self._calls.get(call_id)
        if call is None:
            return
        call.printed = (call.printed + text)[-32_000:]
        update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.update_id,
            "content": [tail_block(call.printed)],
        }
        data = encoded("session/update", {"sessionId": self.id, "update": update})
        self._peer.outbox.put_latest(self.id, call.update_id, data)

    def progress(self, update_id: str, **fields: Any) -> None:
        self.send({"sessionUpdate": "tool_call_update", "toolCallId": update_id, **fields})

    def _verify(self, event: VerifyChanged) -> None:
        if event.state in ("skipped", "gave_up") and "verify" not in self._calls:
            self.thought_remark(event.text)
            return
        if event.state == "started":
            self._message += 1
            self._calls["verify"] = _Call(f"verify.{self._message}.{event.attempt}", "verify")
            self.announce(self._calls["verify"], event.command)
            self.progress(self._calls["verify"].update_id, status="in_progress")
            return
        call = self._calls.pop("verify", None)
        if call is not None:
            status = "completed" if event.state == "passed" else "failed"
            self.progress(call.update_id, status=status, content=[output_block(self.texts.of(event.text))])

    def _command(self, event: CommandDone) -> None:
        """The reply of a `/` or `!` command; multi-line text as a code block, to keep tables aligned."""
        said = self.texts.of(event.text)
        if event.data.get("kind") == "bang" and (call := self._calls.pop(self._shell_call, None)):
            output = f"{event.data.get('stdout', '')}{event.data.get('stderr', '')}"
            status = "failed" if event.data.get("exit_code") else "completed"
            self.progress(call.update_id, status=status, content=[output_block(output or said)])
            return
        text = said.rstrip("\n")
        if "\n" in text:
            text = fenced(text, "diff" if event.command.startswith("/diff") else "")
        self.next_message()
        self.chunk("agent_message_chunk", text)
        self.next_message()

    def close_open(self) -> None:
        """Fail calls left running when an input is cancelled (a verification, a `!` command)."""
        for call in self._calls.values():
            if call.announced:
                self.progress(call.update_id, status="failed")
        self._calls.clear()

    # approvals

    def permission(self, event: ApprovalRequested) -> Update:
        """The `toolCall` of a permission request: the complete subject and every reason."""
        subject = question = self.texts.of(event.subject)
        if not event.call_id:  # about the turn, or about applied changes
            if event.subject_kind == "diff":
                question = " ".join(map(self.texts.of, event.reasons[-1:]))
            call = _Call(f"ask.{event.approval_id}", "")
            self._asked[event.approval_id] = call.update_id
            self.announce(call, question)
        else:
            call = self.call(event.call_id, event.tool)
            self.announce(call, visible(subject).text if event.subject_kind == "command" else "")
        remarks = [self.say("approval.reason", reason=reason) for reason in event.reasons]
        if event.call_id:
            remarks += warnings(visible(subject), self.texts)
        content = [*self._subject(event, subject), *map(text_block, remarks)]
        shown: Update = {"toolCallId": call.update_id, "status": "pending", "content": content}
        if event.call_id:
            argument = visible(subject).text if event.subject_kind == "command" else _path_of(call.args)
            shown |= {"title": tool_title(event.tool, argument), "kind": tool_kind(event.tool)}
        else:
            shown |= {"title": question, "kind": "other"}
        if event.subject_kind == "command":  # the real one: the record's has redacted secrets
            shown["rawInput"] = {**(call.args or {}), "command": subject}
        elif call.args is not None:
            shown["rawInput"] = call.args
        return shown

    def _subject(self, event: ApprovalRequested, subject: str) -> list[Update]:
        if event.subject_kind == "diff":
            told = [text_block(visible(self.texts.of(one)).text) for one in event.operations]
            return [*told, *diff_content(subject, self.root, limit=None)]
        if event.subject_kind == "command":
            return [text_block(fenced(visible(subject).text, "sh"))]
        return [text_block(visible(subject).text)] if event.call_id else []


def _path_of(args: Any) -> str:
    return str(args.get("path", "")) if isinstance(args, Mapping) else ""


class RecordReplay:
    """Replays a record as updates, for a client that loads a session."""

    def __init__(self, updates: Updates) -> None:
        self._to = updates
        self._open: dict[str, _Call] = {}  # calls without a result
        self._todos: list[dict[str, Any]] | None = None

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case Assistant(reasoning=reasoning):
                self._message("agent_thought_chunk", reasoning or "")
                self._message("agent_message_chunk", event.said)
            case Action() as entry:
                call = _Call(f"{event.turn}.{event.step}.{entry.call_id}", entry.tool, entry.input)
                self._open[entry.call_id] = call
                if entry.tool not in SILENT:
                    self._to.announce(call, call_argument(entry.tool, entry.input))
            case Observation() as entry:
                self._observation(event, entry)
            case TurnStart(images=images):
                self._open.clear()
                self._message("user_message_chunk", event.content)
                for block in self._to.images(images):
                    self._to.send({"sessionUpdate": "user_message_chunk", "content": block})
            case Note(reason="person"):
                self._message("user_message_chunk", event.content)
            case Image() as image:
                self._to.keep_image(image, event.content)
            case Verify() as entry if entry.command:
                self._verify(event, entry)
            case Command(input=line):
                self._message("user_message_chunk", line)
                reply = event.content.rstrip("\n")
                shown = fenced(head_and_tail(reply, MAX_TEXT)) if "\n" in reply else reply
                self._message("agent_message_chunk", shown)

    def done(self) -> dict[str, tuple[str, str]]:
        """Send the current plan; returns the id and tool of calls without a result."""
        if self._todos is not None:
            self._to.plan(self._todos)
        return {call_id: (call.update_id, call.tool) for call_id, call in self._open.items()}

    def _message(self, kind: str, text: str) -> None:
        self._to.next_message()
        self._to.chunk(kind, text)

    def _observation(self, event: HistoryEvent, entry: Observation) -> None:
        call = self._open.pop(entry.call_id, None)
        if call is None:
            return
        if call.tool in SILENT:
            if entry.ok and entry.todos is not None and not event.for_model_alone:
                self._todos = entry.todos
            return
        update: Update = {"rawOutput": raw_output(event.meta)}
        if entry.diff:
            update["content"] = content_of(entry.diff, "diff", "", self._to.root)
            update["locations"] = changed_places(entry.diff, self._to.root)
        else:
            images = [{"type": "content", "content": one} for one in self._to.images(entry.images)]
            update["content"] = [*([output_block(event.content)] if event.content else []), *images]
        if kind := kind_after(entry):
            update["kind"] = kind
        self._to.progress(call.update_id, status="completed" if entry.ok else "failed", **update)

    def _verify(self, event: HistoryEvent, entry: Verify) -> None:
        self._to.send(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": f"verify.{event.turn}.{event.step}.{entry.attempt}",
                "title": tool_title("verify", entry.command),
                "kind": "execute",
                "status": "failed" if entry.exit_code else "completed",
                "content": [output_block(event.content)] if event.content else [],
            }
        )
