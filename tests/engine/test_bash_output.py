"""What the model gets of a command: no terminal control, bounded, short; what came before a cancel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import AnyEvent, CommandDone, ToolCallChanged, ToolOutput
from coder.protocol.ops import Cancel, UserInput
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, drive, of


def told(
    project: Project, command: str, env: dict[str, str] | None = None, mode: str = "yolo", **more: Any
) -> dict[str, Any]:
    """The observation of one command, which the next request held to the letter."""

    async def scenario(url: str) -> None:
        driver = Driver(project, url, mode=mode)
        driver.start()
        agent = driver.engine.agent
        agent.session.context.environment = {**agent.place.environment, **(env or {})}
        await driver.send("go")
        await driver.close()

    with ScriptedServer([{"calls": [bash(command, **more)]}, {"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))
        sent = server.chats[-1]["messages"][-1]
    (observation,) = project.of_type("observation")
    assert sent["role"] == "tool"
    assert sent["content"] == observation["content"]
    return observation


def test_neither_colours_nor_progress_reach_model_and_record(project: Project) -> None:
    line = (
        r"printf '\033[31mred\033[0m\n'; for n in 1 2 3 4; do printf '\r%s0%%' $n; done; echo; echo end >&2"
    )
    observation = told(project, line)
    assert observation["content"] == "red\n40%\n[stderr]\nend"
    assert observation["meta"]["stdout"] == "red\n40%\n"
    assert "\\u001b" not in project.logs()[0].read_text()


def test_programs_are_told_not_to_colour(project: Project) -> None:
    line = 'echo "$TERM,$NO_COLOR,$PAGER,$GIT_PAGER,$FORCE_COLOR,$CLICOLOR_FORCE,$CI"'
    env = {"TERM": "xterm-256color", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
    assert told(project, line, env)["content"] == "dumb,1,cat,cat,,,"


@pytest.mark.parametrize(
    ("line", "ok", "content"),
    [
        ("grep nothing a.txt", True, "no match (exit code 1)"),
        ("cat a.txt | grep nothing", True, "no match (exit code 1)"),
        ("cd . && grep -rn nothing .", True, "no match (exit code 1)"),
        ("grep text a.txt; grep nothing a.txt", True, "text\n[no match: exit code 1]"),
        ("grep nothing missing.txt", False, "exit code 2"),
        ("false && grep nothing a.txt", False, "error: exit code 1\n(no output)"),
        ("false | grep nothing", False, "error: exit code 1\n(no output)\n[false exited 1, grep 1]"),
        ("(echo out; exit 3) | cat", True, "out"),
        ("sh -c 'echo out; exit 3' | cat", True, "out\n[sh exited 3, cat 0]"),
        ("sh -c 'exit 3' 2>&1 | sort | tail -1", True, "(no output)\n[sh exited 3, sort 0, tail 0]"),
        ("yes | head -1", True, "y"),
        ("echo error: none", True, "exit code 0\nerror: none"),
        ("echo denied: no >&2", True, "exit code 0\ndenied: no"),
        (
            "set -o pipefail; sh -c 'exit 3' | cat",
            False,
            "error: exit code 3\n(no output)\n[sh exited 3, cat 0]",
        ),
        ("grep nothing a.txt | cat", True, "(no output)"),
        (
            "echo a | cat; sh -c 'exit 4'",
            False,
            "error: exit code 4\n(no output)".replace("(no output)", "a"),
        ),
    ],
)
@pytest.mark.parametrize("mode", ["yolo", "plan"])
def test_the_failing_part_is_named_and_no_match_is_no_error(
    project: Project, line: str, ok: bool, content: str, mode: str
) -> None:
    project.write("a.txt", "text\n")
    observation = told(project, line, mode=mode)
    assert observation["meta"]["ok"] is ok
    assert observation["content"] == content or (
        content == "exit code 2" and content in observation["content"]
    )


def test_notices_of_new_versions_are_off(project: Project) -> None:
    assert told(project, "echo $npm_config_update_notifier; touch made")["content"] == "false"


def test_the_person_s_own_shell_is_not(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.start()
        context = driver.engine.agent.session.context
        context.environment = {**context.environment, "TERM": "xterm", "FORCE_COLOR": "1"}
        await driver.send('!echo "$TERM,$FORCE_COLOR,$NO_COLOR"')
        await driver.close()
        return driver

    with ScriptedServer([]) as server:
        (done,) = of(asyncio.run(scenario(server.url)).seen, CommandDone)
    assert "stdout:\nxterm,1,\n" in done.text


def test_a_long_output_is_cut_and_the_file_has_all_of_it(project: Project) -> None:
    line = r"for n in $(seq 1 9000); do printf '\033[32mline %s\033[0m\n' $n; done"
    observation = told(project, line)
    meta, content = observation["meta"], observation["content"]
    assert len(content.encode()) < 12_300
    assert content.startswith("line 1\n")
    assert content.endswith("\nline 9000")
    assert meta["truncated"] is True
    file = Path(meta["output_file"])
    assert f"left out; all of it: {file}" in content
    assert file.read_text() == "".join(f"line {n}\n" for n in range(1, 9001))


def test_what_is_long_for_its_escapes_alone_is_whole(project: Project) -> None:
    line = r"for n in $(seq 1 3000); do printf '\033[32m%s%%\033[0m\r' $n; done; echo; echo end"
    observation = told(project, line)
    assert observation["content"] == "3000%\nend"
    assert observation["meta"]["truncated"] is False
    assert list((project.home / ".coder" / "outputs").rglob("bash-*")) == []


def test_identical_lines_are_folded_for_the_model_alone(project: Project) -> None:
    observation = told(project, "yes same | head -300")
    assert observation["content"] == "same\n[… 299 more lines like this …]"
    assert observation["meta"]["stdout"] == "same\n" * 300


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(no output)"),
        ("echo out", "out"),
        ("echo err >&2", "err"),
        ("exit 3", "error: exit code 3\n(no output)"),
        ("echo out; echo err >&2; false", "error: exit code 1\nout\n[stderr]\nerr"),
        ("kill -9 $$", "error: exit code 137\n(no output)"),
    ],
)
def test_a_result_has_no_empty_sections(project: Project, command: str, text: str) -> None:
    assert told(project, command)["content"] == text


def test_a_time_out_names_the_background(project: Project) -> None:
    observation = told(project, "echo so far; sleep 300", timeout_ms=400)
    assert observation["meta"]["exit_code"] == 124
    assert observation["content"].startswith("error: no end after 400 ms")
    assert "background: true" in observation["content"]
    assert observation["content"].endswith("\nso far")


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("sleep 300 &", True),
        ("nohup sleep 300 >/dev/null 2>&1 &", True),
        ("(sleep 300 & echo up)", True),
        ("sleep 0.01 & wait", False),
        ("true && echo a 2>&1 | cat", False),
        ("echo 'a & b' \"c & d\" e\\& f # &", False),
        ("true &> /dev/null", False),
    ],
)
def test_what_an_ampersand_leaves_is_ended_and_the_model_told(
    project: Project, command: str, hint: bool
) -> None:
    content = told(project, command)["content"]
    assert ("is ended when the call ends" in content and "background: true" in content) == hint


# cancel


def cancelled(project: Project, script: list[Any], text: str = "go") -> Driver:
    """Cancel once the first output is there."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        driver.engine.submit(UserInput(text))

        def watch(event: AnyEvent) -> None:
            if isinstance(event, ToolOutput):
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        await driver.send("and now?")
        await driver.close()
        return driver

    with ScriptedServer([*script, {"text": "ok"}]) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = [dict(chat) for chat in server.chats]
    return driver


