"""Sessions that between them write every type of entry that a record has, in every form.

Run as a program (`PYTHONPATH=tests python -m kit.record_sessions DIR [NAME…]`), it writes the records of all
or of those named into DIR, as `tests/record/fixtures/old_records` was made; `test_old_records.py` plays them
again and compares.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coder.protocol.events import ApprovalRequested, Content, JobChanged, ToolCallChanged
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from coder.texts import Catalog
from coder.ui.acp.updates import Updates
from kit import Chaos, ScriptedServer
from kit.calls import call, step
from kit.driving import Driver, Project, drive, play
from kit.wire import by_place

RECORDS = sorted((Path(__file__).parents[1] / "record" / "fixtures" / "old_records").glob("*.jsonl"))
LONG = " ".join(f"w{n}" for n in range(900))  # about 2,000 tokens
PRICES = {"scripted": {"input": 10.0, "cached_input": 1.0, "output": 30.0}}
PLAIN = {"require_todo_for_complex": False}
SQUARE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4AWPQCKgAIgYIBQAZDgPB4tqgNwAAAABJRU5ErkJggg=="
)
SERVER = str(Path(__file__).parent / "tool_server.py")


def record(project: Project, script: list[Any], *inputs: str, **options: Any) -> str:
    """A session in which nothing is asked; its id."""
    driver = play(project, script, inputs, **{"mode": "yolo", "preset": "yolo", **options})
    return driver.engine.agent.session.id


def work(project: Project) -> None:
    """Tools of every kind, reasoning, a complex task's list, undo and redo, the person's own commands."""
    project.configure(budget={"prices": PRICES})
    project.write("AGENTS.md", "Keep it short.\n")
    project.write("a.txt", "one\ntwo\nthree\n")
    project.write(
        ".coder/skills/pottery/SKILL.md", "---\nname: pottery\ndescription: pots\n---\nTurn the wheel.\n"
    )
    patch = (
        "*** Begin Patch\n*** Add File: p.txt\n+new\n*** Update File: a.txt\n@@\n-two\n+2\n*** End Patch\n"
    )
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
    script = [
        {
            "text": "I look.",
            "reasoning": "What is there?",
            **step("read_file", file_path="a.txt"),
            "usage": usage,
        },
        {"calls": [call("list"), call("glob", pattern="*.txt"), call("grep", pattern="two")]},
        step("write", path="made/new.txt", content="hello\n"),
        step("edit", path="a.txt", old_string="three", new_string="3"),
        step("patch", patch=patch, dry_run=True),
        step("patch", patch=patch),
        {"calls": [call("bash", command="echo out; echo err >&2; exit 3"), call("read", path="missing.txt")]},
        {"calls": [call("skill", action="list"), call("skill", action="load", name="pottery")]},
        {"calls": [call("todoread"), call("nonsense", x=1), call("save_memory", fact="Tea at four.")]},
        step("todowrite", todos=[{"content": "write the tests", "status": "completed"}]),
        {"text": "All four are done.", "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 600}}},
        step("write", path="a.txt", content="other\n"),
        {"text": "Changed."},
        {"text": "Nothing more."},
    ]
    task = (
        "Please do this:\n1. write the tests\n2. implement the parser\n3. refactor the lexer\n4. document it"
    )
    record(project, script, task, "change a.txt", "!echo mine; exit 2", "/undo", "/redo", "/status",
         "/nonsense", "/mode plan", "/budget 5", "/budget off", "/loop off", "and now?")  # fmt: skip


def asking(project: Project) -> None:
    """Approvals: yes, no with a reason, always; a permission taken back; a cancel while it waits."""
    answers = iter(["yes", "no", "always"])

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def answer(event: ApprovalRequested) -> ApprovalReply | None:
            said = next(answers, "")
            if not said:
                driver.engine.submit(Cancel())
                return None
            return ApprovalReply(event.approval_id, said, "not there" if said == "no" else "")  # type: ignore[arg-type] # one of three

        await driver.send("write them", answer)
        await driver.send("/permissions revoke touch")
        await driver.send("once more", answer)
        await driver.close()

    script = [
        {"calls": [call("write", path="y.txt", content="y\n"), call("write", path="n.txt", content="n\n")]},
        step("bash", command="touch t.txt"),
        {"text": "As you wish."},
        {"text": "again", "calls": [call("write", path="z.txt", content="z\n"), call("list")]},
    ]
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))
    record(
        project,
        [step("write", path="n.txt", content="n\n"), {"text": "no"}],
        "go",
        mode="default",
        preset="balanced",
    )
    project.configure(approval={"interactive": False})
    record(
        project,
        [step("write", path="n.txt", content="n\n"), {"text": "yes"}],
        "go",
        mode="default",
        preset="balanced",
    )


def cut_off(project: Project) -> None:
    """Killed while it waited for an approval, then taken up by a run that cannot ask."""
    copy = project.home / "at-the-kill"

    async def scenario(url: str) -> str:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def answer(event: ApprovalRequested) -> ApprovalReply:
            shutil.copy(project.logs()[0], copy)
            return ApprovalReply(event.approval_id, "no")

        await driver.send("go", answer)
        await driver.close()
        return driver.engine.agent.session.id

    waiting = step("write", path="n.txt", content="n\n")
    with ScriptedServer([step("list"), waiting, {"text": "later"}]) as server:
        session = asyncio.run(scenario(server.url))
    log = project.logs()[0]
    shutil.copy(copy, log)
    shutil.copy(copy, log.with_name("waiting.jsonl"))
    record(project, [{"text": "on we go"}], "on", resume=session, mode="default", preset="balanced")


def compacted(project: Project) -> None:
    """Old outputs shortened, then a summary, then one that the person asked for."""
    project.configure(runtime={"context_window": 16000}, workflow=PLAIN)
    project.write("big.txt", "\n".join(f"line {n} of the file" for n in range(700)))
    script = by_place(
        [step("read", path="big.txt"), *[{"text": LONG}] * 8], summary={"text": "## Goal\nkeep going"}
    )
    record(project, script, *[f"part {n}" for n in range(7)], "/compact")


def checked(project: Project) -> None:
    """Verification: failed and repaired, passed; refused; nothing to run; given up."""
    gradlew = project.write("gradlew", "#!/bin/sh\ntest -e fixed || { echo FAILED; exit 1; }\n")
    gradlew.chmod(0o755)
    edit = step("write", path="app.py", content="x = 1\n")
    script = [edit, {"text": "done"}, step("write", path="fixed", content="x\n"), {"text": "repaired"}]
    again = [step("edit", path="app.py", old_string="1", new_string="2"), {"text": "fine"}]
    record(
        project,
        [*script, *again],
        "do it",
        "more, but do not run the tests",
        mode="auto-edit",
        preset="balanced",
    )
    gradlew.write_text("#!/bin/sh\nexec missing-program\n", encoding="utf-8")
    for name in ("two.py", "three.py"):
        edit = step("write", path=name, content="x = 3\n")
        record(project, [edit, {"text": "ok"}, {"text": "ok"}], "again", mode="auto-edit", preset="balanced")
        gradlew.unlink(missing_ok=True)


def evident(project: Project) -> None:
    """Checks that the model ran: some tests, a linter; a claim without a run; nothing checked."""
    project.configure(approval={"auto_approve_ask": True})
    for name in ("pytest", "ruff"):
        project.write(f".venv/bin/{name}", "#!/bin/sh\necho '1 passed in 0.1s'\n").chmod(0o755)
    check = step("bash", command=".venv/bin/ruff check . && .venv/bin/pytest tests/test_a.py")
    edit = step("write", path="app.py", content="x = 1\n")
    again = step("edit", path="app.py", old_string="1", new_string="2")
    record(
        project,
        [edit, check, {"text": "done"}, again, {"text": "All tests pass."}],
        "set x",
        "set it to 2",
        preset="yolo",
    )


def in_modes(project: Project) -> None:
    """Custom modes: a persistent one on and off, an instant one with a model of its own."""
    project.write(
        ".coder/modes/review.md",
        "---\nkind: persistent\ndisplay_name: Review\nvariables:\n  - name: role\n    required: true\n---\n"
        "Speak as {{role}}.\n",
    )
    project.write(".coder/modes/deploy.md", "---\nkind: instant\nmodel: other\nvariables:\n  - name: target\n"
                  "    default: staging\n---\nDeploy to {{target}}.\n")  # fmt: skip
    script = [{"text": f"answer {n}"} for n in range(4)]
    record(project, script, "hi", "/review author", "go", "/modes off review", "/deploy production")


def with_hooks(project: Project) -> None:
    """Hooks that add, change and refuse, around the turn of an instant mode."""
    changed = json.dumps({"hookSpecificOutput": {"updatedInput": {"command": "echo changed"}}})
    guard = f"case $(cat) in *refused*) echo no >&2; exit 2;; *) echo '{changed}';; esac"
    told = {"hooks": [{"type": "command", "command": "echo It is Friday."}]}
    call_guard = {"matcher": "bash", "hooks": [{"type": "command", "command": guard}]}
    project.configure(hooks={"UserPromptSubmit": [told], "PreToolUse": [call_guard]}, workflow=PLAIN)
    project.write(".coder/modes/say.md", "---\nkind: instant\nvariables: [what]\n---\nSay {{what}}.\n")
    calls = {"calls": [call("bash", command="echo given"), call("bash", command="echo refused")]}
    record(project, [calls, {"text": "said"}], "/say hello")


def with_subagents(project: Project) -> None:
    """One that explores, one that writes, one that fails; an approval within, and a job that it leaves."""
    project.write("a.txt", "the number is 42\n")
    parts = {
        "dig": [step("read", path="a.txt"), {"text": "It is 42."}],
        "make": [step("write", path="made.txt", content="x\n"),
                 step("bash", command="sleep 300", background=True), {"text": "Made."}],
        "break": [{"status": 400, "body": {"error": {"message": "no such model"}}}],
        "main": [
            step("task", agent="explore", objective="dig for the number"),
            step("task", agent="general", objective="make the file"),
            step("task", agent="general", objective="break something"),
            {"text": "Done."},
        ],
    }  # fmt: skip

    def answer(request: dict[str, Any]) -> Any:
        first = next(m["content"] for m in request["messages"] if m["role"] == "user").split("<note>")[0]
        return parts[next((name for name in parts if name in first), "main")].pop(0)

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("what is it?", lambda event: ApprovalReply(event.approval_id, "yes"))
        await driver.close()

    with ScriptedServer([answer] * 20) as server:
        asyncio.run(scenario(server.url))


def with_jobs(project: Project) -> None:
    """Started, looked at, stopped by the model, by the person, with the session; one that ends by itself."""
    job = [step("bash", command=f"echo {n}; sleep 300", background=True) for n in range(3)]

    async def scenario(url: str) -> None:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        await driver.send("start them")
        await driver.send("/stop 2")
        driver.engine.submit(UserInput("and a short one"))
        ended = asyncio.Event()

        def watch(event: object) -> None:
            if isinstance(event, JobChanged) and event.job_id == "4" and event.state == "ended":
                ended.set()

        await driver.until_idle(watch=watch)
        await driver.close()

    short = step("bash", command="sleep 0.6; echo over", background=True)
    script = [*job, {"calls": [call("job", action="list"), call("job", action="output", id="1")]},
              step("job", action="stop", id="1"), {"text": "They run."},
              short, step("job", action="wait", id="4"), {"text": "It is over."}]  # fmt: skip
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))


def with_mcp(project: Project) -> None:
    """A server's tool that works, one that fails."""
    entry = {"command": sys.executable, "args": [SERVER, str(project.cwd)]}
    project.configure(mcp={"servers": {"plain": entry}})
    calls = {"calls": [call("mcp__plain__echo", text="hello"), call("mcp__plain__fail")]}
    record(project, [calls, {"text": "done"}], "go")


