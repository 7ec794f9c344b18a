"""The evidence of a turn that changed files, in one line."""

from __future__ import annotations

from typing import Literal

from coder.protocol.entries import CheckRun, Evidence, Verification
from coder.texts import AnyText, JoinedText, Text

_SHOWN = 3  # files that the line spells out


def outcome(evidence: Evidence) -> Literal["passed", "failed", "unchecked"]:
    states = [run.state for run in evidence.runs]
    if "failed" in states:
        return "failed"
    passed = any(run.kind == "tests" and run.state == "passed" and not run.part for run in evidence.runs)
    return "passed" if passed and not evidence.unchecked and not evidence.claim else "unchecked"


def evidence_line(evidence: Evidence, verification: Verification, why: AnyText = "") -> Text:
    """What the checks showed, what the model only claims, what changed. `why`: a more detailed reason."""
    tests = any(run.kind == "tests" for run in evidence.runs)
    # A claim says itself that no test ran.
    parts: list[AnyText] = [_shown(evidence, verification, why)] if tests or not evidence.claim else []
    lint = [run for run in evidence.runs if run.kind == "lint"]
    if lint:
        parts.append(Text("verify.also", runs=tuple(_ended(run) for run in lint)))
    if evidence.claim:
        parts.append(Text("verify.claim", claim=evidence.claim))
    named = verification.status == "passed" and evidence.unchecked == evidence.changed
    if evidence.changed and not named:
        parts.append(_files("verify.changed", evidence.changed))
    return JoinedText(parts, " · ")


def evidence_from(verification: Verification) -> Evidence | None:
    """The evidence of a turn that was recorded without it."""
    status, changed = verification.status, verification.changed_since
    if status == "not_run":
        return Evidence(changed, [], changed) if changed else None
    run = CheckRun(verification.command, status, "coder")
    return Evidence(changed, [run], changed if status == "passed" else [])


def _shown(evidence: Evidence, verification: Verification, why: AnyText) -> AnyText:
    status, command = verification.status, verification.command
    tests = [run for run in evidence.runs if run.kind == "tests"]
    if status == "failed":
        return why or Text("verify.failed", command=command)
    if status == "passed" and evidence.unchecked:
        return _files("verify.changed_since", evidence.unchecked, command=command)
    if status == "passed":
        whole = [run.by for run in tests if run.state == "passed" and not run.part]
        by_model = whole[-1:] != ["coder"]  # none: a part that the person named
        return Text("verify.by_model" if by_model else "verify.passed", command=command)
    if tests:
        run = tests[-1]
        return Text(f"verify.own.{run.state}{'_part' if run.part else ''}", command=run.command)
    if why:
        return why
    return Text("verify.unchecked" if evidence.unchecked else "verify.documents")


def _ended(run: CheckRun) -> Text:
    return Text(f"verify.run.{run.state}", command=run.command)


def _files(key: str, paths: list[str], **values: object) -> Text:
    names: AnyText = ", ".join(paths[:_SHOWN])
    if len(paths) > _SHOWN:
        names = Text("verify.more_files", files=names, n=len(paths) - _SHOWN)
    return Text(key, files=names, **values)
