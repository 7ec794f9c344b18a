"""The child's program: serves one GGUF file on loopback until its stdin ends.

Run by path, with the options as one JSON line on stdin (so that the key is in no argument list). Answers with
one JSON line: `{"url": …}` once the model is loaded, or `{"fault": …}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any


def main() -> int:
    out = os.dup(1)
    os.dup2(2, 1)  # the library prints to stdout as well
    given = json.loads(sys.stdin.readline())
    if sys.platform == "linux":
        _die_with(given["parent"])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        xllamacpp = import_module("xllamacpp")
    except ImportError as error:
        _tell(out, {"fault": "missing", "why": str(error)})
        return 1
    try:
        server = xllamacpp.Server(_params(xllamacpp.CommonParams(), given))
    except Exception as error:
        _tell(out, {"fault": "failed", "why": str(error)})
        return 1
    _tell(out, {"url": server.listening_address})
    signal.pause()
    return 0


def _params(params: Any, given: dict[str, Any]) -> Any:
    """One slot: a second conversation in turns would evict the first one's KV cache."""
    params.model.path = given["gguf"]
    params.n_ctx = given["window"]
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [given["key"]]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given["threads"]
    params.ui = False
    return params


def _tell(descriptor: int, what: dict[str, str]) -> None:
    os.write(descriptor, json.dumps(what).encode() + b"\n")


def _end_with_stdin() -> None:
    """The other end is closed when coder closes the session, or is killed."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def _die_with(parent: int) -> None:
    """The kernel's signal too: the library may hold the interpreter's lock while it loads."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
