"""What is wrong with a file after a change, as far as its text alone tells: a small model does not look."""

from __future__ import annotations

import ast
import builtins
import json
import re
import tomllib
import warnings

_LOSES = re.compile(
    r"\b(?:remov|delet|drop|renam|refactor|mov|merg|inlin|replac|clean|simplif|rewrit|split)\w*|[删移改换并]",
    re.IGNORECASE,
)
UNCHANGED = "it is as it was at first, nothing is changed"
_GIVEN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__", "self", "cls"}


def new_fault(path: str, before: str, after: str, task: str = "") -> str:
    """What a change has broken; empty where nothing is, or where it was broken before."""
    fault = fault_in(path, after)
    if fault:
        return "" if fault == fault_in(path, before) else fault
    return _lost(before, after, task) if path.endswith(".py") and not _LOSES.search(task) else ""


def defined_in(text: str) -> list[str]:
    """Names of functions, classes and their methods; none where the text does not parse."""
    try:
        return _defined(ast.parse(text))
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
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
        """The fault of the new text; where it is not known yet, a `saw` follows."""
        self.touched.add(path)
        if text is None:
            return ""
        return self.saw(path, text) or (UNCHANGED if self.is_copy(path, text) else "")

    def is_copy(self, path: str, text: str) -> bool:
        """Of the file as it was at first, but for blank lines."""
        return _squeezed(text) == _squeezed(self.first(path))


def _squeezed(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]
