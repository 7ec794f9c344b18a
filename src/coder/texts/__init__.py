"""Message catalogues (i18n), one package per language, looked up by key.

Loaded when used: of the language in use, `core.py` and the modules of the prefixes in `PARTS`. Missing
translations fall back to English; an unknown key is returned as is, since a missing text is no reason for a
traceback. With `CODER_STRICT_TEXTS` set (by the test suite) it raises `KeyError` instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Language = str
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")  # each is a package beside this file

STRICT_VARIABLE: Final = "CODER_STRICT_TEXTS"
# The module of each language that has the keys with a prefix; all others are in `core`.
PARTS: Final = {
    "acp": "front_ends",
    "approval": "policy",
    "busy": "engine",
    "cli": "cli",
    "config": "cli",
    "context": "engine",
    "fault": "policy",
    "help": "front_ends",
    "hooks": "engine",
    "image": "engine",
    "job": "engine",
    "lookback": "front_ends",
    "mcp": "engine",
    "modes": "engine",
    "policy": "policy",
    "record": "engine",
    "servers": "front_ends",
    "stats": "cli",
    "tool": "engine",
    "undo": "engine",
    "verify": "engine",
    "viewer": "front_ends",
}
ADDED: Final[list[str]] = []  # packages of add-ons, with a module of texts for each language
_REASONS: Final = ("why", "reason")  # values that say why something failed
_LOCALE_VARIABLES: Final = ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE")


class Text:
    """A translatable message: its key and values, rendered later in any language.

    A value may be a phrase or a tuple of phrases. `str` gives English, for models and records.
    """

    __slots__ = ("key", "values")

    def __init__(self, key: str, /, **values: object) -> None:
        self.key = key
        self.values = values

    def text(self, texts: Catalog) -> str:
        return texts.say(self.key, **self.values)

    def __str__(self) -> str:
        return self.text(Catalog("en"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and (self.key, self.values) == (other.key, other.values)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Text({self.key!r}, {self.values!r})"

    def with_values(self, values: dict[str, object]) -> Text:
        """The same phrase about other things."""
        other = object.__new__(type(self))
        other.key, other.values = self.key, values
        return other

    def __add__(self, other: AnyText) -> JoinedText:
        return JoinedText((self, other), "")

    def __radd__(self, other: str) -> JoinedText:
        return JoinedText((other, self), "")


class JoinedText(Text):
    """Several phrases and strings with the same between them: the lines of a table, the words of a line."""

    __slots__ = ()

    def __init__(self, parts: Iterable[AnyText], by: str = "\n") -> None:
        super().__init__("", parts=tuple(parts), by=by)

    def text(self, texts: Catalog) -> str:
        parts, by = self.values["parts"], self.values["by"]
        assert isinstance(parts, tuple)
        return str(by).join(map(texts.of, parts))


if TYPE_CHECKING:
    AnyText = Text | str  # a string is the words of a model, a program or a person, as they are
else:
    AnyText = str  # msgspec reads annotations as the JSON form, which has been put into words


class CoderError(Exception):
    """An exception with a translatable message. `str` gives English; `text` the person's language."""

    def __init__(self, what: str | Text, /, **values: object) -> None:
        """`what` is a phrase or its key."""
        self.phrase = Text(what, **values) if isinstance(what, str) else what
        super().__init__(self.phrase.key)

    def text(self, texts: Catalog) -> str:
        return self.phrase.text(texts)

    def __str__(self) -> str:
        return str(self.phrase)


class Catalog:
    """The catalogue in one language."""

    __slots__ = ("_strict", "lang")

    def __init__(self, lang: Language, *, strict: bool | None = None) -> None:
        self.lang: Language = lang
        self._strict = bool(os.environ.get(STRICT_VARIABLE)) if strict is None else strict

    def has(self, key: str) -> bool:
        return self._template(key, singular=False) is not None

    def say(self, key: str, /, **values: object) -> str:
        """The text of `key` with its values. If `n` is 1, `key.one` is used if it exists."""
        template = self._template(key, singular=values.get("n") == 1)
        if template is None:
            if self._strict:
                raise KeyError(key)
            return key
        words = {name: self._word(self._translate_reason(name, value)) for name, value in values.items()}
        try:
            return template.format(**words)
        except (KeyError, IndexError, ValueError):
            if self._strict:
                raise
            return template

    def of(self, said: AnyText) -> str:
        return said if isinstance(said, str) else said.text(self)

    def _template(self, key: str, *, singular: bool) -> str | None:
        languages: tuple[Language, ...] = ("en",) if self.lang == "en" else (self.lang, "en")
        for lang in languages:
            for texts in _catalogues(lang, key):
                if (found := _look_up(texts, key, singular=singular)) is not None:
                    return found
        return None

    def _translate_reason(self, name: str, value: object) -> object:
        """Translate reasons that are the operating system's English error messages."""
        if self.lang == "en" or name not in _REASONS or not isinstance(value, str):
            return value
        return _texts_in(self.lang, "system").get(value.lower(), value)

    def _word(self, value: object) -> object:
        if isinstance(value, tuple):
            return ", ".join(str(self._word(one)) for one in value)
        return value.text(self) if isinstance(value, Text) else value


def pick_language(flag: str, config: str, environ: Mapping[str, str]) -> Language:
    """`--lang`, else `ui.lang`, else the first locale variable that is set, else English."""
    for chosen in (flag, config):
        if chosen:
            return chosen if chosen in LANGUAGES else "en"
    locale = next((environ[name] for name in _LOCALE_VARIABLES if environ.get(name)), "")
    first = locale.partition(":")[0].replace("-", "_").partition(".")[0]
    language = first.partition("_")[0].lower()
    return language if language in LANGUAGES else "en"


def catalogue(lang: Language, key: str = "") -> dict[str, str]:
    """The texts of the module that has the prefix of `key`."""
    part = key.partition(".")[0]
    return _texts_in(lang, PARTS.get(part, "core"))


def _catalogues(lang: Language, key: str) -> Iterator[dict[str, str]]:
    yield catalogue(lang, key)
    yield catalogue(lang)
    for package in ADDED:
        yield _texts_in(lang, "", package)


def _texts_in(lang: Language, module: str, package: str = "coder.texts") -> dict[str, str]:
    from importlib import import_module

    try:
        found: dict[str, str] = import_module(f"{package}.{lang}.{module}".rstrip(".")).TEXTS
    except ModuleNotFoundError:  # a language need not have every module
        return {}
    return found


def _look_up(texts: dict[str, str], key: str, *, singular: bool) -> str | None:
    if singular and (one := texts.get(f"{key}.one")) is not None:
        return one
    return texts.get(key)
