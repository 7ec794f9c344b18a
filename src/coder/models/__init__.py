"""Who answers: the `ChatModel` protocol, one file per wire, the dialects, the scripted model.

Knows HTTP and the providers' JSON; knows nothing of tools, policy, sessions or screens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.models import arguments as arguments
    from coder.models import errors as errors
    from coder.models import guided as guided
    from coder.models import react as react
    from coder.models import salvage as salvage

__getattr__ = submodules(__name__)
