"""Addresses and proxies."""

from __future__ import annotations

import pytest

from coder.base.http.address import parse_address, proxy_for
from coder.base.http.errors import HttpError


def test_parts_of_an_address() -> None:
    address = parse_address("HTTPS://me:p%40ss@Example.org/v1/x?key=1#frag")
    assert address.origin == ("https", "example.org", 443)
    assert address.target == "/v1/x?key=1"
    assert address.credentials == "me:p@ss"
    assert address.host_header == "example.org"
    assert address.shown == "https://example.org/v1/x"


def test_ipv6_and_ports() -> None:
    address = parse_address("http://[::1]:8080")
    assert (address.host, address.port, address.target) == ("::1", 8080, "/")
    assert address.host_header == "[::1]:8080"


def test_targets_are_encoded() -> None:
    assert parse_address("http://h/a b/é").target == "/a%20b/%C3%A9"


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://h", "http://", "http://h:port", "http://h:70000", "http://a b/"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(HttpError) as caught:
        parse_address(url)
    assert caught.value.kind == "address"


def test_a_wrong_address_does_not_show_its_password() -> None:
    with pytest.raises(HttpError) as caught:
        parse_address("ftp://me:secret@host/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:3128"}, "p"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "low"),
        ({"HTTP_PROXY": "http://p:3128"}, None),
        ({"ALL_PROXY": "p:3128"}, "p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.org, example.org"}, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".example.org"}, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "ample.org"}, "p"),
        ({"ALL_PROXY": "http://p", "no_proxy": "api.example.org:443"}, None),
        ({"ALL_PROXY": "http://p", "no_proxy": "api.example.org:8443"}, "p"),
    ],
)
def test_which_proxy(environment: dict[str, str], expected: str | None) -> None:
    proxy = proxy_for(parse_address("https://api.example.org/v1"), environment)
    assert (proxy.host if proxy else None) == expected


def test_networks_in_no_proxy() -> None:
    environment = {"HTTP_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}
    assert proxy_for(parse_address("http://10.2.3.4/"), environment) is None
    assert proxy_for(parse_address("http://11.2.3.4/"), environment) is not None


def test_a_proxy_elsewhere_is_not_asked_for_this_machine() -> None:
    local = parse_address("http://127.0.0.1:8080/v1")
    assert proxy_for(local, {"HTTP_PROXY": "http://proxy.corp:3128"}) is None
    assert proxy_for(local, {"HTTP_PROXY": "http://localhost:3128"}) is not None


def test_socks_is_refused_in_words() -> None:
    with pytest.raises(HttpError, match="SOCKS"):
        proxy_for(parse_address("https://h/"), {"ALL_PROXY": "socks5://p:1080"})
