"""One block of markdown as styled rows: headings, lists, quotes, tables, code, inline styles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coder.terminal.blocks import Block
from coder.terminal.highlight import code_lines
from coder.terminal.tables import fitted, grid
from coder.terminal.width import Line, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

_CODE_ABOVE = 24  # lines of a fence that the highlighter sees above those it colours
_BULLETS = "•◦▪"
_MAX_INDENT = 24


class Carried(msgspec.Struct, frozen=True):
    """What a later part of a block needs of the earlier ones: code above it, a table's head and widths."""

    code: tuple[str, ...] = ()
    head: str = ""
    columns: tuple[int, ...] = ()


def rows_of(block: Block, width: int, carried: Carried) -> tuple[list[Line], Carried]:
    """The rows, and what to carry to the next block."""
    if block.kind == "fence":
        return _fence(block, carried)
    if block.kind == "table":
        return _table_block(block, width, carried)
    body = block.text.rstrip("\n")
    if not body.strip():
        return ([[]] if "\n" in block.text else []), Carried()
    rows = _prose(body, block, width)
    if block.text.endswith("\n\n"):
        rows.append([])
    return rows, Carried()


def _prose(body: str, block: Block, width: int) -> list[Line]:
    lines = body.split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    if not (block.in_list or block.kind == "item"):
        indent = 0
    shown = min(indent, _MAX_INDENT, width // 3)
    text = "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines)
    margin: Line = [("", " " * shown)] if shown else []
    tree = _tree(text)
    return [
        [*margin, *row] if row else row
        for node in tree.children
        for row in _node(node, max(8, width - shown), depth=indent // 2)
    ]


# code and tables, which may come in parts


def _fence(block: Block, carried: Carried) -> tuple[list[Line], Carried]:
    lines = block.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    rows: list[Line] = []
    if block.opens and lines:
        rows.append([("mark", lines.pop(0).rstrip())])
    closing = lines.pop() if block.closes and lines and _is_closing(lines[-1]) else None
    above = carried.code if not block.opens else ()
    rows += code_lines(lines, block.info, list(above))
    if closing is not None:
        rows.append([("mark", closing.rstrip())])
    return rows, Carried(code=(*above, *lines)[-_CODE_ABOVE:])


def _is_closing(line: str) -> bool:
    marks = line.strip()
    return len(marks) >= 3 and marks[0] in "`~" and not marks.strip(marks[0])


def _table_block(block: Block, width: int, carried: Carried) -> tuple[list[Line], Carried]:
    lines = block.text.rstrip("\n").split("\n")
    head = "\n".join(lines[:2]) if block.opens else carried.head
    source = block.text if block.opens else f"{head}\n{block.text}"
    tree = _tree(source.rstrip("\n"))
    table = next((node for node in tree.children if node.type == "table"), None)
    blank: list[Line] = [[]] if block.text.endswith("\n\n") else []
    if table is None:
        return [*([("", line)] for line in lines), *blank], Carried()
    cells = [
        [_spans(cell.children[0]) for cell in row.children]
        for part in table.children
        for row in part.children
    ]
    columns = list(carried.columns) if not block.opens and carried.columns else fitted(cells, width)
    keep = Carried(head=head, columns=tuple(columns))
    return [*grid(cells, columns, head=block.opens), *blank], keep


# nodes


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _tree(text: str) -> SyntaxTreeNode:
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser().parse(text))


def _node(node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
    match node.type:
        case "paragraph":
            return _paragraph(node.children[0], width)
        case "heading":
            marks = "#" * int(node.tag[1]) + " "
            spans = [(f"heading {style}".rstrip(), text) for style, text in _spans(node.children[0])]
            return wrap([("heading", marks), *spans], width)
        case "bullet_list":
            return _items(node, width, depth, lambda _: f"{_BULLETS[depth % 3]} ")
        case "ordered_list":
            start = int(node.attrs.get("start", 1))
            return _items(node, width, depth, lambda at: f"{start + at}{node.markup} ")
        case "blockquote":
            return _marked(_children(node, width - 2, depth), [("quote", "│ ")])
        case "hr":
            return [[("dim", "─" * min(width, 40))]]
        case "fence":
            code = code_lines(node.content.rstrip("\n").split("\n"), node.info, []) if node.content else []
            return [[("mark", f"{node.markup}{node.info}")], *code, [("mark", node.markup)]]
        case "code_block":
            return [[("code", line)] for line in node.content.rstrip("\n").split("\n")]
        case "table":
            cells = [
                [_spans(c.children[0]) for c in row.children]
                for part in node.children
                for row in part.children
            ]
            return grid(cells, fitted(cells, width), head=True)
        case _ if node.children:
            return _children(node, width, depth)
        case _:
            return [[("", line)] for line in node.content.rstrip("\n").split("\n")]


def _children(node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
    rows: list[Line] = []
    for at, child in enumerate(node.children):
        if at and not (node.type == "list_item" and child.type.endswith("list")):
            rows.append([])
        rows += _node(child, width, depth)
    return rows


def _items(node: SyntaxTreeNode, width: int, depth: int, label: Callable[[int], str]) -> list[Line]:
    rows: list[Line] = []
    for at, item in enumerate(node.children):
        mark = label(at)
        inner = _children(item, max(8, width - len(mark)), depth + 1)
        rows += _marked(inner or [[]], [("", " " * len(mark))], [("mark", mark)])
    return rows


def _marked(rows: list[Line], rest: Line, first: Line | None = None) -> list[Line]:
    return [[*(first if first and not at else rest), *row] for at, row in enumerate(rows)]


def _paragraph(inline: SyntaxTreeNode, width: int) -> list[Line]:
    rows: list[Line] = []
    line: Line = []
    for span in _spans(inline):
        if span == _BREAK:
            rows += wrap(line, width)
            line = []
        else:
            line.append(span)
    return rows + wrap(line, width)


_BREAK = ("break", "\n")


def _spans(node: SyntaxTreeNode, style: str = "") -> Line:
    out: Line = []
    for child in node.children:
        out += _span(child, style)
    return out


def _span(node: SyntaxTreeNode, style: str) -> Line:
    def also(role: str) -> str:
        return f"{style} {role}".lstrip()

    match node.type:
        case "text" | "html_inline":
            return [(style, node.content)]
        case "softbreak":
            return [(style, " ")]
        case "hardbreak":
            return [_BREAK]
        case "code_inline":
            return [(also("code"), node.content)]
        case "strong":
            return _spans(node, also("strong"))
        case "em":
            return _spans(node, also("em"))
        case "s":
            return _spans(node, also("strike"))
        case "link" | "image":
            return _link(node, style, also("link"))
        case _:
            return _spans(node, style) if node.children else [(style, node.content)]


def _link(node: SyntaxTreeNode, style: str, linked: str) -> Line:
    """The text and, where it says something else, the address: a terminal has no way to look behind it."""
    address = str(node.attrs.get("href") or node.attrs.get("src") or "")
    text = _spans(node, linked) or [(linked, node.content)]
    shown = "".join(part for _, part in text)
    if not address or address.removeprefix("mailto:") == shown:
        return text
    return [*text, (f"{style} dim".lstrip(), f" ({address})")]
