"""Wrong input and a hostile machine: a clear sentence, the right status, nothing lost, no traceback."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit import Chaos, ScriptedServer
from kit.driving import Project

CODER = [sys.executable, "-m", "coder"]
Done = subprocess.CompletedProcess[bytes]


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def run(
    project: Project, *args: str | bytes, url: str = "", env: dict[str, str] | None = None, **popen: Any
) -> Done:
    """The process with whatever the system can do to it. `env` replaces variables, "" removes one."""
    environ = {k: v for k, v in project.environ(url, **(env or {})).items() if v or k not in (env or {})}
    options: dict[str, Any] = {"cwd": project.cwd, "env": environ, "timeout": 20, "capture_output": True}
    if "input" not in popen:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run([*CODER, *args], check=False, **{**options, **popen})
    assert b"Traceback" not in (done.stderr or b""), done.stderr
    return done


def sentence(done: Done) -> str:
    """What was said on stderr: some words, and not many."""
    text = done.stderr.decode("utf-8")
    assert text.strip(), "nothing was said"
    assert len(text.splitlines()) <= 4, text
    return text


def observations(project: Project) -> list[str]:
    return [event["content"] for event in project.of_type("observation")]


def readable(path: Path) -> list[dict[str, Any]]:
    """Every line of a log is whole."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


# configuration and flags


WRONG_CONFIGS = {
    "syntax": (b'{"runtime": {"max_steps": }', "config.json"),
    "unknown key": (b'{"runtime": {"max_stepz": 3}}', "max_stepz"),
    "unknown section": (b'{"runtim": {}}', "runtim"),
    "wrong type": (b'{"runtime": {"max_steps": "many"}}', "max_steps"),
    "wrong value": (b'{"permission": {"preset": "loose"}}', "preset"),
    "not an object": (b"[1, 2]", "config.json"),
    "not UTF-8": (b'{"ui": {"lang": "\xff\xfe"}}', "config.json"),
    "NUL bytes": (b"\0\0\0\0", "config.json"),
    "too deep": (b"[" * 100_000, "config.json"),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    [*((kind, "home") for kind in WRONG_CONFIGS), ("syntax", "project"), ("unknown key", "named")],
)
def test_a_wrong_configuration_names_file_and_key(project: Project, kind: str, place: str) -> None:
    content, named = WRONG_CONFIGS[kind]
    folder = {"home": project.home / ".coder", "project": project.cwd / ".coder", "named": project.cwd}[place]
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(content)
    flags = ["--config", "config.json"] if place == "named" else []
    with ScriptedServer([{"text": "no"}]) as server:
        done = run(project, *flags, "--once", "hi", url=server.url)
        assert server.requests == []
    assert done.returncode == 2
    assert named in sentence(done)
    assert "config.json" in sentence(done)


