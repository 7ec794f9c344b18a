"""What the policy would do with a shell line, segment by segment, and why: behind `coder explain`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder.config.schema import Decision, OperatingMode, Preset
from coder.policy.decide import decide
from coder.policy.shell.judge import judge
from coder.policy.shell.verdict import Ruling, Segment, ShellVerdict
from coder.policy.verification import may_run
from coder.texts import Phrase, Texts


class Explained(msgspec.Struct, frozen=True):
    """The ruling on a line, what is known of it, and what each segment would come to by itself."""

    ruling: Ruling
    verdict: ShellVerdict
    decisions: list[Decision]


def explain(
    line: str,
    cwd: Path,
    preset: Preset,
    mode: OperatingMode,
    *,
    overrides: Mapping[str, Decision] | None = None,
    allowlist: Collection[str] = (),
    verify_allow: Collection[str] = (),
) -> Explained:
    """What would be done with this line, and why."""
    verdict = judge(line, cwd)
    verifying = may_run(line, cwd, verify_allow)

    def ruled(shell: ShellVerdict) -> Ruling:
        return decide(
            "bash",
            preset,
            mode,
            overrides=overrides,
            shell=shell,
            allowlist=allowlist,
            verifying=verifying,
        )

    alone = [
        ShellVerdict([segment], segment.read_only, segment.risks, parsed=verdict.parsed)
        for segment in verdict.segments
    ]
    return Explained(ruled(verdict), verdict, [ruled(one).decision for one in alone])


def as_data(explained: Explained) -> dict[str, Any]:
    """`{"decision", "risks", "segments": [{"command", "decision", "rule"}]}`, for programs: in English."""
    segments = [
        {
            "command": segment.command,
            "decision": decision,
            "rule": "; ".join(map(str, [segment.rule, *segment.risks])),
        }
        for segment, decision in zip(explained.verdict.segments, explained.decisions, strict=True)
    ]
    return {
        "decision": explained.ruling.decision,
        "risks": [str(risk) for risk in explained.verdict.risks],
        "segments": segments,
    }


def as_text(explained: Explained, texts: Texts) -> str:
    """The same for a person to read: what holds for the whole line, then each segment, nothing twice."""
    return "\n".join(_lines(explained, texts))


def _lines(explained: Explained, texts: Texts) -> Iterator[str]:
    verdict = explained.verdict
    yield texts.say("policy.explain.decision", decision=explained.ruling.decision)
    segments = verdict.segments if verdict.parsed else []  # an unread line is its own and only segment
    told_below = {risk for segment in segments for risk in segment.risks}
    for reason in dict.fromkeys([*explained.ruling.reasons, *verdict.risks]):
        if reason not in told_below and reason.key != "policy.part":
            yield f"  {reason.text(texts)}"
    for at, segment in enumerate(segments):
        yield f"{explained.decisions[at]:<5}  {segment.command}"
        for why in _whys(segment, segments[at + 1 :]):
            yield f"       {why.text(texts)}"


def _whys(segment: Segment, later: list[Segment]) -> list[Phrase]:
    """Why it is judged so. What a wrapper runs has its own place below, and its risks are told there."""
    inner = {risk for other in later for risk in other.risks} if segment.opaque else set()
    risks = [risk for risk in segment.risks if risk not in inner]
    return risks if risks and segment.rule == Phrase("policy.why.dangerous") else [segment.rule, *risks]
