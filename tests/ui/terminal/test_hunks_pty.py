"""The hunks of a change are taken, left, edited and split one by one, at a question and in a review."""

from __future__ import annotations

import pytest
from pty_kit import ENTER, ESC, Terminal
from repl_kit import says
from test_decisions import NEW, OLD, SCREENS, asked, last_result, rewrite
from test_editor_external import script

from kit import ScriptedServer
from kit.driving import Project


def hunk_by_hunk(terminal: Terminal) -> None:
    """Send a prompt, and choose to decide about each hunk of the change that it brings."""
    terminal.until_idle()
    terminal.send("go")
    asked(terminal)
    terminal.type("h")


def asked_about_hunk(terminal: Terminal, number: int) -> None:
    terminal.until(lambda: terminal.screen.endswith(f"Part {number} of 3?"))


@SCREENS
def test_hunk_by_hunk(project: Project, columns: int, rows: int, lang: str) -> None:
    with (
        ScriptedServer(rewrite(project)) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal, lang)
        terminal.type("h")
        part = {"en": "Part {} of 3?", "zh": "第 {} 处，共 3 处？"}[lang]
        terminal.until(lambda: terminal.screen.endswith(part.format(1)))
        terminal.type("y")
        terminal.until(lambda: terminal.screen.endswith(part.format(2)))
        terminal.type("n")
        terminal.until(lambda: {"en": "No, because …", "zh": "否，因为…"}[lang] in terminal.screen)
        terminal.type("keep fifteen" + ENTER)
        terminal.until(lambda: terminal.screen.endswith(part.format(3)))
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == OLD  # all of it at the end
        terminal.type("y")
        terminal.until("finished")
        terminal.until_idle()
    expected = OLD.replace("line 3\n", "third\n").replace("line 28\n", "last\n")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == expected
    told = last_result(server)
    assert "Hunk 2 of 3 (a.txt @@ -12,7 +12,7 @@) was refused by the person: keep fifteen" in told
    assert "+third" in told
    assert "+middle" not in told


def test_a_hunk_can_be_edited_and_the_model_hears_of_it(project: Project) -> None:
    change = 'sed -i "s/^+middle/+centre\\n+and more/" "$1"'
    editor = script(
        project.home / "edit", f'test -z "${{1##*.diff}}" && grep -q "^# Save and close" "$1" && {change}'
    )
    with (
        ScriptedServer(rewrite(project)) as server,
        Terminal(project, server.url, EDITOR=editor) as terminal,
    ):
        hunk_by_hunk(terminal)
        for number, key in enumerate("yey", start=1):
            asked_about_hunk(terminal, number)
            terminal.type(key)
        terminal.until("finished")
        terminal.until_idle()
        assert terminal.text.count("→ taken as edited\n") == 1
    expected = NEW.replace("middle\n", "centre\nand more\n")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == expected
    assert "The person did not take this change as it was." in last_result(server)
    assert "was changed by the person" in last_result(server)
    assert "+and more" in last_result(server)


@pytest.mark.parametrize("editor", ["true", "false"], ids=["left", "failed"])
def test_an_editor_that_changes_nothing_decides_nothing(project: Project, editor: str) -> None:
    with (
        ScriptedServer(rewrite(project)) as server,
        Terminal(project, server.url, EDITOR=editor) as terminal,
    ):
        hunk_by_hunk(terminal)
        asked_about_hunk(terminal, 1)
        terminal.type("e")
        terminal.until("→ not edited: nothing is decided")
        asked_about_hunk(terminal, 1)
        terminal.type(ESC)
        terminal.until_idle()
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == OLD


def test_no_hunk_at_all_is_a_no_with_every_reason(project: Project) -> None:
    with ScriptedServer(rewrite(project)) as server, Terminal(project, server.url) as terminal:
        hunk_by_hunk(terminal)
        for number in (1, 2, 3):
            asked_about_hunk(terminal, number)
            terminal.type("n")
            terminal.until(lambda: terminal.screen.endswith("No, because …"))
            terminal.type(f"reason {number}" + ENTER)
        terminal.until("finished")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == OLD
    told = last_result(server)
    assert told.startswith("denied: ")
    assert all(f"reason {number}" in told for number in (1, 2, 3))


