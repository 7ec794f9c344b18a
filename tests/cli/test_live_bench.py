"""`./dev live`: the table of what a model on this machine finishes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

BENCH = Path(__file__).parents[2] / "bench" / "live.py"
ACTIONS = [
    {"do": "edit", "path": "config.py", "old": "PORT = 8080\n", "new": "PORT = 9000\n"},
    {"do": "done", "answer": "PORT is 9000."},
    {"do": "edit", "path": "config.py", "old": "DEBUG = True\n", "new": "DEBUG = 1\n"},
    {"do": "done", "answer": "DEBUG is 1."},
]


PEER = {
    "yaml.py": "from json import loads as safe_load\n",
    "minisweagent/__init__.py": "",
    "minisweagent/config/mini_textbased.yaml": json.dumps(
        {"agent": {"mode": "x"}, "model": {"model_kwargs": {}}, "environment": {}}
    ),
    "minisweagent/environments/local.py": """
from pathlib import Path
class LocalEnvironment:
    def __init__(self, cwd): self.place = Path(cwd)
""",
    "minisweagent/models/litellm_textbased_model.py": """
class LitellmTextbasedModel:
    def __init__(self, model_name, cost_tracking, model_kwargs): self.url = model_kwargs["api_base"]
""",
    "minisweagent/agents/default.py": """
import time
class DefaultAgent:
    n_calls = 2
    def __init__(self, model, env):
        self.model, self.env = model, env
        self.messages = [{"role": "assistant", "extra": {"response": {"usage": {"total_tokens": 7}}}}]
    def run(self, ask):
        assert self.model.url.startswith("http://127.0.0.1:"), self.model.url
        if "DEBUG" in ask:
            time.sleep(600)  # longer than a task may take
        file = self.env.place / "config.py"
        file.write_text(file.read_text().replace("8080", "9000"))
        try:
            (self.env.place.parents[2] / "outside").write_text("x")
        except OSError:
            return {"submission": "done"}
        file.unlink()
""",
}


def test_the_table_tells_single_files_and_what_was_held_out(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps(action)} for action in ACTIONS])
    model = gguf(tmp_path / "qwen-1.5b.gguf")
    words = ["--gguf", str(model), "--only", "guided", "--task", "change-port", "--task", "held-debug"]
    done = _bench(project, library, *words)
    assert done.returncode == 0, done.stderr
    assert "| guided | 1/2 | 1/2 | 0/1 |" in done.stdout
    assert "| change-port | edit | yes," in done.stdout
    assert "| held-debug (held out) | edit | no," in done.stdout


def test_what_was_run_is_not_run_again(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps(action)} for action in ACTIONS])
    words = ["--gguf", str(gguf(tmp_path / "qwen-1.5b.gguf")), "--only", "guided", "--task", "change-port"]
    _bench(project, library, *words, "--task", "held-debug", "--minutes", "0")
    assert not library.requests
    _bench(project, library, *words)
    before = len(library.requests)
    done = _bench(project, library, *words)
    assert "| guided | 1/1 | 1/1 | - |" in done.stdout
    assert len(library.requests) == before > 0


def test_a_peer_has_the_same_tasks_time_and_checks(project: Project, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    for name, text in PEER.items():
        (tmp_path / "peer" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "peer" / name).write_text(text)
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps(action)} for action in ACTIONS])
    library.environ["PYTHONPATH"] = f"{tmp_path / 'peer'}:{library.environ.get('PYTHONPATH', '')}"
    words = ["--gguf", str(gguf(tmp_path / "qwen-1.5b.gguf")), "--only", "mini-swe-agent"]
    words += ["--seconds", "0.25", "--task", "change-port", "--task", "held-debug", "--task", "two-files"]
    words += ["--peer", sys.executable]
    done = _bench(project, library, *words)
    assert done.returncode == 0, done.stderr
    assert "| mini-swe-agent | 1/2 | 1/2 | 0/1 | 4 | 14 |" in done.stdout  # of the single-file ones


def _bench(project: Project, library: FakeLibrary, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH), "--results", str(project.cwd / "results.jsonl"), *words],
        cwd=project.cwd,
        env=project.environ(**library.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
