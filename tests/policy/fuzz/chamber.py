"""Where generated lines run: namespaces of their own, all of the disk read-only but the throw-away tree.

A line is never run outside of it, whatever its verdict was: that verdict is what is being tested.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coder.base.process.git import read_only_environment
from coder.policy.sandbox.bubblewrap import find_bwraps

from .tree import Tree
from .vocabulary import Vocabulary, learn

_WORKER = Path(__file__).with_name("worker.py")
_MANY = 50  # changes, from which on all is made anew


class Impossible(Exception):
    """There are no namespaces to be had here; says why."""


class Seen(msgspec.Struct, frozen=True):
    """What lines did. `late`: which of them were given up; `left`: the processes that they left behind."""

    changed: list[str]
    late: list[int] = []
    left: dict[int, list[str]] = {}


class Line(NamedTuple):
    """A line, and by which settings the repositories it looks at name programs, as its verdict says."""

    text: str
    drivers: frozenset[str] | None = None


class Chamber:
    """A running worker in its namespaces."""

    def __init__(self, tree: Tree, seconds: float) -> None:
        self.tree = tree
        self._kind = "tame"
        self._environments: dict[frozenset[str] | None, int] = {}
        tree.restore(self._kind)  # before bwrap enters it
        self._process = subprocess.Popen(
            [*_bwrap_arguments(tree), *_worker_line(tree, seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._ask("base")

    def run(self, lines: list[Line]) -> Seen:
        """Run the lines one after the other, and see what is different then."""
        numbered = [(line.text, self._environment(line.drivers)) for line in lines]
        return msgspec.convert(self._ask("run", numbered), Seen, strict=False)

    def capture(self, line: str) -> str:
        """What a line prints."""
        return str(self._ask("capture", line, self._environment(frozenset())))

    def vocabulary(self) -> Vocabulary:
        """Programs and their options, as they are found in here."""
        found = learn(self.capture)
        self.restore()
        return found

    def restore(self, kind: str = "") -> None:
        """The tree as it was, or another kind of it."""
        self._kind = kind or self._kind
        self.tree.restore(self._kind)
        self._ask("base")

    def put_back(self, changed: list[str]) -> None:
        """What has been changed, as it was."""
        if len(changed) > _MANY:
            self.restore()
            return
        self.tree.put_back(self._kind, changed)
        self._ask("base")

    def close(self) -> None:
        """End it, and with it all that lines have started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _environment(self, drivers: frozenset[str] | None) -> int:
        """The number of the environment that coder runs a line in of which this is known."""
        if drivers not in self._environments:
            own = _line_environment(self.tree)
            self._ask("environment", read_only_environment(own, self.tree.work, drivers))
            self._environments[drivers] = len(self._environments)
        return self._environments[drivers]

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"the worker ended (status {self._process.wait()}) at {request!r}")
        return json.loads(answer)


@contextmanager
def opened(directory: Path, seconds: float = 1.5) -> Iterator[Chamber]:
    """A chamber whose tree is made in `directory`; raises `Impossible` where the kernel gives no namespaces.
    A line that takes more than `seconds` proves nothing, and is no failure."""
    _check()
    tree = Tree(directory)
    chamber = Chamber(tree, seconds)
    try:
        yield chamber
    finally:
        chamber.close()


def _line_environment(tree: Tree) -> dict[str, str]:
    """What lines find in their environment: variables may hold anything, so they hold the worst."""
    return {
        "PATH": "/usr/bin:/bin", "HOME": str(tree.home), "LC_CTYPE": "C.UTF-8", "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
        "x": "a[$(touch PWN)]", "y": "$(touch PWN)", "z": "-oPWN", "FILE": "-o PWN a.txt",
        "i": "`touch PWN`", "n": "a[`evil`]", "l": ">PWN", "w": "-exec evil ;", "q": "x'; evil; '",
        "v": "--output=PWN", "k": "a.txt", "e": "",
    }  # fmt: skip


def _check() -> None:
    program = next(iter(find_bwraps(os.environ.get("PATH", ""), "/nonexistent")), None)
    if program is None:
        raise Impossible("there is no bubblewrap")
    if not Path("/bin/bash").exists():
        raise Impossible("there is no /bin/bash")
    done = subprocess.run(
        [program, *_NAMESPACES, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "/bin/true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Impossible(f"no namespaces: {done.stderr.strip()}")


# No capabilities, as root too: what is mounted read-only stays so.
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"),
    *("--hostname", "chamber", "--die-with-parent", "--as-pid-1", "--clearenv"),
)


def _bwrap_arguments(tree: Tree) -> list[str]:
    program = next(iter(find_bwraps(os.environ.get("PATH", ""), "/nonexistent")), None)
    assert program is not None
    live, host, programs = str(tree.live), str(tree.host), str(tree.programs)
    arguments = [program, *_NAMESPACES, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    arguments += ["--remount-ro", "/proc"]  # the kernel's settings belong to root, who may have started this
    # What the tree's directory lies in may be /tmp: that is covered first, the tree put back on top of it.
    arguments += ["--size", "16000000", "--tmpfs", "/tmp"]
    for directory in ("/run", "/var/tmp"):
        if Path(directory).is_dir() and not Path(directory).is_symlink():
            arguments += ["--tmpfs", directory, "--remount-ro", directory]
    arguments += ["--bind", live, live, "--ro-bind", programs, programs, "--ro-bind", "/usr/bin", host]
    for directory in ("/usr/bin", "/bin"):
        if not Path(directory).is_symlink():
            arguments += ["--ro-bind", programs, directory]
    return [*arguments, "--chdir", str(tree.work), "--"]


def _worker_line(tree: Tree, seconds: float) -> list[str]:
    """The interpreter may lie in the directory that canaries cover; the worker lies where it is seen."""
    interpreter = Path(sys.executable).resolve()
    if str(interpreter.parent) in ("/usr/bin", "/bin"):
        interpreter = tree.host / interpreter.name
    setting = json.dumps({"live": str(tree.live), "seconds": seconds})
    return [str(interpreter), "-I", "-S", "-c", _WORKER.read_text(encoding="utf-8"), setting]
