"""The mode bar in a real terminal (seed 003 §6): summary, focus, switching, editing in place."""

from __future__ import annotations

import pytest
from modes_kit import LEFT, RIGHT, below, shows
from pty_kit import ANSWERS, BACKSPACE, CTRL_C, DOWN, ENTER, ESC, UP, Terminal, messages, sent
from repl_kit import Gate

from kit import ScriptedServer
from kit.driving import Project

REVIEW = """\
---
kind: persistent
description: Look at changes
display_name: Design Review
variables:
  - name: role
    required: true
    enum: [author, reviewer]
  - name: region
    default: emea
  - name: ticket
    pattern: "^[A-Z]+-\\\\d+$"
---
Speak as {{role}} in {{region}} about {{ticket}}.
"""
LACKING = REVIEW.replace("---\n", "---\ndefault_enabled: true\n", 1)
QA = """\
---
kind: persistent
display_name: 质量检查
variables:
  - name: level
    enum: [a, aa, aaa]
    inline_edit: true
    default: aa
---
Level {{level}}.
"""


def with_modes(project: Project) -> Project:
    project.write(".coder/modes/review.md", REVIEW)
    project.write(".coder/modes/team/qa.md", QA)
    return project


def cell_style(terminal: Terminal, text: str) -> tuple[str, bool]:
    """Colour of the first cell of `text` on the screen, and whether it is reversed."""
    for y, row in enumerate(terminal.paper.display):
        if text in row:
            cell = terminal.paper.buffer[y][row.index(text)]
            return cell.fg, cell.reverse
    return "", False


KEYS = "↑↓ mode · ←→ variable · ⏎ edit · Tab form · Space on/off · Esc back"


def test_the_bar_from_summary_to_switching_and_back(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(
            with_modes(project), server.url, "--mode", "/review author", "--mode", "/team:qa"
        ) as terminal,
    ):
        terminal.until("Mode: Design Review · ")
        shows(terminal, "Mode: Design Review · 质量检查")
        # Down enters, on the mode that was enabled last
        terminal.type("draft" + DOWN)
        review = "○ Design Review [role=author] [region=emea] [ticket=?]"
        shows(terminal, review, "▸ 质量检查      [level=aa]", KEYS)
        # Up and Down between modes, Up from the top row leaves
        terminal.type(UP)
        shows(terminal, review.replace("○", "▸"), "○ 质量检查      [level=aa]", KEYS)
        assert cell_style(terminal, "[role=author]")[1]
        terminal.type(RIGHT)
        terminal.until(lambda: cell_style(terminal, "[region=emea]")[1])
        terminal.type(LEFT)
        terminal.until(lambda: cell_style(terminal, "[role=author]")[1])
        terminal.type(UP)
        shows(terminal, "Mode: Design Review · 质量检查")
        # Space switches off; it stays listed, without the values that went with it, until the bar is left
        terminal.type(DOWN + " ")
        shows(terminal, review, "▸ 质量检查      (off) [level=aa]", KEYS)
        terminal.type(" ")
        shows(terminal, review, "▸ 质量检查      [level=aa]", KEYS)
        terminal.type(" ")
        shows(terminal, review, "▸ 质量检查      (off) [level=aa]", KEYS)
        terminal.type(ESC)
        shows(terminal, "Mode: Design Review")
        # what was being typed is still there, and goes out with what is on
        assert "> draft" in terminal.screen
        terminal.type(ENTER)
        terminal.until("answer0")
        block = messages(server)[0]
        assert "Speak as author in emea" in block
        assert "Level" not in block


