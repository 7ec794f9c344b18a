"""Faults and refusals in words for the person: what happened, and what to do about it.

The provider's own message is quoted, bounded, without control characters and without our key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from coder.model.base import ModelError
from coder.model.faults import HttpFault
from coder.model.waits import wait_asked_for

_QUOTE_LIMIT = 500

_CONTEXT = re.compile(
    r"context[_ ](length|window|size)|maximum context|too many (input )?tokens|prompt is too long"
    r"|(input|prompt|request) (is )?too (long|large)|reduce the length|input token count"
    r"|exceeds? the (available|maximum|model'?s?) (context|token|input)|max(imum)?[_ ]prompt[_ ]tokens",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient[_ ](quota|balance|credit|funds)|exceeded your current quota|billing", re.I)
_TOOLS = r"(tools?|tool[_ -]?(choice|use|call(s|ing)?)|function[_ -]?call(s|ing)?|functions)"
_NO_TOOLS = re.compile(
    _TOOLS + r"\W.{0,80}?"
    r"(not (be )?(support|enabl|available|allow|implement)|unsupported|requires? (--|the )|unrecogni[sz]ed)"
    r"|(not support|unsupported|unrecogni[sz]ed|unknown|no endpoints|not permitted|extra).{0,80}?\W"
    + _TOOLS
    + r"\b",
    re.IGNORECASE | re.DOTALL,
)


def says_no_tools(text: str) -> bool:
    """Whether a refusal names tools as what the server cannot do."""
    return _NO_TOOLS.search(text) is not None


def quoted(text: str, secrets: Iterable[str] = ()) -> str:
    """A provider's message, fit to be shown."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _QUOTE_LIMIT else text[: _QUOTE_LIMIT - 1] + "…"


def of_fault(fault: HttpFault, shown: str, timeout: float) -> ModelError:
    """A fault below HTTP. `shown` is the address without credentials."""
    check = "Check CODER_BASE_URL."
    match fault.kind:
        case "address":
            return ModelError(
                f"The model's address cannot be used: {fault.detail}. {check}", kind="unreachable"
            )
        case "header":
            text = f"The request cannot be sent: {fault.detail}. Check CODER_API_KEY and provider.headers."
            return ModelError(text, kind="auth")
        case "dns":
            text = f"Cannot reach {shown}: {fault.detail}. {check[:-1]} and your network."
            return ModelError(text, kind="unreachable", retryable=True)
        case "refused":
            text = f"Cannot reach {shown}: {fault.detail}. Is the server running? {check}"
            return ModelError(text, kind="unreachable", retryable=True)
        case "tls":
            text = f"Cannot reach {shown} safely: {fault.detail}. "
            text += "Check that the address wants https, or set SSL_CERT_FILE to the certificates to trust."
            return ModelError(text, kind="unreachable")
        case "proxy":
            text = f"Cannot reach {shown}: {fault.detail}. Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY."
            return ModelError(text, kind="unreachable")
        case "connect_timeout":
            text = f"Cannot reach {shown}: {fault.detail}. Check your network and CODER_BASE_URL."
            return ModelError(text, kind="timeout", retryable=True)
        case "idle_timeout":
            text = f"The model at {shown} sent nothing for {timeout:g} seconds. "
            text += "If it needs longer, raise provider.timeout_ms."
            return ModelError(text, kind="timeout", retryable=True)
        case "redirect":
            text = f"{_sentence(fault.detail)}. Set CODER_BASE_URL to the address it should be."
            return ModelError(text, kind="protocol")
        case "closed":
            text = f"The answer of {shown} broke off: {fault.detail}. Try again."
            return ModelError(text, kind="server", retryable=True)
        case "protocol":
            text = f"The answer of {shown} cannot be read: {fault.detail}. {check}"
            return ModelError(text, kind="protocol", retryable=True)


def broken(shown: str, what: str) -> ModelError:
    """A stream that stopped in the middle."""
    return ModelError(f"The answer of {shown} broke off: {what}. Try again.", kind="server", retryable=True)


