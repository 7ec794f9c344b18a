"""An agent: what is shared by consecutive sessions. A subagent is an agent with a parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coder import engine, history
from coder.base.addons import addons, function
from coder.config.models import tokenizer_of, window_for
from coder.config.schema import Config, OperatingMode, Preset, SandboxBackend
from coder.context.conversation import TokenCounter
from coder.context.memory import Memory
from coder.extend.skills import Skills
from coder.history.sinks import HistorySink
from coder.history.store import SessionStore
from coder.models.make import OtherProviders
from coder.models.model import ChatModel
from coder.policy.workspace import DirectoryWorkspace
from coder.protocol.events import AnyEvent
from coder.protocol.messages import ToolSpec
from coder.protocol.ops import ApprovalReply
from coder.texts import AnyText, Text
from coder.tools.tool import Tool

if TYPE_CHECKING:
    from coder.engine.git_state import GitState
    from coder.engine.session import Session
    from coder.engine.setup import Plugin
    from coder.extend.hooks import Hooks
    from coder.extend.mcp.servers import Servers
    from coder.models.make import OtherProviders, ProviderChoice
    from coder.policy.sandbox.backends import SandboxLevel


class AllowedCommands(Protocol):
    """The person's command allowlist for this project (`always`)."""

    def names(self) -> Sequence[str]: ...

    def add(self, *names: str) -> None: ...

    def revoke(self, name: str) -> bool: ...

    @property
    def problem(self) -> Text | None: ...


class Companion(Protocol):
    """The connection to the person's editor."""

    def start(self) -> None: ...

    async def settle(self) -> None:
        """Wait briefly for the first news."""

    async def close(self) -> None: ...

    def tell_all_again(self) -> None:
        """The next note repeats what earlier ones said."""

    def next_note(self) -> str:
        """What changed in the editor since the last note."""

    def status(self) -> AnyText: ...


def companion_of(root: Path, environ: Mapping[str, str]) -> Companion | None:
    """A new connection, if an add-on can make one."""
    for addon in addons():
        if addon.companion:
            companion: Companion = function(addon.companion)(root, environ)
            return companion
    return None


class PromptLimits(msgspec.Struct, frozen=True):
    """`--max-prompt-tokens` and `--warn-prompt-tokens`; 0 if there is none."""

    maximum: int = 0
    warning: int = 0


class ModelChoice(msgspec.Struct, frozen=True):
    """A model's name, context window and tokenizer."""

    name: str
    window: int
    vocabulary: str
    tokenizer: str = ""  # from `--tokenizer-model`, for any model

    @classmethod
    def of(cls, config: Config, name: str, tokenizer: str = "") -> ModelChoice:
        return cls(name, window_for(config, name), tokenizer or tokenizer_of(name), tokenizer)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's workspace, home, trust and record."""

    workspace: DirectoryWorkspace
    home: Path
    store: SessionStore
    environment: Mapping[str, str]  # of the commands that the model runs
    allowed: AllowedCommands
    allowlist_file: str = ""  # the file that sets permission.command_allowlist
    secrets: list[str] = []  # our keys, to redact from model and record; longest first
    trusted: bool = False
    trust_relevant: Mapping[str, Any] = {}  # the project's settings that need trust

    def keep_secret(self, found: Sequence[str]) -> None:
        """For every session of this agent, from now on."""
        self.secrets[:] = sorted({*self.secrets, *found}, key=len, reverse=True)

    @property
    def project(self) -> history.search.projects.Project:
        return history.search.projects.Project(str(self.workspace.root), str(self.store.history))


# Hands over the person's terminal until the block ends: descriptors of its keys and its screen, and a
# function for keys that were typed for the prompt.
LentTerminal = Callable[[], AbstractAsyncContextManager[tuple[int, int, Callable[[bytes], object]]]]


class FrontEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go, and whether a person can be asked."""

    emit: Callable[[AnyEvent], None]
    can_ask: bool = False
    kind: str = "interactive"
    sinks: Sequence[HistorySink] = ()


class Capabilities(msgspec.Struct, frozen=True):
    """An agent's tools, skills and memory. `few`: the tools of a small model, whose prompt is short too."""

    tools: Sequence[Tool]
    skills: Skills
    memory: Memory
    own: Collection[str] = ()  # names of tools that the embedding program brought
    few: bool = False


class SandboxProbe:
    """The sandbox that works here: found by the first command that wants one, told of once per machine."""

    def __init__(
        self, place: Place, emit: Callable[[AnyEvent], None], backend: SandboxBackend = "auto"
    ) -> None:
        self._place, self._emit, self._backend = place, emit, backend
        self._finding = asyncio.Lock()
        self.level: SandboxLevel | None = None
        self.confirmed = False  # a person agreed to yolo without a sandbox

    async def find(self) -> SandboxLevel:
        async with self._finding:  # several may want it at once, and it is said once
            if self.level is None:
                self.level = await engine.isolation.found_sandbox(self._place, self._emit, self._backend)
        return self.level

    async def tell_if_none(self) -> None:
        """For the first screen, where an earlier session found that no sandbox works here."""
        from coder.policy.sandbox.probe import kept

        place = self._place
        path = place.environment.get("PATH")
        known = await asyncio.to_thread(kept, place.home, path, place.workspace.root, self._backend)
        if known is not None and known.backend == "none":
            await self.find()


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    """Whom an agent has to do with beside the model, if they are configured."""

    ide: Companion | None = None  # the person's editor
    git_state: GitState | None = None  # queried while the session starts
    mcp: Servers | None = None  # MCP servers
    hooks: Hooks | None = None  # programs that take part
    providers: ProviderChoice | None = None  # for `/model`, unless the model was handed in


