"""The form for a mode's variables, what a line leaves over, terminals without a bar (seed 003 §5, §6, §9)."""

from __future__ import annotations

from modes_kit import RIGHT, SHIFT_TAB, listed_there, shows
from pty_kit import ANSWERS, BACKSPACE, CTRL_D, DOWN, ENTER, ESC, TAB, UP, Terminal, messages

from kit import ScriptedServer
from kit.driving import Project

RELEASE = """\
---
kind: persistent
display_name: Release
description: How to ship
model: shipper
reasoning_effort: low
variables:
  - name: channel
    required: true
    enum: [stable, beta]
    description: Who gets it
  - name: region
    default: emea
    type: text
    inline_edit: false
  - name: ticket
    shortcuts: ["-t", "ticket="]
    pattern: "^[A-Z]+-\\\\d+$"
  - name: dry
    type: boolean
    default: "false"
  - name: retries
    type: number
  - name: notes
    type: path
---
Ship {{channel}} to {{region}} for {{ticket}} dry={{dry}} retries={{retries}} notes={{notes}}.
"""
FORM_KEYS = "Tab ↑↓ field · ←→ choose · ⌫ default · ⏎ apply · Esc cancel"


def with_modes(project: Project) -> Project:
    project.write(".coder/modes/release.md", RELEASE)
    project.write(
        ".coder/modes/ask.md",
        "---\nkind: instant\nmodel: quick\nvariables:\n  - name: who\n    required: true\n  - name: what\n"
        "    default: hello\n---\nSay {{what}} to {{who}}.\n",
    )
    project.write(
        ".coder/modes/focus.md", "---\nkind: persistent\nvariables: [topic]\n---\nStay with {{topic}}.\n"
    )
    return project


