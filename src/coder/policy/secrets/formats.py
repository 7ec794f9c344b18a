"""Secret detection: vendors' token formats, private keys, and values that are named as secrets.

Almost all of a text is ruled out by searches for plain text, which are nearly free; expressions run only
where such a search succeeds, and every repetition is bounded. Random data alone (hashes, ids, images) is no
secret."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote

Span = tuple[int, int, str]

_PASSWORDS = ("pass", "pwd")
_STEMS = ("pass", "pwd", "secret", "token", "credential", "key")
# What tools put before a line: `12⇥`, `12: `, `path:12:`, `path-12-`.
_NUMBER = r"(?:[ ]{0,6}\d{1,9}(?:\t|[:-] ?)|[^\s:]{1,120}[:-]\d{1,9}[:-])?"
# The rest of a name, and what stands between it and a value.
_JOIN = (
    r"(?P<tail>[a-z0-9_.-]{0,30}+)"
    r"(?:(?P<entry>\\?[\"'`]?,?[ \t]{0,8}(?:\r?\n" + _NUMBER + r"[ \t+-]{0,40})?"
    r"\\?[\"'`]?value\\?[\"'`]?[ \t]{0,3}[:=][ \t]{0,3})"
    r"|(?P<assigned>\\?[\"'`\]]{0,2}+[ \t]{0,8}(?:=>|:=|\?=|={1,3}|:)[ \t]{0,8})"
    r"|(?P<pair>[\"'],[ \t]{0,4})(?=[\"'])"
    r"|(?P<element>[\"']?>[ \t]{0,4})"
    r"|(?P<blank>[ \t]{1,4}))"
)
# Endings of names: `password`, `passwd2`, `secret_key_base`; not `password_file` or `token_type`.
_ENDING = (
    r"(?:w(?:or|)d|wort|phrase|code|orization|s)?s?"
    r"(?:[_.-]?(?:\d{1,3}|key|value|base|data|string|plain|text|raw|old|new|prod|live))?\Z"
)
_AFTER_STEM = r"(?:w(?:or|)d|wort|phrase|code|key|w)?s?(?![a-z])|w(?:or|)d"
# Which `key`s are secret; most in programs are not.
_KEYS_TABLE = """
access account admin api app application auth bot client consumer deploy encryption hmac ingest jwt license
licence master preshared private secret service session shared signing ssh storage subscription webhook
"""
_KEYS = tuple(_KEYS_TABLE.split())
_HARMLESS = ("next", "page", "continuation", "publickey", "public", "cancel")  # names of harmless tokens
_UUID_NAMES = ("apikey", "apitoken", "authtoken", "accesstoken", "clientsecret", "secretkey", "password")
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"
_SAMPLE = (
    r"(?i)example|your[-_ ]|change.?(?:me|it|this)|placeholder|dummy|insert|replace|x{5}|\*{3}|\.{3}|…"
    r"|redacted|omitted|removed|masked|insecure|(.)\1{7}"
)
# A variable, a template, a path, an address, or something stored elsewhere.
_REFERENCE = (
    r"(?:\$[A-Za-z_]\w*(?:\Z|[\[(.:>-])|\$\(|<|%\w?\Z|%\w+%\Z|@[A-Za-z_]{1,40}@?\Z|![A-Za-z]+\Z|[&*]\w{1,40}\Z"
    r"|[~.]{0,2}/(?![A-Za-z0-9+/]{30,}=*\Z)|[A-Za-z]{2,12}:/|arn:|ENC[(\[]|\{[\w.{]|vault:"
    r"|(?:pbkdf2|argon2|bcrypt|scrypt|md5|sha\d)\w*\$|\$(?:2[abxy]|5|6|y|apr1|argon2\w*)\$)"  # hashes
    r"|.*?(?:\$\{|\$\(|\{\{|<%|%\(\w{1,40}\)s|\#\{|__coder_secret_)"
)
_CODE = r"([A-Za-z_]\w*)((?:\.|::|->|\?\.)[A-Za-z_]\w*)*(?:[(\[{<|].*|[],;:?)]+)?\Z"
# Words of tests and documentation, also with digits and signs after them.
_WORDS_TABLE = """
abc abcd abcdef admin administrator an any asdf bad bar baz chars correct default demo foo foobar guest
hello helloworld hidden invalid is key letmein long mariadb minio mongo mongodb my mypass mypassword
mysecret mysecretpassword mysql new newpassword nil no none not notasecret null old oldpassword optional
pass passphrase passwd password postgres postgresql qwerty rabbitmq redis required root s sample secret
secretpassword secrets secure sekret sesame some ssword string strong supersecret test tester testing
testpass testpassword testpw tests the token toor topsecret undefined user username userpass value
verysecret welcome word world wrong
"""
_WORDS = frozenset(["", "a", "c", *_WORDS_TABLE.split()])
_QUOTED = r"([\"'`])((?:[^\"'`\\\n]|\\[^\n]|(?!\1)[\"'`]){1,4096}+)\1"
_ESCAPED = r"\\[\"']([^\"'\\\n]{1,4096}+)\\[\"']"
_UNCLOSED = r"\\?[\"'`]([^\s\"'`<>]{1,4096}+)"
_BARE = r"(?:[^\s\"'`<>\\]|\\(?![nrt\"'])){1,4096}+"
_LINE = (
    r"(?:\A|\n)"
    + _NUMBER
    + r"(?P<indent>[ \t+>-]{0,40})(?:(?:export|set|setx|ENV|ARG)[ \t]{1,4})?(?:\$env:)?"
    r"[\"']?[\w.-]{0,60}\Z"
)
_NETRC = r"(?:login|machine|account)[ \t]{1,8}\S{1,100}\s{1,8}" + _NUMBER + r"\s{0,8}\Z"
_ENTRY = r"(?i)(?:name|key|id)\\?[\"'`]?[ \t]{0,3}[:=][ \t]{0,3}\\?[\"'`]?\Z"
_DOCKERFILE = r"(?:ENV|ARG)[ \t]{1,4}\Z"
_CREDENTIALS = r"[A-Za-z0-9+/]{8,1600}={0,2}"
_AUTHORIZATION = rb"auth(?:orization|(?P<plain>))\\?[\"'`\]]{0,2}[ \t]{0,4}(?:={1,3}|:|,)[ \t]{0,4}"
_BEARER = rb"(?P<plain>)(?:bearer|basic)[ ]{1,4}"
_CREDENTIAL = r"\\?[\"'`]?(?:[A-Za-z][\w-]{2,20}[ \t]{1,3})?([A-Za-z0-9_.~+/=%-]{8,4000}+)"
# A plain text that must occur, and the expression of a command or a statement with a password in its group.
_STATEMENTS = (
    (
        b"curl",
        r"curl\b[^\n]{0,200}?[ \t](?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"'$]{1,64}:([^\s\"'$]{4,256})",
    ),
    (b"sshpass", r"sshpass[ \t]{1,3}-p[ \t]{0,3}[\"']?([^\s\"'$]{4,256})"),
    (b"mysql", r"mysql(?:dump|admin)?[ \t][^\n|;]{0,80}?[ \t]-p([^\s\"'$=-][^\s\"'$]{3,256})"),
    (b"redis-cli", r"redis-cli[ \t][^\n|;]{0,80}?-a[ \t]{1,3}[\"']?([^\s\"'$]{4,256})"),
    (b"identified", r"(?i)identified[ \t]{1,3}(?:with \w{1,40} )?by[ \t]{1,3}[\"']([^\s\"']{4,256})[\"']"),
    (
        b":543",
        r"(?:\A|\n)" + _NUMBER + r"[\w.*-]{1,200}:543\d:[\w*-]{1,64}:[\w*-]{1,64}:([^\s:]{4,256})(?=\n|\Z)",
    ),
)

# Prose about a secret: stricter than for files, since memory is permanent.
_IN_PROSE = (
    r"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[ _-]?key|credentials?|密码|口令|密钥|令牌)"
    r"(?:\s+(?:is|was)\b|\s*[:=：]|\s*(?:是|为))\s*[`\"'“]?(?=[^\s`\"'”]*[\d!@#$%^&*_+=])[^\s`\"'”]{6,}"
)


@cache
def expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _name(stem: str) -> re.Pattern[bytes]:
    return re.compile((stem + _JOIN).encode())


def is_sample(value: str) -> bool:
    """Whether it is a placeholder, as in documentation."""
    return expression(_SAMPLE).search(value) is not None


def looks_random(value: str, least: int = 14) -> bool:
    """Whether it alternates between digits and letters, upper and lower case, more than words do."""
    value = value[:512]
    random = letters = changes = digits = 0
    for run in expression(r"[^A-Za-z0-9]+").split(value):
        if len(run) < 6:
            continue
        kinds = [0 if c.isdigit() else 1 if c.islower() else 2 for c in run]
        steps = [pair for pair in pairwise(kinds) if pair[0] != pair[1]]
        of_digits = kinds.count(0)
        letters, changes, digits = letters + len(run), changes + len(steps), digits + of_digits
        often = len(steps) * (4 if of_digits >= 2 else 2) >= len(run)
        if often or sum(step[1] == 0 for step in steps) >= 3:
            random += len(run)
    if letters >= 24 and digits >= 3 and changes * 3 >= letters and expression(r"[\w+/=-]+").fullmatch(value):
        random = letters  # in all, though signs of base64 cut it to pieces
    return random >= least and len(set(value)) >= 8


class _Named(NamedTuple):
    """A name that is perhaps a secret's, how it is written, and its value."""

    stem: str
    name: str
    tail: str
    literal: bool  # no variable can stand here: an environment file, netrc, an option, XML
    start: int
    value: str
    quoted: bool
    called: bool  # a bracket follows, so that the value is code, or the name is a type's


