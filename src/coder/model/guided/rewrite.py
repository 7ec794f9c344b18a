"""One function written anew, with its old body left out.

A small model that sees wrong code copies it, however warm it is. From name, parameters, docstring and tests
it writes the same function well.
"""

from __future__ import annotations

import ast
import re
import textwrap

_FRAME = re.compile(
    r"File \"(?P<file>[^\"]+)\", line (?P<line>\d+)|^(?P<short>[\w./-]+\.py):(?P<at>\d+):", re.M
)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(text: str) -> dict[str, Function]:
    """Functions and methods by name (`total`, `Stack.pop`); none where the text does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Function] = {}
    for node in tree.body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            own = [one for one in node.body if isinstance(one, Function)]
            found |= {f"{node.name}.{one.name}": one for one in own}
    return found


def at_fault(path: str, text: str, output: str) -> str:
    """The function that a failing check points at: where the error came from, or what was compared."""
    functions = functions_in(text)
    frames = [(one["file"] or one["short"], int(one["line"] or one["at"])) for one in _FRAME.finditer(output)]
    for file, line in reversed(frames):
        if file == path or file.endswith(f"/{path}"):
            inside = [name for name, one in functions.items() if one.lineno <= line <= (one.end_lineno or 0)]
            if inside:
                return inside[0]
    compared = "\n".join(line for line in output.split("\n") if re.search(r"\bassert|\+\s+where ", line))
    return named_in(text, compared)


def named_in(text: str, words: str) -> str:
    """The first function of a file that the words name."""
    functions = functions_in(text)
    for word in _WORD.findall(words):
        for name in functions:
            if name.rpartition(".")[2] == word:
                return name
    return ""


def without_body(text: str, name: str) -> str:
    """The file with `...` for what a function does; its docstring says what it should do."""
    function = functions_in(text)[name]
    lines = text.split("\n")
    first = function.body[0]
    kept = (first.end_lineno or first.lineno) if _is_docstring(first) else first.lineno - 1
    if kept < function.lineno:  # all on one line
        kept = function.lineno
        lines[kept - 1] = lines[kept - 1][: first.col_offset].rstrip()
    hole = " " * (function.col_offset + 4) + "..."
    return "\n".join([*lines[:kept], hole, *lines[function.end_lineno :]])


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def with_function(text: str, name: str, code: str) -> str:
    """The file with the new function in the old one's place, and the imports that came with it."""
    old = functions_in(text)[name]
    code = textwrap.dedent(code)
    lines, own = text.split("\n"), code.rstrip().split("\n")
    new = next((one for full, one in functions_in(code).items() if _same(full, name)), None)
    if new is not None:
        start = min([new.lineno, *(one.lineno for one in new.decorator_list)])
        own = own[start - 1 : new.end_lineno]
    elif not re.search(r"(?m)^\s*(?:def|class)\b", code):  # only the body
        own = [*_head(text, old), *textwrap.indent("\n".join(own), " " * 4).split("\n")]
    body = textwrap.indent(textwrap.dedent("\n".join(own)), " " * old.col_offset)
    start = min([old.lineno, *(one.lineno for one in old.decorator_list)])
    lines[start - 1 : old.end_lineno] = body.split("\n")
    return _with_imports("\n".join(lines), code if new is not None else "")


def _same(full: str, name: str) -> bool:
    return full.rpartition(".")[2] == name.rpartition(".")[2]


def _head(text: str, function: Function) -> list[str]:
    lines = text.split("\n")[function.lineno - 1 : function.body[0].lineno - 1]
    return textwrap.dedent("\n".join(lines)).split("\n")


def _with_imports(text: str, code: str) -> str:
    try:
        there, given = ast.parse(text), ast.parse(code)
    except (SyntaxError, ValueError):
        return text
    known = {ast.unparse(node) for node in there.body if isinstance(node, ast.Import | ast.ImportFrom)}
    new = [ast.unparse(node) for node in given.body if isinstance(node, ast.Import | ast.ImportFrom)]
    new = [line for line in new if line not in known]
    if not new:
        return text
    lines = text.split("\n")
    at = (there.body[0].end_lineno or 0) if _is_docstring(there.body[0]) else 0
    return "\n".join([*lines[:at], *new, *lines[at:]])
