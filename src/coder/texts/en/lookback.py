"""What searching, viewing and counting the records says, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "lookback.all_alone": '--all belongs to --search: coder sessions --search "words" --all',
    "lookback.busy": "Another coder process is writing the index of sessions; try again in a moment.",
    "lookback.help.all": "search the sessions of every project, not of this folder alone",
    "lookback.help.search": "only sessions in which all of these words occur",
    "lookback.hit": "turn {turn}, {who}:",
    "lookback.indexing": "reading {n} sessions for the index …",
    "lookback.kind.answer": "answer",
    "lookback.kind.call": "call",
    "lookback.kind.output": "output",
    "lookback.kind.person": "you",
    "lookback.kind.thinking": "thinking",
    "lookback.no_words": 'Give words to search for: coder sessions --search "words"',
    "lookback.nothing": "No session has all of: {words}",
    "lookback.unusable": "The index of sessions cannot be used: {why}.",
}
