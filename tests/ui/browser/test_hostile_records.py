"""Records as nobody should write them: the page, the export and the index go on."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path

import pytest
from html_reading import Tags, markup_of
from view_kit import HOSTILE, hostile_record, recorded, viewing

from coder.history.search import query as searching
from coder.history.search.query import search
from kit.driving import Project


@pytest.fixture
def session(project: Project) -> str:
    return recorded(project, [{"text": "an ordinary answer"}], "an ordinary question")


@pytest.mark.thorough
def test_foreign_fields_torn_and_huge_lines(project: Project, session: str, tmp_path: Path) -> None:
    (log,) = project.logs()
    lines = log.read_text(encoding="utf-8").splitlines()
    end = next(json.loads(line) for line in lines if '"turn_end"' in line)
    odd = [
        {
            **end,
            "meta": {"evidence": {"runs": [{"state": HOSTILE}, 7, None], "claim": HOSTILE, "changed": 3}},
        },
        {**end, "meta": {"evidence": HOSTILE, "verification": [], "tokens": None, "status": HOSTILE}},
        {**end, "type": "undo", "meta": {"action": HOSTILE, "hunks": [HOSTILE]}},
        {**end, "type": "observation", "meta": {"diff": HOSTILE, "ok": True, "path": HOSTILE, "todos": 3}},
        {**end, "type": "image", "content": "=", "meta": {"image_id": "x", "media_type": "image/png"}},
        {**end, "type": "approval", "meta": {"answer": HOSTILE, "because": HOSTILE, "tool": HOSTILE}},
        {**end, "type": HOSTILE, "meta": {}},
        {**end, "turn": -1, "step": 10**15, "type": "turn_start", "content": HOSTILE},
        {**end, "type": "assistant", "content": "x" * 30_000_000},
    ]
    with log.open("ab") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in odd)
        file.write(b'[1, 2]\nnull\n"x"\n\xff\xfe\n' + b"{" * 5000 + b"\n" + b'{"ts": "torn')
    with viewing(project) as view:
        outline = view.json(f"/api/outline?s=0/{session}")
        assert outline["events"] >= len(lines) + len(odd) - 1
        start, html = 0, ""
        while True:
            page = view.json(f"/api/events?s=0/{session}&from={start}")
            html += page["html"]
            if not page["count"]:
                break
            start = page["next"]
        assert "an ordinary answer" in html
        assert len(html) < 2_000_000  # a huge text is cut
        for harmful in ("<script", "<img", "<iframe", "<style"):
            assert harmful not in html
    for option, name in (("--html", "a.html"), ("--md", "a.md")):
        done = project.coder("export", session, option, str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    page_text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page_text.count("<script") == 1
    assert "<img" not in page_text


_TAGS = """html head meta title style body h1 h2 h3 h4 h5 h6 nav p details summary ol ul li a article time div
span pre code small b i mark figure figcaption svg rect polyline script button em strong hr br blockquote
table thead tbody tr th td"""
_ATTRIBUTES = """lang charset http-equiv content name class id href value datetime viewbox role aria-label
preserveaspectratio x y width height points start type alt"""


@pytest.mark.thorough
def test_generated_records_are_text_in_every_form(project: Project, tmp_path: Path) -> None:
    """Every type of event, with markup in all its fields: only our own elements come out."""
    log = project.cwd / ".coder" / "history" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(hostile_record(2000, seed=1))
    done = project.coder("export", "s", "--html", str(tmp_path / "a.html"), "--md", str(tmp_path / "a.md"))
    assert done.returncode == 0, done.stderr
    with viewing(project) as view:
        pages, start = [(tmp_path / "a.html").read_text(encoding="utf-8")], 0
        while (found := view.json(f"/api/events?s=0/s&from={start}"))["count"]:
            pages.append(found["html"])
            start = found["next"]
    for page in pages:
        tags = Tags()
        tags.feed(page)
        assert tags.tags <= {*_TAGS.split()}
        assert {name for name in tags.attributes if not name.startswith("data-")} <= {*_ATTRIBUTES.split()}
        assert all(re.fullmatch(r"#turn--?\d+", link) for link in tags.links)
        assert page.count("<script") == (page is pages[0])
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", page)
    assert not markup_of((tmp_path / "a.md").read_text(encoding="utf-8"))
    shown = project.coder("show", "s")
    assert shown.returncode == 0, shown.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.stdout)


@pytest.mark.thorough
def test_a_record_deleted_or_replaced_while_it_is_viewed(project: Project, session: str) -> None:
    (log,) = project.logs()
    other = recorded(project, [{"text": "another"}], "other")
    with viewing(project) as view, viewing(project) as second:
        assert view.json(f"/api/outline?s=0/{session}") == second.json(f"/api/outline?s=0/{session}")
        log.unlink()
        for question in ("outline", "events", "event", "follow", "image"):
            status, body, _ = view.get(f"/api/{question}?s=0/{session}&from=0")
            assert (status, body) == (404, b"not found"), question
        assert "another" in view.json(f"/api/events?s=0/{other}")["html"]
        log.symlink_to("/etc/passwd")
        status, body, _ = view.get(f"/api/events?s=0/{session}")
        assert status == 404
        assert b"root" not in body
        log.unlink()
        os.mkfifo(log)
        assert view.get(f"/api/events?s=0/{session}")[0] == 404
        assert view.json("/api/list?q=another")["count"] == 1


@pytest.mark.parametrize("place", [-1, 10**18, 7])
def test_a_place_that_is_none_is_answered(project: Project, session: str, place: int) -> None:
    with viewing(project) as view:
        status, body, _ = view.get(f"/api/events?s=0/{session}&from={place}")
        assert status in (200, 404), body
        assert view.get(f"/api/image?s=0/{session}&from={place}")[0] == 404
        assert view.get("/api/image?s=../../etc/passwd&from=0")[0] == 404
        assert view.get(f"/api/image?s=0/{session}&from=0", token="")[0] == 403


def test_an_index_damaged_in_the_middle_of_a_search_is_made_anew(
    project: Project, session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = str(project.logs()[0].parent)
    home = tmp_path / "home"
    assert len(search(home, [history], "ordinary")) == 1
    real = searching._rows
    broken: list[bool] = []

    def breaks(index: sqlite3.Connection, table: str, expression: str) -> list[int]:
        if not broken:
            broken.append(True)
            raise sqlite3.DatabaseError("database disk image is malformed")
        return real(index, table, expression)

    monkeypatch.setattr(searching, "_rows", breaks)
    assert len(search(home, [history], "ordinary")) == 1
    assert broken
