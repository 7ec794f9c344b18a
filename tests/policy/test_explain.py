"""`coder explain`: the whole decision and each segment's, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from coder.policy.explain import as_data, as_text, explain
from coder.texts import Catalog

ENGLISH = Catalog("en")


def test_segment_by_segment(tmp_path: Path) -> None:
    explained = explain("ls && touch x; rm y", tmp_path, "balanced", "default")
    told = as_data(explained)
    assert list(told) == ["decision", "risks", "segments"]
    assert told["decision"] == "ask"
    assert [segment["command"] for segment in told["segments"]] == ["ls", "touch x", "rm y"]
    assert [segment["decision"] for segment in told["segments"]] == ["allow", "ask", "ask"]
    assert told["risks"] == ["rm can delete or overwrite files for good."]
    assert [segment["rule"] for segment in told["segments"]] == [
        "only reads",
        "not known to be read-only",
        "can delete or change files, or end processes; rm can delete or overwrite files for good.",
    ]
    assert as_text(explained, ENGLISH).splitlines() == [
        "decision: ask",
        "  Mode default with preset balanced asks before a command not known to be read-only.",
        "allow  ls",
        "       only reads",
        "ask    touch x",
        "       not known to be read-only",
        "ask    rm y",
        "       rm can delete or overwrite files for good.",
    ]


def test_in_chinese_only_commands_stay(tmp_path: Path) -> None:
    explained = explain("ls && touch x; rm y", tmp_path, "balanced", "default")
    assert as_text(explained, Catalog("zh")).splitlines() == [
        "决定：询问",
        "  default 模式（权限预设 balanced）要求先询问：不确定是否只读的命令。",
        "允许   ls",
        "       只读取",
        "询问   touch x",
        "       不确定是否只读",
        "询问   rm y",
        "       rm 可能永久删除或覆盖文件。",
    ]


@pytest.mark.parametrize("line", ["sudo rm x", "sh -c 'ls; rm x'", "echo $(rm x)", "ls $(", 'eval "$X"'])
def test_nothing_is_said_twice(tmp_path: Path, line: str) -> None:
    explained = explain(line, tmp_path, "balanced", "default")
    lines = [text.strip() for text in as_text(explained, ENGLISH).splitlines()]
    assert len(lines) == len(set(lines))
    assert {str(risk) for risk in explained.verdict.risks} <= set(lines)


def test_preset_mode_and_allowlist_count(tmp_path: Path) -> None:
    assert explain("ls", tmp_path, "strict", "default").decided.decision == "deny"
    assert explain("touch x", tmp_path, "balanced", "plan").decided.decision == "deny"
    assert explain("rm x", tmp_path, "balanced", "yolo").decided.decision == "allow"
    told = explain("touch x", tmp_path, "balanced", "default", allowlist=["touch"])
    assert told.decided.decision == "allow"
    told = explain("ls", tmp_path, "balanced", "default", overrides={"bash": "deny"})
    assert told.decided.decision == "deny"


def test_inner_lines_and_broken_ones(tmp_path: Path) -> None:
    told = as_data(explain("sh -c 'ls; rm x'", tmp_path, "balanced", "default"))
    assert [segment["decision"] for segment in told["segments"]] == ["ask", "allow", "ask"]
    told = as_data(explain("ls $(", tmp_path, "yolo", "default"))
    assert told["decision"] == "ask"
    assert "cannot be parsed" in told["risks"][0]
