"""Automatic verification after an edit: run the check, tell the model what fails, say what was shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from coder import engine
from coder.base.safe_open import read_whole
from coder.engine.approval import ask_person, decide_call
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.engine.verify.choice import asked_for as asked_for
from coder.engine.verify.choice import choose as choose
from coder.engine.verify.choice import named, refused
from coder.engine.verify.claims import claim_in
from coder.policy.check_lines import checks_in
from coder.policy.decide import decide
from coder.policy.verification import WHITELIST as WHITELIST
from coder.policy.verification import is_cache, is_document, same_check
from coder.protocol import entries
from coder.protocol.events import Evidence, Notice, ToolOutput, Verification, VerifyChanged
from coder.protocol.evidence import evidence_line
from coder.protocol.history import verified_note
from coder.protocol.messages import tool_call
from coder.texts import AnyText, Text
from coder.tools.tool import ToolResult

_COULD_NOT_RUN = {124: "timeout", 126: "denied", 127: "missing"}
# Called in a wrong way (a plugin's option, a bad setting); nothing was collected.
_PYTEST_NOT_RUN = {4: "usage", 5: "no_tests"}
# What the programs of the list say where they, or what they need, are not there.
_MISSING = (
    r"no module named pytest|command not found|: not found$|missing script: .?test"
    r"|could not resolve dependencies|could not transfer artifact|failed to download|dial tcp: "
    r"|temporary failure in name resolution|node_modules.* missing"
)
_PYTHON_MISSING = r"(?:ModuleNotFoundError: )?No module named '([^']+)'"
_NODE_MISSING = r"Cannot find (?:module|package) '([^'./][^']*)'"
_TEST_FAILED = (
    r"(?m)^FAILED |^=+ .*\b\d+ failed\b|^\d+ failed\b|^--- FAIL|^test .*FAILED$|^\s*(?:✕|×|✗) |^not ok "
)
_FAILING = (
    r"^(?:FAILED|ERROR) \S.*|^--- FAIL: .*|^test .* \.\.\. FAILED|^\s*(?:✕|×|✗) .*|^not ok .*|^\[ERROR\] .*"
)
_NOT_COLLECTED = r"(?m)^ERROR (\S+\.py)\b"
_PYTEST_SETTINGS = {"conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "setup.py", "tox.ini"}
_MAX_SOURCE = 1_000_000
_MAX_LINE = 200  # characters of an output that are quoted as the reason


def environment_fault(command: str, result: ToolResult, root: Path, edited: Iterable[str]) -> Text | None:
    """Why the check failed, where no edit of the code can repair that; None if one might."""
    exit_code = int(result.meta.get("exit_code", 127))
    codes = {**_COULD_NOT_RUN, **(_PYTEST_NOT_RUN if "pytest" in command else {})}
    if exit_code in codes:
        return Text(f"verify.environment.{codes[exit_code]}")
    output = result.for_model
    if re.search(_TEST_FAILED, output):
        return None
    if found := re.search(_MISSING, output, re.IGNORECASE | re.MULTILINE):
        start = output.rfind("\n", 0, found.start()) + 1
        line = output[start:].partition("\n")[0].strip()
        return Text("verify.environment.printed", line=line[:_MAX_LINE])
    missing = {name.split(".")[0] for name in re.findall(_PYTHON_MISSING, output)}
    missing |= set(re.findall(_NODE_MISSING, output))
    repairable = any(_of_the_project(name, root, edited) for name in missing)
    if not missing or (repairable and not _never_installed(missing, output, root, set(edited))):
        return None
    return Text("verify.environment.modules", names=", ".join(sorted(missing))[:_MAX_LINE])


def _of_the_project(name: str, root: Path, edited: Iterable[str]) -> bool:
    """Whether a missing module should be in the project, or is one that this turn's edits ask for."""
    directories = [root, root / "src", root / "lib", *(root / path for path in _parents(edited))]
    if any((directory / name).exists() or (directory / f"{name}.py").exists() for directory in directories):
        return True
    return any(name in _source(root / path) for path in edited)


