"""The parts of a session: its recorded conversation, meter, reminders, checks, undo and commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from coder import engine, history
from coder.config.schema import BudgetSection, Price, price_of
from coder.context.conversation import Conversation
from coder.engine.agent import Agent
from coder.engine.redactor import SessionSecrets
from coder.engine.turn_state import Asks
from coder.history.log import SessionLog
from coder.history.sinks import HistoryError
from coder.history.turn_so_far import TurnSoFar
from coder.protocol import entries
from coder.protocol.events import AnyEvent, JobChanged, Notice, TodosChanged
from coder.protocol.history import INTERRUPTED, HistoryEvent
from coder.protocol.messages import Image, Message, ToolCall, Usage, tool_message, with_instructions
from coder.texts import Text
from coder.tools.job import Jobs, ending
from coder.tools.tool import ToolResult

if TYPE_CHECKING:
    from coder.base.process.jobs import BackgroundJob
    from coder.history.replay import Replay
    from coder.history.undo.journal import UndoJournal
    from coder.history.undo.shell_changes import ShellUndo
    from coder.policy.sandbox.backends import Sandbox
    from coder.policy.shell.verdict import ShellVerdict
    from coder.protocol.entries import Evidence, Verification


_MILLION = 1_000_000


class Budget:
    """Money spent and its limit. `address_of` says where a model is asked, which decides whether the vendor's
    list price is what it costs."""

    def __init__(self, settings: BudgetSection, address_of: Callable[[str], str]) -> None:
        self.prices: Mapping[str, Price] = settings.prices
        self.address_of = address_of
        self.limit = settings.max_usd
        self.warn_at = settings.warn_at
        self.spent = 0.0
        self.warned = False
        self.told_of: set[str] = set()  # models without a price, once reported
        self._waiting = 0.0  # reserved for concurrent requests (subagents)

    def price_of(self, model: str, prompt: int = 0) -> Price | None:
        return price_of(self.prices, model, self.address_of(model), prompt)

    def is_listed(self, model: str) -> bool:
        """Whether its price is none of the person's."""
        return price_of(self.prices, model, "") is None and self.price_of(model) is not None

    def cost(self, model: str, usage: Usage) -> float | None:
        """None if the model has no price."""
        price = self.price_of(model, usage.prompt)
        if price is None:
            return None
        return price.cost(usage.prompt, usage.completion, usage.cached, usage.written)

    def add(self, model: str, usage: Usage) -> float | None:
        cost = self.cost(model, usage)
        self.spent += cost or 0.0
        return cost

    def would_pass(self, model: str, prompt_tokens: int) -> bool:
        """Whether a prompt of that size could exceed the limit. The answer's length is unknown, so the prompt
        alone counts, at the uncached price."""
        price = self.price_of(model, prompt_tokens)
        if self.limit is None or price is None:
            return False
        return self.spent + self._waiting + prompt_tokens * price.input / _MILLION > self.limit

    @contextmanager
    def waiting_for(self, model: str, prompt_tokens: int) -> Iterator[None]:
        """Reserve the price of a request while it runs. Without a limit no price is looked for: the list is
        not loaded before the first answer has come."""
        price = self.price_of(model, prompt_tokens) if self.limit is not None else None
        amount = prompt_tokens * price.input / _MILLION if price is not None else 0.0
        self._waiting += amount
        try:
            yield
        finally:
            self._waiting -= amount

    def shown(self) -> dict[str, str]:
        """Both amounts, for a message."""
        return {"spent": f"{self.spent:.4f}", "limit": f"{self.limit or 0.0:.2f}"}

    def warning_due(self) -> bool:
        """True once, when the warning threshold is reached."""
        if self.limit is None or self.warned or self.spent < self.warn_at * self.limit:
            return False
        self.warned = True
        return True


