"""Where a conversation may be cut, and how the older part is put to the model for a summary.

Pure functions: the engine asks the model and records the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from coder.protocol.messages import Message

# A summary request must itself fit: the transcript's items are cut to this many characters each.
_ITEM = 2_000

INSTRUCTION = """\
Summarise the conversation below for the agent that will continue it and will not see it. Use exactly these \
headings, leave none out, and write "none" where there is nothing:

## Goal
## Done so far
## Files read and changed
## Commands run and their outcome
## Approaches that failed
## Decisions by the person
## Next steps

Keep names, paths, numbers and error messages exact. No preamble."""

SUMMARY_HEAD = "Summary of the conversation so far (older messages were compacted):\n\n"


def cut_point(messages: Sequence[Message], sizes: Sequence[int], keep: float) -> int:
    """The index from which messages are kept: the newest `keep` of the total size, never splitting a tool
    call from its answer and never keeping the system message. 0 where there is nothing to compact."""
    first = 1 if messages and messages[0].role == "system" else 0
    total = sum(sizes[first:])
    kept, at = 0, len(messages)
    while at > first and kept + sizes[at - 1] <= total * keep:
        at -= 1
        kept += sizes[at]
    while at < len(messages) and messages[at].role == "tool":
        at += 1  # its assistant message stands before the cut, so it goes with it
    return at if at > first + 1 else 0


def transcript(messages: Sequence[Message]) -> str:
    """The older part as plain text: a request made of it has no tool calls that could be orphaned."""
    lines = []
    for message in messages:
        if message.role == "system":
            continue
        name = f"tool {message.name}" if message.role == "tool" else message.role
        if message.content:
            lines.append(f"[{name}]\n{_shortened(message.content)}")
        lines += [
            f"[{message.role} calls {call.name}]\n{_shortened(call.function.arguments)}"
            for call in message.tool_calls
        ]
    return "\n\n".join(lines)


def _shortened(text: str) -> str:
    if len(text) <= _ITEM:
        return text
    half = _ITEM // 2
    return f"{text[:half]}\n[… {len(text) - _ITEM} characters left out …]\n{text[-half:]}"
