"""What all wires share: one POST, its event stream, and what can go wrong with either."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder import __version__, models
from coder.base import http
from coder.base.files import digest
from coder.base.http.address import parse_address
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.config.providers import is_azure, secrets_of, without_ending
from coder.models import wires
from coder.models.model import (
    Adapted,
    CallDelta,
    Chunk,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    closing,
)
from coder.protocol.messages import Message, Opaque, Part, ToolCall
from coder.texts import Text

if TYPE_CHECKING:
    from coder.models.wires.answer_stream import AnswerStream, EventReader


_ERROR_LIMIT = 65_536  # bytes read of a refusal
_ANSWER_LIMIT = 64 * 1024 * 1024  # bytes of an answer, or characters of a streamed one
_MOST_CALLS = 1_000  # of one answer
_TEXTS = (TextDelta, ReasoningDelta, CallDelta)
_PATIENCE_AFTER_END = 5.0  # seconds to wait for usage and the end mark after the finish reason

_decode = msgspec.json.decode


class HttpWire(ABC):
    """A `ChatModel` for one server, without retries (see `RetryingModel`).

    A wire defines `models_url`, `body` and `answer`, sets `urls` or defines `url`, and overrides what its API
    does otherwise.
    """

    key_header = "authorization"  # in lower case
    path = ""  # that an address of this API may end with
    none_is_effort = True  # `none` is sent like the others
    server = ""  # what it called itself in its newest answer
    urls: Sequence[str] = ()  # candidates, for an address that may lack its version; the first is in use

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 120_000,
        *,
        environment: Mapping[str, str] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """`names`: the variables or settings that key and address come from."""
        self.base_url = without_ending(base_url, self.path)
        self.key = api_key.strip()
        if is_azure(base_url) and self.key_header == "authorization":
            self.key_header = "api-key"
        self._headers = dict(headers or {})
        self._names = list(names) or ["CODER_API_KEY"]
        # Empty for a provider's own address
        self._base_name = names[1] if len(names) > 1 else "" if names else "CODER_BASE_URL"
        self._timeout = timeout_ms / 1000
        self._http = HttpClient(idle=self._timeout, environment=environment)
        self._efforts: dict[str, tuple[str, ...]] = {}  # by model, once a refusal has listed them
        self.prepare()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        response: Response | None = None
        try:
            model, wanted, before = request.model, request.reasoning_effort, self._sent_effort(request)
            response = await self._ask(request)
            if wanted and (effort := self._sent_effort(request)) != before:
                key = "model.other_effort" if effort else "model.no_effort"
                yield Adapted(Text(key, model=model, effort=wanted, **({"other": effort} if effort else {})))
            async with closing(self._chunks(request, response)) as chunks:
                async for chunk in chunks:
                    yield chunk
            response.release()
        except HttpError as fault:
            from coder.models import errors

            raise errors.of_fault(fault, self._shown, self._timeout, self._base_name) from None
        finally:
            if response is not None:
                response.abort()  # no-op once released

    async def close(self) -> None:
        await self._http.close()

    async def list_models(self) -> list[str]:
        from coder.models import errors

        try:
            response = await self._http.request("GET", self.models_url(), self._head(""))
            try:
                body = await response.read(_ANSWER_LIMIT)
                response.release()
            finally:
                response.abort()
        except HttpError as fault:
            raise errors.of_fault(fault, self._shown, self._timeout, self._base_name) from None
        if response.status >= 400:
            raise self._refusal(response, body, "")
        try:
            data = _decode(body)
        except (msgspec.DecodeError, RecursionError):
            raise errors.not_a_model(self._info(""), body) from None
        return self.model_names(data)

    # what a wire defines

    @abstractmethod
    def prepare(self) -> None:
        """Set what the wire itself keeps."""

    def url(self, model: str) -> str:
        return self.urls[0]

    @abstractmethod
    def models_url(self) -> str: ...

    def model_names(self, data: Any) -> list[str]:
        """The names in the answer to `models_url`."""
        entries = data.get("data") or data.get("models") if isinstance(data, dict) else data
        names = (entry.get("id") or entry.get("name") for entry in wires.answer_stream.dicts(entries))
        return [name for name in names if isinstance(name, str)]

    def authorization(self) -> dict[str, str]:
        """The header with the key, and others that the API wants."""
        if not self.key:
            return {}
        if self.key_header == "authorization":
            return {"Authorization": f"Bearer {self.key}"}
        return {self.key_header: self.key}

    @abstractmethod
    def body(self, request: ModelRequest) -> bytes: ...

    @abstractmethod
    def answer(self, request: ModelRequest) -> AnswerStream: ...

    def routing(self, request: ModelRequest) -> dict[str, str]:
        """Headers by which a service finds the machine that has the conversation in its cache."""
        return {}

    def takes_effort(self, model: str) -> bool:
        """Whether a reasoning effort is sent: until the server has refused it."""
        return True

    def leave_out(self, body: bytes, model: str) -> bool:
        """After a refusal (400, 422): whether the next request will do without what this server refused."""
        return False

    # asking

    async def _ask(self, request: ModelRequest) -> Response:
        """A successful response. What a server refuses is left out, once per server."""
        while True:
            url, head = self.url(request.model), {**self.routing(request), **self._head(request.prompt_id)}
            fitting = msgspec.structs.replace(request, reasoning_effort=self._effort(request))
            response = await self._http.request("POST", url, head, self.body(fitting))
            if response.status < 400:
                self.server = response.headers.get("server", "")
                return response
            try:
                body = await response.read(_ERROR_LIMIT)
                response.release()
            finally:
                response.abort()
            if not self._adapt(response.status, body, fitting):
                raise self._refusal(response, body, request.model)
            if request.again is not None:
                await request.again()

    def _adapt(self, status: int, body: bytes, request: ModelRequest) -> bool:
        if status == 404 and len(self.urls) > 1 and b'"error"' not in body:
            self.urls = self.urls[1:]
            return True
        if status not in (400, 422):
            return False
        if request.reasoning_effort and (taken := listed_efforts(body, request.reasoning_effort)):
            self._efforts[request.model] = taken
            return True
        return self.leave_out(body, request.model)

    def _effort(self, request: ModelRequest) -> str | None:
        """The effort that is wanted, or the nearest that the model takes."""
        wanted, taken = request.reasoning_effort, self._efforts.get(request.model, ())
        if not wanted or not taken or wanted in taken or (wanted == "none" and not self.none_is_effort):
            return wanted

        return nearest(wanted, taken)

    def _sent_effort(self, request: ModelRequest) -> str | None:
        return self._effort(request) if self.takes_effort(request.model) else None

    def _head(self, prompt_id: str) -> dict[str, str]:
        head = {
            "User-Agent": f"coder/{__version__}",
            "Accept": "text/event-stream, application/json",
            "Content-Type": "application/json",
        }
        head |= self.authorization()
        if prompt_id:
            head["X-Client-Request-Id"] = ascii(prompt_id)[1:-1]  # a record may have any name
        lower = {name.lower() for name in self._headers}
        return {**{k: v for k, v in head.items() if k.lower() not in lower}, **self._headers}

    # answering

    async def _chunks(self, request: ModelRequest, response: Response) -> AsyncGenerator[Chunk, None]:
        answer = self.answer(request)
        async with closing(response.chunks()) as body:
            first = await wires.answer_stream.first_bytes(body)
            start = first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
            if start in (b"{", b"[", b"<", b""):
                self._read_whole(
                    first + await wires.answer_stream.rest(body, _ANSWER_LIMIT), answer, request.model
                )
            else:
                async for chunk in self._events(first, body, answer, response, request.model):
                    yield chunk
        for last in wires.answer_stream.merged(answer.finish()):
            yield last

    async def _events(
        self, data: bytes, body: AsyncIterator[bytes], answer: AnswerStream, response: Response, model: str
    ) -> AsyncGenerator[Chunk, None]:
        """The chunks of an event stream; raises if it breaks off."""
        from_server = wires.answer_stream.EventReader()
        now = asyncio.get_running_loop().time
        deadline = 0.0  # for usage and the end mark, which a server may put off by pings
        size = 0
        while True:
            done = self._read_batch(from_server, data, answer)
            for chunk in wires.answer_stream.merged(answer.take()):
                yield chunk
                size += len(chunk.text) if isinstance(chunk, _TEXTS) else 0
            if size > _ANSWER_LIMIT or len(answer.calls()) > _MOST_CALLS:
                from coder.models import errors

                raise errors.too_large(self._shown, _ANSWER_LIMIT, _MOST_CALLS)
            if answer.error is not None:
                raise self._refused_midway(answer.error, model)
            if done or not data:
                break
            if answer.ended:
                deadline = deadline or now() + _PATIENCE_AFTER_END
                response.idle = min(response.idle, max(0.0, deadline - now()))
                if now() >= deadline:
                    break
            try:
                data = await anext(body, b"")
            except HttpError:
                if not answer.ended:
                    raise
                break  # the answer is complete; only usage or [DONE] is missing
        if not done and not answer.ended:
            from coder.models import errors

            if from_server.good == 0 and from_server.sample:
                sample = from_server.sample.encode("utf-8")
                raise errors.not_a_model(self._info(model), sample, retryable=True)
            raise errors.broken(self._shown, Text("fault.unfinished"))

    def _read_batch(self, events: EventReader, data: bytes, answer: AnswerStream) -> bool:
        """Feed a batch to `answer`; true at its end."""
        try:
            return events.read(data, answer)
        except http.sse.LineTooLong as wrong:
            from coder.models import errors

            raise errors.broken(self._shown, wrong.phrase) from None

    def _read_whole(self, body: bytes, answer: AnswerStream, model: str) -> None:
        """A response that is not streamed although a stream was requested."""
        from coder.models import errors

        try:
            data = wires.answer_stream.decoded(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            if body.lstrip()[:1] == b"{":  # truncated JSON
                raise errors.broken(self._shown, Text("fault.json_cut")) from None
            raise errors.not_a_model(self._info(model), body, retryable=not body) from None
        if isinstance(data, list):  # Gemini's events, where they do not come as such
            for event in data:
                answer.event(event)
        is_answer = answer.whole(data) if isinstance(data, dict) else answer.ended
        if answer.error is not None:
            raise self._refused_midway(answer.error, model)
        if not is_answer:
            raise errors.not_a_model(self._info(model), body)

    # refusals

    @property
    def _shown(self) -> str:
        """The configured address, for messages."""
        try:
            return parse_address(self.base_url).shown.removesuffix("/")
        except HttpError:
            return "the model server"

    @property
    def origin(self) -> str:
        """Host and port, which tell whose reasoning can be read here."""
        try:
            return parse_address(self.base_url).host_header
        except HttpError:
            return ""

    def _info(self, model: str) -> models.errors.RequestInfo:
        own = {name.lower() for name in self._headers}
        by_header = not self.key or self.key_header in own
        by_header = by_header and bool(secrets_of("", self._headers))
        names = ["provider.headers", *self._names[1:]] if by_header else self._names
        has_key = any(self._secrets())
        return models.errors.RequestInfo(
            self._shown, model, self._secrets(), tuple(names), has_key, self._base_name
        )

    def _secrets(self) -> Sequence[str]:
        return [self.key, *secrets_of(self.base_url, self._headers)]

    def _refusal(self, response: Response, body: bytes, model: str) -> ModelError:
        from coder.models import errors

        return errors.of_status(
            response.status,
            response.headers,
            body,
            self._info(model),
        )

    def _refused_midway(self, error: Any, model: str) -> ModelError:
        from coder.models import errors

        return errors.of_error_object(error, self._info(model))


def used_ids(request: ModelRequest) -> Iterable[str]:
    """Ids of the conversation's calls, which an answer's must differ from."""
    return (call.id for message in request.messages for call in message.tool_calls)


def cache_key(request: ModelRequest) -> str:
    """The same for all requests of a session, whose inputs are numbered; empty outside of one."""
    session = request.prompt_id.rpartition("-")[0] or request.prompt_id
    return digest(session.encode("utf-8", "surrogatepass"), 16) if session else ""


def endpoints(base_url: str, path: str, *, bare: Sequence[str] = ("/v1", "")) -> list[str]:
    """Candidate URLs for `path`; `bare`: what an address without a path may lack in front of it."""
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if base.endswith(path):
        return [base + mark + query]
    before = bare if "/" not in base.partition("://")[2] else ("",)
    return [base + version + path + mark + query for version in before]


_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LIST = re.compile(
    rb"(?:supported values|input should be|must be|one of|valid values|valid options|expected)\b(.{0,200})",
    re.IGNORECASE | re.DOTALL,
)
_EFFORT = re.compile(rb"(?<![\w-])(?:none|minimal|low|medium|high|xhigh|max)(?![\w-])")


def listed_efforts(refusal: bytes, refused: str) -> tuple[str, ...]:
    """Those that may be sent instead of the refused one; none where the refusal is of something else."""
    found = _LIST.search(refusal) if b"effort" in refusal else None
    words = {word.decode("ascii") for word in _EFFORT.findall(found[1])} if found else set()
    return tuple(one for one in _ORDER if one in words) if refused not in words else ()


def nearest(effort: str, taken: Sequence[str]) -> str:
    """The lower one of two that are as near; little reasoning is not none."""
    at = _ORDER.index(effort) if effort in _ORDER else 0
    reasons = [one for one in taken if one != "none"] or taken
    return min(reasons, key=lambda one: (abs(_ORDER.index(one) - at), _ORDER.index(one)))


class Piece(msgspec.Struct, frozen=True):
    """A run of text, a call, or (with neither) a reasoning item. `raw`: the provider's own fields."""

    text: str = ""
    call: ToolCall | None = None
    raw: dict[str, Any] = {}


