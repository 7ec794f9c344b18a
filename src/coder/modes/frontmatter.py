"""The YAML between the `---` lines, as a tree that knows its lines.

Two readers give the same tree. The quick one knows the plain YAML that mode files are written in and
gives up (None) on everything else; it spares a thousand files, and every start, the YAML library. The
library then has the last word. Its events are read instead of its nodes, because libyaml's own tree
builder recurses without a bound and ends the process on `[[[[…`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from coder.modes.faults import ModeFault

if TYPE_CHECKING:
    import yaml

MAX_HEADER = 65_536  # a header is written by a person
MAX_DEPTH = 16
FIRST_LINE = 2  # of the file: the header begins after the `---`

_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and the line it stands on. `plain`: a scalar without quotes, so `null` means none."""

    line: int
    value: str | list[Node] | dict[str, Node]
    plain: bool = False

    @property
    def absent(self) -> bool:
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


def split(text: str) -> tuple[str | None, str, int]:
    """Header (None where there is none), body, and the line that the body begins on."""
    if not text.startswith("---") or text[3 : text.find("\n") if "\n" in text else None].strip(" \t"):
        return None, text, 1
    start = text.find("\n") + 1
    end = _END.search(text, start) if start else None
    if end is None:
        raise ModeFault("modes.header_open", code="file", line=1)
    header = text[start : end.start()]
    if len(header) > MAX_HEADER:
        raise ModeFault("modes.header_long", code="file", line=1, limit=MAX_HEADER)
    after = text.find("\n", end.end())
    body = "" if after < 0 else text[after + 1 :]
    return header, body, FIRST_LINE + header.count("\n") + 1


def read_header(header: str) -> dict[str, Node]:
    """The fields in their order. Raises `ModeFault`."""
    quick = read_quickly(header)
    return quick if quick is not None else read_with_yaml(header)


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
    """Not the plain YAML that the quick reader knows."""


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
                break  # the next item of the sequence that this mapping stands in
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
    """Whether the line begins the value of a key at `indent`; a list may stand at its key's own."""
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
    """`"^\\d+$"` is how patterns get written, though strictly it is no YAML: it keeps its backslash."""
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
            node = _from_events(_QUOTED.sub(_kept_backslashes, header))
        except yaml.YAMLError:
            raise _said(error) from None
    if node is None or node.absent:
        return {}
    if not isinstance(node.value, dict):
        raise ModeFault("modes.header_no_fields", code="file", line=node.line)
    return node.value


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _kept_backslashes(match: re.Match[str]) -> str:
    """Backslashes that begin no escape of YAML, doubled."""
    return re.sub(r"\\(.)", lambda m: m[0] if m[1] in _YAML_ESCAPES else "\\" + m[0], match[0])


def _said(error: yaml.YAMLError) -> ModeFault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = FIRST_LINE + (mark.line if mark else 0)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    return ModeFault("modes.header_yaml", code="file", line=line, why=why)


class _Open:
    """A list or mapping whose end has not come yet; `key` waits for its value."""

    def __init__(self, line: int, anchor: str | None, mapping: bool) -> None:
        self.node = Node(line, {} if mapping else [])
        self.anchor = anchor
        self.key: str | None = None


def _from_events(header: str) -> Node | None:
    """The document's tree. Nothing of it is ever constructed: a tag is only a name here."""
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
            # Only finished nodes have names here: no cycle can arise, and a shared node is never copied.
            done = anchors.get(event.anchor or "")
            if done is None:
                raise ModeFault("modes.header_alias", code="file", line=line, name=event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_nodes) >= MAX_DEPTH:
                raise ModeFault("modes.header_deep", code="file", line=line, limit=MAX_DEPTH)
            open_nodes.append(_Open(line, event.anchor, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = open_nodes.pop()
            done = closed.node
            _remember(anchors, closed.anchor, done)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise ModeFault("modes.header_documents", code="file", line=line)
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
            raise ModeFault("modes.header_key", code="file", line=line)
        if node.value in value:
            raise ModeFault("modes.header_twice", code="file", line=line, name=node.value)
        parent.key = node.value
