"""Full-text search over the records: what is found, what is gone, and an index that is only a cache."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import START, turn_of, write

from coder.history.search import index as update
from coder.history.search.database import terms_of, tokenizable, transaction
from coder.history.search.query import FoundSession, search
from kit import ScriptedServer
from kit.driving import Driver, Project, play


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "history"


def names(found: list[FoundSession]) -> list[str]:
    return [one.session_id for one in found]


def find(home: Path, directory: Path, query: str) -> list[str]:
    return names(search(home, [str(directory)], query))


def rows(project: Project, *args: str) -> list[dict[str, Any]]:
    done = project.coder("sessions", "--json", "--search", *args)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_session_is_indexed_when_it_ends(project: Project) -> None:
    play(project, [{"text": "The zebra is striped."}], ["look at the okapi"], session_kind="interactive")
    index = sqlite3.connect(project.home / ".coder" / "index.db")
    assert index.execute("SELECT title, turns FROM session").fetchall() == [("look at the okapi", 1)]
    index.close()


def test_a_script_does_not_wait_for_the_index_and_its_session_is_found_by_the_command(
    project: Project,
) -> None:
    script = [
        {"calls": [{"name": "bash", "arguments": {"command": "echo zeppelin-output"}}]},
        {"reasoning": "pondering quasars", "text": "The zebra is striped."},
    ]
    with ScriptedServer(script) as server:
        done = project.coder("--mode", "yolo", "--once", "look at the okapi", url=server.url)
    assert done.returncode == 0, done.stderr
    assert not (project.home / ".coder" / "index.db").exists()
    (session,) = [log.stem for log in project.logs()]
    for word, kind in {"okapi": "person", "striped": "answer", "echo": "call"}.items():
        (row,) = rows(project, word)
        assert row["session_id"] == session
        assert row["hits"][0]["kind"] == kind
        assert word in row["hits"][0]["line"]
    assert {hit["kind"] for hit in rows(project, "zeppelin")[0]["hits"]} == {"call", "output"}
    assert rows(project, "quasars")[0]["hits"][0]["kind"] == "thinking"
    assert rows(project, "okapi zebra") == rows(project, "zebra okapi") != []
    assert rows(project, "okapi nowhere") == []
    text = project.coder("sessions", "--search", "okapi").stdout
    assert session in text
    assert "turn 1, you: look at the okapi" in text


def test_nothing_at_start_and_no_words(project: Project) -> None:
    done = project.coder("sessions", "--search", "...")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Give words to search for" in done.stderr
    assert "No session has all of: okapi" in project.coder("sessions", "--search", "okapi").stdout
    assert project.coder("sessions", "--all").returncode == 2


def test_all_finds_sessions_of_other_directories(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedServer([{"text": "hello"}]) as server:
        project.coder("--once", "about wombats", "--cwd", str(other), url=server.url)
    assert rows(project, "wombats") == []
    (row,) = rows(project, "wombats", "--all")
    assert Path(row["directory"]).is_relative_to(other)
    # The list of directories outlives the index.
    (project.home / ".coder" / "index.db").unlink()
    assert rows(project, "wombats", "--all") == [row]


def test_resume_with_words_lists_the_sessions_about_them(project: Project) -> None:
    import asyncio

    with ScriptedServer([{"text": "a marmot whistles"}]) as server:
        project.coder("--once", "which animal whistles", url=server.url)
        (session,) = [log.stem for log in project.logs()]

        async def ask() -> Any:
            driver = Driver(project, server.url)
            driver.start()
            events = await driver.send("/resume marmot")
            await driver.engine.close()
            return next(e for e in events if type(e).__name__ == "CommandDone")

        done = asyncio.run(ask())
    assert done.data["found"] == [session]
    assert "a marmot whistles" in str(done.text)


def test_chinese_is_found_by_any_two_characters(home: Path, directory: Path) -> None:
    text = "请修复登录页面的数据库连接，用python写"
    write(directory, "a", [turn_of(text, "好的")])
    runs = ["请修复登录页面的数据库连接", "用", "写"]
    for run in runs:
        for at in range(len(run) - 1):
            assert find(home, directory, run[at : at + 2]) == ["a"]
        for one in run:
            assert find(home, directory, one) == ["a"]
    assert find(home, directory, "数据库 python") == ["a"]
    assert find(home, directory, "用python写") == ["a"]
    assert find(home, directory, "数库") == []
    assert find(home, directory, "据数") == []


def test_best_first_then_newest(home: Path, directory: Path) -> None:
    spread = [turn_of("red", "-", 1), turn_of("kite", "-", 2)]
    for age, (name, turns) in enumerate(
        {
            "said-new": [turn_of("a red kite", "-")],
            "said-old": [turn_of("-", "the red kite")],
            "output": [turn_of("-", "-", output="red kite")],
            "spread": spread,
        }.items()
    ):
        path = write(directory, name, turns)
        os.utime(path, (2000 - age, 2000 - age))
    newest = write(directory, "spread-newest", spread)
    os.utime(newest, (9000, 9000))
    assert find(home, directory, "red kite") == ["said-new", "said-old", "output", "spread-newest", "spread"]
    assert find(home, directory, '"red kite"') == ["said-new", "said-old", "output"]


def test_words_match_as_prefixes_and_names_by_their_parts(home: Path, directory: Path) -> None:
    write(directory, "a", [turn_of("fix resume_session in src/engine/resume.py", "Café")])
    for query in ("resum", "resume_session", "engine/resume.py", "session", "cafe", "RESUME"):
        assert find(home, directory, query) == ["a"], query
    assert find(home, directory, '"resum"') == []
    assert find(home, directory, "re AND NOT OR * ( : ^ -x") == []  # no operator of SQLite's is one of ours


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_in_either_form(home: Path, directory: Path, form: Literal["NFC", "NFD"]) -> None:
    """File names of macOS have theirs apart from their letters."""
    write(directory, "a", [turn_of(normalize("NFD", "open résumé.txt"), "one")])
    write(directory, "b", [turn_of("open résumé.txt", "one")])
    assert {*find(home, directory, normalize(form, "résumé.txt"))} == {"a", "b"}


def test_only_what_was_appended_is_read_and_a_torn_line_waits(home: Path, directory: Path) -> None:
    path = write(directory, "a", [turn_of("first", "one")])
    assert find(home, directory, "first") == ["a"]
    whole = turn_of("second badger", "two", 2)
    with path.open("ab") as file:
        file.write(whole[:40])
    assert find(home, directory, "badger") == []
    with path.open("ab") as file:
        file.write(whole[40:])
    (found,) = search(home, [str(directory)], "badger")
    assert (found.turns, found.hits[0].turn) == (2, 2)
    assert find(home, directory, "first") == ["a"]


def test_a_replaced_record_is_read_anew(home: Path, directory: Path) -> None:
    write(directory, "a", [turn_of("walrus", "one")])
    assert find(home, directory, "walrus") == ["a"]
    (directory / "a.jsonl").unlink()
    write(directory, "a", [turn_of("manatee and much else besides", "one")])
    assert find(home, directory, "walrus") == []
    assert find(home, directory, "manatee") == ["a"]


def test_a_deleted_record_is_gone_from_the_file_too(home: Path, directory: Path) -> None:
    write(directory, "keep", [turn_of("ordinary", "words")])
    write(directory, "gone", [turn_of("xylographic", "secretive")])
    assert find(home, directory, "xylographic") == ["gone"]
    assert b"xylographic" in (home / "index.db").read_bytes()
    (directory / "gone.jsonl").unlink()
    assert find(home, directory, "xylographic") == []
    assert find(home, directory, "ordinary") == ["keep"]
    left = b"".join(path.read_bytes() for path in home.iterdir())
    assert b"xylographic" not in left
    assert b"secretive" not in left


@pytest.mark.parametrize("harm", ["missing", "garbage", "torn", "no table", "older"])
def test_a_damaged_index_is_rebuilt(home: Path, directory: Path, harm: str) -> None:
    write(directory, "a", [turn_of("lynx", "one")])
    assert find(home, directory, "lynx") == ["a"]
    path = home / "index.db"
    if harm == "missing":
        path.unlink()
    elif harm == "garbage":
        path.write_bytes(b"not a database at all" * 400)
    elif harm == "torn":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        change = "DROP TABLE part" if harm == "no table" else "PRAGMA user_version = 0"
        index = sqlite3.connect(path)
        index.execute(change)
        index.close()
    assert find(home, directory, "lynx") == ["a"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_be_written_still_finds(tmp_path: Path, directory: Path) -> None:
    write(directory, "a", [turn_of("ibex", "one")])
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    assert find(blocked / "home", directory, "ibex") == ["a"]


@pytest.mark.thorough
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root, to mount")
@pytest.mark.parametrize(
    ("options", "fill", "refused"),
    [("size=300k", "true", ""), ("size=300k", "yes", "No space left"), ("ro", "true", "Read-only file")],
    ids=["little room", "full", "read-only"],
)
def test_a_full_disk_costs_nobody_the_search_and_is_not_filled(
    project: Project, options: str, fill: str, refused: str
) -> None:
    """The index would take all that is left: it goes, and what cannot be made anew has the room."""
    for at in range(12):
        noise = " ".join(os.urandom(6).hex() for _ in range(2000))
        write(project.cwd / ".coder" / "history", f"s{at}", [turn_of(f"lynx {at}", "one", output=noise)])
    home = project.home / ".coder"
    home.mkdir(exist_ok=True)
    coder = f"{sys.executable} -m coder"
    line = (
        f"mount -t tmpfs -o {options} none {home}; {fill} 2>/dev/null > {home}/fill;"
        f" df --output=avail {home} | tail -1;"
        f" {coder} sessions --json --search lynx && {coder} stats --json &&"
        f" {coder} export s3 --md {home}/x.md; echo $?; rm -f {home}/x.md; df --output=avail {home} | tail -1"
    )
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "bash", "-c", line],
        cwd=project.cwd, env=project.environ(), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    before, *found, figures, status, after = done.stdout.splitlines()
    assert len(found) == 12
    assert json.loads(figures)["total"]["sessions"] == 12
    assert status == ("2" if refused else "0")
    assert f"cannot be written: {refused}" in done.stderr if refused else "Wrote" in done.stderr
    assert before == after


def test_a_directory_that_cannot_be_listed_for_once_is_not_forgotten(
    home: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(directory, "a", [turn_of("ibex", "one")])
    assert find(home, directory, "ibex") == ["a"]

    def fails(path: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "scandir", fails)
    assert find(home, directory, "ibex") == ["a"]
    monkeypatch.undo()
    shutil.rmtree(directory)
    assert find(home, directory, "ibex") == []


def test_links_and_undecodable_lines_are_passed_over(home: Path, directory: Path, tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", "x", [turn_of("ocelot", "one")])
    directory.mkdir()
    (directory / "link.jsonl").symlink_to(elsewhere)
    write(directory, "odd", [b"\xff\xfe not json\n", b"[]\n", turn_of("serval", "one")])
    assert find(home, directory, "ocelot") == []
    assert find(home, directory, "serval") == ["odd"]


def test_a_directory_whose_name_is_not_utf_8(project: Project) -> None:
    root = Path(os.fsdecode(os.fsencode(project.cwd) + b"/caf\xe9"))
    write(root / ".coder" / "history", "a", [turn_of("ocelot", "one")])
    (row,) = rows(project, "ocelot", "--cwd", str(root))
    assert (row["session_id"], Path(row["directory"]).name) == ("a", "history")
    done = project.coder("stats", "--json", "--cwd", str(root))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["sessions"] == 1


# Sessions end, records grow and are deleted, and every search has those that stay.
_AT_ONCE = """
import sys
from pathlib import Path
from records import turn_of, write
from coder.history.search.query import search
from coder.history.search.index import session_ended
from coder.history.search.projects import Project
home, directory, me = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
for at in range(15):
    name = f"p{me}-{at}"
    path = write(directory, name, [turn_of(f"gnu of{me} number{at}", "one")])
    session_ended(home, Project(str(directory), str(directory)), name)
    with path.open("ab") as file:
        file.write(turn_of("again", "okapi", 2))
    found = {one.session_id for one in search(home, [str(directory)], "gnu", 500)}
    assert found >= {f"s{n}" for n in range(30)} | {name}, found
    if at % 3:
        path.unlink()
        assert name not in {one.session_id for one in search(home, [str(directory)], f"of{me}", 500)}
