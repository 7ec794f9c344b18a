"""What a thousand custom modes cost: reading them, starting with them, the slash menu and each key in it.

    python bench/modes.py [--files N]      prints the figures and writes bench/MODES.md

The menu is measured in the real `coder` in a pseudo terminal: from the write of a key to the arrival of what
it changes on the screen.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coder.extend.modes.discover import Catalogue, ModeRoots
from coder.models.scripted import ScriptedServer
from terminal import Running, coder

REPORT = Path(__file__).with_name("MODES.md")
CODER = [sys.executable, "-m", "coder"]
ROUNDS = 20
Row = tuple[str, str]


def write_modes(directory: Path, count: int) -> None:
    """Half at the root, half in directories, with variables as real ones have."""
    for n in range(count):
        place = directory / ".coder" / "modes" / (f"team{n % 20}" if n % 2 else ".")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"mode{n:04}.md").write_text(
            f"---\nkind: {'persistent' if n % 3 else 'instant'}\ndescription: What mode {n} is for\n"
            f"display_name: Mode number {n}\nvariables:\n  - name: role\n    required: true\n"
            "    enum: [author, reviewer]\n  - name: region\n    default: emea\n"
            "  - name: ticket\n    shortcuts: ['-t', 'ticket=']\n---\n\n"
            + "Do as {{role}} in {{region}}.\n"
            * 20,
            encoding="utf-8",
        )


def spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms"


def timed(work: Callable[[], object], repeat: int) -> list[float]:
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - begun))
    return times


def discovery(directory: Path, count: int) -> Row:
    where = ModeRoots(cwd=directory, homes=[directory / ".home", directory / ".codex"])
    assert len(Catalogue(where).definitions) == count
    times = timed(lambda: Catalogue(where).definitions, 9)
    return f"finding and reading {count} files", spread(times)


def prompt(url: str, directory: Path) -> float:
    """From the start of the process to the prompt."""
    begun = time.monotonic()
    with coder(CODER, url, directory, settle=False):
        return 1000 * (time.monotonic() - begun)


def starts(url: str, empty: Path, full: Path, count: int) -> list[Row]:
    rows = []
    for name, directory in (("no modes", empty), (f"{count} modes", full)):
        prompt(url, directory)
        rows.append((f"start to prompt, {name}", spread([prompt(url, directory) for _ in range(9)])))
    return rows


def menu(url: str, directory: Path, count: int) -> list[Row]:
    name = f"mode{count - 2:04}"
    with coder(CODER, url, directory, settle=False) as it:
        it.type(f"/{name}")
        listed = 1000 * it.until("Mode number", 20)
        rows = [("prompt to the first menu that has them", f"{listed:.0f} ms")]
        it.quiet()
        opening, first_key, fuzzy = [], [], []
        before = it.cpu()
        for _ in range(ROUNDS):
            pressed(it, "\x15x", "x")
            pressed(it, "\x15y\x15", "")
            opening.append(pressed(it, "/", "/help"))
            first_key.append(pressed(it, "m", "m"))
            fuzzy += [pressed(it, letter, letter) for letter in f"d{name[-4:]}"]
        rows.append(("`/`: key to menu", spread(opening)))
        rows.append(("first letter: key to menu", spread(first_key)))
        rows.append(("each further fuzzy letter", spread(fuzzy)))
        keys = ROUNDS * 2 + len(opening) + len(first_key) + len(fuzzy)
        rows.append(("CPU time of a key in the menu", f"{1000 * (it.cpu() - before) / keys:.1f} ms"))
    return rows


def pressed(it: Running, key: str, wanted: str) -> float:
    """From the key to what it shows: echo and menu come in one write."""
    it.type(key)
    took = it.until(wanted, 5)
    it.quiet(0.05)
    return 1000 * took


def report(rows: list[Row], count: int) -> str:
    load = os.getloadavg()[0]
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}; load {load:.1f} while it ran."
    head = f"# {count} custom modes\n\n{machine}\n"
    table = "".join(f"| {what} | {figure} |\n" for what, figure in rows)
    return f"{head}\n| what | figure |\n| --- | --- |\n{table}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name, ScriptedServer([]) as server:
        empty, full = Path(name) / "empty", Path(name) / "full"
        empty.mkdir()
        write_modes(full, count)
        rows = [
            discovery(full, count),
            *starts(server.url, empty, full, count),
            *menu(server.url, full, count),
        ]
    text = report(rows, count)
    print(text)
    REPORT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
