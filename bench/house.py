"""How large the source is and how much of it a simple run goes through: before and after, in bench/HOUSE.md.

python bench/house.py OLD_SRC      OLD_SRC: the `src` of an older checkout (git worktree add ../old REVISION)
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SMALL = 60  # lines

# Runs coder and writes which files of ours were entered, and how often a call led from one file to another.
TRACED = """
import os, sys, threading
source, out = sys.argv[1] + os.sep, sys.argv[2]
sys.path.insert(0, sys.argv[1])
files, last, switches, importing = set(), "", 0, 0

def saw(frame, event, argument):
    global last, switches, importing
    if frame.f_code.co_name == "<module>":  # what an import runs is not a step of the program
        importing += {"call": 1, "return": -1}.get(event, 0)
    if event != "call" or importing:
        return
    name = frame.f_code.co_filename
    if name.startswith(source):
        files.add(name)
        if name != last:
            switches, last = switches + 1, name

leave = os._exit

def end(status):
    sys.setprofile(None)
    with open(out, "w") as file:
        file.write(f"{len(files)} {switches}")
    leave(status)

os._exit = end
sys.argv = ["coder", *sys.argv[3:]]
from coder.cli import main
threading.setprofile(saw)
sys.setprofile(saw)
main()
end(0)
"""

Step = dict[str, Any]
RUNS: dict[str, tuple[list[Step], list[str]]] = {
    "`--once hi`": ([{"text": "hi"}], ["--once", "hi"]),
    "an edit": (
        [
            {"call": ("read", {"path": "a.py"})},
            {"call": ("edit", {"path": "a.py", "old_string": "1", "new_string": "2"})},
            {"text": "done"},
        ],
        ["--permissions", "auto-edit", "--once", "change it"],
    ),
    "a shell command": (
        [{"call": ("bash", {"command": "git status"})}, {"text": "done"}],
        ["--once", "look"],
    ),
    "`/undo`": ([], ["--continue", "--once", "/undo"]),
}


def parsed(source: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py"))}


def inner_imports(tree: ast.Module) -> Iterator[ast.AST]:
    seen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Import | ast.ImportFrom) and id(inner) not in seen:
                    seen.add(id(inner))
                    yield inner


def members(node: ast.ClassDef) -> int:
    """Attributes and methods of a class."""
    names = set()
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(inner.name)
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            names.add(inner.target.id)
        elif isinstance(inner, ast.Assign):
            names.update(target.id for target in inner.targets if isinstance(target, ast.Name))
    for deep in ast.walk(node):
        if isinstance(deep, ast.Attribute) and isinstance(deep.ctx, ast.Store) and _is_self(deep.value):
            names.add(deep.attr)
    return len(names)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def importers(trees: dict[Path, ast.Module], source: Path) -> Counter[str]:
    """For each module of ours, how many others name it."""
    names = {}
    for path in trees:
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(part for part in parts if part != "__init__")] = path
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))
    for path, tree in trees.items():
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in names else node.module)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
        counts.update(name for name in found if name in names and names[name] != path)
    return counts


def figures(source: Path) -> dict[str, object]:
    """What is counted of a source directory."""
    trees = parsed(source)
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in trees}
    modules = [path for path in trees if path.name != "__init__.py"]
    names = Counter(path.name for path in modules)
    classes = [
        (members(node), node.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    largest = sorted(classes, reverse=True)[:5]
    counts = importers(trees, source)
    repository = source.parent
    return {
        "lines": sum(lines.values()),
        "files": len(trees),
        "files without `__init__.py`": len(modules),
        "packages at the top": sum(
            path.parent.parent.parent == source for path in trees if path.name == "__init__.py"
        ),
        f"files under {SMALL} lines": sum(lines[path] < SMALL for path in modules),
        "modules with one importer": sum(count == 1 for count in counts.values()),
        "file names that occur more than once": sum(count > 1 for count in names.values()),
        "imports inside functions": sum(len(list(inner_imports(tree))) for tree in trees.values()),
        "largest classes (attributes and methods)": ", ".join(f"{name} {count}" for count, name in largest),
        "lines of ARCHITECTURE.md": _lines(repository / "ARCHITECTURE.md"),
        "rows of its glossary": _glossary(repository / "ARCHITECTURE.md"),
        "lines of README.md": _lines(repository / "README.md"),
    }


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def _glossary(path: Path) -> int:
    text = path.read_text(encoding="utf-8").partition("## Glossary")[2].partition("\n## ")[0]
    return max(sum(line.startswith("|") for line in text.splitlines()) - 2, 0)


class Model(BaseHTTPRequestHandler):
    """A model that follows a script, over HTTP on loopback."""

    steps: list[Step]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        step = self.steps.pop(0) if self.steps else {"text": "done"}
        delta: Step = {"role": "assistant", "content": step.get("text", "")}
        if "call" in step:
            called = list(step["call"])
            function = {"name": called[0], "arguments": json.dumps(called[1])}
            delta["tool_calls"] = [{"index": 0, "id": "c1", "type": "function", "function": function}]
        reason = "tool_calls" if "call" in step else "stop"
        events = [
            {"choices": [{"index": 0, "delta": delta}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


def traced(source: Path) -> dict[str, tuple[int, int]]:
    """Files entered and switches between files, for each run."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        home, workspace, out = Path(directory, "home"), Path(directory, "work"), Path(directory, "out")
        home.mkdir()
        workspace.mkdir()
        subprocess.run(["git", "init", "-q", workspace], check=True)
        (workspace / "a.py").write_text("x = 1\n", encoding="utf-8")
        server = HTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "CODER_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
            "CODER_API_KEY": "none",
            "CODER_MODEL": "scripted",
        }
        for name, (steps, arguments) in RUNS.items():
            Model.steps = list(steps)
            command = [sys.executable, "-c", TRACED, str(source), str(out), *arguments]
            subprocess.run(
                command, cwd=workspace, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True
            )
            entered, switched = map(int, out.read_text(encoding="utf-8").split(" "))
            found[name] = entered, switched
        server.shutdown()
    return found


def table(old: Path, new: Path) -> Iterator[str]:
    before, after = figures(old), figures(new)
    yield "| | before | after |"
    yield "| --- | ---: | ---: |"
    for name, value in after.items():
        yield f"| {name} | {before[name]} | {value} |"
    yield ""
    yield "Files of coder entered, and switches from one file to another, by `sys.setprofile`:"
    yield ""
    yield "| run | before | after | ratio of files |"
    yield "| --- | ---: | ---: | ---: |"
    first, second = traced(old), traced(new)
    for name, (files, switches) in second.items():
        was, switched = first[name]
        yield f"| {name} | {was} files, {switched} switches | {files}, {switches} | {files / was:.2f} × |"


def main() -> None:
    old = Path(sys.argv[1]).resolve()
    text = "\n".join(table(old, ROOT / "src"))
    heading = (
        "# The house\n\n"
        "The size of the source, and how much of it a simple run enters. Written by `bench/house.py`.\n\n"
    )
    (ROOT / "bench" / "HOUSE.md").write_text(f"{heading}{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
