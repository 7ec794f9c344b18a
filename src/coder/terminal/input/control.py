"""prompt_toolkit's input control, with rows that end between words and correct heights for wide characters.

prompt_toolkit breaks a line at any character, and divides its width by the window's to get its height. A wide
character that does not fit at the edge leaves a column empty, so the line may need one more row, and the
cursor would be drawn in the wrong place.
"""

from __future__ import annotations

from bisect import bisect_right

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import (
    StyleAndTextTuples,
    fragment_list_to_text,
    fragment_list_width,
    to_formatted_text,
)
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.controls import GetLinePrefixCallable, SearchBufferControl, UIContent
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from coder.terminal.input.rows import TAB_STOP, Shape, text_rows


def _prefix_width(prefix: GetLinePrefixCallable, line: int, wrapped: int) -> int:
    return fragment_list_width(to_formatted_text(prefix(line, wrapped)))


class _Content(UIContent):
    """Content with exact line heights."""

    def __init__(self, content: UIContent) -> None:
        super().__init__(
            content.get_line,
            content.line_count,
            content.cursor_position,
            content.menu_position,
            content.show_cursor,
        )

    def get_height_for_line(
        self,
        lineno: int,
        width: int,
        get_line_prefix: GetLinePrefixCallable | None,
        slice_stop: int | None = None,
    ) -> int:
        line = fragment_list_to_text(self.get_line(lineno))[:slice_stop]
        if line.isascii() or get_line_prefix is None:
            return super().get_height_for_line(lineno, width, get_line_prefix, slice_stop)
        first, later = (_prefix_width(get_line_prefix, lineno, wrapped) for wrapped in (0, 1))
        shape = Shape(width, first, later)
        # The trailing space is the cursor's cell, which `text_rows` counts itself.
        return len(text_rows(line.removesuffix(" "), shape)) if later < width else 10**8


class _Rows(Processor):
    """Fills the rows that end between words, and expands tabs to spaces."""

    def __init__(self, prefix: GetLinePrefixCallable) -> None:
        self._prefix = prefix

    def apply_transformation(self, ti: TransformationInput) -> Transformation:
        line = fragment_list_to_text(ti.fragments)
        first, later = (_prefix_width(self._prefix, *of) for of in ((ti.lineno, 0), (ti.lineno, 1)))
        if "\t" not in line and first + 2 * len(line) < ti.width:  # it fits, however wide
            return Transformation(ti.fragments)
        left = {row.start: row.left for row in text_rows(line, Shape(ti.width, first, later))}
        shown: StyleAndTextTuples = []
        places: list[int] = []  # of each character, and of the caret behind the last
        place = column = 0
        for at, fragment in enumerate([*explode_text_fragments(ti.fragments), ("", "")]):
            if blanks := left.get(at, 0):
                shown.append(("", " " * blanks))
                place += blanks
            places.append(place)
            text = " " * (TAB_STOP - column % TAB_STOP) if fragment[1] == "\t" else fragment[1]
            shown.append((fragment[0], text))
            place += len(text)
            column += len(text)
        return Transformation(
            shown,
            source_to_display=lambda at: places[at] if at < len(places) else places[-1] + at - len(line),
            display_to_source=lambda at: max(0, bisect_right(places, at) - 1),
        )


class InputControl(BufferControl):
    """The prompt's text, broken between words."""

    def __init__(self, buffer: Buffer, search: SearchBufferControl, prefix: GetLinePrefixCallable) -> None:
        super().__init__(
            buffer,
            search_buffer_control=search,
            preview_search=True,
            input_processors=[_Rows(prefix)],
        )

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        return _Content(super().create_content(width, height, preview_search))
