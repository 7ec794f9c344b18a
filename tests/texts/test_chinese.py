"""`--lang zh`: whatever a person reads is Chinese; names, commands and paths stay as they are.

The model's texts and the record are English in every language, and a test here holds that too.
"""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from coder.engine.commands.table import COMMANDS
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    Content,
    Failed,
    LoopDetected,
    Notice,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from kit import Chaos, ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, drive, of

# Four words in a row that are nothing but letters: an English sentence, or part of one.
_ENGLISH = re.compile(r"(?:\b[A-Za-z]+(?:'[a-z]+)?[,;:]? ){3}[A-Za-z]+\b")
_CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^'\n]*'|\[[^\]]*\]|\{[^}]*\}|(?:\S*[/=]\S*)|--?[a-z-]+")


CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")


def english_in(text: str) -> list[str]:
    """Runs of English outside code, paths and options."""
    return _ENGLISH.findall(_CODE.sub(" · ", text))


def test_what_counts_as_english() -> None:
    assert english_in("The model server failed.") != []
    assert english_in("决定：ask（plan, default, auto-edit, yolo）") == []
    assert english_in("请设置 `coder demo shows a tour`") == []


def test_a_turn_has_one_name() -> None:
    from importlib.resources import files

    import coder

    texts = [
        path.read_text(encoding="utf-8")
        for path in (files(coder) / "texts" / "zh").iterdir()
        if path.is_file()
    ]
    texts.append((Path(__file__).parents[2] / "README.zh.md").read_text(encoding="utf-8"))
    assert [line for text in texts for line in text.splitlines() if "轮" in line] == []
    assert any("回合" in text for text in texts)


def told(events: list[AnyEvent]) -> list[str]:
    """What these events put before a person, without what models, files and commands said."""
    texts: list[str] = []
    for event in events:
        match event:
            case ApprovalRequested(reasons=reasons):
                texts += map(str, reasons)
            case ToolCallChanged(summary=text) | VerifyChanged(text=text) | LoopDetected(reason=text):
                texts.append(str(text))
            case Notice(text) | Failed(text) | TurnEnded(error=text):
                texts.append(str(text))
            case CommandDone(text=text, data=data) if data.get("kind") != "bang":
                texts.append(str(text))
    return [text for text in texts if text]


def assert_chinese(texts: list[str]) -> None:
    assert texts
    assert [(found, text) for text in texts if (found := english_in(text))] == []


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_commands(project: Project, command: str) -> None:
    project.write("a.txt", "one\n")
    with ScriptedServer(
        [{"calls": [call("write", path="b.txt", content="x\n")]}, {"text": "好"}] * 3
    ) as server:
        driver = drive(
            project,
            server.url,
            ["做点事", f"/{command}", f"/{command} nonsense"],
            lang="zh",
            mode="auto-edit",
        )
    assert_chinese(told(driver.seen))


FAILING = {
    "read missing": call("read", path="nowhere.txt"),
    "read outside": call("read", path="/etc/hosts"),
    "read binary": call("read", path="data.bin"),
    "read past the end": call("read", path="a.txt", offset=99),
    "list a file": call("list", path="a.txt"),
    "glob above": call("glob", pattern="../*"),
    "grep nothing": call("grep", pattern=""),
    "write unread": call("write", path="b.txt", content="x"),
    "write git": call("write", path=".git/config", content="x"),
    "edit no match": call("edit", path="a.txt", old_string="zzz", new_string="y"),
    "edit many": call("edit", path="a.txt", old_string="l", new_string="y"),
    "patch nonsense": call("patch", patch="nonsense"),
    "patch misfit": call("patch", patch="--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-zzz\n+yyy\n"),
    "bash empty": call("bash", command=" "),
    "bash fails": call("bash", command="exit 3"),
    "skill missing": call("skill", action="load", name="none"),
    "fetch private": call("fetch", url="http://127.0.0.1:9/"),
    "todo wrong": call("todowrite", todos=[{"content": "", "status": "pending"}]),
    "task unknown": call("task", agent="nobody", objective="x"),
    "no such tool": call("teleport"),
    "wrong arguments": call("read", path="a.txt", colour="red"),
}


def test_tools_that_fail_and_what_the_model_is_told(project: Project) -> None:
    project.write("a.txt", "hello\nhello\n")
    project.write("b.txt", "unread\n")
    project.write("data.bin", b"\0\1\2\3" * 40)
    (project.cwd / ".git").mkdir()
    script = [{"calls": [one]} for one in FAILING.values()]
    with ScriptedServer([{"calls": [call("read", path="a.txt")]}, *script, {"text": "好"}]) as server:
        driver = drive(project, server.url, ["试试"], lang="zh", mode="yolo", preset="yolo")
    ended = [e for e in of(driver.seen, ToolCallChanged) if e.state in ("success", "error")]
    assert len(ended) == len(FAILING) + 1
    assert all(event.summary for event in ended)
    assert_chinese(told(driver.seen))
    for observation in project.of_type("observation")[1:]:
        assert observation["content"].startswith(("error: ", "denied: ")), observation
        assert not CHINESE.search(observation["content"]), observation  # the model reads English


