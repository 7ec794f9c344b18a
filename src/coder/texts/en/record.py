"""English texts about the record: where it cannot be kept, and whose it is."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "record.full": "the disk is full",
    "record.in_use": (
        "Session {id} is open in another process: leave it there first. If Ctrl+Z stopped it in this "
        "terminal, `fg` brings it back."
    ),
    "record.leads_out": (
        "The session's record is not written: {directory} leads out of this folder by a link, to {real}. "
        "Remove the link, or name a folder with --log-dir."
    ),
    "record.no_folder": (
        "Cannot record the session in {directory}: {why}. Choose another folder with --log-dir."
    ),
    "record.no_history": "The history {path} cannot be written: {why}.",
    "record.not_written": (
        "The session's record {path} cannot be written: {why}. What was recorded before is safe."
    ),
    # whose a record is
    "record.accepted": "Session {id} ({title}) counts as yours from now on.",
    "record.foreign": (
        "The newest session, {id}, was not recorded by you with this coder home: it may have come with the "
        "project. If you mean it, name it with --resume {id}; if it is yours: coder trust --session {id}"
    ),
    "record.foreign_about": (
        "Session {id} ({title}) was not recorded by you with this coder home: it may have come with the "
        "project, or be older than the seal that tells."
    ),
    "record.foreign_ask": "Believe what it says, and go on with it?",
    "record.foreign_prompt": "Believe what it says, and go on with it? [y/N] ",
    "record.left_alone": "Session {id} is left as it is.",
    "record.no_key": "The key that seals your records cannot be kept in {directory}: {why}.",
    "record.words_only": (
        "Session {id} was not recorded by you with this coder home: what was said in it is taken up, its "
        "system message and what it was waiting for are not. If it is yours: coder trust --session {id}"
    ),
    "record.yours_already": "Session {id} is yours already.",
    "record.review_conflict": (
        "Nothing was taken back, because these files have changed since in the same places:\n{files}"
    ),
    "record.review_kept": "All parts are kept.",
    "record.review_needs_person": (
        "Nothing was changed: keeping or taking back parts needs a terminal where a person can be asked."
    ),
    "record.review_question": (
        "These changes are made already: yes keeps them, no takes all of them back (/redo does them again)."
    ),
    "record.review_redo": "Did the parts that were taken back again:",
    "record.sink_failed": (
        "The history sink {sink} failed ({why}) and may lack events; the record itself is complete."
    ),
    "record.review_undo": "Took back these parts; /redo does them again:",
}
