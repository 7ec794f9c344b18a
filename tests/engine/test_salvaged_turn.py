"""A turn with a model that writes its calls into the text, over HTTP: they run, and all of it is recorded."""

from __future__ import annotations

import pytest

from coder.protocol.events import Content, Notice, ToolCallChanged, TurnEnded
from kit import Chaos
from kit.driving import Project, drive, of, play

CALL = '{"name": "read", "arguments": {"path": "a.txt"}}'


@pytest.mark.parametrize("dialect", ["auto", "native", "react-xml"])
def test_the_call_runs_and_the_model_sees_its_result(project: Project, dialect: str) -> None:
    project.configure(provider={"dialect": dialect})
    project.write("a.txt", "the secret is 42\n")
    text = f"I read it first.\n\n```json\n{CALL}\n```"
    driver = play(project, [{"text": text, "chunk": 3}, {"text": "It is 42."}], ["what is it?"])
    assert of(driver.seen, TurnEnded)[0].text == "It is 42."
    assert [e.state for e in of(driver.seen, ToolCallChanged)] == ["scheduled", "executing", "success"]
    shown = "".join(e.text for e in of(driver.seen, Content))
    assert "arguments" not in shown
    assert "I read it first." in shown
    if dialect != "react-xml":
        called, result = driver.chats[1]["messages"][-2:]
        assert called["content"] == "I read it first."
        assert called["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"a.txt"}'}
        assert "the secret is 42" in result["content"]
    event = project.of_type("assistant")[0]
    assert event["content"] == text
    assert event["meta"]["salvaged"] is True
    assert event["meta"]["tool_calls"][0]["name"] == "read"


@pytest.mark.parametrize(
    "call",
    [
        '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.txt"}<|call|>',
        '<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_call_end|>',
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "a.txt"}<｜tool▁call▁end｜>',
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">'
        'a.txt</｜DSML｜parameter>\n<｜DSML｜parameter name="limit" string="false">3</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "\n<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n<arg_key>limit</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
    ],
    ids=["harmony", "Kimi", "DeepSeek", "DSML", "GLM"],
)
def test_what_a_server_did_not_parse_runs(project: Project, call: str) -> None:
    project.write("a.txt", "the secret is 42\n")
    steps = [{"text": f"I read it first.{call}", "chunk": 3}, {"text": "It is 42."}]
    driver = play(project, steps, ["what is it?"])
    assert [e.state for e in of(driver.seen, ToolCallChanged)] == ["scheduled", "executing", "success"]
    shown = "".join(e.text for e in of(driver.seen, Content))
    assert shown.replace("\n", "") == "I read it first.It is 42."
    called, result = driver.chats[1]["messages"][-2:]
    assert called["content"] == "I read it first."
    assert "the secret is 42" in result["content"]


def told_of(project: Project, text: str, asked: str = "what is it?") -> tuple[list[str], bool]:
    """The warnings, and whether the model hears of a call that was not run."""
    driver = play(project, [{"text": text}, {"text": "Oh."}], [asked, "and now?"])
    assert of(driver.seen, ToolCallChanged) == []
    told = "The call of read in the text of your last answer was not run" in str(driver.chats[1]["messages"])
    return [event.text for event in of(driver.seen, Notice) if event.level == "warning"], told


@pytest.mark.parametrize(
    "call", [f"<tool_call>{CALL}</tool_call>", '<function=read>{"path": "a.txt"}</function>']
)
def test_a_call_with_text_after_it_is_told_of(project: Project, call: str) -> None:
    told = told_of(project, f"I read it.\n\n{call}\n\nThe file was read and all tests pass.")
    assert told == (["A call of read stands in the text of the answer. It was not run."], True)


@pytest.mark.parametrize(
    "text",
    [
        f"```xml\n<tool_call>{CALL}</tool_call>\n```\nThat is how a file is read.",
        f"<tool_call>{CALL}</tool_call> is what it sends.\nNothing more.",
        f"It may look like this: <tool_call>{CALL}</tool_call>\nNothing more.",
        f"For example:\n<tool_call>{CALL}</tool_call>\nNothing more.",
        '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>\nNothing more.',
        f"{CALL}\nNothing more.",
    ],
)
def test_a_call_that_may_be_an_example_is_not_told_of(project: Project, text: str) -> None:
    assert told_of(project, text) == ([], False)


