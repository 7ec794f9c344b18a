"""Renders one markdown block as styled rows."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coder.ui.terminal.render.highlight import CodeState, code_lines
from coder.ui.terminal.render.markdown_blocks import Block
from coder.ui.terminal.render.width import Line, Span, line_width, plain, text_width, unbreakable_units, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode


_GAP = " │ "
_LEAST = 4  # columns that a cell keeps, whatever the terminal's width
_TALLEST = 3  # rows of a cell: narrow columns of more are harder to read than a block
_LONGEST_WORD = 24  # columns; longer words (URLs, paths) may be broken
_PIPE = re.compile(r"(?<!\\)\|")


class TableShape(msgspec.Struct, frozen=True):
    """Column widths and alignments ("<", "^", ">") of a table. Without widths the rows are stacked, labelled
    by `head`."""

    columns: tuple[int, ...]
    aligned: tuple[str, ...]
    head: tuple[tuple[Span, ...], ...]
    width: int


def cells_of(line: str) -> list[str]:
    """The texts between the bars of a row; an escaped bar is text."""
    text = line.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _PIPE.split(text)]


def shape_of(cells: list[list[Line]], ruler: list[str], width: int) -> TableShape | None:
    """From the head, the delimiter row (`ruler`) and the rows so far; None if it is no table."""
    head, _, *rows = cells
    if len(head) != len(ruler):
        return None
    aligned = [("^" if mark[0] == ":" else ">") if mark[-1:] == ":" else "<" for mark in ruler]
    columns = column_widths([head, *(_even(row, len(head)) for row in rows)], width)
    stacked = TableShape((), tuple(aligned), tuple(map(tuple, head)), width)
    if sum(columns) + len(_GAP) * (len(columns) - 1) > width:
        return stacked
    table = msgspec.structs.replace(stacked, columns=tuple(columns))
    heights = [len(table_rows([row], table, head=False)) for row in rows]
    return stacked if max(heights, default=0) > _TALLEST else table


def column_widths(cells: list[list[Line]], width: int) -> list[int]:
    """The width of each column: its widest cell, then the widest are narrowed until all fit, without breaking
    words."""
    count = max((len(row) for row in cells), default=0)
    columns = [[row[at] for row in cells if at < len(row)] for at in range(count)]
    wanted = [max(1, *map(line_width, column)) for column in columns]
    room = width - len(_GAP) * (count - 1)
    if sum(wanted) <= room:
        return wanted
    least = [max(_LEAST, *map(_longest_word, column)) for column in columns]
    while sum(wanted) > room:
        wide = [at for at in range(count) if wanted[at] > least[at]]
        if not wide:
            break
        wanted[max(wide, key=wanted.__getitem__)] -= 1
    return wanted


def _longest_word(cell: Line) -> int:
    """The columns that no line break may divide."""
    words = [line_width(word) for word in unbreakable_units(cell)]
    return max((size for size in words if size <= _LONGEST_WORD), default=0)


def table_rows(cells: list[list[Line]], shape: TableShape, *, head: bool) -> list[Line]:
    """The rows; `head`: the first of `cells` is the table's head."""
    count = len(shape.head)
    even = [_even(row, count) for row in cells]
    if not shape.columns:
        return [line for row in even[head:] for line in _stacked(row, shape)]
    rows: list[Line] = []
    if head:
        rows += _row([[(f"strong {s}".rstrip(), t) for s, t in cell] for cell in even[0]], shape)
        rows.append([("dim", "─┼─".join("─" * size for size in shape.columns))])
    for row in even[head:]:
        rows += _row(row, shape)
    return rows


def _even(cells: list[Line], count: int) -> list[Line]:
    """Pad to the head's number of cells; join surplus cells to the last one."""
    if len(cells) <= count:
        return cells + [[] for _ in range(count - len(cells))]
    rest = [span for cell in cells[count:] for span in (("dim", _GAP), *cell)]
    return [*cells[: count - 1], [*cells[count - 1], *rest]]


def _row(cells: list[Line], shape: TableShape) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(cells, shape.columns, strict=True)]
    rows: list[Line] = []
    for level in range(max(map(len, wrapped), default=0)):
        row: Line = []
        for at, (cell, size) in enumerate(zip(wrapped, shape.columns, strict=True)):
            part = cell[level] if level < len(cell) else []
            last = at == len(shape.columns) - 1
            before, after = _padding(size - line_width(part), shape.aligned[at])
            row += [("", before), *part]
            row += [] if last else [("", after), ("dim", _GAP)]
        rows.append([span for span in row if span[1]])
    return rows


