"""`coder explain`: the whole decision and each segment's, with the reason."""

from __future__ import annotations

from pathlib import Path

from coder.policy.explain import as_text, explain


def test_segment_by_segment(tmp_path: Path) -> None:
    told = explain("ls && touch x; rm y", tmp_path, "balanced", "default")
    assert told["decision"] == "ask"
    assert [segment["command"] for segment in told["segments"]] == ["ls", "touch x", "rm y"]
    assert [segment["decision"] for segment in told["segments"]] == ["allow", "ask", "ask"]
    assert any("rm" in risk for risk in told["risks"])
    assert all(segment["rule"] for segment in told["segments"])
    text = as_text(told)
    assert text.startswith("decision: ask")
    assert "touch x" in text
    assert "rm can delete" in text


def test_preset_mode_and_allowlist_count(tmp_path: Path) -> None:
    assert explain("ls", tmp_path, "strict", "default")["decision"] == "deny"
    assert explain("touch x", tmp_path, "balanced", "plan")["decision"] == "deny"
    assert explain("rm x", tmp_path, "balanced", "yolo")["decision"] == "allow"
    assert explain("touch x", tmp_path, "balanced", "default", allowlist=["touch"])["decision"] == "allow"
    assert explain("ls", tmp_path, "balanced", "default", overrides={"bash": "deny"})["decision"] == "deny"


def test_inner_lines_and_broken_ones(tmp_path: Path) -> None:
    told = explain("sh -c 'ls; rm x'", tmp_path, "balanced", "default")
    assert [segment["decision"] for segment in told["segments"]] == ["ask", "allow", "ask"]
    told = explain("ls $(", tmp_path, "yolo", "default")
    assert told["decision"] == "ask"
    assert "cannot be read" in told["risks"][0]