def named_values(text: str) -> Iterator[Span]:
    """Values of names like `DB_PASSWORD` or `apiKey`, and credentials in headers and commands."""
    lowered = text.encode("latin-1", "replace").lower()  # one byte for each character
    for stem in _STEMS:
        past = 0
        for found in _name(stem).finditer(lowered):
            if found.start() < past or not _names_secret(text, lowered, stem, found):
                continue
            named = _named(text, stem, found)
            if named is None:
                continue
            end = named.start + len(named.value)
            if len(named.value) > 64:
                past = end  # so that no character of a hostile text is looked at often
            if _is_secret(named):
                yield named.start, end, "value"
    yield from _in_headers(text, lowered)
    for gate, pattern in _STATEMENTS:
        if gate in lowered:
            for statement in expression(pattern).finditer(text):
                if _is_password(statement[1], plain=True):
                    yield *statement.span(1), "value"


def _names_secret(text: str, lowered: bytes, stem: str, found: re.Match[bytes]) -> bool:
    at = found.start()
    tail = found["tail"].decode()
    before = lowered[max(0, at - 16) : at].decode("latin-1").rstrip("_-. ")
    if lowered[max(0, at - 8) : at] == b"__coder_":
        return False  # a placeholder
    if stem == "key":
        return before.endswith(_KEYS) or text[at - 1 : at + 3] == "_KEY"
    if stem == "pass":
        inside = text[at - 1 : at].islower() and text[at].islower()  # `bypass`
        return expression(_AFTER_STEM).match(tail) is not None and (not inside or tail.startswith(("w", "p")))
    return not before.endswith(_HARMLESS) and not (stem == "token" and tail.startswith("iz"))


