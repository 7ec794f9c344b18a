"""Headers with lists, mappings and quotes: a fast parser of plain YAML, and the library as fallback.

The fast one returns None for what it does not know. Of the library only the events are used: libyaml's tree
builder recurses without a bound and crashes on `[[[[…`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from coder.context.frontmatter import FIRST_LINE, HeadFault, Node

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 16

# -- the quick reader ---------------------------------------------------------------------------------

_KEYED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: +(.*))?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(?: +#.*)?')
_SINGLE = re.compile(r"'((?:[^']|'')*)'(?: +#.*)?")
_PLAIN = re.compile(
    r"(?:[^\s\-?:,\[\]{}#&*!|>'\"%@`]|-(?=[^\s]))(?:[^:# ]|:(?=[^ ])|(?<=[^ ])#| +(?=[^ #]))*"
)
_FLOW = re.compile(r"\[([^\[\]{}#]*)\](?: +#.*)?")
_ITEM = re.compile(r" *(?:\"([^\"\\]*)\"|'([^']*)'|([A-Za-z0-9_.][A-Za-z0-9_./+ -]*)) *")
_ESCAPE = re.compile(r"\\(.)")
_YAML_ESCAPES = frozenset('0abt\tnvfre "/\\N_LPxuU')


class _GiveUp(Exception):
    """Not supported by the fast parser."""


def read_quickly(header: str) -> dict[str, Node] | None:
    if not header.replace("\n", "").isprintable():
        return None
    lines: list[tuple[int, int, str]] = []  # line number, indentation, text
    for number, line in enumerate(header.split("\n"), FIRST_LINE):
        stripped = line.lstrip(" ")
        if not stripped or stripped[0] == "#":
            continue
        lines.append((number, len(line) - len(stripped), stripped.rstrip(" ")))
    if not lines or lines[0][1] != 0:
        return None if lines else {}
    try:
        node, end = _block(lines, 0, 0)
    except _GiveUp:
        return None
    return node.value if end == len(lines) and isinstance(node.value, dict) else None


def _block(lines: list[tuple[int, int, str]], at: int, depth: int) -> tuple[Node, int]:
    if depth > MAX_DEPTH:
        raise _GiveUp
    if lines[at][2].startswith("- "):
        return _sequence(lines, at, depth)
    return _mapping(lines, at, depth)


def _sequence(lines: list[tuple[int, int, str]], at: int, depth: int) -> tuple[Node, int]:
    first, indent, _ = lines[at]
    items: list[Node] = []
    while at < len(lines) and lines[at][1] == indent and lines[at][2].startswith("- "):
        number, _, text = lines[at]
        inner = text[2:].lstrip(" ")
        if _KEYED.fullmatch(inner):
            lines[at] = (number, indent + len(text) - len(inner), inner)
            node, at = _mapping(lines, at, depth + 1)
        else:
            node, at = _scalar(number, inner), at + 1
        items.append(node)
    if at < len(lines) and lines[at][1] > indent:
        raise _GiveUp
    return Node(first, items), at


def _mapping(lines: list[tuple[int, int, str]], at: int, depth: int) -> tuple[Node, int]:
    first, indent, _ = lines[at]
    fields: dict[str, Node] = {}
    while at < len(lines) and lines[at][1] == indent:
        number, _, text = lines[at]
        keyed = _KEYED.fullmatch(text)
        if keyed is None:
            if depth and text.startswith("- "):
                break  # the next item of the enclosing sequence
            raise _GiveUp
        name, value = keyed[1], keyed[2]
        if name in fields:
            raise _GiveUp
        at += 1
        if value and value[0] != "#":
            fields[name] = _scalar(number, value)
        elif at < len(lines) and _belongs(lines[at], indent):
            fields[name], at = _block(lines, at, depth + 1)
        else:
            fields[name] = Node(number, "", plain=True)
    if at < len(lines) and lines[at][1] > indent:
        raise _GiveUp
    return Node(first, fields), at


def _belongs(line: tuple[int, int, str], indent: int) -> bool:
    """Whether the line begins the value of a key at `indent`; a list may have the key's own indentation."""
    return line[1] > indent or (line[1] == indent and line[2].startswith("- "))