def _padding(room: int, align: str) -> tuple[str, str]:
    before = {"<": 0, "^": room // 2, ">": room}[align]
    return " " * before, " " * (room - before)


def _stacked(cells: list[Line], shape: TableShape) -> list[Line]:
    """A row of a too wide table: `head: cell` lines."""
    rows: list[Line] = []
    for name, cell in zip(shape.head, cells, strict=True):
        if plain(cell):
            label: Line = [(f"strong {style}".rstrip(), text) for style, text in name]
            rows += wrap([*label, ("dim", ": "), *cell], shape.width, rest=[("", "  ")])
    return [*rows, [("dim", "─" * min(shape.width, 20))]]


_BULLETS = "•◦▪"
_MAX_INDENT = 24
# Fast path: text without any of these is plain words and needs no parser.
_MARKED = re.compile(r"[\\`*_\[\]<>&~|]|^\s|^[-+=#]|^\d|  \n|\n\s", re.MULTILINE)
_PLAIN_ITEM = re.compile(r" *([-*+]|\d{1,9}[.)]) {1,3}(?![-+*>#=|\d ])(.+)\Z")
_MARKED_INLINE = re.compile(r"[\\`*_\[\]<>&~]|  \n")


class BlockState(msgspec.Struct, frozen=True):
    """Renderer state carried to the next part of a block: the lexer's, the table's columns, and of prose its
    unfinished last row (`lead` is its prefix, `margin` that of following rows)."""

    code: CodeState = CodeState()
    table: TableShape | None = None
    lead: tuple[Span, ...] = ()
    margin: tuple[Span, ...] = ()
    row: tuple[Span, ...] = ()


def markdown_rows(block: Block, width: int, carried: BlockState) -> tuple[list[Line], BlockState]:
    """The rows, and the state for the next part."""
    if block.kind == "fence":
        return _fence(block, carried)
    if block.kind == "table":
        return _table_block(block, width, carried)
    body = block.text.rstrip("\n")
    if not block.opens:
        rows = continue_row(_inline(body), width, carried)
    elif not body.strip():
        return ([[]] if "\n" in block.text else []), BlockState()
    else:
        rows = _prose(body, block, width)
    if not block.closes:
        return hold_last_row(rows, block, carried)
    if block.text.endswith("\n\n") or not body:
        rows.append([])
    return rows, BlockState()


def continue_row(spans: Line, width: int, carried: BlockState) -> list[Line]:
    """Append to a paragraph with an unfinished last row."""
    line = [*carried.row, *spans]
    if not line:
        return []
    rows = wrap(line, max(8, width - line_width(list(carried.lead))))
    return _with_prefix(rows, list(carried.margin), list(carried.lead))


def hold_last_row(rows: list[Line], block: Block, carried: BlockState) -> tuple[list[Line], BlockState]:
    """Hold back the last row: the next part may continue it."""
    if not rows:
        return [], carried
    *rows, row = rows
    lead = list(itertools.takewhile(_is_margin, row))
    margin = [
        (style if style == "quote" else "", " " * text_width(text) if style == "mark" else text)
        for style, text in lead
    ]
    glue = [("", " ")] if block.text[-1].isspace() else []
    return rows, BlockState(lead=tuple(lead), margin=tuple(margin), row=(*row[len(lead) :], *glue))


def _is_margin(span: Span) -> bool:
    style, text = span
    return style in ("quote", "mark") or (not style and text.isspace())


def _prose(body: str, block: Block, width: int) -> list[Line]:
    if block.kind == "prose" and not _MARKED.search(body):
        return wrap([("", body.replace("\n", " "))], width)
    lines = body.split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    if not (block.in_list or block.kind == "item"):
        indent = 0
    shown = min(indent, _MAX_INDENT, width // 3)
    margin: Line = [("", " " * shown)] if shown else []
    depth, room = indent // 2, max(8, width - shown)
    rows = _plain_item(body, room, depth) if block.kind == "item" else None
    if rows is None:
        text = "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines)
        rows = [row for node in _tree(text).children for row in _node(node, room, depth)]
    return [[*margin, *row] if row else row for row in rows]


def _plain_item(body: str, width: int, depth: int) -> list[Line] | None:
    """Fast path for a one-line item of plain words."""
    item = _PLAIN_ITEM.match(body)
    if item is None or _MARKED_INLINE.search(item[2]):
        return None
    number, dot = item[1][:-1], item[1][-1]
    mark = f"{int(number)}{dot} " if number else f"{_BULLETS[depth % 3]} "
    return _with_prefix(
        wrap([("", item[2])], max(8, width - len(mark))), [("", " " * len(mark))], [("mark", mark)]
    )


# code and tables, which arrive in parts


def _fence(block: Block, carried: BlockState) -> tuple[list[Line], BlockState]:
    lines = block.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    rows: list[Line] = []
    if block.opens and lines:
        rows.append([("mark", lines.pop(0).rstrip())])
    closing = lines.pop() if block.closes and lines and _is_closing(lines[-1]) else None
    code, state = code_lines(lines, block.info, CodeState() if block.opens else carried.code)
    rows += code
    if closing is not None:
        rows.append([("mark", closing.rstrip())])
    return rows, BlockState(code=state)


def _is_closing(line: str) -> bool:
    marks = line.strip()
    return len(marks) >= 3 and marks[0] in "`~" and not marks.strip(marks[0])


def _table_block(block: Block, width: int, carried: BlockState) -> tuple[list[Line], BlockState]:
    lines = block.text.rstrip("\n").split("\n") if block.text.strip() else []
    blank: list[Line] = [[]] if block.text.endswith("\n\n") or not lines else []
    split = [cells_of(line) for line in lines]
    shape = carried.table
    if block.opens:
        cells = [[_inline(cell) for cell in row] for row in split]
        shape = shape_of(cells, split[1], width) if len(split) > 1 else None
        rows = table_rows([cells[0], *cells[2:]], shape, head=True) if shape else None
    else:
        cells = [[_inline(cell) for cell in row] for row in split]
        rows = table_rows(cells, shape, head=False) if shape else None
    if rows is None:
        rows = [row for line in lines for row in wrap([("", line)], width)]
    return [*rows, *blank], BlockState(table=shape)


# nodes


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _tree(text: str) -> SyntaxTreeNode:
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser().parse(text))


@functools.lru_cache(maxsize=1024)
def _parsed_inline(text: str) -> tuple[Span, ...]:
    from markdown_it.tree import SyntaxTreeNode

    return tuple(_spans(SyntaxTreeNode(_parser().parseInline(text)).children[0]))


def _inline(text: str) -> Line:
    """Parse inline markup only. Cached: rows are rendered again while their table grows."""
    if not _MARKED_INLINE.search(text):
        return [("", text.replace("\n", " "))] if text else []
    return [("", " ") if span == _BREAK else span for span in _parsed_inline(text)]


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
            return _with_prefix(_children(node, width - 2, depth), [("quote", "│ ")])
        case "hr":
            return [[("mark", "─" * min(width, 40))]]
        case "fence":
            code = code_lines(node.content.rstrip("\n").split("\n"), node.info, CodeState())[0]
            code = code if node.content else []
            return [[("mark", f"{node.markup}{node.info}")], *code, [("mark", node.markup)]]
        case "code_block":
            return [[("code", line)] for line in node.content.rstrip("\n").split("\n")]
        case "table":
            cells = [
                [_spans(c.children[0]) for c in row.children]
                for part in node.children
                for row in part.children
            ]
            shape = shape_of([cells[0], [], *cells[1:]], ["-"] * len(cells[0]), width)
            return table_rows(cells, shape, head=True) if shape else []
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
        inner = [_with_checkbox(row) for row in _children(item, max(8, width - len(mark)), depth + 1)]
        rows += _with_prefix(inner or [[]], [("", " " * len(mark))], [("mark", mark)])
    return rows


def _with_checkbox(row: Line) -> Line:
    """Task-list items: `[ ]` and `[x]` as boxes."""
    style, text = row[0] if row else ("", "")
    box = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}.get(text[:4]) if not style else None
    return [(style, box + text[4:]), *row[1:]] if box else row


