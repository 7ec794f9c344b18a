"""What `@` costs in a directory of 100,000 files: from a key to its results on the screen.

Run `python bench/completion.py [--files N] [--runs N]`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coder.models.scripted import ScriptedServer
from terminal import Running, coder

NAMES = ("alpha", "report", "index", "parser", "widget", "schema", "session", "handler", "météo", "数据")


def plant(place: Path, count: int) -> None:
    """As projects have them: directories in directories, and a heap of files that are ignored."""
    place.mkdir(parents=True)
    (place / ".gitignore").write_text("ignored/\n", encoding="utf-8")
    for group in range(count // 100):
        below = place / f"package{group % 40:02}" / f"folder{group:04}"
        below.mkdir(parents=True)
        for number in range(100):
            (below / f"{NAMES[number % 10]}_{number:03}.py").touch()
    ignored = place / "ignored"
    ignored.mkdir()
    for number in range(1000):
        (ignored / f"alpha_{number}.py").touch()


@contextmanager
def session(place: Path) -> Iterator[Running]:
    with ScriptedServer([]) as server, coder([sys.executable, "-m", "coder"], server.url, place) as it:
        yield it


def first_results(place: Path, runs: int) -> list[float]:
    """From `@` in a session that has just begun to the first entries."""
    times = []
    for _ in range(runs):
        with session(place) as it:
            it.type("@")
            times.append(1000 * it.until(".py", 20))
    return times


def first_search(place: Path, runs: int) -> list[float]:
    """All of a query at once, before anything is listed: to the very file."""
    times = []
    for _ in range(runs):
        with session(place) as it:
            it.type("@folder0777/handler_027")
            times.append(1000 * it.until("folder0777/handler_027.py", 20))
    return times


def each_key(place: Path) -> list[float]:
    """Once all is listed: each key of a query, from the key to its echo with the results below it."""
    times = []
    with session(place) as it:
        it.type("@")
        it.until(".py", 20)
        it.quiet(2)
        for query in ("f0777/han", "schema_05", "pkg12wid", "zzzzzz", "数据_009"):
            for letter in query:
                it.type(letter)
                times.append(1000 * it.until(letter, 5))
                it.quiet(0.1)
            it.type("\x15@")
            it.quiet(0.3)
    return times


def show(what: str, times: list[float]) -> None:
    print(f"{what}: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "many"
        plant(place, chosen.files)
        print(f"@ in {chosen.files} files")
        show("first results", first_results(place, chosen.runs))
        show("a whole query before anything is listed", first_search(place, chosen.runs))
        show("each key once they are listed", each_key(place))


if __name__ == "__main__":
    main()
