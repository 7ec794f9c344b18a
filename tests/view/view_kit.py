"""`coder view` as a process, and a session made by the real engine."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kit import ScriptedServer
from kit.driving import Project

HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "<iframe src=//evil.example></iframe>"
    "![x](http://evil.example/p.png) [y](javascript:window.hacked=1) </pre></details></article>"
    "<style>*{display:none}</style> \"' onload=window.hacked=1 \x1b[2J \u202e txt"
)


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
