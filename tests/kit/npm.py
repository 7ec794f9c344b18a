"""Programs of npm that coder is tried with: clients, servers and a compiler that others wrote.

They are installed once for a checkout, into `.dev/npm`, by the person's own `npm`. Where there is none, or it
reaches nothing, the tests that need them are skipped.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / ".dev" / "npm"
_PACKAGES = {"@modelcontextprotocol/server-everything": "2026.8.31", "typescript": "5.9.3"}
_ACPX = (((22, 13), "0.19.1"), ((18, 0), "0.1.15"))  # by the oldest node that it takes
_PATIENCE = 300.0  # seconds: 60 MB


def npm_program(name: str) -> list[str]:
    """The command line of a program of one of the packages, or the test is skipped."""
    folder, problem = _installed()
    if problem:
        pytest.skip(problem)
    node = shutil.which("node")
    assert node is not None
    return [node, str((folder / "node_modules" / ".bin" / name).resolve())]


@functools.cache
def _installed() -> tuple[Path, str]:
    """Where the packages are, or why not."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return _FOLDER, "node and npm are not installed"
    said = subprocess.run([node, "--version"], capture_output=True, encoding="utf-8", check=False).stdout
    version = tuple(int(number) for number in re.findall(r"\d+", said)[:2])
    acpx = next((acpx for oldest, acpx in _ACPX if version >= oldest), None)
    if acpx is None:
        return _FOLDER, f"node {said.strip()} is too old"
    folder = _FOLDER / acpx
    folder.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps({"private": True, "dependencies": {**_PACKAGES, "acpx": acpx}})
    with (_FOLDER / "lock").open("w") as lock:  # other workers wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "installed.json"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return folder, ""
        (folder / "package.json").write_text(wanted, encoding="utf-8")
        problem = _install(npm, folder)
        if not problem:
            stamp.write_text(wanted, encoding="utf-8")
    return folder, problem


def _install(npm: str, folder: Path) -> str:
    """Run nothing of the packages, and leave nothing in the home directory."""
    quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--fetch-retries=1")
    environ = {**os.environ, "npm_config_cache": str(folder / "cache"), "npm_config_update_notifier": "false"}
    try:
        done = subprocess.run(
            [npm, "install", *quiet], cwd=folder, env=environ, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"npm did not install the packages: {error}"
    finally:
        shutil.rmtree(folder / "cache", ignore_errors=True)
    last = [line for line in done.stderr.splitlines() if "npm error" in line][:1]
    return f"npm installed nothing: {' '.join(last)}" if done.returncode else ""
