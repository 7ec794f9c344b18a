"""Front ends for programs: the Agent Client Protocol on stdio, for editors (`coder acp`).

Like every front end they send ops and read events; they do not reach into the engine or the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.ui import json_input as json_input
    from coder.ui import once as once

__getattr__ = submodules(__name__)
