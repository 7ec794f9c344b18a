"""mini-swe-agent as a peer of `live.py`: runs in an environment that has it, inside a sandbox.

Reads a task a line as JSON (`ask`, `directory`, `seconds`) and answers with a line (`steps`, `tokens`,
`answer`, `seconds`, `error`); the seconds are those of `work_clock.py`. Its text-based configuration is taken
as it is: a small model's tool calls are not reliable.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from work_clock import clock_of

_LOOK_SECONDS = 0.25  # between two looks at the clock


def main() -> int:
    url, key, model, pid = sys.argv[1:5]
    os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_CONFIGURED": "1"}
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it looks for prices on the network first
    agents = import_module("minisweagent.agents.default")
    local = import_module("minisweagent.environments.local")
    models = import_module("minisweagent.models.litellm_textbased_model")
    package = Path(str(import_module("minisweagent").__file__)).parent
    settings = import_module("yaml").safe_load((package / "config" / "mini_textbased.yaml").read_text())
    settings["agent"].pop("mode", None)
    words = {"api_base": url, "api_key": key, "temperature": 0.0}
    settings["model"]["model_kwargs"] |= words
    _tell({"ready": True})
    for line in sys.stdin:
        task = json.loads(line)
        chat = models.LitellmTextbasedModel(
            model_name=f"openai/{model}", cost_tracking="ignore_errors", **settings["model"]
        )
        place = local.LocalEnvironment(cwd=task["directory"], **settings["environment"])
        agent = agents.DefaultAgent(chat, place, **settings["agent"])
        submitted = error = ""
        clock = clock_of(int(pid))
        signal.signal(signal.SIGALRM, partial(_look, clock, task["seconds"]))
        signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
        try:
            submitted = agent.run(task["ask"]).get("submission", "")
        except KeyboardInterrupt:
            error = "out of work"
        except Exception as failure:  # whatever it fails with, the next task is tried
            error = f"{type(failure).__name__}: {failure}"[:200]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = clock()
        tokens = sum(map(_tokens, agent.messages))
        told = {"answer": _answer(agent.messages, submitted), "error": error}
        _tell({"steps": agent.n_calls, "tokens": tokens, "seconds": took, **told})
    return 0


def _answer(messages: list[dict[str, Any]], submitted: str) -> str:
    """What it submits, and its last two messages: it is told to submit with a command of its own.

    An answer that it rejects for having no command or several counts like any other.
    """
    said = [_said(one) for one in messages]
    return "\n".join([*[one for one in said if one][-2:], submitted])


def _said(message: dict[str, Any]) -> str:
    rejected = message.get("extra", {}).get("model_response")
    return str((message.get("content") if message.get("role") == "assistant" else rejected) or "")


def _look(clock: Callable[[], float], seconds: float, _signal: int, _frame: object) -> None:
    if clock() >= seconds:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt  # every other exception is tried again


def _tokens(message: dict[str, Any]) -> int:
    response = message.get("extra", {}).get("response")
    usage = (response.get("usage") if isinstance(response, dict) else None) or {}
    return int(usage.get("total_tokens") or 0)


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    sys.exit(main())
