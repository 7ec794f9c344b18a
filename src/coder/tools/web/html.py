"""HTML to text that reads well: headings, lists, links, code and tables; no scripts, styles or comments.

A scanner of our own, linear in the length of the page: `html.parser` takes time that grows with the square
of it over quotes and comments that never end, and pages are written by strangers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urljoin

_SKIPPED = {
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "canvas",
    "select",
    "button",
}
_BLOCKS = {
    *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "form", "figure"),
    *("ul", "ol", "dl", "dt", "dd", "table", "blockquote", "address", "details", "summary", "fieldset"),
}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LONGEST_TAG = 8192
_DEEPEST_LIST = 8
_NAME = re.compile(r"/?[A-Za-z][A-Za-z0-9:-]{0,40}")
_ATTRIBUTE = re.compile(r"\b(href|alt)\s{0,9}=\s{0,9}(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_BLANK_LINES = re.compile(r"\n{3,}")

Token = tuple[str, str]  # a tag's name (`/p` where it ends one, empty for text) and its attributes or text


def html_to_text(html: str, url: str) -> str:
    """The readable part of a page; links are made absolute with `url`."""
    reader = _Reader(url)
    for name, content in _tokens(html):
        if not name:
            reader.text_is(unescape(content))
        elif name.startswith("/"):
            reader.ends(name[1:])
        else:
            reader.begins(name, content)
    return reader.result()


def _tokens(html: str) -> Iterator[Token]:
    lowered = html.replace("İ", "I").lower()
    last = html.rfind(">")
    at = text_from = 0
    while 0 <= (at := html.find("<", at)) < last:
        end, name = _markup(html, at)
        if end < 0:
            at += 1
            continue
        yield "", html[text_from:at]
        if name:
            yield name, html[at + 1 + len(name) : end - 1]
        if name in _SKIPPED:
            closing = lowered.find(f"</{name}", end)
            end = closing if closing >= 0 else len(html)
        at = text_from = end
    yield "", html[text_from:]


def _markup(html: str, at: int) -> tuple[int, str]:
    """Where the markup at `at` ends (-1: it is none) and the name of the tag, if it is one."""
    if html.startswith("<!--", at):
        end = html.find("-->", at + 4)
        return (end + 3 if end >= 0 else len(html)), ""
    found = _NAME.match(html, at + 1)
    if found is None and html[at + 1 : at + 2] not in ("!", "?"):
        return -1, ""
    end = html.find(">", at, at + _LONGEST_TAG)
    while end >= 0 and _inside_quotes(html, at, end):
        end = html.find(">", end + 1, at + _LONGEST_TAG)
        if end - at > 1024:  # a quote that was never closed, more likely than an attribute this long
            break
    return (end + 1 if end >= 0 else -1), found[0].lower() if found else ""


def _inside_quotes(html: str, at: int, end: int) -> bool:
    return html.count('"', at, end) % 2 == 1


class _Reader:
    def __init__(self, url: str) -> None:
        self.url = url
        self.parts: list[str] = []
        self.link: tuple[str, int] | None = None
        self.lists: list[int] = []  # for each open list: the next number, or 0 for bullets
        self.preformatted = False
        self.title: list[str] | None = None
        self.title_text = ""

    def begins(self, tag: str, attributes: str) -> None:
        if tag == "title":
            self.title = []
        elif tag in _HEADINGS:
            self._block(_HEADINGS[tag])
        elif tag in ("ul", "ol"):
            self._block()
            if len(self.lists) < _DEEPEST_LIST:
                self.lists.append(1 if tag == "ol" else 0)
        elif tag == "li":
            self.parts.append("\n" + self._bullet())
        elif tag == "pre":
            self._block("```\n")
            self.preformatted = True
        elif tag == "code" and not self.preformatted:
            self.parts.append("`")
        elif tag == "a":
            self.link = (self._target(_attribute(attributes, "href")), len(self.parts))
        elif tag == "img":
            alt = _attribute(attributes, "alt")
            self.parts.append(f"[{alt}]" if alt else "")
        else:
            self._layout(tag)

    def _layout(self, tag: str) -> None:
        if tag in ("br", "tr"):
            self.parts.append("\n")
        elif tag == "hr":
            self._block("---\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag in _BLOCKS:
            self._block()

    def ends(self, tag: str) -> None:
        if tag == "title" and self.title is not None:
            self.title_text, self.title = " ".join("".join(self.title).split()), None
        elif tag in ("ul", "ol"):
            if self.lists:
                self.lists.pop()
            self._block()
        elif tag == "pre" and self.preformatted:
            self.preformatted = False
            self._block("```\n")
        elif tag == "code" and not self.preformatted:
            self.parts.append("`")
        elif tag == "a" and self.link is not None:
            (target, since), self.link = self.link, None
            label = "".join(self.parts[since:]).strip()
            if target and label and target != label:
                self.parts.append(f" ({target})")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._block()

    def text_is(self, text: str) -> None:
        if self.title is not None:
            self.title.append(text)
        elif text:
            self.parts.append(text if self.preformatted else _SPACES.sub(" ", text))

    def _block(self, start: str = "") -> None:
        self.parts.append("\n\n" + start)

    def _bullet(self) -> str:
        indent = "  " * max(0, len(self.lists) - 1)
        if self.lists and self.lists[-1]:
            self.lists[-1] += 1
            return f"{indent}{self.lists[-1] - 1}. "
        return f"{indent}- "

    def _target(self, href: str) -> str:
        if not href or href.startswith(("#", "javascript:", "data:")):
            return ""
        try:
            return urljoin(self.url, href.strip())
        except ValueError:
            return ""

    def result(self) -> str:
        lines = []
        fenced = False
        for line in "".join(self.parts).split("\n"):
            fenced ^= line.startswith("```")
            lines.append(line if fenced else line.rstrip() if line.startswith("  ") else line.strip(" "))
        body = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
        return f"{self.title_text}\n\n{body}" if self.title_text else body


def _attribute(attributes: str, name: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes):
        if found[1].lower() == name:
            return unescape(found[2] or found[3] or found[4] or "")
    return ""