def not_a_model(shown: str, body: bytes, secrets: Iterable[str], *, retryable: bool = False) -> ModelError:
    """Something answered, but not with a model's answer."""
    if _is_html(body):
        title = _title(body)
        named = f" ({quoted(title, secrets)})" if title else ""
        text = f"{shown} answered with a web page{named}, not with JSON. "
        text += "Check CODER_BASE_URL: it usually ends in /v1."
    else:
        said = quoted(body[:2000].decode("utf-8", "replace"), secrets)
        text = f"{shown} answered with something that is not a model's answer: {said or 'nothing'}. "
        text += "Check CODER_BASE_URL."
    return ModelError(text, kind="protocol", retryable=retryable)


def _is_html(body: bytes) -> bool:
    return body[:500].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"


def _title(body: bytes) -> str:
    found = re.search(rb"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
    return found.group(1).decode("utf-8", "replace").strip() if found else ""


def of_status(
    status: int, headers: Mapping[str, str], body: bytes, *, shown: str, model: str, secrets: Iterable[str]
) -> ModelError:
    """A refusal by HTTP status."""
    message, code = _message_and_code(body)
    if not message:
        message = _title(body) if _is_html(body) else body[:2000].decode("utf-8", "replace")
    return _refusal(status, code, message, shown, model, secrets, wait_asked_for(status, headers))


def of_error_object(error: Any, *, shown: str, model: str, secrets: Iterable[str]) -> ModelError:
    """An `error` that came inside a stream which had begun well."""
    message, code = _describe(error)
    status = int(code) if code.isdigit() and len(code) == 3 else 0
    return _refusal(status or _status_of(code), code, message, shown, model, secrets, None)


def _status_of(code: str) -> int:
    code = code.lower()
    if "rate_limit" in code or "too_many" in code:
        return 429
    if "auth" in code or "api_key" in code or "permission" in code:
        return 401
    if "invalid" in code or "bad_request" in code or "not_found" in code or "unsupported" in code:
        return 400
    return 500


def _message_and_code(body: bytes) -> tuple[str, str]:
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "", ""
    if isinstance(data, list) and data:
        data = data[0]  # Google wraps its errors in a list
    if not isinstance(data, dict):
        return "", ""
    return _describe(data.get("error") or data)


def _describe(error: Any) -> tuple[str, str]:
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message") or error.get("detail") or error.get("error") or ""
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode("utf-8")
    code = error.get("code") or error.get("type") or error.get("status") or ""
    kind = error.get("type")
    if isinstance(kind, str) and "quota" in kind:
        code = kind
    return message, str(code)


def _refusal(
    status: int,
    code: str,
    message: str,
    shown: str,
    model: str,
    secrets: Iterable[str],
    wait: float | None,
) -> ModelError:
    said = quoted(message, secrets)
    says = f" The server says: {said}" if said else ""
    both = f"{code} {message}"
    if status != 429 and _CONTEXT.search(both):
        text = f"The conversation is too long for {model}. Use /compact or start a new session.{says}"
        return ModelError(text, kind="context")
    if status == 402 or (status in (403, 429) and _QUOTA.search(both)):
        text = f"The account behind the API key has no quota left. Check its plan and billing.{says}"
        return ModelError(text, kind="quota")
    if says_no_tools(message) and status >= 400:
        return ModelError(f"The server refused the request ({status}).{says}", kind="bad_request")
    if status in (401, 403):
        text = f"The server at {shown} refused the API key ({status}). Check CODER_API_KEY.{says}"
        return ModelError(text, kind="auth")
    if status == 404:
        text = f"Not found (404) at {shown}: the model {model!r} or the address. "
        return ModelError(f"{text}Check CODER_MODEL and CODER_BASE_URL.{says}", kind="bad_request")
    if status == 429:
        text = f"The server is limiting requests (429). Wait a little and try again.{says}"
        return ModelError(text, kind="quota", retryable=True, retry_after=wait)
    if status in (408, 409) or status >= 500:
        text = f"The model server failed ({status}). Try again in a while.{says}"
        return ModelError(text, kind="server", retryable=True, retry_after=wait)
    return ModelError(f"The server at {shown} refused the request ({status}).{says}", kind="bad_request")


def _sentence(clause: str) -> str:
    return clause[:1].upper() + clause[1:] if not clause.startswith("http") else f"The address {clause}"
