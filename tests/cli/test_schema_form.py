"""The JSON form of ops and events, which programs are written against, as it was agreed."""

from __future__ import annotations

from pathlib import Path

from coder.cli.schema import typescript

AGREED = Path(__file__).parent / "protocol.ts"


def without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("/")]


def test_the_form_is_what_programs_were_promised() -> None:
    """A change on purpose: `coder schema --ts > tests/cli/protocol.ts`. What is a phrase inside the engine is
    a string here, in the language of the front end that writes it."""
    agreed = AGREED.read_text(encoding="utf-8")
    assert without_comments(typescript()) == without_comments(agreed)
