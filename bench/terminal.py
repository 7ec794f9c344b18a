"""What the interactive terminal costs: a long answer, a key, an Esc, doing nothing, and memory.

    python bench/terminal.py [--idle SECONDS]

Runs the real `coder` in a pseudo terminal against the scripted model on the loopback. Times of keys are from
the write of the key to the arrival of its echo, so they include the terminal's own side.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coder.model.scripted import ScriptedServer

_TICKS = os.sysconf("SC_CLK_TCK")


class Running:
    """`coder` in a pseudo terminal that only counts and remembers what is written last."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid, self.fd = pid, fd
        self.bytes = 0
        self.writes = 0
        self.tail = b""
        self.typed_at = time.monotonic()

    def pump(self, seconds: float) -> bool:
        """Take in what comes within so long. True where something came."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        data = os.read(self.fd, 1 << 16)
        self.bytes += len(data)
        self.writes += 1
        self.tail = (self.tail + data)[-20_000:]
        return True

    def until(self, text: str, seconds: float = 120.0) -> float:
        """Wait until it is written; how long that took since the last key.

        Counted from before the key was written: on a busy machine the echo may be there before we go on.
        """
        begun = self.typed_at
        wanted = text.encode("utf-8")
        while wanted not in self.tail:
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{text!r} never came: {self.tail[-500:]!r}")
            self.pump(0.5)
        return time.monotonic() - begun

    def quiet(self, seconds: float = 0.3) -> None:
        while self.pump(seconds):
            pass

    def type(self, text: str) -> None:
        self.tail = b""
        self.typed_at = time.monotonic()
        os.write(self.fd, text.encode("utf-8"))

    def send(self, text: str) -> None:
        self.type(text)
        self.quiet(0.1)
        self.type("\r")

    def cpu(self) -> float:
        """Seconds of user and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def key_ms(self, count: int = 30) -> tuple[float, float]:
        """From a key to its echo: median and worst."""
        times = []
        for at in range(count):
            letter = "qwertyuiop"[at % 10]
            self.quiet(0.02)
            self.type(letter)
            times.append(1000 * self.until(letter, 5))
        self.type("\x15")
        self.quiet()
        return statistics.median(times), max(times)


@contextmanager
def coder(url: str, folder: Path) -> Iterator[Running]:
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environ = {
            "HOME": str(folder),
            "CODER_HOME": str(folder / ".home"),
            "CODER_BASE_URL": url,
            "CODER_MODEL": "scripted",
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
        }
        os.execve(sys.executable, [sys.executable, "-m", "coder"], environ)  # noqa: S606 - what is measured
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    running = Running(pid, fd)
    try:
        running.until("[default]")
        running.quiet()
        yield running
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def markdown(size: int) -> str:
    """An answer as models write them: prose, lists, code, a table, some Chinese."""
    parts: list[str] = []
    at = 0
    while sum(map(len, parts)) < size:
        at += 1
        words = " ".join(f"word{at}x{n}" for n in range(60))
        parts += [f"## Part {at}\n\n{words} and **bold {at}** with `code{at}`.\n\n"]
        parts += ["".join(f"- item {at}.{n} with a few words more\n" for n in range(6)) + "\n"]
        parts += [
            "```python\n" + "".join(f"def f{at}_{n}(a: int) -> str:\n    return 'x{n}'\n" for n in range(8))
        ]
        parts += ["```\n\n", f"第 {at} 节的中文说明，检查换行。" * 4, "\n\n"]
        parts += ["| a | b |\n|---|---|\n" + "".join(f"| {n} | cell {at}.{n} |\n" for n in range(5)) + "\n"]
    return "".join(parts)[:size] + "\n\nENDOFANSWER"


