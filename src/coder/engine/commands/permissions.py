"""`/permissions`: what each tool comes to, what runs without asking and who said so, and taking that back.

/permissions                  the matrix and the allowed commands
/permissions PRESET           another preset
/permissions revoke NAME      ask about this command again (`all`: about every one)
"""

from __future__ import annotations

from coder.config.errors import ConfigError
from coder.engine.agent import Desk
from coder.engine.commands.modes import Reply
from coder.policy.decide import PRESETS, matrix

_ALL = "all"


async def permissions_command(desk: Desk, args: str) -> Reply:
    word, _, name = args.partition(" ")
    if word == "revoke":
        exact = name.strip()  # a script's name may have more than one blank in it
        return _revoke(desk, exact if exact in desk.allowed.names() else " ".join(name.split()))
    if args:
        preset = next((p for p in PRESETS if p == args), None)
        if preset is None:
            return Reply(desk.say("permissions.unknown", name=args, names=", ".join(PRESETS)), ok=False)
        desk.preset = preset
        desk.session.record_state()
    return Reply("\n".join([*_matrix(desk), *_allowed(desk)]), data={"allowed": _origins(desk)})


def _matrix(desk: Desk) -> list[str]:
    rows = matrix(desk.preset, desk.mode, desk.config.permission.tools)
    width = max(len(name) for name, _ in rows)
    head = desk.say("permissions.head", preset=desk.preset, mode=desk.mode)
    return [head, *(f"  {name.ljust(width)}  {decision}" for name, decision in rows)]


def _origins(desk: Desk) -> dict[str, str]:
    """Each command that needs no question, and who said so: a file of settings, or `always`."""
    by_person = dict.fromkeys(desk.allowed.names(), "always")
    configured = dict.fromkeys(desk.config.permission.command_allowlist, desk.allowlist_file or "config")
    return {**by_person, **configured}


def _allowed(desk: Desk) -> list[str]:
    origins = _origins(desk)
    lines = []
    if origins:
        width = max(map(len, origins))
        lines = [desk.say("permissions.allowed_head")]
        lines += [f"  {name.ljust(width)}  {_origin(desk, origin)}" for name, origin in origins.items()]
        if "always" in origins.values():
            lines.append(desk.say("permissions.revoke_hint"))
    if desk.allowed.problem is not None:
        lines.append(desk.allowed.problem.text(desk.texts))
    return lines


def _origin(desk: Desk, origin: str) -> str:
    if origin == "always":
        return desk.say("permissions.by_always")
    return desk.say("permissions.by_file", file=origin)


def _revoke(desk: Desk, name: str) -> Reply:
    known = [n for n, origin in _origins(desk).items() if origin == "always"]
    if not known and name in ("", _ALL):
        return Reply(desk.say("permissions.none_allowed"), ok=bool(name))
    if not name:
        names = ", ".join([*known, _ALL])
        return Reply(desk.say("permissions.revoke_usage", names=names), ok=False, data={"usage": True})
    wanted = list(desk.allowed.names()) if name == _ALL else [name]
    try:
        gone = [one for one in wanted if desk.allowed.revoke(one)]
    except ConfigError as error:
        return Reply(error.text(desk.texts), ok=False)
    if gone:
        desk.session.log.append("state", meta={"revoked": gone})
        lines = [desk.say("permissions.revoked", names=", ".join(gone))]
    else:
        lines = [desk.say("permissions.not_allowed", name=name, names=", ".join(known) or "-")]
    if name in desk.config.permission.command_allowlist:
        lines = lines if gone else []
        lines.append(desk.say("permissions.configured", name=name, file=desk.allowlist_file or "config"))
    return Reply("\n".join(lines), ok=bool(gone) or name == _ALL)
