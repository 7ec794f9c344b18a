"""The policy decision on one call: preset, operating mode, overrides, shell verdict, allowlist. Pure.

Order: the preset's cell (or its override) → the operating mode over it → risks and the allowlist for bash. A
deny beats everything but yolo mode on bash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from coder.config.schema import PRESETS, Decision, OperatingMode, Preset
from coder.policy.shell.verdict import PolicyDecision, ShellVerdict
from coder.texts import Text
from coder.tools.registry import built_in, built_in_tools
from coder.tools.tool import Kind

_STRICTEST: tuple[Decision, ...] = ("deny", "ask", "allow")
_LEAVE_PLAN = Text("policy.plan.leave")
_READ_ONLY = "runs, read-only"  # the row of a `runs` tool whose command is known to be read-only
_MEMORY = "edits, of no named file"  # the row of memory, which reaches other sessions and projects

# The presets, by kind of tool, in the order of `PRESETS`.
_ROWS: dict[str, tuple[Decision, Decision, Decision, Decision]] = {
    "looks": ("allow", "allow", "allow", "allow"),
    "edits": ("deny", "ask", "allow", "allow"),
    _MEMORY: ("deny", "ask", "ask", "allow"),
    _READ_ONLY: ("deny", "allow", "allow", "allow"),
    "runs": ("deny", "ask", "ask", "allow"),
    "reaches": ("deny", "ask", "ask", "allow"),
    "unknown": ("deny", "ask", "ask", "allow"),
}


def preset_table(preset: Preset, tool: str) -> Decision:
    """The preset's cell for a tool; a command counts as not read-only."""
    return _cell(_row(tool, built_in(tool).kind), preset)


def decide(
    tool: str,
    preset: Preset,
    mode: OperatingMode,
    *,
    overrides: Mapping[str, Decision] | None = None,
    shell: ShellVerdict | None = None,
    allowlist: Collection[str] = (),
    own_name: str = "",
    own_kind: Kind | None = None,
    explores: bool = False,
    verifying: bool = False,
    confined: bool = False,
) -> PolicyDecision:
    """The decision on this call, with every reason.

    `shell`: the verdict on a command's line. `own_name`: an MCP tool's name on its server; settings may use
    it or the one that the model sees. `own_kind`: declared by a tool of the embedding program; otherwise only
    built-in names have a known kind. `explores`: a read-only subagent, allowed if reading is. `verifying`:
    the line is a check that may run unasked. `confined`: plan mode can run any command in a sandbox."""
    known = built_in(tool)
    kind = known.kind if own_kind is None else own_kind
    names = [tool, own_name or tool]
    overridden = _override(names, overrides or {}, patterns=kind == "unknown")
    if kind == "runs":
        return _decide_command(tool, preset, mode, overridden, shell, allowlist, verifying, confined)
    readers = [name for name, other in built_in_tools().items() if other.kind == "looks" and other.touches]
    if explores and all((overrides or {}).get(reader, "allow") == "allow" for reader in readers):
        kind = "looks"
    row = _row(tool, kind)
    decision = overridden or _cell(row, preset)
    if decision == "deny":
        return _denied_by(tool, row, preset, mode, overridden)
    if tool == "skill" and decision == "ask":  # loading one never prompts
        return PolicyDecision("allow", [Text("policy.skill")])
    if mode == "plan" and kind in ("edits", "unknown"):  # subagents inherit plan mode
        return PolicyDecision("deny", [Text("policy.plan", what=tool)], hint=_LEAVE_PLAN)
    if decision == "ask" and known.edits_files() and mode in ("auto-edit", "yolo"):
        return PolicyDecision("allow", [Text("policy.lifted", mode=mode, tool=tool)])
    return PolicyDecision(decision, [_reason(tool, preset, mode, decision, overridden)])


def matrix(
    preset: Preset,
    mode: OperatingMode,
    overrides: Mapping[str, Decision] | None = None,
    *,
    confined: bool = False,
) -> list[tuple[str, Decision]]:
    """The decision for each tool, for display."""

    def row(tool: str, shell: ShellVerdict | None = None) -> Decision:
        return decide(tool, preset, mode, overrides=overrides, shell=shell, confined=confined).decision

    looking, doing = (ShellVerdict([], read_only=read_only, risks=[]) for read_only in (True, False))
    rows: list[tuple[str, Decision]] = []
    for name, tool in sorted(built_in_tools().items(), key=lambda item: list(_ROWS).index(item[1].kind)):
        if tool.kind == "runs":
            rows += [(f"{name}, read-only", row(name, looking)), (f"{name}, otherwise", row(name, doing))]
        else:
            rows.append((name, row(name)))
    explores = decide("task", preset, mode, overrides=overrides, explores=True).decision
    return [*rows, ("task, explore", explores), ("MCP tools", row(""))]


