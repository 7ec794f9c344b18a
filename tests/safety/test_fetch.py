"""`fetch` against real servers on loopback: what it gets, what it refuses, names that change their mind."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coder.tools.fetch import DEFAULT_CHARS, Fetch
from coder.tools.tool import Limits, ToolContext, ToolResult
from coder.tools.web import MAX_BYTES, html_to_text, is_public

Answer = tuple[int, dict[str, str], bytes]
PAGE = b"""<!doctype html><html><head><title>The  title</title><style>p{color:red}</style></head>
<body><h1>Head</h1><p>Some <b>bold</b>&amp;plain text, <a href="/next">a link</a>.</p>
<script>alert("no")</script><!-- hidden <p>comment</p> --><ul><li>one<li>two</ul>
<pre>def f():
    return 1</pre><table><tr><td>a<td>b</tr></table></body></html>"""


class Site:
    """A server whose answers are given by path."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[tuple[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers["Host"]))
                found = site.answers.get(self.path, (404, {}, b"not here"))
                status, headers, body = found() if callable(found) else found
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.server.shutdown()
    found.server.server_close()


class _Unused:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"fetch has no business with {name}")


def fetch(tool: Fetch, url: str, environment: dict[str, str] | None = None, **args: Any) -> ToolResult:
    unused: Any = _Unused()
    context = ToolContext(unused, unused, Limits(), Path("/nonexistent"), environment or {})
    return asyncio.run(tool.run({"url": url, **args}, context, lambda text: None))


def names(**addresses: str) -> Callable[[str, int], Any]:
    """A resolver that knows these names (`_` for `.`), and calls what it is told public."""

    async def look_up(host: str, port: int) -> list[str]:
        found = addresses.get(host.replace(".", "_"))
        if found is None:
            raise OSError("unknown")
        return found.split()

    return look_up


def test_a_page_becomes_text(site: Site) -> None:
    site.answers["/"] = (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE)
    result = fetch(Fetch(allow_private=True), site.url("/"))
    assert result.ok
    text = result.for_model
    assert "The title" in text
    assert "# Head" in text
    assert f"Some bold&plain text, a link ({site.url('/next')})." in text
    assert "- one\n- two" in text
    assert "def f():\n    return 1" in text
    assert "a | b" in text
    assert not any(word in text for word in ("alert", "hidden", "color:red"))


def test_plain_text_and_json_stay_as_they_are(site: Site) -> None:
    site.answers["/j"] = (200, {"Content-Type": "application/json"}, b'{"a": "<b>"}')
    assert '{"a": "<b>"}' in fetch(Fetch(allow_private=True), site.url("/j")).for_model


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f000001:{port}/",
        "http://0.0.0.0:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
def test_this_machine_is_refused_however_it_is_spelled(site: Site, url: str) -> None:
    result = fetch(Fetch(), url.format(port=site.port))
    assert not result.ok
    assert site.asked == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/", "gopher://x/", "/etc/passwd", ""]
)
def test_only_http(url: str) -> None:
    assert fetch(Fetch(), url).for_model.startswith("error: ")


@pytest.mark.parametrize(
    "ip",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),  # noqa: S104 - refused, not bound to
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "nonsense"),
        *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "fe80::1%eth0"),
    ],
)
def test_private_addresses(ip: str) -> None:
    assert not is_public(ip)


@pytest.mark.parametrize("ip", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "64:ff9b::808:808"])
def test_public_addresses(ip: str) -> None:
    assert is_public(ip)


def test_a_name_with_one_private_address_is_refused(site: Site) -> None:
    tool = Fetch(lookup=names(mixed_test="93.184.216.34 10.0.0.1", meta_test="169.254.169.254"))
    for host in ("mixed.test", "meta.test"):
        result = fetch(tool, f"http://{host}:{site.port}/")
        assert result.denied
        assert host in result.for_model


