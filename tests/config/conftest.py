"""What every test of this room starts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.place import Place


@pytest.fixture(autouse=True)
def _typos_in_text_keys_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_STRICT_TEXTS", "1")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
