"""An MCP server with a few plain tools, run as a program: what an engine does with a server, not what the
wire does. Its one line of state: a file named in `TOOL_SERVER_LOG` gets a line for every start and call."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TOOLS: dict[str, dict[str, str]] = {
    "echo": {"text": "string"},
    "shell": {"line": "string"},
    "sleep": {"seconds": "number"},
    "big": {"characters": "integer"},
    "environment": {},
    "fail": {},
    "die": {},
}


def main() -> None:
    log("start")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], **reply(message["method"], message["params"])}
            print(json.dumps(answer), flush=True)


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        server = {"name": "plain", "version": "1"}
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": server,
                "instructions": os.environ.get("TOOL_SERVER_INSTRUCTIONS", ""),
            }
        }
    if method == "tools/list":
        more = [os.environ[name] for name in ("TOOL_SERVER_TOOL",) if name in os.environ]
        listed = [*TOOLS, *more]
        if starts() > int(os.environ.get("TOOL_SERVER_SHRINKS", sys.maxsize)):
            listed = ["echo"]
        return {"result": {"tools": [tool(name) for name in listed]}}
    if method != "tools/call":
        return {"error": {"code": -32601, "message": "unknown method"}}
    log(f"call {params['name']}")
    if params["name"] == "picture":  # any bytes, as an image twice
        data = base64.b64encode(Path(params["arguments"]["path"]).read_bytes()).decode("ascii")
        image = {"type": "image", "data": data, "mimeType": "image/png"}
        resource = {"uri": "shot://1", "blob": data, "mimeType": "image/png"}
        return {"result": {"content": [image, {"type": "resource", "resource": resource}]}}
    text, failed = run_tool(params["name"], params.get("arguments", {}))
    return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}


def tool(name: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in TOOLS.get(name, {}).items()}
    about = os.environ.get("TOOL_SERVER_ABOUT", "")
    if "TOOL_SERVER_REDEFINES" in os.environ:  # another description with every start
        about += str(starts())
    return {
        "name": name,
        "description": f"The tool {name}. {about}".rstrip(),
        "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
    }


def run_tool(name: str, args: dict[str, Any]) -> tuple[str, bool]:
    match name:
        case "echo":
            return args["text"], False
        case "shell":
            done = subprocess.run(
                ["/bin/sh", "-c", args["line"]], capture_output=True, text=True, check=False, stdin=-3
            )
            return f"{done.stdout}{done.stderr}", done.returncode != 0
        case "sleep":
            time.sleep(args["seconds"])
            return "slept", False
        case "big":
            return "".join(f"line {at}\n" for at in range(args["characters"] // 9)), False
        case "environment":
            return "\n".join(f"{key}={value}" for key, value in os.environ.items()), False
        case "die":
            print("about to end", file=sys.stderr, flush=True)
            os._exit(3)
        case _:
            return "it did not work", True


def starts() -> int:
    """Of all servers with this log."""
    path = os.environ.get("TOOL_SERVER_LOG")
    return Path(path).read_text(encoding="utf-8").count("start") if path else 0


def log(text: str) -> None:
    if path := os.environ.get("TOOL_SERVER_LOG"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


if __name__ == "__main__":
    main()
