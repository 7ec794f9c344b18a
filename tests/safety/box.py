"""A workspace with neighbours worth protecting, and a way to run a command there in a sandbox backend.

Also a program: as `python box.py` it reads what to run from stdin, so that another user can run it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.policy.sandbox.backends import Sandbox, SandboxLevel
from coder.policy.sandbox.bubblewrap import FILTER_FILE
from coder.policy.sandbox.launch import SCOPES_FROM, landlock_abi
from coder.policy.sandbox.probe import probe, trial
from coder.policy.sandbox.seccomp import strong_filter

if TYPE_CHECKING:
    from coder.policy.sandbox.seccomp import Sockets

FILTERS: tuple[Sockets, ...] = ("none", "no-unix", "unix")
NOBODY = 65534
SECRET = "correct horse battery staple"


@cache
def bwrap() -> str:
    """The one that a session would choose: the system's may be too old for overlay mounts."""
    with tempfile.TemporaryDirectory() as directory:
        return probe(Path(directory), os.environ["PATH"], backend="bubblewrap").program or "/nonexistent"


@cache
def available() -> list[str]:
    """The backends that work here; the suite runs inside each."""
    with tempfile.TemporaryDirectory() as directory:
        levels = [("bwrap", SandboxLevel("bwrap", bwrap()))]
        levels.append(("landlock", SandboxLevel("landlock")))
        return [name for name, level in levels if not trial(level, Path(directory), network=False)]


def level_of(backend: str) -> SandboxLevel:
    if backend == "bwrap":
        return SandboxLevel("bwrap", bwrap(), filters=True, connects=True, overlays=True)
    return (
        SandboxLevel("landlock", scopes=landlock_abi() >= SCOPES_FROM, connects=True)
        if backend == "landlock"
        else SandboxLevel()
    )


def users() -> list[str]:
    return ["me", "nobody"] if os.getuid() == 0 and shutil.which("setpriv") else ["me"]


def _as_nobody(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """This interpreter, as that user."""
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return subprocess.run(
        [*become, sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd="/",
        **options,
    )


@cache
def why_not_nobody() -> str:
    """Why that user cannot run this interpreter with what it needs; empty where it can."""
    tried = _as_nobody("-c", "import asyncio, ctypes, msgspec, coder.base.process.run")
    told = tried.stderr.strip().splitlines()
    return f"user nobody may not load {sys.executable}: {told[-1:]}" if tried.returncode else ""


def fingerprint(directory: Path) -> dict[str, str]:
    """Every file below with its content, mode and time."""
    return {
        str(path.relative_to(directory)): (
            f"{path.lstat().st_mode:o} {path.lstat().st_mtime_ns} "
            + (blake2b(path.read_bytes()).hexdigest() if path.is_file() else "")
        )
        for path in sorted(directory.rglob("*"))
    }


class Box:
    """The layout: project (the workspace), home with secrets, and a directory outside with a file in it."""

    def __init__(self, backend: str, user: str = "me") -> None:
        if user == "nobody" and why_not_nobody():  # an interpreter in root's home, say
            import pytest

            pytest.skip(why_not_nobody())
        self.backend, self.user = backend, user
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix="box-")))
        self.workspace = self.root / "project"
        self.home = self.root / "home"
        self.outside = self.root / "outside"
        self.coder_home = self.home / ".coder"
        for directory in (
            self.workspace / ".git" / "hooks",
            self.workspace / ".coder",
            self.workspace / "src",
            self.home / ".ssh",
            self.home / ".aws",
            self.home / ".local" / "share" / "keyrings",
            self.home / "sub",
            self.coder_home / "outputs" / "own",
            self.coder_home / "outputs" / "other",
            self.outside,
        ):
            directory.mkdir(parents=True)
        self.put("project/a.txt", "inside\n")
        self.put("project/.coder/config.json", "{}")
        self.put("project/.git/hooks/pre-push", "#!/bin/sh\n")
        self.put("home/.ssh/id_ed25519", SECRET)
        self.put("home/.netrc", SECRET)
        self.put("home/.aws/credentials", SECRET)
        self.put("home/.local/share/keyrings/login.keyring", SECRET)
        self.put("project/.git/config", "[core]\n\tbare = false\n")
        self.put("home/.coder/config.json", SECRET)
        for kind in FILTERS:  # else they are made with the first command
            file = self.coder_home / FILTER_FILE.format(sockets=kind)
            file.write_bytes(strong_filter(kind))
        self.put("home/.coder/outputs/own/old.txt", "an old output\n")
        self.put("home/.coder/outputs/other/old.txt", SECRET)
        self.put("home/notes.txt", "public\n")
        self.put("outside/kept.txt", "kept\n")
        if user == "nobody":
            for path in (self.root, *self.root.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def put(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def close(self) -> None:
        shutil.rmtree(self.root)
        name = blake2b(os.fsencode(self.workspace), digest_size=8).hexdigest()
        for scratch in Path("/tmp").glob(f"coder-*/{name}"):
            shutil.rmtree(scratch)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "W": str(self.workspace),
            "OUT": str(self.outside),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, script: str, **options: Any) -> ProcessOutcome:
        """`script` by bash. Options: plan, network, writable, timeout_ms."""
        job = {
            "backend": self.backend,
            "workspace": str(self.workspace),
            "home": str(self.coder_home),
            "environment": self.environment(),
            "script": script,
            "spill": str(self.root / "spill"),
            **options,
        }
        if self.user == "me":
            return run_job(job)
        done = _as_nobody(__file__, input=json.dumps(job), env={**os.environ, "HOME": str(self.home)})
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return ProcessOutcome(truncated=False, timed_out=told.pop("timed_out"), duration_ms=0, **told)

    def before_and_after(self) -> dict[str, bytes]:
        """All that must not change, with its content."""
        git = self.workspace / ".git"
        guarded = [self.home, self.outside, git / "hooks", self.workspace / ".coder"]
        files = [path for directory in guarded for path in directory.rglob("*") if path.is_file()]
        files += [git / "config", *git.glob("commondir"), *git.glob("config.worktree")]
        beside = [path for path in self.root.iterdir() if path.name != "spill"]
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in (*files, *beside)}


def run_job(job: dict[str, Any]) -> ProcessOutcome:
    sandbox = Sandbox(
        level_of(job["backend"]),
        Path(job["workspace"]),
        Path(job["home"]),
        writable=job.get("writable", ()),
        readable=[Path(job["home"], "outputs", "own")],
        network=job.get("network", True),
        plan=job.get("plan", False),
        environment=job["environment"],
    )
    return asyncio.run(
        run_process(
            sandbox.wrap(["bash", "-c", job["script"]]),
            runs=Runs.IN_SANDBOX,
            cwd=Path(job["workspace"]),
            environment=job["environment"],
            timeout_ms=job.get("timeout_ms", 120_000),
            keep_bytes=100_000,
            spill_to=Path(job["spill"]),
            spill_limit=0,
            on_output=lambda text: None,
        )
    )


if __name__ == "__main__":
    if not os.access(sys.executable, os.X_OK):  # our interpreter lies in root's home here
        sys.executable = shutil.which("python3") or sys.executable
    ended = run_job(json.load(sys.stdin))
    json.dump(
        {
            "exit_code": ended.exit_code,
            "stdout": ended.stdout,
            "stderr": ended.stderr,
            "timed_out": ended.timed_out,
        },
        sys.stdout,
    )
