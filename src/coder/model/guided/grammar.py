"""The schema of an action as a GBNF grammar, for servers that take `grammar` but no JSON schema."""

from __future__ import annotations

import json
from typing import Any

_STRING = r'''string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""'''
_WORD = r'word ::= "\"" [A-Za-z_] [A-Za-z0-9_]* "\""'


def grammar_of(schema: dict[str, Any]) -> str:
    return "\n".join([f"root ::= {_rule(schema)}", _STRING, _WORD])


def _rule(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(f"( {_rule(one)} )" for one in schema["anyOf"])
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return "( " + " | ".join(_literal(value) for value in schema["enum"]) + " )"
    if schema.get("type") == "array":
        item = _rule(schema["items"])
        more = int(schema["maxItems"]) - 1
        return f'"[" {item} ( ", " {item} ){{0,{more}}} "]"'
    if schema.get("type") == "object":
        members = [
            f"{_text(json.dumps(key) + ': ')} {_rule(value)}" for key, value in schema["properties"].items()
        ]
        return '"{" ' + ' ", " '.join(members) + ' "}"'
    return "word" if "pattern" in schema else "string"


def _literal(value: object) -> str:
    return _text(json.dumps(value))


def _text(text: str) -> str:
    """A terminal of the grammar, which has the escapes of a JSON string."""
    return json.dumps(text)
