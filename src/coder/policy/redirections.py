"""What a redirection does to a file."""

from __future__ import annotations

import msgspec

from coder.policy.places import Places
from coder.policy.shell_tree import Redirect

_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_OVERWRITING = frozenset({">", ">|", "&>", ">&"})


class Effect(msgspec.Struct, frozen=True):
    """Why a redirection is not read-only (empty: it is), whether `always` may cover it, the risk in it."""

    why: str = ""
    opaque: bool = False
    risk: str = ""


def judge_redirect(redirect: Redirect, places: Places) -> Effect:
    """The effect of one redirection of a line that runs in `places`."""
    target = redirect.target
    if redirect.operator in ("<", "<&", ">&-", "<&-"):
        return _reading(redirect)
    if redirect.operator == ">&" and target.exact and (target.text.isdigit() or target.text == "-"):
        return Effect()
    if not target.exact:
        return Effect(
            "writes into a file that is not in plain sight",
            True,
            "It writes into a file whose name is not known.",
        )
    name = target.text
    if name in _HARMLESS:
        return Effect()
    if name.startswith(("/dev/", "/proc/", "/sys/")):
        return Effect(f"writes to {name}", True, f"It writes to the device {name}.")
    if not places.inside(name):
        return Effect(
            f"writes outside the workspace: {name}", True, f"It writes outside the workspace: {name}."
        )
    if places.protected(name):
        return Effect(
            f"writes into {name}", True, f"It writes into {name}, by which git or coder is steered."
        )
    if redirect.operator in _OVERWRITING and places.exists(name):
        return Effect(f"overwrites {name}", False, f"It overwrites the existing file {name}.")
    return Effect(f"writes into {name}")


def _reading(redirect: Redirect) -> Effect:
    target = redirect.target
    if redirect.operator in ("<&", ">&-", "<&-"):
        plain = target.exact and (target.text.isdigit() or target.text == "-")
        return Effect() if plain else Effect("reads from a descriptor that is not in plain sight", True)
    if not target.exact:
        process = target.text == "/dev/fd/" and not target.splits
        return Effect() if process else Effect("reads from a file that is not in plain sight", True)
    if target.text.startswith(("/dev/tcp", "/dev/udp", "//")) or "/dev/tcp" in target.text:
        return Effect("opens a network connection", True, "It opens a network connection.")
    return Effect()
