"""What a batch shows: a table that is redrawn on a terminal, a line for each finished task elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from coder import clip, clip_left, columns, flat, plain, redirect_stdout_to_devnull, show, text_width
from coder.addons.batch.results import Progress, Row, Status
from coder.base.text import shortened
from coder.texts import Catalog

_MOST_ROWS = 12
_BETWEEN = " · "


class Display:
    """`show` is called with rows that are new, and about once a second without."""

    def __init__(self, directory: Path, texts: Catalog) -> None:
        self._directory = directory
        self._texts = texts
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0  # lines of the table on the screen

    def show(self, progress: Progress, rows: list[Row]) -> None:
        try:
            self._show(progress, rows)
        except OSError:  # nobody reads on, the terminal is gone, the disk is full: the results are in files
            self._live = False
            redirect_stdout_to_devnull()

    def _show(self, progress: Progress, rows: list[Row]) -> None:
        lines = [row_line(progress, row, self._texts) for row in rows]
        if not self._live:
            if lines:
                show("\n".join(lines))
            return
        failed = [line for line, row in zip(lines, rows, strict=True) if not row.success]
        table = [] if progress.ended else self._table(progress)
        # From the first column: a Ctrl+C is echoed where the cursor is.
        # Drawn over, not erased before: terminals keep in their scrollback what is erased from the top on.
        back = f"\r\x1b[{self._drawn}A" if self._drawn else ""
        sys.stdout.write(back + "".join(f"{line}\x1b[K\n" for line in [*failed, *table]) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(table)

    def finish(self, progress: Progress) -> None:
        say = self._texts.say
        told = summary(progress, self._texts)
        lines = _packed(told, _width()) if self._live else [told]
        if progress.stopped:
            lines.append(say(f"batch.stopped.{progress.stopped}"))
        if missing := progress.total - progress.done:
            lines.append(say("batch.go_on", n=missing))
        lines.append(say("batch.written", directory=self._directory))
        if progress.succeeded:
            lines.append(say("batch.apply", directory=self._directory))
        try:
            show("\n".join(lines))
        except OSError:
            redirect_stdout_to_devnull()

    def _table(self, progress: Progress) -> list[str]:
        size = shutil.get_terminal_size()
        width = _width()
        head = _packed(summary(progress, self._texts), width)
        # What is higher than the screen cannot be drawn over: it would pile up above.
        rows = running_lines(progress, self._texts, size.lines - len(head) - 2, width)
        return [plain(clip([("", line)], width)) for line in [*head, *rows]][: max(1, size.lines - 1)]


def _width() -> int:
    return max(10, shutil.get_terminal_size().columns - 1)


def status_lines(status: Status, directory: Path, texts: Catalog) -> list[str]:
    progress = status.progress
    lines = [summary(progress, texts)]
    if status.alive:
        lines += running_lines(progress, texts)
    elif progress.ended:
        lines.append(texts.say("batch.ended"))
        if progress.stopped:
            lines.append(texts.say(f"batch.stopped.{progress.stopped}"))
        if missing := progress.total - progress.done:
            lines.append(texts.say("batch.go_on", n=missing))
    else:
        lines.append(texts.say("batch.died", directory=directory))
    return lines


def summary(progress: Progress, texts: Catalog) -> str:
    say = texts.say
    parts = [
        say("batch.counts", done=progress.done, total=progress.total),
        say("batch.well", n=progress.succeeded),
        say("batch.badly", n=progress.failed),
        say("batch.tokens", n=_short(progress.tokens), rate=_short(progress.tokens_per_second)),
    ]
    if progress.running:
        parts.insert(1, say("batch.running", n=len(progress.running)))
    if progress.waiting:
        parts.insert(1, say("batch.waiting", n=progress.waiting))
    if progress.cost:
        parts.append(f"${progress.cost:.4f}")
    parts.append(_duration(progress.elapsed))
    if progress.seconds_left and not progress.ended and not progress.stopped:
        parts.append(say("batch.left", time=_duration(progress.seconds_left)))
    if progress.throttled:
        parts.append(say("batch.throttled", n=progress.throttled))
    if progress.lost:
        parts.append(say("batch.lost", n=progress.lost))
    if progress.stopped and not progress.ended:  # where a narrow terminal does not cut it off
        parts.insert(1, say(f"batch.stopping.{progress.stopped}"))
    return _BETWEEN.join(parts)


def _packed(parts: str, width: int) -> list[str]:
    """A summary in as many lines as it needs."""
    lines: list[str] = []
    for part in parts.split(_BETWEEN):
        longer = f"{lines[-1]}{_BETWEEN}{part}" if lines else part
        lines[-1:] = [longer] if text_width(longer) <= width else [*lines[-1:], part]
    return lines


def running_lines(progress: Progress, texts: Catalog, most: int = _MOST_ROWS, width: int = 1000) -> list[str]:
    """`most` rows of at most `width` columns: an id that is too long loses its beginning."""
    running = progress.running[: max(1, min(most, _MOST_ROWS))]
    if not running:
        return []
    told = columns(
        [
            (
                _duration(one.seconds),
                f"${one.cost:.4f}" if progress.cost else "",
                texts.say("batch.attempt", n=one.attempt) if one.attempt > 1 else "",
            )
            for one in running
        ]
    )
    room = max(8, width - 4 - max(map(text_width, told)))
    names = [clip_left(flat(one.id), room) for one in running]
    lines = columns([(f"  {name}", rest) for name, rest in zip(names, told, strict=True)])
    if len(progress.running) > len(running):
        lines.append(texts.say("batch.more", n=len(progress.running) - len(running)))
    return lines


def row_line(progress: Progress, row: Row, texts: Catalog) -> str:
    verdict = "batch.succeeded" if row.success else "batch.failed"
    parts = [f"{flat(row.id)}: {texts.say(verdict)} ({row.status})"]
    if row.check.status != "not_run":
        parts.append(f"check {row.check.status}")
    parts.append(f"+{row.additions} -{row.deletions}")
    if row.cost is not None:
        parts.append(f"${row.cost:.4f}")
    parts.append(_duration(row.duration))
    parts += [flat(shortened(text, 200)) for text in (row.error, row.note) if text]
    return " · ".join(parts)


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
