"""Google's Gemini API: `streamGenerateContent`, with thought signatures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from coder.models import wires
from coder.models.arguments import object_text, plain_name
from coder.models.model import ModelRequest
from coder.models.wires.wire import HttpWire, Piece, pieces, used_ids
from coder.protocol.messages import Image, Message

if TYPE_CHECKING:
    from coder.models.wires.answer_stream import AnswerStream


_UNTHINKING = re.compile(r"gemini-(1|2\.0)")
_BUDGETED = re.compile(r"gemini-2\.5")  # later models have levels
_BUDGETS = {
    "none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": -1,
}  # fmt: skip
_LEVELS = {"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium"}  # else: high
# For calls that another model made: without any signature they are refused.
_UNSIGNED = "skip_thought_signature_validator"

Content = dict[str, Any]


class Limits(msgspec.Struct, frozen=True):
    """What a model at this server was found to take."""

    thinking: bool = True
    effort: bool = True
    own: bool = True  # that it takes back what it signed or encrypted
    lowest: str = "minimal"  # of its levels


def body_of(request: ModelRequest, origin: str, limits: Limits) -> bytes:
    """The contents come last and are only appended to."""
    body: dict[str, Any] = {}
    if system := "\n\n".join(m.content for m in request.messages if m.role == "system"):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if request.tools:
        declared = [
            {
                "name": tool.name,
                "description": tool.function.description,
                "parametersJsonSchema": tool.function.parameters,
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    if config := _config(request, limits):
        body["generationConfig"] = config
    contents = _contents(request.messages, origin if limits.own else "", request.model)
    return msgspec.json.encode({**body, "contents": contents})


def _config(request: ModelRequest, limits: Limits) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if request.max_output_tokens:
        said["maxOutputTokens"] = request.max_output_tokens
    model, effort = request.model.lower(), request.reasoning_effort
    if limits.thinking and "gemini" in model and not _UNTHINKING.search(model):
        thinking: dict[str, Any] = {"includeThoughts": True}
        if effort and limits.effort:
            if _BUDGETED.search(model):
                thinking["thinkingBudget"] = _BUDGETS.get(effort, -1)
            else:
                level = _LEVELS.get(effort, "high")
                thinking["thinkingLevel"] = limits.lowest if level == "minimal" else level
        said["thinkingConfig"] = thinking
    return said


def _contents(messages: Sequence[Message], origin: str, model: str) -> list[Content]:
    said: list[Content] = []
    results: list[Content] | None = None  # of the calls before: all in one content
    images: list[Content] = []  # of those results, which go behind them
    ids: dict[str, str] = {}  # the model's own, of calls that had one
    for message in messages:
        if message.role == "tool":
            if results is None:
                results = []
                said.append({"role": "user", "parts": results})
            results.append(_result(message, ids))
            images += map(_image, message.images)
            continue
        results, images = None, _flush(images, said)
        if message.role == "assistant":
            own = pieces(message, "gemini", origin, model)
            ids = {p.call.id: p.raw["id"] for p in own if p.call is not None and p.raw.get("id")}
            parts = _signed([_part(piece) for piece in own], model)
            if parts:
                said.append({"role": "model", "parts": parts})
        elif message.role == "user":
            parts = [*([{"text": message.content}] if message.content else []), *map(_image, message.images)]
            said.append({"role": "user", "parts": parts})
    _flush(images, said)
    return said


def _flush(images: list[Content], said: list[Content]) -> list[Content]:
    if images:
        said.append({"role": "user", "parts": images})
    return []


def _part(piece: Piece) -> Content:
    beside = {name: value for name, value in piece.raw.items() if name != "id"}
    if piece.call is None:
        return {"text": piece.text, **beside}
    call: Content = {"name": plain_name(piece.call.name)}
    if piece.raw.get("id"):
        call["id"] = piece.raw["id"]
    call["args"] = msgspec.Raw(object_text(piece.call.function.arguments).encode("utf-8"))
    return {"functionCall": call, **beside}


def _signed(parts: list[Content], model: str) -> list[Content]:
    """Of parallel calls the first one bears the signature."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first and not re.search(r"gemini-[12]", model.lower()):
        first["thoughtSignature"] = _UNSIGNED
    return parts


def _result(message: Message, ids: dict[str, str]) -> Content:
    own = ids.get(message.tool_call_id or "")
    response: Content = {"name": plain_name(message.name or ""), "response": {"output": message.content}}
    return {"functionResponse": {**({"id": own} if own else {}), **response}}


def _image(image: Image) -> Content:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


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
        answering = [
            model
            for model in wires.answer_stream.dicts(data.get("models") if isinstance(data, dict) else None)
            if "generateContent" in model.get("supportedGenerationMethods", ["generateContent"])
        ]
        return [str(model["name"]).removeprefix("models/") for model in answering if model.get("name")]

    def body(self, request: ModelRequest) -> bytes:
        return body_of(request, self.origin, self._limits.get(request.model, Limits()))

    def answer(self, request: ModelRequest) -> AnswerStream:
        return wires.gemini_stream.GeminiStream(used_ids(request), self.origin, request.model)

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
