"""Undo: what was taken back, what was left and why; in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "undo.caches": "… and {n} cache files",
    "undo.caches.one": "… and 1 cache file",
    "undo.conflict": (
        "Turn {turn} was not undone, because these files have changed since:\n{files}\n{again} force "
        "replaces them all the same (a copy is kept)."
    ),
    "undo.copy": "your version is kept in {path}",
    "undo.cut_off": ("What these commands had done when the session was cut off is not covered: {commands}"),
    "undo.done": "Undid the file changes of turn {turn}:",
    "undo.doubtful": (
        "Turn {turn} was not undone, because these changes may not be its own:\n{files}\n{again} force "
        "takes them back all the same (a copy is kept)."
    ),
    "undo.failed": "The undo could not be completed: {reason}",
    "undo.force_rest": "{again} force takes back what was left, too (a copy is kept).",
    "undo.kept": "kept {path}: something else is in it by now",
    "undo.merged": "took the change out of {path}, and kept what changed later",
    "undo.more": "… and {n} more",
    "undo.no_change": "no file had to be changed",
    "undo.no_turn": "Turn {turn} has no file changes that could be taken back. Turns that have: {turns}",
    "undo.nothing": "There is nothing to undo in this session.",
    "undo.nothing_left": "Of the file changes of turn {turn} nothing is left to take back.",
    "undo.own_commands": "What your own commands did is not covered: {commands}",
    "undo.preview": "/undo would take back the file changes of turn {turn}:",
    "undo.redo": "/redo puts these changes back.",
    "undo.removed": "removed {path}",
    "undo.restored": "restored {path}",
    "undo.shared": "left {path}: changed while a command of another session ran",
    "undo.uncovered": "not covered: {path}",
    "undo.unsure": "left {path}: changed after a command was cut off, perhaps by you",
    "undo.usage": "Usage: /undo [N|N..|turn N] [force], /undo show …",
    "undo.would_doubt": (
        "/undo would refuse turn {turn}, because these changes may not be its own:\n{files}\n{again} force "
        "would take them back all the same (and keep a copy)."
    ),
    "undo.would_leave_shared": "leave {path}: changed while a command of another session ran",
    "undo.would_leave_unsure": "leave {path}: changed after a command was cut off, perhaps by you",
    "undo.would_merge": "take the change out of {path}, and keep what changed later",
    "undo.would_not": (
        "/undo would refuse turn {turn}, because these files have changed since:\n{files}\n{again} force "
        "would replace them all the same (and keep a copy)."
    ),
    "undo.would_remove": "remove {path}",
    "undo.would_restore": "restore {path}",
}