def test_the_form_asks_for_what_a_line_lacks(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(with_modes(project), server.url) as terminal:
        listed_there(terminal, "release")
        terminal.send("/release")
        title = "Release — How to ship"
        first = (title, "▸ channel* stable  beta", "  region   default: emea", "  ticket   ?")
        rest = ("  dry      true  false  (default)", "  retries  ?", "  notes    ?")
        shows(terminal, *first, *rest, "  ⚠ a value is required", FORM_KEYS)
        terminal.type(ENTER)  # is not applied as long as something is missing
        terminal.type(RIGHT + RIGHT)
        chosen = "▸ channel* stable  beta"
        terminal.until("Who gets it · one of a list")
        terminal.type(TAB + TAB + "abc")
        shows(
            terminal,
            title,
            chosen.replace("▸", " "),
            "  region   default: emea",
            "▸ ticket   abc",
            *rest,
            "  ⚠ abc does not match ^[A-Z]+-\\d+$",
            FORM_KEYS,
        )
        terminal.type(ENTER + "\x15AB-1")
        terminal.until("text · typed as -t ticket= · must match")
        terminal.type(DOWN + " " + DOWN + "many")
        terminal.until("⚠ many is not a number")
        terminal.type("\x153" + TAB + "docs/notes.md" + SHIFT_TAB + UP)
        shows(
            terminal,
            title,
            "  channel* stable  beta",
            "  region   default: emea",
            "  ticket   AB-1",
            "▸ dry      true  false",
            "  retries  3",
            "  notes    docs/notes.md",
            "  yes or no · default: false",
            FORM_KEYS,
        )
        terminal.type(ENTER)
        shows(terminal, "Mode: Release")
        terminal.until("· model: shipper · effort: low")
        terminal.send("go")
        terminal.until("answer0")
        assert "Ship beta to emea for AB-1 dry=true retries=3 notes=docs/notes.md." in messages(server)[0]
        assert server.chats[0]["model"] == "shipper"
        assert server.chats[0]["reasoning_effort"] == "low"
        # one that is on: the form to adjust it, with its values; clearing one is asking for the default
        terminal.send("/release")
        terminal.until("▸ channel* stable  beta")
        terminal.type(DOWN + "apac" + DOWN + DOWN + BACKSPACE)
        shows(
            terminal,
            title,
            "  channel* stable  beta",
            "  region   apac",
            "  ticket   AB-1",
            "▸ dry      true  false  (default)",
            "  retries  3",
            "  notes    docs/notes.md",
            "  yes or no · default: false",
            FORM_KEYS,
        )
        terminal.type(ENTER)
        shows(terminal, "Mode: Release")
        terminal.send("go")
        terminal.until("answer1")
        assert "to apac for AB-1 dry=false" in messages(server)[0]
        # from the bar: a list without `inline_edit` opens the form; Esc goes to the bar, then to the input
        terminal.type(DOWN + ENTER)
        terminal.until("▸ channel* stable  beta")
        terminal.type(RIGHT + ESC)
        terminal.until(lambda: "[channel=beta]" in terminal.screen)
        terminal.type(ESC)
        shows(terminal, "Mode: Release")


def test_the_form_of_an_instant_mode_and_what_a_line_leaves_over(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(with_modes(project), server.url) as terminal:
        listed_there(terminal, "ask")
        terminal.send("/ask")
        shows(terminal, "ask", "▸ who*", "  what  default: hello", "  ⚠ a value is required", FORM_KEYS)
        terminal.type("世界" + ENTER)
        terminal.until("answer0")
        assert messages(server)[-1] == "Say hello to 世界."
        assert server.chats[0]["model"] == "quick"  # its own model is in force for the turn it starts
        terminal.until_idle()
        assert "model: scripted" in terminal.screen
        # Esc drops it
        terminal.send("/ask")
        terminal.until("▸ who*")
        terminal.type(ESC)
        terminal.until_idle()
        # what is left over of a line is put into the input, and sent only by the person
        terminal.send("/ask Bob hi then go on")
        terminal.until("answer1")
        terminal.until("> then go on")
        assert "Enter sends it as a message" in terminal.screen
        assert messages(server)[-1] == "Say hi to Bob."
        terminal.type(ENTER)
        terminal.until("answer2")
        assert messages(server)[-1] == "then go on"
        assert [chat["model"] for chat in server.chats] == ["quick", "quick", "scripted"]
        terminal.until_idle()
        terminal.send("/focus tests and then more")
        terminal.until("> and then more")
        terminal.type(ENTER)
        terminal.until("answer3")
        assert messages(server)[-1] == "and then more"
        assert "Stay with tests." in messages(server)[0]


def test_a_project_s_command_asks_before_a_mode_is_on(project: Project) -> None:
    """The question comes while the form is being applied: the focus goes to the answer."""
    project.write("log.txt", "sauce\n")
    header = "kind: persistent\nvariables:\n  - name: n\n    required: true"
    project.write(".coder/modes/log.md", f"---\n{header}\n---\nThe log {{{{n}}}}:\n!cat log.txt\n")
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        listed_there(terminal, "log")
        terminal.send("/log")
        terminal.until("▸ n*")
        terminal.type("1" + ENTER)
        terminal.until("wants to run `cat log.txt`")
        terminal.until_asked()
        terminal.send("n")
        terminal.until(lambda: "Mode: log ⚠ " in terminal.screen)
        terminal.send("/log 2")
        terminal.until(lambda: terminal.text.count("wants to run `cat log.txt`") == 2)
        terminal.until_asked()
        terminal.type(ESC)  # cancels, and the prompt is back
        terminal.until("Cancelled")
        terminal.until_idle()
        terminal.send("/log 3")
        terminal.until(lambda: terminal.text.count("wants to run `cat log.txt`") == 3)
        terminal.until_asked()
        terminal.send("y")
        terminal.until(lambda: "\nMode: log   ↓ edit" in terminal.screen)
        terminal.send("go")
        terminal.until("answer0")
        assert "The log 3:\nsauce" in messages(server)[0]


def test_plain_screens_print_the_summary(project: Project) -> None:
    project.configure(ui={"plain": True})
    with ScriptedServer(ANSWERS) as server, Terminal(with_modes(project), server.url) as terminal:
        listed_there(terminal, "release")
        terminal.send("/release")
        terminal.until("channel is missing")
        terminal.until_idle()  # no form
        terminal.send("/release beta")
        terminal.until("\nMode: Release")
        terminal.until("Mode on: /release [channel=beta] [region=emea]")
        terminal.send("/modes off release")
        terminal.until("\nMode: none\n")
        assert server.chats == []


def test_terminals_that_take_lines_only(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, "--lang", "zh", term="dumb") as terminal,
    ):
        terminal.until(">")
        terminal.send("/release beta")
        terminal.until("模式：Release")
        terminal.until("模型：shipper · 思考强度：low")
        terminal.send("/modes")
        terminal.until("● /release [channel=beta] [region=emea] [ticket=?]")
        terminal.send("/modes off release")
        terminal.until("模式：无")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert server.chats == []
