"""Makes the tables of docs/record.md from the types of the entries.

python docs/record_table.py    writes them into docs/record.md
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from coder.protocol import entries

PAGE = Path(__file__).parent / "record.md"
MARKS = ("<!-- made by docs/record_table.py -->\n", "<!-- end -->\n")


def tables() -> str:
    parts = {part: None for form in entries.NAMES for part in _parts(form)}
    found = ["## Entries by type\n"]
    found += [_table(f"`{name}`", form) for form, name in entries.NAMES.items()]
    found += ["## Objects within them\n"]
    found += [_table(f"`{part.__name__}`", part) for part in parts]
    return "\n".join(found)


def _table(title: str, form: type[msgspec.Struct]) -> str:
    lines = [f"### {title}", "", *_wrapped(form), ""]
    if fields := msgspec.structs.fields(form):
        lines += ["| field | type | written |", "| --- | --- | --- |"]
        lines += [f"| `{field.encode_name}` | {' | '.join(_about(form, field))} |" for field in fields]
        lines += [""]
    return "\n".join(lines)


def _wrapped(form: type[msgspec.Struct]) -> list[str]:
    return textwrap.wrap(" ".join((form.__doc__ or "").split()), 115)


def _about(form: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> tuple[str, str]:
    text = _type(field.type)
    if field.default is None:  # which is left out
        text = text.removesuffix(" or null")
    always = field.required or not form.__struct_config__.omit_defaults
    return text, "always" if always else "if set"


def _parts(form: object) -> Iterator[type[msgspec.Struct]]:
    """The structs within a type."""
    held: list[object] = list(get_args(form))
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        held = [field.type for field in msgspec.structs.fields(form)]
    for one in held:
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield one
        yield from _parts(one)


_WORDS = {"NoneType": "null", "None": "null", "str": "text", "int": "integer", "float": "number"}
_WORDS |= {"bool": "boolean", "dict": "object", "tuple": "pair", "Any": "any"}


def _type(form: object) -> str:
    text = form.__name__ if isinstance(form, type) and not get_args(form) else str(form)
    text = re.sub(r"[\w.]+\.(\w+)", r"\1", text).replace(" | UnsetType", "").replace("dict[str, Any]", "dict")
    text = re.sub(r"Literal\[(.*?)\]", lambda m: m[1].replace(", ", " or "), text)
    text = re.sub(r"(?<!')\b\w+\b(?!')", lambda m: _WORDS.get(m[0], m[0]), text)
    return text.replace("|", "or").replace("'", "`")


def page() -> str:
    """The page with its tables as they should be."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    return f"{before}{MARKS[0]}\n{tables()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