def long_answer(folder: Path) -> None:
    for size, delay in ((20_000, 0.0005), (200_000, 0.0), (200_000, 0.0005)):
        answer = markdown(size)
        with (
            ScriptedServer([{"text": answer, "chunk": 16, "delay": delay}]) as server,
            coder(server.url, folder) as it,
        ):
            before, written, writes = it.cpu(), it.bytes, it.writes
            it.send("go")
            took = it.until("ENDOFANSWER")
            it.quiet()
            pace = "streamed" if delay else "all at once"
            print(
                f"answer of {size // 1000} KB, {pace}: {it.cpu() - before:.2f} CPU s, {took:.1f} s, "
                f"{(it.bytes - written) / len(answer.encode()):.2f} bytes written a byte of answer, "
                f"{it.writes - writes} reads, peak {it.peak_mb():.0f} MB"
            )


def keys(folder: Path) -> None:
    for events in (10, 1_000, 10_000):
        text = "".join(f"line {n} of it\n\n" for n in range(events))
        script = [{"text": f"{text}\n\nENDOFANSWER", "chunk": 16}]
        with ScriptedServer(script) as server, coder(server.url, folder) as it:
            it.send("go")
            it.until("ENDOFANSWER")
            it.quiet()
            median, worst = it.key_ms()
            print(
                f"key to screen with {events} events behind: median {median:.1f} ms, worst {worst:.1f} ms",
                end="",
            )
            print(f"; peak {it.peak_mb():.0f} MB")


def keys_while_streaming(folder: Path) -> None:
    script = [{"text": markdown(400_000), "chunk": 16, "delay": 0.0005}]
    with ScriptedServer(script) as server, coder(server.url, folder) as it:
        it.send("go")
        it.until("Part 5")
        times = []
        for at in range(20):
            mark = "ABCDEFGHIJKLMNOPQRST"[at] * 3  # no column as before: only what changed is written
            it.type(f"\x15{mark}")
            times.append(1000 * it.until(mark, 5))
            until = time.monotonic() + 0.07
            while time.monotonic() < until:
                it.pump(0.01)
        median, worst = statistics.median(times), max(times)
        print(f"key to screen while streaming: median {median:.1f} ms, worst {worst:.1f} ms")


def escape(folder: Path) -> None:
    times = []
    for _ in range(5):
        script = [{"text": " ".join(f"word{n}" for n in range(5000)), "delay": 0.002}]
        with ScriptedServer(script) as server, coder(server.url, folder) as it:
            it.send("go")
            it.until("word40")
            it.type("\x1b")
            times.append(1000 * it.until("Cancelled", 5))
    print(f"Esc to the line that says what was stopped: median {statistics.median(times):.0f} ms, ", end="")
    print(f"worst {max(times):.0f} ms")


def idle(folder: Path, seconds: float) -> None:
    with ScriptedServer([{"text": "hello"}]) as server, coder(server.url, folder) as it:
        it.send("go")
        it.until("hello")
        it.quiet(1)
        before, written = it.cpu(), it.bytes
        time.sleep(seconds)
        it.quiet(0.1)
        print(f"idle for {seconds:.0f} s: {it.cpu() - before:.2f} CPU s, {it.bytes - written} bytes written")


def files(folder: Path, count: int = 100_000) -> None:
    place = folder / "many"
    for group in range(count // 1000):
        below = place / f"folder{group:03}"
        below.mkdir(parents=True)
        for name in range(1000):
            (below / f"file{name:04}.txt").touch()
    with ScriptedServer([]) as server, coder(server.url, place) as it:
        it.type("@")
        first = 1000 * it.until("folder", 10)
        it.quiet(1)
        it.type("f042/f0137")
        fuzzy = 1000 * it.until("folder042/file0137.txt", 10)
        print(f"@ in {count} files: first results after {first:.0f} ms, ten fuzzy keys after {fuzzy:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=float, default=30.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        long_answer(folder)
        keys(folder)
        keys_while_streaming(folder)
        escape(folder)
        idle(folder, chosen.idle)
        files(folder)


if __name__ == "__main__":
    main()
