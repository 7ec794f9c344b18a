"""All settings with default, type and range.

Each section is a frozen struct that rejects unknown keys. Annotations are resolved lazily, on first
validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from coder import config
from coder.texts import LANGUAGES

Dialect = Literal["auto", "native", "react-xml", "guided"]
Api = Literal["chat", "responses", "messages", "gemini"]
Wire = Literal["auto", Api]
Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final = get_args(Effort)[1:]
ToolSet = Literal["all", "few"]
NextSpeaker = Literal["auto", "always", "off"]
Preset = Literal["strict", "balanced", "auto-edit", "yolo"]
Decision = Literal["allow", "ask", "deny"]
PRESETS: Final[tuple[Preset, ...]] = get_args(Preset)
OperatingMode = Literal["plan", "default", "auto-edit", "yolo"]
OPERATING_MODES: Final[tuple[OperatingMode, ...]] = get_args(OperatingMode)
SandboxMode = Literal["auto", "require", "off"]
SandboxBackend = Literal["auto", "bubblewrap", "landlock"]
Theme = Literal["auto", "dark", "light", "none"]
if TYPE_CHECKING:
    Lang = str
else:
    Lang = Literal[("", *LANGUAGES)]
Transport = Literal["", "stdio", "http", "streamable-http", "sse"]

DEFAULT_CONTEXT_WINDOW: Final = 128_000

# Upper limits are those of the platform's timers and counters.
Milliseconds = Annotated[int, Meta(ge=1, le=2_147_483_647)]
Count = Annotated[int, Meta(ge=0, le=2_147_483_647)]
Positive = Annotated[int, Meta(ge=1, le=2_147_483_647)]
TurnLimit = Annotated[int, Meta(ge=-1, le=2_147_483_647)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Share = Annotated[float, Meta(ge=0, lt=1)]
Usd = Annotated[float, Meta(ge=0)]
_KEY: Final = r"(?:ctrl\+[abefgjklnopqrstuvwxyz]|alt\+(?:[a-z0-9]|enter)|shift\+tab|f(?:[1-9]|1[0-2]))"
# Not those that terminals send for other keys (Ctrl+H, I, M), nor Ctrl+C and Ctrl+D, by which one leaves.
KEY_PATTERN: Final = rf"^(?:{_KEY}(?: {_KEY})?)?$"
KeyAction = Literal[
    "newline", "steer", "transcript", "rewind", "mode", "editor", "search", "clear_screen", "suspend"
]
Key = Annotated[str, Meta(pattern=KEY_PATTERN)]
# A host, `*.` before a domain, a port after it; this machine itself only with one.
HOST_PATTERN: Final = (
    r"^(?!(?:localhost|127\.0\.0\.1|\[::1\])$)"
    r"(?:(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,}\])(?::[1-9][0-9]{0,4})?$"
)
Host = Annotated[str, Meta(pattern=HOST_PATTERN)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections."""


class ModelSection(Section, frozen=True):
    """Settings of one model, by its name; `coder tune` can find them. `few`: fewer tools and a shorter
    prompt, for small models. `images`: whether the model sees; unset, coder uses what is known of it, or
    tries."""

    dialect: Dialect = "auto"
    tools: ToolSet = "all"
    context_window: Positive | None = None
    images: bool | None = None


class ProviderSection(Section, frozen=True):
    """The model provider. Empty values come from the environment. `timeout_ms`: the longest silence of the
    server."""

    base_url: str = ""
    api_key: str = ""
    model: str = ""
    wire: Wire = "auto"
    dialect: Dialect = "auto"
    effort: Effort = ""
    max_output_tokens: Positive | None = None
    timeout_ms: Milliseconds = 120_000
    headers: dict[str, str] = {}
    models: dict[str, ModelSection] = {}

    def __repr__(self) -> str:
        """Omits key and headers, so that logs cannot leak them."""
        return f"ProviderSection(base_url={self.base_url!r}, model={self.model!r}, dialect={self.dialect!r})"


class RoutingSection(Section, frozen=True):
    """The models between which `provider.model = "auto"` chooses."""

    fast: str = ""
    strong: str = ""


class RuntimeSection(Section, frozen=True):
    """Limits of a turn and a session. `max_session_turns` -1: no limit. `context_window` unset: the model's
    own if it is known, else 128000. `next_speaker`: whether a model call decides if an answer needs a
    continuation."""

    max_steps: Positive = 100
    context_window: Positive | None = None
    max_session_turns: TurnLimit = -1
    max_continuations: Count = 100
    next_speaker: NextSpeaker = "auto"
    loop_guard: bool = True


