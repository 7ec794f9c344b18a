"""The guided dialect, for small models: one JSON action per answer, constrained by a schema.

What an action needs as free text (a file's, the answer's) is asked for by itself, and an action without an
alternative is not asked for at all. A pure function of the conversation: `state.py` reads from it what was
seen and done; `opening.py` looks at the workspace without asking the model; `actions.py` has the actions that
make sense now, their schema and the calls that they become; `faults.py` says what is wrong with a new text,
`rewrite.py` has one function written anew; `render.py` shows all that to the model in few words; `dialect.py`
is the adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.models.guided import guided_dialect as guided_dialect

__getattr__ = submodules(__name__)