def _named(text: str, stem: str, found: re.Match[bytes]) -> _Named | None:
    at = found.start()
    prefix = expression(r"[\w.-]{0,60}\Z").search(text, max(0, at - 60), at)
    begin = prefix.start() if prefix else at
    name = text[begin : found.end("tail")]
    line = expression(_LINE).search(text, max(0, at - 100), at) if found["assigned"] else None
    literal = _is_literal(text, found, begin, name, line)
    whole = bool(literal or line)
    value = _value_at(text, found.end(), whole=whole) if literal is not None else None
    if value is None:
        return None
    start, end, quoted = value
    if line and not quoted and (cut := expression(r"&[\w.]{1,40}=|[;,]\Z").search(text, start, end)):
        end = cut.start()
    if line and found["assigned"].startswith(b": ") and text[end : end + 1] in ("", "\n", "\r"):
        quoted = quoted or expression(r"[A-Za-z]+\d+\Z").match(text, start, end) is not None  # YAML
    # `AWS::ApiGateway::ApiKey`: a table of types, whose values are checksums.
    called = text[end : end + 1] in ("(", "[", "{") or text[max(0, begin - 2) : begin] == "::"
    quoted = quoted and not found["pair"]
    return _Named(stem, name, found["tail"].decode(), bool(literal), start, text[start:end], quoted, called)


def _is_literal(
    text: str, found: re.Match[bytes], begin: int, name: str, line: re.Match[str] | None
) -> bool | None:
    """Whether a literal stands where the value is, and not code; None if there is no value."""
    if found["entry"]:
        return True if expression(_ENTRY).search(text, max(0, begin - 16), begin) else None
    if found["element"]:
        if text[max(0, begin - 3) : begin].endswith(("?P<", "(?<")):
            return None  # a group of an expression
        return True if text[begin - 1 : begin] == "<" or found["element"][:1] in (b'"', b"'") else None
    if name.startswith("-"):
        return True
    if not found["blank"]:
        return line is not None and found["assigned"] == b"=" and (name.isupper() or not line["indent"])
    if expression(_NETRC).search(text, max(0, begin - 160), begin):
        return True
    if expression(_DOCKERFILE).search(text, max(0, begin - 8), begin):
        return True
    quote = text[found.end() : found.end() + 1]
    return False if quote in ("'", '"') and found["tail"].startswith((b"w", b"p")) else None


