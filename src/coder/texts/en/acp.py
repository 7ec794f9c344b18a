"""What the Agent Client Protocol server says to a person in an editor, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "acp.auth": "Set up a provider",
    "acp.call.allow": "Allow once",
    "acp.call.always": "Always allow in this project",
    "acp.call.always_names": "Always allow {names} in this project",
    "acp.call.reject": "Reject",
    "acp.call.some": "Choose hunks …",
    "acp.cursor": "{cursor} is no cursor of an earlier answer.",
    "acp.empty_prompt": "The prompt holds no text.",
    "acp.form.hunks": "Hunks to apply",
    "acp.form.message": "Which parts of this change are to be applied?",
    "acp.form.reason": "Why not the rest (the model is told)",
    "acp.mcp_wrong": (
        "The MCP server {name} cannot be used as the editor describes it; the session goes on without it."
    ),
    "acp.no_auth": "There is no way to authenticate that is called {name}.",
    "acp.no_option": "There is no option {name}; there are mode and model.",
    "acp.no_session": "Session {id} is not open here; session/load opens it.",
    "acp.not_here": "/{name} does nothing here: the editor has its own way to open and leave sessions.",
    "acp.one_folder": "A session has one folder: additionalDirectories are not supported.",
    "acp.option.mode": "Operating mode",
    "acp.option.model": "Model",
    "acp.relative": "{directory} is not an absolute path.",
    "acp.resource_binary": "{name} is not text, and was left out.",
    "acp.resource_cut": "{name} is too long to be sent whole; the model gets its beginning.",
    "acp.terminal": "This speaks JSON-RPC with an editor, which starts it by itself; Ctrl+D ends it.",
    "acp.text_only": "Sound cannot be heard here; write down what was said.",
    "acp.turn.allow": "Go on",
    "acp.turn.always": "Go on, and do not ask again",
    "acp.turn.reject": "Stop",
    "acp.review.allow": "Keep all of it",
    "acp.review.reject": "Take all of it back",
}
