"""`./dev fuzz`: run the fuzzer for long. Exits with 1 where a line that was judged read-only was not."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from .campaign import Campaign, Tally
from .chamber import Impossible, opened


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="how many lines to make (1,000,000)")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, help="the same lines again")
    parser.add_argument("--skip", default="", help="leave out lines that match, for example a failure known")
    options = parser.parse_args()
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="coder-fuzz-") as directory:
        try:
            with opened(Path(directory, "root")) as chamber:
                print(f"seed {seed}", flush=True)
                campaign = Campaign(chamber, seed, chamber.vocabulary(), options.skip)
                return _report(campaign.run(options.lines, options.seconds, _Progress()))
        except Impossible as problem:
            print(f"fuzz: lines cannot be run safely on this machine: {problem}", file=sys.stderr)
            return 2


class _Progress:
    """A line now and then, and every failure when it is found."""

    def __init__(self) -> None:
        self._begun = self._next = time.monotonic()
        self._told = 0

    def __call__(self, tally: Tally) -> None:
        for failure in tally.failures[self._told :]:
            print(f"FAILED {failure.shortest!r}\n  {failure.did}\n  in {failure.line!r}", flush=True)
        self._told = len(tally.failures)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 30
            print(f"{now - self._begun:.0f} s: {_figures(tally)}", flush=True)


def _figures(tally: Tally) -> str:
    return (
        f"{tally.made:,} lines, {tally.ran:,} judged read-only and run, {tally.late:,} given up, "
        f"{tally.unclear} unclear, {len(tally.failures)} failed"
    )


def _report(tally: Tally) -> int:
    print(_figures(tally))
    return 1 if tally.failures or tally.unclear else 0


if __name__ == "__main__":
    sys.exit(main())
