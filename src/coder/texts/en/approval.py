"""What a question says, and what stands around it, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "approval.about_a": "a never asks about it again in this project",
    "approval.about_between": "; ",
    "approval.about_d": "d shows the change in the pager",
    "approval.about_e": "e makes all edits of this session without asking",
    "approval.about_esc": "Esc stops the turn.",
    "approval.about_h": "h goes through the parts of the change",
    "approval.about_hunks": (
        "Only the parts that you take are applied; the model hears what was left and why. Esc stops the turn."
    ),
    "approval.about_n": "n refuses, and what you type then is told to the model",
    "approval.about_review": (
        "What you take back can be done again with /redo; the model hears of it. Esc leaves all as it is."
    ),
    "approval.about_y": "y does it this once",
    "approval.ask": "Allow? ",
    "approval.because": "No, because … ",
    "approval.change.binary": "binary",
    "approval.change.created": "create {path} ({size})",
    "approval.change.deleted": "delete {path} ({size})",
    "approval.change.mode": "{change}, mode {mode}",
    "approval.change.moved": "move {source} to {path} ({size})",
    "approval.change.updated": "update {path} ({size})",
    "approval.changed_since": "It changed after you were asked, and is shown as it is now: {paths}",
    "approval.choices": "Allow? [y]es / [n]o (a reason may follow) / [a]lways: ",
    "approval.choices_narrow": "Allow? [y]es / [n]o / [a]lways: ",
    "approval.choices_once": "Allow? [y]es / [n]o (a reason may follow): ",
    "approval.choices_once_narrow": "Allow? [y]es / [n]o: ",
    "approval.head": "{tool} needs your approval:",
    "approval.hidden": "{n} characters in it cannot be seen: they stand there by their code, as ⟨U+200B⟩.",
    "approval.hidden.one": "1 character in it cannot be seen: it stands there by its code, as ⟨U+200B⟩.",
    "approval.host": "sandbox.network.allow does not list this host; a running command wants it: {command}",
    "approval.hunk": "Part {n} of {all}: {path}",
    "approval.hunk_ask": "Part {n} of {all}? ",
    "approval.hunk_back": "back",
    "approval.hunk_dropped": "→ back to the whole: nothing is decided",
    "approval.hunk_edit": "edit",
    "approval.hunk_leave": "leave, because …",
    "approval.hunk_objection": "That is no answer: the keys below decide.",
    "approval.hunk_take": "take",
    "approval.hunk_take_rest": "take the rest",
    "approval.hunk_unedited": "→ not edited: nothing is decided",
    "approval.hunk_unreadable": "That is no change any more: its lines begin with a blank, + or -.",
    "approval.hunks_done": "→ {taken} of {n} parts taken",
    "approval.key_always": "always {names} in this project",
    "approval.key_always_turn": "always",
    "approval.key_diff": "whole diff",
    "approval.key_edits": "all edits this session",
    "approval.key_hunks": "by hunk",
    "approval.key_no": "no, because …",
    "approval.key_no_plain": "no",
    "approval.key_yes": "yes",
    "approval.long_line": "Its longest line has {n} characters.",
    "approval.nobody": (
        "{tool} was refused because it needs approval and nobody is there to ask; {flag} would allow it."
    ),
    "approval.nobody_short": "needs approval",
    "approval.not_an_answer": "That is no answer: y allows it, n refuses it (a reason may follow).",
    "approval.not_an_answer_always": (
        "That is no answer: y allows it, n refuses it (a reason may follow), a allows it from now on."
    ),
    "approval.not_an_answer_turn": "That is no answer: y is yes, n is no, Esc stops.",
    "approval.one_part_seen": (
        "↑ {tool}: a line of {n} characters, longer than the screen; scroll up to read all of it"
    ),
    "approval.part_seen": (
        "↑ {tool}: the last {shown} of {n} lines are on the screen; scroll up to read the rest"
    ),
    "approval.reason": "because: {reason}",
    "approval.reason_keys": "Enter alone: no reason · Backspace: back to the question",
    "approval.refused": "refused by you",
    "approval.remembers": "always: lets {names} run unasked in this project from now on",
    "approval.rest_of_file": "… {n} more lines: d shows the whole file",
    "approval.rest_of_file.one": "… 1 more line: d shows the whole file",
    "approval.runs": "Long runs of blanks and empty lines are counted: ␠ spaces, ⇥ tabs, ⏎ lines.",
    "approval.said_because": "{said}: {reason}",
    "approval.said_keep": "→ kept",
    "approval.said_leave": "→ left",
    "approval.said_take": "→ taken",
    "approval.said_take_edited": "→ taken as edited",
    "approval.said_split": "→ split into {n} parts",
    "approval.said_take_back": "→ taken back",
    "approval.setting": "the setting approval.auto_approve_ask",
    "approval.typed_kept": "{objection} n keeps what you typed as its reason.",
    "approval.hunk_guide": (
        "Lines that begin with + are added, with - removed; the others must stay.\n"
        "Save and close: this part is taken as it is here. Unchanged: nothing is decided."
    ),
    "approval.hunk_keep": "keep",
    "approval.hunk_rest": "done, keep the rest",
    "approval.hunk_split": "split",
    "approval.hunk_take_back": "take back, because …",
    "approval.hunks_kept": "→ {taken} of {n} parts kept",
}
