"""What `fetch` does: one page, its redirects followed, as text.

The address that was checked is the one connected to, for the first request and for every redirect: a name
that means something else a moment later (DNS rebinding) leads nowhere."""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import re
import socket
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urljoin

import msgspec

from coder import __version__
from coder.base.http.address import Address, parse_address, proxy_for
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.base.text import utf8_safe
from coder.texts import Text
from coder.tools.fetch import DEFAULT_CHARS, MAX_CHARS, Lookup
from coder.tools.tool import Arguments, ToolContext, ToolResult, denied, failed, summed_up

SECONDS = 30.0  # for the whole of it, redirects included
MAX_BYTES = 5 << 20  # of a body
MAX_HTML = 2 << 20  # of a page that is turned into text
REDIRECTS = 5
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc")
# Codecs of Python that are no charset of the web; some take the square of the time.
_NO_CHARSET = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7")
_HEADERS = {
    "User-Agent": f"coder/{__version__}",
    "Accept": "text/html,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.5",
}
_TEXT_TYPES = ("json", "xml", "javascript", "ecmascript", "yaml", "toml", "csv", "x-sh", "graphql", "sql")


class _Refused(Exception):
    """An address that must not be fetched."""


class _Page(msgspec.Struct):
    """What came back in the end. `data` may be cut at the size limit."""

    url: str
    status: int
    content_type: str
    data: bytes


class Fetcher:
    """Fetches one page, only from public addresses (SSRF protection)."""

    def __init__(self, allow_private: bool, lookup: Lookup | None) -> None:
        self._allow_private = allow_private
        self._lookup = lookup or _look_up

    async def fetch(self, args: Arguments, context: ToolContext) -> ToolResult:
        url: str = args["url"]
        offset, limit = args.get("offset") or 0, args.get("max_chars") or DEFAULT_CHARS
        if offset < 0 or limit < 1:
            return failed("offset must not be negative and max_chars must be positive")
        client = HttpClient(
            idle=SECONDS, connect=SECONDS, environment=context.environment, resolve=self._checked_address
        )
        try:
            async with asyncio.timeout(SECONDS):
                page = await self._get(client, url, context)
        except TimeoutError:
            return failed(f"{utf8_safe(url)}: no answer within {SECONDS:g} seconds")
        except _Refused as refusal:
            return denied(str(refusal))
        except HttpError as error:
            return failed(f"{utf8_safe(url)}: {error}")
        finally:
            await client.close()
        return await _result(page, offset, min(limit, MAX_CHARS))

    async def _get(self, client: HttpClient, url: str, context: ToolContext) -> _Page:
        for _ in range(REDIRECTS + 1):
            address = parse_address(url)
            if proxy_for(address, context.environment) is not None:
                self._refuse_literal(address)
            response = await client.request("GET", url, _HEADERS, follow=False)
            if response.status not in (301, 302, 303, 307, 308):
                return await _body(response, url)
            response.abort()
            url = _next(url, response)
        raise HttpError("redirect", Text("fault.many_redirects", n=REDIRECTS))

    async def _checked_address(self, address: Address) -> str:
        """The IP address to connect to. One private address among several refuses the name."""
        try:
            found = await self._lookup(address.host, address.port)
        except OSError:
            raise HttpError("dns", Text("fault.host_named_unknown", host=address.host)) from None
        if not found:
            raise HttpError("dns", Text("fault.host_no_address", host=address.host))
        private = next((ip for ip in found if not is_public(ip)), "")
        if private and not self._allow_private:
            raise _Refused(_private(address.host, private))
        return found[0]

    def _refuse_literal(self, address: Address) -> None:
        """Behind a proxy the proxy resolves names; only literal addresses can be checked here."""
        host = address.host.rstrip(".")
        local = ("." not in host.strip("[]") and ":" not in host) or host.endswith(_LOCAL_NAMES)
        ip = literal_address(host)
        if not self._allow_private and (local or (ip is not None and not is_public(ip))):
            raise _Refused(_private(host, ip or host))


def _private(host: str, ip: str) -> str:
    advice = "Use a public address, or a command if something on this machine is wanted."
    return f"{utf8_safe(host)} is at the private or local address {ip}, which fetch does not reach. {advice}"


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _next(url: str, response: Response) -> str:
    location = response.headers.get("location", "").strip()
    if not location:
        raise HttpError("redirect", Text("fault.redirect_nowhere", status=response.status))
    try:
        return urljoin(url, location)
    except ValueError:
        raise HttpError("redirect", Text("fault.redirect_nowhere", status=response.status)) from None


