"""HTML to text that reads well: headings, lists, links, code and tables; no scripts, styles or comments."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = {"script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "select", "button"}
_BLOCKS = {
    *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "form", "figure"),
    *("ul", "ol", "dl", "dt", "dd", "table", "blockquote", "address", "details", "summary", "fieldset"),
}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def html_to_text(html: str, url: str) -> str:
    """The readable part of a page; links are made absolute with `url`."""
    reader = _Reader(url)
    reader.feed(_without_comments(html))
    reader.close()
    return reader.text()


def _without_comments(html: str) -> str:
    """Beforehand and in one pass: the parser takes quadratic time over comments that never end."""
    parts = []
    at = 0
    while (start := html.find("<!--", at)) >= 0:
        parts.append(html[at:start])
        end = html.find("-->", start + 4)
        if end < 0:
            return "".join(parts)
        at = end + 3
    return "".join([*parts, html[at:]])


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.url = url
        self.parts: list[str] = []
        self.skipping: list[str] = []
        self.links: list[tuple[str, int]] = []
        self.lists: list[int] = []  # for each open list: the next number, or 0 for bullets
        self.preformatted = 0
        self.title: list[str] | None = None
        self.title_text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self.skipping.append(tag)
        if self.skipping:
            return
        given = dict(attrs)
        if tag == "title":
            self.title = []
        elif tag in _HEADINGS:
            self._block(_HEADINGS[tag])
        elif tag in ("ul", "ol"):
            self._block()
            self.lists.append(1 if tag == "ol" else 0)
        elif tag == "li":
            self._line(self._bullet())
        elif tag == "pre":
            self._block("```\n")
            self.preformatted += 1
        elif tag == "code" and not self.preformatted:
            self.parts.append("`")
        elif tag == "a":
            self.links.append((self._target(given.get("href")), len(self.parts)))
        elif tag == "img" and given.get("alt"):
            self.parts.append(f"[{given['alt']}]")
        else:
            self._layout(tag)

    def _layout(self, tag: str) -> None:
        if tag == "br":
            self.parts.append("\n")
        elif tag == "hr":
            self._block("---\n")
        elif tag == "tr":
            self._line("")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag in _BLOCKS:
            self._block()

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            if tag in self.skipping:
                del self.skipping[self.skipping.index(tag) :]
            return
        if tag == "title" and self.title is not None:
            self.title_text, self.title = " ".join("".join(self.title).split()), None
        elif tag in ("ul", "ol"):
            if self.lists:
                self.lists.pop()
            self._block()
        elif tag == "pre" and self.preformatted:
            self.preformatted -= 1
            self._block("```\n")
        elif tag == "code" and not self.preformatted:
            self.parts.append("`")
        elif tag == "a" and self.links:
            target, since = self.links.pop()
            label = "".join(self.parts[since:]).strip()
            if target and label and target != label:
                self.parts.append(f" ({target})")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._block()

    def handle_data(self, data: str) -> None:
        if self.skipping:
            return
        if self.title is not None:
            self.title.append(data)
        else:
            self.parts.append(data if self.preformatted else _SPACES.sub(" ", data))

    def _block(self, start: str = "") -> None:
        self.parts.append("\n\n" + start)

    def _line(self, start: str) -> None:
        self.parts.append("\n" + start)

    def _bullet(self) -> str:
        indent = "  " * max(0, len(self.lists) - 1)
        if self.lists and self.lists[-1]:
            self.lists[-1] += 1
            return f"{indent}{self.lists[-1] - 1}. "
        return f"{indent}- "

    def _target(self, href: str | None) -> str:
        if not href or href.startswith(("#", "javascript:", "data:")):
            return ""
        try:
            return urljoin(self.url, href.strip())
        except ValueError:
            return ""

    def text(self) -> str:
        lines = []
        fenced = False
        for line in "".join(self.parts).split("\n"):
            fenced ^= line.startswith("```")
            lines.append(line if fenced else line.rstrip() if line.startswith("  ") else line.strip(" "))
        body = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
        return f"{self.title_text}\n\n{body}" if self.title_text else body
