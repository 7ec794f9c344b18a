"""Where it is measured: a wheel of the checkout, installed and compiled, and the model's server."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import Any, Self

CHECKOUT = Path(__file__).resolve().parent.parent


class Installed:
    """A virtual environment with nothing but coder and what it needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "venv"
        venv.create(self.directory, with_pip=True)
        self.python = str(self.directory / "bin" / "python")
        self.coder = str(self.directory / "bin" / "coder")
        constraints = str(CHECKOUT / "constraints.txt")
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Compiled here and now: a machine may forbid byte code, and would then compile at every start.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run(
            [*pip, "--compile", "--constraint", constraints, str(CHECKOUT)], check=True, env=environment
        )
        compile_all = [self.python, "-m", "compileall", "-q", str(self.directory / "lib")]
        subprocess.run(compile_all, check=False, env=environment, stdout=subprocess.DEVNULL)

    def python_version(self) -> str:
        line = "import platform; print(platform.python_implementation(), platform.python_version())"
        done = subprocess.run([self.python, "-c", line], check=True, capture_output=True, text=True)
        return done.stdout.strip()


def compiled(source: str, target: Path) -> Path:
    """A copy of a source tree with its byte code, which a machine may forbid to write when it is run."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(target, quiet=2)
    return target


class Server:
    """`with Server() as server:` the scripted model in a process of its own."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("model_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(b"bye", timeout=10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *, steps: int = 0, text_bytes: int = 20, command: str = "true") -> None:
        script = {"steps": steps, "text_bytes": text_bytes, "command": command}
        self._ask("PUT", json.dumps(script).encode())

    def log(self) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self._ask("GET")
        return found

    def _ask(self, method: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/_", body, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return json.load(answer)


class Workspace:
    """A project with a little in it, a home, and an environment with nothing of this machine's."""

    def __init__(self, directory: Path, url: str) -> None:
        self.cwd = directory / "project"
        self.cwd.mkdir()
        (self.cwd / "main.py").write_text("print('hello')\n", encoding="utf-8")
        home = directory / "home"
        home.mkdir()
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "CODER_HOME": str(home / ".coder"),
            "CODER_BASE_URL": url,
            "CODER_MODEL": "scripted",
            "LANG": "C.UTF-8",
        }