def routed(project: Project) -> None:
    """The model chosen by a classifier, another in its place, and an answer that was cut and goes on."""
    project.configure(workflow=PLAIN, routing={"fast": "small", "strong": "big"})
    gone = {"status": 402, "body": {"error": {"message": "insufficient_quota"}}}
    script = by_place(
        [{"text": "half", "finish": "length"}, {"text": " and half"}, gone, {"text": "instead"}],
        routing={"text": "COMPLEX"},
    )
    question = "tell me about the history of this repository and its main authors"
    record(project, script, question, question + " again", model="auto")


def in_circles(project: Project) -> None:
    """Noticed, asked about, stopped."""
    project.write("a.txt", "a\n")

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", lambda event: ApprovalReply(event.approval_id, "no"))
        await driver.close()

    with ScriptedServer([step("read", path="a.txt")] * 20) as server:
        asyncio.run(scenario(server.url))
    record(project, [step("read", path="a.txt")] * 20, "go")


def failing(project: Project) -> None:
    """A provider's fault, a step limit, a cancel, a message that is too long; a citation; a call in text."""
    project.configure(runtime={"max_steps": 2, "context_window": 8000}, workflow=PLAIN)
    source = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    message = {"role": "assistant", "content": "So they say.", "annotations": [source]}
    cited = {"status": 200, "body": {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}}
    salvaged = {"text": 'I look.\n<tool_call>{"name": "list", "arguments": {}}</tool_call>'}
    script = [{"status": 400, "body": {"error": {"message": "bad request"}}},
              step("list"), step("glob", pattern="*"), cited, salvaged, {"text": "seen"}]  # fmt: skip
    record(project, script, "hello", "round and round", "who says so?", "look", " ".join([LONG] * 6))

    async def cancelled(url: str) -> None:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        driver.engine.submit(UserInput("sleep"))

        def watch(event: object) -> None:
            if isinstance(event, Content) or (
                isinstance(event, ToolCallChanged) and event.state == "executing"
            ):
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        for text in ("!sleep 300", "talk"):
            driver.engine.submit(UserInput(text))
            await driver.until_idle(watch=watch)
        await driver.close()

    talking = {"text": LONG, "reasoning": "So much to say.", "chunk": 20, "delay": 0.02}
    with ScriptedServer([{"calls": [call("bash", command="sleep 300"), call("list")]}, talking]) as server:
        asyncio.run(cancelled(server.url))


