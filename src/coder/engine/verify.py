"""Automatic verification after an edit: a fixed list of side-effect-free checks and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.policy.decide import decide
from coder.protocol.events import Notice, ToolOutput, VerifyChanged
from coder.texts import Phrase
from coder.tools.base import ToolResult
from coder.tools.opening import read_whole

# The whole list. A command that is not on it, to the letter, is not run.
WHITELIST = (
    "go test ./...",
    "pytest -q",
    "npm test -- --watch=false",
    "pnpm test -- --watch=false",
    "yarn test --watch=false",
    "cargo test",
    "mvn -q test",
    "gradle test",
    "./gradlew test",
)

_ASKED = (
    r"验证|跑.{0,4}测试|运行.{0,4}测试|执行.{0,4}测试|\bverify\b|\brun (?:the |all |your )?(?:unit )?tests?\b"
    r"|\btests? (?:must |should )?pass\b"
)
_DOCUMENTS = {".md", ".markdown", ".rst", ".txt", ".adoc"}
# Not the code's fault, so not the model's to repair: no such program, not executable, time-out.
_ENVIRONMENT = {124, 126, 127}
_ENVIRONMENT_WORDS = ("no module named pytest", "command not found", "no such file or directory: 'go'")
_NO_TESTS = 5  # pytest: nothing was collected
_MAX_PACKAGE = 4_000_000  # bytes of a package.json that is looked into
_OUTPUT = 8_000  # characters of a failing check that the model is shown: the end, where the errors are


class Choice(msgspec.Struct, frozen=True):
    """The command to run ("" for none) and those that were named but are not on the list."""

    command: str
    refused: list[str]


async def verify_edits(session: Session, turn: Turn) -> bool:
    """After an answer: run the check where one is due. True where the turn must go on to repair."""
    if not _due(session, turn):
        return False
    desk = session.desk
    choice = choose(turn.text, desk.config.workflow.verify_commands, desk.root, turn.edited)
    for command in choice.refused:
        desk.emit(Notice(desk.say("verify.not_listed", command=command), "warning"))
    if not choice.command:
        skipped = Phrase("verify.skipped")
        session.log.append("verify", str(skipped), meta={"state": "skipped", "refused": choice.refused})
        desk.emit(VerifyChanged(state="skipped", text=skipped.text(desk.texts)))
        turn.verify_attempts = desk.config.workflow.max_verify_attempts  # said once a turn
        return False
    return await _attempt(session, turn, choice.command)


def _due(session: Session, turn: Turn) -> bool:
    desk = session.desk
    workflow = desk.config.workflow
    if not workflow.auto_verify_after_edit or not turn.edited or all(map(_is_document, turn.edited)):
        return False
    if turn.verify_attempts >= workflow.max_verify_attempts:
        return False
    if desk.mode == "plan" or (desk.mode == "default" and not asked_for(turn.text)):
        return False
    ruling = decide("bash", desk.preset, desk.mode, overrides=desk.config.permission.tools)
    return "bash" in desk.tools and ruling.decision != "deny"


def asked_for(text: str) -> bool:
    """Whether the person asked for verification in so many words."""
    return bool(re.search(_ASKED, text, re.IGNORECASE)) or any(command in text for command in WHITELIST)


def _is_document(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.suffix.lower() in _DOCUMENTS or "docs" in pure.parts[:-1]


def choose(text: str, configured: Iterable[str], root: Path, edited: Iterable[str]) -> Choice:
    """What the person named, then the project's configuration, then what the project's files say."""
    refused: list[str] = []
    named = [command for command in WHITELIST if command in text]
    if named:
        return Choice(max(named, key=len), refused)
    for command in configured:
        if command.strip() in WHITELIST:
            return Choice(command.strip(), refused)
        refused.append(command)
    return Choice(_inferred(root, {PurePosixPath(p).suffix for p in edited}), refused)


def _inferred(root: Path, suffixes: set[str]) -> str:
    found = [(command, languages) for command, languages in _candidates(root) if command]
    for command, languages in found:
        if suffixes & languages:
            return command
    return found[0][0] if found else ""


def _candidates(root: Path) -> Iterable[tuple[str, set[str]]]:
    """Every kind of project the folder looks like, with the files its check is about."""

    def has(*names: str) -> bool:
        return any((root / name).exists() for name in names)

    java = {".java", ".kt", ".groovy", ".scala"}
    if has("pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "conftest.py") or any(
        next(folder.glob("test_*.py"), None) for folder in (root, root / "tests", root / "test")
    ):
        yield "pytest -q", {".py", ".pyi"}
    if has("go.mod"):
        yield "go test ./...", {".go"}
    if has("Cargo.toml"):
        yield "cargo test", {".rs"}
    if _has_test_script(root / "package.json"):
        scripts = {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"}
        if has("pnpm-lock.yaml"):
            yield "pnpm test -- --watch=false", scripts
        elif has("yarn.lock"):
            yield "yarn test --watch=false", scripts
        else:
            yield "npm test -- --watch=false", scripts
    if has("pom.xml"):
        yield "mvn -q test", java
    if has("gradlew"):
        yield "./gradlew test", java
    elif has("build.gradle", "build.gradle.kts"):
        yield "gradle test", java


def _has_test_script(path: Path) -> bool:
    try:
        package = msgspec.json.decode(read_whole(path, _MAX_PACKAGE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return isinstance(scripts, dict) and "test" in scripts


async def _attempt(session: Session, turn: Turn, command: str) -> bool:
    desk = session.desk
    turn.verify_attempts += 1
    attempt = turn.verify_attempts
    desk.emit(VerifyChanged(state="started", command=command, attempt=attempt))
    with turn.busy(Phrase("stopped.verify", command=command)):
        from coder.engine.shelter import run_command

        result = await run_command(
            session,
            {"command": command},
            lambda text: desk.emit(ToolOutput(call_id="verify", text=text)),
        )
    result = session.redactor.hidden(result)
    exit_code = int(result.meta.get("exit_code", 127))
    meta = {"command": command, "exit_code": exit_code, "attempt": attempt}

    def ended(state: Literal["passed", "failed", "gave_up"], text: str) -> None:
        session.log.append("verify", result.for_model, meta={**meta, "state": state})
        desk.emit(
            VerifyChanged(state=state, command=command, attempt=attempt, exit_code=exit_code, text=text)
        )

    if exit_code == 0:
        ended("passed", result.detail)
        return False
    if _environment_fault(exit_code, result, command):
        ended("gave_up", desk.say("verify.environment", command=command))
        return False
    ended("failed", result.detail)
    if attempt >= desk.config.workflow.max_verify_attempts:
        desk.emit(Notice(desk.say("verify.still_failing", command=command, attempts=attempt), "warning"))
        return False
    session.add_note(
        f"Verification with `{command}` failed (exit code {exit_code}):\n\n{result.for_model[-_OUTPUT:]}\n\n"
        "Please fix this and verify again.",
        "verify",
    )
    return True


def _environment_fault(exit_code: int, result: ToolResult, command: str) -> bool:
    if exit_code in _ENVIRONMENT or (command.startswith("pytest") and exit_code == _NO_TESTS):
        return True
    lowered = result.for_model.lower()
    return any(words in lowered for words in _ENVIRONMENT_WORDS)
