"""Headers with lists, mappings and quotes, read by the YAML library.

Only its events are used: libyaml's tree builder recurses without a bound and crashes on `[[[[…`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from coder.base.frontmatter import FIRST_LINE, HeadFault, Node

if TYPE_CHECKING:
    import yaml

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
        line = FIRST_LINE + (event.start_mark.line if event.start_mark else 0)
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
