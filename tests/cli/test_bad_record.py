"""Sessions that are not there or taken, and disks that are full or closed: nothing recorded is lost."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from cli_kit import CODER, Done, observations, readable, run, sentence, wait_until

from kit import ScriptedServer
from kit.calls import step
from kit.driving import Project

# sessions


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["nope", "../../etc/passwd", ".", "", "a\nb", "x" * 5000, b"\xff\xfe"])
def test_an_unknown_session(project: Project, name: str | bytes) -> None:
    argument = b"--resume=" + name if isinstance(name, bytes) else f"--resume={name}"
    with ScriptedServer([{"text": "new"}]) as server:
        done = run(project, argument, "--once", "hi", url=server.url)
        shown = run(project, "show", name) if name else run(project, "show")
    assert done.returncode == (2 if name else 0)
    assert shown.returncode == 2
    assert shown.stderr


@pytest.mark.thorough
def test_two_processes_cannot_resume_one_session(project: Project) -> None:
    script = [{"text": "one"}, step("bash", command="sleep 30"), {"text": "never"}]
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
            first.communicate(timeout=60)
    assert second.returncode == 1
    assert session in sentence(second)
    assert "another process" in sentence(second)
    assert [e["content"] for e in project.of_type("turn_start")] == ["hi", "wait"]


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


def test_a_file_where_our_directory_should_be(project: Project) -> None:
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
        timeout=60,
    )
    assert done.returncode != 99, done.stderr
    assert b"Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.thorough
@pytest.mark.usefixtures("mounts")
def test_a_disk_that_fills_up(project: Project, tmp_path: Path) -> None:
    history, kept = project.cwd / ".coder" / "history", tmp_path / "kept"
    history.mkdir(parents=True)
    kept.mkdir()
    script = [step("bash", command="head -c 20000 /dev/zero | tr '\\0' x")] * 20
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

    script = [step("bash", command="head -c 3000 /dev/zero | tr '\\0' x")] * 20
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
def test_a_read_only_directory(project: Project, tmp_path: Path) -> None:
    project.write("a.txt", "hello\n")
    bind = f"mount --bind {project.cwd} {project.cwd} && mount -o remount,ro,bind {project.cwd}"
    line = f"{bind} && cd {project.cwd}"
    script = [step("write", path="b.txt", content="x"), step("read", path="a.txt"), {"text": "done"}]
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


def test_a_home_that_is_a_file(project: Project) -> None:
    (project.home / ".coder").write_text("not a folder")
    with ScriptedServer([{"text": "never"}]) as server:
        done = run(project, "--once", "hi", url=server.url)
        assert server.requests == []
    assert (done.returncode, done.stdout) == (2, b"")
    assert ".coder" in sentence(done)


@pytest.mark.usefixtures("mounts")
def test_a_home_that_cannot_be_written(project: Project) -> None:
    home = project.home / ".coder"
    home.mkdir()
    project.write("a.txt", "one\n")
    edit = step("edit", path="a.txt", old_string="one", new_string="two")
    before = f"mount --bind {home} {home} && mount -o remount,ro,bind {home}"
    with ScriptedServer([step("read", path="a.txt"), edit, {"text": "done"}]) as server:
        done = mounted(project, before, "--mode", "yolo", "--once", "hi", url=server.url)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    edited = observations(project)[1]
    assert edited.startswith("error: ")  # what could not be undone is not done
    assert (project.cwd / "a.txt").read_text() == "one\n"
