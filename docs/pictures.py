"""Makes docs/pictures/*.svg: scenes of real sessions of `coder` in a terminal, against the scripted model.

    ./dev pictures              writes them all
    ./dev pictures NAME …       writes those
    ./dev pictures --to FOLDER  writes them elsewhere

As in record_demo.py the sessions are played for real, and only what differs from run to run is set to fixed
figures, so that a picture changes only where coder does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coder.cli.demo import environment, lay_out
from coder.models.scripted import ScriptedServer
from record_demo import Session, at_prompt, fixed, start
from terminal_svg import DARK, LIGHT, picture

FOLDER = Path(__file__).parent / "pictures"
QUESTION = "Why do the tests fail?"
THINKING = (
    "The test expects 60 for [10, 20, 30] and gets 50, so one price is missing. The loop runs over "
    "prices[1:], which leaves out the first one; the second test begins with a 0 and cannot notice.\n"
    "Nothing else uses total, so the slice can go."
)
HANDLERS = "".join(
    f'def handler_{n}(request):\n    value = request.get("v{n}", {n})\n'
    f'    return {{"status": 200, "value": value}}\n\n'
    for n in range(50)
)
BASKET = '''\
"""A shopping basket with discounts."""


def total(prices, discount=0):
    """The sum of all prices, less a discount in percent."""
    result = 0
    for price in prices[1:]:
        result += price
    return round(result * (100 - discount) / 100, 2)
'''
TABLE = """\
There are three ways to run it:

| Command | What it does | Needs |
| --- | --- | --- |
| `coder` | an interactive session in this folder | a terminal |
| `coder --once` | one turn, then exit; the answer goes to stdout | nothing else |
| `coder acp` | serves an editor over stdio | an editor that speaks ACP |
"""


def _call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


class Scene(NamedTuple):
    """`keys`: what is typed, each after the text that it waits for; `until`: what is on the picture."""

    name: str
    about: str
    script: Sequence[dict[str, Any]] = ()
    flags: Sequence[str] = ()
    keys: Sequence[tuple[str | Callable[[str], bool], str]] = ()
    until: str | Callable[[str], bool] = at_prompt
    columns: int = 80
    rows: int = 24
    light: bool = False
    earlier: Sequence[str] = ()  # questions of sessions before this one


EDIT = _call("edit", path="basket.py", old_string="prices[1:]", new_string="prices")
ASK = ((at_prompt, QUESTION), (QUESTION, "\r"))
DIFF = Scene(
    "diff",
    "A small change asks for approval: the diff with line numbers, colours and the changed words, then what "
    "the keys do.",
    [{"text": "The first price is left out.", "calls": [EDIT]}],
    keys=ASK,
    until="Allow?",
    rows=20,
)
HUNKS = Scene(
    "hunks",
    "A change is gone through hunk by hunk: the first one was taken, the second one is asked about.",
    [
        {"calls": [_call("read", path="basket.py")]},
        {"calls": [_call("write", path="basket.py", content=BASKET)]},
    ],
    keys=(*ASK, ("Allow?", "h"), ("Part 1 of ", "y")),
    until="Part 2 of 2?",
    rows=34,
)
SCENES = [
    Scene(
        "start",
        "A session begins: name, model, directory, and one hint.",
        until=lambda text: "commands and keys" in text and at_prompt(text),
        rows=8,
    ),
    Scene(
        "thinking",
        "The model thinks: its thoughts are quieter than an answer, and a row says what is happening.",
        [{"reasoning": THINKING, "text": "So it is.", "chunk": 4000, "delay": 1.5}],
        keys=ASK,
        until=lambda text: "slice can go" in text and "thinking ·" in text,
        rows=14,
    ),
    Scene(
        "failure",
        "Files are read, a command fails and shows its output behind a bar, the answer follows.",
        [
            {"calls": [_call("read", path="basket.py"), _call("read", path="test_basket.py")]},
            {"calls": [_call("bash", command="python3 -m unittest -q")]},
            {"text": "`total` leaves out the first price: it loops over `prices[1:]`."},
        ],
        flags=("--mode", "yolo"),
        keys=ASK,
        until=lambda text: "leaves out the first price" in text and at_prompt(text),
        columns=92,
        rows=40,
    ),
    DIFF,
    DIFF._replace(name="diff-light", light=True),
    Scene(
        "new-file",
        "A new file of 200 lines asks for approval: its beginning and its size; a key shows all of it.",
        [{"calls": [_call("write", path="handlers.py", content=HANDLERS)]}],
        keys=ASK,
        until="Allow?",
        rows=24,
    ),
    HUNKS,
    HUNKS._replace(name="hunks-light", light=True),
    Scene(
        "table",
        "In a terminal of 44 columns a table becomes blocks of names and values.",
        [{"text": TABLE}],
        keys=ASK,
        until=lambda text: "Needs: an editor" in text and at_prompt(text),
        columns=44,
        rows=30,
    ),
    Scene(
        "picker",
        "`coder --resume`: earlier sessions to search, with a preview of the one that is chosen.",
        [
            {"text": "It leaves out the first price."},
            {"text": "Added a test."},
            {"text": "Two prices differ."},
        ],
        flags=("--resume",),
        until=lambda text: "search>" in text and "1/3" in text and "prices differ" in text,
        rows=24,
        earlier=(QUESTION, "Add a test for an empty basket", "Compare the prices with last week's list"),
    ),
]


def taken(scene: Scene, folder: Path) -> str:
    """The scene's picture."""
    lay_out(folder)
    (folder / ".coder" / "config.json").unlink()
    with ScriptedServer(scene.script, model="scripted") as server:
        environ = environment(folder, server.url) | {
            "HOME": str(folder.parent),
            "TERM": "xterm-256color",
            "COLORFGBG": "0;15" if scene.light else "15;0",
            "COLORTERM": "truecolor",
        }
        environ.pop("NO_COLOR", None)
        for question in scene.earlier:
            once = [sys.executable, "-m", "coder", "--once", question]
            subprocess.run(once, cwd=folder, env=environ, check=True, capture_output=True)
        session = start(folder, environ, scene.flags, scene.columns, scene.rows)
        try:
            _play(session, scene)
        finally:
            os.kill(session.pid, signal.SIGKILL)
            os.waitpid(session.pid, 0)
            os.close(session.fd)
    palette = LIGHT if scene.light else DARK
    return picture(fixed(session.paper.rows()), scene.columns, "coder", scene.about, palette)


def _play(session: Session, scene: Scene) -> None:
    for awaited, keys in scene.keys:
        session.until(awaited)
        session.type(keys)
    session.until(scene.until)


def main() -> None:
    names = sys.argv[1:]
    folder = FOLDER
    if names[:1] == ["--to"]:
        folder, names = Path(names[1]), names[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        if names and scene.name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="c") as place:
            directory = Path(place) / "basket"
            directory.mkdir()
            svg = taken(scene, directory)
        (folder / f"{scene.name}.svg").write_text(svg, encoding="utf-8")
        sys.stdout.write(f"{folder / scene.name}.svg\n")


if __name__ == "__main__":
    main()
