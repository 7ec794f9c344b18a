"""Plain data that crosses processes and machines: what an attempt is given, and what it gives back."""

from __future__ import annotations

from typing import Any

import msgspec

from coder.addons.batch.task_file import Task
from coder.addons.batch.workspace_of_task import HomeFile


class Settings(msgspec.Struct, frozen=True):
    """What all tasks of a batch share. Nothing private is in it: that is handed over apart (`Secrets`)."""

    batch: str  # names this batch's directories on every machine
    mode: str = "auto-edit"
    model: str = ""
    preset: str = ""
    max_steps: int = 0
    timeout_s: float = 3600.0
    hidden: list[str] = []  # from tasks: the task file, which has their checks, and each other's results


class Secrets(msgspec.Struct, frozen=True):
    """Environment variables for tasks (the provider's, and those that tasks name) and the person's settings,
    modes and skills, which may hold keys too. Kept out of logs."""

    provider: dict[str, str] = {}
    named: dict[str, str] = {}
    config: dict[str, Any] = {}
    files: list[HomeFile] = []

    def __repr__(self) -> str:
        return f"Secrets({sorted({*self.provider, *self.named})})"


class Job(msgspec.Struct, frozen=True):
    """One attempt at one task."""

    task: Task
    attempt: int
    settings: Settings

    @property
    def key(self) -> str:
        return self.task.id


class Check(msgspec.Struct, frozen=True):
    """What the task's `check` came to. `status`: `passed`, `failed`, `timeout` or `not_run`."""

    status: str = "not_run"
    exit_code: int | None = None
    output: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """How an attempt ended. `final`: it ran to an end of its own; cancelled or refused for the batch's
    budget it did not, and is done again by `--resume`. `note`: what its clone or its patch lacks."""

    status: str
    final: bool = True
    error: str = ""
    note: str = ""
    steps: int = 0
    verification: dict[str, Any] = {}
    check: Check = Check()
    tokens: dict[str, int] = {}
    cost: float | None = None
    duration: float = 0.0
    model: str = ""
    mode: str = ""
    base: str = ""
    session_id: str = ""
    additions: int = 0
    deletions: int = 0
    files: int = 0


def succeeded(status: str, check: str, verification: str) -> bool:
    """A task's own check decides where there is one, else the last verification that ran."""
    if status != "ok" or check in ("failed", "timeout"):
        return False
    return check == "passed" or verification != "failed"