WORKING = [
    call("list"),
    call("glob", pattern="*"),
    call("grep", pattern="hello"),
    call("read", path="a.txt"),
    call("read", path="empty"),
    call("write", path="new.txt", content="x\n"),
    call("write", path="new.txt", content="x\n"),
    call("edit", path="a.txt", old_string="hello", new_string="bye", replace_all=True),
    call("patch", patch="--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-bye\n+hi\n"),
    call("bash", command="true"),
    call("todowrite", todos=[{"content": "一", "status": "completed"}]),
    call("todoread"),
    call("skill", action="list"),
    call("save_memory", fact="用 tab 缩进"),
]


def test_tools_that_work(project: Project) -> None:
    project.write("a.txt", "hello\n")
    project.write("empty", "")
    with ScriptedServer([{"calls": [one]} for one in WORKING] + [{"text": "好"}]) as server:
        driver = drive(project, server.url, ["试试"], lang="zh", mode="yolo", preset="yolo")
    done = [e for e in of(driver.seen, ToolCallChanged) if e.state not in ("scheduled", "executing")]
    assert [e.state for e in done] == ["success"] * len(WORKING), [(e.tool, e.summary) for e in done]
    # No English word but the names of files; the todo list and the memory have short names of their own.
    left = [re.sub(r"\S*\.(txt|md)\b", "", event.summary) for event in done]
    assert [text for text in left if re.search(r"[A-Za-z]{3}", text)] == []


@pytest.mark.parametrize("preset", ["balanced", "strict"])
def test_approvals_refusals_and_their_record(project: Project, preset: str) -> None:
    project.write("a.txt", "x")
    lines = ["rm -r a.txt", "echo $(date) > a.txt", "sudo make", "curl x | sh", "git push --force", "ls $("]
    calls = [call("bash", command=line) for line in lines] + [call("write", path="b", content="x")]

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, lang="zh", can_ask=True, preset=preset)
        driver.start()
        await driver.send("试试", lambda e: ApprovalReply(e.approval_id, "no", "不要"))
        await driver.close()
        return driver

    with ScriptedServer([{"calls": [one]} for one in calls] + [{"text": "好"}]) as server:
        driver = asyncio.run(scenario(server.url))
    asked = of(driver.seen, ApprovalRequested)
    assert len(asked) == (len(calls) if preset == "balanced" else 0)
    assert all(reason.endswith("。") for event in asked for reason in event.reasons)
    assert_chinese(told(driver.seen))
    for entry in project.of_type("approval"):
        assert not CHINESE.search("".join(entry["meta"]["reasons"])), entry
    for entry in project.of_type("observation"):
        assert not CHINESE.search(entry["content"].replace("不要", "")), entry


def test_plan_mode_and_nobody_to_ask(project: Project) -> None:
    calls = [call("bash", command="touch x"), call("write", path="b", content="x")]
    for mode in ("plan", "default"):
        with ScriptedServer([{"calls": [one]} for one in calls] + [{"text": "好"}]) as server:
            driver = drive(project, server.url, ["试试"], lang="zh", mode=mode)
        assert_chinese(told(driver.seen))


def test_a_model_that_goes_in_circles(project: Project) -> None:
    with ScriptedServer([{"calls": [call("list")]}] * 20) as server:
        driver = drive(project, server.url, ["试试"], lang="zh")
    assert "调用" in of(driver.seen, LoopDetected)[0].reason
    assert_chinese(told(driver.seen))
    noticed = project.of_type("loop") + project.of_type("note")
    assert noticed
    assert not any(CHINESE.search(entry["content"]) for entry in noticed)


ENDINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "steps": ({}, {"max_steps": 2}),
    "loop": ({}, {}),
    "prompt": ({}, {"max_prompt_tokens": 10}),
    "turns": ({"runtime": {"max_session_turns": 0}}, {}),
    "budget": ({"budget": {"max_usd": 0.001, "prices": {"scripted": {"input": 1000.0, "output": 1.0}}}}, {}),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_turns_that_are_stopped_and_their_record(project: Project, ending: str) -> None:
    settings, options = ENDINGS[ending]
    project.configure(**settings)
    with ScriptedServer([{"calls": [call("list")]}] * 20, model="scripted") as server:
        driver = drive(project, server.url, ["试试"], lang="zh", model="scripted", **options)
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.status != "ok"
    assert CHINESE.search(ended.error)
    (end,) = project.of_type("turn_end")
    assert end["meta"]["error_message"]
    assert not CHINESE.search(end["meta"]["error_message"])


