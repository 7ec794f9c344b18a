"""Questions and streams that are odd, empty, closed, full or left early."""

from __future__ import annotations

import pytest
from cli_kit import closed, run, run_line, sentence

from kit import ScriptedServer
from kit.calls import step
from kit.driving import Project


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["argv", "stdin"])
def test_a_question_that_is_not_utf_8(project: Project, way: str) -> None:
    question = b"what is \xff\xfe\x80 here?"
    with ScriptedServer([{"text": "hm"}]) as server:
        if way == "argv":
            done = run(project, "--once", question, url=server.url)
        else:
            done = run(project, url=server.url, input=question)
        message = server.chats[0]["messages"][1]["content"]
    assert (done.returncode, done.stdout) == (0, b"hm\n")
    assert message.startswith("what is ")
    assert "here?" in message
    assert "here?" in project.of_type("turn_start")[0]["content"]
    assert run(project, "--continue", "--once", "/status", url="http://127.0.0.1:9/v1").returncode == 0


@pytest.mark.parametrize("given", [b"", b"   \n\t\n", b"\xef\xbb\xbf"], ids=["nothing", "blanks", "bom"])
def test_empty_stdin(project: Project, given: bytes) -> None:
    with ScriptedServer([]) as server:
        done = run(project, url=server.url, input=given)
    assert done.returncode == 2
    assert "stdin is empty" in sentence(done)


def test_stdin_that_is_closed(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        nothing = closed(project, 0, url=server.url)
        question = closed(project, 0, "--once", "hi", url=server.url)
    assert nothing.returncode == 2
    assert nothing.stderr
    assert (question.returncode, question.stdout) == (0, b"hi\n")


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
@pytest.mark.parametrize("number", [1, 2])
def test_an_output_that_is_closed(project: Project, number: int, output: str) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        done = closed(project, number, "--output", output, "--once", "hi", url=server.url)
    if number == 2:
        assert done.returncode == 0
        assert b"hi" in done.stdout
    assert project.of_type("turn_end")[0]["meta"]["status"] == "ok"


@pytest.mark.thorough
def test_a_question_of_5_mb(project: Project) -> None:
    with ScriptedServer([{"text": "long"}]) as server:
        done = run(project, url=server.url, input=b"word " * 1_000_000 + b"the end?")
        assert server.chats == []  # it is not sent where it cannot be taken
    assert done.returncode == 4
    assert "tokens and the limit is 128000" in done.stderr.decode()
    assert project.of_type("turn_start")[0]["content"].endswith("the end?")


@pytest.mark.thorough
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_that_leaves_early(project: Project, reader: str, output: str) -> None:
    text = "".join(f"line {n}\n" for n in range(50_000))
    line = f'"$@" | {reader}; exit ${{PIPESTATUS[0]}}'
    with ScriptedServer([{"text": text, "chunk": 4000}]) as server:
        done = run_line(project, line, "--output", output, "--once", "go", url=server.url)
    # The one object of `json` is one line, all of which `head -1` takes.
    assert done.returncode == (0 if (output, reader) == ("json", "head -1") else 1)
    assert b"Broken pipe" not in done.stderr
    if output != "stream-json":  # there the reader misses the turn itself, which is then cancelled
        assert project.of_type("assistant")[0]["content"].endswith("line 49999\n")
    assert project.of_type("turn_end")
    assert project.of_type("session_end")


@pytest.mark.parametrize("target", ["stdout", "stderr"])
def test_an_output_on_a_full_disk(project: Project, target: str) -> None:
    redirection = {"stdout": ">/dev/full", "stderr": "2>/dev/full"}[target]
    with ScriptedServer([step("list"), {"text": "hi"}]) as server:
        done = run_line(project, f'"$@" {redirection}', "--once", "go", url=server.url)
    if target == "stdout":
        assert done.returncode == 1
        assert "No space left" in done.stderr.decode() or "full" in done.stderr.decode()
    assert project.of_type("turn_end")
