"""Task files, repositories, patches and disks that mean no good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from batch.batch_kit import (
    BACKENDS,
    Backend,
    Batch,
    called,
    commit,
    git,
    make_repository,
    model,
    runs,
    state_of,
    use_backend,
    writes,
)
from batch.test_faults import task_processes
from coder.addons.batch.results import OutputDirectory
from coder.addons.batch.task_file import BatchError, TaskFile, read_matrix
from kit import ScriptedServer
from kit.driving import Project, left_running

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def read(tmp_path: Path, *tasks: dict[str, Any], matrix: tuple[str, ...] = ()) -> list[str]:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    made = TaskFile(file, read_matrix(matrix), {})
    made.close()
    return made.ids


@pytest.mark.parametrize(
    "name",
    ["../x", "..", ".", "", "a\nb", "a\0b", "a/b", "-rf", "x" * 151, "Results.JSONL", "é", "a\x1b[2J", "~"],
)
def test_an_id_that_could_be_another_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BatchError, match="cannot be an id"):
        read(tmp_path, {**TASK, "id": name})


def test_ids_that_one_folder_would_serve_are_the_same(tmp_path: Path) -> None:
    """On file systems that do not tell case apart."""
    with pytest.raises(BatchError, match="the id Fix is that of line 1 already"):
        read(tmp_path, {**TASK, "id": "fix"}, {**TASK, "id": "Fix"})


def test_a_matrix_does_not_make_an_id_longer_than_a_name_may_be(tmp_path: Path) -> None:
    long = ",".join("m" * 80 + str(n) for n in range(2))
    with pytest.raises(BatchError, match="cannot be an id"):
        read(tmp_path, {**TASK, "id": "x" * 150}, matrix=(f"model={long}", "ref=" + "r" * 60))


@pytest.mark.parametrize(
    "source",
    [
        "--upload-pack=touch ran",
        "ext::sh -c 'touch ran'",
        "ext::touch% ran",
        "fd::17/foo",
        "-oProxyCommand=x",
    ],
)
def test_a_repository_that_is_a_command_is_refused_before_anything_starts(
    project: Project, source: str
) -> None:
    batch = Batch(project, [{"id": "a", "prompt": "x", "repo": source}])
    with ScriptedServer() as server:
        done = batch.run(server.url)
        assert (done.returncode, server.chats) == (2, [])
    assert "line 1: " in done.stderr
    assert not (project.cwd / "ran").exists()


@pytest.mark.parametrize("field", ["cwd", "setup", "check", "ref", "model"])
def test_a_nul_is_named_with_its_line_before_anything_starts(tmp_path: Path, field: str) -> None:
    with pytest.raises(BatchError, match=f"line 1: .*{field}"):
        read(tmp_path, {**TASK, field: "a\0b"})


@pytest.mark.thorough
def test_a_task_file_that_is_rewritten_meanwhile_starts_no_other_tasks(project: Project) -> None:
    """In place, as some editors do: at a task's offset there may now be another."""
    make_repository(project.cwd)
    long = "x" * 20_000  # more than is read ahead
    batch = Batch(project, [{**TASK, "id": f"t{number}", "prompt": long} for number in range(3)])
    changed = threading.Event()

    def answer(request: dict[str, Any]) -> Any:
        if not changed.is_set():
            changed.set()
            text = batch.file.read_text(encoding="utf-8")
            batch.file.write_text(text.replace("xx", "yyy"), encoding="utf-8")
        return writes()(request)

    with model(answer) as server:
        done = batch.run(server.url, "--jobs", "1")
        assert (done.returncode, "was changed while its tasks ran" in done.stderr) == (2, True), done.stderr
        assert list(batch.by_id()) == ["t0"]
        assert batch.run(server.url, "--resume").returncode == 0
    assert sorted(batch.by_id()) == ["t0", "t1", "t2"]


