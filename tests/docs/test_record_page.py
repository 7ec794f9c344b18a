"""The page on the record's format says what the types say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import msgspec

from coder.history.sinks import encode
from coder.protocol.entries import NAMES, TurnStart
from coder.protocol.history import HistoryEvent

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "record.md").read_text(encoding="utf-8")


def test_its_tables_are_made_from_the_types() -> None:
    made = runpy.run_path(str(DOCS / "record_table.py"))
    assert made["page"]() == TEXT, "run: ./dev docs"
    assert all(f"### `{name}`" in TEXT for name in NAMES.values())


def test_its_line_is_one() -> None:
    (line,) = re.findall(r"^\{.*\}$", TEXT, re.MULTILINE)
    event = msgspec.json.decode(line, type=HistoryEvent)
    assert isinstance(event.entry, TurnStart)
    assert encode(event.entry) == encode(event.meta)
    assert [f"| `{name}` |" in TEXT for name in HistoryEvent.__struct_fields__] == [True] * 8
    assert msgspec.json.decode(line) == msgspec.json.decode(encode(event))
