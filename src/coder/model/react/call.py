"""Parses the body of an `<action>` into a call."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from coder.model.arguments import call_ready
from coder.model.base import CallReady
from coder.model.react.elements import entry_arguments, wrapped_body
from coder.protocol.messages import ToolSpec, tool_call

_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#39;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&"}


Action = tuple[str, str, dict[str, str]]  # the tool, the body, and the other attributes

_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']+))")


def attributes_of(text: str) -> tuple[str, dict[str, str]]:
    """The tool that an `<action …>` names, and its other attributes."""
    found = {key.lower(): double or single or bare for key, double, single, bare in _ATTRIBUTE.findall(text)}
    tool = found.pop("tool", "") or found.pop("name", "")
    return tool.strip(), found


def react_call(call_id: str, action: Action, tools: Sequence[ToolSpec], finish_reason: str) -> CallReady:
    """The body may be a JSON object, elements or attributes named as the parameters, or plain text for the
    only required parameter."""
    tool, body, attributes = action
    body = body.strip()
    if body.startswith("<![CDATA[") and body.endswith("]]>"):
        body = body[9:-3].strip()
    spec = next((spec for spec in tools if spec.name.lower() == tool.lower()), None)
    if body.startswith("<"):
        body = wrapped_body(body)
    if not body and spec is not None:
        known = spec.function.parameters.get("properties", {})
        given = {key: value for key, value in attributes.items() if key in known}
        body = msgspec.json.encode(given).decode("utf-8")
    if body.startswith(("{", "```")) or not body:
        return _json_call(call_id, tool, body, finish_reason)
    if body.startswith("<") and (elements := entry_arguments(body, spec)):
        return CallReady(call=tool_call(call_id, tool, msgspec.json.encode(elements).decode("utf-8")))
    parameter = _only_required(spec) if spec is not None else ""
    if finish_reason == "length" or not parameter:
        return _without_object(call_id, tool, body, finish_reason)
    arguments = msgspec.json.encode({parameter: _unquoted(body)}).decode("utf-8")
    return CallReady(call=tool_call(call_id, tool, arguments))


def _json_call(call_id: str, tool: str, body: str, finish_reason: str) -> CallReady:
    ready = call_ready(call_id, tool, body, finish_reason)
    if ready.fault and "&quot;" in body:
        # Decode entities only if the body is no JSON otherwise: then they cannot be meant literally.
        plain = body
        for entity, character in _ENTITIES.items():
            plain = plain.replace(entity, character)
        again = call_ready(call_id, tool, plain, finish_reason)
        return ready if again.fault else again
    return ready


def _without_object(call_id: str, tool: str, body: str, finish_reason: str) -> CallReady:
    if finish_reason == "length":
        fault = (
            f"The action `{tool}` was cut off by the output limit, so it was not run. Send it again, shorter."
        )
    else:
        fault = f"The body of <action tool={tool!r}> must be one JSON object with the tool's parameters."
    return CallReady(call=tool_call(call_id, tool, body), fault=fault)


def _only_required(spec: ToolSpec) -> str:
    """The only required parameter, if it is a string."""
    required = spec.function.parameters.get("required") or []
    if len(required) != 1:
        return ""
    properties = spec.function.parameters.get("properties") or {}
    kind = (properties.get(required[0]) or {}).get("type", "string")
    return str(required[0]) if kind == "string" else ""


def _unquoted(body: str) -> str:
    """Decode a body that is a JSON string."""
    if body.startswith('"'):
        try:
            return msgspec.json.decode(body, type=str)
        except (msgspec.DecodeError, UnicodeError):
            return body
    return body
