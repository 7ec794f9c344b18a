"""A coding agent for the terminal: one engine, many front ends.

The package is the SDK. Names are loaded when first used, so that importing `coder`
costs nothing and the command line can start fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would double the cost of `coder --version`
if TYPE_CHECKING:
    from typing import Any

    from coder.engine.sdk import AgentSession, TurnResult, create_agent_session, run_agent
    from coder.record.sinks import HistorySink, JsonlHistorySink, LegacyXmlSink

__version__ = "0.1.0"

_HOME_OF = {
    "AgentSession": "coder.engine.sdk",
    "HistorySink": "coder.record.sinks",
    "JsonlHistorySink": "coder.record.sinks",
    "LegacyXmlSink": "coder.record.sinks",
    "TurnResult": "coder.engine.sdk",
    "create_agent_session": "coder.engine.sdk",
    "run_agent": "coder.engine.sdk",
}

__all__ = [
    "AgentSession",
    "HistorySink",
    "JsonlHistorySink",
    "LegacyXmlSink",
    "TurnResult",
    "__version__",
    "create_agent_session",
    "run_agent",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        from importlib import import_module

        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'coder' has no attribute {name!r}")
