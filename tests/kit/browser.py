"""Headless Chromium over the DevTools protocol on a pipe: a page is loaded and used as by a person."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # the tests also run as root, in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # loopback only
)
_CODES = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}  # without one, only scripts hear a key


class Browser:
    """One process for many pages, one open at a time: `with browser.page():`. `failures` are errors of its
    scripts and of the content policy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._left = b""
        self.failures: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Self:
        assert PROGRAM is not None
        self._temporary = tempfile.mkdtemp()  # it does not always clear up behind itself
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads 3 and writes 4.
        line = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        command = ["bash", "-c", line, "-", PROGRAM, *_OPTIONS, f"--user-data-dir={self._directory}/profile"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self._directory), "TMPDIR": self._temporary},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = ""
        return self

    @contextlib.contextmanager
    def page(self) -> Iterator[Self]:
        """A page in a profile of its own, which shares nothing with those before it."""
        profile = self.send("Target.createBrowserContext")["browserContextId"]
        page = self.send("Target.createTarget", url="about:blank", browserContextId=profile)["targetId"]
        self.failures, self.requests = [], []
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        try:
            yield self
        finally:
            self._session = ""
            self.send("Target.disposeBrowserContext", browserContextId=profile)

    def __exit__(self, *_: object) -> None:
        self._session = ""
        with contextlib.suppress(OSError, EOFError):
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._temporary, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._in, 1 << 20)
            if not data:
                raise EOFError
            self._left += data
        raw, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if not self._session or message.get("sessionId") != self._session:
            return message  # of the browser, or of a page that was closed
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.failures.append(json.dumps(message["params"]["exceptionDetails"])[:500])
            case "Log.entryAdded":
                self.failures.append(message["params"]["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return message

    def goto(self, url: str) -> None:
        self.send("Page.navigate", url="about:blank")  # else a change of the fragment alone loads nothing
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> None:
        """Until the expression is true. The limit is against a test that hangs."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.run(f"Boolean({script})"):  # an element has no value here
                return
            time.sleep(0.05)
        raise AssertionError(
            f"never true: {script}; {self.run('document.body.innerText')[:500]}; {self.failures}"
        )

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = key if len(key) == 1 else "\r" if key == "Enter" else ""
            more = {"text": text} if kind == "keyDown" and text else {}
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=_CODES.get(key, 0), **more
            )

    def resize(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip

    def picture(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
