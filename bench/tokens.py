"""What the harness makes a model read: tokens of one fixed task of thirty steps, against an older tree.

python bench/tokens.py OLD_SRC      plays the task with both, prints the ratio and writes bench/TOKENS.md

Counted is what coder itself puts into the requests: tool definitions, system message, notes, results. The
model's words and calls, which are the same script for both, are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from coder.context.conversation import TokenCounter

REPORT = Path(__file__).with_name("TOKENS.md")
COUNT = TokenCounter("o200k_base").count
TEST_LINE = f"{sys.executable} -m pytest -v --color=yes"
BUILD = 'for n in $(seq 1 900); do echo "[$n/900] compiling src/module_$n.c with -O2 -Wall -Wextra"; done'
PROGRESS = "for n in $(seq 1 400); do printf '\\rDownloading wheel %3d %%' $((n / 4)); done; echo; echo done"


def module(number: int) -> str:
    """A file as projects have them: functions, docstrings, a class."""
    head = f'"""Part {number} of a shop: orders, prices and stock."""\n\nfrom __future__ import annotations\n'
    functions = "".join(
        f"\n\ndef price_{number}_{n}(items: list[float], discount: float = 0.{n}) -> float:\n"
        f'    """The price of all items, less the discount of group {n}."""\n'
        f"    total = sum(items)\n    if total > {100 + n}:\n        total *= 1 - discount\n"
        f"    return round(total, 2)\n"
        for n in range(12)
    )
    return (
        f"{head}{functions}\n\nclass Stock{number}:\n    def __init__(self) -> None:\n"
        "        self.items: dict[str, int] = {}\n\n"
        "    def add(self, name: str, count: int) -> None:\n"
        "        self.items[name] = self.items.get(name, 0) + count\n"
    )


def tests(number: int) -> str:
    """Of which one fails, in part 3."""
    cases = f"from shop.part_{number} import *\n"
    for n in range(12):
        expected = 4.0 if (number, n) == (3, 7) else 3.0
        cases += (
            f"\n\ndef test_price_{n}() -> None:\n    assert price_{number}_{n}([1.0, 2.0]) == {expected}\n"
        )
    return cases


def make_project(directory: Path) -> None:
    files = {f"shop/part_{n}.py": module(n) for n in range(8)}
    files |= {f"tests/test_part_{n}.py": tests(n) for n in range(5)}
    files |= {"shop/__init__.py": "", "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n'}
    files |= {"README.md": "# Shop\n", ".gitignore": "__pycache__/\n.pytest_cache/\n", "conftest.py": ""}
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for line in ("init -q", "add -A", "-c user.name=x -c user.email=x@x commit -qm start"):
        subprocess.run(["git", *line.split()], cwd=directory, check=True)


def script() -> Iterator[tuple[str, dict[str, Any]]]:
    """Find a failing test, repair it, and add to the code: what an ordinary task is made of."""
    todos = ["find the failing test", "repair the price", "add a total", "run everything"]

    def plan(done: int) -> dict[str, Any]:
        states = ["completed" if n < done else "in_progress" if n == done else "pending" for n in range(4)]
        return {"todos": [{"content": c, "status": s} for c, s in zip(todos, states, strict=True)]}

    def edit(old: str, new: str, path: str = "tests/test_part_3.py") -> tuple[str, dict[str, Any]]:
        return "edit", {"path": path, "old_string": old, "new_string": new}

    yield "list", {}
    yield "todowrite", plan(0)
    yield "bash", {"command": TEST_LINE}
    yield "read", {"path": "tests/test_part_3.py"}
    yield "read", {"path": "shop/part_3.py"}
    yield "grep", {"pattern": "def price_3_"}
    yield "grep", {"pattern": "discount"}
    yield "bash", {"command": "git status"}
    yield "bash", {"command": "git log --stat"}
    yield "todowrite", plan(1)
    yield edit("assert price_3_7([1.0, 2.0]) == 4.0 ", "assert price_3_7([1.0, 2.0]) == 3.0 ")
    yield edit("price_3_7([1.0, 2.0]) == 4.0", "price_3_7([1.0, 2.0]) == 3.0")
    yield "bash", {"command": f"{TEST_LINE} tests/test_part_3.py"}
    yield "bash", {"command": BUILD}
    yield "todowrite", plan(2)
    yield "read", {"path": "shop/part_0.py"}
    yield "read", {"path": "shop/part_1.py", "offset": 20, "limit": 60}
    yield "read", {"path": "shop/part_2.py"}
    yield "glob", {"pattern": "**/*.py"}
    yield edit("class Stock3:\n", 'class Stock3:\n    """What is there."""\n\n', "shop/part_3.py")
    more = "\n\ndef total(stock: dict[str, int]) -> int:\n    return sum(stock.values())\n"
    yield "write", {"path": "shop/total.py", "content": more.lstrip()}
    yield "bash", {"command": PROGRESS}
    yield "read", {"path": "shop/part_4.py"}
    yield "bash", {"command": f"{TEST_LINE} -x"}
    yield "todowrite", plan(3)
    yield "bash", {"command": "git diff"}
    yield "read", {"path": "shop/part_3.py", "offset": 90}
    yield "grep", {"pattern": "Stock", "path": "shop"}
    yield "bash", {"command": TEST_LINE}
    yield "todowrite", plan(4)


class Model(ThreadingHTTPServer):
    """Answers with the script, and keeps every request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.steps = list(script())
        self.requests: list[dict[str, Any]] = []


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        model = self.server
        model.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        at = len(model.requests) - 1
        delta: dict[str, Any] = {"role": "assistant", "content": "" if at < len(model.steps) else "Done."}
        if at < len(model.steps):
            name, arguments = model.steps[at]
            call = {"name": name, "arguments": json.dumps(arguments)}
            delta["tool_calls"] = [{"index": 0, "id": f"call_{at}", "type": "function", "function": call}]
        finish = "tool_calls" if at < len(model.steps) else "stop"
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        body = b"data: " + json.dumps({"choices": choices}).encode() + b"\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def harness_tokens(request: dict[str, Any]) -> int:
    """Of one request, without what the model itself said."""
    told = [m["content"] for m in request["messages"] if m["role"] != "assistant"]
    return COUNT(json.dumps(request["tools"])) + sum(map(COUNT, told))


