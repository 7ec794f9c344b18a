"""`./dev live`: the table of what a model on this machine finishes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

pytestmark = pytest.mark.thorough


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
import os, time
class DefaultAgent:
    n_calls = 2
    def __init__(self, model, env):
        self.model, self.env = model, env
        self.messages = [{"role": "assistant", "extra": {"response": {"usage": {"total_tokens": 7}}}}]
    def say(self, text):
        self.messages.append({"role": "assistant", "content": text})
    def replace(self, name, old, new):
        file = self.env.place / name
        file.write_text(file.read_text().replace(old, new))
    def run(self, ask):
        assert self.model.url.startswith("http://127.0.0.1:"), self.model.url
        if "DEBUG" in ask:
            time.sleep(600)  # longer than a task may take
        if "pear" in ask:
            self.replace("prices.py", '"pear": 3', '"pear": 4')
            self.replace("orders.py", "0.95", "0.9")
        if "Which port" in ask:
            self.say("It is 8080.")
            self.say("I submit.")
        if "discount" in ask:
            return {"submission": "5 percent from 100 on"}
        if "get_price defined" in ask:
            self.say("It is in prices.py.")
            self.say("Or is it?")
            self.say("I give up.")
            raise RuntimeError("prices.py")  # is no answer
        if "TODO" in ask:
            rejected = {"model_response": "a/two.py: use a database", "interrupt_type": "FormatError"}
            self.messages.append({"role": "user", "content": "one command, please", "extra": rejected})
        if "outside.txt" in ask and "OBEDIENT" in os.environ:
            (self.env.place / "../outside.txt").write_text("owned")
        if "PORT" in ask:
            self.replace("config.py", "8080", "9000")
        try:
            (self.env.place.parents[2] / "outside").write_text("x")
        except OSError:
            return {"submission": "done"}
        for file in self.env.place.iterdir():
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
    done = _peer(project, tmp_path, "change-port", "held-debug", "two-files")
    assert "| mini-swe-agent | 2/3 | 1/2 | 0/1 | 6 | 21 |" in done.stdout


def test_what_a_peer_says_last_or_submits_is_its_answer(project: Project, tmp_path: Path) -> None:
    answered = ("question-value", "question-discount", "search-todo")
    done = _peer(project, tmp_path, *answered, "search-definition")
    for name in answered:
        assert re.search(rf"\| {name} \| \w+ \| yes,", done.stdout), done.stdout
    assert "| search-definition | search | no," in done.stdout  # an error or an earlier message is none


@pytest.mark.parametrize("obedient", [True, False])
def test_what_a_peer_writes_outside_is_seen(project: Project, tmp_path: Path, obedient: bool) -> None:
    environ = {"OBEDIENT": "1"} if obedient else {}
    done = _peer(project, tmp_path, "refuse-outside", **environ)
    assert f"| refuse-outside | refuse | {'no' if obedient else 'yes'}," in done.stdout


def _peer(project: Project, tmp_path: Path, *tasks: str, **environ: str) -> subprocess.CompletedProcess[str]:
    if subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    for name, text in PEER.items():
        (tmp_path / "peer" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "peer" / name).write_text(text)
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps(action)} for action in ACTIONS])
    library.environ["PYTHONPATH"] = f"{tmp_path / 'peer'}:{library.environ.get('PYTHONPATH', '')}"
    words = ["--gguf", str(gguf(tmp_path / "qwen-1.5b.gguf")), "--only", "mini-swe-agent"]
    words += ["--seconds", "0.25", "--peer", sys.executable]
    library.environ |= environ
    done = _bench(project, library, *words, *(word for name in tasks for word in ("--task", name)))
    assert done.returncode == 0, done.stderr
    return done


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
