"""The YAML frontmatter of a skill or a mode, as a tree with line numbers.

Headers of `key: value` lines are parsed here; others by the YAML library, which takes 20 ms to import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from coder.texts import CoderError

if TYPE_CHECKING:
    import yaml

MAX_HEADER = 65_536  # characters
FIRST_LINE = 2  # of the header, after the `---`
_FENCE = "---"
_ENDS = (_FENCE, "...")
# Characters that start a YAML value other than plain text.
_SPECIAL_STARTS = frozenset("[]{}>|&*!%@`\"'#-?:,~=<\\")


class FrontmatterError(CoderError):
    """An error in a header, and its line in the file."""

    def __init__(self, key: str, /, *, line: int = 1, **values: object) -> None:
        super().__init__(key, **values)
        self.line = line


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and its line. `plain`: an unquoted scalar, so `null` means none."""

    line: int
    value: str | list[Node] | dict[str, Node]
    plain: bool = False

    @property
    def absent(self) -> bool:
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


def split(text: str) -> tuple[str | None, str, int]:
    """Header (or None), body, and the body's first line number."""
    first, newline, _ = text.partition("\n")
    if first.rstrip(" \t") != _FENCE:
        return None, text, 1
    start = at = len(first) + 1
    while newline and at <= len(text):
        end = text.find("\n", at)
        line = text[at:] if end < 0 else text[at:end]
        if line.rstrip(" \t") in _ENDS:
            header = text[start:at]
            if len(header) > MAX_HEADER:
                break
            body = "" if end < 0 else text[end + 1 :]
            return header, body, FIRST_LINE + header.count("\n") + 1
        if end < 0:
            break
        at = end + 1
    if len(text) - start > MAX_HEADER:
        raise FrontmatterError("modes.header_long", limit=MAX_HEADER)
    raise FrontmatterError("modes.header_open")


def read_header(header: str) -> dict[str, Node]:
    """The fields in order. Raises `FrontmatterError`."""
    simple = read_simply(header)
    return read_with_yaml(header) if simple is None else simple


def read_simply(header: str) -> dict[str, Node] | None:
    """The fields of a header of only `key: value` lines; None for anything else."""
    fields: dict[str, Node] = {}
    for number, line in enumerate(header.split("\n"), FIRST_LINE):
        if not line.strip(" ") or line.startswith("#"):
            continue
        key, colon, rest = line.partition(":")
        if not colon or not _is_key(key) or key in fields:
            return None
        node = _value(number, rest)
        if node is None:
            return None
        fields[key] = node
    return fields


def _is_key(text: str) -> bool:
    return text.isascii() and text[:1].isalpha() and text.replace("-", "").replace("_", "").isalnum()


def _value(number: int, rest: str) -> Node | None:
    value = rest.strip(" ")
    if not value or rest[0] != " " or not value.isprintable():
        return None
    quote = value[0]
    if quote in "\"'":
        inner = value[1:-1]
        whole = len(value) > 1 and value[-1] == quote and quote not in inner and "\\" not in inner
        return Node(number, inner) if whole else None
    # A colon inside a plain value is invalid YAML, but common and accepted by all readers of skills.
    if quote in _SPECIAL_STARTS or " #" in value or value.endswith(":"):
        return None
    return Node(number, value, plain=True)


MAX_DEPTH = 16

_YAML_ESCAPES = frozenset('0abt\tnvfre "/\\N_LPxuU')


def read_with_yaml(header: str) -> dict[str, Node]:
    import yaml

    try:
        node = _from_events(header)
    except yaml.YAMLError as error:
        try:
            node = _from_events(_repaired(header))
        except yaml.YAMLError:
            raise _yaml_error(error) from None
    if node is None or node.absent:
        return {}
    if not isinstance(node.value, dict):
        raise FrontmatterError("modes.header_no_fields", line=node.line)
    return node.value


_QUOTED = r'"(?:[^"\\]|\\[\s\S])*"'
# `description: Use this when: asked`, which is invalid YAML but common.
_COLON_IN_TEXT = r"(?m)^((?:- )?[A-Za-z][A-Za-z0-9_-]*: +)(\w[^#\n]*: [^#\n]*[^\s:])[ ]*$"


def _repaired(header: str) -> str:
    """Repair two unambiguous mistakes."""
    header = re.sub(_QUOTED, _kept_backslashes, header)
    return re.sub(_COLON_IN_TEXT, lambda m: f"{m[1]}'{m[2].replace(chr(39), chr(39) * 2)}'", header)


def _kept_backslashes(match: re.Match[str]) -> str:
    """Double backslashes that do not begin a YAML escape."""
    return re.sub(r"\\(.)", lambda m: m[0] if m[1] in _YAML_ESCAPES else "\\" + m[0], match[0])


def _yaml_error(error: yaml.YAMLError) -> FrontmatterError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = FIRST_LINE + (mark.line if mark else 0)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    return FrontmatterError("modes.header_yaml", line=line, why=why)


class _Open:
    """An unfinished list or mapping; `key` waits for its value."""

    def __init__(self, line: int, anchor: str | None, mapping: bool) -> None:
        self.node = Node(line, {} if mapping else [])
        self.anchor = anchor
        self.key: str | None = None


def _from_events(header: str) -> Node | None:
    """The tree, from events: libyaml's tree builder recurses without a bound on `[[[[…`."""
    import yaml

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    anchors: dict[str, Node] = {}
    open_nodes: list[_Open] = []
    root: Node | None = None
    for event in yaml.parse(header, Loader=loader):
        done: Node | None = None
        line = FIRST_LINE + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.ScalarEvent):
            done = Node(line, event.value, plain=not event.style)
            _remember(anchors, event.anchor, done)
        elif isinstance(event, yaml.AliasEvent):
            # Only finished nodes have anchors: no cycles, and shared nodes are not copied.
            done = anchors.get(event.anchor or "")
            if done is None:
                raise FrontmatterError("modes.header_alias", line=line, name=event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_nodes) >= MAX_DEPTH:
                raise FrontmatterError("modes.header_deep", line=line, limit=MAX_DEPTH)
            open_nodes.append(_Open(line, event.anchor, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = open_nodes.pop()
            done = closed.node
            _remember(anchors, closed.anchor, done)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise FrontmatterError("modes.header_documents", line=line)
        if done is None:
            continue
        if open_nodes:
            _add(open_nodes[-1], done, line)
        else:
            root = done
    return root


def _remember(anchors: dict[str, Node], anchor: str | None, node: Node) -> None:
    if anchor is not None:
        anchors[anchor] = node


def _add(parent: _Open, node: Node, line: int) -> None:
    value = parent.node.value
    if isinstance(value, list):
        value.append(node)
    elif isinstance(value, dict):
        if parent.key is not None:
            value[parent.key] = node
            parent.key = None
            return
        if not isinstance(node.value, str):
            raise FrontmatterError("modes.header_key", line=line)
        if node.value in value:
            raise FrontmatterError("modes.header_twice", line=line, name=node.value)
        parent.key = node.value
