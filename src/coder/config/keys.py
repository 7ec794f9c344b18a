"""Key bindings by name: the actions whose key can be chosen (`ui.keys`), and how keys are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coder.config.schema import KeyAction

# What each action is bound to unless `ui.keys` says otherwise.
DEFAULT_KEYS: Final[Mapping[KeyAction, tuple[str, ...]]] = {
    "newline": ("alt+enter", "ctrl+j"),
    "steer": ("ctrl+s",),
    "transcript": ("ctrl+o",),
    "rewind": (),
    "mode": ("shift+tab",),
    "editor": ("ctrl+x ctrl+e",),
    "search": ("ctrl+r",),
    "clear_screen": ("ctrl+l",),
    "suspend": ("ctrl+z",),
}


def bound_keys(chosen: Mapping[KeyAction, str]) -> dict[KeyAction, tuple[str, ...]]:
    """The keys of every action. An empty one has none; a key that was chosen for one action is no longer
    another's."""
    taken = {key for key in chosen.values() if key}
    bound: dict[KeyAction, tuple[str, ...]] = {}
    for action, usual in DEFAULT_KEYS.items():
        own = chosen.get(action)
        free = tuple(key for key in usual if key not in taken)
        bound[action] = free if own is None else (own,) if own else ()
    return bound


def key_names(chosen: Mapping[KeyAction, str]) -> dict[str, str]:
    """As people read them, by action: `Ctrl+O`; `–` for none."""
    return {
        action: ", ".join(" ".join(_title(key) for key in keys.split()) for keys in bound) or "–"
        for action, bound in bound_keys(chosen).items()
    }


def _title(key: str) -> str:
    return "+".join(part.capitalize() for part in key.split("+"))
