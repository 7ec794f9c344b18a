"""Which addresses belong to the public internet."""

from __future__ import annotations

import ipaddress
import socket

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
