"""How a turn looks: who said what, what hangs together, what is folded, and what yellow means."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace
from pty_kit import Terminal
from repl_kit import Gate, says

from coder.protocol.entries import Evidence
from coder.protocol.events import (
    ApprovalRequested,
    ChatCompressed,
    Content,
    Notice,
    SessionStarted,
    Thought,
    TodosChanged,
    ToolCallChanged,
    ToolOutput,
    TurnEnded,
    VerifyChanged,
)
from coder.protocol.messages import Usage
from coder.texts import Catalog, Text
from coder.ui.terminal.ask.question_rows import approval_lines
from coder.ui.terminal.render.event_lines import message_lines, session_lines, tool_lines
from coder.ui.terminal.render.theme import Theme, colour_depth
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import line_width, plain
from coder.ui.terminal.screen_state import PromptState, context_line
from kit import ScriptedServer
from kit.calls import bash_step, call
from kit.driving import Project

STEPS = ("look around", "mend it", "try it")
LOOKS = pytest.mark.parametrize(
    ("columns", "rows", "lang", "light"),
    [(80, 24, "en", False), (44, 20, "zh", True), (200, 50, "en", True), (44, 20, "en", False)],
    ids=["80x24 en dark", "44x20 zh light", "200x50 en light", "44x20 en dark"],
)
MESSAGE = "please mend what is broken here and say afterwards what the cause of the trouble was"
YELLOW = re.compile(rb"\x1b\[(?:\d+;)*(?:33|93)(?:;\d+)*m")


def todos(*statuses: str) -> list[dict[str, str]]:
    return [{"content": step, "status": status} for step, status in zip(STEPS, statuses, strict=True)]


@LOOKS
def test_a_turn(project: Project, columns: int, rows: int, lang: str, light: bool) -> None:
    project.write("a.py", "limit = 1\n")
    project.write("b.py", "pass\n")
    run, last = Gate(bash_step("echo no such limit; exit 1")), Gate({"text": "mended, see `a.py`"})
    script: list[Any] = [
        {"reasoning": "It is the limit.", "calls": [call("todowrite", todos=todos(*["pending"] * 3))]},
        {"calls": [call("read", path="a.py"), call("read", path="b.py"), call("grep", pattern="limit")]},
        run,
        {"calls": [call("todowrite", todos=todos("completed", "in_progress", "pending"))]},
        {"calls": [call("edit", path="a.py", old_string="limit = 1", new_string="limit = 2")]},
        last,
        {"calls": [call("todowrite", todos=todos(*["completed"] * 3))]},
        {"text": "really"},
    ]
    environ: dict[str, Any] = {"COLORFGBG": "0;15"} if light else {}
    with (
        ScriptedServer(script) as server,
        Terminal(
            project, server.url, "--mode", "yolo", "--lang", lang, columns=columns, rows=rows, **environ
        ) as terminal,
    ):
        terminal.until(lambda: "[yolo]" in terminal.screen)
        terminal.send(MESSAGE)
        files = Catalog(lang).say("view.files", n=2, names="a.py, b.py")
        begun = re.escape(f"✓ read {files[:-4]}")  # one row while nothing follows
        terminal.until(lambda: re.search(begun + r".* · grep limit · ", terminal.text) is not None)
        name, hint = terminal.text.split("\n")[:2]
        assert re.fullmatch(r"coder · scripted · (/|…).*/project", name)
        assert len(name) <= columns  # the path is cut from the left
        assert "/help" in hint
        run.open()
        terminal.until("▸ 1/3 mend it")  # live, in place
        assert terminal.text.count("☐ try it") == 1
        last.open()
        terminal.until("mended, see")
        terminal.until(lambda: "▸ 1/3" not in terminal.screen and "[yolo]" in terminal.screen)
        assert terminal.text.count("☐ try it") == 2  # the turn ended before the list was done
        terminal.send("on")
        terminal.until("really")
        terminal.until(lambda: terminal.text.count("☑ try it") == 1)
        text = terminal.text
    told = [row for row in text.split("\n") if row.startswith(("› ", "  "))]
    assert told[0].startswith("› please mend")
    assert says(terminal, MESSAGE)
    assert all(word in " ".join(told).split() for word in MESSAGE.split())  # no word is broken
    assert (b"48;5;254" if light else b"48;5;236") in terminal.raw
    assert text.count("[yolo]") == 1  # the prompt is live only
    assert "\n  It is the limit.\n" in text
    assert re.search(r"\n✓ read a\.py .*\n✓ read b\.py .*\n✓ grep limit .*· \d+\.\ds\n", text)
    assert re.search(r"\n✗ run echo .* 1 · \d+\.\ds\n  │ no such limit\n", text)
    assert re.search(r"\n✓ edit a\.py \+1 −1 · \d+\.\ds\n  1 − limit = 1\n  1 \+ limit = 2\n", text)
    assert "todowrite" not in text
    assert not YELLOW.search(terminal.raw)
    assert all(len(row) <= columns for row in text.split("\n"))


def test_yellow_is_a_question(project: Project) -> None:
    with ScriptedServer([bash_step("touch x")]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        assert not YELLOW.search(terminal.raw)
        terminal.send("go")
        terminal.until("touch x")
        terminal.until(lambda: YELLOW.search(terminal.raw) is not None)


def test_of_a_question_only_its_first_line_stays_yellow() -> None:
    new = "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,90 @@\n" + "+x\n" * 90
    edit = ApprovalRequested("1", "1", "write", new, "diff", [], can_always=False)
    line = ApprovalRequested("1", "1", "bash", "touch x\n" * 90, "command", [], can_always=False)
    for event, heads in ((edit, True), (edit, False), (line, False)):
        head, *others = approval_lines(event, Catalog("en"), 80, 20, heads=heads, keys=True)
        assert [style for style, _ in head] == ["ask"]
        assert any(mark in plain(row) for row in others for mark in ("more lines", "scroll up"))
        assert not any(style == "ask" for row in others for style, _ in row)


READ, LIST = ToolCallChanged("1", "read", "success", "a"), ToolCallChanged("2", "list", "success", "d")


def transcript(width: int = 60) -> Transcript:
    return Transcript(Catalog("en"), lambda: width)


def test_look_ups_wait_in_the_live_region_until_something_else_follows() -> None:
    page = transcript()
    page.handle(READ)
    assert page.drain(5) == []
    page.handle(LIST)
    assert [plain(row) for row in page.live(5)] == ["✓ read a · list d · 0.0s"]
    page.handle(Thought("hm"))
    assert page.drain(5) == []
    assert [plain(row) for row in page.live(5)] == ["✓ read a · list d · 0.0s", "", "  hm"]
    page.handle(ToolCallChanged("3", "read", "error", "gone", "no such file"))
    assert [plain(row) for row in page.drain(5)] == [
        *("✓ read a · 0.0s", "✓ list d · 0.0s", "", "  hm", "", "✗ read gone · no such file · 0.0s"),
    ]
    assert page.live(5) == []


def test_each_look_up_has_its_share_of_the_row() -> None:
    page = transcript(50)
    for n in range(4):
        page.handle(ToolCallChanged(str(n), "read", "success", f"src/package/module_{n}.py"))
    page.handle(ToolCallChanged("5", "grep", "success", "limit"))
    (row,) = page.live(5)
    assert plain(row).startswith("✓ read 4 files: src/")
    assert plain(row).endswith("… · grep limit · 0.0s")
    assert line_width(row) <= 50


@pytest.mark.parametrize(("lines", "end"), [(29, []), (900, ["  └ 900 lines · exit 3"])])
def test_a_long_output_ends_with_its_outcome(lines: int, end: list[str]) -> None:
    ran = ToolCallChanged("1", "bash", "error", "make", Text("tool.exit", code=3), "x\n" * lines, "output")
    page = transcript()
    page.handle(ran)
    rows = [plain(row) for row in page.drain(5)]
    assert rows[0] == "✗ run make · exit 3 · 0.0s"
    assert [row for row in rows[1:] if "│ x" not in row and "not shown" not in row] == end
    page.handle(replace(ran, detail="x\n" * 30 + "[… 70 lines (140 bytes) left out …]\n" + "x\n" * 30))
    assert plain(page.drain(5)[-1]) == "  └ 130 lines · exit 3"


def test_every_row_of_a_long_line_has_the_bar() -> None:
    words, path = "one two three four five six", "/a/path/that/is/longer/than/a/row"
    ran = ToolCallChanged("1", "bash", "success", "x", "", f"{words}\n{path}", "output")
    assert [plain(row) for row in tool_lines(ran, Catalog("en"), 20)[1:]] == [
        "  │ one two three",
        "  │ four five six",
        f"  │ {path}",
    ]


def test_a_compaction_that_was_asked_for_is_told_by_its_reply() -> None:
    page = transcript()
    page.handle(ChatCompressed(9000, 100, "so", forced=True))
    assert page.drain(5) == []
    page.handle(ChatCompressed(9000, 100, "so"))
    assert [plain(row) for row in page.drain(5)] == ["(older history summarised: 9,000 → 100 tokens)"]


def test_without_a_live_region_nothing_waits() -> None:
    page = transcript()
    page.folds = False
    for event in (READ, READ, TodosChanged(todos(*["pending"] * 3))):
        page.handle(event)
    page.drain(0)
    page.handle(TodosChanged(todos("completed", "pending", "pending")))
    assert plain(page.drain(0)[0]) == "  ☑ look around"


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [("full", ["  one", "  two", "", "x"]), ("brief", ["  one …", "", "x"]), ("off", ["x"])],
)
def test_how_much_thinking_is_shown(thinking: Any, shown: list[str]) -> None:
    page = transcript()
    page.thinking = thinking
    for piece in ("on", "e\ntw", "o"):
        page.handle(Thought(piece))
    page.handle(Content("x"))
    page.handle(TurnEnded(1, "ok", "", 1, Usage(), 0))
    assert [plain(row) for row in page.drain(5)] == shown


def test_settings_reach_the_screen(project: Project) -> None:
    project.configure(ui={"thinking": "off", "output_lines": 4})
    script = [{"reasoning": "secretly", "calls": bash_step("seq 1000 1100")["calls"]}, {"text": "done"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--mode", "yolo") as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("\ndone\n")
        assert "  │ 1001\n  │ … 97 lines not shown …\n  │ 1099\n" in terminal.text
        assert "secretly" not in terminal.text


@pytest.mark.parametrize("width", [44, 80, 200])
def test_a_result_in_sentences_does_not_push_out_what_was_run(width: int) -> None:
    why = "Plan mode lets nothing change: a command not known to be read-only is denied. " * 2
    page = transcript(width)
    page.handle(ToolCallChanged("1", "bash", "error", "make the tests", why))
    first, *rows = [plain(row) for row in page.drain(0)]
    assert first == "✗ run make the tests · 0.0s"
    assert " ".join(" ".join(rows).split()) == why.strip()
    assert all(row.startswith("  ") and len(row) <= width for row in rows)


def test_of_a_long_path_the_end_is_shown_and_of_a_command_the_beginning() -> None:
    page = transcript(30)
    page.handle(ToolCallChanged("1", "edit", "success", "src/very/long/path/module.py"))
    page.handle(ToolCallChanged("2", "bash", "success", "make all the many things"))
    assert [plain(row) for row in page.drain(0)] == [
        "✓ edit …/path/module.py · 0.0s",
        "✓ run make all the man… · 0.0s",
    ]


@pytest.mark.parametrize("width", [77, 80, 83])
def test_a_bar_wraps_nothing_that_was_made_for_this_width(width: int) -> None:
    printed = ToolCallChanged("1", "bash", "success", "x", detail=f"a\n{'=' * 80}\n", detail_kind="output")
    page = transcript(width)
    page.handle(printed)
    rows = [plain(row) for row in page.drain(0)][1:]
    assert rows[0] == ("a" if width >= 80 else "  │ a")
    assert width < 80 or max(map(len, rows)) == 80


def test_a_message_is_marked_and_never_broken_in_a_word() -> None:
    for width in (20, 44, 80):
        rows = message_lines("words that are to stay whole\n  and an indented line", width)
        assert plain(rows[0]).startswith("› words")
        assert all(line_width(row) <= width for row in rows)
        assert " ".join(" ".join(map(plain, rows))[2:].split()).startswith(
            "words that are to stay whole and an"
        )
        assert all("\x1b[K" in Theme("dark", 1).line(row) for row in rows if line_width(row) < width)
    (full,) = message_lines("x" * 18, 20)  # erasing from the margin would take the last character
    assert "\x1b[K" not in Theme("dark", 1).line(full)


def test_a_start_says_name_model_directory_and_a_hint() -> None:
    started = SessionStarted("id", "/very/long/path/to/a/project/somewhere", "m", "default", "balanced")
    rows = [plain(row) for row in session_lines(started, Catalog("en"), 30)]
    assert rows[0] == "coder · m · …project/somewhere"
    assert "/help" in " ".join(rows[1:])


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm"}, 0),
        ({"TERM": "xterm-256color"}, 1),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 2),
    ],
)
def test_tints_need_colours(environ: dict[str, str], depth: int) -> None:
    assert colour_depth(environ) == depth
    painted = Theme("dark", depth).paint("keyword added", "x")
    assert ("48;" in painted) == bool(depth)
    assert Theme("none", depth).paint("added", "x") == "x"


def test_the_sandbox_is_explained_once_a_machine(project: Project) -> None:
    script = [bash_step("echo one"), {"text": "first"}, bash_step("echo two"), {"text": "second"}]
    with ScriptedServer(script) as server:
        for answer in ("first", "second"):
            done = project.coder("--mode", "yolo", "--once", "go", url=server.url)
            assert answer in done.stdout
            explained = "run in a sandbox" in done.stderr
            assert explained is (answer == "first" or ": none (" in done.stderr)


def test_git_status_stays_as_it_was(project: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project.cwd, check=True)
    with ScriptedServer([{"text": "hi"}]) as server:
        project.coder("--once", "go", url=server.url)
    assert project.logs()
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(command, cwd=project.cwd, check=True, capture_output=True).stdout == b""


def test_no_word_of_a_verification_is_broken() -> None:
    page = transcript(44)
    page.handle(VerifyChanged("skipped", text=f"{'word ' * 12}incomprehensibly"))
    rows = page.drain(0)
    assert all(line_width(row) <= 44 for row in rows)
    assert plain(rows[-1]).endswith("incomprehensibly")


def test_live_output_is_not_that_of_the_row_above() -> None:
    page = transcript()
    page.handle(ToolCallChanged("1", "edit", "success", "a.py"))
    page.handle(ToolOutput("2", "\n\nstep 1\n"))
    assert [plain(row) for row in page.live(5)] == ["", "  │ step 1"]


def test_output_does_not_begin_with_empty_rows() -> None:
    event = ToolCallChanged("1", "bash", "success", "x", detail="\n\none\n\ntwo\n", detail_kind="output")
    assert [plain(row) for row in tool_lines(event, Catalog("en"), 80)[1:]] == ["  │ one", "  │ ", "  │ two"]


def test_the_size_of_a_patch_looks_as_that_of_an_edit() -> None:
    said = Text("tool.patched", n=2, added=12, deleted=1)
    [row] = tool_lines(ToolCallChanged("1", "patch", "success", "a, b", said), Catalog("en"), 80)
    assert plain(row) == "✓ patch a, b · 2 files +12 −1 · 0.0s"
    assert ("good", " +12") in row


def test_a_context_that_is_not_known_yet_is_not_zero() -> None:
    assert plain(context_line(PromptState("m", "default"), Catalog("en"))) == "context: … tokens · model: m"


def test_evidence_hangs_below_its_mark() -> None:
    page = transcript(44)
    page.handle(Notice(f"Verified: {'word ' * 20}", evidence=Evidence()))
    first, *others = [plain(row) for row in page.drain(0)]
    assert others
    assert first[1] == " "
    assert all(row.startswith("  ") for row in others)


@pytest.mark.parametrize("sentence", ["The server 1.2 failed (503).", "模型服务出错（503）。"])
def test_a_retry_says_whole_sentences(sentence: str) -> None:
    page = transcript()
    reason = f"{sentence} The server said: {'busy ' * 20}"
    page.handle(Notice(Text("model.retry", reason=reason, attempt=1, wait="1")))
    [row] = page.live(5)
    assert plain(row) == f"↻ failed once · {sentence}"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_session_in_the_home_folder_begins_with_a_warning(project: Project, lang: str) -> None:
    hint, warning = (Catalog(lang).say(f"view.{name}") for name in ("hint", "home"))
    url = "http://127.0.0.1:1/v1"
    with Terminal(project, url, "--lang", lang, columns=120) as terminal:
        terminal.until(lambda: f"{hint}\n\n" in terminal.screen)
        assert warning not in terminal.screen
    with Terminal(project, url, "--lang", lang, columns=120, HOME=str(project.cwd)) as terminal:
        terminal.until(lambda: f"{hint}\n{warning}\n\n" in terminal.screen)