class PartList:
    """Collects the parts of an answer while it streams."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._calls = 0

    def text(self, text: str, raw: dict[str, Any] | None = None) -> None:
        last = self._parts[-1] if self._parts else None
        if last is not None and last.text and not last.raw and not raw:
            self._parts[-1] = Part(text=last.text + len(text))
        elif text or raw:
            self._parts.append(Part(text=len(text), raw=raw))

    def call(self, raw: dict[str, Any] | None = None) -> None:
        self._parts.append(Part(call=self._calls, raw=raw))
        self._calls += 1

    def item(self, raw: dict[str, Any]) -> None:
        self._parts.append(Part(raw=raw))

    def opaque(self, wire: str, origin: str, model: str) -> Opaque | None:
        """None if nothing but text and calls came, which the message has already."""
        if not any(part.raw for part in self._parts):
            return None
        return Opaque(wire=wire, origin=origin, model=model, parts=self._parts)


def pieces(message: Message, wire: str, origin: str, model: str) -> list[Piece]:
    """The assistant's message for this model: in the original order if it still fits text and calls."""
    opaque = message.opaque
    own = opaque is not None and (opaque.wire, opaque.origin, opaque.model) == (wire, origin, model)
    parts = opaque.parts if opaque is not None and own else []
    if _fits(parts, message):
        return list(_in_order(parts, message))
    items = [Piece(raw=part.raw) for part in parts if part.raw and not part.text and part.call is None]
    text = [Piece(text=message.content)] if message.content else []
    return [*items, *text, *(Piece(call=call) for call in message.tool_calls)]


def _fits(parts: Iterable[Part], message: Message) -> bool:
    calls = [part.call for part in parts if part.call is not None]
    length = sum(part.text for part in parts)
    return length == len(message.content) and calls == list(range(len(message.tool_calls)))


def _in_order(parts: Iterable[Part], message: Message) -> Iterator[Piece]:
    at = 0
    for part in parts:
        call = None if part.call is None else message.tool_calls[part.call]
        yield Piece(text=message.content[at : at + part.text], call=call, raw=part.raw or {})
        at += part.text
