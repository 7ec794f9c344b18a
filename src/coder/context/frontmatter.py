"""The YAML head of a Markdown file, read without loading a YAML library where it is simple.

Most heads are `key: value` lines. Those are read here; PyYAML (20 ms) is imported only for the others, so
that a person with a few ordinary skills does not pay for it at every start.
"""

from __future__ import annotations

from typing import Any

MAX_HEAD = 16_384  # characters; a head holds names and a description, and is read at every start
_BRACKETS = 100  # PyYAML takes seconds over thousands of them; a head has a few
_FENCE = "---"
# What makes a YAML value more than the text that stands there.
_SPECIAL_STARTS = frozenset("[]{}>|&*!%@`\"'#-?:,~=<\\")


class BadHead(Exception):
    """What is wrong with the head, as a clause."""


def split_head(text: str, whole: bool = True) -> tuple[str, str]:
    """The head without its fences, and what follows it. `whole`: `text` is all there is of the file."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, newline, rest = text.partition("\n")
    if first.rstrip() != _FENCE or not newline:
        raise BadHead("it has no frontmatter: the first line must be ---")
    at = 0
    while at <= len(rest):
        end = rest.find("\n", at)
        line = rest[at:] if end < 0 else rest[at:end]
        if line.rstrip() == _FENCE:
            if at > MAX_HEAD:
                break
            return rest[:at], "" if end < 0 else rest[end + 1 :]
        if end < 0:
            break
        at = end + 1
    if len(rest) > MAX_HEAD or not whole:
        raise BadHead(f"its frontmatter is longer than {MAX_HEAD} characters")
    raise BadHead("its frontmatter is never closed with ---")


def read_head(head: str) -> dict[str, Any]:
    """The fields; every scalar as text. Raises `BadHead`."""
    simple = _simple(head)
    return _yaml(head) if simple is None else dict(simple)


def _simple(head: str) -> dict[str, str] | None:
    """The fields of a head that is only `key: value` lines; None where YAML must decide."""
    fields: dict[str, str] = {}
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        key, colon, rest = line.partition(":")
        value = _plain_value(rest)
        if not colon or not _is_key(key) or value is None or key in fields:
            return None
        fields[key] = value
    return fields


def _is_key(text: str) -> bool:
    return text.isascii() and text[:1].isalpha() and text.replace("-", "").replace("_", "").isalnum()


def _plain_value(rest: str) -> str | None:
    value = rest.strip(" ")
    if not value or rest[0] != " " or not value.isprintable():
        return None
    quote = value[0]
    if quote in "\"'":
        inner = value[1:-1]
        plain = len(value) > 1 and value[-1] == quote and quote not in inner and "\\" not in inner
        return inner if plain else None
    # A colon inside a plain value is no YAML, but written so often that all readers of skills take it.
    if quote in _SPECIAL_STARTS or " #" in value or value.endswith(":"):
        return None
    return value


def _yaml(head: str) -> dict[str, Any]:
    if head.count("[") + head.count("{") > _BRACKETS:
        raise BadHead("its frontmatter is nested too deeply")
    import yaml

    try:
        fields = yaml.load(head, Loader=yaml.BaseLoader)  # noqa: S506 - BaseLoader makes text, lists, dicts
    except yaml.YAMLError as error:
        raise BadHead(f"its frontmatter is not valid YAML ({_where(error)})") from error
    except RecursionError:
        raise BadHead("its frontmatter is nested too deeply") from None
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict):
        raise BadHead("its frontmatter is not a list of `key: value` lines")
    return {str(key): value for key, value in fields.items()}


def _where(error: Exception) -> str:
    problem = getattr(error, "problem", None) or "it cannot be read"
    mark = getattr(error, "problem_mark", None)
    # Counted from the line after the opening fence; the person counts from the top of the file.
    return f"line {mark.line + 2}: {problem}" if mark is not None else str(problem)
