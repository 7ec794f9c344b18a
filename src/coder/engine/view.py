"""Read model of the engine for front ends, which change it by ops only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coder.config.schema import OperatingMode

if TYPE_CHECKING:
    from coder.engine.agent import Agent
    from coder.history.rewound import EarlierMessage
    from coder.history.search.query import FoundSession
    from coder.history.store import SessionInfo
    from coder.protocol.events import PastTurn
    from coder.protocol.history import HistoryEvent


class EngineView:
    """The current state; the session may change while a front end runs."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def session_id(self) -> str:
        return self._agent.session.id

    @property
    def is_recorded(self) -> bool:
        """Whether there is anything to resume."""
        return self._agent.place.store.exists(self.session_id)

    @property
    def is_waiting(self) -> bool:
        """Whether a resumed session has a pending approval, which the engine requests again."""
        return self._agent.session.pending is not None

    @property
    def step(self) -> int:
        return self._agent.session.log.step

    @property
    def model(self) -> str:
        return self._agent.chosen.name

    @property
    def configured_models(self) -> list[str]:
        """The configured models, deduplicated."""
        config = self._agent.config
        names = (config.provider.model, config.routing.fast, config.routing.strong, *config.budget.prices)
        return [name for name in dict.fromkeys(names) if name]

    @property
    def mode(self) -> OperatingMode:
        return self._agent.mode

    @property
    def root(self) -> Path:
        return self._agent.root

    @property
    def environment(self) -> Mapping[str, str]:
        """For programs that a front end starts; without provider keys."""
        return self._agent.place.environment

    def resources(self, server: str, changed: Callable[[], None]) -> list[tuple[str, str]]:
        """URI and name of what a running MCP server has listed; `changed` is called once these are others."""
        servers = self._agent.mcp.all if self._agent.mcp is not None else {}
        if server not in servers:
            return []
        return [(one.uri, one.name) for one in servers[server].resources(changed)]

    @property
    def outputs(self) -> Path:
        """Where the session keeps outputs that are too long for the record."""
        return self._agent.session.outputs

    def history(self) -> Iterator[HistoryEvent]:
        """The record of the conversation as it is now."""
        if not self.is_recorded:
            return iter(())
        from coder.history.rewound import current_log

        return current_log(self._agent.place.store.log_path(self.session_id))

    def messages(self) -> list[EarlierMessage]:
        """The person's messages that the conversation can be taken back to, oldest first."""
        if not self.is_recorded:
            return []
        from coder.history.rewound import earlier_messages

        return earlier_messages(self._agent.place.store.log_path(self.session_id))

    def recent_turns(self, session_id: str) -> list[PastTurn]:
        """The last turns of a session, shortened."""
        from coder.history.rewound import RecentTurns, current_log

        recent = RecentTurns()
        for event in current_log(self._agent.place.store.log_path(session_id)):
            recent.take(event)
        return recent.turns

    def search(self, words: str, most: int) -> list[FoundSession]:
        """Sessions recorded in this directory in which the words occur."""
        from coder.history.search.database import SearchIndexError
        from coder.history.search.query import search

        place = self._agent.place
        try:
            return search(place.home, [place.project.history], words, most)
        except SearchIndexError:
            return []

    def sessions(self, most: int) -> list[SessionInfo]:
        """Recorded in this directory, newest first."""
        return self._agent.place.store.infos(most)

    def allowed_commands(self) -> Sequence[str]:
        """What the person has allowed with `always`."""
        return self._agent.place.allowed.names()
