"""The how-to pages, done as they say, in a copy of the source that is thrown away.

A page may have been followed in the checkout itself already: what it adds is then left as it is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from test_examples import FENCED

from kit import ScriptedServer
from kit.driving import Project

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy's `src`, with what every page says done to it; beside it the tests that the pages name."""
    directory = tmp_path_factory.mktemp("howto")
    for part in ("src", "tests/policy", "tests/cli", "tests/kit", "tests/texts"):
        shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.zh.md", "tests/conftest.py", "tests/test_arrows.py"):
        shutil.copy(ROOT / name, directory / name)
    for page in ("add-tool.md", "add-command.md", "add-event.md", "add-provider.md", "add-language.md"):
        follow(page, directory)
    return directory / "src"


def follow(page: str, directory: Path) -> None:
    """Put every titled piece of the page where it belongs."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    pieces = [(match[1], directory / match[2], match[3]) for match in FENCED.finditer(text) if match[2]]
    assert pieces, "nothing to do on this page"
    for language, path, piece in pieces:
        if language != "diff":
            there = path.exists() and path.read_text(encoding="utf-8") != piece
            assert not there, f"{path} is there already, and says something else"
            path.parent.mkdir(exist_ok=True)
            path.write_text(piece, encoding="utf-8")
            continue
        lines = piece.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        before = path.read_text(encoding="utf-8")
        if new in before:
            continue
        assert before.count(old) == 1, f"a page quotes {path.name} as it was; update its diff:\n{piece}"
        path.write_text(before.replace(old, new), encoding="utf-8")


def coder(source: Path, project: Project, *args: str, url: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coder", *args],
        cwd=project.cwd,
        env=project.environ(url, PYTHONPATH=str(source)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_pages_leave_sources_that_lint(source: Path) -> None:
    # The order of imports (I001) also depends on what others have added where the page says.
    for arguments in (["check", "--ignore", "I001"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, "src"]
        done = subprocess.run(command, cwd=source.parent, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout


def test_a_tool(project: Project, source: Path) -> None:
    project.write("a.txt", "one two\nthree\n")
    calls = [
        {"calls": [{"name": "count", "arguments": {"path": path}}]} for path in ("a.txt", "b.txt", "../x")
    ]
    with ScriptedServer([*calls, {"text": "done"}]) as server:
        done = coder(source, project, "--once", "how long is it?", "--mode", "plan", url=server.url)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    counted, missing, outside = project.of_type("observation")
    assert counted["content"] == "2 lines, 3 words, 14 characters"
    assert counted["meta"]["words"] == 3
    assert missing["content"].startswith("error: b.txt: No such file")
    assert outside["content"].startswith("error: ")
    assert "count  " in coder(source, project, "--once", "/tools", url=server.url).stdout


def test_a_tool_that_edits(project: Project, source: Path) -> None:
    path = project.write("a.txt", "b\na\n")
    calls = [{"calls": [{"name": "sort_lines", "arguments": {"path": name}}]} for name in ("a.txt", "b.txt")]
    with ScriptedServer([*calls, {"text": "done"}]) as server:
        done = coder(source, project, "--once", "sort it", "--mode", "auto-edit", url=server.url)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        assert path.read_text(encoding="utf-8") == "a\nb\n"
        assert coder(source, project, "--continue", "--once", "/undo", url=server.url).returncode == 0
    assert path.read_text(encoding="utf-8") == "b\na\n"
    edited, missing = project.of_type("observation")
    assert edited["meta"]["operation"] == "updated"
    assert missing["content"].startswith("error: b.txt does not exist")


def test_a_command(project: Project, source: Path) -> None:
    with ScriptedServer([]) as server:
        assert coder(source, project, "--once", "/hello you", url=server.url).stdout == "Hello, you.\n"
        helped = coder(source, project, "--lang", "zh", "--once", "/help", url=server.url).stdout
    assert "/hello [NAME]" in helped
    assert "打个招呼" in helped


def test_an_event(project: Project, source: Path) -> None:
    project.configure(runtime={"max_session_turns": 3})
    with ScriptedServer([{"text": "hello"}] * 2) as server:
        english = coder(source, project, "--once", "x", url=server.url)
        chinese = coder(source, project, "--lang", "zh", "--once", "x", url=server.url)
    assert (english.returncode, english.stdout) == (0, "hello\n"), english.stderr
    assert "turns left in this session: 2\n" in english.stderr
    assert "本会话还剩 2 回合\n" in chinese.stderr


@pytest.mark.thorough
def test_the_tests_that_the_pages_name_pass(project: Project, source: Path) -> None:
    """Those of tables and texts, which an addition could fail; the program itself is tried above."""
    tests = source.parent / "tests"
    types = coder(source, project, "schema", "--ts")
    (tests / "cli/protocol.ts").write_text(types.stdout, encoding="utf-8")
    named = (
        "cli/test_schema_form.py",
        "policy/test_decide.py",
        "test_arrows.py",
        "texts/test_texts.py",
        "texts/test_chinese.py::test_a_turn_has_one_name",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *(f"tests/{name}" for name in named)],
        cwd=source.parent,
        env=project.environ(PYTHONPATH=f"{source}:{tests}"),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_provider(project: Project, source: Path) -> None:
    with ScriptedServer([{"text": "hello"}]) as server:
        environ = {"BASKET_API_KEY": "k", "BASKET_BASE_URL": server.url, "BASKET_MODEL": "basket-7"}
        done = subprocess.run(
            [sys.executable, "-m", "coder", "--once", "x"],
            cwd=project.cwd,
            env=project.environ(PYTHONPATH=str(source), **environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert server.chats[0]["model"] == "basket-7"


class _BasketServer(BaseHTTPRequestHandler):
    """Speaks the API that the page invents: a call, then an answer."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/generate"
        if asked["messages"][-1]["role"] == "tool":
            events: list[dict[str, object]] = [{"text": asked["messages"][-1]["content"]}, {"end": "stop"}]
        else:
            call = {"id": "1", "name": "read", "arguments": '{"path": "a.txt"}'}
            events = [{"call": call}, {"end": "tool_calls", "tokens": {"in": 7, "out": 2}}]
        self.send_response(200)
        self.end_headers()
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, *_: object) -> None: ...


def test_another_api(project: Project, source: Path) -> None:
    project.write("a.txt", "one two\n")
    project.configure(provider={"wire": "basket"})
    server = HTTPServer(("127.0.0.1", 0), _BasketServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        done = coder(source, project, "--once", "what is in it?", url=url)
    finally:
        server.shutdown()
        server.server_close()
    assert (done.returncode, done.stdout) == (0, "1\tone two\n"), done.stderr
    tokens = project.of_type("assistant")[0]["meta"]["tokens"]
    assert (tokens["prompt"], tokens["completion"], tokens["source"]) == (7, 2, "provider")


def test_a_language(project: Project, source: Path) -> None:
    """What it has is said in it, what it lacks in English."""
    with ScriptedServer([]) as server:
        said = coder(source, project, "--lang", "fr", "--once", "/todos", url=server.url)
        assert said.stdout == "Il n'y a pas de liste de tâches.\n", said.stderr
        helped = coder(source, project, "--lang", "fr", "--once", "/help", url=server.url)
    assert "quitter" in helped.stdout
    assert "the model's tools" in helped.stdout
    assert "usage" in coder(source, project, "--lang", "fr", "--help").stdout
