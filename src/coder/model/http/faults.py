"""What can go wrong between us and a server, before any words are found for it.

`errors.py` turns these into sentences for the person.
"""

from __future__ import annotations

from typing import Literal

from coder.texts import Fault, Phrase

FaultKind = Literal[
    "address",  # the URL itself is wrong
    "header",  # a header, such as the key, that HTTP cannot carry
    "dns",
    "refused",
    "tls",
    "connect_timeout",
    "idle_timeout",
    "proxy",
    "closed",  # the connection ended where more was to come
    "protocol",  # what came is not HTTP, or not within its bounds
    "redirect",
]


class HttpFault(Fault):
    """A request that got no usable answer. `phrase` is a clause, not a sentence; it holds no key."""

    def __init__(self, kind: FaultKind, phrase: Phrase, *, before_answer: bool = False) -> None:
        super().__init__(phrase)
        self.kind: FaultKind = kind
        # A kept connection that ends before the first byte of an answer says nothing about the server.
        self.before_answer = before_answer
