"""Lists to choose from: earlier messages (Esc Esc, `/rewind`), earlier sessions (`--resume`, `/resume`)."""

from __future__ import annotations

import pytest
from pty_kit import DOWN, ENTER, ESC, UP, Terminal, messages
from repl_kit import says

from kit import ScriptedServer
from kit.calls import write
from kit.driving import Project, drive

SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang", "theme"),
    [(80, 24, "en", "light"), (44, 20, "zh", "dark"), (200, 50, "en", "dark")],
    ids=["80x24 en light", "44x20 zh dark", "200x50 en dark"],
)
SAY = {
    "en": {
        "hint": "go back, files too",
        "resume": "resume",
        "search": "search>",
        "nothing": "nothing found",
    },
    "zh": {"hint": "退回到它之前", "resume": "恢复", "search": "搜索>", "nothing": "没有找到"},
}
CTRL_C = "\x03"


def rows_of(terminal: Terminal) -> list[str]:
    """What is listed, the selected row with its mark."""
    lines = terminal.screen.split("\n")
    at = max(at for at, line in enumerate(lines) if line.startswith(("search>", "搜索>")))
    return lines[at + 1 :]


@pytest.mark.thorough
@SCREENS
def test_going_back_to_an_earlier_message(
    project: Project, columns: int, rows: int, lang: str, theme: str
) -> None:
    project.configure(ui={"theme": theme})
    script = [
        {"calls": [write("a.txt", "one\n")]},
        {"text": "answer one"},
        {"calls": [write("b.txt", "two\n")]},
        {"text": "answer two"},
        {"text": "answer three"},
    ]
    with (
        ScriptedServer(script) as server,
        Terminal(
            project, server.url, "--mode", "yolo", "--lang", lang, columns=columns, rows=rows
        ) as terminal,
    ):
        terminal.until_idle()
        for n, (text, answer) in enumerate([("make a", "answer one"), ("make b\nand more", "answer two")]):
            terminal.type(text.replace("\n", "\x1b\r"))
            terminal.pump(0.02)
            terminal.type(ENTER)
            terminal.until(lambda a=answer: says(terminal, a))  # type: ignore[misc] # bound at once
            terminal.until_idle()
            assert len(server.chats) == 2 * (n + 1)
        terminal.type("x")
        terminal.type(ESC)
        terminal.pump(0.15)
        terminal.type(ESC)
        terminal.until(lambda: terminal.prompt.rstrip().endswith(">"))  # text was cleared, nothing listed
        assert SAY[lang]["search"] not in terminal.screen
        terminal.pump(0.7)  # longer than the pause between two Esc that belong together
        terminal.type(ESC)
        terminal.pump(0.15)
        terminal.type(ESC)
        terminal.until(lambda: says(terminal, SAY[lang]["hint"]))
        terminal.until(lambda: any("b.txt" in row for row in rows_of(terminal)))  # what its turn changed
        first, second, *others = rows_of(terminal)
        assert first.startswith("› make b and more")
        assert not any("›" in row for row in others)  # which would look like a second choice
        assert second.startswith("  make a")
        terminal.type("make a")
        terminal.until(lambda: rows_of(terminal)[0].startswith("› make a"))
        terminal.resize(columns - 4, rows)
        terminal.until(lambda: rows_of(terminal)[0].startswith("› make a"))
        terminal.type(ESC)
        terminal.until_idle()
        assert SAY[lang]["search"] not in terminal.screen
        assert (project.cwd / "b.txt").exists()
        terminal.type("/rewind" + ENTER + "make a")  # typed ahead: it is the search, not a draft
        terminal.until(lambda: SAY[lang]["search"] in terminal.screen and "make a" in rows_of(terminal)[0])
        terminal.type("\x15")
        terminal.until(lambda: rows_of(terminal)[0].startswith("› make b"))
        terminal.type(ENTER)
        terminal.until(lambda: not (project.cwd / "b.txt").exists())
        terminal.until(lambda: "make b" in terminal.prompt and "and more" in terminal.prompt)
        assert (project.cwd / "a.txt").exists()
        terminal.type(" differently" + ENTER)
        terminal.until(lambda: says(terminal, "answer three"))
        terminal.until_idle()
    assert messages(server)[-2:] == ["make a", "make b\nand more differently"]