def _value_at(text: str, at: int, *, whole: bool) -> tuple[int, int, bool] | None:
    if text[at : at + 1] in ('"', "'", "`", "\\"):
        for pattern in (_QUOTED, _ESCAPED, _UNCLOSED):
            if value := expression(pattern).match(text, at):
                return *value.span(value.re.groups), True
    value = expression(_BARE).match(text, at)
    if value is None:
        return None
    # In the middle of a line other things may follow.
    cut = None if whole else expression(r"[&;,)\]}\\]").search(text, at, value.end())
    end = cut.start() if cut else value.end()
    return (at, end, False) if end > at else None


def _is_secret(named: _Named) -> bool:
    value, name = named.value, named.name
    if named.called or expression(_REFERENCE).match(value) or is_sample(value):
        return False
    if expression(_UUID).match(value):
        return re.sub(r"[^a-z0-9]", "", name.lower()).endswith(_UUID_NAMES)
    code = not named.quoted and _is_code(value)
    if code and any(stem in value.lower() for stem in _STEMS):
        return False  # `key: x25519.X25519PrivateKey`
    if named.stem == "key" and not name.lower().rpartition("key")[0].rstrip("_-. ").endswith(_KEYS):
        return looks_random(value, least=20)
    if looks_random(value, least=12 if named.quoted or named.literal else 14):
        return True
    if (code and not named.literal) or not expression(_ENDING).match(named.tail):
        return False
    if named.stem in _PASSWORDS:
        return _is_password(value, plain=named.literal)
    return len(value) >= 10 and (named.quoted or named.literal) and _is_password(value, kinds=4)


def _is_code(value: str) -> bool:
    """Whether it is an identifier, perhaps called: one whose letters change little, unlike a password's."""
    found = expression(_CODE).match(value)
    if found is None:
        return False
    kinds = [0 if c.isdigit() else 1 if c.islower() else 2 for c in found[1]]
    return found[2] is not None or sum(a != b for a, b in pairwise(kinds)) * 3 < len(kinds) + 3


def _is_password(value: str, *, kinds: int = 2, plain: bool = False) -> bool:
    """Whether it has so many kinds of characters, and is no word of tests and documentation. A `plain` one
    may be made of letters alone."""
    if not 6 <= len(value) <= 128 or " " in value or "\\n" in value or is_sample(value) or _is_words(value):
        return False
    found = {
        "digit" if c.isdigit() else "upper" if c.isupper() else "lower" if c.isalpha() else "sign"
        for c in value
        if c not in "_-./:"
    }
    return (plain and len(value) >= 8) or (len(found) >= kinds and not found <= {"lower", "upper"})


def _is_words(value: str) -> bool:
    """Whether it is made of words of tests and documentation."""
    if "%" in value:
        value = unquote(value)
    return all(word in _WORDS for word in expression(r"[\W\d_]+").split(value.lower()))


def _decoded_credentials(value: str) -> str:
    """`user:password` that is encoded in base64; empty if it is something else."""
    if not expression(_CREDENTIALS).fullmatch(value):
        return ""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return decoded if ":" in decoded and decoded.isprintable() else ""


def _in_headers(text: str, lowered: bytes) -> Iterator[Span]:
    """`Authorization: Basic …`, and `auth` as in a configuration of docker or npm."""
    for pattern in (_AUTHORIZATION, _BEARER):
        for found in re.finditer(pattern, lowered):
            value = expression(_CREDENTIAL).match(text, found.end())
            if value is None or is_sample(value[1]):
                continue
            decoded = _decoded_credentials(value[1])
            if not _is_words(decoded) if decoded else not found["plain"] and looks_random(value[1]):
                yield *value.span(1), "bearer"


def in_addresses(text: str) -> Iterator[Span]:
    """`scheme://user:password@host`."""
    at = text.find("://")
    if at < 0 or "@" not in text:
        return
    found_at = expression(r"://([^\s:/@'\"<>{}$]{0,64}):([^\s/@'\"<>{}$][^\s/'\"<>{},]{5,256})@")
    while at >= 0:
        found = found_at.match(text, at)
        if found is not None and found[2] != found[1] and not _is_sample_password(found[1], found[2]):
            yield *found.span(2), "password"
        at = text.find("://", at + 3)


def _is_sample_password(user: str, value: str) -> bool:
    if (
        "&lt;" in value or "%3C" in value or (not user and ":" in value)
    ):  # `<password>`; `cvs://:pserver:anon@`
        return True
    return _is_words(value) or is_sample(value) or value.startswith("[") or "://" in value


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
    """Describe the secret that a sentence seems to hold; empty if none. Formats count here whatever the token
    looks like: such a fact can be rephrased at no cost."""
    from coder.policy.secrets.vendors import find_tokens

    for found in (find_tokens(text, text, sure=False), _pem(text, least=0), in_addresses(text)):
        for _start, _end, kind in found:
            return _DESCRIPTIONS.get(kind, "an access key")
    named = expression(_IN_PROSE).search(text) or next(named_values(text), None)
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
