"""What pages list is what the code has: providers, files in `$CODER_HOME`, the issue templates."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import yaml

import coder
from coder.config import ConfigError
from coder.config.providers import KNOWN, NoProvider
from coder.history.sinks import HistoryError
from coder.models.model import ModelError
from kit import ScriptedServer
from kit.calls import bash_step, step
from kit.driving import Project

ROOT = Path(__file__).parents[2]


def first_cells(page: str) -> list[str]:
    """What stands in backticks in the first cell of each row."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_variables_of_every_provider_are_listed() -> None:
    page = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|`]+ \| `(\w+)` \| `(\w+)` \| `(\w+)` \|$", page, re.MULTILINE)
    known = [(one.key_variable, one.base_variable, one.model_variable) for one in KNOWN]
    assert rows == [("CODER_API_KEY", "CODER_BASE_URL", "CODER_MODEL"), *known]
    for one in KNOWN:
        assert not one.key_prefix or f"`{one.key_prefix}…`" in page


def test_what_a_session_leaves_in_the_home_is_listed(project: Project) -> None:
    project.configure(permission={"preset": "yolo"})
    answers = [
        step("save_memory", fact="tests need Postgres", scope="home"),
        step("write", path="a.txt", content="x"),
        bash_step("touch b.txt && seq 100000"),
        {"text": "done"},
    ]
    with ScriptedServer(answers) as server:
        done = project.coder("--once", "go", url=server.url)
    assert done.returncode == 0, done.stderr
    project.coder("sessions", "--search", "go")
    listed = first_cells("home.md")
    left = {path.name for path in (project.home / ".coder").iterdir() if not path.name.endswith(".lock")}
    assert {"config.json", "memory.md", "index.db", "undo", "outputs"} <= left
    unlisted = [name for name in left if not any(Path(name).match(one.rstrip("/")) for one in listed)]
    assert unlisted == []
    in_project = {path.name for path in (project.cwd / ".coder").iterdir()}
    assert in_project <= {one.removeprefix(".coder/").rstrip("/") for one in listed}


NOBODY = "http://127.0.0.1:9/v1"  # the discard port, where nothing listens


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, NoProvider),
        ({"base_url": "nowhere"}, ConfigError),
        ({"base_url": NOBODY}, ModelError),
        ({"base_url": NOBODY, "model": "m", "resume": "none"}, HistoryError),
    ],
)
def test_the_sdk_raises_as_its_page_says(
    project: Project, options: dict[str, str], error: type[Exception]
) -> None:
    page = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
    assert f"`{error.__module__}.{error.__name__}`" in page or f"`{error.__name__}`" in page
    running = coder.run_agent("hi", cwd=project.cwd, environ=project.environ(), **options)
    with pytest.raises(error):
        asyncio.run(running)


def test_a_turn_that_fails_raises_nothing(project: Project) -> None:
    running = coder.run_agent("hi", cwd=project.cwd, environ=project.environ(), base_url=NOBODY, model="m")
    result = asyncio.run(running)
    assert (result.status, result.final_text) == ("error", "")
    assert "connection refused" in result.error
    assert result.session_id


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_issue_templates_are_forms(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    kinds = {"markdown", "textarea", "input", "checkboxes", "dropdown"}
    assert {part["type"] for part in form["body"]} <= kinds
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


def test_security_problems_are_led_away_from_issues() -> None:
    chooser = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text(encoding="utf-8"))
    assert chooser["blank_issues_enabled"] is False
    assert any("Report a vulnerability" in link["about"] for link in chooser["contact_links"])
    assert "Report a vulnerability" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