def _scalar(number: int, text: str) -> Node:
    if text[0] == '"' and (match := _DOUBLE.fullmatch(text)):
        return Node(number, _ESCAPE.sub(_unescaped, match[1]))
    if text[0] == "'" and (match := _SINGLE.fullmatch(text)):
        return Node(number, match[1].replace("''", "'"))
    if text[0] == "[" and (match := _FLOW.fullmatch(text)):
        return Node(number, _flow(number, match[1]))
    comment = text.find(" #")
    plain = (text if comment < 0 else text[:comment]).rstrip(" ")
    if not _PLAIN.fullmatch(plain):
        raise _GiveUp
    return Node(number, plain, plain=True)


def _flow(number: int, text: str) -> list[Node]:
    if not text.strip(" "):
        return []
    items = []
    for part in text.split(","):
        match = _ITEM.fullmatch(part)
        if match is None:
            raise _GiveUp
        quoted = match[1] if match[1] is not None else match[2]
        plain = match[3]
        items.append(Node(number, plain.rstrip(" "), plain=True) if plain else Node(number, quoted or ""))
    return items


def _unescaped(match: re.Match[str]) -> str:
    """Keeps the backslash of `"^\\d+$"`, which is invalid YAML but common."""
    if match[1] in '\\"/ ':
        return match[1]
    if match[1] in _YAML_ESCAPES:
        raise _GiveUp
    return match[0]


# -- the library --------------------------------------------------------------------------------------


def read_with_yaml(header: str) -> dict[str, Node]:
    import yaml

    try:
        node = _from_events(header)
    except yaml.YAMLError as error:
        try:
            node = _from_events(_repaired(header))
        except yaml.YAMLError:
            raise _header_fault(error) from None
    if node is None or node.absent:
        return {}
    if not isinstance(node.value, dict):
        raise HeadFault("modes.header_no_fields", line=node.line)
    return node.value


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
# `description: Use this when: asked`, which is invalid YAML but common.
_COLON_IN_TEXT = re.compile(
    r"^((?:- )?[A-Za-z][A-Za-z0-9_-]*: +)(\w[^#\n]*: [^#\n]*[^\s:])[ ]*$", re.MULTILINE
)


def _repaired(header: str) -> str:
    """Repair two unambiguous mistakes."""
    header = _QUOTED.sub(_kept_backslashes, header)
    return _COLON_IN_TEXT.sub(lambda m: f"{m[1]}'{m[2].replace(chr(39), chr(39) * 2)}'", header)


def _kept_backslashes(match: re.Match[str]) -> str:
    """Double backslashes that do not begin a YAML escape."""
    return re.sub(r"\\(.)", lambda m: m[0] if m[1] in _YAML_ESCAPES else "\\" + m[0], match[0])


def _header_fault(error: yaml.YAMLError) -> HeadFault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = FIRST_LINE + (mark.line if mark else 0)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    return HeadFault("modes.header_yaml", line=line, why=why)


class _Open:
    """An unfinished list or mapping; `key` waits for its value."""

    def __init__(self, line: int, anchor: str | None, mapping: bool) -> None:
        self.node = Node(line, {} if mapping else [])
        self.anchor = anchor
        self.key: str | None = None


def _from_events(header: str) -> Node | None:
    """The document's tree. Tags are never constructed."""
    import yaml

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    anchors: dict[str, Node] = {}
    open_nodes: list[_Open] = []
    root: Node | None = None
    for event in yaml.parse(header, Loader=loader):
        done: Node | None = None
        line = FIRST_LINE + event.start_mark.line
        if isinstance(event, yaml.ScalarEvent):
            done = Node(line, event.value, plain=not event.style)
            _remember(anchors, event.anchor, done)
        elif isinstance(event, yaml.AliasEvent):
            # Only finished nodes have anchors: no cycles, and shared nodes are not copied.
            done = anchors.get(event.anchor or "")
            if done is None:
                raise HeadFault("modes.header_alias", line=line, name=event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_nodes) >= MAX_DEPTH:
                raise HeadFault("modes.header_deep", line=line, limit=MAX_DEPTH)
            open_nodes.append(_Open(line, event.anchor, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = open_nodes.pop()
            done = closed.node
            _remember(anchors, closed.anchor, done)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise HeadFault("modes.header_documents", line=line)
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
            raise HeadFault("modes.header_key", line=line)
        if node.value in value:
            raise HeadFault("modes.header_twice", line=line, name=node.value)
        parent.key = node.value
