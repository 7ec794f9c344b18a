"""What the tests of custom modes at the terminal share: looking below the prompt, and modes made by hand."""

from __future__ import annotations

from pty_kit import Terminal

from coder.protocol.modes import (
    CustomModesListed,
    ModeDefinition,
    ModeScope,
    ModeVariable,
    ModeVariableState,
    RenderedMode,
    ValueSource,
)

LEFT, RIGHT, SHIFT_TAB = "\x1b[D", "\x1b[C", "\x1b[Z"

_SCOPE = ModeScope("project", "(project:x)", "/x")


def below(terminal: Terminal) -> list[str]:
    """The rows under the prompt, without vim's mode and what the bar's line says of its keys."""
    rows = terminal.screen.split("\n")
    prompts = [n for n, row in enumerate(rows) if row.startswith("[")]
    found = rows[prompts[-1] + 1 :] if prompts else []
    return [row.partition("   ↓ ")[0] for row in found if not row.startswith("-- ")]


def shows(terminal: Terminal, *rows: str) -> None:
    """Wait for exactly these rows under the prompt."""
    try:
        terminal.until(lambda: below(terminal) == list(rows))
    except AssertionError:
        raise AssertionError(f"wanted {rows}\nthere is {below(terminal)}") from None


def listed_there(terminal: Terminal, name: str) -> None:
    """Modes are listed after the prompt is there; from then on `/name` and Enter is that mode."""
    terminal.until_idle()
    terminal.type(f"/{name}")
    terminal.until(lambda: f"› /{name}" in terminal.screen)
    terminal.type("\x15")
    terminal.until_idle()


# by hand


def definition(mode_id: str, variables: list[ModeVariable]) -> ModeDefinition:
    return ModeDefinition(
        mode_id=mode_id,
        display_name=mode_id[1:],
        scope=_SCOPE,
        path="/x",
        kind="persistent",
        variables=variables,
        command=mode_id,
    )


def listed(*definitions: ModeDefinition) -> CustomModesListed:
    return CustomModesListed(list(definitions))


def state(name: str, value: str | None, default: str | None = None) -> ModeVariableState:
    source: ValueSource = "explicit" if value is not None else "unset"
    return ModeVariableState(
        name=name, type="text", value=value, is_valid=True, source=source, required=False, default=default
    )


def rendered(one: ModeDefinition, **states: ModeVariableState) -> RenderedMode:
    variables = [states.get(v.name) or state(v.name, None, v.default) for v in one.variables]
    return RenderedMode(one.mode_id, one.display_name, one.scope, variables, "text")
