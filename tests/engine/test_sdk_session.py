"""The SDK as the engine's door: ops, events, approvals, tools of one's own, and ends of every kind."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest

import coder
from coder.protocol.events import AnyEvent, ApprovalRequested, Failed, InputDone, Notice, TurnEnded
from coder.protocol.history import HistoryEvent
from coder.protocol.modes import CustomModesListed, InstantModeExecuted, ListCustomModes, TriggerInstantMode
from coder.protocol.ops import ApprovalReply, SetOperatingMode
from kit import Recorded, ScriptedServer
from kit.calls import bash
from kit.driving import Project

SLOW = {"text": "slow answer", "chunk": 1, "delay": 0.05}


def options(project: Project, url: str, **more: Any) -> dict[str, Any]:
    return {"cwd": project.cwd, "environ": project.environ(url), **more}


class TestResults:
    def test_a_turn_that_timed_out_does_not_shift_those_after_it(self, project: Project) -> None:
        async def scenario(url: str) -> list[coder.TurnResult]:
            async with coder.create_agent_session(**options(project, url, mode="yolo")) as session:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(session.run_turn("sleep"), 0.7)
                return [await session.run_turn("two"), await session.run_turn("three")]

        script = [{"calls": [bash("sleep 60")]}, {"text": "second"}, {"text": "third"}]
        with ScriptedServer(script) as server:
            second, third = asyncio.run(scenario(server.url))
        assert (second.final_text, third.final_text) == ("second", "third")
        assert [end["meta"]["status"] for end in project.of_type("turn_end")] == ["cancelled", "ok", "ok"]

    def test_one_given_up_while_it_waits_is_not_run_to_its_end(self, project: Project) -> None:
        async def scenario(url: str) -> list[coder.TurnResult]:
            async with coder.create_agent_session(**options(project, url)) as session:
                first = asyncio.create_task(session.run_turn("one"))
                queued = asyncio.create_task(session.run_turn("two"))
                third = asyncio.create_task(session.run_turn("three"))
                await asyncio.sleep(0.05)
                queued.cancel()
                return list(await asyncio.gather(first, third))

        with ScriptedServer([SLOW, {"text": "third"}, {"text": "x"}]) as server:
            first, third = asyncio.run(scenario(server.url))
        assert (first.final_text, third.final_text) == ("slow answer", "third")

    def test_after_close_there_is_no_turn(self, project: Project) -> None:
        async def scenario(url: str) -> coder.TurnResult:
            session = coder.create_agent_session(**options(project, url))
            running = asyncio.create_task(session.run_turn("one"))
            await asyncio.sleep(0.3)
            await session.close()
            with pytest.raises(coder.SessionClosed):
                await session.run_turn("two")
            return await running

        with ScriptedServer([{**SLOW, "text": "a" * 400}]) as server:
            assert asyncio.run(scenario(server.url)).status == "cancelled"

    def test_closed_while_it_starts_it_does_not_start(self, project: Project) -> None:
        """A server is asked for its models first, and may take its time."""

        async def scenario() -> list[str]:
            asked, closed = asyncio.Event(), asyncio.Event()

            class Slow(ScriptedServer):
                async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
                    asked.set()
                    await closed.wait()
                    await super().answer(request, writer)

            async with Slow([{"text": "late"}]) as server:
                environ = project.environ(server.url)
                del environ["CODER_MODEL"]
                session = coder.create_agent_session(cwd=project.cwd, environ=environ)
                before = asyncio.all_tasks()
                turn = asyncio.create_task(session.run_turn("one"))
                await asked.wait()
                await session.close()
                closed.set()
                with pytest.raises(coder.SessionClosed):
                    await turn
                left = asyncio.all_tasks() - before
                return [str(task.get_coro()) for task in left if "Engine" in str(task.get_coro())]

        assert asyncio.run(scenario()) == []

    @pytest.mark.thorough
    @pytest.mark.parametrize("ending", ["session.close()", "pass"])
    def test_the_record_has_its_end_also_where_nobody_waits_for_it(
        self, project: Project, ending: str
    ) -> None:
        program = (
            "import asyncio, coder\nasync def main():\n    session = coder.create_agent_session()\n"
            f"    print((await session.run_turn('hi')).status)\n    {ending}\nasyncio.run(main())\n"
        )
        with ScriptedServer([{"text": "hello"}]) as server:
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=project.cwd, env=project.environ(server.url),
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
        assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
        assert [event["type"] for event in project.events()][-1] == "session_end"

    def test_a_sink_needs_no_close(self, project: Project) -> None:
        class Sink:
            def __init__(self) -> None:
                self.seen: list[str] = []

            def append(self, event: HistoryEvent) -> None:
                self.seen.append(event.type)

            def flush(self) -> None:
                self.seen.append("flushed")

        sink = Sink()
        with ScriptedServer([{"text": "hello"}]) as server:
            result = asyncio.run(coder.run_agent("hi", **options(project, server.url, history_sinks=[sink])))
        assert (result.status, result.final_text) == ("ok", "hello")
        assert sink.seen[-2:] == ["session_end", "flushed"]

    def test_a_sink_that_raises_changes_nothing_of_turn_and_record(self, project: Project) -> None:
        class Sink:
            def append(self, event: HistoryEvent) -> None:
                raise ValueError("full")

            def flush(self) -> None:
                raise OSError("gone")

        told: list[AnyEvent] = []
        more = {"history_sinks": [Sink()], "on_event": told.append}
        with ScriptedServer([{"text": "hello"}]) as server:
            result = asyncio.run(coder.run_agent("hi", **options(project, server.url, **more)))
        assert (result.status, result.final_text, result.error) == ("ok", "hello", "")
        kinds = [event["type"] for event in project.events()]
        assert kinds == ["session_start", "turn_start", "assistant", "final", "turn_end", "session_end"]
        (warned,) = [str(event.text) for event in told if isinstance(event, Notice)]
        assert warned.startswith("The history sink Sink failed (ValueError: full)")

    def test_a_sink_that_cannot_be_closed_is_named(self, project: Project) -> None:
        class Sink:
            def append(self, event: HistoryEvent) -> None: ...

            def flush(self) -> None: ...

            def close(self) -> None:
                raise ValueError("full")

        told: list[AnyEvent] = []
        more = {"history_sinks": [Sink()], "on_event": told.append}
        with ScriptedServer([{"text": "hello"}]) as server:
            asyncio.run(coder.run_agent("hi", **options(project, server.url, **more)))
        assert not [event for event in told if isinstance(event, Failed)]
        (warned,) = [str(event.text) for event in told if isinstance(event, Notice)]
        assert warned.startswith("The history sink Sink failed (ValueError: full)")

    @pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
    def test_what_a_callback_raises_is_raised_by_the_turn(
        self, project: Project, error: type[BaseException]
    ) -> None:
        def on_event(event: AnyEvent) -> None:
            if isinstance(event, TurnEnded) and event.turn == 1:
                raise error("mine")

        async def scenario(url: str) -> coder.TurnResult:
            async with coder.create_agent_session(**options(project, url, on_event=on_event)) as session:
                with pytest.raises(error, match="mine"):
                    await session.run_turn("one")
                return await session.run_turn("two")

        with ScriptedServer([{"text": "first"}, {"text": "second"}]) as server:
            assert asyncio.run(scenario(server.url)).final_text == "second"

    def test_an_approval_that_was_cancelled_ends_the_turn(self, project: Project) -> None:
        async def approve(event: ApprovalRequested) -> bool:
            raise asyncio.CancelledError

        async def scenario(url: str) -> coder.TurnResult:
            async with coder.create_agent_session(**options(project, url, approve=approve)) as session:
                with pytest.raises(asyncio.CancelledError):
                    await session.run_turn("one")
                return await session.run_turn("two")

        with ScriptedServer([{"calls": [bash("touch a.txt")]}, {"text": "second"}]) as server:
            assert asyncio.run(scenario(server.url)).final_text == "second"


class TestOps:
    def test_any_op_goes_in_and_every_event_comes_out(self, project: Project) -> None:
        project.write(".coder/modes/go.md", "---\nkind: instant\n---\nGo on.\n")

        async def scenario(url: str) -> list[AnyEvent]:
            session = coder.create_agent_session(**options(project, url, interactive=True))
            seen: list[AnyEvent] = []
            await session.submit(ListCustomModes())
            await session.submit(TriggerInstantMode("/go"))
            async for event in session.events():
                seen.append(event)
                if isinstance(event, ApprovalRequested):
                    await session.submit(ApprovalReply(event.approval_id, "yes"))
                if isinstance(event, InputDone) and event.op == "trigger_instant_mode":
                    await session.submit(SetOperatingMode("plan"))
                    await session.close()
            return seen

        with ScriptedServer([{"calls": [bash("touch a.txt")]}, {"text": "done"}]) as server:
            seen = asyncio.run(scenario(server.url))
        assert (project.cwd / "a.txt").exists()
        kinds = {type(event) for event in seen}
        assert {CustomModesListed, InstantModeExecuted, TurnEnded, ApprovalRequested} <= kinds

    @pytest.mark.parametrize(
        ("answer", "made"), [(True, True), ("always", True), (False, False), ("no", False)]
    )
    def test_approvals_may_be_async(self, project: Project, answer: Any, made: bool) -> None:
        async def approve(event: ApprovalRequested) -> Any:
            await asyncio.sleep(0)
            return answer

        with ScriptedServer([{"calls": [bash("touch a.txt")]}, {"text": "done"}]) as server:
            asyncio.run(coder.run_agent("go", **options(project, server.url, approve=approve)))
        assert (project.cwd / "a.txt").exists() is made

    @pytest.mark.parametrize(
        "answer",
        [{"approved": False}, 1, object(), "nope", ApprovalReply("other", "deny")],  # type: ignore[arg-type] # as a program may
    )
    def test_an_answer_that_is_none_is_no_yes(self, project: Project, answer: Any) -> None:
        with (
            ScriptedServer([{"calls": [bash("touch a.txt")]}, {"text": "done"}]) as server,
            pytest.raises(ValueError, match="it answers True, False, "),
        ):
            asyncio.run(coder.run_agent("go", **options(project, server.url, approve=lambda event: answer)))
        assert not (project.cwd / "a.txt").exists()

    def test_an_answer_is_about_what_was_asked(self, project: Project) -> None:
        """Whatever id it has: nobody else would answer."""
        with ScriptedServer([{"calls": [bash("touch a.txt")]}, {"text": "done"}]) as server:
            given = options(project, server.url, approve=lambda event: ApprovalReply("other", "yes"))
            asyncio.run(coder.run_agent("go", **given))
        assert (project.cwd / "a.txt").exists()

    @pytest.mark.parametrize("op", ["hello", None, ApprovalReply("x", "deny"), SetOperatingMode("root")])  # type: ignore[arg-type] # as a program may
    def test_what_is_no_op_is_not_taken(self, project: Project, op: Any) -> None:
        async def scenario(url: str) -> None:
            async with coder.create_agent_session(**options(project, url)) as session:
                with pytest.raises(ValueError, match=r"Expected|Invalid"):
                    await session.submit(op)

        with ScriptedServer([]) as server:
            asyncio.run(scenario(server.url))

    def test_limits_and_sampling(self, project: Project) -> None:
        with ScriptedServer([{"text": "hi"}]) as server:
            more = {"temperature": 0.25, "tokenizer": "cl100k_base"}
            asyncio.run(coder.run_agent("hello", **options(project, server.url, **more)))
            assert server.chats[0]["temperature"] == 0.25
            result = asyncio.run(
                coder.run_agent("hello", **options(project, server.url, max_prompt_tokens=10))
            )
        assert result.status == "prompt_limit"

    def test_without_a_loop(self, project: Project) -> None:
        with ScriptedServer([{"text": "one"}, {"text": "two"}, {"text": "three"}]) as server:
            with coder.SyncSession(**options(project, server.url)) as session:
                assert [session.run_turn("a").final_text, session.run_turn("b").final_text] == ["one", "two"]
            assert coder.run_agent_sync("c", **options(project, server.url)).final_text == "three"

    def test_inside_a_loop_it_says_what_to_call(self, recwarn: pytest.WarningsRecorder) -> None:
        async def wrong(call: Callable[[], object]) -> None:
            call()

        for call, named in (
            (lambda: coder.run_agent_sync("x"), "run_agent"),
            (coder.SyncSession, "create_agent"),
        ):
            with pytest.raises(RuntimeError, match=f"call coder.{named}"):
                asyncio.run(wrong(call))
        gc.collect()
        assert not [str(one.message) for one in recwarn]

    def test_what_can_never_work_is_told_at_once(self) -> None:
        async def on_event(event: AnyEvent) -> None: ...

        class Awaiting:
            async def __call__(self, event: AnyEvent) -> None: ...

        for wrong in (on_event, Awaiting()):
            with pytest.raises(TypeError, match="on_event is a plain function"):
                coder.create_agent_session(on_event=wrong)  # type: ignore[arg-type] # as a program may
        with pytest.raises(TypeError, match=r"put @coder[.]tool above the function"):
            coder.create_agent_session(tools=[len])  # type: ignore[list-item] # as a program may

    def test_every_step_has_an_index_of_its_own(self, project: Project) -> None:
        script = [{"calls": [bash("true")]}, {"text": "done"}]
        with ScriptedServer(script) as server:
            result = asyncio.run(coder.run_agent("1. read it 2. mend it", **options(project, server.url)))
        assert [(step.index, step.text) for step in result.steps] == [(0, ""), (1, ""), (2, "done")]


class Stop(msgspec.Struct):
    place: str
    minutes: int = 5


class TestTools:
    def call(self, project: Project, tools: list[Any], *calls: dict[str, Any], **more: Any) -> list[str]:
        with ScriptedServer([{"calls": list(calls)}, {"text": "done"}]) as server:
            asyncio.run(coder.run_agent("go", **options(project, server.url, tools=tools, **more)))
            self.sent = server.chats[0]
        return [event["content"] for event in project.of_type("observation")]

    def test_a_function_is_a_tool(self, project: Project) -> None:
        @coder.tool(read_only=True)
        async def route(
            to: Annotated[str, "the town"], stops: list[Stop], fast: bool = False
        ) -> dict[str, Any]:
            """How to get there."""
            return {"to": to, "minutes": sum(stop.minutes for stop in stops), "fast": fast}

        arguments = {"to": "Ulm", "stops": [{"place": "Linz"}, {"place": "Graz", "minutes": 7}]}
        wrong = {"name": "route", "arguments": {"to": "Ulm", "stops": "none"}}
        told, refused = self.call(
            project, [route], {"name": "route", "arguments": arguments}, wrong, mode="plan"
        )
        assert json.loads(told) == {"to": "Ulm", "minutes": 12, "fast": False}
        assert refused.startswith("error: ")
        (spec,) = [t["function"] for t in self.sent["tools"] if t["function"]["name"] == "route"]
        assert spec["description"] == "How to get there."
        assert spec["parameters"]["properties"]["to"] == {"type": "string", "description": "the town"}
        assert spec["parameters"]["required"] == ["to", "stops"]
        assert "$ref" not in json.dumps(spec)

    def test_one_that_acts_is_asked_about(self, project: Project) -> None:
        ran: list[str] = []

        @coder.tool
        def send(text: str) -> str:
            """Send it."""
            ran.append(text)
            return "sent"

        call = {"name": "send", "arguments": {"text": "hi"}}
        (denied,) = self.call(project, [send], call)
        assert "needs a person's approval" in denied
        project.logs()[0].unlink()
        assert self.call(project, [send], call, approve=lambda event: True) == ["sent"]
        project.logs()[0].unlink()
        project.configure(permission={"tools": {"send": "deny"}})
        (denied,) = self.call(project, [send], call, approve=lambda event: True)
        assert denied.startswith("denied: ")
        assert ran == ["hi"]

    def test_what_it_raises_is_told_to_the_model(self, project: Project) -> None:
        @coder.tool(read_only=True)
        def broken(context: coder.ToolContext) -> str:
            """Breaks."""
            raise RuntimeError(f"no luck in {context.workspace.root.name}")

        (told,) = self.call(project, [broken], {"name": "broken", "arguments": {}})
        assert told == "error: RuntimeError: no luck in project"

    @pytest.mark.parametrize("leaves", [True, False])
    def test_nor_does_it_end_the_session(self, project: Project, leaves: bool) -> None:
        @coder.tool(read_only=True)
        async def odd() -> object:
            """Leaves, or answers with what has no JSON form."""
            return sys.exit(3) if leaves else object()

        (told,) = self.call(project, [odd], {"name": "odd", "arguments": {}})
        assert told.startswith("error: SystemExit: 3" if leaves else "error: TypeError: Encoding objects")

    def test_nor_does_what_is_no_exception(self, project: Project) -> None:
        class Skipped(BaseException):
            """As test runners raise it."""

        @coder.tool(read_only=True)
        def odd() -> str:
            """Raise it."""
            raise Skipped("today")

        assert self.call(project, [odd], {"name": "odd", "arguments": {}}) == ["error: Skipped: today"]

    @pytest.mark.parametrize("where", ["run", "argument", "command"])
    def test_nor_does_one_of_a_class_of_its_own(self, project: Project, where: str) -> None:
        class Skipped(BaseException):
            """As test runners raise it."""

        def raises(*_args: object) -> Any:
            raise Skipped("today")

        made = coder.tool(name="odd", read_only=True)(lambda: "")
        odd = type("Odd", (type(made),), {where: raises, "kind": "runs" if where == "command" else "looks"})
        made.__class__ = odd
        (told,) = self.call(project, [made], {"name": "odd", "arguments": {}})
        assert told.startswith("error: ")
        assert told.endswith("Skipped: today")

    def test_what_cannot_be_offered_is_told_at_once(self, project: Project) -> None:
        with pytest.raises(TypeError, match="the parameter x needs a type"):
            coder.tool(name="f")(lambda x: x)
        with pytest.raises(TypeError, match="is no name for a tool"):
            coder.tool(name="two words")(lambda: "")
        taken = coder.tool(name="bash")(lambda: "")
        with pytest.raises(Exception, match="a tool called bash already"):
            asyncio.run(coder.run_agent("go", **options(project, "http://127.0.0.1:9", tools=[taken])))