def _with_prefix(rows: list[Line], rest: Line, first: Line | None = None) -> list[Line]:
    return [[*(rest if at or first is None else first), *row] for at, row in enumerate(rows)]


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
    for before, child, after in zip(
        [None, *node.children], node.children, [*node.children[1:], None], strict=False
    ):
        if child.type in ("strong", "em") and child.markup[:1] == "_" and _in_name(before, after):
            out += [(style, child.markup), *_spans(child, style), (style, child.markup)]
        else:
            out += _span(child, style)
    return out


def _in_name(before: SyntaxTreeNode | None, after: SyntaxTreeNode | None) -> bool:
    """Whether underscores are part of a path (`pkg/__init__.py`) rather than emphasis."""
    left = before.content[-1:] if before is not None and before.type == "text" else ""
    right = after.content[:2] if after is not None and after.type == "text" else ""
    return (
        left in ("/", ".", "\\") or right[:1] in ("/", "\\") or bool(right[:1] == "." and right[1:].strip())
    )


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
    """The text, and the URL if it differs."""
    address = str(node.attrs.get("href") or node.attrs.get("src") or "")
    text = _spans(node, linked) or [(linked, node.content)]
    shown = "".join(part for _, part in text)
    if not address or address.removeprefix("mailto:") == shown:
        return text
    return [*text, (f"{style} dim".lstrip(), f" ({address})")]
