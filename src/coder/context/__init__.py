"""The model's context: system prompt, project instructions, environment, token counts, compaction.

Every injected item is bounded, with the reason beside the bound. Between compactions the conversation is
only appended to, so that the provider's prompt cache holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.context import attachments as attachments

__getattr__ = submodules(__name__)