def public_by_decree(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 plays the public internet, so that a real server can answer; 127.0.0.2 stays private."""
    monkeypatch.setattr("coder.tools.web.is_public", lambda ip: ip == "127.0.0.1")


def test_a_redirect_to_a_private_address_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    public_by_decree(monkeypatch)
    site.answers["/go"] = (302, {"Location": site.url("/secret", "internal.test")}, b"")
    site.answers["/secret"] = (200, {"Content-Type": "text/plain"}, b"the secret")
    tool = Fetch(lookup=names(public_test="127.0.0.1", internal_test="127.0.0.2"))
    result = fetch(tool, site.url("/go", "public.test"))
    assert result.denied
    assert [path for path, _ in site.asked] == ["/go"]


def test_redirects_between_public_places_are_followed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    public_by_decree(monkeypatch)
    site.answers["/a"] = (301, {"Location": "/b?x=1"}, b"")
    site.answers["/b?x=1"] = (303, {"Location": site.url("/c", "other.test")}, b"")
    site.answers["/c"] = (200, {"Content-Type": "text/plain"}, b"arrived")
    tool = Fetch(lookup=names(public_test="127.0.0.1", other_test="127.0.0.1"))
    result = fetch(tool, site.url("/a", "public.test"))
    assert "arrived" in result.for_model
    assert site.asked[-1] == ("/c", f"other.test:{site.port}")
    assert result.meta["url"] == site.url("/c", "other.test")


def test_a_loop_of_redirects_ends(site: Site) -> None:
    site.answers["/l"] = (302, {"Location": "/l"}, b"")
    result = fetch(Fetch(allow_private=True), site.url("/l"))
    assert "redirects" in result.for_model
    assert len(site.asked) == 6


def test_a_redirect_to_another_scheme_is_refused(site: Site) -> None:
    site.answers["/f"] = (302, {"Location": "file:///etc/passwd"}, b"")
    assert fetch(Fetch(allow_private=True), site.url("/f")).for_model.startswith("error: ")


def test_a_name_is_asked_for_once_and_that_answer_is_used(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public when checked, private when connected to. There is no second time."""
    public_by_decree(monkeypatch)
    site.answers["/"] = (200, {"Content-Type": "text/plain"}, b"from the checked address")
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    result = fetch(Fetch(lookup=rebinding), site.url("/", "rebind.test"))
    assert "from the checked address" in result.for_model
    assert asked == ["rebind.test"]
    assert fetch(Fetch(lookup=rebinding), site.url("/", "rebind.test")).denied


def test_behind_a_proxy_local_names_are_refused_all_the_same(site: Site) -> None:
    environment = {"http_proxy": site.url("")}
    spelled = ("2130706433", "0x7f000001", "127.1", "0177.0.0.1", "[::1]", "[::ffff:10.0.0.1]")
    for host in ("localhost", "127.0.0.1", "10.0.0.1", "169.254.169.254", "db.internal", *spelled):
        assert fetch(Fetch(), f"http://{host}/", environment).denied
    assert site.asked == []


@pytest.mark.thorough
def test_size_is_bounded(site: Site) -> None:
    site.answers["/big"] = (200, {"Content-Type": "text/plain"}, b"x" * (MAX_BYTES + 1000))
    bomb = gzip.compress(b"y" * (MAX_BYTES * 4))
    site.answers["/bomb"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, bomb)
    for path in ("/big", "/bomb"):
        result = fetch(Fetch(allow_private=True), site.url(path))
        assert len(result.for_model) < DEFAULT_CHARS + 1000
        assert "only the first" in result.for_model
        assert f"offset {DEFAULT_CHARS}" in result.for_model


def test_paging(site: Site) -> None:
    site.answers["/p"] = (200, {"Content-Type": "text/plain"}, b"0123456789")
    tool = Fetch(allow_private=True)
    assert "\n01234\n[has_more: continue with offset 5]" in fetch(tool, site.url("/p"), max_chars=5).for_model
    rest = fetch(tool, site.url("/p"), offset=5)
    assert rest.for_model.endswith("\n56789")
    assert rest.meta["has_more"] is False


def test_time_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def late() -> Answer:
        done.wait(10)
        return 200, {}, b""

    monkeypatch.setattr("coder.tools.web.SECONDS", 0.2)
    site.answers["/late"] = late
    result = fetch(Fetch(allow_private=True), site.url("/late"))
    done.set()
    assert result.for_model.startswith("error: ")


def test_what_is_not_text_is_not_read(site: Site) -> None:
    site.answers["/i"] = (200, {"Content-Type": "image/png"}, b"\x89PNG\0")
    site.answers["/o"] = (200, {"Content-Type": "application/octet-stream"}, b"\0\1\2")
    for path, word in (("/i", "image/png"), ("/o", "octet-stream")):
        result = fetch(Fetch(allow_private=True), site.url(path))
        assert not result.ok
        assert word in result.for_model


def test_an_error_page_is_an_error_with_its_text(site: Site) -> None:
    result = fetch(Fetch(allow_private=True), site.url("/missing"))
    assert result.for_model.startswith("error: HTTP status 404")
    assert "not here" in result.for_model


def test_charsets_and_control_characters(site: Site) -> None:
    site.answers["/l"] = (200, {"Content-Type": "text/plain; charset=iso-8859-1"}, "café".encode("latin-1"))
    page = '<meta charset="gb18030"><p>中文</p>'.encode("gb18030")
    site.answers["/g"] = (200, {"Content-Type": "text/html"}, page)
    site.answers["/e"] = (200, {"Content-Type": "text/plain"}, b"a\x1b[31mred\x07\x00 caf\xe9")
    tool = Fetch(allow_private=True)
    assert "café" in fetch(tool, site.url("/l")).for_model
    assert "中文" in fetch(tool, site.url("/g")).for_model
    assert "a[31mred caf\ufffd" in fetch(tool, site.url("/e")).for_model


def test_an_unknown_name_says_so() -> None:
    result = fetch(Fetch(lookup=names()), "http://nowhere.test/")
    assert result.for_model.startswith("error: ")
    assert "nowhere.test" in result.for_model


@pytest.mark.parametrize(
    "piece", ["<!--", "<script>", "<a href='", "<", "<div>", "&", "<a><ul><li>", "]]>", "<![CDATA[", '<a b="']
)
def test_broken_html_ends(piece: str) -> None:
    for end in ("", ">", "-->", "</a>"):
        html_to_text(piece * (150_000 // len(piece)) + end, "http://x/")


@pytest.mark.parametrize(
    "name", ["idna", "punycode", "base64", "rot13", "undefined", "unicode_escape", "zlib"]
)
def test_what_is_no_charset_is_none(site: Site, name: str) -> None:
    site.answers["/"] = (200, {"Content-Type": f"text/plain; charset={name}"}, b"plain \\x41")
    result = fetch(Fetch(allow_private=True), site.url("/"))
    assert "plain \\x41" in result.for_model


def test_a_redirect_to_no_address_is_told(site: Site) -> None:
    site.answers["/"] = (302, {"Location": "http://["}, b"")
    assert fetch(Fetch(allow_private=True), site.url("/")).for_model.startswith("error: ")


@pytest.mark.parametrize("ip", ["192.0.0.8", "192.88.99.1", "fec0::1", "3fff::1", "2001:2::1", "5f00::1"])
def test_networks_for_special_uses_are_not_public(ip: str) -> None:
    """Also where this version of Python says so."""
    assert not is_public(ip)


@pytest.mark.parametrize(
    "ip",
    [
        *("168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::1"),
        *(
            "2600:1f00::5efe:a9fe:a9fe",
            "2a00::200:5efe:10.0.0.1",
            "2a00:1:2:3::a9fe:a9fe",
            "2001:0:a9fe:a9fe::1",
        ),
    ],
)
def test_where_clouds_tell_secrets_is_refused(tmp_path: Path, ip: str) -> None:
    assert not is_public(ip)

    async def lookup(_host: str, _port: int) -> list[str]:
        return [ip]

    context = ToolContext(None, None, Limits(), tmp_path, {})  # type: ignore[arg-type] # it needs neither
    tool = Fetch(lookup=lookup)
    result = asyncio.run(tool.run({"url": "http://metadata.example/latest"}, context, lambda _text: None))
    assert result.denied
    assert ip in result.for_model


@pytest.mark.parametrize("host", ["metadata", "metadata.google.internal", "2822734096", "0xa83f8110"])
def test_behind_a_proxy_metadata_is_refused_by_name(tmp_path: Path, host: str) -> None:
    """The proxy's address leads nowhere: it is not asked."""
    environment = {"http_proxy": "http://127.0.0.1:1"}
    context = ToolContext(None, None, Limits(), tmp_path, environment)  # type: ignore[arg-type] # it needs neither
    result = asyncio.run(Fetch().run({"url": f"http://{host}/latest"}, context, lambda _text: None))
    assert result.denied