def test_a_hunk_is_split_into_its_runs_of_changed_lines(project: Project) -> None:
    steps = rewrite(project)
    near = OLD.replace("line 3\n", "third\n").replace("line 7\n", "").replace("line 28\n", "last\n")
    steps[1]["calls"][0]["arguments"]["content"] = near
    with ScriptedServer(steps) as server, Terminal(project, server.url) as terminal:
        hunk_by_hunk(terminal)
        terminal.until(lambda: terminal.screen.endswith("Part 1 of 2?"))
        assert (
            "\ny take · n leave, because … · a take the rest · e edit · b back · s split\n" in terminal.screen
        )
        terminal.type("?")
        terminal.until(lambda: says(terminal, "Only the parts that you take are applied"))
        terminal.type("s")
        terminal.until("→ split into 2 parts")
        asked_about_hunk(terminal, 1)
        shown = terminal.text.rpartition("→ split into 2 parts")[2]
        assert "+ third" in shown
        assert "- line 7" not in shown
        assert "s split" not in shown
        terminal.type("n")
        terminal.until(lambda: terminal.screen.endswith("No, because …"))
        terminal.type("three stays" + ENTER)
        for number in (2, 3):
            asked_about_hunk(terminal, number)
            terminal.type("y")
        terminal.until("finished")
        terminal.until_idle()
        taken = near.replace("third\n", "line 3\n")
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == taken
    told = "Hunk 1 of 3 (a.txt @@ -1,5 +1,5 @@) was refused by the person: three stays"
    assert told in last_result(server)


def test_the_rest_of_the_hunks_is_taken_with_one_key(project: Project) -> None:
    with ScriptedServer(rewrite(project)) as server, Terminal(project, server.url) as terminal:
        hunk_by_hunk(terminal)
        asked_about_hunk(terminal, 1)
        terminal.type("n")
        terminal.until(lambda: terminal.screen.endswith("No, because …"))
        terminal.type(ENTER)
        asked_about_hunk(terminal, 2)
        terminal.type("a")
        terminal.until("→ 2 of 3 parts taken")
        terminal.until("finished")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == NEW.replace("third\n", "line 3\n")


def test_a_review_splits_a_hunk(project: Project) -> None:
    steps = rewrite(project)
    near = OLD.replace("line 3\n", "third\n").replace("line 7\n", "").replace("line 28\n", "last\n")
    steps[1]["calls"][0]["arguments"]["content"] = near
    with ScriptedServer(steps) as server, Terminal(project, server.url, "--mode", "auto-edit") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("finished")
        terminal.until_idle()
        terminal.send("/diff review")
        terminal.until(lambda: terminal.screen.endswith("Part 1 of 2?"))
        assert says(terminal, "d done, keep the rest · s split")
        terminal.type("s")
        asked_about_hunk(terminal, 1)
        terminal.type("y")
        asked_about_hunk(terminal, 2)
        terminal.type("n")
        terminal.until(lambda: "because …" in terminal.screen.splitlines()[-1])
        terminal.type(ENTER)
        asked_about_hunk(terminal, 3)
        terminal.type("y")
        terminal.until("2 of 3 parts kept")
        terminal.until_idle()
        kept = near.replace("line 6\n", "line 6\nline 7\n")
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == kept
        assert project.of_type("undo")[-1]["meta"]["hunks"] == ["a.txt @@ -6,5 +6,4 @@"]
        terminal.send("/redo")
        terminal.until("Put these parts back")
        terminal.until_idle()
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == near


def test_an_undo_takes_back_what_was_taken(project: Project) -> None:
    with ScriptedServer(rewrite(project)) as server, Terminal(project, server.url) as terminal:
        hunk_by_hunk(terminal)
        asked_about_hunk(terminal, 1)
        terminal.type("y")
        for number in (2, 3):
            asked_about_hunk(terminal, number)
            terminal.type("n")
            terminal.until(lambda: terminal.screen.endswith("No, because …"))
            terminal.type(ENTER)
        terminal.until("finished")
        terminal.until_idle()
        assert "third" in (project.cwd / "a.txt").read_text(encoding="utf-8")
        terminal.send("/undo")
        terminal.until(lambda: (project.cwd / "a.txt").read_text(encoding="utf-8") == OLD)


def test_a_review_goes_through_the_hunks_of_the_session(project: Project) -> None:
    with (
        ScriptedServer([*rewrite(project), {"text": "heard"}]) as server,
        Terminal(project, server.url, "--mode", "auto-edit") as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("finished")
        terminal.until_idle()
        terminal.send("/diff review")
        asked_about_hunk(terminal, 1)
        assert says(terminal, "y keep · n take back, because … · d done, keep the rest")
        terminal.pump(0.4)
        terminal.type("y")
        terminal.until(lambda: terminal.screen.endswith("Part 2 of 3?"))
        terminal.type("n")
        terminal.until(lambda: "because …" in terminal.screen.splitlines()[-1])
        terminal.type("the middle stays" + ENTER)
        terminal.until(lambda: terminal.screen.endswith("Part 3 of 3?"))
        terminal.type("d")
        terminal.until("2 of 3 parts kept")
        terminal.until_idle()
        kept = NEW.replace("middle\n", "line 15\n")
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == kept
        terminal.send("/redo")
        terminal.until("Put these parts back")
        terminal.until_idle()
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == NEW
        terminal.send("and now?")
        terminal.until("heard")
    told = server.chats[-1]["messages"][-1]["content"]
    assert "the middle stays" in told
