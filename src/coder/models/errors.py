"""Maps transport faults and HTTP errors to `ModelError`s that say what happened and what to do.

The provider's message is quoted: truncated, sanitized and without our key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from coder.base.http.errors import HttpError, retry_after_seconds
from coder.base.text import shortened
from coder.models.model import ModelError
from coder.texts import Text

_QUOTE_LIMIT = 500
_BUSY = (429, 503, 529)
BASE = "CODER_BASE_URL"

_CONTEXT = re.compile(
    r"context[_ ](length|window|size|limit)|maximum context|too many (input )?tokens|prompt is too long"
    r"|(input|prompt|request) (is )?too (long|large)|reduce the length|input token count"
    r"|exceeds? the (available|maximum|model'?s?) (context|token|input)|max(imum)?[_ ]prompt[_ ]tokens",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient[_ ](quota|balance|credit|funds)|exceeded your current quota|billing", re.I)
_BAD_KEY = re.compile(r"api key not valid|invalid api key|api key (has )?expired", re.IGNORECASE)
_RETRY_DELAY = re.compile(rb'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')  # Google's, in the body
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
    """Whether an error message says that tools are not supported."""
    return _NO_TOOLS.search(text) is not None


def quoted(text: str, secrets: Iterable[str] = ()) -> str:
    """A provider's message, sanitized, truncated and with secrets redacted."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shortened(text, _QUOTE_LIMIT)


class _FaultMapping(msgspec.Struct, frozen=True):
    """The text key, kind and retryability of a transport fault."""

    key: str
    kind: str
    retryable: bool = False


_FAULT_MAPPINGS: dict[str, _FaultMapping] = {
    "address": _FaultMapping("fault.address", "unreachable"),
    "header": _FaultMapping("fault.header", "auth"),
    "dns": _FaultMapping("fault.dns", "unreachable", retryable=True),
    "refused": _FaultMapping("fault.no_server", "unreachable", retryable=True),
    "tls": _FaultMapping("fault.tls", "unreachable"),
    "proxy": _FaultMapping("fault.proxy", "unreachable"),
    "connect_timeout": _FaultMapping("fault.connect_timeout", "timeout", retryable=True),
    "idle_timeout": _FaultMapping("fault.silent", "timeout", retryable=True),
    "redirect": _FaultMapping("fault.redirect", "protocol"),
    "closed": _FaultMapping("fault.broke_off", "server", retryable=True),
    "protocol": _FaultMapping("fault.unreadable", "protocol", retryable=True),
}


def of_fault(fault: HttpError, shown: str, timeout: float, base: str = BASE) -> ModelError:
    """For a transport fault. `shown` is the address without credentials, `base` what it is set by."""
    mapping = _FAULT_MAPPINGS[fault.kind]
    values = {"base": base or BASE, "check": _check(base), "seconds": f"{timeout:g}"}
    phrase = Text(mapping.key, shown=shown, detail=fault.phrase, **values)
    return ModelError(phrase, kind=mapping.kind, retryable=mapping.retryable)


def _check(base: str, key: str = "fault.check") -> Text:
    """What to look at; of a provider's own address the network alone."""
    return Text(key, base=base) if base else Text("fault.check_network")


def broken(shown: str, what: Text) -> ModelError:
    """For a stream that broke off."""
    return ModelError(Text("fault.broke_off", shown=shown, detail=what), kind="server", retryable=True)


def too_large(shown: str, limit: int, calls: int) -> ModelError:
    """For an answer that never ends, or has more calls than anybody means."""
    phrase = Text("fault.too_large", shown=shown, size=f"{limit >> 20} MB", n=calls)
    return ModelError(phrase, kind="protocol")