class History:
    """The conversation and its log. Every change is recorded first, then applied (event sourcing)."""

    def __init__(
        self,
        log: SessionLog,
        conversation: Conversation,
        redactor: SessionSecrets,
        emit: Callable[[AnyEvent], None],
    ) -> None:
        self.log = log
        self.conversation = conversation
        self.recorded_images: set[str] = set()  # ids
        self._redactor = redactor
        self._emit = emit

    def instruct(self, text: str, modes: entries.ModeState | None = None) -> None:
        """Set the instructions of person, project and custom modes, at the head of the conversation."""
        text = self._redactor.redact(text)
        messages = with_instructions(self.conversation.messages, text)
        if messages == self.conversation.messages and modes is None:
            return
        self.log.append(modes or entries.Instructions(), text, role="user")
        self.conversation.replace(messages)

    def add_user(self, text: str, entry: entries.TurnStart, images: Sequence[Image] = ()) -> None:
        """A person's input."""
        self.log.append(replace(entry, images=self._record_images(images)), text, role="user")
        if not entry.refused:
            message = text if entry.message is None else entry.message
            self.conversation.append(Message(role="user", content=message, images=list(images)))

    def add_assistant(self, message: Message, entry: entries.Assistant, raw: str = "") -> None:
        """`raw`: the model's original text, if the message was parsed from it (salvage, dialects)."""
        calls = [
            entries.SentCall(id=c.id, name=c.name, arguments=c.function.arguments) for c in message.tool_calls
        ]
        entry = replace(
            entry,
            tool_calls=calls,
            reasoning=message.reasoning or None,
            message=message.content if raw and raw != message.content else None,
            opaque=message.opaque,
        )
        self.log.append(entry, raw or message.content, role="assistant")
        if entry.by == "engine":
            self.conversation.append(message)
        else:
            self.conversation.append_response(message)

    def add_action(
        self, call: ToolCall, arguments: Any, *, sent: ToolCall | None = None, meant: Any = None
    ) -> None:
        """A call as it will run. `sent`: as the model sent it, recorded if different."""
        as_sent = None
        if sent is not None and (sent.name != call.name or (meant and meant != arguments)):
            as_sent = entries.Sent(tool=sent.name, input=arguments)
        self.log.append(
            entries.Action(tool=call.name, input=meant or arguments, call_id=call.id, sent=as_sent)
        )

    def add_observation(
        self, call: ToolCall, result: ToolResult, sent: ToolCall | None = None, *, shown: bool = True
    ) -> HistoryEvent:
        """`sent`: the call as the model sent it. `shown`: show a changed todo list to the person."""
        entry = entries.Observation(tool=call.name, call_id=call.id, ok=result.ok, denied=result.denied)
        more = result.meta
        if result.images:
            more = {**more, "images": self._record_images(result.images)}
        event = self.log.append(entry, result.for_model, more=more)
        self.conversation.append(tool_message(sent or call, result.for_model, result.images))
        if call.name == "todowrite" and result.ok and shown:
            self._emit(TodosChanged(todos=result.meta["todos"]))
        return event

    def add_note(self, text: str, reason: str) -> None:
        """A message of the engine to the model."""
        text = self._redactor.redact(text)
        self.log.append(entries.Note(reason=reason), text, role="user")
        self.conversation.append(Message(role="user", content=text))

    def record_interrupted(self, calls: list[ToolCall]) -> None:
        """Record that calls were cut off; the conversation already has their results."""
        for call in calls:
            entry = entries.Observation(
                tool=call.name, call_id=call.id, ok=False, denied=False, interrupted=True
            )
            self.log.append(entry, INTERRUPTED)

    def _record_images(self, images: Sequence[Image]) -> list[str]:
        if not images:
            return []

        return engine.session_images.record(self, images, self._redactor.redact)


class Meter:
    """Tokens and money of a session."""

    def __init__(self, conversation: Conversation, budget: Budget, model: str) -> None:
        self._conversation = conversation
        self.budget = budget
        self.usage = Usage()
        self.last_usage: Usage | None = None  # of the newest request, if the provider reported it
        self.model_in_use = model  # of the newest request; another if routing chose

    def count(self, model: str, usage: Usage) -> float | None:
        """Account for a request of the conversation; returns its cost, if known."""
        self.usage = self.usage.plus(usage)
        self.last_usage = usage
        self.model_in_use = model
        return self.budget.add(model, usage)

    def count_side_request(self, model: str, usage: Usage) -> float | None:
        """Account for a request outside the conversation (summary, routing, checks); returns its cost."""
        self.usage = self.usage.plus(usage)
        return self.budget.add(model, usage)

    def context_tokens(self) -> int:
        """The provider's last count plus an estimate of what came since, or the tokenizer's count."""
        reported = self._reported_tokens()
        return self._conversation.tokens() if reported is None else reported

    def shown_tokens(self) -> int:
        """As `context_tokens`, but loads no vocabulary: that holds the GIL, and a person may be typing."""
        reported, conversation = self._reported_tokens(), self._conversation
        if reported is not None:
            return reported
        return conversation.tokens() if conversation.counter.loaded else conversation.estimate()

    def prompt_size(self) -> int:
        """An upper bound of the next request: the provider has not counted what follows its last answer."""
        return max(self.context_tokens(), self._conversation.tokens())

    def _reported_tokens(self) -> int | None:
        if (last := self.last_usage) is None or last.source != "provider":
            return None
        return last.prompt + last.completion + self._conversation.estimate_unanswered()