def test_a_cancel_keeps_what_was_printed(project: Project) -> None:
    later = {"name": "write", "arguments": {"path": "never.txt", "content": "x"}}
    line = "printf 'half a \\033[1mresult\\033[0m\\n'; sleep 300"
    driver = cancelled(project, [{"calls": [bash(line), later]}])
    first, second = project.of_type("observation")
    head, _, output = first["content"].partition("\n")
    assert head.startswith("error: cancelled by the person after ")
    assert head.endswith(" s; output so far:")
    assert output == "half a result"
    assert first["meta"]["stdout"] == "half a result\n"
    assert first["meta"]["cancelled"] is True
    assert second["content"].startswith("error: not run: ")
    shown = [e for e in of(driver.seen, ToolCallChanged) if e.state == "cancelled"]
    assert [e.detail for e in shown] == ["half a \x1b[1mresult\x1b[0m", ""]  # the screen makes them visible
    tools = [m["content"] for m in driver.chats[-1]["messages"] if m["role"] == "tool"]
    assert tools == [first["content"], second["content"]]


def test_the_last_words_of_a_command_are_kept_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    # It ends by itself: how soon it gets to that is the machine's affair.
    monkeypatch.setattr("coder.base.process.child._TERM_GRACE", 30)
    project.configure(sandbox={"mode": "off"})
    line = "trap 'echo bye; exit' TERM; echo up; for n in $(seq 3000); do sleep 0.01; done"
    cancelled(project, [{"calls": [bash(line)]}])
    assert project.of_type("observation")[0]["content"].split(" output so far:\n")[1].startswith("up\nbye")


def test_a_cancelled_command_of_the_person_s_is_shown_and_kept(project: Project) -> None:
    driver = cancelled(project, [], "!echo half; echo error >&2; sleep 300")
    text = "command: echo half; echo error >&2; sleep 300\ncancelled\nstdout:\nhalf\nstderr:\nerror"
    assert of(driver.seen, CommandDone)[0].text == text
    assert driver.chats[-1]["messages"][-2]["content"] == text
    assert project.of_type("command")[0]["content"] == text


# the snapshot


def test_a_session_of_the_person_s_own_commands_has_a_snapshot(project: Project) -> None:
    with ScriptedServer([]) as server:
        drive(project, server.url, ["!echo alone"])
    messages = project.snapshot()["messages"]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert "alone" in messages[-1]["content"]


def test_a_command_that_changes_the_conversation_is_in_the_snapshot(project: Project) -> None:
    directory = project.home / ".coder" / "modes"
    directory.mkdir(parents=True)
    (directory / "careful.md").write_text("---\nkind: persistent\ndescription: d\n---\nBe careful.\n")
    with ScriptedServer([]) as server:
        drive(project, server.url, ["/careful"])
    assert any("Be careful." in m["content"] for m in project.snapshot()["messages"])


def test_only_a_session_with_a_record_is_promised(project: Project) -> None:
    async def recorded(url: str, *inputs: str) -> str:
        driver = Driver(project, url, session_kind="interactive")
        driver.start()
        for text in inputs:
            await driver.send(text)
        await driver.close()
        return driver.engine.view.session_id if driver.engine.view.is_recorded else ""

    with ScriptedServer([]) as server:
        assert asyncio.run(recorded(server.url)) == ""
        assert project.logs() == []
        found = asyncio.run(recorded(server.url, "!true"))
    assert found == project.logs()[0].stem