def test_a_required_value_that_is_missing_is_marked_and_asked_for_when_it_comes_on_again(
    project: Project,
) -> None:
    with_modes(project).write(".coder/modes/review.md", LACKING)
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        shows(terminal, "Mode: Design Review ⚠ missing: role")
        terminal.type(DOWN)
        shows(terminal, "▸ Design Review ⚠ missing: role [role=!] [region=emea] [ticket=?]", KEYS)
        assert cell_style(terminal, "⚠ missing")[0] == "red"
        terminal.type(RIGHT)
        terminal.until(lambda: cell_style(terminal, "[region=emea]")[1])
        assert cell_style(terminal, "[role=!]") == ("red", False)
        # Space closes what could not be opened
        off = "▸ Design Review (off) [role=!] [region=emea] [ticket=?]"
        terminal.type(" ")
        shows(terminal, off, KEYS)
        # and again: what it lacks is asked for, as its values went when it was switched off
        terminal.type(" ")
        terminal.until("▸ role*   author  reviewer")
        terminal.type(ESC)
        shows(terminal, off, KEYS)
        terminal.type(" ")
        terminal.until("▸ role*   author  reviewer")
        terminal.type(RIGHT + ENTER)
        shows(terminal, "▸ Design Review [role=author] [region=emea] [ticket=?]", KEYS)
        terminal.type(ESC)
        shows(terminal, "Mode: Design Review")
        terminal.send("hi")
        terminal.until("answer0")
        assert any("Speak as author" in text for text in messages(server))


def test_one_that_should_be_on_by_default_says_what_it_lacks(project: Project) -> None:
    header = "kind: persistent\ndefault_enabled: true\nvariables:\n  - name: must\n    required: true\n"
    project.write(".coder/modes/lacking.md", f"---\n{header}---\nUse {{{{must}}}}.\n")
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until("/lacking: must is missing")
        shows(terminal, "Mode: lacking ⚠ missing: must")
        terminal.type(DOWN + ENTER + "value" + ENTER)
        shows(terminal, "▸ lacking [must=value]", KEYS)
        terminal.type(UP)
        shows(terminal, "Mode: lacking")
        terminal.send("go")
        terminal.until("answer0")
        assert "Use value." in messages(server)[0]


def test_editing_in_place(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(
            with_modes(project), server.url, "--mode", "/team:qa", "--mode", "/review author"
        ) as terminal,
    ):
        terminal.until("Design Review")
        edit_keys = "⏎ set · Tab next · empty: the default · Esc cancel"
        terminal.type(DOWN + RIGHT + ENTER)
        qa = "○ 质量检查      [level=aa]"
        shows(terminal, qa, "▸ Design Review [role=author] [region= ] [ticket=?]", edit_keys)
        terminal.type("apac")
        shows(terminal, qa, "▸ Design Review [role=author] [region=apac ] [ticket=?]", edit_keys)
        # Esc leaves the edit, not the bar, and changes nothing
        terminal.type(ESC)
        shows(terminal, qa, "▸ Design Review [role=author] [region=emea] [ticket=?]", KEYS)
        # Tab sets it and goes on to the next; a value that does not fit is not taken
        terminal.type(ENTER + "apac" + "\t")
        shows(terminal, qa, "▸ Design Review [role=author] [region=apac] [ticket= ]", edit_keys)
        terminal.type("abc" + ENTER)
        shows(
            terminal,
            qa,
            "▸ Design Review [role=author] [region=apac] [ticket=abc ]",
            "  ⚠ abc does not match ^[A-Z]+-\\d+$",
            edit_keys,
        )
        terminal.type("\x15AB-7" + ENTER)
        shows(terminal, qa, "▸ Design Review [role=author] [region=apac] [ticket=AB-7]", KEYS)
        # clearing goes back to the default
        terminal.type(LEFT + ENTER + BACKSPACE * 4 + ENTER)
        shows(terminal, qa, "▸ Design Review [role=author] [region=emea] [ticket=AB-7]", KEYS)
        # a list where the variable asks for editing in place
        terminal.type(UP + ENTER)
        pick_keys = "↑↓ choose · ⏎ set · ⌫ the default · Esc cancel"
        review = "○ Design Review [role=author] [region=emea] [ticket=AB-7]"
        shows(terminal, "▸ 质量检查      [level=aa]", review, "      a", "    › aa", "      aaa", pick_keys)
        terminal.type(DOWN + ENTER)
        shows(terminal, "▸ 质量检查      [level=aaa]", review, KEYS)
        terminal.type(UP)
        terminal.until(lambda: below(terminal) == ["Mode: 质量检查 · Design Review"])
        terminal.send("go")
        terminal.until("answer0")
        assert "Level aaa." in messages(server)[0]
        assert "Speak as author in emea about AB-7." in messages(server)[0]


