"""`coder view` as a process, and a session made by the real engine."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from coder.protocol import entries
from kit import ScriptedServer
from kit.driving import Project

HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "<iframe src=//evil.example></iframe>"
    "![x](http://evil.example/p.png) [y](javascript:window.hacked=1) </pre></details></article>"
    "<style>*{display:none}</style> \"' onload=window.hacked=1 \x1b[2J \u202e txt"
)


_PIECES = (
    HOSTILE, "<svg/onload=window.hacked=1>", "</script><script>window.hacked=1</script>", "]]>", "<!--",
    "-->", "\n```\n", "\n~~~\n", "\n> ", "\n- ", "\n    <b>", "`", "&lt;img src=x>", "\x00", "\u2028", "\r\n",
    "\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+", "javascript:window.hacked=1", "\x1b]52;c;aGk=\x07", "\ufeff",
    "数据", "%s{n}", "../../etc/passwd", "data:text/html,<script>window.hacked=1</script>", "\\",
    '" autofocus onfocus=window.hacked=1 x="',
)  # fmt: skip


def hostile_record(count: int, seed: int) -> bytes:
    """Events of every type whose fields hold markup, and often what does not belong there."""
    chance = random.Random(seed)

    def text() -> str:
        return "".join(chance.choices(_PIECES, k=chance.randrange(1, 4)))

    def value(depth: int = 0) -> Any:
        kinds: list[Any] = [
            text, text, text, lambda: chance.choice([0, -1, 3, 10**12, 0.5, True, None]),
            lambda: [value(depth + 1) for _ in range(chance.randrange(3))],
            lambda: {chance.choice(["path", "command", "content", "status", text()]): value(depth + 1)},
        ]  # fmt: skip
        return chance.choice(kinds[: 4 if depth > 2 else 6])()

    def meta(form: type[msgspec.Struct]) -> dict[str, Any]:
        made = {}
        for field in msgspec.structs.fields(form):
            plain: dict[Any, Callable[[], Any]] = {
                str: text, bool: lambda: chance.random() < 0.5, int: lambda: chance.randrange(5)
            }  # fmt: skip
            fits = plain.get(field.type) if chance.random() < 0.8 else None
            made[field.encode_name] = fits() if fits else value()
        return made

    lines = []
    kinds = [(name, form) for form, name in entries.NAMES.items()]
    for at in range(count):
        kind, form = chance.choice(kinds)
        line = {"ts": "2026-03-01T09:00:00.000Z", "session_id": "s", "type": kind, "turn": at // 50,
                "step": at % 50, "content": text(), "role": "user", "meta": meta(form)}  # fmt: skip
        lines.append(json.dumps(line).encode() + b"\n")
    return b"".join(lines)


class View:
    """A running `coder view`."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid
        self.printed = b""  # after its address, when it has ended
        self.port = int(url.split(":")[2].split("/")[0])
        self.token = url.partition("#token=")[2].partition("&")[0]

    def get(
        self, path: str, *, method: str = "GET", token: str | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """`headers` with underscores; `token` None for the right one, empty for none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            given["X-Coder-Token"] = token or self.token
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body, dict(answer.getheaders())

    def json(self, path: str) -> dict[str, Any]:
        status, body, _ = self.get(path)
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found


@contextmanager
def viewing(project: Project, *args: str) -> Iterator[View]:
    process = project.started("view", "--no-browser", *args, url="")
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        process.stdout.readline()  # what the address is
        view = View(line.split()[-1], process.pid)
        yield view
    finally:
        process.terminate()
        view.printed = b"".join(filter(None, process.communicate(timeout=30)))


def recorded(project: Project, script: list[dict[str, Any]], *texts: str, mode: str = "yolo") -> str:
    """A session with a turn for each text; gives its id."""
    before = set(project.logs())
    with ScriptedServer(script) as server:
        for at, text in enumerate(texts):
            more = ["--continue"] if at else []
            done = project.coder("--mode", mode, *more, "--once", text, url=server.url)
            assert done.returncode == 0, done.stderr
    (log,) = set(project.logs()) - before
    return log.stem