def _never_installed(missing: set[str], output: str, root: Path, edited: set[str]) -> bool:
    """Whether they are packages of the project that its own tests cannot import, edited or not, as where
    nobody has installed it: `python -m pytest` finds those that lie beside the tests."""
    if any(Path(path).name in _PYTEST_SETTINGS for path in edited):
        return False
    there = all((root / name).is_dir() or (root / "src" / name).is_dir() for name in missing)
    return there and any(file not in edited for file in re.findall(_NOT_COLLECTED, output))


def _parents(edited: Iterable[str]) -> set[Path]:
    return {parent for path in edited for parent in Path(path).parents}


def _source(path: Path) -> str:
    try:
        return read_whole(path, _MAX_SOURCE).decode("utf-8", errors="replace")
    except OSError:
        return ""


def failing(result: ToolResult) -> frozenset[str]:
    """What fails, in a form that can be compared with another run of the same check."""
    if result.ok:
        return frozenset()
    lines = re.findall(_FAILING, result.for_model, re.MULTILINE) or [result.for_model]
    # Messages and times differ from run to run, names do not.
    return frozenset(re.sub(r" - .*|\(?\b[\d.]+ ?m?s\b\)?", "", line).strip() for line in lines)


_OUTPUT = 8_000  # characters of a failing check that the model is shown: the end, where the errors are

FAILED_BEFORE = "failed the same way before the first edit"
_SINCE = {
    "unknown": "Whether this failed before your first edit is not known: if your change did not cause this, "
    "say so and stop.",
    "before": "The same check failed the same way before your first edit, so your change did not cause this. "
    "Unless you were asked to repair it, say so and stop.",
    "more": "Not all of this failed before your first edit.",
    "new": "It passed before your first edit.",
}
_RULES = ("sandbox.note.check", "sandbox.note.limited")  # of the sandbox, which may be why a check cannot run
_REPAIR = "Please fix what your change broke; it is then verified again."
_LAST = (
    "This was the last automatic check of this turn: nothing is checked after your next answer. Do not go on "
    "editing; say plainly in your answer what still fails."
)


async def verify_edits(session: Session, turn: Turn) -> bool:
    """After an answer: run the check where one is due. True if the model has a failure to answer to."""
    if not _due(session, turn):
        return False
    agent = session.agent
    workflow = agent.config.workflow
    if why := _forbidden(session, turn):
        turn.unverified = why  # said at the end
        turn.checks.saw_end("skipped", "", 0, str(why))
        return False
    allow = _allow(session)
    choice = choose(turn.words.said, workflow.verify_commands, agent.root, turn.edited, allow)
    checks = turn.checks
    if checks.current and checks.command == (choice.command or "".join(choice.refused[:1])):
        return False  # the model has run it
    if choice.refused:
        listed = ", ".join((*WHITELIST, *allow))
        for command in choice.refused:
            agent.emit(Notice(Text("verify.not_listed", command=command, listed=listed), "warning"))
    if not choice.command:
        if choice.refused:
            names = ", ".join(f"`{command}`" for command in choice.refused)
            session.reminders.add(
                f"After your last answer nothing was checked: {names} does not run by itself, only with bash."
            )
        why = Text("verify.unlisted" if choice.refused else "verify.skipped")
        return _not_run(session, turn, why, choice.refused)
    if not await _may_run(session, choice.command):
        turn.unverified = Text("verify.not_approved", command=choice.command)
        turn.checks.saw_end("skipped", "", 0, str(turn.unverified))
        return False
    return await _attempt(session, turn, choice.command)


async def _may_run(session: Session, command: str) -> bool:
    """Whether the check may run: where the person wants to be asked about bash, about this as well. In
    `default` they have asked for it in so many words, in `yolo` for everything."""
    agent = session.agent
    if agent.mode != "auto-edit" or agent.config.permission.tools.get("bash") != "ask":
        return True

    bash, args = agent.tools["bash"], {"command": command}
    decided = decide_call(session, bash, args)
    call = tool_call("", "bash", msgspec.json.encode(args).decode())
    return decided.decision == "allow" or await ask_person(session, call, bash, args, decided) is None


def _due(session: Session, turn: Turn) -> bool:
    agent, checks = session.agent, turn.checks
    workflow = agent.config.workflow
    if not workflow.auto_verify_after_edit or checks.over or checks.runs > workflow.max_verify_attempts:
        return False
    changed = checks.changed if checks.status == "passed" else turn.edited
    if all(map(is_document, changed)) or (checks.current and checks.runs):
        return False
    return agent.mode in ("auto-edit", "yolo") or (agent.mode == "default" and asked_for(turn.words.said))


