"""The picture in the README: its script still makes it, from a real session, and it shows what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from coder.cli.demo_script import QUESTION

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KEY_LINES = (
    QUESTION,
    "First I look at what is there",
    "read test_basket.py",
    "python3 -m unittest",
    "FAILED (failures=1)",
    "7 − for price in prices [ 1 :]:",
    "7 + for price in prices :",
    "Verified: `pytest -q` passed after the last edit",
    "nothing else has changed.",
    "~/basket>",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "demo.svg"
    command = [sys.executable, str(DOCS / "record_demo.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return path


def lines(path: Path) -> str:
    """The picture's text, row by row; parts of a row stand a space apart."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - our own file
        place = float(element.get("y", "")), float(element.get("x", ""))
        rows.setdefault(place[0], []).append((place[1], element.text or ""))
    return "\n".join(" ".join(text for _, text in sorted(rows[row])) for row in sorted(rows))


@pytest.mark.parametrize("key", KEY_LINES)
def test_the_committed_picture_shows(key: str) -> None:
    assert key in lines(DOCS / "demo.svg")


@pytest.mark.parametrize("key", KEY_LINES)
def test_the_script_makes_a_picture_that_shows(made: Path, key: str) -> None:
    assert key in lines(made)


def test_nothing_of_this_machine_is_in_it(made: Path) -> None:
    for path in (made, DOCS / "demo.svg"):
        text = path.read_text(encoding="utf-8")
        assert "/tmp/" not in text
        assert str(Path.home()) not in text


SCENES = {
    "start": "/help: commands and keys",
    "thinking": "thinking",
    "failure": "FAILED (failures=1)",
    "diff": "Allow?",
    "diff-light": "Allow?",
    "new-file": "more lines: d shows the whole file",
    "hunks": "Part 2 of 2?",
    "hunks-light": "Part 2 of 2?",
    "table": "What it does",
    "picker": "Add a test for an empty basket",
}


def test_the_page_shows_every_scene() -> None:
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(SCENES)
    for name, key in SCENES.items():
        assert f"](pictures/{name}.svg)" in page
        assert key in lines(DOCS / "pictures" / f"{name}.svg")
        assert "/tmp/" not in (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")


def test_the_script_makes_a_scene(tmp_path: Path) -> None:
    command = [sys.executable, str(DOCS / "pictures.py"), "--to", str(tmp_path), "diff-light"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "for price in" in lines(tmp_path / "diff-light.svg")
    assert "#ffffff" in (tmp_path / "diff-light.svg").read_text(encoding="utf-8")


def test_the_readme_shows_it_and_says_what_it_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/demo.svg)" in readme or 'src="docs/demo.svg"' in readme
