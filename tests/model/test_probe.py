"""The context window as a server of one's own tells it, each kind in its way."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coder.addons.tune import tune_run as probe
from coder.addons.tune.tune_run import probe_window

LLAMA_CPP = {"/props": {"default_generation_settings": {"n_ctx": 16_384, "id": 0}, "total_slots": 1}}
VLLM = {"/v1/models": {"data": [{"id": "m", "max_model_len": 32_768}]}}
LM_STUDIO = {
    "/v1/models": {"data": [{"id": "m", "loaded_context_length": 4096, "max_context_length": 131_072}]}
}
SEVERAL = {
    "/v1/models": {"data": [{"id": "other", "max_model_len": 4096}, {"id": "m", "max_model_len": 32_768}]}
}
NEWER_LLAMA_CPP = {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 8192}}]}}


def asked(
    pages: dict[str, Any], base: str = "/v1", *, silent: bool = False, model: str = "m"
) -> tuple[int, list[str]]:
    """What was found out at a server with these pages, and what it was asked for."""
    paths: list[str] = []
    leave = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            if silent:
                leave.wait(60)
                return
            page = pages.get(self.path)
            body = page if isinstance(page, bytes) else json.dumps(page or {"error": "none"}).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            window = asyncio.run(probe_window(f"http://127.0.0.1:{server.server_port}{base}", model))
        finally:
            leave.set()
            server.shutdown()
            thread.join()
    return window, paths


@pytest.mark.parametrize(
    ("pages", "window"),
    [
        *[(LLAMA_CPP, 16_384), (VLLM, 32_768), (LM_STUDIO, 4096), (NEWER_LLAMA_CPP, 8192)],
        *[(SEVERAL, 32_768), ({}, 0)],
    ],
)
def test_each_kind_of_server(pages: dict[str, Any], window: int) -> None:
    assert asked(pages)[0] == window


def test_the_window_of_another_model_is_not_taken() -> None:
    assert asked(SEVERAL, model="third")[0] == 0
    assert asked(VLLM, model="an alias of it")[0] == 32_768


def test_props_are_beside_the_api_and_asked_for_first() -> None:
    assert asked(VLLM, "/v1/")[1] == ["/props", "/v1/models"]
    assert asked({**LLAMA_CPP, **VLLM}, "/v1?key=1")[1] == ["/props"]


@pytest.mark.parametrize(
    "page",
    [
        b"<html>",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        {"n_ctx": "many"},
        {"n_ctx": -1},
        {"n_ctx": True, "data": [3]},
    ],
)
def test_nonsense_tells_nothing(page: Any) -> None:
    window, _ = asked({"/props": page, "/v1/models": page})
    assert window == 0


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_SECONDS", 0.05)
    assert asked({}, silent=True)[0] == 0


def test_nobody_there() -> None:
    assert asyncio.run(probe_window("http://127.0.0.1:1/v1", "m")) == 0
