"""Applies what the person took of a proposed change, as a patch, instead of the call."""

from __future__ import annotations

from msgspec.structs import replace

from coder.engine.session import Session
from coder.protocol.ops import ApprovalReply
from coder.tools.base import Preview, Tool, ToolResult, failed
from coder.tools.patch import Patch

_MOST_SHOWN = 8000  # characters of the applied diff that the model is shown


async def apply_amended(session: Session, tool: Tool, preview: Preview, reply: ApprovalReply) -> ToolResult:
    """Only files of the original change may be touched. The plan mode may have come while the person
    decided: then nothing is applied."""
    patch = {"patch": reply.amended}
    if preview.kind != "diff" or not tool.edits_files():
        return failed("the person answered with an amended diff, but this call changes no files by a diff")
    if session.agent.mode == "plan":
        return failed("nothing was applied: plan mode is on and changes no files")
    if strange := sorted(set(Patch.paths(patch)) - set(Patch.paths({"patch": preview.subject}))):
        return failed(f"nothing was applied: the amended diff names other files: {', '.join(strange)}")
    result = await Patch().run(patch, session.context, lambda _text: None)
    applied = reply.amended[:_MOST_SHOWN] + ("\n…" if len(reply.amended) > _MOST_SHOWN else "")
    told = (
        f"The person took only a part of this change.\n{reply.reason}\nApplied instead:\n{applied}"
        if result.ok
        else f"The person took only a part of this change, and it could not be applied.\n{reply.reason}"
    )
    return replace(result, for_model=f"{result.for_model}\n\n{told}")
