"""`coder apply DIR/ID`: a task's patch into the checkout, by the ordinary way of a tool call: policy,
approval, record and undo. Where a model would answer, the one call that applies the patch does."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from coder import (
    OPERATING_MODES,
    CallReady,
    Chunk,
    Completed,
    Exit,
    ModelRequest,
    Parser,
    Provider,
    TextDelta,
    UsageError,
    options_from,
    parser_for,
    read_settings,
    run_once,
)
from coder.protocol.messages import FunctionCall, ToolCall, Usage
from coder.protocol.ops import UserInput
from coder.texts import Catalog

_NAME = "patch.diff"
_NOT_APPLIED = ("error:", "denied:")
# Of git's own lines, which no line of a file can be taken for: a hunk's have a sign before them.
_NOT_TEXT = re.compile(r"^(?:GIT binary patch|(?:new|old|new file|deleted file) mode 120000)$", re.MULTILINE)


def run(arguments: list[str]) -> int:
    chosen = parser(arguments).parse_args(arguments)
    file = _patch_file(chosen.result)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError("batch.no_patch", file=file, why=error.strerror) from None
    if not data:
        raise UsageError("batch.empty_patch", file=file)
    try:
        patch = data.decode("utf-8")
    except UnicodeDecodeError:
        patch = ""
    if not patch or _NOT_TEXT.search(patch):
        raise UsageError("batch.binary_patch", file=file)
    options = msgspec.structs.replace(
        options_from(chosen),
        mode=chosen.mode,
        can_ask=sys.stdin.isatty() and sys.stdout.isatty(),
        session_kind="apply",
    )
    settings = read_settings(options)
    model = _PatchModel(patch, settings.texts)
    # Nobody is reached there: the model in its place makes no request.
    nobody = Provider("apply", "http://127.0.0.1/", model="apply")
    asked = UserInput(settings.texts.say("batch.apply_this", file=os.path.relpath(file)))
    status = asyncio.run(run_once(options, settings, nobody, None, asked, "text", model))
    return status or (Exit.ANSWERED if model.applied else Exit.FAILED)


def parser(arguments: list[str]) -> Parser:
    made = parser_for("apply", arguments)
    made.arguments.add_argument("result", type=Path, metavar="DIR/ID", help=made.say("batch.help.result"))
    made.options.add_argument(
        "--mode",
        choices=OPERATING_MODES,
        default=None,
        help=made.say("cli.help.mode", modes=", ".join(OPERATING_MODES)),
    )
    return made


def _patch_file(result: Path) -> Path:
    return result if result.name == _NAME else result / _NAME


class _PatchModel:
    """A `ChatModel` whose first answer is the call, and whose second says what came of it."""

    def __init__(self, patch: str, texts: Catalog) -> None:
        self._patch = patch
        self._texts = texts
        self._called = False
        self.applied = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        nothing = Usage(source="apply")
        if not self._called:
            self._called = True
            arguments = msgspec.json.encode({"patch": self._patch}).decode("utf-8")
            yield CallReady(ToolCall(id="call_apply", function=FunctionCall("patch", arguments)))
            yield Completed("tool_calls", nothing, "apply")
            return
        results = [message for message in request.messages if message.role == "tool"]
        if results:
            self.applied = not str(results[-1].content).startswith(_NOT_APPLIED)
        yield TextDelta(self._texts.say("batch.applied" if self.applied else "batch.not_applied"))
        yield Completed("stop", nothing, "apply")

    async def close(self) -> None:
        pass