class CompactionSection(Section, frozen=True):
    """History is summarised when it fills `threshold` of the context window; the newest `keep` of it
    stays."""

    auto: bool = True
    threshold: Fraction = 0.7
    keep: Share = 0.3


class WorkflowSection(Section, frozen=True):
    """Todo lists for complex tasks, and verification after edits. `verify_commands`: this project's checks,
    of which the first runs; empty, coder chooses one. `verify_allow`: further checks that may run unasked."""

    require_todo_for_complex: bool = True
    auto_verify_after_edit: bool = True
    max_verify_attempts: Count = 2
    verify_commands: list[str] = []
    verify_allow: list[str] = []


class ApprovalSection(Section, frozen=True):
    """What happens when a call needs approval. `interactive` false, or `auto_approve_ask` true: it is
    allowed."""

    interactive: bool = True
    auto_approve_ask: bool = False


class PermissionSection(Section, frozen=True):
    """The preset, exceptions by tool, and commands that run without a question."""

    preset: Preset = "balanced"
    tools: dict[str, Decision] = {}
    command_allowlist: list[str] = []


class SafetySection(Section, frozen=True):
    """Limits of one command, and whether secrets are replaced before anything leaves."""

    command_timeout_ms: Milliseconds = 120_000
    output_limit_bytes: Positive = 1_048_576
    redact_secrets: bool = True


class NetworkRules(Section, frozen=True):
    """Hosts that commands may reach. `otherwise`: what happens with other hosts."""

    allow: list[Host] = []
    otherwise: Literal["ask", "deny"] = "ask"


class SandboxSection(Section, frozen=True):
    """`mode`: `auto` is the strongest that works here, `require` runs no command without one, `off` is none.
    `backend`: this one or none. `network`: `true`, `false`, or a list of hosts. `writable`: directories
    outside the workspace that commands may write."""

    mode: SandboxMode = "auto"
    backend: SandboxBackend = "auto"
    network: bool | NetworkRules = True
    writable: list[str] = []


class Price(Section, frozen=True):
    """USD per million tokens. `cached_input` defaults to `input`, `cache_write` to 1.25 times `input`, which
    Anthropic and OpenAI charge. A model without a price here has its vendor's list price, at the vendor's own
    API only; `coder models` shows it."""

    input: Usd = 0.0
    cached_input: Usd | None = None
    output: Usd = 0.0
    cache_write: Usd | None = None

    def cost(self, prompt: int, completion: int, cached: int = 0, written: int = 0) -> float:
        """In USD; of the prompt `cached` tokens came from the provider's cache and `written` went into it."""
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
        read_price = self.input if self.cached_input is None else self.cached_input
        write_price = 1.25 * self.input if self.cache_write is None else self.cache_write
        plain = (prompt - cached - written) * self.input
        return (plain + cached * read_price + written * write_price + completion * self.output) / 1_000_000


def price_of(prices: Mapping[str, Price], model: str, base_url: str, prompt: int = 0) -> Price | None:
    """By the model's exact name, else by the longest prefix of it, else the list price of the vendor, where
    `base_url` is its own. `prompt`: the tokens of the request, since long ones may cost more."""
    fitting = [name for name in prices if model.startswith(name)]
    if fitting:
        return prices[max(fitting, key=len)]
    listed = config.prices.list_price(base_url, model)
    return listed.at(prompt) if listed is not None else None


class BudgetSection(Section, frozen=True):
    """The limit of a session's cost; unset, there is none. `warn_at`: the share of it at which coder
    warns."""

    max_usd: Usd | None = None
    warn_at: Fraction = 0.8
    prices: dict[str, Price] = {}


class SkillsSection(Section, frozen=True):
    """Further directories with skills."""

    paths: list[str] = []


class McpServer(Section, frozen=True):
    """One MCP server, in the common `mcpServers` shape: a program to start, or an address. `tools`: patterns
    of the tools to offer; empty, all. `sandbox`, `writable`: for a program. `client_id`: for logins, if the
    authorization server does not register clients by itself."""

    type: Transport = ""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False
    tools: list[str] = []
    timeout_ms: Milliseconds = 120_000
    startup_timeout_ms: Milliseconds = 30_000
    sandbox: bool = True
    writable: list[str] = []
    client_id: str = ""

    def __repr__(self) -> str:
        """Omits environment, arguments and headers, which may hold secrets."""
        return f"McpServer(command={self.command!r}, disabled={self.disabled!r})"


