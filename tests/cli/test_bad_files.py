"""Files, names and commands that are odd, huge or no text."""

from __future__ import annotations

import os

import pytest
from cli_kit import observations, run

from kit import ScriptedServer
from kit.calls import step
from kit.driving import Project


def odd_files(project: Project) -> str:
    """Files that are not text, and a name that is not either; returns that name as Python spells it."""
    project.write("latin.txt", "caf\xe9 needle\n".encode("latin-1"))
    project.write("nul.bin", b"needle\0\0\0" * 100)
    odd = os.fsencode(project.cwd) + b"/na\xefve.txt"
    with open(odd, "wb") as file:  # noqa: PTH123 - a Path cannot be made of these bytes as readably
        file.write(b"needle in an odd name\n")
    return os.fsdecode(odd)


def test_files_and_names_that_are_not_utf_8(project: Project) -> None:
    odd_files(project)
    script = [
        step("list"),
        step("grep", pattern="needle"),
        step("glob", pattern="*.txt"),
        step("read", path="latin.txt"),
        step("read", path="nul.bin"),
        step("bash", command="cat latin.txt; ls; cat na*"),
        {"text": "done"},
    ]
    with ScriptedServer(script) as server:
        done = run(project, "--mode", "yolo", "--once", "look", url=server.url)
        assert len(server.chats) == 7
    assert (done.returncode, done.stdout) == (0, b"done\n")
    listed, found, globbed, latin, nul, shell = observations(project)
    assert "latin.txt" in listed
    assert all("ve.txt" in text for text in (listed, globbed, shell))
    assert "needle in an odd name" in found
    assert "needle" in latin
    assert nul.startswith("error: ")
    assert "binary" in nul
    assert "needle in an odd name" in shell
    run(project, "show", project.logs()[0].stem)


def test_nul_bytes_in_arguments(project: Project) -> None:
    script = [
        step("read", path="a\0b"),
        step("write", path="a\0b", content="x"),
        step("glob", pattern="\0"),
        step("grep", pattern="a\0b"),
        step("bash", command="echo a\0b"),
        step("list", path="\0"),
        step("patch", patch="*** Begin Patch\n*** Add File: a\0b\n+x\n*** End Patch\n"),
        {"text": "done"},
    ]
    with ScriptedServer(script) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    answers = observations(project)
    assert len(answers) == 7
    for answer in [answers[0], answers[1], answers[4], answers[5], answers[6]]:
        assert answer.startswith(("error: ", "denied: ")), answer
        assert "NUL" in answer, answer  # said by the tool itself, not caught as a fault of it


def test_nul_bytes_written_to_a_file_stay_as_they_are(project: Project) -> None:
    with ScriptedServer([step("write", path="n", content="a\0b\n"), {"text": "done"}]) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert done.returncode == 0
    assert observations(project)[0].startswith("created n")
    assert (project.cwd / "n").read_bytes() == b"a\0b\n"


@pytest.mark.thorough
def test_a_file_of_100_mb(project: Project) -> None:
    path = project.write("huge.log", "first line\n")
    with path.open("r+b") as file:
        file.truncate(100 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast line\n")
    script = [
        step("read", path="huge.log"),
        step("edit", path="huge.log", old_string="first", new_string="1st"),
        step("grep", pattern="last line"),
        step("bash", command="cat huge.log"),
        {"text": "done"},
    ]
    with ScriptedServer(script) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert all(len(answer) < 200_000 for answer in observations(project))
    assert observations(project)[1].startswith("error: ")
    assert path.stat().st_size > 100 * 1024 * 1024
    assert sum(log.stat().st_size for log in project.logs()) < 4_000_000


@pytest.mark.thorough
def test_a_command_of_1000_lines_and_one_of_200_kb(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    text = "x" * 200_000
    long = f"cat <<'END' | wc -c\n{text}\nEND\n"
    with ScriptedServer([step("bash", command=lines), step("bash", command=long), {"text": "ok"}]) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"ok\n")
    many, one = observations(project)
    assert "line 0\n" in many
    assert "line 999" in many
    assert "200001" in one


@pytest.mark.thorough
def test_the_same_commands_under_the_ordinary_policy(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    long = "echo " + "x" * 200_000
    with ScriptedServer([step("bash", command=lines), step("bash", command=long), {"text": "ok"}]) as server:
        done = run(project, "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"ok\n")
    assert "line 999" in observations(project)[0]
    assert observations(project)[1].startswith("denied: ")  # nobody could read it, and nobody is there to ask


def test_the_person_s_own_command_of_1000_lines(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    with ScriptedServer([]) as server:
        done = run(project, "--once", "!" + lines, url=server.url)
    assert done.returncode == 0
    assert b"line 999" in done.stdout