def _forbidden(session: Session, turn: Turn) -> Text | None:
    agent = session.agent
    if refused(turn.words.said or turn.text):
        return Text("verify.refused")
    decided = decide("bash", agent.preset, agent.mode, overrides=agent.config.permission.tools)
    if "bash" not in agent.tools or decided.decision == "deny":
        return Text("verify.denied")
    return None


def _allow(session: Session) -> list[str]:
    return [command.strip() for command in session.agent.config.workflow.verify_allow]


def _not_run(session: Session, turn: Turn, why: Text, unlisted: Iterable[str] = ()) -> Literal[False]:
    """There is nothing to run, which is said once a turn."""
    agent = session.agent
    session.log.append(entries.Verify(state="skipped", reason=str(why), refused=list(unlisted)), str(why))
    agent.emit(VerifyChanged(state="skipped", text=why))
    turn.checks.saw_end("skipped", "", 0, str(why))
    return False


async def _attempt(session: Session, turn: Turn, command: str) -> bool:
    agent = session.agent
    attempt = turn.checks.attempts + 1
    agent.emit(VerifyChanged(state="started", command=command, attempt=attempt))
    with turn.busy(Text("stopped.verify", command=command)):
        result = await engine.isolation.run_command(
            session,
            agent.tools["bash"],
            {"command": command},
            lambda text: agent.emit(ToolOutput(call_id="verify", text=text)),
            check=True,
        )
    result = session.redactor.hidden(result)
    exit_code = int(result.meta.get("exit_code", 127))

    def ended(state: Literal["passed", "failed", "gave_up"], text: AnyText, reason: str = "") -> None:
        turn.checks.saw_end(state, command, attempt, reason)
        entry = entries.Verify(
            command=command, exit_code=exit_code, attempt=attempt, state=state, reason=reason
        )
        session.log.append(entry, result.for_model)
        agent.emit(
            VerifyChanged(state=state, command=command, attempt=attempt, exit_code=exit_code, text=text)
        )

    if exit_code == 0:
        session.checks.known_failures[command] = failing(result)
        ended("passed", result.detail)
        session.reminders.add(verified_note(command))
        return False
    if why := environment_fault(command, result, agent.root, turn.edited):
        phrase = Text("verify.environment", command=command, why=why)
        ended("gave_up", phrase, str(phrase))
        turn.unverified = Text("verify.unlisted")  # the reason was just said
        rule = f" {result.phrase}" if result.phrase is not None and result.phrase.key in _RULES else ""
        session.reminders.add(f"After your last answer `{command}` ran, but checked nothing: {why}.{rule}")
        return False
    now, before = failing(result), turn.checked_before.get(command)
    session.checks.known_failures[command] = now
    ended("failed", result.detail, FAILED_BEFORE if before and now <= before else "")
    turn.unverified_answers.append(turn.answer)
    last = turn.checks.runs > agent.config.workflow.max_verify_attempts
    session.history.add_note(
        f"Verification with `{command}` failed (exit code {exit_code}):\n\n{_end_of(result.for_model)}\n\n"
        f"{_SINCE[_since_when(now, before)]} {_LAST if last else _REPAIR}",
        "verify",
    )
    return True


def _end_of(output: str) -> str:
    """The last whole lines of a failing check, without the exit code, which is said before them."""
    output = re.sub(r"\Aerror: exit code \d+\n", "", output)
    if len(output) <= _OUTPUT:
        return output
    end = output[-_OUTPUT:]
    return f"[… the beginning is left out …]\n{end.partition(chr(10))[2] or end}"


def _since_when(now: frozenset[str], before: frozenset[str] | None) -> str:
    if before is None:
        return "unknown"
    if not before:
        return "new"
    return "before" if now <= before else "more"


# what the model does by itself


def saw_edits(session: Session, turn: Turn, paths: Iterable[str]) -> None:
    """Files were changed by a tool: what is known of checks is from before."""
    paths = sorted(paths)
    if paths and not turn.checks.changed and not turn.edited:
        turn.checked_before = session.checks.known_failures
    if paths:
        session.checks.known_failures = {}
    turn.edited.update(paths)
    turn.checks.saw_change(paths)


