"""What is told of the place that a session works in, so that the model spends no step finding it out."""

from __future__ import annotations

from coder.config.schema import SandboxSection
from coder.context.prompt import environment_text
from coder.engine.desk import Desk
from coder.engine.verify_choice import project_check


def environment_of(desk: Desk) -> str:
    """For the system message: what holds for the whole session."""
    workflow = desk.config.workflow
    check = project_check(workflow.verify_commands, desk.root, workflow.verify_allow)
    return environment_text(desk.root, test_command=check, commands=_commands(desk.config.sandbox))


def _commands(sandbox: SandboxSection) -> str:
    """By the settings alone: which sandbox holds here is tried out with the first command."""
    if sandbox.mode == "off":
        return "run without a sandbox"
    more = "".join(f", {place}" for place in sandbox.writable)
    network = "on" if sandbox.network else "off"
    return (
        f"run in a sandbox: they may write the workspace, /tmp (yours, kept between commands){more}; the "
        f"rest of the disk is read-only, .git/config and hooks are closed; network {network}. Lines that "
        "only look run unasked, with everything but $TMPDIR read-only and no network"
    )