def played(source: str) -> tuple[int, int, int]:
    """Steps, tokens of the last request, and of all requests together."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "shop")
        root.mkdir()
        make_project(root)
        model = Model()
        threading.Thread(target=model.serve_forever, daemon=True).start()
        environment = {"PATH": os.environ["PATH"], "HOME": directory, "PYTHONPATH": source, "LANG": "C.UTF-8"}
        environment |= {
            "CODER_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}/v1",
            "CODER_MODEL": "m",
        }
        line = [sys.executable, "-m", "coder", "--once", "repair the failing test", "--mode", "yolo"]
        subprocess.run(line, cwd=root, env=environment, check=True, capture_output=True, timeout=300)
        model.shutdown()
        sizes = [harness_tokens(request) for request in model.requests]
    return len(sizes) - 1, sizes[-1], sum(sizes)


def main() -> None:
    rows, figures = "", []
    for name, source in (("before", sys.argv[1]), ("now", str(Path(__file__).parents[1] / "src"))):
        steps, last, total = played(source)
        figures.append((last, total))
        rows += f"| {name} | {steps} | {last:,} | {total:,} |\n"
    ratios = [now / before for before, now in zip(*figures, strict=True)]
    rows += f"| ratio | | {ratios[0]:.2f} | {ratios[1]:.2f} |\n"
    text = (
        "# What a model has to read\n\n"
        "One fixed task of thirty steps (`bench/tokens.py`): tokens of what coder puts into the requests, "
        "without the model's own words. Written by `python bench/tokens.py OLD_SRC`.\n\n"
        "| | steps | in the last request | in all requests |\n| --- | --- | --- | --- |\n"
    )
    REPORT.write_text(text + rows, encoding="utf-8")
    print(text + rows)


if __name__ == "__main__":
    main()
