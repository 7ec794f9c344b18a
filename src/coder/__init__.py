"""A coding agent for the terminal: one engine, many front ends.

The package is the SDK, and the door for add-ons. Names are loaded when first used, so that importing `coder`
costs nothing and the command line can start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would double the cost of `coder --version`
if TYPE_CHECKING:
    from typing import Any

    from coder.cli.arguments import Parser, positive
    from coder.cli.common import columns, options_from, parser_for, settings_from, throwaway_environment
    from coder.config import ConfigError
    from coder.config.distribution import install_line, requirements
    from coder.config.load import home_directory
    from coder.config.models import (
        LOCAL_FILE,
        LOCAL_MODEL,
        LOCAL_NAME,
        LOCAL_PREFIX,
        LOCAL_SIZE,
        LOCAL_WINDOW,
        gguf_of,
        is_fetched,
        models_directory,
    )
    from coder.config.providers import KNOWN, Provider, child_environment, own_keys
    from coder.config.save import set_in_user_file
    from coder.config.schema import (
        OPERATING_MODES,
        PRESETS,
        Config,
        Dialect,
        OperatingMode,
        Price,
        ToolSet,
        price_of,
    )
    from coder.engine.agent import Agent
    from coder.engine.commands.mode_commands import Reply
    from coder.engine.engine import Engine
    from coder.engine.sdk import (
        AgentSession,
        SessionClosed,
        SyncSession,
        TurnResult,
        create_agent_session,
        run_agent,
        run_agent_sync,
    )
    from coder.engine.setup import (
        Options,
        Settings,
        model_in,
        open_agent,
        provider_of,
        read_settings,
        with_model_named,
    )
    from coder.extend.mcp.http_transport import messages
    from coder.extend.mcp.jsonrpc import encode_message
    from coder.extend.modes.discover import places
    from coder.extend.skills import HOME_DIRECTORIES
    from coder.history.sinks import HistoryError, HistorySink, JsonlHistorySink, LegacyXmlSink, encode
    from coder.models.model import (
        CallReady,
        ChatModel,
        Chunk,
        Completed,
        ModelError,
        ModelRequest,
        Progress,
        TextDelta,
        closing,
    )
    from coder.models.wires.chat_completions import ChatCompletions
    from coder.policy.network.door import open_door
    from coder.policy.sandbox.backends import Sandbox, SandboxLevel, probe
    from coder.policy.sandbox.caches import remove_tree
    from coder.policy.sandbox.places import LineAccess, close_places
    from coder.policy.secrets.redact import Redactor
    from coder.policy.secrets.secret_places import close_home
    from coder.policy.workspace import private_base, scratch_of
    from coder.tools.function import tool
    from coder.tools.registry import built_in
    from coder.tools.tool import ToolContext, ToolResult
    from coder.ui.browser.export_file import html_file
    from coder.ui.once import run_once
    from coder.ui.streams import Exit, UsageError, complain, redirect_stdout_to_devnull, show, show_json
    from coder.ui.terminal.ask.question import ask_at_start
    from coder.ui.terminal.render.escapes import flat, safe
    from coder.ui.terminal.render.plain import PlainRenderer
    from coder.ui.terminal.render.width import clip, clip_left, plain, text_width

__version__ = "0.1.0"

# The public names, by module.
_PUBLIC = {
    "coder.cli.arguments": "Parser positive",
    "coder.cli.common": "columns options_from parser_for settings_from throwaway_environment",
    "coder.config": "ConfigError",
    "coder.config.distribution": "install_line requirements",
    "coder.config.load": "home_directory",
    "coder.config.models": (
        "LOCAL_FILE LOCAL_MODEL LOCAL_NAME LOCAL_PREFIX LOCAL_SIZE LOCAL_WINDOW gguf_of is_fetched "
        "models_directory "
    ),
    "coder.config.providers": "KNOWN Provider child_environment own_keys",
    "coder.config.save": "set_in_user_file",
    "coder.config.schema": "Config Dialect OPERATING_MODES OperatingMode PRESETS Price ToolSet price_of",
    "coder.engine.agent": "Agent",
    "coder.engine.commands.mode_commands": "Reply",
    "coder.engine.engine": "Engine",
    "coder.engine.sdk": (
        "AgentSession SessionClosed SyncSession TurnResult create_agent_session run_agent run_agent_sync "
    ),
    "coder.engine.setup": (
        "Options Settings model_in open_agent provider_of read_settings with_model_named "
    ),
    "coder.extend.mcp.http_transport": "messages",
    "coder.extend.mcp.jsonrpc": "encode_message",
    "coder.extend.modes.discover": "places",
    "coder.extend.skills": "HOME_DIRECTORIES",
    "coder.history.sinks": "HistoryError HistorySink JsonlHistorySink LegacyXmlSink encode",
    "coder.models.model": (
        "CallReady ChatModel Chunk Completed ModelError ModelRequest Progress TextDelta closing "
    ),
    "coder.models.wires.chat_completions": "ChatCompletions",
    "coder.policy.network.door": "open_door",
    "coder.policy.sandbox.backends": "Sandbox SandboxLevel probe",
    "coder.policy.sandbox.caches": "remove_tree",
    "coder.policy.sandbox.places": "LineAccess close_places",
    "coder.policy.secrets.redact": "Redactor",
    "coder.policy.secrets.secret_places": "close_home",
    "coder.policy.workspace": "private_base scratch_of",
    "coder.tools.function": "tool",
    "coder.tools.registry": "built_in",
    "coder.tools.tool": "ToolContext ToolResult",
    "coder.ui.browser.export_file": "html_file",
    "coder.ui.once": "run_once",
    "coder.ui.streams": "Exit UsageError complain redirect_stdout_to_devnull show show_json",
    "coder.ui.terminal.ask.question": "ask_at_start",
    "coder.ui.terminal.render.escapes": "flat safe",
    "coder.ui.terminal.render.plain": "PlainRenderer",
    "coder.ui.terminal.render.width": "clip clip_left plain text_width",
}

__all__ = [
    "HOME_DIRECTORIES",
    "KNOWN",
    "LOCAL_FILE",
    "LOCAL_MODEL",
    "LOCAL_NAME",
    "LOCAL_PREFIX",
    "LOCAL_SIZE",
    "LOCAL_WINDOW",
    "OPERATING_MODES",
    "PRESETS",
    "Agent",
    "AgentSession",
    "CallReady",
    "ChatCompletions",
    "ChatModel",
    "Chunk",
    "Completed",
    "Config",
    "ConfigError",
    "Dialect",
    "Engine",
    "Exit",
    "HistoryError",
    "HistorySink",
    "JsonlHistorySink",
    "LegacyXmlSink",
    "LineAccess",
    "ModelError",
    "ModelRequest",
    "OperatingMode",
    "Options",
    "Parser",
    "PlainRenderer",
    "Price",
    "Progress",
    "Provider",
    "Redactor",
    "Reply",
    "Sandbox",
    "SandboxLevel",
    "SessionClosed",
    "Settings",
    "SyncSession",
    "TextDelta",
    "ToolContext",
    "ToolResult",
    "ToolSet",
    "TurnResult",
    "UsageError",
    "__version__",
    "ask_at_start",
    "built_in",
    "child_environment",
    "clip",
    "clip_left",
    "close_home",
    "close_places",
    "closing",
    "columns",
    "complain",
    "create_agent_session",
    "encode",
    "encode_message",
    "flat",
    "gguf_of",
    "home_directory",
    "html_file",
    "install_line",
    "is_fetched",
    "messages",
    "model_in",
    "models_directory",
    "open_agent",
    "open_door",
    "options_from",
    "own_keys",
    "parser_for",
    "places",
    "plain",
    "positive",
    "price_of",
    "private_base",
    "probe",
    "provider_of",
    "read_settings",
    "redirect_stdout_to_devnull",
    "remove_tree",
    "requirements",
    "run_agent",
    "run_agent_sync",
    "run_once",
    "safe",
    "scratch_of",
    "set_in_user_file",
    "settings_from",
    "show",
    "show_json",
    "text_width",
    "throwaway_environment",
    "tool",
    "with_model_named",
]


def __getattr__(name: str) -> Any:
    for module, names in _PUBLIC.items():
        if name in names.split():
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module 'coder' has no attribute {name!r}")
