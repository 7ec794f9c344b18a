"""The loop itself, against a scripted model over HTTP: order, parallel calls, notes, limits, faults."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from coder.protocol.events import (
    CommandDone,
    Content,
    Failed,
    Notice,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.ops import ApprovalReply, UserInput
from coder.tools.bash import Bash
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, drive, of


def test_parallel_calls_are_answered_in_the_order_asked(project: Project) -> None:
    for name in "abc":
        project.write(f"{name}.txt", f"text of {name}\n")
    calls = [call("read", f"id_{n}", path=f"{n}.txt") for n in "abc"]
    with ScriptedServer([{"calls": calls}, {"text": "done"}]) as server:
        drive(project, server.url, ["read them"])
        messages = server.chats[1]["messages"]
    assert [m.get("tool_call_id") for m in messages[-3:]] == ["id_a", "id_b", "id_c"]
    assert [f"text of {n}" in m["content"] for n, m in zip("abc", messages[-3:], strict=True)] == [True] * 3
    assert [c["id"] for c in messages[-4]["tool_calls"]] == ["id_a", "id_b", "id_c"]


def test_a_tool_call_goes_through_its_states(project: Project) -> None:
    with ScriptedServer([{"calls": [call("list")]}, {"text": "done"}]) as server:
        driver = drive(project, server.url, ["look"])
    assert [e.state for e in of(driver.seen, ToolCallChanged)] == ["scheduled", "executing", "success"]


def test_faulty_calls_are_answered_and_the_turn_goes_on(project: Project) -> None:
    calls = [
        call("nonsense", "c1"),
        {"name": "read", "arguments": '{"path": ', "id": "c2"},
        call("read", "c3"),
        call("read", "c4", path="a", colour="red"),
        call("read", "c5", path="missing.txt"),
    ]
    with ScriptedServer([{"calls": calls}, {"text": "sorry"}]) as server:
        driver = drive(project, server.url, ["go"])
        told = [m for m in server.chats[1]["messages"] if m["role"] == "tool"]
    answers = {m["tool_call_id"]: m["content"] for m in told}
    assert set(answers) == {"c1", "c2", "c3", "c4", "c5"}
    assert all(text.startswith("error: ") for text in answers.values()), answers
    assert "nonsense" in answers["c1"]
    assert "read" in answers["c1"]  # says which tools there are
    assert "path" in answers["c3"]
    assert "colour" in answers["c4"]
    assert of(driver.seen, TurnEnded)[0].status == "ok"


def test_a_fault_of_the_provider_ends_the_turn_with_a_sentence(project: Project) -> None:
    broken = {"status": 400, "body": {"error": {"message": "bad thing"}}}
    with ScriptedServer([broken, {"text": "better"}]) as server:
        driver = drive(project, server.url, ["one", "two"])
    first, second = of(driver.seen, TurnEnded)
    assert (first.status, second.status) == ("error", "ok")
    assert "bad thing" in of(driver.seen, Failed)[0].text
    assert [e["meta"]["status"] for e in project.of_type("turn_end")] == ["error", "ok"]


def test_usage_is_counted_by_step_turn_and_session(project: Project) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    details = {**usage, "prompt_tokens_details": {"cached_tokens": 60}}
    script = [
        {"calls": [call("list")], "usage": usage},
        {"text": "a", "usage": details},
        {"text": "b", "usage": usage},
    ]
    with ScriptedServer(script) as server:
        drive(project, server.url, ["one", "two"])
    steps = [e["meta"]["tokens"]["total"] for e in project.of_type("assistant")]
    turns = [e["meta"]["tokens"] for e in project.of_type("turn_end")]
    assert steps == [107, 107, 107]
    assert [t["total"] for t in turns] == [214, 107]
    assert turns[0]["cached"] == 60
    assert project.of_type("session_end")[0]["meta"]["tokens"]["total"] == 321


def test_tokens_are_counted_here_where_the_provider_sends_none(project: Project) -> None:
    message = {"role": "assistant", "content": "hello there"}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    with ScriptedServer([{"body": body}]) as server:
        drive(project, server.url, ["hi"])
    tokens = project.of_type("assistant")[0]["meta"]["tokens"]
    assert tokens["source"] == "local"
    assert tokens["completion"] == 2
    assert tokens["prompt"] > 500  # system prompt and tools are in it
    assert tokens["total"] == tokens["prompt"] + tokens["completion"]


def test_a_truncated_answer_is_continued(project: Project) -> None:
    script = [{"text": "half of", "finish": "length"}, {"text": " the answer"}]
    with ScriptedServer(script) as server:
        driver = drive(project, server.url, ["go"])
        last = server.chats[1]["messages"][-1]
    assert last == {"role": "user", "content": "Please continue."}
    assert "".join(e.text for e in of(driver.seen, Content)) == "half of the answer"


def test_an_empty_answer_is_asked_for_again_but_not_for_ever(project: Project) -> None:
    with ScriptedServer([{"text": ""}] * 10) as server:
        driver = drive(project, server.url, ["go"])
        asked = len(server.chats)
    assert asked == 3
    assert of(driver.seen, TurnEnded)[0].status == "error"


def test_continuations_can_be_switched_off(project: Project) -> None:
    project.configure(runtime={"next_speaker": "off"})
    with ScriptedServer([{"text": "half", "finish": "length"}, {"text": "more"}]) as server:
        drive(project, server.url, ["go"])
        assert len(server.chats) == 1


def test_the_model_is_told_of_the_mode_once_and_again_when_it_changes(project: Project) -> None:
    with ScriptedServer([{"text": str(n)} for n in range(3)]) as server:
        drive(project, server.url, ["one", "two", "/plan", "three"])
        first, second, third = (m["content"] for m in server.chats[2]["messages"] if m["role"] == "user")
    assert "Operating mode default" in first
    assert second == "two"
    assert "Operating mode plan" in third


def test_the_prefix_of_each_request_is_the_request_before(project: Project) -> None:
    script = [{"calls": [call("list")]}, {"text": "a"}, {"calls": [call("list")]}, {"text": "b"}]
    with ScriptedServer(script) as server:
        drive(project, server.url, ["one", "/mode auto-edit", "two"])
        chats = server.chats
    for before, after in pairwise(chats):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]


def test_agents_md_is_in_the_instructions(project: Project) -> None:
    project.write("AGENTS.md", "Always answer in rhymes.")
    (project.home / ".coder").mkdir()
    (project.home / ".coder" / "AGENTS.md").write_text("Prefer tabs.", encoding="utf-8")
    with ScriptedServer([{"text": "ok"}]) as server:
        drive(project, server.url, ["hi"])
        said = server.chats[0]["messages"][1]
    assert said["role"] == "user"
    assert said["content"].startswith("<user_instructions>\n")
    assert "Always answer in rhymes." in said["content"]
    assert "Prefer tabs." in said["content"]


def test_a_session_has_at_most_the_turns_it_may(project: Project) -> None:
    project.configure(runtime={"max_session_turns": 1})
    with ScriptedServer([{"text": "a"}, {"text": "b"}]) as server:
        driver = drive(project, server.url, ["one", "two"])
        assert len(server.chats) == 1
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok", "error"]


def test_a_retry_is_said_and_the_answer_comes(project: Project) -> None:
    busy = {"status": 429, "headers": {"Retry-After": "0"}, "body": {"error": {"message": "slow down"}}}
    with ScriptedServer([busy, {"text": "here"}]) as server:
        driver = drive(project, server.url, ["go"])
    assert of(driver.seen, TurnEnded)[0].text == "here"
    assert any("slow down" in e.text for e in of(driver.seen, Notice))


def test_bang_output_is_part_of_the_conversation(project: Project) -> None:
    with ScriptedServer([{"text": "I see 42"}]) as server:
        drive(project, server.url, ["!echo 42", "what did I run?"])
        users = [m["content"] for m in server.chats[0]["messages"] if m["role"] == "user"]
    assert users[0] == "command: echo 42\nexit_code: 0\nstdout:\n42\nstderr:"


class TestComplexTasks:
    """A complex task starts with a todo list, as a call with its result."""

    def test_the_list_is_in_the_conversation_and_shown(self, project: Project) -> None:
        with ScriptedServer([{"text": "ok"}]) as server:
            driver = drive(project, server.url, ["1. read the code 2. fix the bug 3. run the tests"])
            messages = server.chats[0]["messages"]
        assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool"]
        todo = messages[2]["tool_calls"][0]
        assert todo["function"]["name"] == "todowrite"
        contents = [t["content"] for t in json.loads(todo["function"]["arguments"])["todos"]]
        assert contents == ["read the code", "fix the bug", "run the tests"]
        assert messages[3]["tool_call_id"] == todo["id"]
        assert len(of(driver.seen, TodosChanged)) == 1

    def test_not_while_somebody_works_with_a_list_nor_for_simple_tasks(self, project: Project) -> None:
        begun = [{"content": "this", "status": "in_progress"}, {"content": "that", "status": "pending"}]
        answers = [
            {"text": "ok"},
            {"calls": [{"name": "todowrite", "arguments": {"todos": begun}}]},
            {"text": "ok"},
            {"text": "ok"},
        ]
        with ScriptedServer(answers) as server:
            drive(project, server.url, ["hi", "1. this 2. that 3. more", "1. again 2. and again"])
            sizes = [sum(bool(m.get("tool_calls")) for m in chat["messages"]) for chat in server.chats]
        assert sizes == [0, 1, 2, 2]

    def test_a_list_that_nobody_touched_gives_way_to_the_next_also_after_a_resume(
        self, project: Project
    ) -> None:
        with ScriptedServer([{"text": "ok"}] * 3) as server:
            driver = drive(project, server.url, ["1. this 2. that", "1. again 2. more"])
            session = driver.engine.agent.session.id
            drive(project, server.url, ["1. at last 2. done"], resume=session)
        lists = [[t["content"] for t in e["meta"]["input"]["todos"]] for e in project.of_type("action")]
        assert lists == [["this", "that"], ["again", "more"], ["at last", "done"]]

    @pytest.mark.parametrize(
        "text",
        [
            "Hi, can you tell me what this project does, please, in one sentence?",
            "读代码，改错误，跑测试",
        ],
    )
    def test_one_item_is_for_the_model_alone(self, project: Project, text: str) -> None:
        with ScriptedServer([{"text": "ok"}]) as server:
            driver = drive(project, server.url, [text, "/todos"])
            result = server.chats[0]["messages"][-1]
            resumed = drive(project, server.url, ["/todos"], resume=driver.engine.agent.session.id)
        (action,) = project.of_type("action")
        assert [t["content"] for t in action["meta"]["input"]["todos"]] == [text]
        assert result["role"] == "tool"
        assert "several steps" in result["content"]
        assert of(driver.seen, TodosChanged) == []
        for (told,) in (of(driver.seen, CommandDone), of(resumed.seen, CommandDone)):
            assert text not in told.text
        session = driver.engine.agent.session
        assert text not in session.action_log.whole_text()
        shown = project.coder("show", session.id, env={"COLUMNS": "500"}).stdout
        assert shown.count(text) == 1

    @pytest.mark.parametrize("word", ["deny", "ask"])
    def test_none_where_the_list_may_not_be_written_unasked(self, project: Project, word: str) -> None:
        project.configure(permission={"tools": {"todowrite": word}})
        with ScriptedServer([{"text": "ok"}]) as server:
            drive(project, server.url, ["1. this 2. that 3. more"])
            assert [m["role"] for m in server.chats[0]["messages"]] == ["system", "user"]

    def test_what_is_piped_in_is_not_judged(self, project: Project) -> None:
        log = "one, two, three\n" * 20
        with ScriptedServer([{"text": "ok"}] * 3) as server:
            assert project.coder("--once", "why?", url=server.url, stdin=log).returncode == 0
            assert project.coder(url=server.url, stdin=log).returncode == 0
            sent = [[m["role"] for m in chat["messages"]] for chat in server.chats]
        assert sent == [["system", "user"]] * 2

    def test_nor_what_is_pasted_nor_a_file_nor_a_mode(self, project: Project) -> None:
        log = "one, two, three\n" * 20
        project.write("log.txt", log)
        project.write(".coder/modes/fix.md", f"---\nkind: instant\n---\nDo it.\n\n1. this\n2. that\n{log}")

        async def scenario(url: str) -> None:
            driver = Driver(project, url)
            driver.start()
            driver.engine.submit(UserInput(f"why {log}", pasted=[log]))
            await driver.until_idle()
            for text in ("look at @log.txt", "/fix"):
                await driver.send(text)
            await driver.close()

        with ScriptedServer([{"text": "ok"}] * 3) as server:
            asyncio.run(scenario(server.url))
            assert len(server.chats) == 3
        assert project.of_type("action") == []

    def test_off_by_configuration(self, project: Project) -> None:
        project.configure(workflow={"require_todo_for_complex": False})
        with ScriptedServer([{"text": "ok"}]) as server:
            drive(project, server.url, ["1. this 2. that 3. more"])
            assert [m["role"] for m in server.chats[0]["messages"]] == ["system", "user"]


def test_events_of_two_inputs_do_not_mix(project: Project) -> None:
    """The second input waits until the first is done."""

    async def scenario(url: str) -> list[str]:
        driver = Driver(project, url)
        driver.start()
        from coder.protocol.ops import UserInput

        driver.engine.submit(UserInput("one"))
        driver.engine.submit(UserInput("two"))
        await driver.until_idle()
        await driver.until_idle()
        await driver.close()
        return [e.text for e in of(driver.seen, TurnEnded)]

    with ScriptedServer([{"text": "first"}, {"text": "second"}]) as server:
        assert asyncio.run(scenario(server.url)) == ["first", "second"]


@pytest.mark.parametrize("where", ["resolve_call", "decision"])
def test_a_fault_of_ours_in_one_call_is_that_call_s_result(
    project: Project, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whatever is wrong with understanding or judging it: the others run and the turn goes on."""

    def broken(*_args: object, **_options: object) -> object:
        raise ZeroDivisionError("of ours")

    if where == "resolve_call":
        monkeypatch.setattr("coder.tools.calls.resolve.resolve_call", broken)
    else:
        monkeypatch.setattr("coder.policy.shell.judge.judge", broken)
    faulty = {
        "resolve_call": call("cat_file", "c2", file="a.txt"),
        "decision": call("bash", "c2", command="ls"),
    }[where]
    project.write("a.txt", "text of a\n")
    calls = [call("read", "c1", path="a.txt"), faulty, call("read", "c3", path="a.txt")]
    with ScriptedServer([{"calls": calls}, {"text": "went on"}]) as server:
        driver = drive(project, server.url, ["go"])
        told = {m["tool_call_id"]: m["content"] for m in server.chats[1]["messages"] if m["role"] == "tool"}
    assert "text of a" in told["c1"]
    assert "text of a" in told["c3"]
    assert told["c2"].startswith("error: ")
    assert "ZeroDivisionError: of ours" in told["c2"]
    assert of(driver.seen, TurnEnded)[0].status == "ok"
    (kept,) = (project.home / ".coder" / "crashes").iterdir()
    assert "in broken" in kept.read_text(encoding="utf-8")
    assert any(str(kept) in notice.text for notice in of(driver.seen, Notice))


