"""Menus, vim keys, and the terminal's own commands."""

from __future__ import annotations

import base64
import re
import subprocess
from functools import partial

import pytest
from pty_kit import ANSWERS, DOWN, ENTER, ESC, TAB, Terminal, sent

from kit import ScriptedServer
from kit.driving import Project


def test_the_slash_menu_is_fuzzy_and_escape_closes_it(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/")
        terminal.until("/help")
        terminal.type("prm")
        terminal.until(lambda: "› /permissions [PRESET]" in terminal.screen)
        assert "permission matrix" in terminal.screen
        terminal.type(ESC)
        terminal.until(lambda: "› /permissions" not in terminal.screen)
        assert "> /prm" in terminal.screen
        terminal.type("\x15/stat")
        terminal.until("› /status")
        terminal.type(ENTER)
        terminal.until(lambda: "> /status " in terminal.screen + " ")
        terminal.type(ENTER)
        terminal.until("session: ")


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (200, 50)])
def test_the_menu_at_other_sizes(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/mo")
        terminal.until(lambda: "› /mode" in terminal.screen)
        terminal.type(DOWN + TAB)
        terminal.until(lambda: re.search(r"> /mode\w+ ?$", terminal.screen, re.MULTILINE) is not None)


def offers(terminal: Terminal, text: str) -> bool:
    return text in terminal.screen.split("> /")[-1]


def test_arguments_of_commands(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("first title")
        sent(server, terminal)
        for typed, offered in (
            ("/mode ", "auto-edit"),
            ("/permissions ", "strict"),
            ("/model ", "scripted"),
            ("/resume ", "first title"),
        ):
            terminal.type("\x15" + typed)
            terminal.until(partial(offers, terminal, offered))
        terminal.type("\x15/mode pl" + TAB + ENTER)
        terminal.until("\n[plan] ")


def test_at_offers_the_files_that_are_not_ignored(project: Project) -> None:
    project.write(".gitignore", "*.secret\n")
    project.write("src/alpha.py", "alpha = 1\n")
    project.write("src/my file.py", "beta = 1\n")
    project.write("alpha.secret", "no\n")
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("see @alph")
        terminal.until(lambda: "› src/alpha.py" in terminal.screen)
        assert "alpha.secret" not in terminal.screen
        terminal.type(TAB + "and @my")
        terminal.until(lambda: "› src/my file.py" in terminal.screen)
        terminal.type(TAB + "now")
        terminal.until(r"> see @src/alpha.py and @src/my\ file.py now")
        terminal.type(ENTER)
        assert sent(server, terminal).startswith(r"see @src/alpha.py and @src/my\ file.py now")


def test_many_files(project: Project) -> None:
    for folder in range(100):
        place = project.cwd / f"folder{folder:02}"
        place.mkdir()
        for name in range(200):
            (place / f"file{name:03}.txt").touch()
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("@f42/f137")
        terminal.until(lambda: "folder42/file137.txt" in terminal.screen)


VIM = [
    # keys after Esc on "one two three", and what is left
    ("0x", "ne two three"),
    ("0wx", "one wo three"),
    ("0wwbx", "one wo three"),
    ("0ex", "on two three"),
    ("$x", "one two thre"),
    ("0llx", "on two three"),
    ("0fwx", "one to three"),
    ("0twx", "one wo three"),
    ("$Fwx", "one to three"),
    ("$Twx", "one tw three"),
    ("0dw", "two three"),
    ("0d2w", "three"),
    ("02dw", "three"),
    ("0wD", "one "),
    ("0wCnew\x1b", "one new"),
    ("0cwnew\x1b", "new two three"),
    ("0yw$p", "one two threeone "),
    ("0ywP", "one one two three"),
    ("0rX", "Xne two three"),
    ("0~", "One two three"),
    ("0iA\x1b", "Aone two three"),
    ("0aA\x1b", "oAne two three"),
    ("IA\x1b", "Aone two three"),
    ("0AZ\x1b", "one two threeZ"),
    ("0x..", " two three"),
    ("0dw.", "three"),
    ("0cwX\x1bw.", "X X three"),
    ("0dwu", "one two three"),
    ("03x", " two three"),
    ("0oline\x1b", "one two three\nline"),
    ("0Oline\x1b", "line\none two three"),
    ("oline\x1bggx", "ne two three\nline"),
    ("oline\x1bggGx", "one two three\nine"),
    ("oline\x1bkx", "onetwo three\nline"),
    ("oline\x1bk0jx", "one two three\nine"),
    ("I  \x1b^x", "  ne two three"),
    ("0dd", ""),
    ("0d$", ""),
    ("0dfw", "o three"),
    ("0yyp", "one two three\none two three"),
]


def test_vim_motions_operators_and_repetition(project: Project) -> None:
    """Each in the real editor; the text goes to a file through the external editor, which shows it whole."""
    script = project.write("grab.sh", '#!/bin/sh\ncp "$1" grabbed.tmp && mv grabbed.tmp grabbed\n')
    script.chmod(0o700)
    project.configure(ui={"vim": True})
    grabbed = project.cwd / "grabbed"
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, EDITOR=str(script)) as terminal:
        terminal.until_idle()
        for keys, wanted in VIM:
            terminal.type("one two three")
            terminal.until(lambda: "> one two three" in terminal.screen)
            for part in re.split("(\x1b)", "\x1b" + keys):
                terminal.type(part)
                terminal.pump(0.12 if part == ESC else 0.03)
            terminal.type("i\x18\x05")
            terminal.until(grabbed.exists)
            assert grabbed.read_text(encoding="utf-8") == wanted, keys
            grabbed.unlink()
            terminal.until(lambda: "[default]" in terminal.screen)
            terminal.pump(0.1)
            terminal.type("\x03")
            terminal.until(lambda: terminal.screen.endswith(">"))
        assert not server.chats


def test_vim_can_be_switched_on_and_off(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("/vim")
        terminal.until("vim keys are on")
        terminal.type("abc")
        terminal.until("> abc")
        terminal.type(ESC)
        terminal.pump(0.15)
        terminal.type("x" + ENTER)
        assert sent(server, terminal) == "ab"
        terminal.send("/vim")
        terminal.until("vim keys are off")


def test_copy_puts_the_last_answer_on_the_clipboard(project: Project) -> None:
    with (
        ScriptedServer([{"text": "the **answer** 答案"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/copy")
        terminal.until("no answer to copy")
        terminal.send("go")
        sent(server, terminal)
        terminal.send("/copy")
        terminal.until("Copied 17 characters")
        found = re.search(rb"\x1b\]52;c;([^\x07]+)\x07", bytes(terminal.raw))
        assert found is not None
        assert base64.b64decode(found[1]).decode("utf-8") == "the **answer** 答案"


def test_theme(project: Project) -> None:
    with (
        ScriptedServer([{"text": "**a**"}, {"text": "**b**"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        sent(server, terminal)
        assert b"\x1b[1ma\x1b[0m" in terminal.raw
        terminal.send("/theme none")
        terminal.until("Theme: none")
        terminal.send("go")
        sent(server, terminal, 2)
        assert b"\x1b[1mb" not in terminal.raw
        terminal.send("/theme pink")
        terminal.until("no theme pink")


def test_a_long_diff_goes_through_the_pager_and_a_short_one_does_not(project: Project) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    project.write("a.txt", "old\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project.cwd, check=True)
    pager = project.home / "pager.sh"
    pager.write_text(f"#!/bin/sh\ncat > {project.home}/paged\n", encoding="utf-8")
    pager.chmod(0o700)
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, PAGER=str(pager)) as terminal:
        terminal.until_idle()
        project.write("a.txt", "new\n")
        terminal.send("/diff full")
        terminal.until("+new")
        assert not (project.home / "paged").exists()
        project.write("a.txt", "".join(f"line {n}\n" for n in range(100)))
        terminal.until_idle()
        terminal.send("/diff full")
        terminal.until("shown in the pager")
        terminal.until(lambda: (project.home / "paged").exists())
        terminal.until_idle()
        assert "+line 99" in (project.home / "paged").read_text(encoding="utf-8")
        assert "line 99" not in terminal.text


def test_the_first_run_says_what_to_set_and_offers_a_local_server(project: Project) -> None:
    with Terminal(project) as terminal:
        terminal.until("coder demo")
        assert terminal.ended() == 2
        assert "CODER_API_KEY" in terminal.text


def test_chinese_texts(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, "--lang", "zh") as terminal:
        terminal.until_idle()
        terminal.paste("一\n二")
        terminal.until(lambda: "已粘贴" in terminal.screen.replace(" ", ""))
        terminal.type("\x03/vim" + ENTER)
        terminal.until(lambda: "键位已开启" in terminal.text.replace(" ", ""))
