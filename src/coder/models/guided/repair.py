"""What is wrong with a file after a change, as far as its text alone tells: a small model does not look."""

from __future__ import annotations

import ast
import builtins
import json
import re
import textwrap
import tomllib
import warnings

_LOSES = re.compile(
    r"\b(?:remov|delet|drop|renam|refactor|mov|merg|inlin|replac|clean|simplif|rewrit|split)\w*|[删移改换并]",
    re.IGNORECASE,
)
UNCHANGED = "it is as it was at first, nothing is changed"
_GIVEN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__", "self", "cls"}


def new_fault(path: str, before: str, after: str, task: str = "") -> str:
    """What a change has broken; empty if nothing is, or where it was broken before."""
    fault = fault_in(path, after)
    if fault:
        return "" if fault == fault_in(path, before) else fault
    return _lost(before, after, task) if path.endswith(".py") and not _LOSES.search(task) else ""


def _parsed(text: str) -> ast.Module:
    """Without the interpreter's warnings, which would be printed over the screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def defined_in(text: str) -> list[str]:
    """Names of functions, classes and their methods; none where the text does not parse."""
    try:
        return _defined(_parsed(text))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []


def _lost(before: str, after: str, task: str) -> str:
    """The first definition that is gone, though the task does not name it."""
    now = defined_in(after)
    gone = [name for name in defined_in(before) if name not in now]
    lost = [name for name in gone if not re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", task)]
    return f"{lost[0]} is no longer defined in it" if lost else ""


def _defined(tree: ast.AST, within: str = "") -> list[str]:
    """Functions, classes and their methods."""
    names: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names += [within + node.name]
            names += _defined(node, f"{within}{node.name}.") if isinstance(node, ast.ClassDef) else []
    return names


def fault_in(path: str, text: str) -> str:
    try:
        if path.endswith(".py"):
            return _in_python(path, text)
        if path.endswith(".json"):
            json.loads(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error)[:120]
    return ""


def _in_python(path: str, text: str) -> str:
    try:
        tree = _parsed(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        return f"line {error.lineno}: {error.msg}" + (f": {line[:80]}" if line else "")
    own = path.removesuffix(".py")
    for node in tree.body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if own in names or (isinstance(node, ast.ImportFrom) and node.module == own and not node.level):
            return f"line {node.lineno}: it imports itself"
    return _unset_name(tree)


def _unset_name(tree: ast.Module) -> str:
    """The first name that is used and set nowhere in the file. Scopes are not looked at: what is set
    anywhere counts, so that nothing right is called wrong."""
    known = set(_GIVEN)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return ""
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                known |= {(one.asname or one.name).partition(".")[0] for one in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                known.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                known.add(name)
            case ast.Global(names=named) | ast.Nonlocal(names=named):
                known |= set(named)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                known.add(name)
            case ast.MatchMapping(rest=str(name)):
                known.add(name)
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in known]
    first = min(used, key=lambda node: (node.lineno, node.col_offset), default=None)
    return f"line {first.lineno}: the name {first.id} is set nowhere" if first else ""


class Watch:
    """The files of a task: as they were first seen, and what is wrong with them since they were changed."""

    def __init__(self, task: str = "") -> None:
        self._task = task
        self._first: dict[str, str] = {}
        self.touched: set[str] = set()

    def saw(self, path: str, text: str) -> str:
        """The fault of a file that was changed before."""
        if path in self.touched:
            return new_fault(path, self._first.get(path, ""), text, self._task)
        self._first[path] = text
        return ""

    def first(self, path: str) -> str:
        """The file before it was changed."""
        return self._first.get(path, "")

    def changed(self, path: str, text: str | None = None) -> str:
        """The fault of the new text; if it is not known yet, a `saw` follows."""
        self.touched.add(path)
        if text is None:
            return ""
        return self.saw(path, text) or (UNCHANGED if self.is_copy(path, text) else "")

    def is_copy(self, path: str, text: str) -> bool:
        """Of the file as it was at first, but for blank lines."""
        return _squeezed(text) == _squeezed(self.first(path))


def _squeezed(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


_FRAME = re.compile(
    r"File \"(?P<file>[^\"]+)\", line (?P<line>\d+)|^(?P<short>[\w./-]+\.py):(?P<at>\d+):", re.M
)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(text: str) -> dict[str, Function]:
    """Functions and methods by name (`total`, `Stack.pop`); none where the text does not parse."""
    try:
        tree = _parsed(text)
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
        there, given = _parsed(text), _parsed(code)
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
