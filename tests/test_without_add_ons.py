"""Deleting the directory of an add-on leaves a working program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import coder
from kit import ScriptedServer
from kit.driving import Project

SOURCE = Path(coder.__file__).parent
ADDONS = sorted(path.parent.name for path in SOURCE.glob("addons/*/addon.json"))

# Every module that is left can be imported, and every command that is left has a line in the help.
IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
sys.argv[1:] = []
import coder
for found in pkgutil.walk_packages(coder.__path__, "coder."):
    if found.name not in ("coder.__main__", "coder.cli.demo_script") and ".sandbox." not in found.name:
        import_module(found.name)
from coder.cli.start import subcommands
from coder.texts import Catalog
print(all(Catalog("zh", strict=True).say(f"cli.about.{name}") for name in subcommands()))
"""


@pytest.mark.parametrize("name", ADDONS)
def test_coder_works_without_it(project: Project, tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source / "coder", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(source / "coder" / "addons" / name)

    def run(*arguments: str, url: str = "") -> str:
        environ = {**project.environ(url), "PYTHONPATH": str(source)}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=project.cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    with ScriptedServer([{"text": "hello"}, {"text": "/status"}]) as server:
        assert run("-m", "coder", "--once", "hi", url=server.url).strip() == "hello"
        assert run("-m", "coder", "--once", "/status", url=server.url)
    assert run("-m", "coder", "--help")
    assert run("-c", IMPORT_ALL).strip() == "True"
