"""The site: its reference is what the code says, every page can be reached, nothing is loaded from elsewhere.

That it builds without a warning is `./dev docs`, which the workflow runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from coder.cli.start import subcommands
from coder.config.schema import Config
from coder.engine.commands.table import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

import reference  # noqa: E402 - found by the line above
import site_hooks  # noqa: E402 - the path above must be set first


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_the_reference_is_what_the_code_says(name: str) -> None:
    made = reference.pages()[name]
    assert (DOCS / name).read_text(encoding="utf-8") == made, "run: ./dev docs (or python docs/reference.py)"


def test_the_reference_leaves_nothing_out() -> None:
    commands, settings = reference.commands(), reference.settings()
    assert all(f"`coder {name}`" in commands for name in subcommands())
    assert all(f"`/{name}" in commands for name in COMMANDS)
    for section in Config.__struct_fields__:
        fields = type(getattr(Config(), section)).__struct_encode_fields__  # as they are written
        part = settings.split(f"\n## `{section}`\n")[1].split("\n## ")[0]
        assert all(f"| `{field}` |" in part for field in fields), section


def navigation(entries: list[Any]) -> list[str]:
    found = []
    for entry in entries:
        (target,) = entry.values()
        found += [target] if isinstance(target, str) else navigation(target)
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(navigation(settings["nav"])) == sorted(path.name for path in DOCS.glob("*.md"))
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert settings["site_dir"].startswith(".dev/")  # which git ignores


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_of_the_site_lead_to_pages(page: Path) -> None:
    text = site_hooks.as_page(page.read_text(encoding="utf-8"), f"docs/{page.name}")
    assert "<!-- include" not in text
    for _, _, target, _ in site_hooks._LINK.findall(text):
        assert (DOCS / target).exists(), target


def test_links_are_rewritten() -> None:
    text = "[a](../SECURITY.md#x) [b](modes.md) [c](../src/coder/cli/args.py) [d](https://e.f) ![g](demo.svg)"
    assert site_hooks.as_page(text, "docs/x.md") == (
        "[a](security.md#x) [b](modes.md) c [d](https://e.f) ![g](demo.svg)"
    )
    assert (
        site_hooks.as_page("```\n[a](../SECURITY.md)\n```\n", "docs/x.md")
        == "```\n[a](../SECURITY.md)\n```\n"
    )


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js">',
        "<img src=//x.example/y.png>",
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css">',
        '<link href="https://fonts.gstatic.com" rel="preconnect" crossorigin>',
        "@import url(https://x.example/y.css)",
    ],
)
def test_what_would_be_fetched_is_seen(html: str) -> None:
    assert site_hooks.fetched(html)
    assert not site_hooks.fetched(
        '<a href="https://x.example">x</a><link rel="canonical" href="https://x.example">'
    )
