"""Reads what was written: the elements of a page, and what is markup in Markdown."""

from __future__ import annotations

from html.parser import HTMLParser

from markdown_it import MarkdownIt


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


def markup_of(text: str) -> list[str]:
    """What a viewer of Markdown would take for HTML or an image."""
    tokens = MarkdownIt("commonmark", {"html": True}).parse(text)
    inner = [child for token in tokens for child in token.children or []]
    return [one.content for one in (*tokens, *inner) if one.type in ("html_block", "html_inline", "image")]
