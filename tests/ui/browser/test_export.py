"""Exported files: whole, self-contained and inert."""

from __future__ import annotations

import base64
import html
import json
import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from html_reading import Tags, markup_of
from view_kit import HOSTILE, recorded, viewing

from coder.protocol.ops import Steer
from coder.tools.images import MAX_BYTES
from kit.calls import bash
from kit.driving import Project, during_a_call, play
from kit.images import png, png_of


@pytest.fixture
def session(project: Project) -> str:
    project.write("a.py", "one = 1\ntwo = 2\n")
    script: list[dict[str, Any]] = [
        {"reasoning": f"hm {HOSTILE}", "calls": [{"name": "read", "arguments": {"path": "a.py"}}]},
        {
            "calls": [
                {
                    "name": "edit",
                    "arguments": {
                        "path": "a.py",
                        "old_string": "two = 2",
                        "new_string": f"two = '{HOSTILE}'",
                    },
                }
            ]
        },
        {"calls": [{"name": "bash", "arguments": {"command": f"echo {HOSTILE!r}; cat a.py"}}]},
        {"text": f"# Done\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n{HOSTILE}"},
    ]
    return recorded(project, script, f"change a.py {HOSTILE}")


def test_the_page_holds_all_and_runs_nothing_of_it(project: Project, session: str, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    assert project.coder("export", session, "--html", str(file)).returncode == 0
    page = file.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not tags.tags & {"img", "iframe", "link", "object", "embed", "form", "base", "video"}
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "style")]
    assert all(re.fullmatch(r"#turn-\d+", link) for link in tags.links)
    # One script, ours, and the policy allows no other.
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert script == (files("coder.ui.browser") / "page" / "file.js").read_text(encoding="utf-8")
    hashes = [base64.b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:;"
    )
    assert policy in html.unescape(page)
    text = "".join(tags.text)
    for held in ("change a.py", "<script>window.hacked=1</script>", "hm ", "two = '", "Thinking", "Turn 1"):
        assert held in text, held
    assert '<span class="del">' in page
    assert "<td>1</td>" in page
    assert "\x1b" not in page


def test_images_are_in_it_and_only_images(project: Project, tmp_path: Path) -> None:
    (project.cwd / "a.png").write_bytes(png(8, 6))
    session = recorded(
        project, [{"text": "a picture"}, {"text": "again"}], "what is on @a.png?", "and @a.png?"
    )
    (log,) = project.logs()
    lines = log.read_text(encoding="utf-8").splitlines()
    (image,) = [json.loads(line) for line in lines if '"type":"image"' in line]
    asked = next(json.loads(line) for line in lines if '"type":"turn_start"' in line)
    svg = base64.b64encode(b"<svg onload='window.hacked=1'/>").decode()
    wide = base64.b64encode(png_of(100_000, 1, b"")).decode()
    large = base64.b64encode(png(8, 6) + bytes(MAX_BYTES)).decode()
    forms = [
        ("image/svg+xml", svg),
        ("text/html", svg),
        ("image/png", svg),
        ('image/png" onerror="window.hacked=1', svg),
        ("image/png", "'><script>window.hacked=1</script>"),
        ("image/png", base64.b64encode(b"BM" + bytes(60)).decode()),
        ("image/png", wide),
        ("image/png", large),
    ]
    for at, (media_type, content) in enumerate(forms):
        meta = {**image["meta"], "media_type": media_type, "image_id": f"no{at}", "name": HOSTILE}
        lines.append(json.dumps({**image, "content": content, "meta": meta}))
    names = [f"no{at}" for at in range(len(forms))] + ["unknown", "../../etc/passwd"]
    named = {**asked, "turn": 3, "content": "look", "meta": {**asked["meta"], "images": names}}
    log.write_text("".join(f"{line}\n" for line in [*lines, json.dumps(named)]), encoding="utf-8")
    with viewing(project) as view:
        first = view.json(f"/api/events?s=0/{session}")
        second = view.json(f"/api/events?s=0/{session}&from={first['next']}")  # what it names is on the first
        html_of_page = first["html"] + second["html"]
        asked_for = re.findall(r'data-image="(\d+)"', html_of_page)
        status, data, headers = view.get(f"/api/image?s=0/{session}&from={asked_for[0]}")
        whole = log.read_bytes()
        places = [whole.index(f'"no{at}"'.encode()) for at in range(len(forms))]
        starts = [whole.rindex(b"\n", 0, place) + 1 for place in places]
        refused = [view.get(f"/api/image?s=0/{session}&from={start}") for start in starts]
    assert len(asked_for) == 2  # named twice; a page asks for none that it may not draw
    assert (status, headers["Content-Type"], data) == (200, "image/png", png(8, 6))
    assert {answer[:2] for answer in refused} == {(404, b"not found")}
    assert html_of_page.count("<figcaption>") == 2 + len(forms)
    file = tmp_path / "out.html"
    assert project.coder("export", session, "--html", str(file)).returncode == 0
    page = file.read_text(encoding="utf-8")
    assert re.findall(r"<img [^>]*>", page) == [
        f'<img alt="image a.png (8×6)" src="data:image/png;base64,{image["content"]}">'
    ]
    assert page.count("<script") == 1
    assert page.count("<figcaption>") == 2 + len(forms)  # drawn once, named wherever it was


