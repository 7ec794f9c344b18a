"""A Ray cluster of several nodes on this machine: on the loopback, small, ended by its own processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from batch.batch_kit import Batch, wait_for
from kit.driving import processes

# `ray start`, which gives a node 30 s to be known; on a busy machine that takes longer.
_START = """\
import time
from ray._private import services
from ray.scripts.scripts import main

get_node, until = services.get_node, time.monotonic() + 120

def patiently(*words):
    while True:
        try:
            return get_node(*words)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)

services.get_node = patiently
main()
"""
_RAY = [sys.executable, "-c", _START, "start", "--block", "--disable-usage-stats"]
_SMALL = ["--node-ip-address", "127.0.0.1", "--object-store-memory", "80000000", "--memory", "8000000000"]
_AGENTS = (
    *("--dashboard-agent-listen-port", "--dashboard-agent-grpc-port"),
    *("--runtime-env-agent-port", "--metrics-export-port"),
)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Cluster:
    """The head has two cores, every further node two. `temp` is the nodes' temporary directory, which is not
    the driver's: what an attempt needs comes through Ray, or not at all."""

    def __init__(self) -> None:
        own = Path(tempfile.gettempdir())
        self.session = own / "r"  # short: it has sockets in it, whose paths may have 107 bytes
        self.temp = own / "nodes"
        self.temp.mkdir(exist_ok=True)
        port, client = free_ports(2)
        self.address, self.client = f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}"
        head = ["--head", "--port", str(port), "--ray-client-server-port", str(client)]
        head += ["--temp-dir", str(self.session), "--include-dashboard", "false"]
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._log = own / "node.log"
        try:
            self._start(head)
        except BaseException:
            self.close()
            raise

    def add_node(self) -> subprocess.Popen[bytes]:
        return self._start(["--address", self.address])

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        for _ in range(4):
            if node := self._tried(words):
                self.nodes.append(node)
                return node
        raise AssertionError(self._log.read_text(encoding="utf-8", errors="replace"))

    def _tried(self, words: list[str]) -> subprocess.Popen[bytes] | None:
        """None where it ended by itself, as a node does at times on a busy machine. Its agents are given
        their ports: it waits 15 s to be told those that they choose, and aborts."""
        ports = ["--min-worker-port", "0", "--max-worker-port", "0"]
        for name, port in zip(_AGENTS, free_ports(len(_AGENTS)), strict=True):
            ports += [name, str(port)]
        with self._log.open("wb") as output:
            node = subprocess.Popen(
                [*_RAY, *words, *_SMALL, *ports, "--num-cpus", "2"],
                env={
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "HOME": str(self.temp),
                    "TMPDIR": str(self.temp),
                    "RAY_enable_worker_prestart": "0",
                    "RAY_agent_register_timeout_ms": "240000",
                    # gRPC's handlers of fork abort the server that the head starts for a client at times.
                    "GRPC_ENABLE_FORK_SUPPORT": "0",
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(lambda: node.poll() is not None or self._is_up(), 180)
        return node if node.poll() is None else None

    def _is_up(self) -> bool:
        return "will now block forever" in self._log.read_text(encoding="utf-8", errors="replace")

    def kill_node(self, node: subprocess.Popen[bytes]) -> None:
        """As a machine that loses its power: every process of the node at once, those of tasks excepted,
        which a test then sees end by themselves."""
        for pid in _descendants(node.pid):
            with contextlib.suppress(OSError):
                if b"coder-batch-of-" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        node.kill()
        node.wait()
        self.nodes.remove(node)

    def close(self) -> None:
        for node in reversed(self.nodes):
            children = _descendants(node.pid)
            node.terminate()
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for path in (self.session, self.temp):
            shutil.rmtree(path, ignore_errors=True)
        self._log.unlink()

    # what runs and what is left on the nodes

    def nurseries(self) -> dict[int, int]:
        """Those of this cluster's nodes, with the Ray worker that each belongs to."""
        found = {}
        for pid, words in self._supervised().items():
            worker = next(word for word in words if word.startswith(b"coder-batch-of-"))
            if parent_of(pid) == int(worker.rpartition(b"-")[2]):
                found[pid] = parent_of(pid)
        return found

    def hubs(self) -> list[int]:
        """Processes of actors, by the title that Ray gives them."""
        found = []
        for pid in (pid for node in self.nodes for pid in _descendants(node.pid)):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Hub"):
                    found.append(pid)
        return found

    def task_processes(self) -> list[int]:
        nurseries = self.nurseries()
        return [pid for pid in self._supervised() if parent_of(pid) in nurseries]

    def _supervised(self) -> dict[int, list[bytes]]:
        mine = os.fsencode(self.temp)
        found = {}
        for pid in processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(word.startswith(mine) for word in words) and any(
                    word.startswith(b"coder-batch-of-") for word in words
                ):
                    found[pid] = words
        return found

    def nothing_left(self) -> None:
        """No task process, no work directory, no mirror and no lock, on any node."""
        wait_for(lambda: not self._supervised())
        private = self.temp / f"coder-{os.getuid()}"
        wait_for(lambda: not private.exists() or not list(private.glob("batch-*")))


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return 0


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for one in processes():
        children.setdefault(parent_of(one), []).append(one)
    found, at = [pid], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found[1:]


def ray_batch(batch: Batch, cluster: Cluster, url: str, *words: str, **more: Any) -> Any:
    """To its end; nothing may be left of it, here or on the nodes."""
    done = batch.run(url, "--engine", "ray", "--address", cluster.address, *words, **more)
    cluster.nothing_left()
    return done
