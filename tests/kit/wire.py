"""The requests of a session: which are side requests, whether one grows out of another, how long they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from coder.context.compaction import INSTRUCTION
from coder.context.conversation import Conversation, TokenCounter
from coder.engine import continuation, routing
from coder.protocol.messages import Message, ToolSpec
from kit import Chaos, Recorded
from kit.driving import Driver, Project, drive

Chat = dict[str, Any]
SIDE_REQUESTS = {INSTRUCTION: "summary", routing._CLASSIFY: "routing", continuation._QUESTION: "next_speaker"}

_COUNTER = TokenCounter("o200k_base")  # loaded once: it takes longer than most tests


def asked(project: Project, script: Sequence[Any], inputs: Sequence[str], **options: Any) -> list[Recorded]:
    """The requests of a session, with their headers."""
    with Chaos(script) as server:
        drive(project, server.url, inputs, **options)
        return list(server.requests)


def by_place(main: Sequence[Any], **side_requests: Any) -> list[Callable[[Chat], Any]]:
    """A script: the conversation is answered in order, each kind of side request by one answer
    (or by a list of them in order)."""
    turns = iter(main)
    others = {name: iter(one) if isinstance(one, list) else None for name, one in side_requests.items()}

    def answer(request: Chat) -> Any:
        place = place_of(request)
        if place == "main":
            turn = next(turns)
            return turn(request) if callable(turn) else turn
        given = others[place]
        return side_requests[place] if given is None else next(given)

    return [answer] * 500


def place_of(chat: Chat) -> str:
    return SIDE_REQUESTS.get(chat["messages"][0]["content"], "main")


def main_chats(driver: Driver) -> list[Chat]:
    return [chat for chat in driver.chats if place_of(chat) == "main"]


def side_requests(driver: Driver, place: str) -> list[Chat]:
    return [chat for chat in driver.chats if place_of(chat) == place]


def grows(before: Chat, after: Chat) -> bool:
    """Whether a provider's cache of the one request serves the other: no byte that was sent differs."""
    return as_bytes(before["tools"]) == as_bytes(after["tools"]) and as_bytes(after["messages"]).startswith(
        as_bytes(before["messages"])[:-1]
    )


def as_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def prompt_tokens(chat: Chat) -> int:
    conversation = Conversation(_COUNTER, msgspec.convert(chat.get("tools", []), list[ToolSpec]))
    conversation.replace(msgspec.convert(chat["messages"], list[Message]))
    return conversation.tokens()


def words(count: int, prefix: str = "w") -> str:
    """So many words, no two alike; about two and a half tokens each."""
    return " ".join(f"{prefix}{n}" for n in range(count))