def test_who_asks_to_see_a_call_is_not_told_that_it_was_not_run(project: Project) -> None:
    text = f"<tool_call>{CALL}</tool_call>\nThat is one."
    assert told_of(project, text, "show me what a tool call looks like") == ([], False)


def test_a_resumed_session_has_the_same_conversation(project: Project) -> None:
    project.write("a.txt", "the secret is 42\n")
    driver = play(project, [{"text": f"First.\n{CALL}"}, {"text": "42"}], ["what is it?"])
    before = driver.engine.agent.session.conversation.messages
    resumed = play(project, [{"text": "again"}], ["and now?"], resume=driver.engine.agent.session.id)
    after = resumed.engine.agent.session.conversation.messages
    assert after[: len(before)] == before


@pytest.mark.parametrize(
    "call",
    [
        '{"name": "read_file", "arguments": {"file_path": "a.txt"}}',
        '{"tool": "Read", "tool_input": {"file_path": "a.txt"}}',
        '{"tool": "Read", "file_path": "a.txt"}',
        '{"name": "functions.read", "arguments": {"path": "a.txt"}}',
        '{"name": "cat", "arguments": {"file": "a.txt"}}',
    ],
)
def test_names_of_other_harnesses_are_understood(project: Project, call: str) -> None:
    project.write("a.txt", "the secret is 42\n")
    driver = play(project, [{"text": f"```json\n{call}\n```", "chunk": 3}, {"text": "42"}], ["what is it?"])
    assert "the secret is 42" in driver.chats[1]["messages"][-1]["content"]
    assert "".join(e.text for e in of(driver.seen, Content)) == "42"


def test_an_example_ends_the_turn_as_the_answer(project: Project) -> None:
    driver = play(project, [{"text": f"For example:\n\n{CALL}"}], ["how would that look?"])
    assert len(driver.chats) == 1
    assert of(driver.seen, TurnEnded)[0].text == f"For example:\n\n{CALL}"


def test_what_was_held_back_is_not_lost_when_the_model_fails(project: Project) -> None:
    half = CALL[:-8]
    script = [{"text": half, "fault": "error_midway", "chunk": 8}, {"status": 400, "body": "no"}]
    with Chaos(script) as server:
        driver = drive(project, server.url, ["go"])
    assert of(driver.seen, TurnEnded)[0].status == "error"
    (partial,) = project.of_type("assistant")
    assert partial["content"].startswith('{"name": "read"')
    assert "".join(e.text for e in of(driver.seen, Content)) == partial["content"]


def test_once_prints_the_answer_alone(project: Project) -> None:
    project.write("a.txt", "hello\n")
    with Chaos([{"text": f"```json\n{CALL}\n```", "chunk": 2}, {"text": "It says hello."}]) as server:
        done = project.coder("--once", "what does a.txt say?", url=server.url)
    assert (done.returncode, done.stdout) == (0, "It says hello.\n")
    assert "arguments" not in done.stderr
    assert "read" in done.stderr


@pytest.mark.parametrize(
    "tag", ['<action id="1" tool="read">', "<action tool=read>", "<ACTION TOOL='read' >"]
)
def test_react_s_own_text_is_recorded(project: Project, tag: str) -> None:
    project.configure(provider={"dialect": "react-xml"})
    project.write("a.txt", "the secret is 42\n")
    raw = f'<thought>look first</thought>\n{tag}{{"path": "a.txt"}}</action >'
    final = "<thought>seen</thought><final>It is 42.</final>"
    driver = play(project, [{"text": raw, "chunk": 4}, {"text": final}], ["what is it?"])
    assert of(driver.seen, TurnEnded)[0].text == "It is 42."
    assert [e["content"] for e in project.of_type("assistant")] == [raw, final]
    assert project.of_type("final")[0]["content"] == "It is 42."
    assert "the secret is 42" in driver.chats[1]["messages"][-1]["content"]
    before = driver.engine.agent.session.conversation.messages
    resumed = play(project, [{"text": final}], ["again?"], resume=driver.engine.agent.session.id)
    assert resumed.engine.agent.session.conversation.messages[: len(before)] == before
    shown = project.coder("show", driver.engine.agent.session.id).stdout
    assert "<final>" not in shown
    assert "It is 42." in shown
