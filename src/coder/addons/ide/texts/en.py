"""The editor companion, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "status.label.ide": "editor",
    "status.no_ide": "not connected",
    "context.ide.connected": "{name} is connected. The model is told what is open there ({n}):",
    "context.ide.cursor": "{path}, line {line}",
    "context.ide.none": (
        "Editor: {state}. One that runs a companion extension (such as Gemini C"
        "LI Companion) and has this folder open is found within 15 seconds."
    ),
    "context.ide.off": (
        "No editor is listened to. `/ide on` does so from now on, `ide.enabled` in {file} always."
    ),
    "context.ide.selected": ", {n} characters selected",
    "context.ide.usage": "/ide shows the editor; /ide on and /ide off say whether one is listened to.",
    "context.ide.no_answer": "the editor gave no answer to {method}",
    "context.ide.not_yours": "no program of yours listens on port {port}",
    "context.ide.says": "the editor says: {why}",
    "context.ide.status": "the companion answers {status}",
    "context.ide.unreachable": "the companion cannot be reached: {why}",
    "help.ide": "the editor that is connected, and what the model is told of it",
}
