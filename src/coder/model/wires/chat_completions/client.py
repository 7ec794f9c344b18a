"""Client for the OpenAI Chat Completions API at any base URL."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder import __version__
from coder.model.base import Chunk, ModelError, ModelRequest, closing
from coder.model.http.address import parse_address
from coder.model.http.client import HttpClient, Response
from coder.model.http.faults import HttpFault
from coder.model.http.sse import LineTooLong, SseParser
from coder.model.wires.chat_completions.stream import ChatStream, merged
from coder.protocol.messages import FunctionCall, Message, ToolCall
from coder.texts import Phrase

if TYPE_CHECKING:
    from coder.model.errors import RequestInfo

_ERROR_LIMIT = 65_536  # bytes read of a refusal
_ANSWER_LIMIT = 64 * 1024 * 1024  # bytes of a non-streamed answer
_PATIENCE_AFTER_END = 5.0  # seconds to wait for usage and [DONE] after the finish reason

# Words in names of headers whose values are redacted.
_SECRET_NAMES = {"authorization", "key", "apikey", "token", "secret", "cookie", "auth"}

_decode = msgspec.json.decode


class ChatCompletions:
    """A `ChatModel` for one server, without retries (see `RetryingModel`)."""

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
        self._base_url = base_url
        self._key = api_key.strip()
        self._headers = dict(headers or {})
        self._names = list(names) or ["CODER_API_KEY"]
        self._timeout = timeout_ms / 1000
        self._http = HttpClient(idle=self._timeout, environment=environment)
        self._urls = _chat_urls(base_url)
        self._include_usage = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        response: Response | None = None
        try:
            response = await self._ask(request)
            async with closing(self._chunks(request, response)) as chunks:
                async for chunk in chunks:
                    yield chunk
            response.release()
        except HttpFault as fault:
            from coder.model import errors

            raise errors.of_fault(fault, self._shown, self._timeout) from None
        finally:
            if response is not None:
                response.abort()  # no-op once released

    async def close(self) -> None:
        await self._http.close()

    async def list_models(self) -> list[str]:
        from coder.model import errors

        url = self._urls[0].replace("/chat/completions", "/models")
        try:
            response = await self._http.request("GET", url, self._head(""))
            try:
                body = await response.read(_ANSWER_LIMIT)
                response.release()
            finally:
                response.abort()
        except HttpFault as fault:
            raise errors.of_fault(fault, self._shown, self._timeout) from None
        if response.status >= 400:
            raise self._refusal(response, body, "")
        try:
            data = _decode(body)
        except msgspec.DecodeError:
            raise errors.not_a_model(self._shown, body, self._secrets()) from None
        entries = data.get("data") or data.get("models") if isinstance(data, dict) else data
        names = [e.get("id") or e.get("name") for e in entries or [] if isinstance(e, dict)]
        return [name for name in names if isinstance(name, str)]

    # asking

    async def _ask(self, request: ModelRequest) -> Response:
        """A successful response. Falls back, once per server, to another path or to no `stream_options`."""
        while True:
            response = await self._http.request(
                "POST", self._urls[0], self._head(request.prompt_id), self._body(request)
            )
            if response.status < 400:
                return response
            try:
                body = await response.read(_ERROR_LIMIT)
                response.release()
            finally:
                response.abort()
            if response.status in (400, 422) and self._include_usage and b"stream_options" in body:
                self._include_usage = False
            elif response.status == 404 and len(self._urls) > 1 and b'"error"' not in body:
                self._urls = self._urls[1:]
            else:
                raise self._refusal(response, body, request.model)

    def _head(self, prompt_id: str) -> dict[str, str]:
        head = {
            "User-Agent": f"coder/{__version__}",
            "Accept": "text/event-stream, application/json",
            "Content-Type": "application/json",
        }
        if self._key:
            head["Authorization"] = f"Bearer {self._key}"
        if prompt_id:
            head["X-Client-Request-Id"] = ascii(prompt_id)[1:-1]  # a record may have any name
        lower = {name.lower() for name in self._headers}
        return {**{k: v for k, v in head.items() if k.lower() not in lower}, **self._headers}

    def _body(self, request: ModelRequest) -> bytes:
        body: dict[str, Any] = {"model": request.model, "messages": _wire_messages(request.messages)}
        if request.tools:
            body["tools"] = request.tools
        if request.reasoning_effort:
            body["reasoning_effort"] = request.reasoning_effort
        body["stream"] = True
        if self._include_usage:
            body["stream_options"] = {"include_usage": True}
        body.update(request.extra)
        return msgspec.json.encode(body)

    # answering

    async def _chunks(self, request: ModelRequest, response: Response) -> AsyncGenerator[Chunk, None]:
        used = (call.id for message in request.messages for call in message.tool_calls)
        answer = ChatStream(used)
        async with closing(response.chunks()) as body:
            first = await _first_bytes(body)
            start = first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
            if start in (b"{", b"[", b"<", b""):
                self._read_whole(first + await _rest(body, _ANSWER_LIMIT), answer, request.model)
            else:
                async for chunk in self._events(first, body, answer, response, request.model):
                    yield chunk
        for last in merged(answer.finish()):
            yield last

    async def _events(
        self, data: bytes, body: AsyncIterator[bytes], answer: ChatStream, response: Response, model: str
    ) -> AsyncGenerator[Chunk, None]:
        """The chunks of an event stream; raises if it breaks off."""
        from_server = _Events()
        while True:
            done = self._read_batch(from_server, data, answer)
            for chunk in merged(answer.take()):
                yield chunk
            if answer.error is not None:
                raise self._refused_midway(answer.error, model)
            if done or not data:
                break
            if answer.ended:
                response.idle = min(response.idle, _PATIENCE_AFTER_END)
            try:
                data = await anext(body, b"")
            except HttpFault:
                if not answer.ended:
                    raise
                break  # the answer is complete; only usage or [DONE] is missing
        if not done and not answer.ended:
            from coder.model import errors

            if from_server.good == 0 and from_server.sample:
                sample = from_server.sample.encode("utf-8")
                raise errors.not_a_model(self._shown, sample, self._secrets(), retryable=True)
            raise errors.broken(self._shown, Phrase("fault.unfinished"))

    def _read_batch(self, events: _Events, data: bytes, answer: ChatStream) -> bool:
        """Feed a batch to `answer`; true at [DONE]."""
        try:
            return events.read(data, answer)
        except LineTooLong as wrong:
            from coder.model import errors

            raise errors.broken(self._shown, wrong.phrase) from None

    def _read_whole(self, body: bytes, answer: ChatStream, model: str) -> None:
        """A response that is not streamed although a stream was requested."""
        from coder.model import errors

        try:
            data = _decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            if body.lstrip()[:1] == b"{":  # truncated JSON
                raise errors.broken(self._shown, Phrase("fault.json_cut")) from None
            raise errors.not_a_model(self._shown, body, self._secrets(), retryable=not body) from None
        answer.event(data)
        if answer.error is not None:
            raise self._refused_midway(answer.error, model)
        if not isinstance(data, dict) or not data.get("choices"):
            raise errors.not_a_model(self._shown, body, self._secrets())

    # refusals

    @property
    def _shown(self) -> str:
        """The configured address, for messages."""
        try:
            return parse_address(self._base_url).shown.removesuffix("/")
        except HttpFault:
            return "the model server"

    def _info(self, model: str) -> RequestInfo:
        from coder.model.errors import RequestInfo

        own = {name.lower() for name in self._headers}
        by_header = not self._key or "authorization" in own
        names = ["provider.headers", *self._names[1:]] if by_header and self._secrets()[1:] else self._names
        has_key = bool(self._key or self._secrets()[1:])
        return RequestInfo(self._shown, model, self._secrets(), tuple(names), has_key)

    def _secrets(self) -> Sequence[str]:
        words = {name: set(name.lower().split("-")) for name in self._headers}
        return [self._key, *(self._headers[name] for name in words if words[name] & _SECRET_NAMES)]

    def _refusal(self, response: Response, body: bytes, model: str) -> ModelError:
        from coder.model import errors

        return errors.of_status(
            response.status,
            response.headers,
            body,
            self._info(model),
        )

    def _refused_midway(self, error: Any, model: str) -> ModelError:
        from coder.model import errors

        return errors.of_error_object(error, self._info(model))


class _Events:
    """SSE events decoded as JSON. Invalid lines among valid ones are skipped."""

    def __init__(self) -> None:
        self._parser = SseParser()
        self.good = 0
        self.sample = ""  # of undecodable data

    def read(self, data: bytes, answer: ChatStream) -> bool:
        texts = self._parser.feed(data) if data else self._parser.finish()
        for text in texts:
            if text.__class__ is str and text[:1] == "{":
                if not self._event(text, answer):
                    for line in text.split("\n"):  # some servers omit the blank line between events
                        self._event(line, answer)
            elif text.strip() == "[DONE]":
                return True
            else:
                self.sample = self.sample or text[:2000]
        return False

    def _event(self, text: str, answer: ChatStream) -> bool:
        try:
            event = _decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            self.sample = self.sample or text[:2000]
            return False
        self.good += 1
        answer.event(event)
        return True


async def _first_bytes(body: AsyncIterator[bytes]) -> bytes:
    """Enough of the body to detect its format."""
    data = b""
    while len(data) < 4 or not data.strip():
        part = await anext(body, b"")
        if not part:
            break
        data += part
    return data


async def _rest(body: AsyncIterator[bytes], limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in body:
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return b"".join(parts)


def _chat_urls(base_url: str) -> list[str]:
    """Candidate URLs; a bare host may or may not need `/v1`."""
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if base.endswith("/chat/completions"):
        return [base + mark + query]
    bare = "/" not in base.partition("://")[2]
    paths = ["/v1/chat/completions", "/chat/completions"] if bare else ["/chat/completions"]
    return [base + path + mark + query for path in paths]


def _wire_messages(messages: Sequence[Message]) -> list[Message]:
    return [_wire_message(m) if m.reasoning is not None or m.tool_calls else m for m in messages]


def _wire_message(message: Message) -> Message:
    """Without our `reasoning`, and with arguments that are valid JSON, since some servers parse them."""
    calls = message.tool_calls
    if any(not _is_object(call.function.arguments) for call in calls):
        calls = [call if _is_object(call.function.arguments) else _quoted_call(call) for call in calls]
    return msgspec.structs.replace(message, reasoning=None, tool_calls=calls)


def _is_object(arguments: str) -> bool:
    try:
        _decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


def _quoted_call(call: ToolCall) -> ToolCall:
    """The call with a JSON object as arguments: the original repaired, or wrapped as a string."""
    from coder.model.json_repair import NotReadable, read_lenient

    sent = call.function.arguments
    quoted = msgspec.json.encode({"unreadable_arguments": sent}).decode("utf-8")
    with contextlib.suppress(NotReadable, ValueError, OverflowError, RecursionError):
        value, end = read_lenient(sent, open_number=True)
        if isinstance(value, dict) and end == len(sent):
            quoted = msgspec.json.encode(value).decode("utf-8")
    return ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=quoted))
