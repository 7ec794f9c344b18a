"""Tools and commands of installed packages, by entry points."""

from __future__ import annotations

from pathlib import Path

from kit import ScriptedServer
from kit.driving import Project

MODULE = """
import coder

@coder.tool(read_only=True)
def shout(text: str) -> str:
    "Say it loudly."
    return text.upper()

@coder.tool
def send(text: str) -> str:
    "Send it."
    return "sent"

def many():
    return [send]

async def hello(args, context):
    return f"hello {args} in {context.workspace.root.name}"
"""
POINTS = (
    "[coder.tools]\nshout = loud_tools:shout\nmore = loud_tools:many\nbroken = loud_tools:missing\n"
    "[coder.commands]\nhello = loud_tools:hello\n[console_scripts]\nx = y:z\n"
)
CALLS = {"calls": [{"name": name, "arguments": {"text": "hi"}} for name in ("shout", "send")]}


def install(directory: Path) -> Path:
    (directory / "loud_tools-1.0.dist-info").mkdir(parents=True)
    (directory / "loud_tools-1.0.dist-info" / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    (directory / "loud_tools.py").write_text(MODULE, encoding="utf-8")
    return directory


def test_they_are_offered_under_the_policy(project: Project) -> None:
    env = {"PYTHONPATH": str(install(project.home / "site"))}
    with ScriptedServer([CALLS, {"text": "done"}]) as server:
        done = project.coder("--once", "go", url=server.url, env=env)
        names = [tool["function"]["name"] for tool in server.chats[0]["tools"]]
    assert done.returncode == 0, done.stderr
    assert {"shout", "send"} <= set(names)
    shouted, sent = project.of_type("observation")
    assert shouted["content"] == "HI"
    assert "needs a person's approval" in sent["content"]
    assert "broken of the package loud_tools-1.0 cannot be used" in done.stderr
    told = project.coder("--once", "/hello there", url="http://127.0.0.1:9", env=env)
    assert told.stdout.strip() == "hello there in project"
    listed = project.coder("doctor", env=env).stdout
    assert "tools: shout (loud_tools-1.0)" in listed
    assert "commands: hello (loud_tools-1.0)" in listed


def test_a_package_in_the_workspace_is_not_loaded(project: Project) -> None:
    install(project.cwd)  # `python -m` puts the working directory on the path
    with ScriptedServer([{"text": "done"}]) as server:
        project.coder("--once", "go", url=server.url, env={"PYTHONPATH": str(project.cwd)})
        names = [tool["function"]["name"] for tool in server.chats[0]["tools"]]
    assert "shout" not in names
    assert "loud_tools" not in project.coder("doctor", env={"PYTHONPATH": str(project.cwd)}).stdout