@pytest.mark.thorough
def test_tasks_from_a_pipe(project: Project) -> None:
    make_repository(project.cwd)
    with model(writes()) as server:
        words = ["batch", "/dev/stdin", "--out", str(project.home / "out")]
        done = subprocess.run(
            [sys.executable, "-m", "coder", *words],
            cwd=project.cwd,
            env=project.environ(server.url),
            input=json.dumps(TASK) + "\n",
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert "one: succeeded" in done.stdout


@pytest.mark.thorough
def test_results_that_lie_in_the_checkout_are_not_shown_to_tasks(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": "ls"}, {**TASK, "id": "two", "check": "ls"}])
    batch.out = project.cwd / "results"
    with model(writes()) as server:
        batch.run(server.url, "--jobs", "1")
        assert batch.run(server.url, "--retry", "failed").returncode == 0
    assert {row["check"]["output"] for row in batch.rows()} == {"a.txt\nnew.txt\ntasks.jsonl"}


@pytest.mark.thorough
def test_results_in_a_folder_of_the_person_s_leave_its_files_alone(project: Project) -> None:
    make_repository(project.cwd, {".gitignore": "secret\n", "a.txt": "one\n"})
    batch = Batch(project, [{**TASK, "check": "ls"}])
    batch.out = project.cwd
    with model(writes()) as server:
        assert batch.run(server.url).returncode == 0
    assert (project.cwd / ".gitignore").read_text(encoding="utf-8") == "secret\n"
    assert "a.txt" in batch.by_id()["one"]["check"]["output"]


PATCHES = {
    "above": "--- a/x\n+++ b/../../up.txt\n@@ -0,0 +1 @@\n+x\n",
    "absolute": "--- /dev/null\n+++ {home}/abs.txt\n@@ -0,0 +1 @@\n+x\n",
    "hook": "diff --git a/.git/hooks/post-commit b/.git/hooks/post-commit\nnew file mode 100755\n"
    "--- /dev/null\n+++ b/.git/hooks/post-commit\n@@ -0,0 +1 @@\n+touch /tmp/x\n",
    "config": "--- a/.git/config\n+++ b/.git/config\n@@ -1 +1,2 @@\n [core]\n+\tfsmonitor = touch ran\n",
    "link": "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n"
    "+/etc/passwd\n\\ No newline at end of file\n",
    "through": "--- /dev/null\n+++ b/out/in.txt\n@@ -0,0 +1 @@\n+x\n",
    "nothing": "not a patch at all\n",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PATCHES)
def test_a_hostile_patch_changes_nothing_outside_and_nothing_of_git(project: Project, name: str) -> None:
    make_repository(project.cwd)
    outside = project.home / "outside"
    outside.mkdir()
    (project.cwd / "out").symlink_to(outside)
    result = project.home / "results" / "one"
    result.mkdir(parents=True)
    patch = PATCHES[name].replace("{home}", str(project.home))
    (result / "patch.diff").write_text(patch, encoding="utf-8")
    git_before = state_of(project.cwd / ".git")
    done = project.coder("apply", str(result), "--mode", "auto-edit")
    assert "Traceback" not in done.stderr
    assert state_of(project.cwd / ".git") == git_before
    assert list(outside.iterdir()) == []
    assert not (project.home / "abs.txt").exists()
    assert not (project.cwd.parent / "up.txt").exists()
    assert not (project.cwd / "l").is_symlink()
    assert done.returncode == (2 if name == "link" else 1), done.stdout
    assert ("`git apply" in done.stderr) == (name == "link")


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_disk_that_is_full_ends_the_batch_with_a_sentence(project: Project) -> None:
    """Nothing is taken for done that could not be written, and it goes on once there is room. The driver
    alone gets the error: a limit on file sizes, set while its first task waits for an answer."""
    import resource

    make_repository(project.cwd)
    batch = Batch(project, [TASK, {**TASK, "id": "two"}])
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> Any:
        asked.set()
        go_on.wait(60)
        return writes()(request)

    with model(answer) as server:
        driver = batch.start(server.url, "--jobs", "1")
        assert asked.wait(60)
        resource.prlimit(driver.pid, resource.RLIMIT_FSIZE, (1, 1))
        go_on.set()
        _, err = driver.communicate(timeout=60)
        assert driver.returncode == 1, err
        assert err.count("\n") == 1, err
        assert str(batch.out) in err
        assert "--resume" in err
        batch.nothing_left()
        assert batch.rows() == []
        assert batch.run(server.url, "--resume").returncode == 0
    assert sorted(batch.by_id()) == ["one", "two"]


def test_a_lock_that_was_removed_meanwhile_keeps_nobody_out_and_lets_nobody_in_twice(tmp_path: Path) -> None:
    """A driver that opens the lock file just before its owner removes it must not hold the removed one."""
    first = OutputDirectory(tmp_path)
    kept, raced = os.open, list[Any]()

    def slow_open(path: Any, flags: int, *rest: int, **more: Any) -> int:
        descriptor = kept(path, flags, *rest, **more)
        if str(path).endswith("batch.lock") and not raced:
            raced.append(path)
            first.close()
        return descriptor

    os.open = slow_open
    try:
        second = OutputDirectory(tmp_path)
    finally:
        os.open = kept
    assert raced
    with pytest.raises(BatchError):
        OutputDirectory(tmp_path)
    second.close()


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("name", ["results.jsonl", "attempts.jsonl"])
def test_an_output_folder_whose_files_are_something_else_is_refused(
    tmp_path: Path, name: str, kind: str
) -> None:
    if kind == "folder":
        (tmp_path / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(BatchError, match=f"{name} cannot be used"):
        OutputDirectory(tmp_path)
    assert not (tmp_path / "batch.lock").exists()


DAEMON = """\
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "5432"])
"""


@pytest.mark.thorough
def test_daemons_of_a_check_are_ended_without_a_sandbox_too(project: Project) -> None:
    make_repository(project.cwd)
    project.configure(sandbox={"mode": "off"})
    project.write("daemon.py", DAEMON)
    daemon = "python3 daemon.py"
    batch = Batch(project, [{**TASK, "setup": daemon, "check": f"{daemon}; {daemon}"}])
    with model(writes()) as server:
        batch.run(server.url)
    assert batch.by_id()["one"]["check"]["status"] == "passed"
    assert left_running("5432") == []


@pytest.mark.thorough
def test_tasks_have_the_proxy_and_certificates_of_the_person(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": 'echo "$https_proxy $SSL_CERT_FILE"'}])
    with model(writes()) as server:
        named = {
            "https_proxy": "http://127.0.0.1:9",
            "SSL_CERT_FILE": "/etc/some.pem",
            "no_proxy": "127.0.0.1",
        }
        batch.run(server.url, env=named)
    assert batch.by_id()["one"]["check"]["output"] == "http://127.0.0.1:9 /etc/some.pem"


@pytest.mark.thorough
def test_a_reader_that_goes_away_does_not_end_the_batch(project: Project) -> None:
    """`coder batch … | head -1`: what it prints is progress, not its results."""
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "id": f"t{number}"} for number in range(4)])
    with model(writes()) as server:
        driver = batch.start(server.url, "--jobs", "1")
        assert driver.stdout is not None
        driver.stdout.close()
        assert driver.wait(60) == 0
        driver.communicate()
    assert len(batch.by_id()) == 4
    batch.nothing_left()


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_patch_that_would_lack_files_is_none(project: Project) -> None:
    """A task that fills its disk: git cannot store what it wrote. The limit is set once the file is there."""
    import resource

    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "mode": "yolo"}])

    def answer(request: dict[str, Any]) -> Any:
        if called(request, "bash"):
            for pid in task_processes(batch):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
        return runs("head -c 300000 /dev/urandom > big; touch small")(request)

    with model(answer) as server:
        assert batch.run(server.url).returncode == 1
    row = batch.by_id()["one"]
    assert (row["status"], row["patch"]) == ("error", "")
    assert "there is no patch: git" in row["error"]
    assert row["tokens"]["total"] > 0  # what it took is told all the same


