"""A question shows what will run: the secrets in it, what cannot be seen, how much of it is on the screen."""

from __future__ import annotations

import re

import pytest
from pty_kit import Terminal
from repl_kit import says, squeezed

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project

SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (80, 24, "zh"), (40, 14, "en"), (40, 14, "zh")],
    ids=["80x24 en", "80x24 zh", "40x14 en", "40x14 zh"],
)
BODY = "QmFzZTY0IG9mIG5vdGhpbmcgYXQgYWxsLCBqdXN0IGxvbmcgZW5vdWdo"
TRICK = f": '-----BEGIN PRIVATE KEY-----'; touch evil; : '{BODY} -----END PRIVATE KEY-----'"
ASKED = {"en": "Allow?", "zh": "允许吗？"}


def unbroken(terminal: Terminal) -> str:
    """The text without the bars and the breaks of its rows."""
    return squeezed(re.sub(r"(?m)^[│┊] ", "", terminal.text))


@SCREENS
def test_a_key_in_a_command_hides_nothing(project: Project, columns: int, rows: int, lang: str) -> None:
    with (
        ScriptedServer([bash_step(TRICK), {"text": "finished"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: ASKED[lang] in terminal.screen)
        assert squeezed(TRICK) in unbroken(terminal)
        assert "__coder_secret" not in terminal.text
        terminal.send("n")
        terminal.until("finished")
        terminal.until_idle()
    for event in project.of_type("approval"):
        assert "touch evil" not in event["meta"]["subject"]  # recorded as before: the key is a placeholder


@SCREENS
def test_what_cannot_be_seen_is_shown_and_told(project: Project, columns: int, rows: int, lang: str) -> None:
    command = "touch a\u200bb" + " " * 2500 + "c\u202e; touch '中文\t👨\u200d👩'"
    with (
        ScriptedServer([bash_step(command), {"text": "finished"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: ASKED[lang] in terminal.screen)
        shown = unbroken(terminal)
        assert squeezed("touch a⟨U+200B⟩b␠×2500c⟨U+202E⟩; touch '中文 👨⟨U+200D⟩👩'") in shown
        told = {"en": "3 characters in it cannot be seen", "zh": "其中有 3 个看不见的字符"}
        assert says(terminal, told[lang])
        assert says(terminal, {"en": "␠ spaces", "zh": "␠ 空格"}[lang])
        assert not re.search("[\u200b\u202e]", bytes(terminal.raw).decode("utf-8", errors="replace"))
        terminal.send("n")
        terminal.until("finished")


@pytest.mark.thorough
@SCREENS
def test_it_says_how_many_lines_are_on_the_screen(
    project: Project, columns: int, rows: int, lang: str
) -> None:
    long = "\n".join(f"touch file-{n}-{'x' * (n % 50)}" for n in range(60))
    short = "touch one\ntouch two"
    with (
        ScriptedServer(
            [bash_step(long), bash_step(short), bash_step("touch " + "y" * 9000), {"text": "finished"}]
        ) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: ASKED[lang] in terminal.screen)
        said = squeezed(terminal.screen)
        found = re.search({"en": r"last(\d+)of60lines", "zh": r"共60行，屏幕上只有最后(\d+)行"}[lang], said)
        assert found, said
        # A line is there whole where its own first row is.
        whole = len(re.findall(r"(?m)^│ touch file-\d+-", terminal.screen))
        assert whole == int(found[1])
        assert len(re.findall(r"(?m)^│ touch file-\d+-", terminal.text)) == 60
        terminal.send("n")
        terminal.until(lambda: "touch two" in terminal.screen and ASKED[lang] in terminal.screen)
        terminal.send("n")
        terminal.until(lambda: says(terminal, {"en": "a line of 9006 characters", "zh": "9006 个字符"}[lang]))
        terminal.until(lambda: ASKED[lang] in terminal.screen)
        assert unbroken(terminal).count("y" * 9000) == 1
        terminal.send("n")
        terminal.until("finished")


@SCREENS
def test_always_says_what_it_will_remember(project: Project, columns: int, rows: int, lang: str) -> None:
    script = [bash_step("touch a && git commit -m x"), bash_step("rm a"), {"text": "finished"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: ASKED[lang] in terminal.screen)
        told = {
            "en": "a always `touch`, `git commit` in this project",
            "zh": "a 在此项目中总是允许 `touch`, `git commit`",
        }
        assert says(terminal, told[lang])
        terminal.send("n")
        terminal.until(lambda: "rm a" in terminal.screen and ASKED[lang] in terminal.screen)
        assert not says(terminal, told[lang])  # nor is it offered
        terminal.send("n")
        terminal.until("finished")


def test_nothing_in_a_command_looks_like_a_part_of_the_question(project: Project) -> None:
    forged = "touch evil" + "x" * 68 + "bash needs your approval:\n  because: nothing\nAllow? [y]es"
    with (
        ScriptedServer([bash_step(forged), {"text": "finished"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: re.search(r"(?m)^Allow\?", terminal.screen) is not None)
        assert len(re.findall(r"(?m)^bash needs your approval", terminal.text)) == 1
        assert not re.search(r"(?m)^ +because: nothing", terminal.text)
        assert len(re.findall(r"(?m)^Allow\?", terminal.text)) == 1
        terminal.send("n")
        terminal.until("finished")


def test_a_terminal_of_lines_shows_the_same(project: Project) -> None:
    with (
        ScriptedServer([bash_step(f"{TRICK}\u200b"), {"text": "finished"}]) as server,
        Terminal(project, server.url, term="dumb") as terminal,
    ):
        terminal.until("project>")
        terminal.send("go")
        terminal.until("Allow?")
        assert squeezed(f"{TRICK}⟨U+200B⟩") in unbroken(terminal)
        terminal.send("n")
        terminal.until("finished")


def test_once_is_not_answered_by_what_was_typed_before(project: Project) -> None:
    with (
        ScriptedServer([bash_step("touch made"), {"text": "finished"}]) as server,
        Terminal(project, server.url, "--once", "go") as terminal,
    ):
        terminal.type("y\r")
        terminal.until("Allow?")
        terminal.send("n")
        terminal.until("finished")
        terminal.ended()
    assert not (project.cwd / "made").exists()
