"""Asks a server of one's own for the context window of its model: llama.cpp, vLLM, LM Studio."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from coder.model.http.client import HttpClient
from coder.model.http.faults import HttpFault

_SECONDS = 2.0
_LIMIT = 1 << 20
_FIELDS = ("n_ctx", "max_model_len", "loaded_context_length", "max_context_length", "context_length")


async def probe_window(base_url: str, model: str) -> int:
    """In tokens; 0 where the server does not say."""
    base = base_url.partition("?")[0].rstrip("/")
    http = HttpClient(idle=_SECONDS)
    try:
        async with asyncio.timeout(_SECONDS):
            for url in (base.removesuffix("/v1") + "/props", base + "/models"):
                if window := _window(await _get(http, url), model):
                    return window
    except (HttpFault, TimeoutError, OSError):
        return 0
    finally:
        await http.close()
    return 0


async def _get(http: HttpClient, url: str) -> Any:
    response = await http.request("GET", url, {"Accept": "application/json"})
    try:
        body = await response.read(_LIMIT)
        return msgspec.json.decode(body) if response.status < 400 else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    finally:
        response.abort()


def _window(data: Any, model: str) -> int:
    """The first such field, of the server itself, of this model, or of the only one that it has."""
    if not isinstance(data, dict):
        return 0
    listed = data.get("data")
    models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    named = [one for one in models if one.get("id") == model]
    own = (named or models)[0] if named or len(models) == 1 else {}
    places = [data.get("default_generation_settings"), data, own, own.get("meta")]
    told = [place for place in places if isinstance(place, dict)]
    found = (place.get(name) for place in told for name in _FIELDS)
    return next((value for value in found if type(value) is int and value > 0), 0)
