"""OpenAI's Responses API, stateless: nothing is stored there, encrypted reasoning comes with each request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from coder.config.provider import azure_base
from coder.model.base import ModelRequest
from coder.model.wires.client import HttpWire, endpoints, used_ids
from coder.model.wires.responses.request import Limits, body_of

if TYPE_CHECKING:
    from coder.model.wires.answer_stream import AnswerStream

_PATH = "/responses"


class Responses(HttpWire):
    """What the server refused (summaries, reasoning, effort) is left out from then on."""

    path = _PATH

    def prepare(self) -> None:
        self.urls = endpoints(azure_base(self.base_url), _PATH)
        self._limits: dict[str, Limits] = {}  # by model

    def models_url(self) -> str:
        return self.urls[0].replace(_PATH, "/models")

    def body(self, request: ModelRequest) -> bytes:
        return body_of(request, self.origin, self._limits.get(request.model, Limits()))

    def answer(self, request: ModelRequest) -> AnswerStream:
        from coder.model.wires.responses.stream import ResponseStream

        return ResponseStream(used_ids(request), self.origin, request.model)

    def takes_effort(self, model: str) -> bool:
        return self._limits.get(model, Limits()).effort

    def leave_out(self, body: bytes, model: str) -> bool:
        before = self._limits.get(model, Limits())
        after = before
        if before.keyed and b"prompt_cache_key" in body:
            after = msgspec.structs.replace(before, keyed=False)
        elif before.summary and (b"reasoning.summary" in body or b"reasoning summar" in body):
            after = msgspec.structs.replace(before, summary=False)
        elif before.effort and b"reasoning.effort" in body:
            after = msgspec.structs.replace(before, effort=False)
        elif before.own and re.search(rb"be (verified|decrypted)|invalid_encrypted", body):
            after = msgspec.structs.replace(before, own=False)
        elif b"ncrypted content" in body or b"encrypted_content" in body or b"'reasoning'" in body:
            after = msgspec.structs.replace(before, reasoning=False, summary=False, effort=False)
        self._limits[model] = after
        return after != before
