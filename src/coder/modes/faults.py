"""Errors of modes: a message id, with the variable and line."""

from __future__ import annotations

from coder.context.frontmatter import HeadFault
from coder.protocol.modes import ModeError, ModeErrorCode
from coder.texts import Fault, Phrase


class ModeFault(Fault):
    """An untranslated error; becomes a `ModeError` in the person's language."""

    def __init__(
        self,
        what: str | Phrase,
        /,
        *,
        code: ModeErrorCode,
        variable: str | None = None,
        line: int = 0,
        **values: object,
    ) -> None:
        super().__init__(what, **values)
        self.code: ModeErrorCode = code
        self.variable = variable
        self.line = line

    def error(self, mode_id: str, file: str = "") -> ModeError:
        """With `file`, the message starts with file and line."""
        message = self.phrase
        if file:
            message = (f"{file}:{self.line}: " if self.line else f"{file}: ") + message
        return ModeError(
            mode_id=mode_id, message=message, variable=self.variable, code=self.code, line=self.line
        )


def fault_of_head(fault: HeadFault) -> ModeFault:
    """A frontmatter error as an error of the mode."""
    return ModeFault(fault.phrase, code="file", line=fault.line)
