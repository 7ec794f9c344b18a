"""A person's home and a project, both empty, and a way to load them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coder.config.load import Loaded, load_config
from coder.policy.decide import preset_table


class Place:
    """`home` is coder's own directory, `cwd` the project."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home" / ".coder"
        self.cwd = base / "project"
        self.home.mkdir(parents=True)
        (self.cwd / ".coder").mkdir(parents=True)
        self.home_file = self.home / "config.json"
        self.project_file = self.cwd / ".coder" / "config.json"

    def person(self, settings: Mapping[str, Any] | str) -> None:
        self.home_file.write_text(_text(settings), encoding="utf-8")

    def project(self, settings: Mapping[str, Any] | str) -> None:
        self.project_file.write_text(_text(settings), encoding="utf-8")

    def load(
        self,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
        config_file: Path | None = None,
        trusted: bool = False,
    ) -> Loaded:
        return load_config(
            self.cwd, self.home, environ or {}, flags or {}, config_file, preset_table, trusted
        )

    def ignored(self) -> list[str]:
        return [ignored.key for ignored in self.load().ignored]


def _text(settings: Mapping[str, Any] | str) -> str:
    return settings if isinstance(settings, str) else json.dumps(settings)


def run_at_once(programs: list[list[str]]) -> None:
    """Run Python programs (code, then arguments) in processes that all start when all are ready."""
    gate = "import sys; print(flush=True); sys.stdin.read();"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", gate + program[0], *program[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for program in programs
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    for child in children:
        assert child.wait() == 0
        assert child.stdout is not None
        child.stdout.close()
