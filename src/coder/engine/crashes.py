"""Crash reports: details of internal errors, written to a file."""

from __future__ import annotations

import time

from coder.engine.agent import Agent
from coder.fs.atomic import write_atomically
from coder.fs.private import make_private
from coder.texts import Phrase

_MOST_KEPT = 20


def kept_for_report(agent: Agent, error: BaseException) -> Phrase:
    """Write the report; returns a message that names the file."""
    import traceback

    directory = agent.place.home / "crashes"
    path = directory / f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000_000:09}.txt"
    said = f"{type(error).__name__}: {error}"
    try:
        make_private(directory)
        for old in sorted(directory.iterdir())[: 1 - _MOST_KEPT]:
            old.unlink(missing_ok=True)
        write_atomically(path, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
    except OSError:
        return Phrase("engine.internal", error=said)
    return Phrase("engine.internal_kept", error=said, path=path)
