"""`/init` and `/review`: commands that are a message of ours to the model. Custom modes of these names run
instead."""

from __future__ import annotations

import msgspec

from coder.protocol.entries import InstantMode

_REVIEW = """\
Review {what}.

Look at the changes with git (status, diff, log) and read the code around each of them before you judge it.
Report what is wrong, worst first: defects, cases that were forgotten, security, data loss, tests that are
missing or cannot fail, names that mislead. For each: file and line, what goes wrong and when, and what would
mend it. No praise, no summary of the change, nothing that a formatter would do. If you find nothing, say
so, and what you looked at. Change no file."""
_UNCOMMITTED = (
    "the uncommitted changes in this repository (staged, unstaged and untracked; if there are none, the last "
    "commit)"
)
_INIT = """\
Write AGENTS.md in the workspace's root: what an agent that knows nothing of this project needs to work in
it. If there is one, keep what is right and mend the rest.

Look first: README, build and CI files, tests, the layout. Then at most 60 lines: what the project is, in
two sentences; the commands to build, check and test it, and to run one test alone; where things are; rules
that cannot be seen in a single file. Only what you have seen in the project, no general advice."""


class Prompt(msgspec.Struct, frozen=True):
    """A typed line that stands for a message: the message, what the person said of it, and where it came
    from (also a prompt of an MCP server)."""

    text: str
    said: str
    instant: InstantMode


def init_prompt(args: str) -> Prompt:
    text = f"{_INIT}\n\n{args}" if args else _INIT
    return Prompt(text, args, InstantMode(mode_id="/init"))


def review_prompt(args: str) -> Prompt:
    return Prompt(_REVIEW.format(what=args or _UNCOMMITTED), args, InstantMode(mode_id="/review"))
