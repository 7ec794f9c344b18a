"""The child process that serves a GGUF file: started by the first request, ended with the session."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from coder import LOCAL_MODEL, LOCAL_PREFIX, LOCAL_WINDOW, ModelError, Progress, install_line
from coder.base.process.child import STDOUT, Child
from coder.base.process.programs import Runs, own_environment
from coder.texts import Text

_SERVE = Path(__file__).with_name("serve.py")
_LOOK_SECONDS = 0.2  # between two looks at how much is loaded
_LOAD_SECONDS = 300.0
# Of llama.cpp's back ends, and of the interpreter that finds it.
_ACCELERATION = ("CUDA_", "NVIDIA_", "GGML_", "LLAMA_", "HIP_", "ROCR_", "HSA_", "VK_", "OMP_", "PYTHON")
_KEPT = 4_096  # bytes of its log, for an error


class LocalServer:
    """`url` and `key` are set once it is `ready`."""

    def __init__(self, gguf: Path) -> None:
        self.gguf = gguf
        self.url = ""
        self.key = ""
        self._child: Child | None = None
        self._starting = asyncio.Lock()
        self._told = bytearray()
        self._log = bytearray()
        self._heard = asyncio.Event()

    @property
    def runs(self) -> bool:
        return bool(self.url) and self._child is not None and not self._child.exited.is_set()

    @property
    def pid(self) -> int:
        """0 where none runs."""
        return self._child.pid if self._child is not None else 0

    async def ready(self, model: str) -> AsyncGenerator[Progress, None]:
        """Start it unless it runs; yields how much of the model is loaded. Raises `ModelError`."""
        async with self._starting:
            if self.runs:
                return
            await self.end()
            check_file(model, self.gguf)
            self._start()
            try:
                async for progress in self._loading():
                    yield progress
            except BaseException:
                await self.end()
                raise

    async def end(self) -> None:
        child, self._child, self.url = self._child, None, ""
        if child is not None:
            child.end()

    def _start(self) -> None:
        self._told.clear()
        self._log.clear()
        self._heard.clear()
        self.key = os.urandom(16).hex()
        self._child = Child(
            [sys.executable, "-P", str(_SERVE)],
            cwd=Path("/"),
            environment=own_environment(also=_ACCELERATION),
            runs=Runs.AS_CODER,
            sink=self._sink,
            with_stdin=True,
        )
        given = {
            "gguf": str(self.gguf),
            "key": self.key,
            "window": LOCAL_WINDOW,
            "threads": threads(),
            "parent": os.getpid(),
        }
        os.write(self._child.stdin, msgspec.json.encode(given) + b"\n")

    def _sink(self, stream: int, data: bytes) -> None:
        if stream == STDOUT:
            self._told += data
            if not data or b"\n" in data:
                self._heard.set()
        else:
            self._log += data
            del self._log[:-_KEPT]

    async def _loading(self) -> AsyncGenerator[Progress, None]:
        assert self._child is not None
        size = self.gguf.stat().st_size
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                while not self._heard.is_set():
                    yield Progress("loading", min(0.99, resident(self._child.pid) / max(size, 1)))
                    try:
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await self._heard.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            raise ModelError(
                Text("fault.local_late", file=str(self.gguf), seconds=f"{_LOAD_SECONDS:.0f}"),
                kind="unreachable",
            ) from None
        self._read_answer()

    def _read_answer(self) -> None:
        try:
            told = msgspec.json.decode(bytes(self._told) or b"{}", type=dict[str, str])
        except msgspec.DecodeError:
            told = {}
        if told.get("fault") == "missing":
            raise ModelError(Text("fault.local_missing", line=install_line("local")), kind="unreachable")
        self.url = told.get("url", "")
        if not self.url:
            last = self._log.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
            why = (told.get("why") or last or "?")[:300]
            raise ModelError(Text("fault.local_failed", file=str(self.gguf), why=why), kind="unreachable")


def check_file(model: str, gguf: Path) -> None:
    """Raises `ModelError` where this is no file that could be served."""
    try:
        with gguf.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        key = "fault.local_unfetched" if model in (LOCAL_MODEL, LOCAL_PREFIX) else "fault.local_no_file"
        raise ModelError(Text(key, file=str(gguf)), kind="unreachable") from None
    except OSError as error:
        raise ModelError(
            Text("fault.local_failed", file=str(gguf), why=error.strerror or ""), kind="unreachable"
        ) from None
    if magic != b"GGUF":
        raise ModelError(Text("fault.local_no_gguf", file=str(gguf)), kind="unreachable")


def threads() -> int:
    """All cores of a small machine; of a larger one half, which are the real ones where there are twins."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores <= 4 else cores // 2


def resident(pid: int) -> int:
    """Bytes of a process that are in memory; 0 where the system does not say. The file is mapped, so that
    they tell how much of it is loaded."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