"""


@pytest.mark.thorough
def test_processes_that_index_search_and_delete_at_once_lose_nothing(home: Path, directory: Path) -> None:
    for at in range(30):
        write(directory, f"s{at}", [turn_of(f"gnu number{at}", "one")])
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    workers = [
        subprocess.Popen([sys.executable, "-c", _AT_ONCE, home, directory, str(me)], env=env)
        for me in range(3)
    ]
    assert [worker.wait(240) for worker in workers] == [0] * 3
    left = {path.stem for path in directory.iterdir()}
    assert len(left) == 30 + 3 * 5
    assert {*names(search(home, [str(directory)], "gnu", 500))} == left
    assert {*find(home, directory, "okapi")} == {name for name in left if name.startswith("p")}
    index = sqlite3.connect(home / "index.db")
    assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert index.execute("SELECT count(*) FROM session").fetchone() == (len(left),)
    index.close()


def test_a_record_deleted_while_it_waits_to_be_indexed_stays_away(
    home: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened before, and another process has forgotten it since."""
    path = write(directory, "a", [turn_of("gnu", "one")])

    def late(index: sqlite3.Connection) -> contextlib.AbstractContextManager[None]:
        path.unlink()
        return transaction(index)

    monkeypatch.setattr(update, "transaction", late)
    assert find(home, directory, "gnu") == []