def saw_command(session: Session, turn: Turn, line: str, result: ToolResult) -> None:
    """A check that the model ran itself counts as one."""
    if "exit_code" not in result.meta:
        return
    root = session.agent.root
    runs = checks_in(line, int(result.meta["exit_code"]), result.for_model, result.meta.get("statuses", ()))
    if runs and (result.ok or not environment_fault(line, result, root, turn.edited)):
        turn.checks.saw_run(runs)
    command = same_check(line, root, _allow(session))
    states = {run.state for run in runs}
    if command and states != {"passed"} and (result.ok or "|" in line):
        return  # the exit code is another's, and some of the failures may not be shown
    words = line.split()
    if (
        not command and words and words[0] in turn.words.said
    ):  # else it is not named there: spare the patterns
        if turn.named_checks is None:
            turn.named_checks = named(turn.words.said, root)
        command = next((check for check in turn.named_checks if check == " ".join(words)), "")
    if not command or (not result.ok and environment_fault(command, result, root, turn.edited)):
        return
    session.checks.known_failures[command] = failing(result)
    if turn.edited or turn.changed_by_commands:
        turn.checks.saw_own("passed" if result.ok else "failed", command)


def saw_shell_changes(session: Session, line: str, paths: Iterable[str]) -> list[str]:
    """What a command changed of the project: a check's own products and caches are no such change."""
    turn = session.turn
    if turn is None or same_check(line, session.agent.root, _allow(session)):
        return []
    changed = [path for path in paths if not is_cache(path) and "node_modules" not in path.split("/")]
    saw_changes(session, turn, changed)
    return changed


def saw_changes(session: Session, turn: Turn, paths: Iterable[str]) -> None:
    """Note files that commands changed: earlier check results become stale, but no verification is due."""
    paths = sorted(paths)
    if not paths:
        return
    if not turn.checks.changed and not turn.edited:
        turn.checked_before = session.checks.known_failures
    session.checks.known_failures = {}
    turn.changed_by_commands.update(paths)
    turn.checks.saw_change(paths)


# the end


def evidence_of(session: Session, turn: Turn) -> Evidence | None:
    """What the turn has shown; None if it changed nothing and claims nothing."""
    evidence = turn.checks.evidence()
    claim = _claim(session, turn)
    return replace(evidence or Evidence(), claim=claim) if claim else evidence


def _claim(session: Session, turn: Turn) -> str:
    """What the model says of passing tests. Where nothing was changed an earlier run may show it, so that
    only an answer to "run the tests" is looked at, and one that follows changes which nothing has checked."""
    if turn.checks.tests_passed or turn.status != "ok":
        return ""
    if not turn.checks.touched:
        passed = any(not failed for failed in session.checks.known_failures.values())
        if passed or not (_left_unchecked(session) or asked_for(turn.words.said)):
            return ""
    return claim_in(turn.answer)


def _left_unchecked(session: Session) -> bool:
    """Whether the last turn that changed files left some that nothing has checked."""
    return session.checks.last_evidence is not None and bool(session.checks.last_evidence[0].unchecked)


def tell_evidence(session: Session, turn: Turn, evidence: Evidence) -> None:
    """One line at the end of a turn that changed files."""
    result = turn.checks.result()
    why: AnyText = turn.unverified or ""
    if result.status == "failed":
        why = _failure(session, turn, result)
    warns = result.status == "failed" or (result.status == "passed" and evidence.unchecked) or evidence.claim
    line = evidence_line(evidence, result, why)
    session.agent.emit(Notice(line, "warning" if warns else "info", evidence=evidence))


def _failure(session: Session, turn: Turn, result: Verification) -> Text:
    """That a check fails, and since when as far as that is known."""
    command = result.command
    if not turn.checks.current:
        return Text("verify.failed_then_changed", command=command)
    since = _since_when(
        session.checks.known_failures.get(command, frozenset()), turn.checked_before.get(command)
    )
    return Text(
        "verify.still_failing", command=command, n=result.attempts, since=Text(f"verify.since.{since}")
    )
