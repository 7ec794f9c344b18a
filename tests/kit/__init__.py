"""What tests of all rooms share: the scripted model, and one that breaks in every way."""

from __future__ import annotations

from coder.models.scripted import Recorded, ScriptedServer
from kit.chaos import Chaos
from kit.models import FakeModel, ask, collect, text_of

__all__ = ["Chaos", "FakeModel", "Recorded", "ScriptedServer", "ask", "collect", "text_of"]
