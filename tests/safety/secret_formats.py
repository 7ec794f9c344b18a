"""Fake secrets in the formats of `secret_formats.tsv`, made at run time: in a file they set off alarms."""

from __future__ import annotations

import base64
import random
import re
import string
from pathlib import Path

_LETTERS = string.ascii_letters + string.digits
_ALPHABETS = {
    "n": _LETTERS,
    "w": _LETTERS + "_-",
    "l": string.ascii_lowercase + string.digits,
    "x": "0123456789abcdef",
    "u": string.ascii_uppercase + string.digits,
    "t": string.ascii_uppercase + "234567",
    "d": string.digits,
    "b": _LETTERS + "+/",
    "pw": _LETTERS + "!@#%^*+=?,;()",
}


def templates() -> dict[str, str]:
    path = Path(__file__).with_name("secret_formats.tsv")
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


def make(template: str, dice: random.Random) -> tuple[str, str]:
    """A text with a fake secret, and that secret."""
    text = template.replace("\\n", "\n")
    text = re.sub(r"\{(pw|[nwlxutdb])(\d+)\}", lambda part: _some(part[1], int(part[2]), dice), text)
    text = text.replace("{uuid}", "-".join(_some("x", n, dice) for n in (8, 4, 4, 4, 12)))
    text = re.sub(r"\{b64:([^}]*)\}", lambda part: base64.b64encode(part[1].encode()).decode(), text)
    before, rest = text.split("«")
    secret, after = rest.split("»")
    return before + secret + after, secret


def _some(alphabet: str, length: int, dice: random.Random) -> str:
    if alphabet != "pw":
        return "".join(dice.choices(_ALPHABETS[alphabet], k=length))
    # Passwords have characters of each kind, and begin with a letter.
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "!@#%^*+=?,;()")
    rest = [*map(dice.choice, kinds), *dice.choices(_ALPHABETS["pw"], k=length - 5)]
    dice.shuffle(rest)
    return dice.choice(string.ascii_letters) + "".join(rest)
