"""A session that goes through its scenes at three sizes of the window, in both languages and themes: one
process each, resized, since starting one costs more than a scene."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from pty_kit import DOWN, ENTER, ESC, UP, Terminal
from repl_kit import Gate, squeezed

from coder.texts import Catalog
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project

SIZES = ((80, 24), (44, 20), (200, 50))
SHIFT_TAB, CTRL_S, CTRL_U = "\x1b[Z", "\x13", "\x15"
BUSY = {"status": 503, "body": {"error": {"message": "busy"}}}
TABLE = """\
| Command | What it does when it is asked | Documented in | Since |
| --- | --- | --- | --- |
| `coder doctor` | says what works here: provider, key, sandbox | getting-started.md | 0.1.0 |
"""
LONG = "".join(f"line {n}\n" for n in range(200))


class Visit:
    """One window size: what the model does there, and how a person goes through it."""

    def __init__(self, terminal: Terminal, server: ScriptedServer, lang: str, gates: dict[str, Gate]) -> None:
        self.terminal, self.server, self.gates = terminal, server, gates
        self.lang, self.say, self.name, self._above = lang, Catalog(lang).say, "", 0

    def at(self, columns: int, rows: int) -> None:
        self.name, self._above = str(columns), len(self.terminal.paper.scrolled)
        if columns != self.terminal.paper.columns:
            self.terminal.resize(columns, rows)
        self.idle()

    @property
    def text(self) -> str:
        """All that was shown at this size: a row may scroll off before anyone looks."""
        paper = self.terminal.paper
        return "\n".join([*paper.scrolled[self._above :], *paper.rows])

    def shows(self, text: str) -> None:
        self.terminal.until(lambda: squeezed(text) in squeezed(self.text))

    def idle(self) -> None:
        self.terminal.until_idle()
        prompts = [row for row in self.terminal.paper.rows if row.startswith("[")]
        assert len(prompts) == 1, self.terminal.screen  # nothing is left behind

    def asked(self) -> None:
        """The question is the last row, and stands there long enough to be read."""
        self.terminal.until(lambda: self.terminal.screen.endswith(self.say("approval.ask").strip()))
        self.terminal.pump(0.4)

    def mode(self, name: str) -> None:
        self.terminal.until(lambda: self.terminal.prompt.startswith(f"[{name}]"))

    def answered(self, text: str) -> None:
        self.shows(f"{text}{self.name}")
        self.idle()

    # the scenes

    def decides_by_keys(self) -> None:
        self.terminal.send("ask")
        self.asked()
        self.terminal.send("perhaps")  # no answer
        self.shows(self.say("approval.not_an_answer"))
        self.asked()
        self.terminal.type("n")
        self.shows(self.say("approval.because"))
        self.terminal.send(f"not at {self.name}")
        self.shows("→ " + self.say("terminal.answer_because", reason=f"not at {self.name}"))
        self.answered("refused")
        self.terminal.send("ask again")
        self.asked()
        self.shows(f"e {self.say('approval.key_edits')}")
        self.terminal.type("e")
        self.shows(self.say("terminal.answer_edits"))
        self.mode("auto-edit")

    def shows_a_long_file(self) -> None:
        self.shows(self.say("view.rest_of_file", n=180, key="ctrl+o"))  # unasked: the mode is auto-edit
        assert "20 + line 19\n" in self.text
        assert "line 21" not in self.text
        self.answered("written")
        for mode in ("plan", "default"):
            self.terminal.type(SHIFT_TAB)
            self.mode(mode)
        self.terminal.send("and another")
        self.asked()
        assert f"other{self.name}.txt +200" in self.terminal.screen
        assert "d " + self.say("approval.key_diff") in self.terminal.screen
        assert "line 199" not in self.terminal.screen
        self.terminal.type("d")
        self.terminal.until(lambda: self.terminal.screen.startswith(f"  other{self.name}.txt +200\n"))
        self.terminal.type("G")
        self.terminal.until(lambda: "200 + line 199\n" in self.terminal.screen)
        self.terminal.type("q")
        self.asked()
        self.terminal.type("y")
        self.answered("asked")
        assert squeezed(f"✓ write other{self.name}.txt +200") in squeezed(self.text)

    def works(self) -> None:
        asked = len(self.server.chats)
        self.terminal.send("work")
        self.terminal.until(lambda: len(self.server.chats) > asked)
        self.shows(self.say("busy.stops"))
        self.terminal.type(SHIFT_TAB)
        self.mode("auto-edit")
        self.terminal.type(f"use tabs {self.name}" + CTRL_S)
        self.shows(self.say("terminal.steered", text=f"use tabs {self.name}"))
        self.gates[f"works{self.name}"].open()
        self.shows(f"› use tabs {self.name}")
        self.answered("steered")
        self.terminal.send("/default")
        self.mode("default")
        self.idle()

    def stops(self) -> None:
        asked = len(self.server.chats)
        self.terminal.send("stop me")
        self.terminal.until(lambda: len(self.server.chats) > asked)
        for text in ("one", "two"):
            self.terminal.send(text)
            self.shows(self.say("terminal.queued", text=text))
        self.terminal.type(ESC)
        self.terminal.until(lambda: self.terminal.screen.endswith("> one"))
        self.shows(self.say("terminal.queued", text="two"))
        self.gates[f"stops{self.name}"].open()
        self.terminal.type(CTRL_U + UP)
        self.terminal.until(lambda: self.terminal.screen.endswith("> two"))
        self.terminal.type(CTRL_U)
        self.idle()

    def tells_a_table_and_a_retry(self) -> None:
        self.terminal.send("table")
        self.answered("tabled")
        narrow = "Command: coder doctor\n" in self.terminal.screen
        assert narrow is (self.name == "44")
        assert narrow or "Command " in self.terminal.screen
        for word in ("provider,", "sandbox", "0.1.0"):
            assert word in self.terminal.screen.split(), self.terminal.screen
        self.terminal.send("fail")
        self.answered("retried")
        assert self.terminal.screen.count("↻ " + self.say("view.retry", n=1)) == 1

    def folds_a_paste(self) -> None:
        self.terminal.paste(f"alpha\nbeta\n3\n4\n5\n{self.name}")
        self.terminal.type(ENTER)
        self.answered("pasted")
        self.terminal.type(UP)
        self.terminal.until(lambda: self.terminal.screen.endswith("> " + self.say("terminal.pasted", n=6)))
        self.terminal.type(CTRL_U)
        self.idle()

    def obeys_the_menu(self) -> None:
        self.terminal.type("/")
        self.terminal.until(lambda: "› /zeal" in self.terminal.screen)  # the custom mode is among the first
        assert "…" in self.terminal.screen.split("\n")[-1]  # there is more
        self.terminal.type("todos" + ENTER)
        self.shows(self.say("todos.none"))
        self.idle()
        self.terminal.type("/zeal" + ENTER)
        self.shows(self.say("terminal.bar_hint", name="/zeal"))
        self.terminal.type(DOWN)
        self.terminal.until(lambda: self.say("terminal.bar_hint", name="/zeal") not in self.terminal.screen)
        self.terminal.type(UP)
        self.shows(self.say("terminal.bar_hint", name="/zeal"))
        self.terminal.send("/zeal off")
        self.idle()


def steps(gates: dict[str, Gate]) -> Iterator[Any]:
    for columns, _ in SIZES:
        write = [call("write", path=f"new{columns}.txt", content="x\n")]
        gates[f"works{columns}"] = Gate({"calls": [call("list")]})
        gates[f"stops{columns}"] = Gate({"text": "never"})
        yield {"calls": write}
        yield {"text": f"refused{columns}"}
        yield {"calls": write}
        yield {"calls": [call("write", path=f"long{columns}.txt", content=LONG)]}
        yield {"text": f"written{columns}"}
        yield {"calls": [call("write", path=f"other{columns}.txt", content=LONG)]}
        yield {"text": f"asked{columns}"}
        yield gates[f"works{columns}"]
        yield {"text": f"steered{columns}"}
        yield gates[f"stops{columns}"]
        yield {"text": f"{TABLE}\ntabled{columns}"}
        yield BUSY
        yield {"text": f"retried{columns}"}
        yield {"text": f"pasted{columns}"}


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("less") is None, reason="it is the pager")
@pytest.mark.parametrize(("lang", "light"), [("en", False), ("zh", True)], ids=["en dark", "zh light"])
def test_a_session_at_three_sizes(project: Project, lang: str, light: bool) -> None:
    project.write(".coder/modes/zeal.md", "---\nkind: persistent\n---\nBe zealous.\n")
    gates: dict[str, Gate] = {}
    script = list(steps(gates))
    scheme = "0;15" if light else "15;0"
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--lang", lang, COLORFGBG=scheme) as terminal,
    ):
        visit = Visit(terminal, server, lang, gates)
        for columns, rows in SIZES:
            visit.at(columns, rows)
            visit.decides_by_keys()
            visit.shows_a_long_file()
            visit.works()
            visit.stops()
            visit.tells_a_table_and_a_retry()
            visit.folds_a_paste()
            visit.obeys_the_menu()
        assert all(len(row) <= 200 for row in terminal.paper.rows)
        assert (b"48;5;254" if light else b"48;5;236") in terminal.raw
