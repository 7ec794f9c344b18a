"""prompt_toolkit's input control with correct line heights for wide characters.

prompt_toolkit divides a line's width by the window's. A wide character that does not fit at the edge leaves a
column empty, so the line may need one more row, and the cursor would be drawn in the wrong place.
"""

from __future__ import annotations

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import fragment_list_to_text, fragment_list_width, to_formatted_text
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.controls import GetLinePrefixCallable, SearchBufferControl, UIContent
from prompt_toolkit.layout.processors import TabsProcessor

from coder.terminal.input.rows import TAB_STOP, Shape, text_rows


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
        prefixes = [to_formatted_text(get_line_prefix(lineno, wrapped)) for wrapped in (0, 1)]
        first, later = map(fragment_list_width, prefixes)
        shape = Shape(width, first, later)
        # The trailing space is the cursor's cell, which `text_rows` counts itself.
        return len(text_rows(line.removesuffix(" "), shape)) if later < width else 10**8


class InputControl(BufferControl):
    """The prompt's text, with tabs expanded to spaces."""

    def __init__(self, buffer: Buffer, search: SearchBufferControl) -> None:
        super().__init__(
            buffer,
            search_buffer_control=search,
            preview_search=True,
            input_processors=[TabsProcessor(TAB_STOP, " ", " ")],
        )

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        return _Content(super().create_content(width, height, preview_search))