def _override(names: list[str], overrides: Mapping[str, Decision], *, patterns: bool) -> Decision | None:
    """The decision of the settings. MCP tools can be matched by a pattern; the strictest match wins."""
    matches = [overrides[name] for name in names if name in overrides]
    if not matches and patterns:
        matches = [
            word for pattern, word in overrides.items() if any(fnmatchcase(name, pattern) for name in names)
        ]
    return next((word for word in _STRICTEST if word in matches), None)


def _row(tool: str, kind: str) -> str:
    return _MEMORY if kind == "edits" and not built_in(tool).touches else kind


def _cell(row: str, preset: Preset) -> Decision:
    return _ROWS[row][PRESETS.index(preset)]


def _denied_by(
    tool: str, row: str, preset: Preset, mode: OperatingMode, overridden: Decision | None
) -> PolicyDecision:
    if overridden == "deny":
        return PolicyDecision("deny", [Text("policy.configured.deny", tool=tool)])
    permissive = next(name for name in PRESETS if _cell(row, name) != "deny")
    decision = _cell(row, permissive)
    hint = Text("policy.preset.willing", willing=permissive, decision=decision)
    return PolicyDecision(
        "deny", [Text("policy.preset.deny", mode=mode, preset=preset, tool=tool)], hint=hint
    )


def _reason(
    what: str | Text, preset: Preset, mode: OperatingMode, decision: Decision, overridden: Decision | None
) -> Text:
    """Who allows it or asks; for a denial see `_denied_by`."""
    if overridden:
        return Text(f"policy.configured.{decision}", what=what)
    return Text(f"policy.preset.{decision}", mode=mode, preset=preset, what=what or Text("policy.what.it"))


def _decide_command(
    tool: str,
    preset: Preset,
    mode: OperatingMode,
    overridden: Decision | None,
    shell: ShellVerdict | None,
    allowlist: Collection[str],
    verifying: bool,
    confined: bool,
) -> PolicyDecision:
    if mode == "yolo":
        return PolicyDecision("allow", [Text("policy.yolo")])
    verdict = shell or ShellVerdict([], read_only=False, risks=[Text("policy.risk.not_read")], parsed=False)
    row = _READ_ONLY if verdict.read_only and verdict.parsed else "runs"
    decision = overridden or _cell(row, preset)
    what = Text("policy.what.reading" if verdict.read_only else "policy.what.writing")
    if decision == "deny":
        return _denied_by(tool, row, preset, mode, overridden)
    if mode == "plan" and confined and (row == "runs" or verdict.risks):
        by_person = overridden == "ask"
        why = _reason(what, preset, mode, "ask", overridden) if by_person else Text("policy.plan.confined")
        return PolicyDecision("ask" if by_person else "allow", [why], plan=True)
    if mode == "plan" and row == "runs":
        return PolicyDecision(
            "deny", [Text("policy.plan.unconfined"), *_acting_parts(verdict)], hint=_LEAVE_PLAN
        )
    reasons = [_reason(what, preset, mode, decision, overridden)]
    reasons += _acting_parts(verdict)
    covering = _always_names(verdict, opaque_readers=True)
    if decision == "ask" and covering and set(covering) <= set(allowlist):
        return PolicyDecision("allow", [Text("policy.always")])
    if verifying and mode == "auto-edit" and decision != "allow" and overridden is None:
        checks = tuple(dict.fromkeys(check.reason for check in verdict.checks))
        why = Text("policy.check", checks=checks) if verdict.is_check else Text("policy.verification")
        return PolicyDecision("allow", [why], check=True)
    if verdict.risks:
        # If the policy allows it, only the risks are reasons to ask.
        return PolicyDecision("ask", [*(reasons if decision == "ask" else []), *verdict.risks])
    if decision == "ask":
        names = _always_names(verdict)
        return PolicyDecision("ask", reasons, can_always=bool(names), always_names=names)
    return PolicyDecision("allow", reasons)


def _acting_parts(verdict: ShellVerdict) -> list[Text]:
    """The segments that are not read-only, checks last. Of a line of one segment, only reasons that
    its words do not show."""
    acting = [segment for segment in verdict.segments if not segment.read_only]
    if len(verdict.segments) == 1:
        acting = [segment for segment in acting if segment.rule.key == "policy.why.private"]
    acting.sort(key=lambda segment: segment.check is not None and segment.check.doubt is None)
    return [Text("policy.part", command=segment.command, why=segment.rule) for segment in acting[:3]]


def _always_names(verdict: ShellVerdict, opaque_readers: bool = False) -> list[str]:
    """The names that `always` would add to the allowlist; empty if it must not be offered. Read-only
    segments need no name, unless all are and bash is set to `ask`, or they need the environment of read-only
    lines. `opaque_readers`: ignore read-only wrappers whose command is known."""
    if not verdict.parsed or verdict.risks or not verdict.segments:
        return []
    names: list[str] = []
    for segment in verdict.segments:
        if segment.risks or (segment.opaque and not (opaque_readers and segment.read_only)):
            return []
        if segment.read_only and not verdict.read_only and not segment.guarded:
            continue
        if not segment.name or segment.opaque:
            return []
        if segment.name not in names:
            names.append(segment.name)
    return names
