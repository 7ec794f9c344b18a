"""The history file: private, bounded, whole whoever writes to it, and discreet."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from editor_kit import NOWHERE, Bench
from hypothesis import given
from hypothesis import strategies as st

from coder.ui.terminal.input.input_history import KEPT_BYTES, LONGEST, ProjectHistory

WRITER = """
import sys
import tempfile
from pathlib import Path
from coder.ui.terminal.input import input_history as history
history.KEPT_BYTES = int(sys.argv[3])
kept = history.ProjectHistory(Path(sys.argv[1]))
for number in range(300):
    kept.append_string(f"{sys.argv[2]} {number}\\nsecond line " + "x" * 100)
"""


def recalled(path: Path) -> list[str]:
    """Newest first, as a new session reads them."""
    return list(ProjectHistory(path).load_history_strings())


def keep(path: Path, *texts: str) -> None:
    history = ProjectHistory(path)
    for text in texts:
        history.append_string(text)


@given(texts=st.lists(st.text(min_size=1, max_size=40).filter(lambda text: text[0] != " "), max_size=8))
def test_every_text_comes_back_as_it_was(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history"
        keep(path, *texts)
        once = [text for at, text in enumerate(texts) if at == 0 or texts[at - 1] != text]
        assert recalled(path) == once[::-1]


def test_it_is_readable_by_its_person_alone_even_where_it_was_not(tmp_path: Path) -> None:
    path = tmp_path / "projects" / "one" / "history"
    keep(path, "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    keep(path, "second")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_that_begins_with_a_space_is_kept_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = ProjectHistory(path)
    for text in ("said", " !export TOKEN=secret", "said too"):
        history.append_string(text)
    assert history.get_strings() == ["said", "said too"]
    assert b"secret" not in path.read_bytes()


def test_what_is_said_twice_in_a_row_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "history"
    keep(path, "a", "a", "b", "a")
    assert recalled(path) == ["a", "b", "a"]
    assert path.read_bytes().count(b"\n") == 3


def test_data_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "history"
    keep(path, "short", "x" * (LONGEST + 1))
    assert recalled(path) == ["short"]


def test_it_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    path = tmp_path / "history"
    count = 3 * KEPT_BYTES // LONGEST
    keep(path, *(f"{number} " + "x" * (LONGEST - 10) for number in range(count)))
    assert path.stat().st_size <= 2 * KEPT_BYTES + LONGEST + 10
    found = recalled(path)
    numbers = [int(text.split()[0]) for text in found]
    assert numbers == list(range(count - 1, count - 1 - len(found), -1))
    assert len(found) > 40


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"
    keep(path, "before")
    with path.open("ab") as file:
        file.write(b'"cut in the mid')
    keep(path, "after")
    assert recalled(path) == ["after", "before"]


@pytest.mark.thorough
def test_two_processes_at_once_lose_nothing_and_mix_nothing(tmp_path: Path) -> None:
    def write(path: Path, kept_bytes: int) -> list[str]:
        command = [sys.executable, "-c", WRITER, str(path)]
        writers = [subprocess.Popen([*command, name, str(kept_bytes)]) for name in ("left", "right")]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        return recalled(path)

    found = write(tmp_path / "history", KEPT_BYTES)
    wanted = [f"{name} {at}\nsecond line " + "x" * 100 for name in ("left", "right") for at in range(300)]
    assert sorted(found) == sorted(wanted)
    # The same while the file is cut again and again: what is left is whole, and ends with both last lines.
    cut = write(tmp_path / "cut", 4_000)
    assert set(cut) <= set(wanted)
    assert {text.partition("\n")[0] for text in cut} & {"left 299", "right 299"}
    assert (tmp_path / "cut").stat().st_size < 20_000
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".coder")] == []


def test_a_history_that_cannot_be_written_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    history = ProjectHistory(tmp_path / "file" / "history")
    history.append_string("said")
    assert history.get_strings() == ["said"]
    assert recalled(tmp_path / "file" / "history") == []


def test_an_editor_of_these_tests_leaves_no_history_behind() -> None:
    async def scenario() -> None:
        bench = await Bench().type("said", "\r")
        assert bench.sent == ["said"]

    asyncio.run(scenario())
    assert not NOWHERE.exists()
