"""Measures search, its upkeep, and the page, over many and over large records: see LOOKBACK.md.

python bench/lookback.py make DIR [SESSIONS] [BYTES]    records of about BYTES in all
python bench/lookback.py search DIR                     index them, then search
python bench/lookback.py view DIR                       all of them as one record, in the page's server
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from coder.history.search.index import session_ended
from coder.history.search.projects import Project
from coder.history.search.query import search
from coder.history.sinks import encode
from coder.history.store import SessionStore
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Tokens
from coder.texts import Catalog
from coder.ui.browser.pages import PageApi

_SOURCE = Path(__file__).parents[1] / "src"
_CHINESE = "请修复登录页面的数据库连接并补充测试然后检查缓存与索引是否一致说明原因"


class _Writer:
    """Records with text of this project's own source, so that words are as frequent as in work on it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        files = [path.read_text(encoding="utf-8") for path in sorted(_SOURCE.rglob("*.py"))]
        self._lines = [line for text in files for line in text.split("\n")]
        self._words = sorted({word for text in files for word in text.split() if word.isalpha()})

    def text(self, size: int) -> str:
        """Consecutive lines of source with some made-up names, as a tool's output would have."""
        at = self._random.randrange(len(self._lines))
        taken: list[str] = []
        length = 0
        while length < size:
            line = self._lines[at % len(self._lines)]
            if self._random.random() < 0.1:
                line += f" # {self._random.choice(self._words)}{self._random.randrange(100_000)}"
            taken.append(line)
            length += len(line) + 1
            at += 1
        return "\n".join(taken)

    def session(self, name: str, size: int) -> Iterator[bytes]:
        turn, written = 0, 0
        while written < size:
            turn += 1
            for line in self.turn(name, turn, self._random.randrange(2_000, 12_000)):
                written += len(line)
                yield line

    def turn(self, name: str, turn: int, output: int) -> Iterator[bytes]:
        tokens = Tokens(prompt=9000 + turn, completion=300, total=9300 + turn, cached=8000)

        def line(entry: entries.Entry, content: str = "", step: int = 0) -> bytes:
            stamp = f"2026-03-{1 + turn % 28:02d}T{turn % 24:02d}:{step:02d}:00.000Z"
            kind = entries.NAMES[type(entry)]
            event = HistoryEvent(stamp, name, kind, turn, step, content, None, msgspec.to_builtins(entry))
            return encode(event) + b"\n"

        asked = " ".join(self._random.choices(self._words, k=12))
        if turn % 4 == 0:
            at = self._random.randrange(20)
            asked = _CHINESE[at : at + 14]
        yield line(
            entries.TurnStart(prompt_id=f"{name}-{turn}", tokens=entries.PromptTokens(prompt=20)), asked
        )
        for step in range(3):
            call = f"c{turn}-{step}"
            yield line(entries.Assistant(tokens=tokens, model="m", reasoning=self.text(400)), "", step)
            yield line(
                entries.Action(tool="bash", input={"command": f"cat {asked[:20]}"}, call_id=call), "", step
            )
            seen = entries.Observation(tool="bash", call_id=call, ok=True, denied=False, exit_code=0)
            yield line(seen, self.text(output), step)
        yield line(entries.Assistant(tokens=tokens, model="m"), self.text(800), 3)
        end = entries.TurnEnd(
            status="ok", step_count=4, duration_ms=9000, tokens=tokens, verification=entries.Verification()
        )
        yield line(end, "", 3)


def make(directory: Path, sessions: int, size: int) -> None:
    history = directory / "history"
    history.mkdir(parents=True)
    writer = _Writer(1)
    for at in range(sessions):
        name = f"20260301-{at:06d}-abcdef"
        path = history / f"{name}.jsonl"
        path.write_bytes(b"".join(writer.session(name, size // sessions)))
        os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))


def timed(what: str, run: Callable[[], object], times: int = 1) -> None:
    """CPU time too: on a busy machine the clock says how busy it is. Nothing here waits for an fsync."""
    took, cpu = [], []
    for _ in range(times):
        begun, used = time.perf_counter(), time.process_time()
        run()
        took.append((time.perf_counter() - begun) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    print(f"| {what} | {statistics.median(cpu):.1f} | {statistics.median(took):.1f} |", flush=True)


def measure_search(directory: Path) -> None:
    home, history = directory / "home", str(directory / "history")
    records = sorted((directory / "history").iterdir())
    print(f"{len(records)} records, {sum(path.stat().st_size for path in records) / 1e6:.0f} MB")
    timed("index all of it", lambda: search(home, [history], "nothing_of_the_kind"))
    print(f"index: {sum(path.stat().st_size for path in home.iterdir()) / 1e6:.0f} MB")
    for query in (
        "sandbox",
        "the",
        "resume session",
        "登录页面",
        "数据",
        "zebra",
        "sand",
        '"def run"',
        "con",
    ):
        timed(f"search {query}", partial(search, home, [history], query), 5)
    listed = SessionStore(directory, directory / "history")
    timed("list the newest 50", lambda: listed.infos(50), 5)
    project = Project(str(directory), history)
    added = []
    for at in range(20):
        name = f"20260401-{at:06d}-abcdef"
        path = Path(history, f"{name}.jsonl")
        path.write_bytes(b"".join(_Writer(at + 100).session(name, 100_000)))
        added.append((path, name))
    every = iter(added)
    timed("add a session of 100 kB at its end", lambda: session_ended(home, project, next(every)[1]), 20)
    for path, _ in added:
        path.unlink()
    timed("forget 20 deleted records, then search", lambda: search(home, [history], "zebra"))
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def measure_view(directory: Path) -> None:
    large = directory / "large"
    large.mkdir(exist_ok=True)
    with (large / "all.jsonl").open("wb") as file:
        for path in sorted((directory / "history").iterdir()):
            file.write(path.read_bytes())
    print(f"one record, {(large / 'all.jsonl').stat().st_size / 1e6:.0f} MB")
    answers = PageApi(directory / "home", [Project(str(directory), str(large))], Catalog("en"))
    for what, question in (("first page", "events"), ("outline", "outline")):
        for times in ("", " again"):
            timed(what + times, partial(answers.answer, question, {"s": "0/all"}))
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def main(words: list[str]) -> int:
    match words:
        case ["make", directory, *rest]:
            sessions, size = (int(word) for word in (*rest, *("10000", "1000000000")[len(rest) :]))
            make(Path(directory), sessions, size)
        case ["search", directory]:
            measure_search(Path(directory))
        case ["view", directory]:
            measure_view(Path(directory))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