@pytest.mark.thorough
def test_what_a_task_locked_up_is_in_its_patch(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs("mkdir d; echo deep > d/f; chmod 000 d/f d")) as server:
        assert batch.run(server.url).returncode == 0
    assert "+deep" in batch.file_of("one", "patch.diff")


@pytest.mark.thorough
def test_a_check_may_be_longer_than_an_argument(project: Project) -> None:
    """As that of a task with thousands of tests to run."""
    make_repository(project.cwd)
    long = "x" * 300_000
    batch = Batch(project, [{**TASK, "setup": f": {long}", "check": f"test -f new.txt; echo $?; : {long}"}])
    with model(writes()) as server:
        assert batch.run(server.url).returncode == 0
    assert batch.by_id()["one"]["check"]["output"] == "0"


def nested(project: Project, name: str, evil: str) -> None:
    """A repository in the project's, and in its commits, whose settings name the program."""
    make_repository(project.cwd)
    inside = make_repository(project.cwd / name, {"f": "x\n", ".gitattributes": "* filter=evil\n"})
    commit(project.cwd, "nested")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.pager"):
        git(inside, "config", key, evil)
    (inside / "f").write_text("y\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["vendor", "odd [x]*", "\udcff"])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_repository_inside_the_source_runs_nothing_when_the_batch_starts(
    project: Project, name: str, indexed: bool, backend: Backend
) -> None:
    """Unsandboxed, `git add --all` asks every nested repository for its status. Without its entry in the
    person's index it is still in their last commit."""
    use_backend(project, backend)
    canary = project.home / "canary"
    nested(project, name, f"touch {canary}; false")
    if not indexed:
        git(project.cwd, "--literal-pathspecs", "rm", "-q", "--cached", name)
    (project.cwd / "a.txt").write_text("uncommitted\n", encoding="utf-8")
    batch = Batch(project, [{**TASK, "check": "cat a.txt"}])
    with model(writes()) as server:
        batch.run(server.url)
    assert not canary.exists()
    assert batch.rows()[0]["check"]["output"] == "uncommitted", batch.rows()
    subprocess.run(["git", "status"], cwd=os.fsencode(project.cwd / name), capture_output=True, check=False)
    assert canary.exists(), "the settings start nothing: this tests nothing"


