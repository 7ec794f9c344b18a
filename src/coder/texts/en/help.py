"""What the commands and keys do, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "help.auto-edit": "operating mode auto-edit: edits are made and verified without asking",
    "help.compact": "replace older history by a summary",
    "help.default": "operating mode default: the permission preset as it is",
    "help.diff": "what has changed; review keeps or takes back each part of the session's changes",
    "help.everyday": "Every day:",
    "help.rest": "And also:",
    "help.exit": "leave",
    "help.fork": "not there: sessions are linear (/rewind goes back)",
    "help.help": "this list",
    "help.hooks": "the hooks that are configured, and how each last ended",
    "help.ide": "the editor that is connected, and what the model is told of it",
    "help.keys": (
        "Type what you want in your own words; Enter sends it. {newline} or a trailing \\ makes a new line.\n"
        "Ctrl+D on an empty line leaves, on text it sends. Esc or Ctrl+C stops a turn.\n"
        "What you send while it works waits; Up takes it back. {steer} steers: it goes with the next step.\n"
        "{mode}: the next operating mode. Down: the mode bar. ? on an empty line: the keys.\n"
        "{transcript}: the whole transcript. Esc Esc on an empty line: back to an earlier message.\n"
        "{search}: search the history. {editor}: $EDITOR. Ctrl+Y brings cleared text back.\n"
        "@path puts a file into the message; !command runs a command of your own."
    ),
    "help.mode": "show or set the operating mode",
    "help.model": "show or set the model (kept in .coder/config.json)",
    "help.modes": "the modes there are; off, show what one renders to, read the files again",
    "help.new": "start a new session",
    "help.permissions": "show what is allowed, set the preset, or revoke an “always”",
    "help.ps": "the background jobs of this session",
    "help.stop": "end a background job, or all of them",
    "help.plan": "operating mode plan: look and propose, change nothing",
    "help.resume": "go on with an earlier session; without ID, list them",
    "help.sessions": "the sessions of this folder",
    "help.mcp": "MCP servers and what became of them",
    "help.skills": "the skills there are",
    "help.status": "session, model, tokens, trust",
    "help.todos": "the todo list",
    "help.tools": "the tools the model has",
    "help.undo": "take back the file changes of the last turn (N turns, N.. on, turn N alone); show tells it",
    "help.yolo": "operating mode yolo: edits and all commands without asking",
    "help.budget": "show or set what this session may cost",
    "help.context": "where the tokens of the context go",
    "help.effort": "show or set how much the model reasons, for this session",
    "help.loop": "switch the loop guard of this session on or off",
    "help.memory": "what is remembered (add --home: for every project)",
    "help.copy": "copy the last answer to the clipboard",
    "help.theme": "show or set the colours",
    "help.vim": "switch vim keys on or off",
    "help.redo": "do again what /undo took back",
    "help.clear": "the same as /new",
    "help.quit": "the same as /exit",
    "help.cost": "the same as /status",
    "help.init": "have AGENTS.md written: what an agent needs to know of this project",
    "help.review": "have the uncommitted changes reviewed, or WHAT you name",
    "help.rename": "give this session a name",
    "help.rewind": "take files and conversation back to before an earlier message (Esc Esc)",
}
