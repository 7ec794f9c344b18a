"""What the policy would do with a shell line, segment by segment, and why: behind `coder explain`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from coder.policy.decide import OperatingMode, Preset, decide
from coder.policy.shell import judge
from coder.policy.verdict import Decision, Segment, ShellVerdict


def explain(
    line: str,
    cwd: Path,
    preset: Preset,
    mode: OperatingMode,
    *,
    overrides: Mapping[str, Decision] | None = None,
    allowlist: Collection[str] = (),
) -> dict[str, Any]:
    """`{"decision", "risks", "reasons", "segments": [{"command", "decision", "rule"}]}` for this line."""
    verdict = judge(line, cwd)
    ruling = decide("bash", preset, mode, overrides=overrides, shell=verdict, allowlist=allowlist)

    def one(segment: Segment) -> dict[str, str]:
        alone = ShellVerdict([segment], segment.read_only, segment.risks, parsed=verdict.parsed)
        decision = decide(
            "bash", preset, mode, overrides=overrides, shell=alone, allowlist=allowlist
        ).decision
        rule = "; ".join([segment.rule, *segment.risks])
        return {"command": segment.command, "decision": decision, "rule": rule}

    return {
        "decision": ruling.decision,
        "risks": verdict.risks,
        "reasons": ruling.reasons,
        "segments": [one(segment) for segment in verdict.segments],
    }


def as_text(explained: Mapping[str, Any]) -> str:
    """The same for a person to read."""
    lines = [f"decision: {explained['decision']}"]
    lines += [f"  {reason}" for reason in explained["reasons"]]
    lines += [f"risk: {risk}" for risk in explained["risks"] if risk not in explained["reasons"]]
    for segment in explained["segments"]:
        lines.append(f"{segment['decision']:<5}  {segment['command']}")
        lines.append(f"       {segment['rule']}")
    return "\n".join(lines)