def test_markdown_keeps_html_from_running(project: Project, session: str, tmp_path: Path) -> None:
    file = tmp_path / "out.md"
    assert project.coder("export", session, "--md", str(file)).returncode == 0
    text = file.read_text(encoding="utf-8")
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "## Turn 1" in text
    assert "```diff" in text
    assert "<script" not in outside
    assert "> change a.py &lt;script" in outside


def test_code_in_an_answer_stays_as_it_is_in_markdown(project: Project, tmp_path: Path) -> None:
    """And what a page of HTML would hide in front of it does not make markup of it."""
    code = "```c\n#include <stdio.h>\n```\n\n- in a list:\n\n  ```\n  <b>![x](y)\n  ```"
    harm = "<script>\n```\n</script>\n\n```\n<img src=x>\n\na <= b, <!-- x --> ![x](y)\n\n~~~~\nleft open"
    session = recorded(project, [{"text": code}, {"text": harm}], "one", "two")
    file = tmp_path / "out.md"
    project.coder("export", session, "--md", str(file))
    text = file.read_text(encoding="utf-8")
    assert code in text
    assert "a <= b, &lt;!-- x --> \\!\\[x](y)" in text
    assert "\n&lt;img src=x>\n" in text
    assert "left open\n~~~~\n" in text
    assert not markup_of(text)


def test_code_by_indentation_is_fenced_in_markdown(project: Project, tmp_path: Path) -> None:
    """Other readers take it for the rest of a paragraph, a footnote or a list; those in quotes end
    elsewhere."""
    image = "![x](http://example.org/x)"
    answer = f"[a]: /b\n    {image}\n\nSee[^1]\n\n[^1]: a note\n\n    {image}\n    <img src=x>"
    quoted = f"> ~~~\n       > {image}\n> {image}\n> ~~~"
    session = recorded(project, [{"text": answer}, {"text": quoted}], "one", "two")
    file = tmp_path / "out.md"
    project.coder("export", session, "--md", str(file))
    text = file.read_text(encoding="utf-8")
    assert f"[a]: /b\n```\n{image}\n```\n" in text
    assert f"[^1]: a note\n\n```\n{image}\n<img src=x>\n```\n" in text
    assert text.count(image) == 2


def test_what_was_said_while_it_worked_is_told(project: Project, tmp_path: Path) -> None:
    driver = during_a_call(
        project, [{"calls": [bash("true")]}, {"text": "done"}], Steer("call it <b>lead</b>\neverywhere")
    )
    session = driver.engine.agent.session.id
    html_file, file = tmp_path / "out.html", tmp_path / "out.md"
    assert project.coder("export", session, "--html", str(html_file), "--md", str(file)).returncode == 0
    assert "> call it &lt;b>lead&lt;/b>\n> everywhere\n" in file.read_text(encoding="utf-8")
    assert re.search(
        r'<article class="steered"[^>]*><div class="said"><pre>call it &lt;b&gt;lead',
        html_file.read_text(encoding="utf-8"),
    )
    assert session in project.coder("sessions", "--search", "lead everywhere").stdout


