"""`index.html`: the results as one self-contained page with filters and plots.

Results hold text of models and programs. It goes into the page as JSON data that a script reads and puts in
place as text, never as markup; a Content-Security-Policy lets that one script run and nothing be fetched.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Callable, Container, Iterable
from hashlib import sha256
from itertools import islice
from pathlib import Path

import msgspec

from coder.addons.batch.results import PAGE, RECORD, Row, final_rows
from coder.base.files import write_atomically

MOST_RECORDS = 2000  # as many as the table shows at once; 3 ms each

Render = Callable[[Path, str], Iterable[str]]

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

_SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")


def write_page(directory: Path, render: Render | None = None) -> None:
    """From the results that are there now. `render` makes pages of the records of those that are shown."""
    rows = final_rows(directory)
    if render is not None:
        for row in islice(rows.values(), MOST_RECORDS):
            _write_record_page(directory / row.id / RECORD, row.id, render)
    read = {row.id for row in rows.values() if (directory / row.id / PAGE).exists()}
    write_atomically(directory / "index.html", page(list(rows.values()), read), 0o644)


def _write_record_page(record: Path, task: str, render: Render) -> None:
    made = record.with_name(PAGE)
    with contextlib.suppress(OSError):  # without a record, or without room for its page
        if not made.exists():  # an attempt that starts removes it
            text = "".join(render(record, task))
            write_atomically(made, text.encode("utf-8", errors="replace"), 0o600)


def page(rows: list[Row], read: Container[str] = ()) -> bytes:
    """Rows as they ended. `read`: the tasks whose records there are pages of."""
    allowed = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    data = msgspec.json.encode([_flat(row, row.id in read) for row in rows]).replace(b"<", b"\\u003c")
    heads = ("id", "verdict", "status", "check", "model", "mode", "attempt", "steps", "tokens", "cost")
    head = "".join(f"<th>{name}</th>" for name in (*heads, "duration", "error"))
    choices = "".join(
        f'<select id="{name}"><option value="">{name}</option></select>'
        for name in ("status", "model", "mode")
    )
    before = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>coder batch</title>'
        f"<style>{_STYLE}</style>"
        f'<h1>coder batch</h1><input id="text" placeholder="id or error"><select id="verdict">'
        f'<option value="">verdict</option><option>success</option><option>failure</option></select>{choices}'
        f'<p id="sum"></p><div class="plots">{_plot("cost", "Cost, summed as tasks ended")}'
        f"{_plot('success', 'Share that succeeded, as tasks ended')}</div>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody id="body"></tbody></table></div>'
        f'<script type="application/json" id="rows">'
    )
    return before.encode() + data + f"</script><script>{_SCRIPT}</script></html>\n".encode()


def _plot(name: str, title: str) -> str:
    return (
        f'<figure><figcaption>{title}</figcaption><div class="axis"><span id="{name}-top"></span>'
        f'<span id="{name}-bottom"></span></div><svg id="{name}"></svg>'
        f'<div class="count"><span>1</span><span id="{name}-count"></span></div></figure>'
    )


def _flat(row: Row, has_page: bool) -> dict[str, object]:
    return {
        "id": row.id,
        "verdict": "success" if row.success else "failure",
        "status": row.status,
        "check": row.check.status,
        "model": row.model,
        "mode": row.mode,
        "attempt": row.attempt,
        "steps": row.steps,
        "tokens": row.tokens.get("total", 0),
        "cost": row.cost,
        "duration": row.duration,
        "error": "; ".join(filter(None, (row.error, row.note)))[:500],
        "patch": row.patch,
        "record": f"{row.id}/{PAGE}" if has_page else row.record,
        "answer": row.answer,
    }
