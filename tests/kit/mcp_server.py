"""An MCP server on stdio in plain Python, for tests: it starts in 30 ms and misbehaves where it is told to.

Run as a program: `python mcp_server.py '{"protocol": "legacy", …}'`. It speaks the protocol by itself and
shares no code with the client under test. The keys of its one argument:

- `protocol`: `legacy`, `modern` or `both`; `version`: the one it chooses in a handshake
- `on`: {method: what it does instead}: `hang`, `die`, `garbage`, `error`, `invalid`, `huge`, `eof`, `deaf`
- `on_unknown`: the same for methods that its protocol does not have (an error otherwise)
- `tools`, `page`: what `tools/list` gives, and how many a page; `cursor`: one that it gives for ever
- `banner`: lines on stdout before anything else; `stderr`: on stderr; `stubborn`: it does not go when told
- `leaves`: it is gone as soon as it has listed its tools
- `hello`: added to the result of `initialize` or `server/discover`; `supported`: versions it says it has
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

Json = dict[str, Any]
META = "io.modelcontextprotocol/"
ECHO: Json = {
    "name": "echo",
    "description": "Says it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class Server:
    """One run of the server."""

    def __init__(self, told: Json) -> None:
        self.told = told
        self.protocol = told.get("protocol", "legacy")
        self.lock = threading.Lock()
        self.cancelled: list[object] = []
        self.heard: list[Json] = []  # all that the client wrote
        self.kept: list[Json] = []  # calls to answer later, in the other order
        self.listening: object = None

    def say(self, message: Json) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def run(self) -> None:
        for line in self.told.get("banner", []):
            print(line, flush=True)
        for line in self.told.get("stderr", []):
            print(line, file=sys.stderr, flush=True)
        for line in sys.stdin:
            message = json.loads(line)
            self.heard.append(message)
            if "method" in message:
                self.take(message)
        if self.told.get("stubborn"):
            time.sleep(60)

    def take(self, message: Json) -> None:
        method = message["method"]
        if method == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        if self.misbehave(self.told.get("on", {}).get(method, ""), message) or "id" not in message:
            return
        handler = getattr(self, method.replace("/", "_").lower(), None)
        if handler is None or not self.speaks(method):
            if not self.misbehave(self.told.get("on_unknown", ""), message):
                self.error(message, -32601, f"Method not found: {method}")
            return
        handler(message)

    def speaks(self, method: str) -> bool:
        if method == "initialize":
            return bool(self.protocol != "modern")
        return bool(method not in ("server/discover", "subscriptions/listen") or self.protocol != "legacy")

    def misbehave(self, how: str, message: Json) -> bool:
        if how == "die":
            print("dying of it", file=sys.stderr, flush=True)
            os._exit(3)
        if how == "deaf":
            time.sleep(3600)
        if how == "eof":
            os.close(1)
            time.sleep(3600)
        if how == "garbage":
            print("this is {no message", flush=True)
            return False
        if how == "huge":
            sys.stdout.write("x" * (17 * 1024 * 1024) + "\n")
            sys.stdout.flush()
        elif how == "error":
            self.error(message, -32000, "told to\nfail")
        elif how == "invalid":
            self.say({"id": message["id"], "result": "not an object"})
        return bool(how)

    def error(self, message: Json, code: int, words: str, data: object = None) -> None:
        error: Json = {"code": code, "message": words}
        self.say({"id": message["id"], "error": error if data is None else {**error, "data": data}})

    def result(self, message: Json, result: Json) -> None:
        modern = f"{META}protocolVersion" in (message.get("params") or {}).get("_meta", {})
        self.say({"id": message["id"], "result": {"resultType": "complete", **result} if modern else result})

    # methods

    def initialize(self, message: Json) -> None:
        version = self.told.get("version") or message["params"]["protocolVersion"]
        about: Json = {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "kit", "version": "1.0"},
        }
        self.result(message, {**about, **self.told.get("hello", {})})

    def server_discover(self, message: Json) -> None:
        if self.told.get("supported"):
            self.error(message, -32022, "Unsupported", {"supported": self.told["supported"]})
            return
        about: Json = {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": True}},
            "_meta": {f"{META}serverInfo": {"name": "kit", "version": "2.0"}},
        }
        self.result(message, {**about, **self.told.get("hello", {})})

    def ping(self, message: Json) -> None:
        self.result(message, {})

    def subscriptions_listen(self, message: Json) -> None:
        self.listening = message["id"]

    def tools_list(self, message: Json) -> None:
        tools = self.told.get("tools", [ECHO])
        if isinstance(tools, int):
            tools = [{**ECHO, "name": f"tool{n}"} for n in range(tools)]
        if not isinstance(tools, list):
            self.result(message, {"tools": tools})
            return
        page = self.told.get("page", len(tools) or 1)
        if "cursor" in self.told:
            self.result(message, {"tools": tools, "nextCursor": self.told["cursor"]})
            return
        start = int((message.get("params") or {}).get("cursor") or 0)
        more: Json = {"nextCursor": str(start + page)} if start + page < len(tools) else {}
        self.result(message, {"tools": tools[start : start + page], **more})
        if self.told.get("leaves"):
            os._exit(4)

    def tools_call(self, message: Json) -> None:
        params = message["params"]
        call = getattr(self, f"call_{params['name']}", None)
        if call is None:
            self.error(message, -32602, f"Unknown tool: {params['name']}")
        else:
            call(message, params.get("arguments") or {})

    def text(self, message: Json, text: str, **more: Any) -> None:
        self.result(message, {"content": [{"type": "text", "text": text}], **more})

    # tools

    def call_echo(self, message: Json, args: Json) -> None:
        self.text(message, args["text"])

    def call_raw(self, message: Json, args: Json) -> None:
        self.say({"id": message["id"], "result": args["result"]})

    def call_pid(self, message: Json, args: Json) -> None:
        if args.get("stray"):
            child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
            self.text(message, f"{os.getpid()} {child.pid}")
        else:
            self.text(message, str(os.getpid()))

    def call_heard(self, message: Json, args: Json) -> None:
        self.text(message, json.dumps(self.heard))

    def call_cancelled(self, message: Json, args: Json) -> None:
        self.text(message, json.dumps(self.cancelled))

    def call_reversed(self, message: Json, args: Json) -> None:
        """Answered once as many have come as `of` says, the last first."""
        self.kept.append(message)
        if len(self.kept) == args["of"]:
            for one in reversed(self.kept):
                self.text(one, one["params"]["arguments"]["text"])
            self.kept = []

    def call_never(self, message: Json, args: Json) -> None:
        for n in range(args.get("progress", 0)):
            token = message["params"].get("_meta", {}).get("progressToken")
            params = {"progressToken": token, "progress": n + 1, "total": 9, "message": "still\nat it"}
            self.say({"method": "notifications/progress", "params": params})

    def call_die(self, message: Json, args: Json) -> None:
        print("last words", file=sys.stderr, flush=True)
        if args.get("signal"):
            os.kill(os.getpid(), args["signal"])
        os._exit(args.get("status", 7))

    def call_change(self, message: Json, args: Json) -> None:
        if self.protocol == "legacy" or self.listening is not None:
            params = {"_meta": {f"{META}subscriptionId": self.listening}}
            self.say({"method": "notifications/tools/list_changed", "params": params})
        self.told["tools"] = [{**ECHO, "name": "new"}]
        self.text(message, "changed")

    def call_ask(self, message: Json, args: Json) -> None:
        """Ask the client something, and give back what it says."""
        self.say({"id": "mine", "method": args["method"], "params": {}})
        for line in sys.stdin:
            answer = json.loads(line)
            if answer.get("id") == "mine":
                self.text(message, json.dumps(answer))
                return

    def call_chatter(self, message: Json, args: Json) -> None:
        """Fill stderr and log: a client that does not read would stop us here."""
        for _ in range(args["lines"]):
            print("x" * 1000, file=sys.stderr, flush=True)
        self.say({"method": "notifications/message", "params": {"level": "info", "data": "hm"}})
        self.text(message, "done")

    def call_deaf(self, message: Json, args: Json) -> None:
        time.sleep(3600)


if __name__ == "__main__":
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes longer than all the rest
            text = file.read()
    told = json.loads(text)
    if told.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Server(told).run()
