"""What the policy would do with a shell line, segment by segment, and why (`coder explain`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder.config.schema import Decision, OperatingMode, Preset
from coder.policy.decide import decide
from coder.policy.shell.judge import judge
from coder.policy.shell.verdict import PolicyDecision, Segment, ShellVerdict
from coder.policy.verification import is_verification
from coder.texts import Catalog, Text

_MARGIN = 7  # columns of a decision


class Explanation(msgspec.Struct, frozen=True):
    """The decision on a line, its verdict, and the decision on each segment by itself."""

    decided: PolicyDecision
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
    confined: bool = False,
) -> Explanation:
    verdict = judge(line, cwd, confined=confined)
    listed = is_verification(line, cwd, verify_allow)

    def decide_call(shell: ShellVerdict) -> PolicyDecision:
        return decide(
            "bash",
            preset,
            mode,
            overrides=overrides,
            shell=shell,
            allowlist=allowlist,
            verifying=listed or shell.is_check,
            confined=confined,
        )

    single = [
        ShellVerdict([segment], segment.read_only, segment.risks, parsed=verdict.parsed)
        for segment in verdict.segments
    ]
    return Explanation(decide_call(verdict), verdict, [decide_call(one).decision for one in single])


def as_data(explained: Explanation) -> dict[str, Any]:
    """`{"decision", "risks", "segments": [{"command", "decision", "rule"}]}`, in English for programs."""
    segments = [
        {
            "command": segment.command,
            "decision": decision,
            "rule": "; ".join(map(str, [segment.rule, *segment.risks])),
        }
        for segment, decision in zip(explained.verdict.segments, explained.decisions, strict=True)
    ]
    return {
        "decision": explained.decided.decision,
        "risks": [str(risk) for risk in explained.verdict.risks],
        "segments": segments,
    }


def as_text(explained: Explanation, texts: Catalog) -> str:
    """The same for a person: the whole line first, then each segment, without repetition."""
    return "\n".join(_lines(explained, texts))


def _lines(explained: Explanation, texts: Catalog) -> Iterator[str]:
    verdict = explained.verdict
    yield texts.say("policy.explain.decision", decision=_word(explained.decided.decision))
    segments = verdict.segments if verdict.parsed else []  # an unparsed line is its own single segment
    repeated = {risk for segment in segments for risk in segment.risks}
    for reason in dict.fromkeys([*explained.decided.reasons, *verdict.risks]):
        if reason not in repeated and reason.key != "policy.part":
            yield f"  {reason.text(texts)}"
    for at, segment in enumerate(segments):
        decision = _word(explained.decisions[at]).text(texts)
        cells = sum(1 + (char > "\u2e7f") for char in decision)  # Chinese characters take two
        yield f"{decision}{' ' * (_MARGIN - cells)}{segment.command}"
        for why in _reasons(segment, segments[at + 1 :]):
            yield f"{' ' * _MARGIN}{why.text(texts)}"


def _word(decision: str) -> Text:
    return Text(f"policy.word.{decision}")


def _reasons(segment: Segment, later: list[Segment]) -> list[Text]:
    """Why it is judged so. A wrapper's inner command is listed separately, with its risks."""
    inner = {risk for other in later for risk in other.risks} if segment.opaque else set()
    risks = [risk for risk in segment.risks if risk not in inner]
    return risks if risks and segment.rule == Text("policy.why.dangerous") else [segment.rule, *risks]