class Agent:
    """Configuration, tools, model and the current session."""

    def __init__(
        self,
        config: Config,
        place: Place,
        front: FrontEnd,
        model: ChatModel,
        chosen: ModelChoice,
        can: Capabilities,
        connected: Connections,
        sandbox: SandboxProbe,
        *,
        limits: PromptLimits,
        extra: Mapping[str, Any],
        mode: OperatingMode | None = None,
    ) -> None:
        self.config = config
        self.place = place
        self.front = front
        self.model = model
        self.chosen = chosen
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in can.tools}
        self.own_tools = frozenset(can.own)
        self.skills = can.skills
        self.memory = can.memory
        self.few_tools = can.few
        self.limits = limits
        self.extra = extra  # further fields of requests, such as a temperature
        self.ide = connected.ide
        self.git_state = connected.git_state
        self.mcp = connected.mcp
        self.hooks = connected.hooks
        self.sandbox = sandbox
        self.plugins: list[Plugin] | None = None  # of installed packages, once they were looked for
        self.told_of_servers: dict[str, Text] = {}  # last notice about each
        self.parent: Agent | None = None  # of a subagent
        self.explores = False  # a subagent that only looks
        self._mode = mode
        self.mode_chosen = mode is not None  # by a flag, which overrides a resumed session's
        self.preset: Preset = config.permission.preset
        self._effort: str = config.provider.effort
        self.terminal: LentTerminal | None = None
        self.wanted = asyncio.Event()  # set by the first input; background work waits for it
        self._providers = connected.providers
        self._others: OtherProviders | None = None
        self.approvals: dict[str, asyncio.Future[ApprovalReply]] = {}
        self.session: Session  # set by the opener before first use

    @property
    def others(self) -> OtherProviders | None:
        """The providers that `/model` chooses from. Made for its first use, and in front of the model from
        then on."""
        if self._others is None and self._providers is not None:
            self._others = self.model = OtherProviders(self.model, *self._providers)
        return self._others

    def subagent(
        self, config: Config, front: FrontEnd, tools: dict[str, Tool], mode: OperatingMode | None
    ) -> Agent:
        """An agent with this one's place, model and sandbox, and its mode unless `mode` is given."""
        child = copy(self)
        child.parent, child._mode, child.explores = self, mode, mode == "plan"
        child.config, child.front, child.tools = config, front, tools
        # Servers, and news of git and the editor, are its parent's to see to and to be told of.
        child.mcp, child.git_state, child.ide = None, None, None
        return child

    def address_of(self, model: str) -> str:
        """Where a model is asked; empty if the model was handed in."""
        if self._others is not None:
            return self._others.provider_of(model).base_url
        return self._providers[0].base_url if self._providers is not None else ""

    def emit(self, event: AnyEvent) -> None:
        self.front.emit(event)

    @property
    def mode(self) -> OperatingMode:
        """The current mode; it may change during a turn. A subagent without one of its own has its
        parent's."""
        if self._mode is not None:
            return self._mode
        return "default" if self.parent is None else self.parent.mode

    @mode.setter
    def mode(self, mode: OperatingMode) -> None:
        self._mode = mode

    @property
    def confined(self) -> bool:
        """Whether a command that only looks runs in a sandbox that holds it to that."""
        level = self.sandbox.level
        return self.config.sandbox.mode != "off" and level is not None and level.confines

    @property
    def runs_anything_in_plan(self) -> bool:
        """Whether plan mode runs commands that are not known to be read-only, in its sandbox."""
        return self.confined and not self.explores

    @property
    def can_ask(self) -> bool:
        """Whether there is a person who may be asked."""
        approval = self.config.approval
        return self.front.can_ask and approval.interactive and not approval.auto_approve_ask

    @property
    def effort(self) -> str:
        """How much the model is asked to reason; empty for its own default."""
        return self._effort if self.parent is None else self.parent.effort

    @effort.setter
    def effort(self, effort: str) -> None:
        self._effort = effort

    def use_model(self, name: str) -> None:
        """From the next request on, with the model's window and tokenizer."""
        before, self.chosen = self.chosen, ModelChoice.of(self.config, name, self.chosen.tokenizer)
        if self.chosen.vocabulary != before.vocabulary:
            self.session.conversation.use_counter(TokenCounter(self.chosen.vocabulary))

    @property
    def prompt_limit(self) -> int:
        """Maximum tokens of a request: the model's window, or the person's lower limit."""
        return min(self.limits.maximum or self.chosen.window, self.chosen.window)

    @property
    def root(self) -> Path:
        return self.place.workspace.root

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools in a fixed order, which keeps the provider's prompt cache valid."""
        specs = [tool.spec for tool in self.tools.values() if tool.declared]
        if not self.few_tools:
            return specs
        from coder.tools.brief import brief

        return [brief(spec) for spec in specs]
