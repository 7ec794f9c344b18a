"""Token counts, by request, turn and session."""

from __future__ import annotations

import msgspec

NOT_ASKED = "none"  # `source` of a step for which no request was made


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one request, or the sum of several. Of the prompt `cached` came from the provider's cache,
    `written` were put into it, where that costs.

    `source` says who counted: the provider's `usage`, or the local tokenizer where it sent none.
    """

    prompt: int = 0
    completion: int = 0
    total: int = 0
    cached: int = 0
    source: str = ""
    written: int = 0

    @property
    def cached_share(self) -> float | None:
        """Of the prompt, what the provider had cached; None where nothing was counted."""
        return min(1.0, self.cached / self.prompt) if self.prompt else None

    def plus(self, other: Usage) -> Usage:
        return Usage(
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            total=self.total + other.total,
            cached=self.cached + other.cached,
            written=self.written + other.written,
        )


class LocalTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Our own count of a request that the provider counted too."""

    prompt: int
    completion: int
    estimated: bool = False


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tokens` in the record and the snapshot."""

    prompt: int
    completion: int
    total: int
    cached: int = 0
    source: str = ""
    local: LocalTokens | None = None
    written: int = 0

    @classmethod
    def of(cls, usage: Usage, local: LocalTokens | None = None) -> Tokens:
        return cls(
            usage.prompt, usage.completion, usage.total, usage.cached, usage.source, local, usage.written
        )

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt, self.completion, self.total, self.cached, written=self.written)