def in_xml(project: Project) -> None:
    """The ReAct dialect: what the model wrote is not what the conversation has."""
    project.configure(provider={"dialect": "react-xml"})
    script = [
        {"text": '<thought>Look.</thought><action tool="list">{}</action>'},
        {"text": "<thought>Seen.</thought><final>There is nothing.</final>"},
    ]
    record(project, script, "what is there?")


def native(project: Project) -> None:
    """A wire that signs what the model thinks."""
    project.configure(provider={"wire": "messages"})
    project.write("a.txt", "one\n")
    looks = {"reasoning": "first look", "text": "I look.", **step("read", path="a.txt")}
    with Chaos([looks, {"text": "it says one"}], wire="messages") as server:
        drive(project, server.url, ["/effort high", "what is in a.txt?"], mode="yolo", preset="yolo")


def with_images(project: Project) -> None:
    """Named in a message and read, by a model whose provider counts what goes into its cache."""
    project.configure(provider={"wire": "messages"})
    project.write("a.png", b64decode(SQUARE))
    with Chaos([step("read", path="a.png"), {"text": "a square"}], wire="messages") as server:
        drive(project, server.url, ["what is on @a.png?"], model="claude-opus-5")


def accepted(project: Project) -> None:
    """Somebody else's record, that the person took for their own."""
    session = record(project, [{"text": "hello"}], "hi")
    (project.home / ".coder" / "record.key").unlink()
    done = project.coder("trust", "--session", session, stdin="y\n")
    assert done.returncode == 0, done


