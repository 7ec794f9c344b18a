"""Every built-in command, as typed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any, Literal

import pytest

from coder.engine.commands.table import COMMANDS
from coder.protocol.events import ApprovalRequested, CommandDone, InputDone, SessionStarted, StateChanged
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Driver, Project, drive, of, play


def run(project: Project, *inputs: str, script: list[Any] | None = None, **options: Any) -> Driver:
    return play(project, script or [], inputs, **options)


def said(driver: Driver) -> list[str]:
    return [e.text for e in of(driver.seen, CommandDone)]


def test_all_that_the_contract_names_are_there() -> None:
    wanted = "help model permissions mode plan default auto-edit yolo tools skills todos new resume compact"
    wanted += (
        " diff undo exit sessions status modes fork rewind ps stop init review effort rename clear quit cost"
    )
    assert set(wanted.split()) <= set(COMMANDS)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_has_a_line_for_each(project: Project, lang: str) -> None:
    (text,) = said(run(project, "/help", lang=lang))
    lines = text.split("\n")
    for name in COMMANDS:
        assert sum(line.split()[0] == f"/{name}" for line in lines if line.startswith("/")) == 1
    assert "Ctrl+D" in text
    assert "Esc" in text


def test_model_takes_effect_at_once_and_is_kept(project: Project) -> None:
    driver = run(project, "hi", "/model other", "hi", "/model", script=[{"text": "a"}, {"text": "b"}])
    assert [chat["model"] for chat in driver.chats] == ["scripted", "other"]
    config = json.loads((project.cwd / ".coder" / "config.json").read_text(encoding="utf-8"))
    assert config == {"provider": {"model": "other"}}
    assert "other" in said(driver)[1]


@pytest.mark.parametrize(("answer", "model"), [("no", "scripted"), ("yes", "scriptde")])
def test_a_model_that_the_server_does_not_list_is_asked_about(
    project: Project, answer: Literal["yes", "no"], model: str
) -> None:
    asked: list[str] = []

    def reply(question: ApprovalRequested) -> ApprovalReply:
        asked.append(str(question.subject))
        assert not question.can_always
        return ApprovalReply(question.approval_id, answer)

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("/model scriptde", reply)
        await driver.send("/model scripted", reply)
        if answer == "yes":
            await driver.send("/model scriptde", reply)
        await driver.send("hi", reply)
        await driver.close()

    with ScriptedServer([{"text": "a"}]) as server:
        asyncio.run(scenario(server.url))
        assert [chat["model"] for chat in server.chats] == [model]
    question = "The server has no model scriptde on its list; near to it: scripted.\nUse it all the same?"
    assert asked == [question] * (2 if answer == "yes" else 1)
    config = project.cwd / ".coder" / "config.json"
    assert json.loads(config.read_text(encoding="utf-8")) == {"provider": {"model": model}}


def test_where_nobody_can_be_asked_it_is_said(project: Project) -> None:
    """So it is not, where the server has no list, and of a model that the settings know."""
    driver = run(project, "/model scriptde", "/model auto")
    assert "no model scriptde on its list; near to it: scripted." in said(driver)[0]
    assert "no model gpt5 on its list; it has scripted." in said(run(project, "/model gpt5"))[0]
    assert "list" not in said(driver)[1]
    project.configure(provider={"models": {"known": {"tools": "few"}}})
    held = "That holds for this session; CODER_MODEL (scripted) decides the next."
    assert said(run(project, "/model known")) == [f"Model: known\n{held}"]
    assert said(drive(project, "http://127.0.0.1:1/v1", ["/model other"])) == [f"Model: other\n{held}"]
    assert said(run(project, "/model scripted")) == ["Model: scripted"]


def test_model_that_cannot_be_kept_is_in_force_all_the_same(project: Project) -> None:
    inputs = ["!mkdir .coder/config.json", "/model other", "hi"]
    driver = run(project, *inputs, script=[{"text": "a"}])
    assert driver.chats[0]["model"] == "other"
    assert ".coder/config.json is a folder" in said(driver)[1]


def test_permissions_shows_the_matrix_and_sets_the_preset(project: Project) -> None:
    shown, changed, wrong = said(run(project, "/permissions", "/permissions strict", "/permissions nope"))
    assert "balanced" in shown
    rows = {
        line.split("  ")[1].strip(): line.split()[-1] for line in shown.split("\n") if line.startswith("  ")
    }
    assert (rows["read"], rows["write"], rows["bash, otherwise"]) == ("allow", "ask", "ask")
    assert "strict" in changed
    assert "nope" in wrong
    assert "auto-edit" in wrong


@pytest.mark.parametrize("command", ["/mode yolo", "/yolo"])
def test_modes_are_switched_and_shown(project: Project, command: str) -> None:
    driver = run(project, command)
    assert of(driver.seen, StateChanged)[-1].mode == "yolo"
    assert project.of_type("state")[0]["meta"]["operating_mode"] == "yolo"
    assert "all commands are carried out without asking" in said(driver)[0]


def test_an_unknown_mode_changes_nothing(project: Project) -> None:
    driver = run(project, "/mode nope")
    assert of(driver.seen, StateChanged)[-1].mode == "default"
    assert "auto-edit" in said(driver)[0]


def test_tools_and_todos(project: Project) -> None:
    todo = {"name": "todowrite", "arguments": {"todos": [{"content": "wash up", "status": "in_progress"}]}}
    script = [{"calls": [todo]}, {"text": "ok"}]
    tools, empty, todos = said(run(project, "/tools", "/todos", "go", "/todos", script=script))
    assert "todowrite" in tools
    assert "bash" in tools
    assert "empty" in empty
    assert "wash up" in todos


def test_new_and_resume_switch_the_session(project: Project) -> None:
    script = [{"text": str(n)} for n in range(3)]
    driver = run(project, "hi", "/new", "hello", script=script)
    assert len(project.logs()) == 2
    assert [m["role"] for m in driver.chats[1]["messages"]] == ["system", "user"]
    first = min(project.logs(), key=lambda p: p.stat().st_mtime_ns).stem
    with ScriptedServer([{"text": "3"}]) as server:
        again = drive(project, server.url, ["/resume", f"/resume {first}", "more"])
        contents = [m["content"] for m in server.chats[0]["messages"] if m["role"] == "assistant"]
    assert contents == ["0"]
    listed, resumed = said(again)
    assert first in listed
    assert first in resumed


@pytest.mark.parametrize("name", ["nope", "../../etc/passwd", ".", "a/b"])
def test_a_missing_session_changes_nothing(project: Project, name: str) -> None:
    driver = run(project, "hi", f"/resume {name}", "more", script=[{"text": "a"}, {"text": "b"}])
    assert name in said(driver)[0]
    assert [m["content"] for m in driver.chats[1]["messages"] if m["role"] == "assistant"] == ["a"]


def test_fork_says_that_sessions_are_linear(project: Project) -> None:
    assert "linear" in said(run(project, "/fork"))[0]


def test_exit_ends_the_session(project: Project) -> None:
    driver = run(project, "/exit")
    assert of(driver.seen, InputDone)[0].exit


def test_status_tells_tokens_and_trust(project: Project) -> None:
    usage = {"prompt_tokens": 4000, "completion_tokens": 96, "total_tokens": 4096}
    (text,) = said(run(project, "hi", "/status", script=[{"text": "a", "usage": usage}]))
    assert "4,096 of 128,000" in text
    assert "4,000 tokens in" in text
    assert str(project.cwd) in text


def test_status_says_what_is_not_counted(project: Project) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    script = [{"text": "a", "usage": usage}]
    (text,) = said(run(project, "hi", "/status", script=script))
    assert "0.0000 USD spent, not counting scripted" in text
    project.configure(budget={"prices": {"scripted": {"input": 2.0, "output": 0}}})
    (text,) = said(run(project, "hi", "/status", script=script))
    assert "2.0000 USD spent, no budget set." in text


@pytest.mark.parametrize("command", ["/status", "/context"])
def test_a_window_that_is_only_guessed_is_said_to_be(project: Project, command: str) -> None:
    (text,) = said(run(project, command))
    assert "the window is a guess" in text
    project.configure(runtime={"context_window": 9000})
    (text,) = said(run(project, command))
    assert "of 9,000 tokens" in text
    assert "guess" not in text


class TestDiff:
    """By git where there is a repository, else by what the session itself changed."""

    def git(self, project: Project, *args: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        subprocess.run(["git", *who, *args], cwd=project.cwd, check=True, capture_output=True)

    def test_summary_then_all_of_it(self, project: Project) -> None:
        project.write("a.txt", "one\n")
        self.git(project, "init", "-q")
        self.git(project, "add", "a.txt")
        self.git(project, "commit", "-qm", "x")
        project.write("a.txt", "two\n")
        project.write("fresh.txt", "new\n")
        summary, full, one = said(run(project, "/diff", "/diff full", "/diff a.txt"))
        assert "a.txt" in summary
        assert "fresh.txt" in summary
        assert "+two" not in summary
        assert "+two" in full
        assert "+new" in full
        assert "+two" in one
        assert "+new" not in one

    def test_caches_are_counted_and_not_named(self, project: Project) -> None:
        self.git(project, "init", "-q")
        project.write("fresh.txt", "new\n")
        project.write("__pycache__/fresh.cpython-311.pyc", "binary\n")
        for text in said(run(project, "/diff", "/diff full")):
            assert "fresh.txt" in text
            assert "pyc" not in text
            assert "… and 1 cache file" in text

    def test_before_the_first_commit(self, project: Project) -> None:
        self.git(project, "init", "-q")
        project.write("a.txt", "one\n")
        (text,) = said(run(project, "/diff"))
        assert "a.txt" in text

    def test_nothing(self, project: Project) -> None:
        self.git(project, "init", "-q")
        with ScriptedServer([]) as server:
            driver = drive(project, server.url, ["/diff"], log_dir=project.home / "log")
        assert "No changes" in said(driver)[0]

    def test_a_path_is_a_file_a_directory_or_not_there(self, project: Project) -> None:
        project.write("same.txt", "same\n")
        project.write("sub/a.txt", "one\n")
        project.write("gone.txt", "here\n")
        self.git(project, "init", "-q")
        self.git(project, "add", ".")
        self.git(project, "commit", "-qm", "x")
        project.write("sub/a.txt", "two\n")
        project.write("sub/fresh.txt", "new\n")
        (project.cwd / "gone.txt").unlink()
        driver = run(
            project,
            *(
                "/diff sub",
                "/diff sub/fresh.txt",
                "/diff same.txt",
                "/diff gone.txt",
                "/diff nofile",
                "/diff ../x",
                "/diff a\0b",
            ),
        )
        directory, fresh, same, gone, nothing, outside, nul = of(driver.seen, CommandDone)
        assert "+two" in directory.text
        assert "+new" in directory.text
        assert directory.data["files"] == ["sub/a.txt", "sub/fresh.txt"]
        assert "+new" in fresh.text
        assert "+two" not in fresh.text
        assert (same.ok, same.text) == (True, "No changes in same.txt.")
        assert "-here" in gone.text
        assert (nothing.ok, nothing.text) == (False, "There is no nofile here.")
        assert (outside.ok, nul.ok) == (False, False)
        (chinese,) = said(run(project, "/diff nofile", lang="zh"))
        assert chinese == "此处没有 nofile。"

    def test_in_a_directory_of_a_repository_paths_are_those_of_the_directory(self, project: Project) -> None:
        self.git(project, "init", "-q", "..")
        project.write("a.txt", "one\n")
        self.git(project, "add", "a.txt")
        self.git(project, "commit", "-qm", "x")
        project.write("a.txt", "two\n")
        driver = run(project, "/diff", "/diff a.txt")
        summary, one = of(driver.seen, CommandDone)
        assert summary.data["files"] == ["a.txt"]
        assert "+two" in one.text

    def test_without_git_a_path_picks_among_the_names(self, project: Project) -> None:
        project.write("there.txt", "x\n")
        write = {"name": "write", "arguments": {"path": "sub/made.txt", "content": "x"}}
        driver = run(
            project,
            *("go", "/diff sub/made.txt", "/diff sub", "/diff there.txt", "/diff nofile"),
            script=[{"calls": [write]}, {"text": "done"}],
            mode="auto-edit",
        )
        made, directory, there, nothing = of(driver.seen, CommandDone)
        assert "+++ b/sub/made.txt" in made.text
        assert "\n+x" in made.text
        assert directory.text == made.text
        assert "sub/made.txt" not in there.text
        assert (nothing.ok, nothing.text) == (False, "There is no nofile here.")

    def test_without_git_every_line_comes_from_what_undo_keeps(self, project: Project) -> None:
        project.write("a.txt", "one\ntwo\n")
        project.write("gone.txt", "bye\n")
        edit = {"name": "edit", "arguments": {"path": "a.txt", "old_string": "one", "new_string": "ONE"}}
        again = {"name": "edit", "arguments": {"path": "a.txt", "old_string": "ONE", "new_string": "three"}}
        patch = {
            "name": "patch",
            "arguments": {"patch": "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch"},
        }
        script = [{"calls": [edit]}, {"text": "1"}, {"calls": [again, patch]}, {"text": "2"}]
        driver = run(project, "go", "on", "/diff full", script=script, mode="auto-edit")
        text = of(driver.seen, CommandDone)[-1].text
        assert "-one\n+three\n two" in text
        assert "ONE" not in text
        assert "+++ /dev/null" in text
        assert "\n-bye" in text

    def test_without_git(self, project: Project) -> None:
        script = [
            {"calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "x"}}]},
            {"text": "ok"},
        ]
        before, after = said(run(project, "/diff", "go", "/diff", script=script, mode="auto-edit"))
        assert "git" in before
        assert "/diff session" in after
        assert "made.txt" in after


def test_a_model_has_one_name(project: Project) -> None:
    with ScriptedServer([]) as server:
        driver = drive(project, server.url, ["/model two words", "/model"])
    refused, current = of(driver.seen, CommandDone)
    assert not refused.ok
    assert "two words" not in current.text


def test_undo_takes_one_number(project: Project) -> None:
    with ScriptedServer([]) as server:
        driver = drive(project, server.url, ["/undo 1 2"])
    (refused,) = of(driver.seen, CommandDone)
    assert (refused.ok, refused.data) == (False, {"usage": True})


@pytest.mark.parametrize(("lang", "about"), [("en", "undo the file changes"), ("zh", "撤销")])
def test_help_on_one_command_is_its_line(project: Project, lang: str, about: str) -> None:
    driver = run(project, "/help undo", "/help /undo", "/help undoo", lang=lang)
    one, same, wrong = of(driver.seen, CommandDone)
    assert one.text.startswith("/undo [")
    assert about in one.text
    assert "\n" not in one.text
    assert same.text == one.text
    assert not wrong.ok
    assert "/undo" in wrong.text


TOO_MANY = [
    *("/plan x", "/tools x", "/skills x", "/todos x", "/new x", "/sessions x", "/compact x", "/status x"),
    *(
        "/context x",
        "/fork x",
        "/exit x",
        "/mode plan x",
        "/model a b",
        "/permissions strict x",
        "/budget 1 2",
    ),
    *("/loop on x", "/memory show x", "/memory forget 1 2", "/modes x", "/modes off", "/undo x", "/redo x"),
    *("/help undo x", "/resume a b", "/mcp x"),
]


def test_no_command_ignores_a_word_too_many(project: Project) -> None:
    project.configure(mcp={"servers": {"s": {"command": "false"}}})
    driver = run(project, *TOO_MANY)
    answers = of(driver.seen, CommandDone)
    assert [answer.command for answer in answers if answer.ok] == []
    assert len(answers) == len(TOO_MANY)
    assert len(project.logs()) == 1


def test_aliases_do_what_their_command_does(project: Project) -> None:
    driver = play(project, [{"text": "hi"}], ["hello", "/cost", "/clear", "/quit"])
    status, new = of(driver.seen, CommandDone)[:2]
    assert "tokens" in status.text
    assert new.ok
    assert len({event.session_id for event in of(driver.seen, SessionStarted)}) == 2
    assert [event.exit for event in of(driver.seen, InputDone)] == [False, False, False, True]


def test_a_renamed_session_keeps_its_name(project: Project) -> None:
    driver = play(project, [{"text": "hi"}], ["hello", "/rename", "/rename  The  parser", "/new"])
    wrong, named, _ = of(driver.seen, CommandDone)
    assert not wrong.ok
    assert "The parser" in named.text
    session = of(driver.seen, SessionStarted)[0].session_id
    assert "The parser" in project.coder("sessions").stdout
    big = [{"calls": [call("bash", command="head -c 90000 /dev/zero | tr '\\0' x")]}, {"text": "ok"}]
    again = play(project, big, ["more"], resume=session, mode="yolo")  # the rename is out of the tail's reach
    assert again.engine.agent.session.title == "The parser"
    assert "The parser" in project.coder("sessions").stdout
    found = project.coder("sessions", "--search", "hello").stdout
    assert "The parser" in found


def test_init_and_review_are_messages_that_a_custom_mode_replaces(project: Project) -> None:
    script = [{"text": "ok"}] * 3
    driver = play(project, script, ["/init keep it short", "/review", "/review src/x.py"])
    init, review, one = (chat["messages"][-1]["content"] for chat in driver.chats)
    assert "AGENTS.md" in init
    assert "keep it short" in init
    assert "uncommitted changes" in review
    assert "Review src/x.py." in one
    listed = play(project, [], ["/rewind"], resume=driver.engine.agent.session.id)
    lines = of(listed.seen, CommandDone)[0].text.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == [
        "/review src/x.py",
        "/review",
        "/init keep it short",
    ]
    project.write(".coder/modes/review.md", "---\nkind: instant\n---\nMy own way.\n")
    own = play(project, script, ["/review"])
    assert "My own way." in own.chats[0]["messages"][-1]["content"]
    shown = project.coder("modes").stdout
    assert "/review" in shown
    assert "built-in" not in shown
