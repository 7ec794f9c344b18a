"""Texts of the page of `coder view` and of exported files, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "viewer.approval": "approval of {tool} {subject}: {answer} ({who})",
    "viewer.asked": "asked for approval: {tool} {subject}",
    "viewer.beside": "beside",
    "viewer.by_person": "by the person",
    "viewer.by_policy": "without asking: {why}",
    "viewer.by_setting": "by the settings, nobody was asked",
    "viewer.check": "check {command}: {state}",
    "viewer.check_refused": "not run, as it is not on the list of checks: {commands}",
    "viewer.compaction": "history summarised: {before} → {after} tokens",
    "viewer.denied": "denied",
    "viewer.end": "{status} · {n} steps · {tokens} tokens",
    "viewer.end.one": "{status} · 1 step · {tokens} tokens",
    "viewer.failed": "failed",
    "viewer.image": "image {name} ({width}×{height})",
    "viewer.job": "job {job} {state}: {command}",
    "viewer.loop": "loop detected",
    "viewer.more": "{n} more characters",
    "viewer.note": "note to the model ({reason})",
    "viewer.output": "output, {n} lines",
    "viewer.page.choose": "Choose a session, or search with /.",
    "viewer.page.close": "close",
    "viewer.page.everywhere": "all projects",
    "viewer.page.failed": "The server gave no answer; is coder view still running?",
    "viewer.page.file": "its changes, one after the other",
    "viewer.page.files": "Files changed",
    "viewer.page.filter": "filter",
    "viewer.page.follow": "follow",
    "viewer.page.gone": "There is no such session any more.",
    "viewer.page.help": "Keys",
    "viewer.page.keys": (
        "/      search; ↓ ↑ through the list, Enter opens\n"
        "j k    next, previous turn\n"
        "[ ]    replay one event back, forward\n"
        "t      thinking: open or fold all\n"
        "l      follow a running session\n"
        "m      list of sessions\n"
        "d      dark or light\n"
        "x      close the last pane\n"
        "?      this"
    ),
    "viewer.page.no_token": "This address needs the token that coder view printed; open that address again.",
    "viewer.page.nothing": "No session found.",
    "viewer.page.replay": "replay",
    "viewer.page.rewound": "rewound",
    "viewer.page.search": "search all that was said, run and printed",
    "viewer.page.sessions": "Sessions",
    "viewer.page.theme": "dark or light",
    "viewer.page.turns": "Turns",
    "viewer.plot": "tokens and cost of each turn",
    "viewer.plot.cached": "sent, from the cache",
    "viewer.plot.completion": "received",
    "viewer.plot.cost": "cost",
    "viewer.plot.highest": "highest: {tokens} tokens",
    "viewer.plot.joined": "{n} turns a bar",
    "viewer.plot.prompt": "sent anew",
    "viewer.plot.turn": "turn {turn}: sent {prompt}, of these cached {cached}; received {completion}",
    "viewer.port_taken": "Port {port} cannot be used: {why}. Choose another with --port, or none.",
    "viewer.redo": "redid the file changes of turn {turn}: {paths}",
    "viewer.routing": "model: {model}",
    "viewer.serving": (
        "Sessions are at {url}\n"
        "The address holds a secret token; whoever has it can read your sessions. Ctrl+C ends."
    ),
    "viewer.session": "session {id} · {when} · {model} · {cwd}",
    "viewer.session_end": "session left · {when}",
    "viewer.summary": "{n} turns · tokens sent {prompt}, of these cached {cached}, received {completion}",
    "viewer.summary.one": "1 turn · tokens sent {prompt}, of these cached {cached}, received {completion}",
    "viewer.thinking": "Thinking",
    "viewer.turn": "Turn {n}",
    "viewer.turns": "{n} turns",
    "viewer.turns.one": "1 turn",
    "viewer.rewind": "took the conversation back to before turn {turn}",
    "viewer.rewind_back": "took that rewind back",
    "viewer.undo": "undid the file changes of turn {turn}: {paths}",
    "viewer.review_redo": "did the parts again that were taken back last",
    "viewer.review_undo": "took back parts of the changes: {hunks}",
    "viewer.word.always": "always",
    "viewer.word.auto": "yes",
    "viewer.word.cancelled": "stopped",
    "viewer.word.ended": "ended",
    "viewer.word.error": "failed",
    "viewer.word.failed": "failed",
    "viewer.word.gave_up": "no result",
    "viewer.word.max_steps": "step limit reached",
    "viewer.word.no": "no",
    "viewer.word.ok": "done",
    "viewer.word.passed": "passed",
    "viewer.word.prompt_limit": "prompt limit reached",
    "viewer.word.skipped": "skipped",
    "viewer.word.yes": "yes",
}