def test_a_cancelled_turn_and_its_record(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, lang="zh")
        driver.start()
        driver.engine.submit(UserInput("试试"))
        await driver.until_idle(
            watch=lambda e: driver.engine.submit(Cancel()) if isinstance(e, Content) else None
        )
        await driver.close()
        return driver

    with ScriptedServer([{"text": "好" * 200, "chunk": 1, "delay": 0.01}]) as server:
        driver = asyncio.run(scenario(server.url))
    assert CHINESE.search(of(driver.seen, TurnEnded)[0].error)
    (end,) = project.of_type("turn_end")
    assert end["meta"]["error_message"].startswith("Cancelled: ")


def test_a_subagent_that_is_stopped_and_what_the_model_hears_of_it(project: Project) -> None:
    task = {"calls": [call("task", agent="explore", objective="look")]}
    with ScriptedServer([task, *[{"calls": [call("list")]}] * 10, {"text": "好"}]) as server:
        driver = drive(project, server.url, ["试试"], lang="zh", preset="yolo")
        told_model = server.chats[-1]["messages"][-1]["content"]
    assert "did not finish" in told_model
    assert not CHINESE.search(told_model)
    assert_chinese(told(driver.seen))


def refused(status: int, message: str = "不行") -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message}}, "headers": {"Retry-After": "999"}}


PROVIDER = {
    "401": [refused(401)],
    "402": [refused(402)],
    "404": [refused(404)],
    "400": [refused(400)],
    "429": [refused(429)],
    "503": [refused(503)],
    "too long": [refused(400, "context_length")],
    "web page": [{"fault": "html"}],
    "cut": [{"fault": "cut_text", "text": "好" * 40}, refused(401)],
    "reset": [{"fault": "reset"}, refused(401)],
}


@pytest.mark.parametrize("fault", PROVIDER)
def test_provider_errors(project: Project, fault: str) -> None:
    with Chaos(PROVIDER[fault]) as server:
        driver = drive(project, server.url, ["试试"], lang="zh")
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.status in ("error", "prompt_limit")
    assert "。" in ended.error
    assert_chinese(told(driver.seen))
    (end,) = project.of_type("turn_end")
    assert re.match(r"[A-Z0-9h]", end["meta"]["error_message"])  # the record keeps to English
    assert "。" not in end["meta"]["error_message"]


def closed_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
    return port


def test_a_server_that_is_not_there(project: Project) -> None:
    driver = drive(project, f"http://127.0.0.1:{closed_port()}/v1", ["试试"], lang="zh")
    assert any("连接被拒绝" in text for text in told(driver.seen))
    assert_chinese(told(driver.seen))


COMMAND_LINES = [
    ["--help"],
    ["doctor"],
    ["doctor", "--help"],
    ["--mode", "turbo", "x"],
    ["--frobnicate"],
    ["--max-steps", "0", "x"],
    ["--output", "yaml"],
    ["--model"],
    ["--once"],
    ["--continue", "x"],
    ["--resume", "none", "x"],
    ["--cwd", "nowhere", "x"],
    ["--config", "nowhere", "x"],
    ["--tokenizer-model", "none", "--once", "x"],
    ["sesions"],
    ["show"],
    ["show", "none"],
    ["show", "2"],
    ["sessions"],
    ["export", "none", "--html", "x"],
    ["explain", "rm -r x && echo $(date) >a | sudo tee b"],
    ["modes"],
    ["modes", "--from", "x"],
    ["trust"],
    ["--once", "/status"],
    ["--once", "/frobnicate"],
]


@pytest.mark.thorough
def test_the_command_line(project: Project) -> None:
    """In one session's directory; `--lang` is read even where the rest of the line is wrong."""
    with ScriptedServer([{"calls": [call("list")]}, {"text": "好"}] * 9, model="scripted") as server:
        project.coder("--lang", "zh", "--once", "看看", url=server.url)
        for line in COMMAND_LINES:
            done = project.coder("--lang", "zh", *line, url=server.url)
            texts = [text for text in (done.stdout + done.stderr).splitlines() if "usage" not in text]
            assert texts, line
            assert [(line, found) for text in texts if (found := english_in(text))] == []
            assert CHINESE.search(done.stdout + done.stderr), (line, done.stdout, done.stderr)


def test_the_language_of_the_settings_counts_before_anything_else_is_read(project: Project) -> None:
    project.configure(ui={"lang": "zh"})
    assert "没有选项" in project.coder("--frobnicate").stderr
    assert "用法：" in project.coder("--help").stdout
    assert "There is no option" in project.coder("--frobnicate", "--lang", "en").stderr
