"""English: what is said of automatic verification."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "verify.also": "also run: {runs}",
    "verify.by_model": "Verified: `{command}` passed after the last edit, run by the model",
    "verify.changed": "{files}",
    "verify.changed_since": "Not verified: changed after `{command}` had passed: {files}",
    "verify.claim": "“{claim}” is only claimed: no test was seen to pass after the last edit",
    "verify.denied": "Not verified: commands may not run here.",
    "verify.documents": "Only documents were changed",
    "verify.environment": (
        "Not verified: `{command}` could not check the code here: {why}. Verification is best-effort: fix "
        "that and run it yourself, or name this project's check in workflow.verify_commands."
    ),
    "verify.environment.denied": "its program is not executable (exit 126)",
    "verify.environment.missing": "its program was not found (exit 127)",
    "verify.environment.modules": "not installed: {names}",
    "verify.environment.no_tests": "no tests were found (exit 5)",
    "verify.environment.printed": "it printed “{line}”",
    "verify.environment.timeout": "it did not end in time",
    "verify.environment.usage": "pytest does not accept how it is called or configured (exit 4)",
    "verify.failed": "Verification failed: `{command}` fails.",
    "verify.failed_then_changed": (
        "Not verified: `{command}` failed, and files were changed after that; run it to see how it is now."
    ),
    "verify.more_files": "{files} and {n} more",
    "verify.not_approved": "Not verified: `{command}` was not approved.",
    "verify.not_listed": (
        "`{command}` is not one of the commands that may verify by themselves, so it was not run and nothing "
        "else in its place. Those are: {listed}. workflow.verify_allow in your configuration adds to them."
    ),
    "verify.own.failed": "Failed after the last edit: `{command}`, run by the model",
    "verify.own.failed_part": "Failed after the last edit: `{command}`, some of the tests, run by the model",
    "verify.own.passed": "Verified: `{command}` passed after the last edit, run by the model",
    "verify.own.passed_part": "Partly verified: `{command}` passed after the last edit, run by the model",
    "verify.own.unclear": "The model ran `{command}` after the last edit; how it ended is not known",
    "verify.own.unclear_part": (
        "The model ran `{command}`, some of the tests, after the last edit; how it ended is not known"
    ),
    "verify.passed": "Verified: `{command}` passed after the last edit",
    "verify.refused": "Not verified: you asked for nothing to be run.",
    "verify.run.failed": "`{command}` (failed)",
    "verify.run.passed": "`{command}` (passed)",
    "verify.run.unclear": "`{command}` (result unknown)",
    "verify.since.before": "The same failed before this turn's first change, so this turn did not cause it.",
    "verify.since.more": "Some of it failed before this turn's first change, some did not.",
    "verify.since.new": "It passed before this turn's first change.",
    "verify.since.unknown": (
        "Whether it failed before this turn's first change is not known: it was not run before that."
    ),
    "verify.skipped": "Not verified: no automatic check applies to this project.",
    "verify.still_failing": "Verification failed: `{command}` still fails after {n} runs. {since}",
    "verify.still_failing.one": "Verification failed: `{command}` fails. {since}",
    "verify.unchecked": "Not checked: no test ran after the last edit",
    "verify.unlisted": "Not verified.",
}
