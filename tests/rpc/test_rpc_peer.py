"""Two peers at one table: each asks the other, and nobody waits for what cannot come."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from coder.base import rpc
from coder.base.rpc import Gone, Json, Method, Peer, ResultThen, RpcError


class Side(Peer):
    """Sends to the other side in the next round of the loop, as a wire would."""

    other: Side

    def __init__(self, **methods: Any) -> None:
        super().__init__({name: Method(dict[str, Any], run) for name, run in methods.items()})
        self.sent: list[Json] = []
        self.logged: list[str] = []

    def send(self, message: Json, session: str = "") -> None:
        self.sent.append(message)
        asyncio.get_running_loop().call_soon(self.other.take, msgspec.json.encode(message))

    def log(self, text: str) -> None:
        self.logged.append(text)


def joined(one: Side, two: Side) -> None:
    one.other, two.other = two, one


async def ask(side: Side, method: str, params: Any) -> Any:
    async with asyncio.timeout(60):
        return msgspec.json.decode(await side.ask(method, params, ""))


def test_both_ask_and_both_answer_out_of_order() -> None:
    async def scenario() -> None:
        first_done = asyncio.Event()
        then: list[str] = []

        async def slow(params: Json) -> Any:
            await first_done.wait()
            return {"slow": params}

        async def quick(params: Json) -> ResultThen:
            back = await ask(two, "double", {"n": params["n"]})  # asked in the middle of being asked
            first_done.set()
            return ResultThen(back, lambda: then.append("sent"))

        async def double(params: Json) -> int:
            return int(params["n"]) * 2

        one, two = Side(double=double), Side(slow=slow, quick=quick)
        joined(one, two)
        found = list(await asyncio.gather(ask(one, "slow", {"a": 1}), ask(one, "quick", {"n": 21})))
        assert found == [{"slow": {"a": 1}}, 42]
        assert then == ["sent"]

    asyncio.run(scenario())


def test_errors_are_answers_and_notifications_have_none() -> None:
    async def scenario() -> None:
        async def wrong(params: Json) -> None:
            raise RpcError(-5, "no", {"why": "x"})

        async def broken(params: Json) -> None:
            raise ValueError("inside")

        one, two = Side(), Side(wrong=wrong, broken=broken)
        joined(one, two)
        for method in ("wrong", "broken", "missing"):
            with pytest.raises(RpcError):
                await ask(one, method, {})
        codes = [message["error"]["code"] for message in two.sent]
        assert codes == [-5, rpc.INTERNAL, rpc.METHOD_NOT_FOUND]
        assert two.sent[0]["error"] == {"code": -5, "message": "no", "data": {"why": "x"}}
        one.tell("wrong", {}, "")
        await asyncio.sleep(0)
        await two.settled(10)
        assert two.logged == ["'wrong': no"]
        assert len(two.sent) == 3

    asyncio.run(scenario())


def test_an_answer_that_nobody_waits_for_ends_nothing_and_hanging_up_ends_all_waiting() -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def silent(params: Json) -> None:
            await never.wait()

        one, two = Side(), Side(silent=silent)
        joined(one, two)
        given_up = asyncio.ensure_future(one.ask("silent", {}, ""))
        waits = asyncio.ensure_future(one.ask("silent", {}, ""))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        one.take(b'{"jsonrpc": "2.0", "id": 1, "result": 7}')
        one.take(b'{"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "late"}}')
        assert not waits.done()
        one.hang_up()
        with pytest.raises(Gone):
            await waits
        assert [message["method"] for message in one.sent] == ["silent", "silent"]
        never.set()
        await two.settled(10)

    asyncio.run(scenario())
