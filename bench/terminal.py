"""What the interactive terminal costs: a long answer, a key, an Esc, doing nothing, and memory.

    python bench/terminal.py [--quick]
    python bench/terminal.py --against SRC      an earlier `src`, in turns with this one: ratios

Runs the real `coder`, installed from a wheel and compiled, in a pseudo terminal against the scripted model on
the loopback, and writes bench/TERMINAL.md. Times of keys are from the write of the key to the arrival of its
echo, so they include the terminal's own side.
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

from coder.models.scripted import ScriptedServer
from place import CHECKOUT, Installed, compiled
from run import table

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
def coder(argv: list[str], url: str, directory: Path, *, settle: bool = True) -> Iterator[Running]:
    """At its prompt; with `settle`, once nothing more is drawn."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(directory)
        environ = {
            "HOME": str(directory),
            "CODER_HOME": str(directory / ".home"),
            "CODER_BASE_URL": url,
            "CODER_MODEL": "scripted",
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
        }
        os.execve(argv[0], argv, environ)  # noqa: S606 - what is measured
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    running = Running(pid, fd)
    try:
        running.until("[default]")
        if settle:
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


LINES = 100_000  # characters of one block


def kinds() -> dict[str, tuple[str, float]]:
    """Answers, each with the pause before every chunk of 16 characters."""
    code = "".join(f"def f{n}(a: int) -> str:\n    return 'x{n}'\n" for n in range(2300))
    prose = " ".join(f"word{n}" for n in range(11_000))
    rows = "".join(f"| {n} | cell {n} and more words |\n" for n in range(3000))
    end = "\n\nENDOFANSWER"
    return {
        "200 KB of markdown, streamed": (markdown(200_000), 0.0005),
        "200 KB of markdown, all at once": (markdown(200_000), 0.0),
        "20 KB of markdown, streamed": (markdown(20_000), 0.0005),
        "one code block of 100 KB": (f"```python\n{code[:LINES]}\n```{end}", 0.0005),
        "one paragraph of 100 KB": (prose[:LINES] + end, 0.0005),
        "one table of 3,000 rows": (f"| a | b |\n|---|---|\n{rows}{end}", 0.0005),
    }


def long_answers(argv: list[str], directory: Path) -> list[str]:
    rows = []
    for name, (answer, delay) in kinds().items():
        size = len(answer.encode())
        with (
            ScriptedServer([{"text": answer, "chunk": 16, "delay": delay}]) as server,
            coder(argv, server.url, directory) as it,
        ):
            before, written = it.cpu(), it.bytes
            it.send("go")
            took = it.until("ENDOFANSWER")
            it.quiet()
            cpu = it.cpu() - before
            row = [name, f"{cpu:.2f}", f"{took:.1f}", f"{1e6 * cpu / size:.1f}"]
            rows.append([*row, f"{(it.bytes - written) / size:.2f}", f"{it.peak_mb():.0f}"])
    head = ["answer", "CPU s", "s", "µs of CPU a byte", "bytes written a byte", "peak RSS, MB"]
    return table(head, rows)


def keys(argv: list[str], directory: Path) -> list[str]:
    rows, base = [], 0.0
    for events in (10, 1_000, 10_000):
        text = "".join(f"line {n} of it\n\n" for n in range(events))
        script = [{"text": f"{text}\n\nENDOFANSWER", "chunk": 16}]
        with ScriptedServer(script) as server, coder(argv, server.url, directory) as it:
            it.send("go")
            it.until("ENDOFANSWER")
            it.quiet()
            it.key_ms(10)  # the first ones find cold code
            median, worst = it.key_ms()
            base = base or median
            row = [f"{events:,}", f"{median:.1f}", f"{worst:.1f}", f"{median / base:.2f} ×"]
            rows.append([*row, f"{it.peak_mb():.0f}"])
    return table(["events behind it", "ms, median", "ms, worst", "against the first", "peak RSS, MB"], rows)


def keys_while_streaming(argv: list[str], directory: Path) -> list[str]:
    script = [{"text": markdown(400_000), "chunk": 16, "delay": 0.0005}]
    with ScriptedServer(script) as server, coder(argv, server.url, directory) as it:
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
    return ["a key, while an answer streams", f"{statistics.median(times):.1f}", f"{max(times):.1f}"]


def escape(argv: list[str], directory: Path) -> list[str]:
    times = []
    for _ in range(5):
        script = [{"text": " ".join(f"word{n}" for n in range(5000)), "delay": 0.002}]
        with ScriptedServer(script) as server, coder(argv, server.url, directory) as it:
            it.send("go")
            it.until("word40")
            it.type("\x1b")
            times.append(1000 * it.until("Cancelled", 5))
    return [
        "Esc, to what was stopped",
        f"{statistics.median(times):.0f}",
        f"{max(times):.0f}",
    ]


def idle(argv: list[str], directory: Path, seconds: float) -> list[str]:
    with ScriptedServer([{"text": "hello"}]) as server, coder(argv, server.url, directory) as it:
        it.send("go")
        it.until("hello")
        it.quiet(1)
        before, written = it.cpu(), it.bytes
        time.sleep(seconds)
        it.quiet(0.1)
        ticks = round((it.cpu() - before) * _TICKS)
        return table(
            ["seconds", f"CPU ticks of {1000 // _TICKS} ms", "bytes written"],
            [[f"{seconds:.0f}", str(ticks), str(it.bytes - written)]],
        )


