"""Secret detection: vendors' token formats, private keys, and values that are named as secrets.

Almost all of a text is ruled out by searches for plain text, which are nearly free; expressions run only
where such a search succeeds, and every repetition is bounded. Random data alone (hashes, ids, images) is no
secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from coder.policy.secrets.named import Span, in_addresses, named_values, prose_names_secret

_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_TOKEN_BYTES = f"{_WORD}.+/=~:%$@?&".encode()
_RUNS = bytes(ord("w") if n in _TOKEN_BYTES else ord(" ") for n in range(256))
_SHORTEST_RUN = b"w" * 20
_PLAIN_RUN = bytes.maketrans(b"_-./=:", b"aaaaaa")
_PEM_LONGEST = 20_000
_LIKE_BASE64 = re.compile(r"(?:[A-Za-z0-9+/=:,\s-]|\\[nr]){0,20000}")
_PEM_LINE = r"(?:[ ]{0,6}\d{1,9}(?:\t|: ?)|[-+ ])?([A-Za-z0-9+/=]{4,90})\r?\Z"  # numbered, or of a diff
_PUTTY = r"Private-Lines: (\d{1,2})\r?\n[^\n]{0,12}?([A-Za-z0-9+/=]{40,90}\r?\n)"
_JWK_PRIVATE = r"\\?\"(?:d|p|q|dp|dq|qi|k)\\?\"\s{0,3}:\s{0,3}\\?\"([A-Za-z0-9_-]{22,1400})\\?\""
_DESCRIPTIONS = {
    "pem": "a private key",
    "jwt": "a signed token",
    "password": "an address with a password in it",
    "value": "a password or key",
}


def secret_in(text: str) -> str:
    """Describe the secret that a sentence seems to hold; empty if none.

    Formats count here whatever the token looks like: such a fact can be rephrased at no cost.
    """
    from coder.policy.secrets.vendors import find_tokens

    for _start, _end, kind in [
        *find_tokens(text, text, sure=False),
        *_pem(text, least=0),
        *in_addresses(text),
    ]:
        return _DESCRIPTIONS.get(kind, "an access key")
    named = prose_names_secret(text) or next(named_values(text), None)
    return _DESCRIPTIONS["value"] if named else ""


def find_secrets(text: str) -> list[Span]:
    """The spans of secrets, sorted and merged: start, end, kind."""
    spans = [*_tokens(text), *_pem(text), *named_values(text), *in_addresses(text)]
    if len(spans) < 2:
        return spans
    spans.sort(key=lambda span: (span[0], -span[1]))
    apart = [spans[0]]
    for span in spans[1:]:
        if span[0] >= apart[-1][1]:
            apart.append(span)
        elif span[1] > apart[-1][1]:
            apart[-1] = (apart[-1][0], span[1], apart[-1][2])
    return apart


def _dense_runs(text: str) -> str:
    """Long words that are not made of small letters alone: only these can hold a token."""
    data = text.encode("latin-1", "replace")  # one byte for each character
    classes = data.translate(_RUNS)
    runs = []
    at = classes.find(_SHORTEST_RUN)
    while at >= 0:
        end = classes.find(b" ", at)
        run = data[at:end] if end >= 0 else data[at:]
        if not (run.islower() and run.translate(_PLAIN_RUN).isalpha()):
            runs.append(run)
        at = classes.find(_SHORTEST_RUN, end) if end >= 0 else -1
    return b"\n".join(runs).decode("latin-1")


def _tokens(text: str) -> Iterator[Span]:
    runs = _dense_runs(text)
    if runs or "…" in text:
        from coder.policy.secrets.vendors import find_tokens  # parses its table

        yield from find_tokens(text, runs)


def _pem(text: str, least: int = 60) -> Iterator[Span]:
    yield from _pem_ends(text)
    at = 0
    while (at := text.find("-----BEGIN ", at)) >= 0:
        head_end = text.find("-----", at + 11, at + 80)
        label = text[at + 11 : head_end] if head_end > 0 else ""
        if not label.endswith(("PRIVATE KEY", "PRIVATE KEY BLOCK")):
            at += 11
            continue
        end = text.find(f"-----END {label}-----", head_end, at + _PEM_LONGEST)
        if end >= 0:
            end += len(label) + 14
        else:  # truncated: as far as it looks like base64
            end = _LIKE_BASE64.match(text, head_end + 5).end()  # type: ignore[union-attr] # it matches the empty text
        # A real key has lines of base64; `key omitted` between the markers has not.
        if end - head_end > least and (not least or re.search(r"[A-Za-z0-9+/]{40}", text[at:end])):
            yield at, end, "pem"
        at = max(end, at + 11)
    for found in re.finditer(_PUTTY, text):
        end = found.start(2) - 1
        for _ in range(int(found[1])):
            end = text.find("\n", end + 1) % (len(text) + 1)  # the end, if there are fewer lines
        yield found.start(2), end, "pem"
    if '"kty' in text:
        for found in re.finditer(_JWK_PRIVATE, text):
            yield found.start(1), found.end(1), "jwk"


def _pem_ends(text: str) -> Iterator[Span]:
    """Keys whose beginning is cut off (`tail`)."""
    at = 0
    while (at := text.find("-----END ", at)) >= 0:
        close = text.find("-----", at + 9, at + 80)
        label = text[at + 9 : close] if close > 0 else ""
        floor, end, at = max(0, at - _PEM_LONGEST), at, at + 9
        if not label.endswith(("PRIVATE KEY", "PRIVATE KEY BLOCK")):
            continue
        end = text.rfind("\n", floor, end) + 1  # the END line may be numbered as well
        start, long = -1, False
        while end > floor:
            begin = text.rfind("\n", floor, end - 1) + 1 or floor
            line = re.match(_PEM_LINE, text[begin : end - 1])
            if line is None:
                break
            start, long = begin + line.start(1), long or len(line[1]) >= 40
            end = begin
        if long:
            yield start, close + 5, "pem"
