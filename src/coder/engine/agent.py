"""An agent: what stays the same while sessions come and go. A subagent is one too, with a parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coder.config.models import tokenizer_of, window_for
from coder.config.schema import Config, OperatingMode, Preset
from coder.context.memory import Memory
from coder.context.skills import Skills
from coder.context.tokens import TokenCounter
from coder.model.base import ChatModel
from coder.policy.workspace import FolderWorkspace
from coder.protocol.events import AnyEvent
from coder.protocol.messages import ToolSpec
from coder.protocol.ops import ApprovalReply
from coder.record.sinks import HistorySink
from coder.record.store import SessionStore
from coder.texts import Phrase, Texts
from coder.tools.base import Tool

if TYPE_CHECKING:
    from coder.context.ide.client import IdeClient
    from coder.engine.git_state import GitState
    from coder.engine.session import Session
    from coder.mcp.servers import Servers
    from coder.policy.sandbox.ladder import SandboxLevel


class AllowedCommands(Protocol):
    """The command names that a person allowed for this project with `always`."""

    def names(self) -> Sequence[str]: ...

    def add(self, *names: str) -> None: ...

    def revoke(self, name: str) -> bool: ...

    @property
    def problem(self) -> Phrase | None: ...


class PromptLimits(msgspec.Struct, frozen=True):
    """`--max-prompt-tokens` and `--warn-prompt-tokens`; 0 where there is none."""

    maximum: int = 0
    warning: int = 0


class ModelChoice(msgspec.Struct, frozen=True):
    """The model that is asked: its name, how many tokens it takes in, and how they are counted."""

    name: str
    window: int
    vocabulary: str
    tokenizer: str = ""  # what `--tokenizer-model` named, for any model

    @classmethod
    def of(cls, config: Config, name: str, tokenizer: str = "") -> ModelChoice:
        return cls(name, window_for(config, name), tokenizer or tokenizer_of(name), tokenizer)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent works, what it may believe there, and what is kept of it."""

    workspace: FolderWorkspace
    home: Path
    store: SessionStore
    environment: Mapping[str, str]  # of the commands that the model runs
    allowed: AllowedCommands
    allowlist_file: str = ""  # where the setting permission.command_allowlist stands
    secrets: Sequence[str] = ()  # keys of ours that no model and no record may see
    trusted: bool = False
    trust_relevant: Mapping[str, Any] = {}  # the project's settings that trust decides about


class FrontEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told what happens, and whether anybody can be asked."""

    emit: Callable[[AnyEvent], None]
    can_ask: bool = False
    kind: str = "interactive"
    sinks: Sequence[HistorySink] = ()


class Capabilities(msgspec.Struct, frozen=True):
    """What an agent can do: its tools, and what it has been taught and told to remember."""

    tools: Sequence[Tool]
    skills: Skills
    memory: Memory


class Agent:
    """Configuration, tools, model and the session that is current."""

    def __init__(
        self,
        config: Config,
        texts: Texts,
        place: Place,
        front: FrontEnd,
        model: ChatModel,
        chosen: ModelChoice,
        can: Capabilities,
        *,
        limits: PromptLimits,
        mode: OperatingMode | None = None,
    ) -> None:
        self.config = config
        self.texts = texts
        self.say = texts.say
        self.place = place
        self.front = front
        self.model = model
        self.chosen = chosen
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in can.tools}
        self.skills = can.skills
        self.memory = can.memory
        self.limits = limits
        self.ide: IdeClient | None = None  # the line to the person's editor, where there is to be one
        self.git_state: GitState | None = None  # asked of git while the session starts
        self.mcp: Servers | None = None  # others' programs with tools, where any are configured
        self.told_of_servers: dict[str, Phrase] = {}  # what the person has been told of each
        self.sandbox_level: SandboxLevel | None = None  # as tried out for the first command
        self.trying_sandbox = asyncio.Lock()
        self.keeps_snapshot = True  # not for a subagent, whose conversation is part of its parent's record
        self.parent: Agent | None = None  # of a subagent that is bound by whatever mode its parent is in
        self._mode: OperatingMode = mode or "default"
        self.mode_chosen = mode is not None  # by a flag, which a resumed session does not overrule
        self.preset: Preset = config.permission.preset
        self.wanted = asyncio.Event()  # somebody has asked for something; until then the prompt comes first
        self.approvals: dict[str, asyncio.Future[ApprovalReply]] = {}
        self.session: Session  # set by whoever opens the agent, before anything is asked of it

    def emit(self, event: AnyEvent) -> None:
        self.front.emit(event)

    @property
    def mode(self) -> OperatingMode:
        """As it is now: a person may change it while a turn runs."""
        return self._mode if self.parent is None else self.parent.mode

    @mode.setter
    def mode(self, mode: OperatingMode) -> None:
        self._mode, self.parent = mode, None

    def use_model(self, name: str) -> None:
        """From the next request on; another model has another window and other tokens."""
        before, self.chosen = self.chosen, ModelChoice.of(self.config, name, self.chosen.tokenizer)
        if self.chosen.vocabulary != before.vocabulary:
            self.session.conversation.use_counter(TokenCounter(self.chosen.vocabulary))

    @property
    def prompt_limit(self) -> int:
        """The most tokens that a request may have: the model's window, or less where the person said so."""
        return min(self.limits.maximum or self.chosen.window, self.chosen.window)

    @property
    def root(self) -> Path:
        return self.place.workspace.root

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools in a fixed order: a changed order would void the provider's prompt cache."""
        return [tool.spec for tool in self.tools.values()]