@SCREENS
def test_choosing_a_session(project: Project, columns: int, rows: int, lang: str, theme: str) -> None:
    project.configure(ui={"theme": theme})
    for subject in ("parser", "printer"):
        with ScriptedServer([{"text": f"the {subject} has a zebra{subject}"}]) as server:
            drive(project, server.url, [f"look at the {subject}"])
    with (
        ScriptedServer([{"text": "went on"}] * 2) as server,
        Terminal(project, server.url, "--resume", "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until(lambda: SAY[lang]["search"] in terminal.screen)
        terminal.until(lambda: says(terminal, "has a zebraprinter"))  # the preview of the newest
        assert [("look at the printer" in rows_of(terminal)[0]), ("parser" in rows_of(terminal)[1])] == [
            True
        ] * 2
        terminal.type("zebraparser")  # which no title has
        terminal.until(lambda: "look at the parser" in rows_of(terminal)[0])
        terminal.type("\x15no such word")
        terminal.until(lambda: says(terminal, SAY[lang]["nothing"]))
        terminal.type(ENTER)  # chooses nothing
        terminal.type("\x15")
        terminal.until(lambda: "look at the printer" in rows_of(terminal)[0])
        terminal.type(DOWN)
        terminal.until(lambda: rows_of(terminal)[1].startswith("› "))
        terminal.type(UP + DOWN + ENTER)
        terminal.until(lambda: says(terminal, "the parser has a zebraparser"))
        terminal.until_idle()
        terminal.send("/resume")
        terminal.until(lambda: SAY[lang]["search"] in terminal.screen)
        assert "parser" not in rows_of(terminal)[0]  # the current session is not offered
        terminal.type(CTRL_C)
        terminal.until_idle()
        terminal.send("go")
        terminal.until("went on")
    assert messages(server) == ["look at the parser", "go"]


@pytest.mark.parametrize(("lang", "title"), [("en", "before which message?"), ("zh", "哪条消息之前")])
def test_the_conversation_alone_goes_back(project: Project, lang: str, title: str) -> None:
    script = [{"calls": [write("a.txt", "one\n")]}, {"text": "answer one"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--mode", "yolo", "--lang", lang, columns=44, rows=20) as terminal,
    ):
        terminal.until_idle()
        terminal.send("make a")
        terminal.until("answer one")
        terminal.until_idle()
        terminal.send("/rewind conversation")
        terminal.until(lambda: SAY[lang]["search"] in terminal.screen and "› make a" in rows_of(terminal)[0])
        above = terminal.screen.split(SAY[lang]["search"])[0].rstrip()
        assert title in above.split("\n")[-1]
        assert any(row.endswith("取消" if lang == "zh" else "Esc cancel") for row in rows_of(terminal))
        terminal.type(ENTER)
        terminal.until(lambda: "make a" in terminal.prompt)
        assert (project.cwd / "a.txt").exists()
    assert project.of_type("rewind")[0]["meta"]["before"] == 1


def test_without_a_terminal_the_sessions_are_listed(project: Project) -> None:
    with ScriptedServer([{"text": "hello"}]) as server:
        drive(project, server.url, ["an old question"])
        done = project.coder("--resume", url=server.url)
        once = project.coder("--resume", "--once", "hi", url=server.url)
    assert done.returncode == 2
    assert "an old question" in done.stderr
    assert once.returncode == 2  # `--once` is an option, so that this names no id either
    with ScriptedServer([]) as server, Terminal(project, server.url, "--resume", term="dumb") as terminal:
        terminal.until("an old question")
        terminal.until_prompt()


def test_where_there_is_nothing_the_command_says_so(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url, "--resume") as terminal:
        terminal.until("There are no sessions")
        terminal.until_idle()
        terminal.send("/rename this one")
        terminal.until("\n› /rename this one\n")
        terminal.until_idle()
        terminal.send("/resume")
        terminal.until("There is no other session in this folder.")
        terminal.until_idle()
        terminal.send("/rewind")
        terminal.until("No message to go back to.")
        terminal.until_idle()