def test_keys_that_are_not_the_bars(project: Project) -> None:
    """Typing goes on in the input, a paste too; Ctrl+C and an empty bar give the focus back."""
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, "--mode", "/team:qa") as terminal,
    ):
        terminal.until("Mode: ")
        terminal.type("one" + DOWN)
        terminal.until("Space on/off")
        terminal.type(" two")  # Space is the bar's: the mode goes off
        terminal.until("> onetwo")
        terminal.until(lambda: below(terminal) == [])
        terminal.type(DOWN + "x")  # there is no bar to enter
        terminal.until("> onetwox")
        terminal.type("\x15/team:qa" + ENTER)
        terminal.until("Mode on: /team:qa")
        terminal.type("abc" + DOWN)
        terminal.until("Space on/off")
        terminal.type(CTRL_C)
        terminal.until(lambda: "Space on/off" not in terminal.screen)
        assert "> abc" in terminal.screen
        terminal.type(DOWN)
        terminal.until("Space on/off")
        terminal.paste("pasted")
        terminal.until("> abcpasted")
        assert server.chats == []


def test_vim_keys_do_not_reach_the_text_from_the_bar(project: Project) -> None:
    project.configure(ui={"vim": True})
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, "--mode", "/review author") as terminal,
    ):
        terminal.until("Mode: ")
        terminal.type("text")
        terminal.until("> text")
        terminal.type(ESC)
        terminal.pump(0.2)
        terminal.type(DOWN)
        terminal.until("Space on/off")
        terminal.type(RIGHT + ENTER + "dd" + ENTER)
        shows(terminal, "▸ Design Review [role=author] [region=dd] [ticket=?]", KEYS)
        assert "> text" in terminal.screen
        assert server.chats == []


def test_switching_while_a_turn_runs_is_done_after_it(project: Project) -> None:
    gate = Gate({"text": "first answer"})
    with (
        ScriptedServer([gate, {"text": "second answer"}]) as server,
        Terminal(with_modes(project), server.url, "--mode", "/team:qa") as terminal,
    ):
        terminal.until("Mode: ")
        terminal.send("first")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type(DOWN + " ")
        shows(terminal, "▸ 质量检查 … [level=aa]", KEYS)  # asked for, not yet so
        gate.open()
        terminal.until("first answer")
        shows(terminal, "▸ 质量检查 (off) [level=aa]", KEYS)
        terminal.type(ESC)
        terminal.until_idle()
        terminal.send("second")
        assert sent(server, terminal, 2) == "second"
        assert "Level aa." in server.chats[0]["messages"][1]["content"]
        assert not any("Level aa." in text for text in messages(server))


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (200, 50)])
def test_other_sizes(project: Project, columns: int, rows: int) -> None:
    many = "---\nkind: persistent\nvariables:\n" + "".join(f"  - name: variable{n}\n" for n in range(12))
    project.write(".coder/modes/many.md", many + "---\nMany.\n")
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(
            with_modes(project),
            server.url,
            "--mode",
            "/team:qa",
            "--mode",
            "/many",
            columns=columns,
            rows=rows,
        ) as terminal,
    ):
        terminal.until("Mode: ")
        terminal.type(DOWN)
        terminal.until(lambda: "[variable0=?]" in terminal.screen)
        terminal.type(RIGHT * 11)
        terminal.until(lambda: cell_style(terminal, "[variable11=?]")[1])
        assert "[default]" in terminal.screen  # the prompt is still to be seen
        assert all(len(row) <= columns for row in below(terminal))
        terminal.type(ESC)
        terminal.until(lambda: below(terminal) == ["Mode: 质量检查 · many"])


def test_chinese(project: Project) -> None:
    with_modes(project).write(".coder/modes/review.md", LACKING)
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, "--lang", "zh", columns=60) as terminal,
    ):
        terminal.until(lambda: any(row.startswith("模式：Design Review") for row in below(terminal)))
        terminal.until(lambda: "⚠ 缺少参数：role" in terminal.screen)
