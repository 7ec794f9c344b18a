"""Where to cut a conversation, and how to present the older part to the model for a summary.

Pure functions: the engine asks the model and records the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coder.base.process.output import both_ends
from coder.protocol.messages import INSTRUCTIONS, Message, head_length

# A summary request must itself fit: items of the transcript are cut to this many characters, an earlier
# summary to more, since it replaces all before it.
_ITEM = 2_000
_EARLIER_SUMMARY = 12_000
# The current request follows the summary in full up to this size.
_REQUEST = 6_000
# Old outputs longer than this are moved to a file.
_LONG_OUTPUT = 2_400
_KEPT_OF_IT = 600

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
NO_SUMMARY = "(no summary could be made; what follows was kept by the engine itself)"
# Parts of a summary message written by the engine, in order.
_OWN = ("memory", "request", "action_log", "note")
_LEFT_OUT = "\n\n[… middle left out …]\n\n"


def cut_point(messages: Sequence[Message], sizes: Sequence[int], room: float, protected: int = 0) -> int:
    """The index from which messages are kept: the newest in `room` tokens and the newest `protected` ones,
    without splitting a call from its result. 0 if there is nothing to compact."""
    first = head_length(messages)
    last = max(first, len(messages) - protected)
    kept, at = sum(sizes[last:]), last
    while at > first and kept + sizes[at - 1] <= room:
        at -= 1
        kept += sizes[at]
    while at < last and messages[at].role == "tool":
        at += 1  # its assistant message is before the cut
    # A lone summary cannot be compacted further.
    only_summary = at == first + 1 and messages[first].content.startswith(SUMMARY_HEAD)
    return at if at > first and not only_summary else 0


def protected(messages: Sequence[Message], sizes: Sequence[int], unanswered: int, room: float) -> int:
    """Number of trailing messages to keep: those without a response, or the newest if they exceed `room`."""
    start = max(head_length(messages), len(messages) - unanswered)
    tail = messages[start:]
    if not tail or tail[0].role == "assistant" or sum(sizes[start:]) <= room:
        return len(tail)
    newest = max((at for at, message in enumerate(tail) if message.role == "user"), default=0)
    return len(tail) - newest


def earlier_summary(messages: Sequence[Message]) -> str:
    """The summary of the previous compaction; "" where this is the first."""
    for message in messages:
        if message.content.startswith(SUMMARY_HEAD):
            return _up_to(message.content.removeprefix(SUMMARY_HEAD), _OWN)
    return ""


def _up_to(text: str, tags: Sequence[str]) -> str:
    """The text before these parts, which each compaction adds again."""
    for tag in tags:
        text = text.partition(f"\n\n<{tag}>\n")[0]
    return text[:_EARLIER_SUMMARY]


def escaped_tags(text: str) -> str:
    """Escape the tags of the engine's own parts in text from elsewhere."""
    for tag in _OWN:
        text = text.replace(f"<{tag}>", f"&lt;{tag}>").replace(f"</{tag}>", f"&lt;/{tag}>")
    return text


def with_request(
    summary: str, said: Sequence[str], kept: Sequence[Message], keep_whole: Callable[[str], str]
) -> str:
    """Add the current request and later messages, unless kept. `keep_whole` moves a long one to a file."""
    held = [message.content for message in kept if message.role == "user"]
    request, *more = (
        "" if any(content.startswith(text) for content in held) else _bounded(text, keep_whole)
        for text in said
    )
    parts = [f"The person's request, which is being worked on:\n{request}"] if request else []
    if later := [text for text in more if text]:
        parts += ["Said by the person since, while it was worked on:", *later]
    return with_part(summary, "request", "\n\n".join(parts))


def _bounded(text: str, keep_whole: Callable[[str], str]) -> str:
    if len(text) <= _REQUEST:
        return text
    head, tail = text[: 2 * _REQUEST // 3], text[-_REQUEST // 3 :]
    return f"{head}\n[… {len(text) - _REQUEST} characters left out{keep_whole(text)} …]\n{tail}"


def with_part(summary: str, tag: str, text: str) -> str:
    """The summary with a part of the engine's, unless empty."""
    return f"{summary}\n\n<{tag}>\n{escaped_tags(text)}\n</{tag}>" if text else summary


def shortened_outputs(messages: Sequence[Message], file_of: Callable[[int], str]) -> list[tuple[int, str]]:
    """Long tool outputs, by index, shortened to head, tail and a reference to the file."""
    found = []
    for index, message in enumerate(messages):
        if message.role != "tool" or len(message.content) <= _LONG_OUTPUT:
            continue
        head, tail = both_ends(message.content, _KEPT_OF_IT)
        left_out = len(message.content) - len(head) - len(tail)
        note = f"[… {left_out} characters left out; the result as you saw it is in {file_of(index)} …]"
        found.append((index, f"{head}\n{note}\n{tail}"))
    return found


def transcript(messages: Sequence[Message], limit: int, count: Callable[[str], int]) -> str:
    """The older part as text of at most `limit` tokens; the middle is dropped to fit."""
    whole = text = _lines(messages)
    while (size := count(text)) > limit and len(text) > 100:
        room = max(3, int(len(text) * min(0.9, limit / size)) - len(_LEFT_OUT))
        text = whole[: room // 3] + _LEFT_OUT + whole[-(2 * room // 3) :]
    return text


def _lines(messages: Sequence[Message]) -> str:
    lines = []
    for message in messages:
        if message.role == "system" or message.content.startswith(INSTRUCTIONS):
            continue
        name = f"tool {message.name}" if message.role == "tool" else message.role
        if message.content.startswith(SUMMARY_HEAD):
            lines.append(_up_to(message.content, ("action_log", "note")))
        elif message.content:
            lines.append(f"[{name}]\n{_shortened(message.content)}")
        lines += [
            f"[{message.role} calls {call.name}]\n{_shortened(call.function.arguments)}"
            for call in message.tool_calls
        ]
    return "\n\n".join(lines)


def _shortened(text: str) -> str:
    if len(text) <= _ITEM:
        return text
    head, tail = both_ends(text, _ITEM // 2)
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"
