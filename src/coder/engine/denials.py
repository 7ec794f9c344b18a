"""What works instead of a denied call. Each way that is named is one that this session allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from coder.engine.approval import ruling_of, verdict_on
from coder.engine.session import Session
from coder.policy.decide import decide
from coder.policy.programs.dangers import base_name
from coder.policy.scratch import temporary_directory
from coder.policy.shell.verdict import Segment
from coder.texts import one_line
from coder.tools.base import Tool

_PROPOSE = "Do the rest without it, and propose it to the person in your answer."
_LONGEST = 300  # characters of a line that is suggested
# Tools that make the change of a shell command, and how.
_EDIT = ("edit", "edit makes this change (replace_all: everywhere in a file)")
_PATCH = ("patch", "patch moves and deletes files")
_WRITE = ("write", "write makes files, with the folders above them")
_INSTEAD = {
    "sed": _EDIT,
    "gsed": _EDIT,
    "perl": _EDIT,
    "mv": _PATCH,
    "rm": _PATCH,
    "git mv": _PATCH,
    "git rm": _PATCH,
    "tee": _WRITE,
    "touch": _WRITE,
    "mkdir": _WRITE,
    "cp": _WRITE,
}
_WRITING = ("policy.why.writes", "policy.why.overwrites")


def advice(session: Session, tool: Tool, args: Mapping[str, Any]) -> str:
    """The way that works, as far as one is known, and what to do without one."""
    ways = _ways(session, tool, args) if tool.kind == "runs" and session.agent.mode != "yolo" else ()
    return " ".join([*dict.fromkeys(ways), _PROPOSE])


def _ways(session: Session, tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    line = tool.command(args)
    verdict = verdict_on(session, line)
    acting = [segment for segment in verdict.segments if not segment.read_only]
    for segment in acting:
        name, told = _tool_for(segment)
        if name and not verdict.outside and _allows(session, name):
            yield f"Here {told} without approval."
        if segment.check is not None and segment.check.doubt is not None:
            yield from _known_words(session, tool, line, segment.check.doubt.values.get("word"))
    if any(temporary_directory(write.path) for write in verdict.outside):
        yield f"The scratch folder for temporary files is {session.agent.place.workspace.scratch} ($TMPDIR)."


def _tool_for(segment: Segment) -> tuple[str, str]:
    """The tool that makes the change of a command, and what it does."""
    if segment.rule.key in _WRITING:
        return _WRITE
    first, *rest = segment.command.split() or [""]
    name = base_name(first)
    if name in ("sed", "gsed", "perl") and not any(re.match(r"-\w*i|--in-place", word) for word in rest):
        return "", ""
    return _INSTEAD.get(name) or _INSTEAD.get(" ".join([name, *rest[:1]]), ("", ""))


def _allows(session: Session, name: str) -> bool:
    agent = session.agent
    ruling = decide(name, agent.preset, agent.mode, overrides=agent.config.permission.tools)
    return name in agent.tools and ruling.decision == "allow"


def _known_words(session: Session, tool: Tool, line: str, word: object) -> Iterator[str]:
    """The check without the word that is not known, if it then runs unasked."""
    for pattern in (rf" {re.escape(str(word))}(?!\S)", rf" -\S+ {re.escape(str(word))}(?!\S)"):
        shorter = re.sub(pattern, "", line, count=1)
        if shorter != line and len(shorter) <= _LONGEST:
            ruling = ruling_of(session, tool, {"command": shorter})
            if ruling.decision == "allow" and ruling.check:
                yield f"`{one_line(shorter, _LONGEST)}` runs unasked."
                return
