"""Wires: one directory for each API that models are reached by; `client.py` has what they share.

A wire's directory exports its `HttpWire` and imports no other wire; `make.py` imports the ones in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.models.wires import answer_stream as answer_stream
    from coder.models.wires import chat_completions as chat_completions
    from coder.models.wires import chat_completions_stream as chat_completions_stream
    from coder.models.wires import gemini as gemini
    from coder.models.wires import gemini_stream as gemini_stream
    from coder.models.wires import messages_api as messages_api
    from coder.models.wires import messages_stream as messages_stream
    from coder.models.wires import responses as responses
    from coder.models.wires import responses_stream as responses_stream

__getattr__ = submodules(__name__)
