"""What the build of the site does beyond MkDocs: pages that are files of the repository's root, and checks.

A page that is only `<!-- include: NAME -->` shows that file. Links are rewritten from where they stand in the
repository to the page that shows the same file; what no page shows keeps its text and loses its link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_INCLUDE = re.compile(r"<!-- include: (\S+) -->\s*\Z")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# What a browser would fetch by itself from elsewhere.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def shown_by() -> dict[str, str]:
    """Which page shows a file of the repository, by its path from the root."""
    pages = {}
    for page in DOCS.glob("*.md"):
        pages[f"docs/{page.name}"] = page.name
        if found := _INCLUDE.match(page.read_text(encoding="utf-8")):
            pages[found[1]] = page.name
    return pages


def as_page(text: str, path: str) -> str:
    """The text of the page at `path` (from the root), with what it includes; links lead to pages."""
    if found := _INCLUDE.match(text):
        path = found[1]
        text = (ROOT / path).read_text(encoding="utf-8")
    pages = shown_by()

    def rewritten(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if image and place.startswith("docs/"):
            return f"![{label}]({place.removeprefix('docs/')})"
        if place in pages:
            return f"[{label}]({pages[place]}{anchor or ''})"
        return str(label)

    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(rewritten, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*pieces, _LINK.sub(rewritten, text[at:])])


def fetched(html: str) -> list[str]:
    """What this page or style sheet would load from the network."""
    return [match[0] for match in _FETCHED.finditer(html)]


# Called by MkDocs.


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return as_page(markdown, f"docs/{page.file.src_uri}")


def on_post_build(config: Any, **_: Any) -> None:
    site = Path(config["site_dir"])
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        found = fetched(path.read_text(encoding="utf-8"))
        if found:
            raise SystemExit(f"docs: {path.relative_to(site)} would load from the network: {found[0]}")
