"""Records of an earlier version are read as they were then: resumed, listed, shown, exported, told again.

`fixtures/old_records` was written by that version (`kit/record_sessions.py`; `unknown.jsonl` by hand), and
`fixtures/old_readings` is what it made of them. Where what is shown is meant to change,
`PYTHONPATH=tests python tests/record/test_old_records.py` writes the readings anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from coder.cli import export, show
from coder.context.action_log import ActionLog
from coder.engine.resume import Choices, JobsLeft
from coder.engine.turn_state import NOTHING_ASKED
from coder.history.log import read_log
from coder.history.replay import Replay
from coder.history.rewound import RecentTurns
from coder.history.store import SessionStore
from coder.history.turn_so_far import NewestTurn
from coder.ui.acp.updates import RecordReplay
from kit.record_sessions import RECORDS, SESSIONS, Told, records

READINGS = RECORDS[0].parent.parent / "old_readings"
STATE = (
    *(
        "session_id",
        "created_at",
        "title",
        "turn",
        "messages",
        "todos",
        "engine_todos",
        "usage",
        "model",
        "mode",
    ),
    *("preset", "mode_state", "cost", "notes", "turn_open", "pending_approval", "unanswered"),
)


def reading(record: Path, directory: Path) -> dict[str, Any]:
    """Everything that this version makes of a record; long texts as their beginning and a digest."""
    history = directory / ".coder" / "history"
    history.mkdir(parents=True)
    shutil.copy(record, history)
    state, action_log, recent, choices, newest, jobs = (
        Replay(), ActionLog(), RecentTurns(), Choices(), NewestTurn(), JobsLeft()
    )  # fmt: skip
    editor = Told()
    replay = RecordReplay(editor)
    for event in read_log(record):
        for taker in (state, action_log, recent, choices, newest, jobs, replay):
            taker.take(event)
    (info,) = SessionStore(directory).infos()
    found = {
        "listed": [info.title, info.created_at, info.turns],
        "replay": {name: getattr(state, name) for name in STATE},
        "ledger": action_log.whole_text().split("\n"),
        "recent": recent.turns,
        "choices": [
            choices.budget,
            choices.loop_guard,
            choices.asks if choices.asks != NOTHING_ASKED else None,
        ],
        "newest": {**_fields(newest.so_far), "checks": newest.so_far.checks.result()},
        "jobs": [jobs.running, jobs.gone, jobs.unreported, jobs.highest],
        "editor": [replay.done(), editor.all],
        "show": shown(directory, record.stem),
        "export": exported(directory, record.stem),
    }
    plain = msgspec.to_builtins(found)
    plain["replay"]["mode_state"] = plain["replay"]["mode_state"] or {}
    return _short(plain)  # type: ignore[no-any-return]  # JSON stays JSON


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return {name: sorted(value) if isinstance(value, set) else value for name, value in fields.items()}


def shown(directory: Path, session: str, *more: str) -> list[str]:
    output = io.StringIO()
    with at_home(directory), contextlib.redirect_stdout(output):
        assert show.run([session, "--cwd", str(directory), *more]) == 0
    return output.getvalue().split("\n")


def exported(directory: Path, session: str) -> list[str]:
    """What the page says of the record: without its policy, style and script, which are the version's."""
    page = directory / "page.html"
    with at_home(directory):
        assert export.run([session, "--cwd", str(directory), "--html", str(page)]) == 0
    whole = page.read_text(encoding="utf-8")
    return whole[whole.index("</head>") : whole.rindex("<script>")].split("\n")


@contextlib.contextmanager
def at_home(directory: Path) -> Iterator[None]:
    home = {"CODER_HOME": str(directory / "home"), "HOME": str(directory), "LANG": "C.UTF-8", "TZ": "UTC"}
    with mock.patch.dict(os.environ, home):
        time.tzset()
        yield
    time.tzset()


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 300:
        return f"{value[:80]}… {hashlib.blake2b(value.encode(), digest_size=8).hexdigest()}"
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_an_old_record_is_read_as_it_was(record: Path, tmp_path: Path) -> None:
    expected = json.loads((READINGS / f"{record.stem}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(reading(record, tmp_path)))
    for part, value in expected.items():
        assert found[part] == value, part
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_shown_as_json_a_record_is_what_was_written(record: Path, tmp_path: Path) -> None:
    directory = tmp_path / ".coder" / "history"
    directory.mkdir(parents=True)
    shutil.copy(record, directory)
    if record.stem == "unknown":  # other versions' fields of a line are left out, those of its meta kept
        assert '"colour":"blue"' in "".join(shown(tmp_path, record.stem, "--json"))
    else:
        assert shown(tmp_path, record.stem, "--json") == record.read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize("name", SESSIONS)
def test_this_version_writes_what_that_one_wrote(name: str, tmp_path: Path) -> None:
    """The same session gives lines of the same types, with the same fields in the same order."""
    old = [path.read_text(encoding="utf-8") for path in RECORDS if path.stem.rstrip("0123456789") == name]
    then, now = (
        [json.loads(line) for text in texts for line in text.splitlines()]
        for texts in (old, records(name, tmp_path / "at"))
    )
    assert {line["type"] for line in now} == {line["type"] for line in then}
    for line in then:
        alike = [one for one in now if (one["type"], one["role"]) == (line["type"], line["role"])]
        assert any(holds(one, line) for one in alike), (line, alike)


def holds(new: Any, old: Any) -> bool:
    """Whether a value has the fields that it had, in their order; others may have come between them."""
    if isinstance(old, dict) and isinstance(new, dict):
        kept = [name for name in new if name in old]
        return kept == list(old) and all(holds(new[name], old[name]) for name in old)
    if isinstance(old, list) and isinstance(new, list):
        return not old or (bool(new) and holds(new[0], old[0]))
    return type(old) is type(new)


def main() -> None:
    READINGS.mkdir(exist_ok=True)
    for record in RECORDS:
        with tempfile.TemporaryDirectory() as directory:
            text = json.dumps(reading(record, Path(directory)), indent=1, ensure_ascii=False)
        (READINGS / f"{record.stem}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