class Reminders:
    """What the model and the person were already told, and notes for the next message."""

    def __init__(self) -> None:
        self.next_notes: list[str] = []
        self.rules = ""  # the operating mode and policy that the model was told last
        self.git = False  # the branch and changed files at the start
        self.directories: set[Path] = set()  # whose AGENTS.md the model has
        self.servers: set[str] = set()  # MCP servers whose instructions the model has
        self.jobs_uncovered = False  # undo does not cover background jobs
        self.partial_undo = False
        self.unlayered = False

    def add(self, text: str) -> None:
        """Queue a note for the model's next message."""
        self.next_notes.append(text)


class CheckMemory:
    """What the session's checks have shown."""

    def __init__(self) -> None:
        self.known_failures: dict[str, frozenset[str]] = {}  # by command, until edits follow
        self.last_evidence: tuple[Evidence, Verification] | None = None  # of the last turn that edited


class Compactions:
    """What earlier compactions have shown."""

    def __init__(self) -> None:
        self.failed = False  # a summary came out longer: not tried again unless forced
        self.floor = 0  # tokens below which another compaction would not help


class PendingApproval(NamedTuple):
    """The interrupted turn of a resumed session: the engine asks again what nobody answered."""

    replay: Replay
    turn: TurnSoFar
    asks: Asks


class SessionUndo:
    """The undo journal, opened at the first change or undo, and the scan around commands."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._journal: UndoJournal | None = None
        self._turn = 0
        self.shell: ShellUndo | None = None

    @property
    def journal(self) -> history.undo.journal.UndoJournal:
        if self._journal is None:
            self._journal = history.undo.journal.UndoJournal(self._directory)
            self._journal.begin_turn(self._turn)
        return self._journal

    def share(self, parent: SessionUndo) -> None:
        """A subagent's changes belong to its parent's turn."""
        self._journal = parent.journal

    def begin_turn(self, turn: int) -> None:
        """Later changes belong to this turn."""
        self._turn = turn
        if self._journal is not None:
            self._journal.begin_turn(turn)

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        self.journal.before_change(path, after, mode)

    def close(self) -> None:
        if self.shell is not None:
            self.shell.close()


class CommandState:
    """What is known of the session's commands."""

    def __init__(self) -> None:
        self.sandboxes: dict[tuple[bool, bool], Sandbox] = {}  # by: read-only, a check
        self.needs_writing: set[str] = set()  # lines that failed as read-only ones
        self.judged: tuple[str, ShellVerdict] | None = None  # the current line and its verdict


class SessionJobs(Jobs):
    """Background jobs; their starts and ends are events and history entries."""

    def __init__(self, agent: Agent, log: SessionLog, redactor: SessionSecrets) -> None:
        super().__init__(self._ended)
        self._agent = agent
        self._log = log
        self._redactor = redactor

    def show(self, job: BackgroundJob) -> None:
        state: Literal["started", "ended", "stopped"]
        state = "started" if job.running else "stopped" if job.stopped_by else "ended"
        hide = self._redactor.redact
        self._agent.emit(
            JobChanged(
                job_id=job.id,
                command=hide(job.command),
                state=state,
                exit_code=job.exit_code,
                duration_ms=round(job.seconds * 1000),
                last=hide(job.recent(1)),
            )
        )

    def _ended(self, job: BackgroundJob) -> None:
        """Callback, possibly during a call: the model is told later (`notes`)."""
        hide = self._redactor.redact
        entry = entries.Job(
            job_id=job.id,
            state="ended",
            command=hide(job.command),
            exit_code=job.exit_code,
            stopped_by=job.stopped_by,
        )
        with contextlib.suppress(HistoryError):  # it has ended all the same
            self._log.append(entry, hide(ending(job)))
        self.show(job)

    def notes(self, owner: str) -> list[str]:
        """The ends of a session's jobs that its model does not know yet, for the next message or result."""
        ended = [job for job in self if not (job.running or job.end_reported) and job.owner == owner]
        for job in ended:
            job.end_reported = True
        return [self._redactor.redact(ending(job)) for job in ended]

    def end_with_session(self) -> None:
        """Stop all jobs, with a notice that lists them."""
        if ended := self.end_all():
            names = ", ".join(f"{job.id} ({self._redactor.redact(job.command)})" for job in ended)
            self._agent.emit(Notice(Text("job.ended_with_session", jobs=names), "warning"))
