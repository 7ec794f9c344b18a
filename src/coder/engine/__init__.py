"""The loop: dispatch, turn, step, tool calls, verification, guards, commands, undo.

Ops in, events out. Start reading at `turn.py`: one turn, top to bottom. Modules that a turn may not need are
reached as `engine.NAME`, which imports them at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.engine import approval as approval
    from coder.engine import bang as bang
    from coder.engine import call_progress as call_progress
    from coder.engine import calls as calls
    from coder.engine import commands as commands
    from coder.engine import compact as compact
    from coder.engine import continuation as continuation
    from coder.engine import git_state as git_state
    from coder.engine import hook_points as hook_points
    from coder.engine import isolation as isolation
    from coder.engine import join_answers as join_answers
    from coder.engine import mcp_session as mcp_session
    from coder.engine import network as network
    from coder.engine import notes as notes
    from coder.engine import plugins as plugins
    from coder.engine import resume as resume
    from coder.engine import session_images as session_images
    from coder.engine import setup as setup
    from coder.engine import side_request as side_request
    from coder.engine import subagent as subagent
    from coder.engine import verify as verify

__getattr__ = submodules(__name__)
