"""Secret redaction: placeholders in what the model and the record see, secrets restored only where a tool
runs.

A placeholder is stable for a session and a plain identifier, so that it survives JSON, shell quoting and a
model's copying. Secrets are held in this process's memory only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from coder.policy.secrets.formats import find_secrets

_PREFIX = "__coder_secret_"
# Lenient, to also match miscopied placeholders, which are then refused.
_PLACEHOLDER = _PREFIX + r"[a-z0-9]{1,16}_[0-9a-f]{3,40}(?:__)?"
_COLOUR = r"\x1b\[[0-9;:]{0,40}[mK]"
_LONGEST_COLOURED = 2000
_BODY = r"[A-Za-z0-9+/=]{16,90}"  # a line of base64
_SHORTEST = 8  # shorter known values occur by chance


class UnknownPlaceholder(Exception):
    """A placeholder without a known secret. The message tells the model what to do."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        super().__init__(
            f"{', '.join(names)}: this placeholder stands for a secret that is not known any more. Read the "
            "file or run the command that showed it again, and use the placeholder that you see then."
        )


class Redactor:
    """The secrets of one session. `key` salts the placeholders: they differ between sessions and stay the
    same across a resume. It must be kept as safe as the secrets."""

    def __init__(self, key: bytes = b"", known: Iterable[str] = ()) -> None:
        self._key = key or os.urandom(16)
        self._secrets: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._known: list[str] = []
        self._seen: list[str] = []
        self._parts = 0  # placeholders for a part of a secret, or for quoted placeholders
        for value in known:
            self.know(value)

    def know(self, value: str) -> None:
        """Register a value that is secret whatever it looks like, such as the provider's key."""
        if len(value) >= _SHORTEST and value not in self._known:
            self._known.append(value)
            self._known.sort(key=len, reverse=True)

    @property
    def count(self) -> int:
        """How many distinct secrets have been replaced."""
        return len(self._secrets) - self._parts

    def learn(self, text: str) -> None:
        """Register the private keys in `text`, parts of which will be shown and would not be recognised."""
        for start, end, kind in find_secrets(text):
            if kind == "pem":
                self._placeholder(text[start:end], kind)

    def quoted(self, text: str) -> str:
        """Escape our placeholders in untrusted text, so that they cannot be turned into the secret when the
        model repeats them: each gets a placeholder of its own that restores to the literal text."""
        if _PREFIX not in text:
            return text
        return re.sub(_PLACEHOLDER, self._quoted_name, text)

    def _quoted_name(self, found: re.Match[str]) -> str:
        if found[0] not in self._secrets:
            return found[0]  # unknown: refused on use
        self._parts += found[0] not in self._names
        return self._placeholder(found[0], "text")

    def redact(self, text: str) -> str:
        if "\x1b[" in text:
            text = self._without_colours(text)
        for value in self._known:
            if value in text:
                text = text.replace(value, self._placeholder(value, "known"))
        spans = find_secrets(text)
        if spans:
            parts: list[str] = []
            at = 0
            for start, end, kind in spans:
                secret = text[start:end]
                if _PREFIX in secret:
                    continue
                if kind == "pem":
                    secret = _as_in_file(secret, text[text.rfind("\n", 0, start) + 1 : start])
                parts += [text[at:start], self._placeholder(secret, kind)]
                at = end
            text = "".join([*parts, text[at:]])
        for value in self._seen:  # `echo` prints no name with them
            if value in text:
                text = text.replace(value, self._names[value])
        return text

    def _without_colours(self, text: str) -> str:
        """Remove colour escapes inside secrets (`grep --color`)."""
        plain = re.sub(_COLOUR, "", text)
        for start, end, _kind in find_secrets(plain):
            secret = plain[start:end]
            if secret not in text and len(secret) <= _LONGEST_COLOURED:
                coloured = f"(?:{_COLOUR})*".join(map(re.escape, secret))
                text = re.sub(coloured, lambda _, found=secret: found, text)  # type: ignore[misc] # bound at once
        return text

    def redact_all(self, value: Any) -> Any:
        """`redact` every string in nested lists and mappings."""
        return _mapped(value, self.redact)

    def restore(self, text: str) -> str:
        """Replace placeholders by their secrets; raises `UnknownPlaceholder`."""
        if _PREFIX not in text:
            return text
        unknown = [name for name in re.findall(_PLACEHOLDER, text) if name not in self._secrets]
        if unknown:
            raise UnknownPlaceholder(list(dict.fromkeys(unknown)))
        return re.sub(_PLACEHOLDER, lambda found: self._secrets[found[0]], text)

    def restore_all(self, value: Any) -> Any:
        """`restore` every string in nested lists and mappings: a tool's arguments."""
        return _mapped(value, self.restore)

    def _placeholder(self, secret: str, kind: str) -> str:
        name = self._names.get(secret)
        if name is None:
            from hashlib import blake2b

            salt = 0
            while True:  # hash collision
                data = secret.encode("utf-8", errors="surrogatepass") + salt.to_bytes(2, "big") * bool(salt)
                mark = blake2b(data, digest_size=5, key=self._key[:64]).hexdigest()
                name = f"{_PREFIX}{kind}_{mark}__"
                if name not in self._secrets:
                    break
                salt += 1
            self._names[secret] = name
            self._secrets[name] = secret
            # A password that is a plain word would be found in ordinary text.
            if len(secret) >= _SHORTEST and kind != "text" and not secret.isalpha():
                self._seen.append(secret)
                self._seen.sort(key=len, reverse=True)  # longest first, as one may contain another
            # A key is paged and grepped: each of its lines is a secret as well.
            for line in re.split(r"\r?\n|\\n", secret) if kind == "pem" else ():
                if re.fullmatch(_BODY, line) and line not in self._names:
                    self._parts += 1
                    self._placeholder(line, "pemline")
        return name


def _as_in_file(secret: str, before: str) -> str:
    """A multi-line secret without the line numbers of `read` or the signs of a diff. `before`: the prefix of
    its first line."""
    first, *others = secret.split("\n")
    if not others:
        return secret
    for prefix in (r"[ ]{0,6}\d+\t", r"\+", "-", " "):
        mark = re.compile(prefix)
        if mark.match(before) and all(mark.match(line) for line in others):
            return "\n".join([first, *(mark.sub("", line, count=1) for line in others)])
    return secret


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value
