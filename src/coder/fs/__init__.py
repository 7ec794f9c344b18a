"""Files on disk: opened without symlink races (TOCTOU), replaced atomically, kept private."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # what `hashlib` exports; without OpenSSL, which takes 2 ms to load
except ImportError:
    from hashlib import blake2b


def digest(data: bytes, size: int, *, key: bytes = b"", person: bytes = b"") -> str:
    """BLAKE2b of `size` bytes, as hexadecimal digits."""
    return blake2b(data, digest_size=size, key=key, person=person).hexdigest()
