"""What each vendor's server streams for a turn of the script, as its own SDK reads it.

Beside the keys of `ScriptedServer` a turn may have `signature` (of its reasoning) and `sources` (pairs of
title and address); `finish` is the vendor's own word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from coder.models.scripted import Turn
from coder.models.scripted import events as chat_events

# What an event is about, and its bytes.
Marked = tuple[str, bytes]
WIRES = ("chat", "responses", "messages", "gemini")


def stream_of(wire: str, turn: Turn, model: str = "m", *, usage: bool = True) -> list[Marked]:
    """Kinds: `text`, `call`, `end` (from the finish reason on), or empty."""
    makers: dict[str, Callable[[Turn, str], Iterator[Marked]]] = {
        "responses": _responses,
        "messages": _messages,
        "gemini": _gemini,
    }
    if wire != "chat":
        return list(makers[wire](turn, model))
    marked = [(_chat_kind(event), event) for event in chat_events(turn, model, usage=usage)]
    return [*marked, ("end", b"data: [DONE]\n\n")]


def _chat_kind(event: bytes) -> str:
    if b"tool_calls" in event and b'"finish_reason":null' in event:
        return "call"
    if b'"finish_reason":null' not in event:
        return "end"
    return "text" if b'"content":"' in event and b'"content":""' not in event else ""


def error_event(wire: str) -> bytes:
    """A server that breaks in the middle of an answer."""
    message = "the engine fell over"
    errors: dict[str, Any] = {
        "chat": {"error": {"message": message, "code": 502}},
        "messages": {"type": "error", "error": {"type": "overloaded_error", "message": message}},
        "responses": {
            "type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 9,
        },
        "gemini": {"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}},
    }  # fmt: skip
    return _event(errors[wire], named=wire in ("messages", "responses"))


def _event(data: dict[str, Any], *, named: bool = False) -> bytes:
    head = f"event: {data['type']}\n" if named else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _chunks(turn: Turn, text: str) -> Iterator[str]:
    size = max(1, turn.get("chunk", 16))
    yield from (text[at : at + size] for at in range(0, len(text), size))


def _arguments(call: dict[str, Any]) -> str:
    arguments = call.get("arguments", {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _calls(turn: Turn, prefix: str) -> Iterator[tuple[str, str, str]]:
    for at, call in enumerate(turn.get("calls", ())):
        yield call.get("id", f"{prefix}_{id(turn):x}_{at}"), call["name"], _arguments(call)


def _messages(turn: Turn, model: str) -> Iterator[Marked]:
    def event(kind: str, **fields: Any) -> bytes:
        return _event({"type": kind, **fields}, named=True)

    counted = {"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 5}
    counted |= turn.get("usage") or {}
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {**counted, "output_tokens": 1},
    }  # fmt: skip
    yield "", event("message_start", message=message)
    yield "", event("ping")
    at = 0

    def block(start: dict[str, Any], kind: str, deltas: Iterator[dict[str, Any]]) -> Iterator[Marked]:
        yield "", event("content_block_start", index=at, content_block=start)
        for delta in deltas:
            yield kind, event("content_block_delta", index=at, delta=delta)
        yield "", event("content_block_stop", index=at)

    if turn.get("reasoning"):
        deltas = [
            *({"type": "thinking_delta", "thinking": text} for text in _chunks(turn, turn["reasoning"])),
            {"type": "signature_delta", "signature": turn.get("signature", "c2lnbmVk")},
        ]
        start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        yield from block(start, "", iter(deltas))
        at += 1
    if turn.get("text"):
        said = [{"type": "text_delta", "text": text} for text in _chunks(turn, turn["text"])]
        cited: list[dict[str, Any]] = [
            {
                "type": "citations_delta",
                "citation": {
                    "type": "web_search_result_location", "url": url, "title": title,
                    "cited_text": "…", "encrypted_index": "x",
                },
            }
            for title, url in turn.get("sources", ())
        ]  # fmt: skip
        yield from block({"type": "text", "text": ""}, "text", iter([*said, *cited]))
        at += 1
    for call_id, name, arguments in _calls(turn, "toolu"):
        pieces = [{"type": "input_json_delta", "partial_json": text} for text in _chunks(turn, arguments)]
        start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        yield from block(start, "call", iter(pieces))
        at += 1
    reason = turn.get("finish") or ("tool_use" if turn.get("calls") else "end_turn")
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield "end", event("message_delta", delta=ended, usage={"output_tokens": 4})
    yield "end", event("message_stop")


def _responses(turn: Turn, model: str) -> Iterator[Marked]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return _event({"type": kind, "sequence_number": number, **fields}, named=True)

    output: list[dict[str, Any]] = []
    response: dict[str, Any] = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "in_progress",
        "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0,
    }  # fmt: skip
    yield "", event("response.created", response=response)

    def item(begun: dict[str, Any], done: dict[str, Any], middle: Iterator[Marked]) -> Iterator[Marked]:
        yield "", event("response.output_item.added", output_index=len(output), item=begun)
        yield from middle
        yield "", event("response.output_item.done", output_index=len(output), item=done)
        output.append(done)

    if turn.get("reasoning"):
        at = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        begun: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
        summary = [{"type": "summary_text", "text": turn["reasoning"]}]
        done = {**begun, "summary": summary, "encrypted_content": turn.get("signature", "c2VjcmV0")}
        part = event("response.reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""})
        thought = [
            ("", event("response.reasoning_summary_text.delta", **at, delta=text))
            for text in _chunks(turn, turn["reasoning"])
        ]
        yield from item(begun, done, iter([("", part), *thought]))
    if turn.get("text"):
        place = {"item_id": "msg_1", "output_index": len(output), "content_index": 0}
        sources = [
            {"type": "url_citation", "title": title, "url": url, "start_index": 0, "end_index": 1}
            for title, url in turn.get("sources", ())
        ]
        content = {"type": "output_text", "text": turn["text"], "annotations": sources, "logprobs": []}
        begun = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        done = {**begun, "status": "completed", "content": [content], "phase": "commentary"}
        empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        added = event("response.content_part.added", **place, part=empty)
        said = [
            ("text", event("response.output_text.delta", **place, delta=text, logprobs=[]))
            for text in _chunks(turn, turn["text"])
        ]
        yield from item(begun, done, iter([("", added), *said]))
    for call_id, name, arguments in _calls(turn, "call"):
        where = {"item_id": f"fc_{call_id}", "output_index": len(output)}
        begun = {
            "id": f"fc_{call_id}", "type": "function_call", "status": "in_progress", "call_id": call_id,
            "name": name, "arguments": "",
        }  # fmt: skip
        done = {**begun, "status": "completed", "arguments": arguments}
        pieces = [
            ("call", event("response.function_call_arguments.delta", **where, delta=text))
            for text in _chunks(turn, arguments)
        ]
        yield from item(begun, done, iter(pieces))
    counted = {
        "input_tokens": 10, "output_tokens": 4, "total_tokens": 14,
        "input_tokens_details": {"cached_tokens": 5}, "output_tokens_details": {"reasoning_tokens": 1},
    } | (turn.get("usage") or {})  # fmt: skip
    reason = turn.get("finish")
    status = "incomplete" if reason else "completed"
    whole = {**response, "status": status, "output": output, "usage": counted}
    if reason:
        whole["incomplete_details"] = {"reason": reason}
    yield "end", event(f"response.{status}", response=whole)


def _gemini(turn: Turn, model: str) -> Iterator[Marked]:
    def event(parts: list[dict[str, Any]], **beside: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **beside.pop("candidate", {})}
        return _event({"candidates": [candidate], "modelVersion": model, "responseId": "r", **beside})

    for text in _chunks(turn, turn.get("reasoning", "")):
        yield "", event([{"text": text, "thought": True}])
    for text in _chunks(turn, turn.get("text", "")):
        yield "text", event([{"text": text}])
    signed = {"thoughtSignature": turn.get("signature", "c2lnbmVk")} if turn.get("reasoning") else {}
    for at, (call_id, name, arguments) in enumerate(_calls(turn, "fc")):
        call = {"id": call_id, "name": name, "args": json.loads(arguments)}
        yield "call", event([{"functionCall": call, **(signed if at == 0 else {})}])
    counted = {
        "promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 1, "totalTokenCount": 14,
        "cachedContentTokenCount": 5,
    } | (turn.get("usage") or {})  # fmt: skip
    candidate: dict[str, Any] = {"finishReason": turn.get("finish") or "STOP"}
    if turn.get("sources"):
        chunks = [{"web": {"uri": url, "title": title}} for title, url in turn["sources"]]
        candidate["groundingMetadata"] = {"groundingChunks": chunks}
    last = [] if turn.get("calls") else [{"text": "", **signed}]
    yield "end", event(last, candidate=candidate, usageMetadata=counted)
