"""Transport faults by kind; `errors.py` turns them into `ModelError`s."""

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
    "closed",  # the connection ended early
    "protocol",  # the response is not valid HTTP, or exceeds a limit
    "redirect",
]


class HttpFault(Fault):
    """A request without a usable response. `phrase` is a clause, not a sentence, and contains no key."""

    def __init__(self, kind: FaultKind, phrase: Phrase, *, before_answer: bool = False) -> None:
        super().__init__(phrase)
        self.kind: FaultKind = kind
        # A reused connection that closes before the first byte was merely stale: safe to resend.
        self.before_answer = before_answer