async def _body(response: Response, url: str) -> _Page:
    try:
        data = await response.read(MAX_BYTES + 1)
    finally:
        response.abort()
    return _Page(url, response.status, response.headers.get("content-type", "").lower(), data)


async def _result(page: _Page, offset: int, limit: int) -> ToolResult:
    kind = page.content_type.partition(";")[0].strip()
    shown = utf8_safe(page.url)
    meta: dict[str, Any] = {"url": page.url, "status": page.status}
    meta |= {"content_type": kind, "bytes": len(page.data)}
    if not _is_text(kind, page.data):
        return failed(f"{shown} is {kind or 'binary'}, not text; fetch only reads text", **meta)
    cut = len(page.data) > MAX_BYTES
    text = await asyncio.to_thread(_text, page, kind)
    part = text[offset : offset + limit]
    more = len(text) > offset + limit
    lines = [f"[{shown} · HTTP {page.status} · {kind or 'text'} · {len(text)} characters]", part.rstrip("\n")]
    if cut:
        lines.append(f"[only the first {MAX_BYTES} bytes were read]")
    if more:
        lines.append(f"[has_more: continue with offset {offset + limit}]")
    summary = Text("tool.fetched", status=page.status, n=len(text))
    body = "\n".join(lines)
    if page.status >= 400:
        return summed_up(summary, f"error: HTTP status {page.status}\n{body}", ok=False, meta=meta)
    return summed_up(summary, body, detail=part, detail_kind="text", meta={**meta, "has_more": more})


def _is_text(kind: str, data: bytes) -> bool:
    if kind.startswith("text/") or any(word in kind for word in _TEXT_TYPES):
        return True
    return kind in ("", "application/octet-stream") and b"\0" not in data[:8192]


def _text(page: _Page, kind: str) -> str:
    data = page.data[:MAX_BYTES]
    html = kind in ("text/html", "application/xhtml+xml")
    text = data[: MAX_HTML if html else MAX_BYTES].decode(_charset(page, html), errors="replace")
    if html:
        text = html_to_text(text, page.url)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return "".join(c for c in text if c in "\n\t" or c.isprintable() or ord(c) > 0x9F)


def _charset(page: _Page, html: bool) -> str:
    named = re.search(r"charset=[\"']?([\w.:-]{1,40})", page.content_type)
    if named is None and html:
        head = page.data[:2048].decode("latin-1")
        named = re.search(r"<meta[^>]{1,200}charset=[\"']?([\w.:-]{1,40})", head, re.IGNORECASE)
    try:
        name = codecs.lookup(named[1]).name if named else "utf-8"
        "".encode(name)  # not so with what turns bytes into bytes, such as base64
    except (LookupError, UnicodeError):
        return "utf-8"
    return "utf-8" if name.replace("_", "-") in _NO_CHARSET else name


# What some versions of Python call global and is not: protocol assignments, relays, documentation; and the
# address in a public range at which a cloud (Azure) tells its machines' secrets.
_SPECIAL = ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20", "168.63.129.16/32")
_ISATAP = (0x00005EFE, 0x02005EFE)  # third quarter of an address that embeds an IPv4 address
_METADATA = ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192")


def is_public(ip: str) -> bool:
    """Whether an address is on the public internet, also if embedded in another (IPv4-mapped, NAT64)."""
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            return False
        last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address in ipaddress.ip_network("64:ff9b::/96") or int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            inner = last
        if str(last) in _METADATA:  # by a translation prefix (NAT64) of the network's own
            return False
        if inner is not None:
            return is_public(str(inner))
        if address not in ipaddress.ip_network("2000::/3"):
            return False
    if any(address in ipaddress.ip_network(network) for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def literal_address(host: str) -> str | None:
    """The IP address that a host literally is, in any spelling (`127.1`, `0x7f000001`); None for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


_SKIPPED = {
    *("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "select", "button")
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
    while end >= 0 and html.count('"', at, end) % 2:
        end = html.find(">", end + 1, at + _LONGEST_TAG)
        if end - at > 1024:  # a quote that was never closed, more likely than an attribute this long
            break
    return (end + 1 if end >= 0 else -1), found[0].lower() if found else ""


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
