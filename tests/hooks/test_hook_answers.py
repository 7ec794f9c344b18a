"""What a hook's end means, and which tools a matcher names."""

from __future__ import annotations

import json

import pytest

from coder.extend.hooks import answer_of, matches


@pytest.mark.parametrize(
    ("matcher", "name", "applies"),
    [
        ("", "bash", True),
        ("*", "read", True),
        ("bash", "bash", True),
        ("Bash", "bash", True),
        ("Edit|MultiEdit|Write", "edit", True),
        ("Edit|Write", "read", False),
        ("ba", "bash", False),
        ("e.*", "edit", True),
        ("mcp__github__.*", "mcp__github__search", True),
        ("apply_patch", "patch", True),
        ("[", "bash", True),  # invalid: a guard is not lost to a typo
        (r"(\w+)+!", "mcp__github__" + "a" * 50, True),  # would never end: neither
        ("(mcp__(a|b)+__.*)+", "mcp__ab__x", True),
        ("(mcp__(a|b)+__.*)+", "MCP__c__x", False),
        ("(?i)BASH", "bash", True),
    ],
)
def test_a_matcher_is_an_expression_for_the_whole_name(matcher: str, name: str, applies: bool) -> None:
    assert matches(matcher, name) is applies


def test_exit_2_blocks_with_stderr_as_the_reason() -> None:
    answer = answer_of("PreToolUse", 2, '{"decision": "approve"}', "not on a Friday\n")
    assert (answer.blocked, answer.outcome) == ("not on a Friday", "blocked")
    assert answer_of("PreToolUse", 2, "", "").blocked == "a hook blocked it and gave no reason"


@pytest.mark.parametrize(("code", "late"), [(1, False), (127, False), (124, True)])
def test_any_other_failure_decides_nothing(code: int, late: bool) -> None:
    answer = answer_of("PreToolUse", code, "", "broken", timed_out=late)
    assert answer.outcome == "failed"
    assert (answer.blocked, answer.decision, answer.stop) == (None, "", None)


def test_plain_output_is_context_where_a_prompt_follows() -> None:
    assert answer_of("UserPromptSubmit", 0, "It is Friday.\n", "").context == "It is Friday."
    assert answer_of("PostToolUse", 0, "formatted 3 files", "").context == ""


def test_json_in_both_spellings() -> None:
    specific = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "ask",
        "permissionDecisionReason": "sure?",
        "updatedInput": {"command": "ls"},
        "additionalContext": "mind the cache",
    }
    new = answer_of("PreToolUse", 0, json.dumps({"hookSpecificOutput": specific, "suppressOutput": True}), "")
    assert (new.decision, new.reason, new.changed) == ("ask", "sure?", {"command": "ls"})
    assert new.context == "mind the cache"
    old = answer_of("PreToolUse", 0, '{"decision": "block", "reason": "no"}', "")
    assert (old.blocked, old.decision) == ("no", "deny")
    stop = answer_of("PostToolUse", 0, '{"continue": false, "stopReason": "enough"}', "")
    assert (stop.stop, stop.outcome) == ("enough", "stopped")


@pytest.mark.parametrize("said", ['{"decision": 3}', '{"decision": "den', '{"decision": "deny"}\nbye'])
def test_an_unclear_answer_lets_nothing_through(said: str) -> None:
    """It began as a decision. Where nothing waits for one, the hook is passed over."""
    for event, blocks in (("PreToolUse", True), ("UserPromptSubmit", True), ("PostToolUse", False)):
        answer = answer_of(event, 0, said, "")
        assert "not understood" in answer.failed
        assert (answer.blocked is not None) is blocks
    assert answer_of("PreToolUse", 0, "\ufeff" + '{"decision": "deny"}', "").decision == "deny"


def test_what_it_adds_is_bounded() -> None:
    assert len(answer_of("UserPromptSubmit", 0, "x" * 50_000, "").context) == 10_000


def test_null_says_nothing() -> None:
    """As programs write that fill in every field: what they do say counts."""
    answer = answer_of(
        "PreToolUse", 0, '{"decision": "block", "reason": "no", "hookSpecificOutput": null}', ""
    )
    assert answer.blocked == "no"
    specific = {"permissionDecision": "deny", "permissionDecisionReason": None, "updatedInput": None}
    given = {"continue": None, "decision": None, "reason": "never", "hookSpecificOutput": specific}
    answer = answer_of("PreToolUse", 0, json.dumps(given), "")
    assert (answer.blocked, answer.stop) == ("never", None)


def test_what_is_no_text_does_no_harm() -> None:
    deep = '{"x": ' + "[" * 30_000 + "]" * 30_000 + "}"
    assert "not understood" in answer_of("Stop", 0, deep, "").failed
    assert answer_of("PreToolUse", 2, "", "\x1b[31mred\x1b[0m\x07\x9b5m").blocked == "red"
    assert answer_of("SessionStart", 0, "\x1b]0;title\x07now", "").context == "now"