_TEXT = st.text(alphabet=st.sampled_from("ab1 数据库连接，_./-\"'*"), min_size=1, max_size=24)


@given(text=_TEXT, query=_TEXT)
@settings(max_examples=200, deadline=None)
def test_law_a_text_is_found_by_itself_and_no_query_is_an_error(text: str, query: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE w USING fts5(x, tokenize='unicode61 remove_diacritics 2')")
    index.execute("INSERT INTO w VALUES (?)", (tokenizable(text),))
    for terms in (terms_of(query), terms_of(text)):
        found = [index.execute("SELECT 1 FROM w WHERE w MATCH ?", (term,)).fetchall() for term in terms]
    index.close()
    assert all(found)


def test_a_record_of_impossible_numbers_is_left_out_and_hides_no_other(home: Path, directory: Path) -> None:
    write(directory, "a", [turn_of("zebra", "striped", turn=10**30)])
    write(directory, "b", [turn_of("zebra", "striped")])
    assert find(home, directory, "zebra") == ["b"]


def test_a_record_of_impossible_times_and_nestings_hides_no_other(home: Path, directory: Path) -> None:
    """Year 1 is before the year 0 in some time zones; a call may nest deeper than Python recurses."""
    early = turn_of("zebra", "striped").replace(START.encode(), b"0001-01-01T00:00:00+23:59")
    deep = b'{"ts":"x","session_id":"s","type":"action","meta":{"input":' + b"[" * 900 + b"]" * 900
    write(directory, "a", [early])
    write(directory, "b", [turn_of("zebra", "striped"), deep + b',"tool":"x","call_id":"1"}}\n'])
    write(directory, "c", [turn_of("zebra", "striped")])
    assert {"a", "c"} <= {*find(home, directory, "zebra")}
    assert find(home, directory, "striped") == find(home, directory, "zebra")


def test_deleted_words_leave_the_file_step_by_step(
    home: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder.history.search.index._ERASING_SECONDS", -1)
    write(directory, "gone", [turn_of("xylographic", "secretive")])
    write(directory, "keep", [turn_of("ordinary", "words")])
    assert find(home, directory, "xylographic") == ["gone"]
    (directory / "gone.jsonl").unlink()
    assert find(home, directory, "xylographic") == []
    monkeypatch.undo()
    assert find(home, directory, "ordinary") == ["keep"]  # which goes on with it
    assert b"xylographic" not in b"".join(path.read_bytes() for path in home.iterdir())


def test_a_common_word_gives_the_newest_of_those_who_say_it(home: Path, directory: Path) -> None:
    for age in range(30):
        said = age % 3 == 0
        turn = turn_of("the same" if said else "-", "-", output="-" if said else "the same")
        os.utime(write(directory, f"s{age:02}", [turn]), (9000 - age, 9000 - age))
    found = names(search(home, [str(directory)], "the", 12))
    assert found == [f"s{age:02}" for age in (*range(0, 30, 3), 1, 2)]
    assert names(search(home, [str(directory)], "sam", 4)) == ["s00", "s03", "s06", "s09"]
