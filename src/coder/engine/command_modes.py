"""`/name` of a custom mode, and `/modes`."""

from __future__ import annotations

import msgspec

from coder.engine.desk import Desk
from coder.engine.modes import error_texts, keeper_of, set_modes
from coder.protocol.modes import SetModeState, TriggerInstantMode


class Reply(msgspec.Struct, frozen=True):
    """What a command answers: text for the person, fields for programs."""

    text: str
    ok: bool = True
    data: dict[str, object] = {}


async def custom_mode(desk: Desk, line: str) -> Reply | TriggerInstantMode | None:
    """What `/name args` comes to; None where no custom mode has that name."""
    keeper = keeper_of(desk.session)
    await keeper.catalogue.prepare()
    invocation = keeper.from_line(line)
    if invocation.definition is None:
        return None
    if invocation.op is None:
        return Reply("\n".join(error_texts(invocation.errors)), ok=False)
    if isinstance(invocation.op, TriggerInstantMode):
        return invocation.op
    changed = await set_modes(desk.session, invocation.op)
    if changed.errors:
        return Reply("\n".join(error_texts(changed.errors)), ok=False)
    name = invocation.definition.mode_id
    lines = [desk.say("modes.on", mode=name)]
    data: dict[str, object] = {"mode_id": name}
    if invocation.leftover:  # never sent by itself: whoever typed it may want it as a message
        lines.append(desk.say("modes.leftover", text=invocation.leftover))
        data["leftover"] = invocation.leftover
    return Reply("\n".join(lines), data=data)


async def modes_command(desk: Desk, args: str) -> Reply:
    """`/modes` lists them, `/modes off NAME` takes one out."""
    keeper = keeper_of(desk.session)
    await keeper.catalogue.prepare()
    word, _, name = args.partition(" ")
    if word == "off" and name.strip():
        found = keeper.catalogue.find(name.strip())
        if found is None or not keeper.is_on(found.definition.mode_id):
            return Reply(desk.say("modes.not_on", mode=name.strip()), ok=False)
        mode_id = found.definition.mode_id
        await set_modes(desk.session, SetModeState(keeper.target_without(mode_id)))
        return Reply(desk.say("modes.off", mode=mode_id))
    if args:
        return Reply(desk.say("modes.usage"), ok=False, data={"usage": True})
    return Reply("\n".join([desk.say("mode.current", mode=desk.mode, names=_OPERATING), *_listed(desk)]))


_OPERATING = "plan, default, auto-edit, yolo"


def _listed(desk: Desk) -> list[str]:
    keeper = keeper_of(desk.session)
    lines = []
    for definition in keeper.catalogue.definitions:
        mark = "●" if keeper.is_on(definition.mode_id) else "○"
        state = definition.error.message if definition.error else definition.description
        if definition.shadowed_by:
            state = desk.say("modes.state_shadowed", scope=definition.shadowed_by)
        name = definition.command or definition.mode_id
        lines.append(f"{mark} {name}  {definition.scope.label}  {definition.kind}  {state}".rstrip())
    return lines or [desk.say("modes.none_here")]
