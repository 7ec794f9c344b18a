"""Google's Gemini API: `streamGenerateContent`, with thought signatures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from coder.model.base import ModelRequest
from coder.model.wires.client import HttpWire, used_ids
from coder.model.wires.gemini.request import Limits, body_of

if TYPE_CHECKING:
    from coder.model.wires.answer_stream import AnswerStream


class Gemini(HttpWire):
    """What a model refuses of thinking is left out from then on."""

    key_header = "x-goog-api-key"
    none_is_effort = False

    def prepare(self) -> None:
        self._limits: dict[str, Limits] = {}  # by model

    def url(self, model: str) -> str:
        return f"{self._base()}/models/{quote(model.removeprefix('models/'))}:streamGenerateContent?alt=sse"

    def models_url(self) -> str:
        return f"{self._base()}/models?pageSize=1000"

    def model_names(self, data: Any) -> list[str]:
        from coder.model.wires.answer_stream import dicts

        answering = [
            model
            for model in dicts(data.get("models") if isinstance(data, dict) else None)
            if "generateContent" in model.get("supportedGenerationMethods", ["generateContent"])
        ]
        return [str(model["name"]).removeprefix("models/") for model in answering if model.get("name")]

    def body(self, request: ModelRequest) -> bytes:
        return body_of(request, self.origin, self._limits.get(request.model, Limits()))

    def answer(self, request: ModelRequest) -> AnswerStream:
        from coder.model.wires.gemini.stream import GeminiStream

        return GeminiStream(used_ids(request), self.origin, request.model)

    def takes_effort(self, model: str) -> bool:
        return self._limits.get(model, Limits()).effort

    def leave_out(self, body: bytes, model: str) -> bool:
        before = self._limits.get(model, Limits())
        after = before
        if before.lowest == "minimal" and re.search(rb"level[^.]{0,40}minimal", body, re.IGNORECASE):
            after = msgspec.structs.replace(before, lowest="low")
        elif before.effort and re.search(rb"thinking[ _]?(level|budget)", body, re.IGNORECASE):
            after = msgspec.structs.replace(before, effort=False)
        elif before.own and re.search(rb"thought.?signature", body, re.IGNORECASE):
            after = msgspec.structs.replace(before, own=False)
        elif re.search(rb"thinking|includeThoughts", body, re.IGNORECASE):
            after = msgspec.structs.replace(before, thinking=False, effort=False)
        self._limits[model] = after
        return after != before

    def _base(self) -> str:
        """Of an address for this API, or for its imitation of Chat Completions."""
        base = self.base_url.strip().partition("?")[0].rstrip("/").removesuffix("/openai")
        return base if re.search(r"/v\d+\w*$", base) else f"{base}/v1beta"