def by_command(project: Project) -> None:
    """A pipeline that changes files."""
    project.configure(workflow=PLAIN)
    record(project, [step("bash", command="echo x | tee made.txt"), {"text": "made"}], "go", mode="yolo")


def rewound(project: Project) -> None:
    """Gone back twice, once for good; and named."""
    project.configure(workflow=PLAIN)
    script = [step("write", path="a.txt", content="a\n"), {"text": "made"}, {"text": "hm"}, {"text": "again"}]
    record(
        project, script, "make it", "why?", "/rewind 1", "/redo", "/rewind 1", "/rename Making", "another way"
    )


def reviewed(project: Project) -> None:
    """`/diff review`: a part is taken back, and done again."""

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True, mode="auto-edit")
        driver.start()
        await driver.send("go")
        await driver.send("/diff review", lambda event: ApprovalReply(event.approval_id, "no", "not that"))
        await driver.send("/redo")
        await driver.close()

    with ScriptedServer([step("write", path="y.txt", content="y\n"), {"text": "done"}]) as server:
        asyncio.run(scenario(server.url))


SESSIONS: dict[str, Callable[[Project], None]] = {
    one.__name__: one
    for one in (
        work, asking, cut_off, compacted, checked, evident, in_modes, with_subagents, with_jobs, with_mcp,
        routed, in_circles, failing, in_xml, native, with_images, accepted, with_hooks, by_command,
        rewound,
        reviewed,
    )
}  # fmt: skip


class Told(Updates):
    """What an editor would be told."""

    def __init__(self) -> None:
        super().__init__(None, "s", Path("/home/ada/project"), Catalog("en"))  # type: ignore[arg-type] # asks no engine
        self.all: list[Any] = []

    def send(self, update: Any) -> None:
        self.all.append(update)

    def chunk(self, kind: str, text: str) -> None:
        self.all.append([kind, text])


def neutral(text: str, root: Path) -> str:
    """The record with no path of this machine in it."""
    checkout = str(Path(__file__).parents[2])
    for real, shown in (
        (str(root), "/home/ada"),
        (sys.executable, "/usr/bin/python3"),
        (checkout, "/opt/coder"),
    ):
        text = text.replace(json.dumps(real)[1:-1], shown)
    return text


def records(name: str, root: Path) -> list[str]:
    """The records of one of the sessions, played in `root`, oldest first."""
    root.mkdir(exist_ok=True)
    project = Project(root)
    SESSIONS[name](project)
    logs = sorted(project.logs(), key=lambda path: path.stat().st_mtime_ns)
    return [neutral(log.read_text(encoding="utf-8"), root) for log in logs]


def main(directory: Path, *names: str) -> None:
    os.environ.setdefault("CODER_STRICT_TEXTS", "1")
    directory.mkdir(exist_ok=True)
    for name in names or SESSIONS:
        with tempfile.TemporaryDirectory() as root:
            for n, text in enumerate(records(name, Path(root)), 1):
                (directory / f"{name}{n}.jsonl").write_text(text, encoding="utf-8")
            print(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
