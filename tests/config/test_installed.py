"""Messages about extras name what was really installed, and never the other project that is called coder."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.config import distribution as installed
from coder.config.distribution import install_line
from coder.texts import PARTS, catalogue

ROOT = Path(__file__).parents[2]
PIP = f"{sys.executable} -m pip install "


def installation(directory: Path, monkeypatch: pytest.MonkeyPatch, direct_url: Any = None) -> None:
    """This one alone, as pip leaves it behind."""
    about = directory / "site" / "coder_agent-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: coder-agent\nVersion: 0.1.0\n")
    if direct_url is not None:
        (about / "direct_url.json").write_text(json.dumps(direct_url), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(about.parent)])


def test_an_editable_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "my checkout"
    place.mkdir()
    installation(tmp_path, monkeypatch, {"url": place.as_uri(), "dir_info": {"editable": True}})
    assert install_line("ray") == f"{PIP}-e '{place}[ray]'"


def test_a_checkout_that_was_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation(tmp_path, monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {}})
    assert install_line("otel") == f"{PIP}'{tmp_path}[otel]'"


def test_a_checkout_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation(tmp_path, monkeypatch, {"url": (tmp_path / "gone").as_uri(), "dir_info": {}})
    assert install_line("otel") == f"{PIP}'coder-agent[otel]'"


def test_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"vcs": "git", "commit_id": "1f", "requested_revision": "main"}
    installation(tmp_path, monkeypatch, {"url": "https://example.com/coder.git", "vcs_info": told})
    assert install_line("ray") == f"{PIP}'coder-agent[ray] @ git+https://example.com/coder.git@main'"


def test_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation(tmp_path, monkeypatch, {"url": "https://example.com/c.whl", "archive_info": {}})
    assert install_line("ray") == f"{PIP}'coder-agent[ray] @ https://example.com/c.whl'"


@pytest.mark.parametrize("direct_url", [None, {"nonsense": 1}, []])
def test_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: Any) -> None:
    installation(tmp_path, monkeypatch, direct_url)
    assert install_line("images") == f"{PIP}'coder-agent[images]'"


@pytest.mark.parametrize("checkout", [True, False])
def test_sources_that_nobody_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: bool
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(installed, "_CHECKOUT", tmp_path)
    if checkout:
        (tmp_path / "pyproject.toml").touch()
    assert install_line("ray") == PIP + (f"-e '{tmp_path}[ray]'" if checkout else "'coder-agent[ray]'")


def test_the_distribution_has_that_name() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'[project]\nname = "{installed.DISTRIBUTION}"\n' in project


def test_nobody_is_told_to_install_the_other_project() -> None:
    other = re.compile(r"(?:install|inject)[^\n`]*?[ '\"]coder(?=[\s'\"`\[)]|$)")
    assert other.search("pip install 'coder[ray]'")
    texts = [text for lang in ("en", "zh") for part in PARTS for text in catalogue(lang, part).values()]
    pages = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts += [page.read_text(encoding="utf-8") for page in pages]
    assert [found[0] for text in texts for found in other.finditer(text)] == []
