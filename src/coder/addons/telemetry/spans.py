"""OpenTelemetry: turns, steps, tool calls and model calls as spans, by the GenAI semantic conventions.

Only where `OTEL_EXPORTER_OTLP_ENDPOINT` (or its form for traces) is set; needs the extra `otel`. Spans go out
by a thread of the SDK's; nothing here blocks or fails a turn, and the flush at the end has a bound. Contents
are left out unless `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for them; they are redacted like
all that leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from coder import (
    CallReady,
    ChatModel,
    Chunk,
    Completed,
    Engine,
    ModelError,
    ModelRequest,
    TextDelta,
    __version__,
    install_line,
)
from coder.protocol.entries import Action, Observation
from coder.protocol.events import AnyEvent, Recorded, SessionStarted, ToolCallChanged, TurnEnded, TurnStarted
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message
from coder.texts import Text

_FLUSH_SECONDS = 3.0
_EXPORT_SECONDS = 5  # for one request
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# By the beginning of a model's name: what the conventions call its provider.
_PROVIDERS = {
    "claude": "anthropic",
    "gemini": "gcp.gemini",
    "deepseek": "deepseek",
    "mistral": "mistral_ai",
    "codestral": "mistral_ai",
    "grok": "x_ai",
}


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Where traces are wanted; "" where they are not."""
    if (
        environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return ""
    if own := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return own
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    return f"{base.rstrip('/')}/v1/traces" if base else ""


def attach(engine: Engine) -> Text | None:
    """Make spans of a session's events; returns why that is not possible."""
    environ = engine.view.environment
    if not endpoint_of(environ):
        return None
    found = telemetry_for(environ)
    if not isinstance(found, Telemetry):
        return found
    engine.listen(found.saw)
    engine.wrap_model(lambda inner: TracedModel(inner, found, engine.view))
    engine.at_close(found.close)
    return None


def telemetry_for(environ: Mapping[str, str]) -> Telemetry | Text:
    """The phrase says why there is none."""
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol and protocol != "http/protobuf":
        return Text("servers.otel_protocol", protocol=protocol)
    try:
        return Telemetry(environ)
    except ImportError:
        return Text("servers.otel_missing", line=install_line("otel"))
    except Exception as error:  # a header or an address that the SDK does not take
        return Text("servers.otel_failed", why=f"{type(error).__name__}: {error}")


class Telemetry:
    """Makes spans of events and of requests to models."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises ImportError without the extra."""
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        quiet = logging.getLogger("opentelemetry")  # a receiver that is away is no news for the terminal
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "coder"}
        resource = Resource.create({**named, "service.version": __version__})
        exporter = OTLPSpanExporter(endpoint=endpoint_of(environ), timeout=_EXPORT_SECONDS)
        self._provider: Any = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Any = self._provider.get_tracer("coder", __version__)
        self._api: Any = trace
        self.captures = environ.get(_CAPTURE, "").strip().lower() in (
            "true",
            "1",
            "span_only",
            "span_and_event",
        )
        self._session = ""
        self._turn: Any = None
        self._step: Any = None
        self._step_number = -1
        self._tools: dict[str, Any] = {}
        self._waiting: dict[str, dict[str, Any]] = {}  # arguments of calls, by id, where contents are wanted

    # events

    def saw(self, event: AnyEvent) -> None:
        """Never raises: telemetry is not worth a turn."""
        with contextlib.suppress(Exception):
            self._take(event)

    def _take(self, event: AnyEvent) -> None:
        match event:
            case SessionStarted(session_id=session_id):
                self._session = session_id
            case TurnStarted(turn=number):
                self._end_turn({})
                attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "coder",
                              "coder.turn": number}  # fmt: skip
                self._turn = self._begin("invoke_agent coder", None, "INTERNAL", attributes)
            case TurnEnded():
                self._turn_ended(event)
            case ToolCallChanged():
                self._tool(event)
            case Recorded(recorded) if self.captures:
                self._content_of_call(recorded)

    def _turn_ended(self, event: TurnEnded) -> None:
        attributes: dict[str, Any] = {
            "coder.turn.status": event.status,
            "coder.turn.steps": event.steps,
            "coder.verification.status": event.verification.status,
            "gen_ai.usage.input_tokens": event.usage.prompt,
            "gen_ai.usage.output_tokens": event.usage.completion,
        }
        if event.status != "ok":
            attributes["error.type"] = event.status
        self._end_turn(attributes, failed=event.status not in ("ok", "cancelled"))

    def _end_turn(self, attributes: dict[str, Any], *, failed: bool = False) -> None:
        for span in self._tools.values():
            self._finish(span, {"error.type": "cancelled"}, failed=True)
        self._tools.clear()
        self._waiting.clear()
        self._finish(self._step, {})
        self._finish(self._turn, attributes, failed=failed)
        self._turn = self._step = None
        self._step_number = -1

    def _tool(self, event: ToolCallChanged) -> None:
        key = event.call_id
        if event.state == "executing" or (event.state in ("error", "cancelled") and key not in self._tools):
            about = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": event.tool,
                "gen_ai.tool.call.id": key,
                "gen_ai.tool.type": "function",
            }
            parent = self._step or self._turn
            self._tools[key] = self._begin(f"execute_tool {event.tool}", parent, "INTERNAL", about)
        if event.state in ("success", "error", "cancelled") and (span := self._tools.get(key)) is not None:
            failed = event.state != "success"
            attributes = self._waiting.pop(key, {})
            del self._tools[key]
            self._finish(
                span, {**attributes, **({"error.type": event.state} if failed else {})}, failed=failed
            )

    def _content_of_call(self, recorded: HistoryEvent) -> None:
        """Recorded before the events that begin and end the call's span."""
        match recorded.entry:
            case Action(call_id=key, input=given):
                self._waiting[key] = {"gen_ai.tool.call.arguments": _json(given)}
            case Observation(call_id=key):
                self._waiting.setdefault(key, {})["gen_ai.tool.call.result"] = recorded.content

    # requests

    def begin_request(self, request: ModelRequest, step: int) -> Any:
        with contextlib.suppress(Exception):
            if self._turn is not None and step != self._step_number:
                self._finish(self._step, {})
                self._step = self._begin(f"step {step}", self._turn, "INTERNAL", {"coder.step": step})
                self._step_number = step
            name = request.model
            provider = next((it for start, it in _PROVIDERS.items() if name.startswith(start)), "openai")
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": name,
            }
            if request.max_output_tokens:
                attributes["gen_ai.request.max_tokens"] = request.max_output_tokens
            if self.captures:
                attributes |= _input(request.messages)
            task = next((span for span in self._tools.values() if span.name == "execute_tool task"), None)
            return self._begin(f"chat {name}", task or self._step or self._turn, "CLIENT", attributes)
        return None

    def end_request(
        self, span: Any, done: Completed | None, chunks: Sequence[Chunk], error: BaseException | None
    ) -> None:
        with contextlib.suppress(Exception):
            attributes: dict[str, Any] = {}
            if done is not None:
                attributes["gen_ai.response.finish_reasons"] = [done.finish_reason]
                if done.model:
                    attributes["gen_ai.response.model"] = done.model
                if done.usage is not None:
                    attributes["gen_ai.usage.input_tokens"] = done.usage.prompt
                    attributes["gen_ai.usage.output_tokens"] = done.usage.completion
                if self.captures:
                    attributes["gen_ai.output.messages"] = _json([_output(chunks, done.finish_reason)])
            if error is not None:
                cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
                kind = error.kind if isinstance(error, ModelError) else type(error).__name__
                attributes["error.type"] = "cancelled" if cancelled else kind
            self._finish(span, attributes, failed=error is not None)

    # spans

    def _begin(self, name: str, parent: Any, kind: str, attributes: dict[str, Any]) -> Any:
        if self._session:
            attributes = {**attributes, "gen_ai.conversation.id": self._session}
        context = self._api.set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(
            name, context=context, kind=getattr(self._api.SpanKind, kind), attributes=attributes
        )

    def _finish(self, span: Any, attributes: dict[str, Any], *, failed: bool = False) -> None:
        if span is None:
            return
        span.set_attributes(attributes)
        if failed:
            span.set_status(self._api.StatusCode.ERROR)
        span.end()

    async def close(self) -> None:
        """Send what is left, for at most `_FLUSH_SECONDS`."""
        with contextlib.suppress(Exception):
            self._end_turn({"error.type": "cancelled"})
        # Neither the loop's executor nor the interpreter waits for a daemon thread.
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=self._shut_down, args=(loop, done), daemon=True).start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _FLUSH_SECONDS)

    def _shut_down(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
        with contextlib.suppress(Exception):
            self._provider.shutdown()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(done.set)


class TracedModel:
    """A model whose requests are spans; `step` tells the current one."""

    def __init__(self, inner: ChatModel, telemetry: Telemetry, view: Any) -> None:
        self._inner, self._telemetry, self._view = inner, telemetry, view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        span = self._telemetry.begin_request(request, self._view.step)
        done: Completed | None = None
        kept: list[Chunk] = []
        error: BaseException | None = None
        try:
            async with aclosing(cast("Any", self._inner.stream(request))) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Completed):
                        done = chunk
                    elif self._telemetry.captures and isinstance(chunk, TextDelta | CallReady):
                        kept.append(chunk)
                    yield chunk
        except BaseException as caught:
            error = caught if done is None else None  # closed after its last chunk
            raise
        finally:
            self._telemetry.end_request(span, done, kept, error)

    async def close(self) -> None:
        await self._inner.close()


# contents, in the form of the conventions


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode("utf-8", errors="replace")


def _input(messages: Sequence[Message]) -> dict[str, str]:
    system = [_text(message.content) for message in messages if message.role == "system"]
    said = [_message(message) for message in messages if message.role != "system"]
    found = {"gen_ai.input.messages": _json(said)}
    return {**found, "gen_ai.system_instructions": _json(system)} if system else found


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.tool_call_id, "result": message.content}
        return {"role": "tool", "parts": [part]}
    parts = [_text(message.content)] if message.content else []
    parts += [_call(call.id, call.name, call.function.arguments) for call in message.tool_calls]
    return {"role": message.role, "parts": parts}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _output(chunks: Sequence[Chunk], finish_reason: str) -> dict[str, Any]:
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    calls = [chunk.call for chunk in chunks if isinstance(chunk, CallReady)]
    parts = [_text(text)] if text else []
    parts += [_call(call.id, call.name, call.function.arguments) for call in calls]
    return {"role": "assistant", "parts": parts, "finish_reason": finish_reason}