def test_what_was_rewound_is_said(project: Project, tmp_path: Path) -> None:
    (project.cwd / "a.png").write_bytes(png(8, 6))
    script = [{"text": "first"}, {"text": "second\nand more"}, {"text": "third"}]
    driven = play(project, script, ["one @a.png", "two", "/rewind 2", "three"])
    session = driven.engine.agent.session.id
    file = tmp_path / "out.md"
    assert project.coder("export", session, "--md", str(file)).returncode == 0
    text = file.read_text(encoding="utf-8")
    assert re.findall(r"^## .*$", text, re.MULTILINE) == ["## Turn 1", "## Turn 2 (rewound)", "## Turn 3"]
    assert "- image a.png (8×6)" in text.partition("## Turn 2")[0]
    shown = project.coder("show", session).stdout.splitlines()
    heads = [line for line in shown if "── turn" in line]
    assert [line.startswith("┊ ") for line in heads] == [False, True, False]
    assert [line.endswith("· rewound") for line in heads] == [False, True, False]
    assert "```\n/rewind 2\n" in text
    assert {"┊ > two", "┊ second", "┊ and more", "first", "third", "> three", "  [image a.png (8×6)]"} <= {
        *shown
    }


def test_what_was_asked_answered_and_taken_back_in_few_words(project: Project, tmp_path: Path) -> None:
    """A command that is in the record whole is not told again; each hunk that was refused is an item."""
    session = recorded(project, [{"text": "done"}], "go")
    (log,) = project.logs()
    start = json.loads(log.read_text(encoding="utf-8").splitlines()[0])
    told = "Hunk 1 of 3 (a.py @@ -1 +1 @@) was refused by the person: no\nHunk 3 of 3 (a.py) was refused"
    asked = {
        "approval_id": "1",
        "call_id": "c",
        "tool": "bash",
        "subject": "set -e\ncat <<E\n<b>\nE",
        "reasons": [],
    }
    undo = {"action": "undo", "undone_turn": 1, "restored": [f"{start['meta']['cwd']}/a.py", "/etc/x"]}
    lists = ("removed", "merged", "kept", "uncovered", "kept_copies", "shared", "unsure")
    added = [
        ("approval", asked),
        ("approval", {**asked, "answer": "yes", "reason": told}),
        ("undo", {**undo, **{name: [] for name in lists}, "forced": False}),
        ("verify", {"state": "skipped", "reason": "Not verified."}),
        ("verify", {"state": "skipped", "reason": "Not verified.", "refused": ["make it"]}),
    ]
    with log.open("a", encoding="utf-8") as file:
        for kind, meta in added:
            file.write(json.dumps({**start, "type": kind, "turn": 1, "content": "x", "meta": meta}) + "\n")
    for option, name in (("--html", "a.html"), ("--md", "a.md")):
        done = project.coder("export", session, option, str(tmp_path / name))
        assert (done.stdout, done.stderr) == ("", f"Wrote {tmp_path / name}\n")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert text.endswith(
        "- asked for approval: bash set -e …\n\n"
        "- approval of bash set -e …: yes (by the person)\n"
        "  - Hunk 1 of 3 (a.py @@ -1 +1 @@) was refused by the person: no\n"
        "  - Hunk 3 of 3 (a.py) was refused\n\n"
        "- undid the file changes of turn 1: a.py, /etc/x\n\n"
        "- not run, not on the list of checks: make it\n\n"
    )
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<li>Hunk 3 of 3 (a.py) was refused</li></ul></article>" in page
    assert "of turn 1: a.py, /etc/x</article>" in page
    assert page.count("check skipped") == 1
    assert project.coder("show", session).stdout.splitlines()[-4:] == [
        "  approval of bash: yes · Hunk 1 of 3 (a.py @@ -1 +1 @@) was refused by the person: no",
        "    Hunk 3 of 3 (a.py) was refused",
        "· undid the file changes of turn 1: a.py, /etc/x",
        "· not run, not on the list of checks: make it",
    ]


def test_a_file_must_be_named(project: Project, session: str) -> None:
    done = project.coder("export", session)
    assert done.returncode == 2
    assert "--html FILE or --md FILE" in done.stderr


def test_secrets_stay_placeholders(project: Project, tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab9" * 28
    project.write(".env", f"ANTHROPIC_API_KEY={key}\n")
    script: list[dict[str, Any]] = [
        {"calls": [{"name": "bash", "arguments": {"command": "cat .env"}}]},
        {"text": "a key"},
    ]
    session = recorded(project, script, f"what is in .env {key}")
    for option in ("--html", "--md"):
        file = tmp_path / "out"
        project.coder("export", session, option, str(file))
        assert key not in file.read_text(encoding="utf-8")
    assert key not in project.coder("sessions", "--search", "what is in").stdout
    kept = b"".join(path.read_bytes() for path in (project.home / ".coder").glob("index*"))
    assert key.encode() not in kept