@pytest.mark.parametrize("how", ["setting", "link"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_file_that_a_repository_names_as_its_ignored_paths_is_copied(
    project: Project, how: str, backend: Backend
) -> None:
    """Git only reads the patterns; the tasks, which can read their mirror, cannot."""
    use_backend(project, backend)
    make_repository(project.cwd)
    secret = project.home / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_text("correct horse\n/ignored\n", encoding="utf-8")
    (project.cwd / "ignored").write_text("x", encoding="utf-8")
    exclude = project.cwd / ".git" / "info" / "exclude"
    if how == "setting":
        git(project.cwd, "config", "core.excludesFile", str(secret))
    else:
        exclude.unlink()
        exclude.symlink_to(secret)
    batch = Batch(project, [{**TASK, "mode": "yolo", "check": "test ! -e ignored"}])
    look = "grep -rs 'correct horse' $(dirname $(cat .git/objects/info/alternates)); echo looked"
    with model(runs(look)) as server:
        batch.run(server.url)
        sent = json.dumps(server.chats)
    assert "looked" in sent
    assert "correct horse\\n" not in sent
    assert batch.rows()[0]["check"]["status"] == ("failed" if how == "link" else "passed")


@pytest.mark.parametrize("name", ["results.jsonl", "attempts.jsonl", "batch.lock", "one"])
def test_a_link_in_the_output_directory_leads_nowhere(project: Project, name: str) -> None:
    """A project that brings a directory with the name that `--out` gives must not choose what is written."""
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    outside = project.home / "outside"
    if name == "one":
        outside.mkdir()
        (outside / "patch.diff").write_text("precious", encoding="utf-8")
    batch.out.mkdir()
    (batch.out / name).symlink_to(outside)
    with ScriptedServer() as server:
        done = batch.run(server.url)
        assert (done.returncode, server.chats) == (2 if name != "one" else 1, [])
    assert "symbolic link" in done.stderr
    if name == "one":
        assert (outside / "patch.diff").read_text(encoding="utf-8") == "precious"
    else:
        assert not outside.exists()
