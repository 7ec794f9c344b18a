"""Exported files: whole, self-contained and inert."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from view_kit import HOSTILE, recorded

from kit.driving import Project


class Tags(HTMLParser):
    """Every element and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


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


def test_the_page_holds_all_and_runs_nothing(project: Project, session: str, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    assert project.coder("export", session, "--html", str(file)).returncode == 0
    page = file.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not tags.tags & {"script", "img", "iframe", "link", "object", "embed", "form", "base", "video"}
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "style")]
    assert all(re.fullmatch(r"#turn-\d+", link) for link in tags.links)
    assert "default-src 'none'; style-src 'sha256-" in page.replace("&#x27;", "'")
    text = "".join(tags.text)
    for held in ("change a.py", "<script>window.hacked=1</script>", "hm ", "two = '", "Thinking", "Turn 1"):
        assert held in text, held
    assert '<span class="del">' in page
    assert "<td>1</td>" in page
    assert "\x1b" not in page


def test_markdown_keeps_html_from_running(project: Project, session: str, tmp_path: Path) -> None:
    file = tmp_path / "out.md"
    assert project.coder("export", session, "--md", str(file)).returncode == 0
    text = file.read_text(encoding="utf-8")
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "## Turn 1" in text
    assert "```diff" in text
    assert "<script" not in outside.replace("> change a.py <script", "")
    assert "&lt;script" in outside


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
