"""URLs, and proxy selection from the environment.

Parsed by hand: importing `urllib` would delay the first request by milliseconds.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import quote, unquote

import msgspec

from coder.base.http.errors import HttpError
from coder.texts import Text

_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True):
    """An http(s) URL. `target` is path and query, as in the request line."""

    scheme: str
    host: str
    port: int
    target: str
    credentials: str = ""  # `user:password`, decoded

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        """For `Host:`: IPv6 in brackets, the port only if it is not the default."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS.get(self.scheme) else f"{name}:{self.port}"

    @property
    def shown(self) -> str:
        """For messages: without credentials and query, which may contain a key."""
        return f"{self.scheme}://{self.host_header}{self.target.partition('?')[0]}"


def parse_address(url: str, schemes: tuple[str, ...] = ("http", "https")) -> Address:
    """Raises `HttpError` of kind `address`."""
    scheme, mark, rest = url.strip().partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in schemes:
        raise HttpError("address", Text("fault.scheme", url=repr(_without_credentials(url))))
    rest = rest.partition("#")[0]
    cut = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, target = rest[:cut], rest[cut:]
    userinfo, _, hostport = authority.rpartition("@")
    host, port = _host_and_port(hostport, _PORTS.get(scheme, 1080), url)
    if not target.startswith("/"):
        target = "/" + target
    return Address(scheme, host, port, _encoded(target), unquote(userinfo))


def _host_and_port(text: str, default: int, url: str) -> tuple[str, int]:
    host, port_text = text, ""
    if text.startswith("["):
        host, _, after = text[1:].partition("]")
        port_text = after.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port_text = text.partition(":")
    wrong = any(c.isspace() or ord(c) < 32 or c in "\\[]" for c in host)
    if not host or wrong or (port_text and not (port_text.isascii() and port_text.isdigit())):
        raise HttpError("address", Text("fault.url", url=repr(_without_credentials(url))))
    port = int(port_text[:6]) if port_text else default
    if not 0 < port < 65536:
        raise HttpError("address", Text("fault.port", port=port_text[:12]))
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise HttpError("address", Text("fault.host", host=repr(host))) from None
    return host.lower(), port


def _without_credentials(url: str) -> str:
    head, mark, tail = url.partition("@")
    return url if not mark else head.partition("://")[0] + "://…@" + tail


def _encoded(target: str) -> str:
    """Percent-encode spaces, control and non-ASCII characters."""
    if target.isascii() and target.isprintable() and " " not in target:
        return target
    return quote(target, safe="/?&=%:@!$'()*+,;~[]")


def proxy_for(address: Address, environment: Mapping[str, str]) -> Address | None:
    """The proxy from `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, if any."""
    url = _variable(environment, f"{address.scheme}_proxy") or _variable(environment, "all_proxy")
    if not url or any(
        _matches(address, entry.strip().lower())
        for entry in _variable(environment, "no_proxy").split(",")
        if entry.strip()
    ):
        return None
    if "://" not in url:
        url = "http://" + url
    if url.lower().startswith("socks"):
        raise HttpError("proxy", Text("fault.socks"))
    proxy = parse_address(url)
    # A remote proxy cannot reach a server on this machine, even if NO_PROXY does not list it.
    if _is_loopback(address.host) and not _is_loopback(proxy.host):
        return None
    return proxy


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host.startswith("127.") or host == "::1"


def _matches(address: Address, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(address.host, entry)
    name, _, port = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
    if port and port != str(address.port):
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return bool(name) and (address.host == name or address.host.endswith("." + name))


def _in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