class McpSection(Section, frozen=True):
    """MCP servers by name."""

    servers: dict[str, McpServer] = {}


class HookCommand(Section, frozen=True):
    """One program. `timeout` is in seconds."""

    type: Literal["command"] = "command"
    command: str = ""
    timeout: Annotated[int, Meta(ge=1, le=3_600)] = 60


class HookGroup(Section, frozen=True):
    """Programs for the tools whose name `matcher` matches (a regular expression; empty or `*`: all)."""

    matcher: str = ""
    hooks: list[HookCommand] = []


class HooksSection(Section, frozen=True, rename="pascal"):
    """Programs that run at these points. Hooks of several files add up."""

    session_start: list[HookGroup] = []
    user_prompt_submit: list[HookGroup] = []
    pre_tool_use: list[HookGroup] = []
    post_tool_use: list[HookGroup] = []
    stop: list[HookGroup] = []
    pre_compact: list[HookGroup] = []
    notification: list[HookGroup] = []


class IdeSection(Section, frozen=True):
    """Whether the model is told what is open and selected in the editor."""

    enabled: bool = False


class UiSection(Section, frozen=True):
    """The terminal. `bell` and `notify` call if no key was pressed for `bell_seconds`. `thinking`: all of the
    reasoning, the first line of each thought, or none. `output_lines`: how much of a command's output or a
    diff is shown. `statusline`: a shell command that gets the session as JSON; its first line is shown below
    the prompt. `keys`: a key by action, such as `ctrl+t`, `alt+r`, `f5` or `ctrl+x ctrl+t`; empty switches it
    off."""

    vim: bool = False
    theme: Theme = "auto"
    plain: bool = False
    lang: Lang = ""
    title: bool = True
    bell: bool = True
    bell_seconds: Count = 20
    notify: bool = False
    thinking: Literal["full", "brief", "off"] = "full"
    output_lines: Count = 500
    statusline: str = ""
    keys: dict[KeyAction, Key] = {}

    def __post_init__(self) -> None:
        chosen = [key for key in self.keys.values() if key]
        if twice := next((key for key in chosen if chosen.count(key) > 1), ""):
            raise ValueError(f"ui.keys: {twice} is chosen for more than one action")


class Config(Section, frozen=True):
    """All settings. `Config()` is the defaults."""

    provider: ProviderSection = ProviderSection()
    routing: RoutingSection = RoutingSection()
    runtime: RuntimeSection = RuntimeSection()
    compaction: CompactionSection = CompactionSection()
    workflow: WorkflowSection = WorkflowSection()
    approval: ApprovalSection = ApprovalSection()
    permission: PermissionSection = PermissionSection()
    safety: SafetySection = SafetySection()
    sandbox: SandboxSection = SandboxSection()
    budget: BudgetSection = BudgetSection()
    skills: SkillsSection = SkillsSection()
    mcp: McpSection = McpSection()
    hooks: HooksSection = HooksSection()
    ide: IdeSection = IdeSection()
    ui: UiSection = UiSection()


# What each action is bound to unless `ui.keys` says otherwise.
DEFAULT_KEYS: Final[Mapping[KeyAction, tuple[str, ...]]] = {
    "newline": ("alt+enter", "ctrl+j"),
    "steer": ("ctrl+s",),
    "transcript": ("ctrl+o",),
    "rewind": (),
    "mode": ("shift+tab",),
    "editor": ("ctrl+x ctrl+e",),
    "search": ("ctrl+r",),
    "clear_screen": ("ctrl+l",),
    "suspend": ("ctrl+z",),
}


def bound_keys(chosen: Mapping[KeyAction, str]) -> dict[KeyAction, tuple[str, ...]]:
    """The keys of every action; a key chosen for one action is removed from the others."""
    taken = {key for key in chosen.values() if key}
    bound: dict[KeyAction, tuple[str, ...]] = {}
    for action, usual in DEFAULT_KEYS.items():
        own = chosen.get(action)
        free = tuple(key for key in usual if key not in taken)
        bound[action] = free if own is None else (own,) if own else ()
    return bound


def key_names(chosen: Mapping[KeyAction, str]) -> dict[str, str]:
    """As people read them, by action: `Ctrl+O`; `–` for none."""
    return {
        action: ", ".join(
            " ".join("+".join(map(str.capitalize, key.split("+"))) for key in keys.split()) for keys in bound
        )
        or "–"
        for action, bound in bound_keys(chosen).items()
    }
