"""Everything that coder keeps is whole after a kill or a full disk at any point of a write, and no entry is
lost to another process."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.config.allowlist import Allowlist
from coder.config.trust import TrustStore
from coder.context.memory import Memory
from coder.history.log import read_log
from coder.ui.terminal.input.input_history import ProjectHistory
from kit.fault_points import WRITES

SCRIPT = Path(__file__).parents[1] / "kit" / "fault_points.py"
# Written under a name that nobody else would take away; a kill leaves it, and nothing reads it.
MAY_LEAVE = {"gitignore", "memory", "forgetting", "long_history"}


def results(name: str, fault: str, directory: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), name, fault, str(directory)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["kill", "full"])
@pytest.mark.parametrize("name", WRITES)
def test_the_old_or_the_new_and_nothing_between(tmp_path: Path, name: str, fault: str) -> None:
    found = results(name, fault, tmp_path)
    assert found[0]["found"] == "old"
    assert found[-1] == {"through": True, "found": "new", "left": []}
    assert len(found) >= 3  # a write is at least an opening and a writing
    kinds = [one["found"] for one in found]
    assert kinds == sorted(kinds, reverse=True)  # once it is new it stays new
    assert all(one["after"] == "new" for one in found if one["found"] == "old")
    if fault == "full":
        assert not any(one["left"] for one in found)
    elif name not in MAY_LEAVE:
        assert not any(one.get("left_after") for one in found)


# real processes

KEEPING = """
import sys
from pathlib import Path
from coder.config.allowlist import Allowlist
from coder.config.trust import TrustStore
from coder.context.memory import Memory
from coder.protocol.history import HistoryEvent
from coder.history.sinks import JsonlHistorySink
from coder.ui.terminal.input.input_history import ProjectHistory

home, name = Path(sys.argv[1]), sys.argv[2]
stores = TrustStore(home), Allowlist(home, home), Memory(home, home), ProjectHistory(home / "history")
sink = JsonlHistorySink(home / f"{name}.jsonl")
sys.stdin.read(1)
for n in range(int(sys.argv[3])):
    entry = f"{name}-{n}"
    stores[0].trust(home / entry, {"a": 1})
    stores[1].add(entry)
    stores[2].save(f"The fact {entry} holds", "home")
    stores[3].store_string(entry)
    sink.append(HistoryEvent("", name, "note", n, 0, entry * 50))
    print(entry, flush=True)
sink.close()
"""


def started(home: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", KEEPING, str(home), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kept(home: Path, name: str) -> list[list[str]]:
    """What each store has of a process, in order. That it can be read at all is half of the test."""
    trust = json.loads((home / "trust.json").read_text(encoding="utf-8"))["folders"]
    facts = [fact.text.split()[2] for fact in Memory(home, home).facts()]
    typed = list(ProjectHistory(home / "history").load_history_strings())[::-1]
    entries = [[Path(directory).name for directory in trust], Allowlist(home, home).names(), facts, typed]
    logged = [event.content[: len(event.content) // 50] for event in read_log(home / f"{name}.jsonl")]
    return [*([entry for entry in some if entry.startswith(f"{name}-")] for some in entries), logged]


@pytest.mark.thorough
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    names, count = ("a", "b", "c"), 15
    processes = [started(tmp_path, name, count) for name in names]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    for process in processes:
        assert process.communicate(timeout=60)[0].count("\n") == count
    for directory in (tmp_path, *tmp_path.rglob("*")):
        assert directory.stat().st_mode & 0o077 == 0, directory
    for name in names:
        wanted = [f"{name}-{n}" for n in range(count)]
        for store in kept(tmp_path, name):
            assert sorted(store) == sorted(wanted)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_said_to_be_kept_is_there_after_a_kill(tmp_path: Path, seed: int) -> None:
    """Killed after it has reported some entry, while it is at the next."""
    chance = random.Random(seed)
    with started(tmp_path, "a", 100_000) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("x")
        process.stdin.flush()
        reported = [process.stdout.readline().strip() for _ in range(chance.randint(1, 12))]
        for _ in range(chance.randint(0, 20_000)):  # some instructions later, without a clock
            pass
        os.kill(process.pid, signal.SIGKILL)
        reported += process.stdout.read().split()  # not `communicate`, which forgets what is read already
    for store in kept(tmp_path, "a"):
        assert store[: len(reported)] == reported
        assert len(store) <= len(reported) + 1  # the one that it was at
    assert TrustStore(tmp_path).status(tmp_path / reported[0], {"a": 1}) == "trusted"


def test_a_store_that_cannot_be_read_is_put_aside_and_not_written_over(tmp_path: Path) -> None:
    store, allowed = TrustStore(tmp_path), Allowlist(tmp_path, tmp_path)
    allowed.add("git")
    for path in (store.path, allowed.path):
        path.write_bytes(b'{"of": "a later version", "folders": 3, "names": 3}')
    store.trust(tmp_path, {"a": 1})
    allowed.add("make")
    assert (store.status(tmp_path, {"a": 1}), allowed.names()) == ("trusted", ["make"])
    for path in (store.path, allowed.path):
        assert b"later version" in path.with_name(f"{path.name}.damaged").read_bytes()


def test_a_memory_that_may_not_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coder.tools.save_memory import NotSaved

    memory = Memory(tmp_path, tmp_path)
    memory.save("first", "home")
    monkeypatch.setattr(os, "access", lambda path, bits: bits != os.W_OK)  # root may write everything
    with pytest.raises(NotSaved):
        memory.save("second", "home")
    assert [fact.text for fact in memory.facts()] == ["first"]