def files(argv: list[str], directory: Path, count: int = 100_000) -> list[str]:
    place = directory / "many"
    for group in range(count // 1000):
        below = place / f"folder{group:03}"
        below.mkdir(parents=True)
        for name in range(1000):
            (below / f"file{name:04}.txt").touch()
    with ScriptedServer([]) as server, coder(argv, server.url, place) as it:
        it.type("@")
        first = 1000 * it.until("folder", 10)
        it.quiet(1)
        it.type("f042/f0137")
        fuzzy = 1000 * it.until("folder042/file0137.txt", 10)
    head = ["`@` among files", "first entries, ms", "ten fuzzy keys, ms"]
    return table(head, [[f"{count:,}", f"{first:.0f}", f"{fuzzy:.0f}"]])


def against(earlier: Path, directory: Path, rounds: int = 15) -> list[str]:
    """An earlier source tree and this one, in turns: on a shared machine only ratios mean something."""
    trees = {
        "before": compiled(str(earlier), directory / "before"),
        "now": compiled(str(CHECKOUT / "src"), directory / "now"),
    }
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        for name in list(trees)[:: 1 if number % 2 else -1]:
            run = (
                "import runpy, sys; sys.path.insert(0, {!r}); runpy.run_module('coder', run_name='__main__')"
            )
            place = directory / f"{name}{number}"
            place.mkdir()
            argv = [sys.executable, "-c", run.format(str(trees[name]))]
            for what, value in _figures(argv, place, rest=number < 3).items():
                found.setdefault(what, {}).setdefault(name, []).append(value)
    rows = []
    for what, figures in found.items():
        before, now = (statistics.median(figures[name]) for name in ("before", "now"))
        ratio = f"{now / before:.2f} ×" if before else "–"
        rows.append([what, f"{before:.1f}", f"{now:.1f}", ratio])
    return table(["median", "before", "now", "ratio"], rows)


def _figures(argv: list[str], directory: Path, *, rest: bool) -> dict[str, float]:
    """`rest`: what it does for nothing, too."""
    begun = time.monotonic()
    with (
        ScriptedServer([{"text": markdown(200_000), "chunk": 16}]) as server,
        coder(argv, server.url, directory, settle=False) as it,
    ):
        figures = {"prompt, ms": 1000 * (time.monotonic() - begun), "prompt, ms of CPU": 1000 * it.cpu()}
        it.quiet()
        cpu, written = it.cpu(), it.bytes
        it.send("go")
        figures["200 KB shown, ms"] = 1000 * it.until("ENDOFANSWER")
        it.quiet()
        figures["200 KB shown, ms of CPU"] = 1000 * (it.cpu() - cpu)
        figures["200 KB shown, KB written"] = (it.bytes - written) / 1000
        it.key_ms(10)
        cpu = it.cpu()
        figures["key, ms"] = statistics.median(it.key_ms(40)[0] for _ in range(5))
        figures["key, ms of CPU"] = 1000 * (it.cpu() - cpu) / 200
        if not rest:
            return figures
        it.quiet(1)
        cpu, written = it.cpu(), it.bytes
        time.sleep(5)
        it.quiet(0.1)
        return {
            **figures,
            "5 s idle, ms of CPU": 1000 * (it.cpu() - cpu),
            "5 s idle, bytes": it.bytes - written,
        }


AGAINST = """
## Against an earlier state

Written by `./dev bench terminal --against SRC`: both states in turns, the medians of fifteen rounds (of three
for doing nothing).
"""

HEADING = """\
# What the terminal costs

Written by `./dev bench terminal`: the real program, installed from a wheel and compiled, in a pseudo terminal
of 80 columns and 24 rows; the model is a script on the loopback that sends 16 characters at a time.

Machine: {cores} cores, Linux, {python}. It is shared with other work, so times scatter; CPU time does less.

## A long answer

CPU time of the whole process, HTTP and JSON included, from Enter to the prompt.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short idle time, no folder of 100,000 files")
    parser.add_argument("--against", type=Path, metavar="SRC", help="an earlier src to compare with")
    chosen = parser.parse_args()
    page = CHECKOUT / "bench" / "TERMINAL.md"
    known, mark, compared = page.read_text(encoding="utf-8").partition(AGAINST)
    if chosen.against:
        with tempfile.TemporaryDirectory(prefix="coder-bench-") as name:
            lines = against(chosen.against, Path(name))
        page.write_text(known + AGAINST + "\n".join(["", *lines]).rstrip("\n") + "\n", encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(prefix="coder-bench-") as name:
        directory = Path(name)
        installed = Installed(directory)
        argv = [installed.coder]
        lines = [HEADING.format(cores=os.cpu_count(), python=installed.python_version())]
        lines += long_answers(argv, directory)
        lines += ["## A key\n\nFrom the key to its echo.\n", *keys(argv, directory)]
        live = [keys_while_streaming(argv, directory), escape(argv, directory)]
        lines += table(["while a turn runs", "ms, median", "ms, worst"], live)
        lines += ["## Doing nothing\n", *idle(argv, directory, 5 if chosen.quick else 30)]
        if not chosen.quick:
            lines += ["## Files\n", *files(argv, directory)]
    text = "\n".join(lines).rstrip("\n") + "\n"
    print(text)
    if not chosen.quick:
        page.write_text(text + mark + compared, encoding="utf-8")


if __name__ == "__main__":
    main()
