"""Approvals as permission requests; where the client has forms, a change of files can be taken hunk by hunk.

The protocol's options are about the whole; one of ours is to choose, and leads to a form
(`elicitation/create`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from coder.base.text import one_line
from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.tools.text.hunks import REVIEW, Hunk, Review
from coder.ui.acp.acp_tools import Update, own_name
from coder.ui.acp.params import FormAnswer, FormFields, PermissionAnswer
from coder.ui.stdio import Editor

_ANSWERS: dict[str, Literal["yes", "no", "always"]] = {"allow": "yes", "always": "always", "reject": "no"}
_SOME = "some"
_MOST_HUNKS = 50  # in a form
_LONGEST_TITLE = 120
_LONGEST_REASON = 2_000


async def ask_permission(
    peer: Editor, session_id: str, event: ApprovalRequested, call: Update, texts: Catalog
) -> ApprovalReply | None:
    """The person's answer; None where the turn is to be cancelled. Raises what the peer raises."""
    review = Review(str(event.subject)) if peer.has_forms and _by_hunk(event) else None
    if review is not None and not 1 < len(review.hunks) <= _MOST_HUNKS:
        review = None
    options = _options(event, texts, by_hunk=review is not None)
    request = {"sessionId": session_id, "toolCall": call, "options": options}
    raw = await peer.ask("session/request_permission", request, session_id)
    outcome = msgspec.json.decode(raw, type=PermissionAnswer).outcome
    if outcome.outcome != "selected":
        return None
    if outcome.option_id not in [option["optionId"] for option in options]:
        return ApprovalReply(event.approval_id, "no")
    if outcome.option_id == _SOME and review is not None:
        return await _chosen(peer, session_id, event, str(call["toolCallId"]), review, texts)
    return ApprovalReply(event.approval_id, _ANSWERS[outcome.option_id])


def _by_hunk(event: ApprovalRequested) -> bool:
    known = event.tool == REVIEW or built_in(own_name(event.tool)).edits_files()
    return event.subject_kind == "diff" and known


def _options(event: ApprovalRequested, texts: Catalog, *, by_hunk: bool) -> list[dict[str, str]]:
    about = "call" if event.call_id else "review" if event.tool == REVIEW else "turn"
    say: Callable[[str], str] = texts.say
    found = [{"optionId": "allow", "name": say(f"acp.{about}.allow"), "kind": "allow_once"}]
    if by_hunk:
        found.append({"optionId": _SOME, "name": say("acp.call.some"), "kind": "allow_once"})
    if event.can_always:
        names = ", ".join(visible(name).text for name in event.always_names)
        always = texts.say("acp.call.always_names", names=names) if names else say(f"acp.{about}.always")
        found.append({"optionId": "always", "name": always, "kind": "allow_always"})
    return [*found, {"optionId": "reject", "name": say(f"acp.{about}.reject"), "kind": "reject_once"}]


async def _chosen(
    peer: Editor, session_id: str, event: ApprovalRequested, call_id: str, review: Review, texts: Catalog
) -> ApprovalReply | None:
    """What the form says. A form that is declined is a refusal of the whole."""
    named = [{"const": str(n), "title": _title(hunk)} for n, hunk in enumerate(review.hunks, 1)]
    every = [one["const"] for one in named]
    hunks = {"type": "array", "title": texts.say("acp.form.hunks"), "items": {"anyOf": named}}
    properties = {
        "hunks": {**hunks, "default": every},
        "reason": {"type": "string", "title": texts.say("acp.form.reason")},
    }
    request: dict[str, Any] = {
        "sessionId": session_id,
        "toolCallId": call_id,
        "mode": "form",
        "message": texts.say("acp.form.message"),
        "requestedSchema": {"type": "object", "properties": properties, "required": ["hunks"]},
    }
    raw = await peer.ask("elicitation/create", request, session_id)
    answer = msgspec.json.decode(raw, type=FormAnswer)
    if answer.action == "decline" and event.tool != REVIEW:
        return ApprovalReply(event.approval_id, "no")
    if answer.action != "accept":
        return None
    fields = answer.content or FormFields()
    reason = (fields.reason or "")[:_LONGEST_REASON].strip()
    for number in every:
        if number in fields.hunks:
            review.take()
        else:
            review.leave(reason)
    return review.reply(event)


def _title(hunk: Hunk) -> str:
    """Its place, its size, and the first line that changes."""
    changed = [line for line in hunk.body if line[:1] in ("+", "-")]
    added = sum(line.startswith("+") for line in changed)
    counts = f"+{added} -{len(changed) - added}"
    shown = visible(f"{hunk.path} {hunk.head.partition(' @@')[0]} @@ {counts}: {' '.join(changed[:1])}").text
    return one_line(shown, _LONGEST_TITLE)
