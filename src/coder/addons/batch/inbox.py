"""What all attempts report and ask: the answers by the limits, and the news that wait for the driver.

No locks here: on one machine `local` guards it, on a cluster it is inside an actor.
"""

from __future__ import annotations

import msgspec

from coder.addons.batch.channel import Answered, Ask, Done, Failed, FromTask, Grew, Permit, Throttled
from coder.addons.batch.limits import Limits

_MUCH = 1 << 20  # bytes
_HEADROOM = 1.25
MOST_WAITING = 32 << 20  # bytes of news; whoever brings more waits until the driver has taken some


class News(msgspec.Struct, frozen=True):
    """Something that an attempt reported. `Ended`: nothing of it runs any more."""

    task: str
    attempt: int
    what: Began | Grew | Held | Answered | Throttled | Done | Ended


class Began(msgspec.Struct, frozen=True, tag=True):
    """The attempt runs, on a cluster: it has been given a node."""

    node: str = ""


class Held(msgspec.Struct, frozen=True, tag=True):
    """Up to this many USD may be under way in the attempt's requests: written down, so that they count where
    the driver is killed."""

    usd: float


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The attempt's processes and directories are gone. `why` is set where it could not be run at all.
    `charged`: what it counts for in the budget."""

    why: str = ""
    charged: float = 0.0


class Inbox:
    """One for a batch."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting = 0  # bytes
        self._urgent = False
        self._news: list[News] = []
        self._held: dict[str, float] = {}  # by task, as told to the driver

    def take(self, task: str, attempt: int, messages: list[FromTask]) -> list[Permit]:
        """Take an attempt's messages in order; returns the answers to its questions."""
        permits = []
        for message in messages:
            match message:
                case Ask(number, provider, reserve):
                    answer = self.limits.ask(task, number, provider, reserve)
                    permits.append(Permit(number, answer.wait, answer.refused))
                    self._tell_held(task, attempt)
                case Throttled(number, provider, retry_after):
                    self.limits.throttled(task, number, provider, retry_after)
                    self.put(News(task, attempt, message))
                case Failed(number):
                    self.limits.failed(task, number)
                case Answered(number, provider, cost):
                    self.limits.answered(task, number, provider, cost)
                    self.put(News(task, attempt, message))
                case Grew() | Done():
                    self.put(News(task, attempt, message))
        return permits

    def put(self, news: News) -> None:
        if isinstance(news.what, Ended):
            self._urgent = True
            self._held.pop(news.task, None)
            charged = self.limits.gone(news.task)
            news = News(news.task, news.attempt, Ended(news.what.why, charged))
        elif isinstance(news.what, Grew):
            self.waiting += len(news.what.data)
        self._news.append(news)

    def _tell_held(self, task: str, attempt: int) -> None:
        """A little more each time, so that it is told a few times for an attempt, not for every request."""
        held = self.limits.held(task)
        if held > self._held.get(task, 0.0):
            self._held[task] = held * _HEADROOM
            self._urgent = True
            self.put(News(task, attempt, Held(self._held[task])))

    @property
    def urgent(self) -> bool:
        """Whether to wake the driver: an attempt has ended or holds more, or much waits. The rest is told
        with that, or when the driver looks by itself, so that it is not woken for every line of a record."""
        return self._urgent or self.waiting >= _MUCH

    def drain(self) -> list[News]:
        news, self._news = self._news, []
        self.waiting, self._urgent = 0, False
        return news
