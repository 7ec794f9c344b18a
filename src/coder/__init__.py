"""A coding agent for the terminal: one engine, many front ends.

The package is the SDK. Names are loaded when first used, so that importing `coder`
costs nothing and the command line can start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would double the cost of `coder --version`
if TYPE_CHECKING:
    from typing import Any

    from coder.engine.sdk import (
        AgentSession,
        SessionClosed,
        SyncSession,
        TurnResult,
        create_agent_session,
        run_agent,
        run_agent_sync,
    )
    from coder.history.sinks import HistorySink, JsonlHistorySink, LegacyXmlSink
    from coder.tools.function import tool
    from coder.tools.tool import ToolContext, ToolResult

__version__ = "0.1.0"

_HOME_OF = {
    "AgentSession": "coder.engine.sdk",
    "HistorySink": "coder.history.sinks",
    "JsonlHistorySink": "coder.history.sinks",
    "LegacyXmlSink": "coder.history.sinks",
    "SessionClosed": "coder.engine.sdk",
    "SyncSession": "coder.engine.sdk",
    "ToolContext": "coder.tools.tool",
    "ToolResult": "coder.tools.tool",
    "TurnResult": "coder.engine.sdk",
    "create_agent_session": "coder.engine.sdk",
    "run_agent": "coder.engine.sdk",
    "run_agent_sync": "coder.engine.sdk",
    "tool": "coder.tools.function",
}

__all__ = [
    "AgentSession",
    "HistorySink",
    "JsonlHistorySink",
    "LegacyXmlSink",
    "SessionClosed",
    "SyncSession",
    "ToolContext",
    "ToolResult",
    "TurnResult",
    "__version__",
    "create_agent_session",
    "run_agent",
    "run_agent_sync",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        from importlib import import_module

        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'coder' has no attribute {name!r}")
