"""The runs of docs/code.md: a real run is traced, and must call what each list names, in that order."""

from __future__ import annotations

import re
from pathlib import Path

from kit.driving import Project

ROOT = Path(__file__).parents[2]
_ITEM = re.compile(r"^\d+\. `([\w/]+\.py)` `(\w+)`", re.MULTILINE)

# Found by Python in every process that is started with it: tells of each call into the package.
_TRACER = """
import os, sys, threading
out = open(os.environ["CALLS_FILE"], "a", buffering=1)
root = os.environ["CALLS_ROOT"]

def tell(frame, what, arg):
    if what == "call" and frame.f_code.co_filename.startswith(root):
        out.write(f"{frame.f_code.co_filename[len(root):]} {frame.f_code.co_name}\\n")

sys.setprofile(tell)
threading.setprofile(tell)
"""


def ways() -> dict[str, list[str]]:
    """By title, `file function` for each item of its list."""
    page = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in page.split("\n### ")[1:]]
    return {
        title: [f"{file} {function}" for file, function in _ITEM.findall(text.split("\n## ")[0])]
        for title, _, text in sections
    }


def traced(project: Project) -> dict[str, str]:
    """The environment of a process whose calls are told."""
    directory = project.home / "tracer"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_TRACER, encoding="utf-8")
    return {
        "PYTHONPATH": str(directory),
        "PYTHONWARNINGS": "default",  # the file of calls stays open
        "CALLS_FILE": str(project.home / "calls"),
        "CALLS_ROOT": f"{ROOT / 'src' / 'coder'}/",
    }


def follow(project: Project, title: str) -> None:
    """Each function of the list is called after the one before it."""
    way = ways()[title]
    told = (project.home / "calls").read_text(encoding="utf-8").splitlines()
    at = 0
    for number, wanted in enumerate(way, 1):
        assert wanted in told[at:], f"{number}. {wanted} is not called after {way[number - 2]}"
        at = told.index(wanted, at)