def not_a_model(info: RequestInfo, body: bytes, *, retryable: bool = False) -> ModelError:
    """For a response that is not a model's: a web page, or unknown text."""
    if _is_html(body):
        title = quoted(_title(body), info.secrets)
        key = "fault.web_page_titled" if title else "fault.web_page"
        phrase = Text(key, shown=info.shown, title=title, check=_check(info.base, "fault.check_v1"))
    else:
        said = quoted(body[:2000].decode("utf-8", "replace"), info.secrets) or Text("fault.nothing")
        phrase = Text("fault.no_model", shown=info.shown, said=said, check=_check(info.base))
    return ModelError(phrase, kind="protocol", retryable=retryable)


def _is_html(body: bytes) -> bool:
    return body[:500].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"


def _title(body: bytes) -> str:
    found = re.search(rb"<title[^>]*>([^<]{1,200})", body, re.IGNORECASE)
    return found.group(1).decode("utf-8", "replace").strip() if found else ""


class RequestInfo(msgspec.Struct, frozen=True):
    """The context of a failed request: address, model, secrets to redact, the names of the settings that key
    and address come from, whether there was a key, and what the address is set by."""

    shown: str
    model: str = ""
    secrets: Sequence[str] = ()
    names: tuple[str, ...] = ("CODER_API_KEY",)
    has_key: bool = True
    base: str = BASE


def of_status(status: int, headers: Mapping[str, str], body: bytes, info: RequestInfo) -> ModelError:
    """For an HTTP error status."""
    message, code = _message_and_code(body)
    if not message:
        message = _title(body) if _is_html(body) else body[:2000].decode("utf-8", "replace")
    wait = retry_after_seconds(status, headers)
    if wait is None and (found := _RETRY_DELAY.search(body)):
        wait = float(found.group(1))
    return _refusal(status, code, message, info, wait)


def of_error_object(error: Any, info: RequestInfo) -> ModelError:
    """For an `error` object inside a stream with status 200."""
    message, code = _describe(error)
    status = int(code) if code.isdecimal() and len(code) == 3 else 0
    return _refusal(status or _status_of(code), code, message, info, None)


def _status_of(code: str) -> int:
    code = code.lower()
    if "rate_limit" in code or "too_many" in code:
        return 429
    if "billing" in code:
        return 402
    if "overloaded" in code:
        return 529
    if "auth" in code or "api_key" in code or "permission" in code:
        return 401
    if "invalid" in code or "bad_request" in code or "not_found" in code or "unsupported" in code:
        return 400
    return 500


def _message_and_code(body: bytes) -> tuple[str, str]:
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
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


def _refusal(status: int, code: str, message: str, info: RequestInfo, wait: float | None) -> ModelError:
    said = quoted(message, info.secrets)
    if said and said[-1].isalnum():  # a sentence may follow
        said += "."

    def error(key: str, kind: str, *, retryable: bool = False) -> ModelError:
        names = ", ".join(filter(None, ["CODER_MODEL", info.base]) if status == 404 else info.names)
        phrase = Text(key, shown=info.shown, model=info.model, status=status, names=names)
        phrase = Text("fault.quoted", text=phrase, said=said) if said else phrase
        after = wait if retryable else None
        busy = retryable and status in _BUSY
        return ModelError(phrase, kind=kind, retryable=retryable, retry_after=after, busy=busy)

    both = f"{code} {message}"
    if status != 429 and _CONTEXT.search(both):
        return error("fault.too_long", "context")
    if status == 402 or (status in (403, 429) and _QUOTA.search(both)):
        return error("fault.quota", "quota")
    if says_no_tools(message) and status >= 400:
        return error("fault.request", "bad_request")
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(message)):
        return error("fault.key" if info.has_key else "fault.no_key", "auth")
    if status == 404:
        return error("fault.not_found" if info.model else "fault.no_list", "bad_request")
    if status == 429:
        return error("fault.limited", "quota", retryable=True)
    if status in (408, 409) or status >= 500:
        return error("fault.server", "server", retryable=True)
    return error("fault.request_at", "bad_request")