@pytest.mark.parametrize("healthy", [0, 1, 2, 3], ids="fails after {}".format)
@pytest.mark.parametrize("declaration", ["argument", "paths", "command", "preview"])
def test_a_fault_in_what_a_tool_declares_is_that_call_s_result(
    project: Project, monkeypatch: pytest.MonkeyPatch, declaration: str, healthy: int
) -> None:
    """Whether it is shown, judged, asked about, recorded or summed up: the turn goes on."""
    sound, asked = getattr(Bash(), declaration), []

    def broken(*args: Any) -> object:
        asked.append(args)
        if len(asked) <= healthy:
            return sound(*args)
        raise ZeroDivisionError("of ours")

    # As an instance's and as a class's: events and record go by the name alone.
    monkeypatch.setattr(Bash, declaration, staticmethod(broken))
    project.write("a.txt", "text of a\n")
    calls = [
        call("read", "c1", path="a.txt"),
        call("bash", "c2", command="touch made"),
        call("read", "c3", path="a.txt"),
    ]

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        for text in ("go", "/compact"):
            await driver.send(text, lambda asked: ApprovalReply(asked.approval_id, "yes"))
        await driver.close()
        return driver

    with ScriptedServer([{"calls": calls}, {"text": "went on"}, {"text": "summary"}]) as server:
        driver = asyncio.run(scenario(server.url))
        told = {m["tool_call_id"]: m["content"] for m in server.chats[1]["messages"] if m["role"] == "tool"}
    assert of(driver.seen, TurnEnded)[0].status == "ok"
    assert "text of a" in told["c1"]
    assert "text of a" in told["c3"]
    if not healthy:
        assert "ZeroDivisionError: of ours" in told["c2"]
        assert not (project.cwd / "made").exists()
        (kept,) = (project.home / ".coder" / "crashes").iterdir()
        assert any(str(kept) in notice.text for notice in of(driver.seen, Notice))
