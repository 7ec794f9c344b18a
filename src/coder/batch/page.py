"""`index.html`: the results as one self-contained page with filters and plots.

Results hold text of models and programs. It goes into the page as JSON data that a script reads and puts in
place as text, never as markup; a Content-Security-Policy lets that one script run and nothing be fetched.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec

from coder.batch.results import Row, final_rows
from coder.fs.atomic import write_atomically

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

_SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")


def write_page(directory: Path) -> None:
    """From the results that are there now."""
    write_atomically(directory / "index.html", page(list(final_rows(directory).values())), 0o644)


def page(rows: list[Row]) -> bytes:
    allowed = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    data = msgspec.json.encode([_flat(row) for row in rows]).replace(b"<", b"\\u003c")
    heads = ("id", "verdict", "status", "check", "model", "mode", "attempt", "steps", "tokens", "cost")
    head = "".join(f"<th>{name}</th>" for name in (*heads, "duration", "error"))
    choices = "".join(
        f'<select id="{name}"><option value="">{name}</option></select>'
        for name in ("status", "model", "mode")
    )
    before = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><title>coder batch</title>'
        f"<style>{_STYLE}</style>"
        f'<h1>coder batch</h1><input id="text" placeholder="id or error"><select id="verdict">'
        f'<option value="">verdict</option><option>success</option><option>failure</option></select>{choices}'
        f'<p id="sum"></p><h2>Cost in USD, summed as tasks ended</h2><svg id="cost"></svg>'
        f'<h2>Share that succeeded, as tasks ended</h2><svg id="success"></svg>'
        f'<table><thead><tr>{head}</tr></thead><tbody id="body"></tbody></table>'
        f'<script type="application/json" id="rows">'
    )
    return before.encode() + data + f"</script><script>{_SCRIPT}</script></html>\n".encode()


def _flat(row: Row) -> dict[str, object]:
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
        "error": row.error[:500],
        "ended": row.ended,
        "patch": row.patch,
        "record": row.record,
        "answer": row.answer,
    }
