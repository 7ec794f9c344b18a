"""Fetches the model of `--model local` while a person watches: what it is, its licence, and how far it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from coder.model.local.fetch import NotFetched, Weights, fetch
from coder.terminal.render.sanitize import safe
from coder.texts import Texts

_MB = 1_000_000


def about(weights: Weights, texts: Texts) -> str:
    return texts.say(
        "local.about",
        name=weights.name,
        size=str(weights.size // _MB),
        n=len(weights.hashes),
        licence=weights.licence,
        url=weights.licence_url,
    )


def fetch_shown(weights: Weights, home: Path, texts: Texts) -> bool:
    """Progress and what went wrong go to stderr; whether the model is there now."""
    shown = _Progress(weights, texts)
    try:
        asyncio.run(fetch(weights, home, shown.told))
    except NotFetched as error:
        shown.end()
        print(safe(error.text(texts)), file=sys.stderr)
        return False
    shown.end()
    return True


class _Progress:
    """One line that is rewritten on a terminal; elsewhere a line for each part."""

    def __init__(self, weights: Weights, texts: Texts) -> None:
        self._weights, self._texts = weights, texts
        self._live = sys.stderr.isatty()
        self._last = ""

    def told(self, done: int) -> None:
        size, part = self._weights.size, self._weights.part_size
        if not self._live and done % part and done != size:
            return
        text = self._texts.say(
            "local.progress", share=str(100 * done // size), done=str(done // _MB), size=str(size // _MB)
        )
        if text != self._last:
            self._last = text
            print(
                f"\r{text}" if self._live else text,
                end="" if self._live else "\n",
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> None:
        if self._live and self._last:
            print(file=sys.stderr)
