"""Secret detection: known token formats by their prefix, and random-looking values of names like `password`.

Each prefix is searched as plain text first, which is nearly free; a regular expression is compiled and run
only where its prefix occurs, and every repetition is bounded. Random data alone (hashes, ids, images) is no
secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

Span = tuple[int, int, str]

_JOINED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_Format = tuple[str, tuple[str, ...], str]
_JWT_REST = r"\.eyJ[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{16,2000}"
# kind, its prefixes, and what follows a prefix. If there is a group, only that is the secret.
_FORMATS: tuple[_Format, ...] = (
    ("aws", ("AKIA",), r"[A-Z2-7]{16}"),
    ("aws", ("ASIA",), r"(?=[A-Z]{0,15}[2-7])[A-Z2-7]{16}"),  # not a word in capitals
    ("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36,255}"),
    ("github", ("github_pat_",), r"[A-Za-z0-9_]{40,255}"),
    ("gitlab", ("glpat-", "gldt-", "glrt-", "glptt-"), r"[A-Za-z0-9_.-]{20,255}"),
    ("anthropic", ("sk-ant-",), r"[a-z0-9]{3,12}-[A-Za-z0-9_-]{32,255}"),
    ("openai", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"), r"[A-Za-z0-9_-]{20,255}"),
    ("openai", ("sk-",), r"(?!ant-|proj-|svcacct-|admin-|or-v1-)(?:[a-z]{2,10}-)?[A-Za-z0-9_-]{20,255}"),
    ("google", ("AIzaSy",), r"[0-9A-Za-z_-]{33}"),
    ("google", ("AIza",), r"(?!Sy)[0-9A-Za-z_-]{35}"),
    ("google", ("GOCSPX-",), r"[0-9A-Za-z_-]{28}"),
    ("google", ("ya29.",), r"[0-9A-Za-z_-]{30,1024}"),
    (
        "slack",
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        r"[0-9A-Za-z-]{20,255}",
    ),
    ("slack", ("hooks.slack.com/services/",), r"(T[0-9A-Z]{5,15}/B[0-9A-Z]{5,15}/[0-9A-Za-z]{16,40})"),
    ("stripe", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"[0-9A-Za-z]{16,255}"),
    ("stripe", ("whsec_",), r"[A-Za-z0-9+/=]{24,128}"),
    ("jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,8000}+" + _JWT_REST),
    ("npm", ("npm_",), r"[A-Za-z0-9]{36}"),
    ("pypi", ("pypi-AgE",), r"[A-Za-z0-9_-]{50,1000}"),
    ("huggingface", ("hf_",), r"[A-Za-z0-9]{34,64}"),
    ("digitalocean", ("dop_v1_", "doo_v1_"), r"[a-f0-9]{64}"),
    ("sendgrid", ("SG.",), r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("shopify", ("shpat_", "shpss_", "shpca_", "shppa_"), r"[a-fA-F0-9]{32}"),
    ("groq", ("gsk_",), r"[A-Za-z0-9]{40,80}"),
    ("xai", ("xai-",), r"[A-Za-z0-9]{60,100}"),
    ("replicate", ("r8_",), r"[A-Za-z0-9]{37}"),
    ("databricks", ("dapi",), r"[a-f0-9]{32}(?:-\d)?"),
    ("age", ("AGE-SECRET-KEY-1",), r"[0-9A-Z]{58}"),
    ("vault", ("hvs.", "hvb."), r"[A-Za-z0-9_-]{24,255}"),
    ("bearer", ("Bearer ", "bearer "), r" {0,3}([A-Za-z0-9_.~+/=-]{16,2000})"),
)
_NEED_RANDOM = {"openai", "bearer", "slack", "vault"}  # ordinary words begin so too: `sk-fading-circle-dot…`
# Prefixes that also occur inside words (`task-…`) or base64: after a letter or digit they count only if what
# follows is long, unbroken and no hash.
_BEGINNING = ("sk-", "AIza")
_OF_ONE_PIECE = r"(?=[A-Za-z0-9]{0,60}[G-Z])[A-Za-z0-9]{40,255}"
_ANYWHERE = ("hooks.slack.com/services/", "Bearer ", "bearer ")
_MARKS = tuple((mark, kind, after) for kind, marks, after in _FORMATS for mark in marks)

_SECRET_NAMES = ("secret", "token", "passw", "pwd", "credential", "key")
# Which `key`s are secret; most in programs are not.
_KEYS = (
    "api",
    "access",
    "account",
    "auth",
    "encryption",
    "master",
    "private",
    "secret",
    "signing",
    "storage",
)
_HARMLESS = ("next", "page", "continuation", "publickey", "public")  # names of harmless tokens
_TYPE = r"::\w{0,40}\Z"  # `AWS::ApiGateway::ApiKey`: a table of types, whose values are checksums
_PEM_LONGEST = 20_000
_JWT_LONGEST = 8003  # of a header, as its expression bounds it
_PEM_LINE = r"(?:[ ]{0,6}\d{1,9}(?:\t|: ?)|[-+ ])?([A-Za-z0-9+/=]{4,90})\r?\Z"  # numbered, or of a diff
_ESCAPE = r"(?:\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;:]{0,12}[mK])\Z"
_CUT = r"[A-Za-z0-9_.+/=-]{6,255}+(?=… ?\[|\n\[… )"  # truncated by a tool
_HEX = r"[0-9a-f]{8,16}\Z"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_WORD_BREAK = r"[^A-Za-z0-9]+"
_SAMPLE = r"(?i)example|your[-_]|changeme|placeholder|dummy|x{5}|\*{3}|\.{3}|redacted|(.)\1{7}"


# Prose about a secret: stricter than for files, since memory is permanent.
_IN_PROSE = (
    r"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[ _-]?key|credentials?|密码|口令|密钥|令牌)"
    r"(?:\s+(?:is|was)\b|\s*[:=：]|\s*(?:是|为))\s*[`\"'“]?(?=[^\s`\"'”]*[\d!@#$%^&*_+=])[^\s`\"'”]{6,}"
)
_DESCRIPTIONS = {
    "pem": "a private key",
    "jwt": "a signed token",
    "password": "an address with a password in it",
    "value": "a password or key",
}


def secret_in(text: str) -> str:
    """Describe the secret that a sentence seems to hold; empty if none.

    Prefixes count here whatever follows: such a fact can be rephrased at no cost.
    """
    for _start, _end, kind in [*_prefixed(text, sure=False), *_pem(text, least=0), *_in_addresses(text)]:
        return _DESCRIPTIONS.get(kind, "an access key")
    return (
        _DESCRIPTIONS["value"]
        if _expression(_IN_PROSE).search(text) or next(_named_values(text), None)
        else ""
    )


def find_secrets(text: str) -> list[Span]:
    """The spans of secrets, sorted and merged: start, end, kind."""
    spans = [*_prefixed(text), *_pem(text), *_named_values(text), *_in_addresses(text)]
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


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _has_payload(text: str, at: int, run: list[int]) -> bool:
    """Whether a payload and a signature follow the JWT header that may begin at `at`. Prefixes within one
    run of characters share its end, cached in `run` with the answer: searching from each would be quadratic.
    """
    if at >= run[0]:
        header = _expression(r"[A-Za-z0-9_-]*+").match(text, at)
        end = header.end() if header is not None else at
        run[:] = end, _expression(_JWT_REST).match(text, end) is not None
    return bool(run[1]) and run[0] - at <= _JWT_LONGEST


def _prefixed(text: str, *, sure: bool = True) -> Iterator[Span]:
    for mark, kind, after in _MARKS:
        run = [0, 0]
        at = text.find(mark)
        while at >= 0:
            if at and mark in _BEGINNING and text[at - 1] in _JOINED and not _stands_out(text, at, mark):
                at = text.find(mark, at + len(mark))
                continue
            possible = kind != "jwt" or _has_payload(text, at, run)
            found = _expression(after).match(text, at + len(mark)) if possible else None
            if found is None:
                cut = None if mark in _ANYWHERE else _expression(_CUT).match(text, at + len(mark))
                if cut is not None and any(c.isdigit() for c in cut[0]):
                    yield at, cut.end(), kind
                at = text.find(mark, at + len(mark))
                continue
            if _is_real(kind, found[found.re.groups]) or not (sure or kind == "bearer"):
                yield found.start(1) if found.re.groups else at, found.end(), kind
            at = text.find(mark, found.end())


def _stands_out(text: str, at: int, mark: str) -> bool:
    return _after_escape(text, at) or _expression(_OF_ONE_PIECE).match(text, at + len(mark)) is not None


def _after_escape(text: str, at: int) -> bool:
    """Whether the preceding character ends an escape: `\\nghp_…`, `%3Dghp_…`."""
    return _expression(_ESCAPE).search(text, max(0, at - 16), at) is not None


def _is_real(kind: str, value: str) -> bool:
    return not _expression(_SAMPLE).search(value) and (kind not in _NEED_RANDOM or looks_random(value))


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
            end = _expression(r"(?:[A-Za-z0-9+/=:,\s-]|\\[nr]){0,20000}").match(text, head_end + 5).end()  # type: ignore[union-attr] # it matches the empty text
        # A real key has lines of base64; `key omitted` between the markers has not.
        if end - head_end > least and (not least or _expression(r"[A-Za-z0-9+/]{40}").search(text, at, end)):
            yield at, end, "pem"
        at = max(end, at + 11)


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
            line = _expression(_PEM_LINE).match(text[begin : end - 1])
            if line is None:
                break
            start, long = begin + line.start(1), long or len(line[1]) >= 40
            end = begin
        if long:
            yield start, close + 5, "pem"


def _named_values(text: str) -> Iterator[Span]:
    """Random-looking values of names like `DB_PASSWORD` or `apiKey`."""
    lowered = text.replace("İ", "I").lower()  # the only letter whose lower case is longer
    follows = _expression(
        r"(?!iz)[A-Za-z0-9_.-]{0,30}\\?[\"'`\]]{0,2}[ \t]{0,3}(=>|:=|[:=])[ \t]{0,3}(\\?[\"'`]?)"
        r"([A-Za-z0-9+/=_.~!@#$%^&*?-]{12,512})(.?)"
    )
    for name in _SECRET_NAMES:
        at = lowered.find(name)
        while at >= 0:
            before = lowered[max(0, at - 14) : at].rstrip("_- ")
            wanted = before.endswith(_KEYS) if name == "key" else not before.endswith(_HARMLESS)
            found = follows.match(text, at + len(name)) if wanted else None
            if found is None:
                at = lowered.find(name, at + len(name))
                continue
            checksum = _expression(_HEX).match(found[3]) and _expression(_TYPE).search(
                lowered, max(0, at - 40), at
            )
            if not checksum and _is_value(found[3], found[4], quoted=bool(found[2])):
                yield found.start(3), found.start(3) + len(found[3].rstrip("&?!")), "value"
            at = lowered.find(name, found.end(3))


def _is_value(value: str, next_character: str, *, quoted: bool) -> bool:
    if next_character in ("(", "[", "{") or "://" in value or value.startswith(("$", "/", "./", "../", "~/")):
        return False
    if _expression(_UUID).match(value) or _expression(_SAMPLE).search(value):
        return False
    if not quoted and any(name in value.lower() for name in _SECRET_NAMES):
        return False  # code: `key: x25519.X25519PrivateKey`
    return looks_random(value, least=12 if quoted else 14)


def looks_random(value: str, least: int = 14) -> bool:
    """Whether it alternates between digits and letters, upper and lower case, more than words do."""
    random = 0
    for run in _expression(_WORD_BREAK).split(value):
        if len(run) < 6:
            continue
        kinds = [0 if c.isdigit() else 1 if c.islower() else 2 for c in run]
        changes = sum(a != b for a, b in pairwise(kinds))
        if (kinds.count(0) >= 2 and changes * 4 >= len(run)) or changes * 2 >= len(run):
            random += len(run)
    return random >= least and len(set(value)) >= 8


def _in_addresses(text: str) -> Iterator[Span]:
    """`scheme://user:password@host`."""
    at = text.find("://")
    if at < 0 or "@" not in text:
        return
    found_at = _expression(r"://([^\s:/@'\"<>{}$]{0,64}):([^\s/@'\"<>{}$]{6,256})@")
    while at >= 0:
        found = found_at.match(text, at)
        if found is not None and found[2] != found[1] and not _is_sample_password(found[1], found[2]):
            yield found.start(2), found.end(2), "password"
        at = text.find("://", at + 3)


def _is_sample_password(user: str, value: str) -> bool:
    if (
        "&lt;" in value or "%3C" in value or (not user and ":" in value)
    ):  # `<password>`; `cvs://:pserver:anon@`
        return True
    return value.lower() in ("password", "passwd", "postgres", "secret", "example", "changeme") or bool(
        _expression(_SAMPLE).search(value)
    )
