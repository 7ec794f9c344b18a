"""Text of records as HTML: nothing in it is markup, and no control character reorders or hides it."""

from __future__ import annotations

from html import escape

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_ESCAPED |= {
    code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C)
}


def plain(text: str) -> str:
    """`text` with control characters spelled out."""
    text = text.translate(_ESCAPED)
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def text_of(text: str) -> str:
    """As HTML text or the value of an attribute in double quotes."""
    return escape(plain(text))


def tag(name: str, *children: str, **attributes: str | int | bool) -> str:
    """An element. `children` are HTML already; attributes are escaped. `class_` and `data_x` for `class` and
    `data-x`; True for one without a value, False for none."""
    parts = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(written)
        elif value is not False:
            parts.append(f'{written}="{text_of(str(value))}"')
    end = "" if name == "img" else f"</{name}>"  # a void element
    return f"<{' '.join(parts)}>{''.join(children)}{end}"
