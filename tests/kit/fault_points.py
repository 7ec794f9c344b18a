"""Every point at which a write can be cut off: this process forks, and its child fails at one of them.

`python fault_points.py WRITE FAULT DIRECTORY` does the write named WRITE (see `WRITES`) again and again, each
time with FAULT at the next call to the system that changes a file, until one gets through without. It prints,
as a JSON list, what was found after each. A process of its own: forking wants a process without threads.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coder.config.files import IGNORED_BY_GIT

HOOKED = ("open", "write", "fsync", "fchmod", "replace", "rename", "link", "unlink", "ftruncate")
NEVER = 1_000_000
Check = Callable[[Path], str]


class Points:
    """Lets calls through until their turn comes; then it is the end, or an error, perhaps halfway."""

    def __init__(self, fault: str, at: int) -> None:
        self.fault = fault
        self.left = at
        for name in HOOKED:
            setattr(os, name, self._hooked(name, getattr(os, name)))

    def _hooked(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR):
                return real(*args, **kwargs)  # reading changes nothing
            if name == "unlink" and self.fault != "kill":
                return real(*args, **kwargs)  # a full disk does not stop anybody from tidying up
            self.left -= 1
            if self.left != 0:
                return real(*args, **kwargs)
            if name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call


# the writes: what is there before, what is done, and which of the two is there afterwards


def record(directory: Path) -> None:
    from coder.history.sinks import JsonlHistorySink
    from coder.protocol.history import HistoryEvent

    sink = JsonlHistorySink(directory / "log.jsonl")
    try:
        number = 1 + sum(1 for _ in events(directory))
        event = HistoryEvent(
            ts="", session_id="s", turn=number, step=0, type="note", content="x" * 300, role=None, meta={}
        )
        sink.append(event)
    finally:
        sink.close()


def events(directory: Path) -> list[Any]:
    from coder.history.log import read_log

    path = directory / "log.jsonl"
    return list(read_log(path)) if path.exists() else []


def record_found(directory: Path) -> str:
    return old_or_new([event.turn for event in events(directory)], [1], [1, 2])


def snapshot(directory: Path) -> None:
    from coder.history.store import SessionStore

    turns = 2 if shot(directory).exists() else 1
    SessionStore(directory).write_snapshot("s1", "", "", {"turns": turns, "pad": "x" * 5000}, [], [])


def shot(directory: Path) -> Path:
    return directory / ".coder" / "sessions" / "s1.json"


def snapshot_found(directory: Path) -> str:
    private(shot(directory))
    return old_or_new(json.loads(shot(directory).read_text("utf-8"))["meta"]["turns"], 1, 2)


def trust(directory: Path) -> None:
    from coder.config.trust import TrustStore

    store = TrustStore(directory)
    known = store.status(directory, {"a": 1}) == "trusted"
    store.trust(directory / "other" if known else directory, {"a": 1})


def trust_found(directory: Path) -> str:
    from coder.config.trust import TrustStore

    store = TrustStore(directory)
    assert store.status(directory, {"a": 1}) == "trusted", store.problem
    private(store.path)
    return old_or_new(store.status(directory / "other", {"a": 1}), "untrusted", "trusted")


def allowlist(directory: Path) -> None:
    from coder.config.allowlist import Allowlist

    allowed = Allowlist(directory, directory)
    allowed.add("make" if allowed.names() else "git")


def allowlist_found(directory: Path) -> str:
    from coder.config.allowlist import Allowlist

    allowed = Allowlist(directory, directory)
    private(allowed.path)
    return old_or_new(allowed.names(), ["git"], ["git", "make"])


def model(directory: Path) -> None:
    from coder.config.save import save_model

    problem = save_model(directory, "two" if (directory / ".coder" / "config.json").exists() else "one")
    fails(str(problem or ""))


def fails(problem: str) -> None:
    if problem:
        raise OSError(problem)


def model_found(directory: Path) -> str:
    assert (directory / ".coder" / ".gitignore").read_text("utf-8") == IGNORED_BY_GIT
    found = json.loads((directory / ".coder" / "config.json").read_text("utf-8"))
    return old_or_new(found["provider"]["model"], "one", "two")


def gitignore(directory: Path) -> None:
    from coder.config.files import ensure_directory

    (directory / "there").mkdir(exist_ok=True)
    if (directory / "begun").exists():
        ensure_directory(directory)
    (directory / "begun").touch()


def gitignore_found(directory: Path) -> str:
    path = directory / ".coder" / ".gitignore"
    return old_or_new(path.read_text("utf-8") if path.exists() else "", "", IGNORED_BY_GIT)


def own_config(directory: Path) -> None:
    from coder.config.save import set_in_user_file

    set_in_user_file(directory, ("ui", "lang"), "zh" if (directory / "config.json").exists() else "en")


def own_config_found(directory: Path) -> str:
    private(directory / "config.json")
    found = json.loads((directory / "config.json").read_text("utf-8"))
    return old_or_new(found, {"ui": {"lang": "en"}}, {"ui": {"lang": "zh"}})


def history(directory: Path) -> None:
    typed(directory, "second" if (directory / "history").exists() else "first")


def history_found(directory: Path) -> str:
    private(directory / "history")
    return old_or_new(recalled(directory), ["first"], ["second", "first"])


def typed(directory: Path, text: str) -> None:
    from coder.ui.terminal.input.input_history import ProjectHistory

    ProjectHistory(directory / "history").store_string(text)


def recalled(directory: Path) -> list[str]:
    from coder.ui.terminal.input.input_history import ProjectHistory

    return list(ProjectHistory(directory / "history").load_history_strings())


def long_history(directory: Path) -> None:
    """One that is cut back while it is added to."""
    from coder.ui.terminal.input import input_history as module

    module.KEPT_BYTES = 100  # or two megabytes would be written for each point
    if not (directory / "history").exists():
        (directory / "history").write_text("".join(f'"{n:09}"\n' for n in range(30)), encoding="utf-8")
    else:
        typed(directory, "newest")


def long_history_found(directory: Path) -> str:
    found = recalled(directory)
    whole = [text for text in found if text != "newest"]
    assert whole == [f"{n:09}" for n in range(29, 29 - len(whole), -1)], found
    assert len(whole) >= 7
    return old_or_new(found[:1] == ["newest"], False, True)


def memory(directory: Path) -> None:
    from coder.context.memory import Memory

    store = Memory(directory, directory / "home")
    store.save("second" if store.facts() else "first", "home")


def forgetting(directory: Path) -> None:
    from coder.context.memory import Memory

    store = Memory(directory, directory / "home")
    if store.facts():
        store.forget(2)
    else:
        store.save("first", "home")
        store.save("second", "home")


def memory_found(directory: Path) -> str:
    return old_or_new(remembered(directory), ["first"], ["first", "second"])


def forgetting_found(directory: Path) -> str:
    return old_or_new(remembered(directory), ["first", "second"], ["first"])


def remembered(directory: Path) -> list[str]:
    from coder.context.memory import Memory

    private(directory / "home" / "memory.md")
    return [fact.text for fact in Memory(directory, directory / "home").facts()]


def accepted(directory: Path) -> None:
    """A record that the person takes for their own: the key is made as well."""
    from coder.history.signature import accept
    from coder.history.store import SessionStore

    path = directory / ".coder" / "history" / "s1.jsonl"
    if path.exists():
        accept(directory / "home", SessionStore(directory), "s1")
        return
    path.parent.mkdir(parents=True)
    line = {"ts": "", "session_id": "s1", "turn": 0, "step": 0, "type": "note", "content": "x", "role": None}
    path.write_text(json.dumps({**line, "meta": {}}) + "\n", encoding="utf-8")


def accepted_found(directory: Path) -> str:
    from coder.history.signature import is_trusted
    from coder.history.store import SessionStore

    return old_or_new(is_trusted(directory / "home", SessionStore(directory), "s1"), False, True)


def old_or_new(found: object, old: object, new: object) -> str:
    assert found in (old, new), found
    return "new" if found == new else "old"


def private(path: Path) -> None:
    bits = stat.S_IMODE(path.stat().st_mode)
    assert bits == 0o600, f"{path.name} is {bits:o}"


WRITES: dict[str, tuple[Callable[[Path], None], Check]] = {
    "record": (record, record_found),
    "snapshot": (snapshot, snapshot_found),
    "trust": (trust, trust_found),
    "allowlist": (allowlist, allowlist_found),
    "model": (model, model_found),
    "gitignore": (gitignore, gitignore_found),
    "own_config": (own_config, own_config_found),
    "history": (history, history_found),
    "long_history": (long_history, long_history_found),
    "memory": (memory, memory_found),
    "forgetting": (forgetting, forgetting_found),
    "accepted": (accepted, accepted_found),
}


def attempt(write: Callable[[Path], None], directory: Path, fault: str, at: int) -> bool:
    """In a child, which fails at the call of that number; whether it got through without."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    points = Points(fault, at)
    try:
        write(directory)
    except Exception as error:
        from coder.texts import CoderError
        from coder.tools.save_memory import NotSaved

        os._exit(1 if isinstance(error, (CoderError, NotSaved, OSError)) else 9)
    os._exit(0 if points.left > 0 else 1)


def left_behind(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*.tmp"))


def main(name: str, fault: str, place: Path) -> list[dict[str, Any]]:
    write, found = WRITES[name]
    directory, before = place / "now", place / "before"
    directory.mkdir()
    os.umask(0o022)
    write(directory)
    directory.rename(before)
    results: list[dict[str, Any]] = []
    through = False
    while not through:
        shutil.copytree(before, directory)  # to the same place: some of what is kept is kept by path
        through = attempt(write, directory, fault, len(results) + 1)
        result = {"through": through, "found": found(directory), "left": left_behind(directory)}
        if result["found"] == "old":  # whoever comes next can do it
            assert attempt(write, directory, "none", NEVER)
            result["after"] = found(directory)
            result["left_after"] = left_behind(directory)
        results.append(result)
        shutil.rmtree(directory)
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
