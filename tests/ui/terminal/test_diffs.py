"""Diffs that can be read: numbers, tints, syntax colours, marked words, and not a character lost."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pty_kit import Terminal

from coder.base.diff import unified
from coder.protocol.events import ApprovalRequested, CommandDone, ToolCallChanged
from coder.texts import Catalog
from coder.ui.terminal.ask.question_rows import approval_lines
from coder.ui.terminal.render.diff_rows import diff_blocks, diff_lines
from coder.ui.terminal.render.event_lines import command_lines, tool_lines
from coder.ui.terminal.render.width import Line, line_width, plain
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project

OLD = "".join(f"n{at} = {at}\n" for at in range(1, 20)) + "if now > expires:\n    del x\n"
NEW = OLD.replace("n2 = 2\n", "").replace("if now > expires:", "# dead at its deadline\nif now >= expires:")
DIFF = "\n".join(unified(OLD, NEW, "a/src/cache.py", "b/src/cache.py").lines)
ROWS = [
    "1   n1 = 1",
    "2 − n2 = 2",
    "2   n3 = 3",
    "3   n4 = 4",
    "4   n5 = 5",
    "⋯",
    "16   n17 = 17",
    "17   n18 = 18",
    "18   n19 = 19",
    "20 − if now > expires:",
    "19 + # dead at its deadline",
    "20 + if now >= expires:",
    "21       del x",
]


def texts_of(lines: list[Line]) -> list[str]:
    return [plain(line).strip() for line in lines]


def spans_of(lines: list[Line], role: str) -> list[str]:
    return [text for line in lines for style, text in line if role in style.split()]


def test_numbers_and_a_heading() -> None:
    head, *rows = texts_of(diff_lines(DIFF, 80))
    assert head == "src/cache.py +2 −2"
    assert rows == ROWS


DOCUMENTED = '''def parse(text, strict=False):
    """Read the settings.

    One per line, in any order and for
    any key that is known. What is not
    known is kept if it is not strict.
    """
    found = {}
    for line in text.split("\\n"):
        found.update(read(line))
    return found
'''
ON_ONE_LINE = DOCUMENTED.replace("not strict.\n    ", "not strict.")
SCRIPT = "int a;\n/**\n * for each of them\n * return its size\n * or none\n */\nint size(int x);\nint b;\n"


@pytest.mark.parametrize("text", [DOCUMENTED, ON_ONE_LINE], ids=["on its own line", "at the end of one"])
def test_a_hunk_that_begins_inside_a_docstring(text: str) -> None:
    new = text.replace("found = {}", "found = dict()")
    lines = diff_lines("\n".join(unified(text, new, "a/read.py", "b/read.py").lines), 80)
    assert "def" not in spans_of(lines, "keyword")
    assert not {"for", "in", "is", "not", "if"} & {text.strip() for text in spans_of(lines[1:4], "keyword")}
    assert "    any key that is known. What is not" in spans_of(lines, "string")
    assert "for" in spans_of(lines, "keyword")


def test_a_hunk_that_begins_before_a_string() -> None:
    for head in ("def f(\n    a,\n):", "class A:", "def f(a):"):
        text = f'{head}\n    """\n    What it is for.\n    """\n    return a\n'
        lines = diff_lines(
            "\n".join(unified(text, text.replace("return a", "return b"), "a/x.py", "b/x.py").lines)
        )
        assert "    What it is for." in spans_of(lines, "string")
    text = 'x = 1\ny = """\nfor all\n"""\nz = 2\n'
    lines = diff_lines("\n".join(unified(text, text.replace("2", "3"), "a/x.py", "b/x.py").lines))
    assert "for all" in spans_of(lines, "string")


def test_a_hunk_that_begins_inside_a_comment() -> None:
    new = SCRIPT.replace("int x", "long x")
    lines = diff_lines("\n".join(unified(SCRIPT, new, "a/size.c", "b/size.c").lines))
    assert " * return its size" in spans_of(lines, "comment")
    assert "return" not in spans_of(lines, "keyword")


def test_colours_of_the_language_and_the_changed_word() -> None:
    lines = diff_lines(DIFF, 80)
    assert "if" in spans_of(lines, "keyword")
    assert spans_of(lines, "tinted_comment") == ["# dead at its deadline"]
    assert spans_of(lines, "removed_word") == [">"]
    assert spans_of(lines, "added_word") == [">="]


def test_one_renderer_wherever_a_diff_is_shown() -> None:
    texts = Catalog("en")
    changed = ToolCallChanged("1", "edit", "success", "src/cache.py", detail=DIFF, detail_kind="diff")
    _, *result = tool_lines(changed, texts, 80)
    shown = command_lines(CommandDone("/diff full", DIFF), texts, 80)
    asked = approval_lines(ApprovalRequested("1", "1", "edit", DIFF, "diff", [], False), texts, 80, 40)
    assert texts_of(result) == ROWS  # its summary names the file
    assert texts_of(shown)[1:] == ROWS
    assert [plain(row).removeprefix("│ ").strip() for row in asked[2:]] == ROWS


def test_a_removed_line_that_looks_like_a_heading() -> None:
    diff = "\n".join(unified("-- a\n++ b\nc\n", "c\n", "a/x.sql", "b/x.sql").lines)
    assert texts_of(diff_lines(diff)) == ["x.sql −2", "1 − -- a", "2 − ++ b", "1   c"]


def test_git_s_own_lines_and_several_files() -> None:
    diff = (
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"
        "\\ No newline at end of file\nBinary files a/z and b/z differ\n"
    )
    assert texts_of(diff_lines(diff)) == [
        *("x +1 −1", "1 − a", "1 + b", "y +1", "1 + c", "\\ No newline at end of file"),
        "Binary files a/z and b/z differ",
    ]


WORDS = st.text(st.sampled_from("ab1 \t/*'\"`#<>-+@中é\\⏎×"), max_size=30)
LINES = st.lists(WORDS, max_size=12)


@given(LINES, LINES, st.sampled_from(["x.py", "x.js", "x.md", "x.html", "Makefile", "x.unknown"]))
def test_no_character_is_lost(old: list[str], new: list[str], name: str) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = unified(before, after, f"a/{name}", f"b/{name}").lines
    if not diff:
        return
    wanted = [line[1:].replace("\t", "    ") for line in diff[2:] if not line.startswith("@@ ")]
    bar: Line = [("", "│ ")]
    _, *blocks = diff_blocks("\n".join(diff), 0, (bar, bar))
    shown = [plain(rows[0]) for rows in blocks if plain(rows[0]) != "│ ⋯"]
    assert len(shown) == len(wanted)
    assert all(row.endswith(line) for row, line in zip(shown, wanted, strict=True))
    _, *cut = diff_blocks("\n".join(diff), 20, (bar, bar))
    assert all(line_width(row) <= 20 for rows in cut for row in rows)
    assert ["".join(plain(row) for row in rows).split() for rows in cut if len(rows) == 1] == [
        plain(rows[0]).split() for rows, low in zip(blocks, cut, strict=True) if len(low) == 1
    ]


@pytest.mark.parametrize(("columns", "rows", "light"), [(80, 24, False), (44, 20, True), (200, 50, True)])
def test_a_change_is_asked_for_and_shown(project: Project, columns: int, rows: int, light: bool) -> None:
    project.write("cache.py", OLD)
    edit = call("edit", path="cache.py", old_string="if now > expires:", new_string="if now >= expires:")
    scheme = "0;15" if light else "15;0"
    with (
        ScriptedServer([{"calls": [edit]}, {"text": "done"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows, COLORFGBG=scheme) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("│ 21       del x")
        assert "│ cache.py +1 −1" in terminal.text
        assert "│ 20 − if now > expires:\n│ 20 + if now >= expires:\n" in terminal.text
        assert (b"48;5;157m>=" if light else b"48;5;28m>=") in terminal.raw


def test_the_diff_of_the_workspace(project: Project) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=project.cwd, check=True
        )

    git("init", "-q")
    project.write("cache.py", OLD)
    git("add", ".")
    git("commit", "-qm", "first")
    project.write("cache.py", OLD.replace("del x", "del y"))
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("/diff full")
        terminal.until("21 +     del y")
        assert "cache.py +1 −1" in terminal.text