@pytest.mark.parametrize("kind", ["folder", "missing", "link to itself"])
def test_a_named_configuration_that_is_no_file(project: Project, kind: str) -> None:
    path = project.cwd / "config.json"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.symlink_to(path)
    done = run(project, "--config", "config.json", "--once", "hi", url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "config.json" in sentence(done)


WRONG_FLAGS = {
    "--frobnicate": ["--frobnicate", "--once", "hi"],
    "--mode": ["--mode", "turbo", "--once", "hi"],
    "--permissions": ["--permissions", "root", "--once", "hi"],
    "--max-steps": ["--max-steps", "0", "--once", "hi"],
    "--max-prompt-tokens": ["--max-prompt-tokens", "-3", "--once", "hi"],
    "--warn-prompt-tokens": ["--warn-prompt-tokens", "1e9", "--once", "hi"],
    "--output": ["--output", "yaml", "--once", "hi"],
    "--lang": ["--lang", "fr", "--once", "hi"],
    "--model": ["--once", "hi", "--model"],
    "--once": ["--once"],
    "--cwd": ["--cwd", "nowhere", "--once", "hi"],
    "--tokenizer-model": ["--tokenizer-model", "no such", "--once", "hi"],
}


@pytest.mark.parametrize("flag", WRONG_FLAGS)
def test_a_wrong_flag_is_named(project: Project, flag: str) -> None:
    with ScriptedServer([{"text": "no"}]) as server:
        done = run(project, *WRONG_FLAGS[flag], url=server.url)
        assert server.chats == []
    assert done.returncode == 2
    assert (flag if flag != "--tokenizer-model" else "no such") in done.stderr.decode()
    assert project.logs() == []


@pytest.mark.parametrize("subcommand", ["sessions", "show", "doctor", "explain", "demo"])
def test_a_wrong_flag_of_a_subcommand_is_named(project: Project, subcommand: str) -> None:
    done = run(project, subcommand, "--frobnicate")
    assert done.returncode == 2
    assert done.stderr


def test_cwd_that_is_a_file(project: Project) -> None:
    project.write("file", "x")
    done = run(project, "--cwd", "file", "--once", "hi", url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "file" in sentence(done)


def test_a_current_folder_that_was_deleted(project: Project) -> None:
    gone = project.cwd / "gone"
    gone.mkdir()
    line = f'rmdir "{gone}"; exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", line, "sh", *CODER, "--once", "hi"],
        cwd=gone,
        env=project.environ("http://127.0.0.1:9/v1"),
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert "folder" in sentence(done)


# the provider


def test_no_provider_names_the_variables_and_the_demo(project: Project) -> None:
    done = run(project, "--once", "hi")
    assert done.returncode == 2
    text = done.stderr.decode()
    assert all(name in text for name in ("CODER_API_KEY", "CODER_BASE_URL", "coder demo"))
    assert project.logs() == []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_dead_address(project: Project) -> None:
    port = free_port()
    done = run(project, "--once", "hi", url=f"http://127.0.0.1:{port}/v1")
    assert done.returncode == 1
    assert str(port) in done.stderr.decode()
    assert project.of_type("turn_end")[0]["meta"]["status"] == "error"


def test_a_host_that_has_no_address(project: Project) -> None:
    done = run(project, "--once", "hi", url="http://no-such-host.invalid/v1")
    assert done.returncode == 1
    assert "no-such-host.invalid" in done.stderr.decode()


WRONG_ADDRESSES = ["ftp://127.0.0.1/v1", "127.0.0.1", "http://", "http://127.0.0.1:99999/v1", "http://a b/v1"]


@pytest.mark.parametrize("url", WRONG_ADDRESSES)
def test_an_address_that_is_none(project: Project, url: str) -> None:
    done = run(project, "--once", "hi", url=url)
    assert done.returncode == 2
    assert "CODER_BASE_URL" in sentence(done)


def test_a_web_page_instead_of_an_answer(project: Project) -> None:
    with Chaos([{"fault": "html"}] * 20) as server:
        done = run(project, "--once", "hi", url=server.url)
    assert done.returncode == 1
    assert "web page" in done.stderr.decode()
    assert "<body" not in done.stderr.decode()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model(project: Project, status: int) -> None:
    body = {"error": {"message": "you shall not pass"}}
    with ScriptedServer([{"status": status, "body": body}] * 3) as server:
        done = run(project, "--once", "hi", url=server.url)
        assert len(server.chats) == 1  # nothing that a second attempt would mend
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "you shall not pass" in text
    assert str(status) in text


# sessions


@pytest.mark.parametrize("name", ["nope", "../../etc/passwd", ".", "", "a\nb", "x" * 5000, b"\xff\xfe"])
def test_an_unknown_session(project: Project, name: str | bytes) -> None:
    argument = b"--resume=" + name if isinstance(name, bytes) else f"--resume={name}"
    with ScriptedServer([{"text": "new"}]) as server:
        done = run(project, argument, "--once", "hi", url=server.url)
        shown = run(project, "show", name) if name else run(project, "show")
    assert done.returncode == (2 if name else 0)
    assert shown.returncode == 2
    assert shown.stderr


def test_two_processes_cannot_resume_one_session(project: Project) -> None:
    script = [{"text": "one"}, call("bash", command="sleep 30"), {"text": "never"}]
    with ScriptedServer(script) as server:
        run(project, "--once", "hi", url=server.url)
        session = project.logs()[0].stem
        first = project.started("--resume", session, "--mode", "yolo", "--once", "wait", url=server.url)
        try:
            wait_until(lambda: len(server.chats) == 2)
            before = len(server.chats)
            second = run(project, "--resume", session, "--once", "me too", url=server.url)
            assert len(server.chats) == before
        finally:
            first.send_signal(signal.SIGTERM)
            first.communicate(timeout=20)
    assert second.returncode == 1
    assert session in sentence(second)
    assert "another process" in sentence(second)
    assert [e["content"] for e in project.of_type("turn_start")] == ["hi", "wait"]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def test_a_file_where_the_record_should_be(project: Project) -> None:
    path = project.write(".coder/history", "I was here first")
    with ScriptedServer([{"text": "hi"}]) as server:
        done = run(project, "--once", "hi", url=server.url)
        elsewhere = run(project, "--once", "hi", "--log-dir", "logs", url=server.url)
    assert done.returncode == 1
    assert ".coder" in sentence(done)
    assert "--log-dir" in sentence(done)
    assert path.read_text() == "I was here first"
    assert elsewhere.returncode == 0
    assert elsewhere.stdout == b"hi\n"


def test_a_file_where_our_folder_should_be(project: Project) -> None:
    path = project.write(".coder", "I was here first")
    with ScriptedServer([{"text": "hi"}]) as server:
        done = run(project, "--once", "hi", url=server.url)
    assert done.returncode == 2
    assert ".coder" in sentence(done)
    assert path.read_text() == "I was here first"


# a full disk, a read-only one


@pytest.fixture
def mounts() -> None:
    """Private mounts, which only root has; elsewhere the tests that need them are passed over."""
    if not shutil.which("unshare") or not shutil.which("mount"):
        pytest.skip("unshare and mount are needed")
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip("private mounts are not allowed here")


def mounted(project: Project, before: str, *args: str, url: str, after: str = ":") -> Done:
    """Run the process where `before` has mounted something that nobody else sees."""
    line = f'{before} || exit 99; "$@"; status=$?; {after}; exit $status'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", line, "sh", *CODER, *args],
        cwd=project.cwd,
        env=project.environ(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert done.returncode != 99, done.stderr
    assert b"Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.usefixtures("mounts")
def test_a_disk_that_fills_up(project: Project, tmp_path: Path) -> None:
    history, kept = project.cwd / ".coder" / "history", tmp_path / "kept"
    history.mkdir(parents=True)
    kept.mkdir()
    script = [call("bash", command="head -c 20000 /dev/zero | tr '\\0' x")] * 20
    with ScriptedServer(script) as server:
        done = mounted(
            project,
            f"mount -t tmpfs -o size=64k none {history}",
            *("--mode", "yolo", "--once", "go"),
            url=server.url,
            after=f"cp {history}/* {kept}",
        )
        assert len(server.chats) < 20
    assert done.returncode == 1
    assert "disk is full" in done.stderr.decode()
    assert done.stderr.decode().count("disk is full") == 1
    (log,) = kept.iterdir()
    events = readable(log)
    assert [e["type"] for e in events[:4]] == ["session_start", "turn_start", "assistant", "action"]
    shutil.copy(log, history)
    with ScriptedServer([{"text": "better"}]) as server:
        again = run(project, "--resume", log.stem, "--once", "and now?", url=server.url)
        messages = server.chats[0]["messages"]
    assert (again.returncode, again.stdout) == (0, b"better\n")
    calls = [c["id"] for m in messages for c in m.get("tool_calls", [])]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == calls


def test_a_record_that_may_grow_no_further(project: Project) -> None:
    """The same by a limit on file sizes, which needs no root."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    script = [call("bash", command="head -c 3000 /dev/zero | tr '\\0' x")] * 20
    with ScriptedServer(script) as server:
        done = run(
            project,
            *("--mode", "yolo", "--once", "go"),
            url=server.url,
            preexec_fn=limit,
            env={"PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.returncode == 1
    assert "cannot be written" in done.stderr.decode()
    kinds = [event["type"] for event in readable(project.logs()[0])]
    assert kinds[:2] == ["session_start", "turn_start"]
    assert kinds.count("observation") >= 1


def test_a_full_disk_in_json(project: Project) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with ScriptedServer([{"text": "hi"}]) as server:
        done = run(
            project,
            *("--output", "json", "--once", "go"),
            url=server.url,
            preexec_fn=limit,
            env={"PYTHONDONTWRITEBYTECODE": "1"},
        )
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["exit_code"]) == (1, "error", 1)
    assert "cannot be written" in result["error"]


@pytest.mark.usefixtures("mounts")
def test_a_read_only_folder(project: Project, tmp_path: Path) -> None:
    project.write("a.txt", "hello\n")
    bind = f"mount --bind {project.cwd} {project.cwd} && mount -o remount,ro,bind {project.cwd}"
    line = f"{bind} && cd {project.cwd}"
    script = [call("write", path="b.txt", content="x"), call("read", path="a.txt"), {"text": "done"}]
    with ScriptedServer(script) as server:
        refused = mounted(project, line, "--once", "hi", url=server.url)
        assert server.requests == []
        logs = ("--log-dir", str(tmp_path / "logs"))
        works = mounted(project, line, *logs, "--mode", "yolo", "--once", "hi", url=server.url)
    assert refused.returncode == 1
    assert "--log-dir" in sentence(refused)
    assert "Read-only" in sentence(refused)
    assert (works.returncode, works.stdout) == (0, b"done\n")
    (log,) = (tmp_path / "logs").glob("*.jsonl")
    wrote, read = [e for e in readable(log) if e["type"] == "observation"]
    assert wrote["content"].startswith("error: ")
    assert "ead-only" in wrote["content"]
    assert "hello" in read["content"]


@pytest.mark.parametrize("kind", ["file", "read-only"])
def test_a_home_that_cannot_be_written(
    project: Project, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home = project.home / ".coder"
    project.write("a.txt", "one\n")
    edit = call("edit", path="a.txt", old_string="one", new_string="two")
    script = [call("read", path="a.txt"), edit, {"text": "done"}]
    before = ":"
    if kind == "file":
        home.write_text("not a folder")
    else:
        request.getfixturevalue("mounts")
        home.mkdir()
        before = f"mount --bind {home} {home} && mount -o remount,ro,bind {home}"
    args = ("--mode", "yolo", "--once", "hi")
    with ScriptedServer(script) as server:
        if kind == "file":
            done = run(project, *args, url=server.url)
        else:
            done = mounted(project, before, *args, url=server.url)
    if kind == "file":
        assert done.returncode in (0, 2)
        if done.returncode == 2:
            assert ".coder" in sentence(done)
            return
    assert (done.returncode, done.stdout) == (0, b"done\n")
    edited = observations(project)[1]
    assert edited.startswith("error: ")  # what could not be undone is not done
    assert (project.cwd / "a.txt").read_text() == "one\n"


# files, names and commands


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
        call("list"),
        call("grep", pattern="needle"),
        call("glob", pattern="*.txt"),
        call("read", path="latin.txt"),
        call("read", path="nul.bin"),
        call("bash", command="cat latin.txt; ls; cat na*"),
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
        call("read", path="a\0b"),
        call("write", path="a\0b", content="x"),
        call("glob", pattern="\0"),
        call("grep", pattern="a\0b"),
        call("bash", command="echo a\0b"),
        call("list", path="\0"),
        call("patch", patch="*** Begin Patch\n*** Add File: a\0b\n+x\n*** End Patch\n"),
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
    with ScriptedServer([call("write", path="n", content="a\0b\n"), {"text": "done"}]) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert done.returncode == 0
    (answer,) = observations(project)
    if not answer.startswith("error: "):
        assert (project.cwd / "n").read_bytes() == b"a\0b\n"


def test_a_file_of_100_mb(project: Project) -> None:
    path = project.write("huge.log", "first line\n")
    with path.open("r+b") as file:
        file.truncate(100 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast line\n")
    script = [
        call("read", path="huge.log"),
        call("edit", path="huge.log", old_string="first", new_string="1st"),
        call("grep", pattern="last line"),
        call("bash", command="cat huge.log"),
        {"text": "done"},
    ]
    with ScriptedServer(script) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert all(len(answer) < 200_000 for answer in observations(project))
    assert observations(project)[1].startswith("error: ")
    assert path.stat().st_size > 100 * 1024 * 1024
    assert sum(log.stat().st_size for log in project.logs()) < 4_000_000


def test_a_command_of_1000_lines_and_one_of_200_kb(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    text = "x" * 200_000
    long = f"cat <<'END' | wc -c\n{text}\nEND\n"
    with ScriptedServer([call("bash", command=lines), call("bash", command=long), {"text": "ok"}]) as server:
        done = run(project, "--mode", "yolo", "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"ok\n")
    many, one = observations(project)
    assert "line 0\n" in many
    assert "line 999" in many
    assert "200001" in one


def test_the_same_commands_under_the_ordinary_policy(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    long = "echo " + "x" * 200_000
    with ScriptedServer([call("bash", command=lines), call("bash", command=long), {"text": "ok"}]) as server:
        done = run(project, "--once", "go", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"ok\n")
    assert "line 999" in observations(project)[0]
    assert "x" * 1000 in observations(project)[1] or observations(project)[1].startswith(("error", "denied"))


def test_the_person_s_own_command_of_1000_lines(project: Project) -> None:
    lines = "\n".join(f"echo line {n}" for n in range(1000))
    with ScriptedServer([]) as server:
        done = run(project, "--once", "!" + lines, url=server.url)
    assert done.returncode == 0
    assert b"line 999" in done.stdout


# questions


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


@pytest.mark.parametrize("given", [b"", b"   \n\t\n", b"\xef\xbb\xbf"])
def test_empty_stdin(project: Project, given: bytes) -> None:
    with ScriptedServer([]) as server:
        done = run(project, url=server.url, input=given)
    if given != b"\xef\xbb\xbf":
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


def closed(project: Project, number: int, *args: str, url: str) -> Done:
    """Run with one of the three standard streams closed, as `<&-` does."""
    redirection = {0: "<&-", 1: ">&-", 2: "2>&-"}[number]
    return run_line(project, f'"$@" {redirection}', *args, url=url)


def run_line(project: Project, line: str, *args: str, url: str) -> Done:
    done = subprocess.run(
        ["/bin/bash", "-c", line, "sh", *CODER, *args],
        cwd=project.cwd,
        env=project.environ(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"Exception" not in done.stderr, done.stderr
    return done


def test_a_question_of_5_mb(project: Project) -> None:
    with ScriptedServer([{"text": "long"}]) as server:
        done = run(project, url=server.url, input=b"word " * 1_000_000 + b"the end?")
        sent = [m["content"] for m in server.chats[0]["messages"]] if server.chats else []
    if done.returncode == 0:
        assert "the end?" in sent[-1]
    else:
        assert done.returncode in (1, 4)
        assert "token" in done.stderr.decode()
    assert project.of_type("turn_start")[0]["content"].endswith("the end?")


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_that_leaves_early(project: Project, reader: str, output: str) -> None:
    text = "".join(f"line {n}\n" for n in range(50_000))
    line = f'"$@" | {reader}; exit ${{PIPESTATUS[0]}}'
    with ScriptedServer([{"text": text, "chunk": 4000}]) as server:
        done = run_line(project, line, "--output", output, "--once", "go", url=server.url)
    assert done.returncode in (0, 1, 141)
    assert b"Broken pipe" not in done.stderr
    if output != "stream-json":  # there the reader misses the turn itself, which is then cancelled
        assert project.of_type("assistant")[0]["content"].endswith("line 49999\n")
    assert project.of_type("turn_end")
    assert project.of_type("session_end")


@pytest.mark.parametrize("target", ["stdout", "stderr"])
def test_an_output_on_a_full_disk(project: Project, target: str) -> None:
    redirection = {"stdout": ">/dev/full", "stderr": "2>/dev/full"}[target]
    with ScriptedServer([call("list"), {"text": "hi"}]) as server:
        done = run_line(project, f'"$@" {redirection}', "--once", "go", url=server.url)
    if target == "stdout":
        assert done.returncode == 1
        assert "No space left" in done.stderr.decode() or "full" in done.stderr.decode()
    assert project.of_type("turn_end")


# surroundings


PLAIN = [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"TERM": ""}, {"TERM": "no-such-thing"}]


@pytest.mark.parametrize("env", PLAIN)
def test_no_colour_where_none_is_wanted(project: Project, env: dict[str, str]) -> None:
    with ScriptedServer([call("list"), {"text": "hi"}]) as server:
        done = run(project, "--once", "go", url=server.url, env=env)
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize("variables", [{"LANG": "C"}, {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}])
@pytest.mark.parametrize("coerce", ["", "0"])
def test_chinese_in_the_c_locale(project: Project, variables: dict[str, str], coerce: str) -> None:
    env = {**variables, **({"PYTHONCOERCECLOCALE": coerce} if coerce else {})}
    project.write("文件.txt", "内容\n")
    with ScriptedServer([call("read", path="文件.txt"), {"text": "好的，完成。"}]) as server:
        done = run(project, "--once", "读一下文件", url=server.url, env=env)
        question = server.chats[0]["messages"][1]["content"]
    assert done.returncode == 0
    assert done.stdout.decode("utf-8") == "好的，完成。\n"
    assert question.startswith("读一下文件")
    assert "内容" in observations(project)[0]
    assert "文件.txt" in done.stderr.decode("utf-8")
    listed = run(project, "sessions", env=env)
    assert "读一下文件" in listed.stdout.decode("utf-8")
    refused = run(project, "--resume", "没有", "--once", "x", env=env)
    assert "没有" in refused.stderr.decode("utf-8")


def test_without_a_home(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        done = run(project, "--once", "hi", url=server.url, env={"HOME": ""})
    assert (done.returncode, done.stdout) == (0, b"hi\n")


def test_without_any_home_at_all(project: Project, tmp_path: Path) -> None:
    """Neither HOME nor CODER_HOME: the account's own folder is used, or a sentence says what to set."""
    if os.getuid() == 0 and Path("/root/.coder").exists():
        pytest.skip("this account has settings of its own")
    done = run(project, "sessions", env={"HOME": "", "CODER_HOME": ""})
    assert done.returncode in (0, 2)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer([{"text": "hi"}]) as running:
        yield running


def test_an_environment_that_is_not_utf_8(project: Project, server: ScriptedServer) -> None:
    environ = {os.fsencode(k): os.fsencode(v) for k, v in project.environ(server.url).items()}
    environ[b"ODD"] = b"\xff\xfe"
    done = subprocess.run(
        [*CODER, "--once", "hi"], cwd=project.cwd, env=environ, capture_output=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, b"hi\n")
