"""`coder batch` on one machine: what each task gets, and what it leaves: its results, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from batch.batch_kit import (
    Batch,
    commit,
    git,
    make_repository,
    model,
    runs,
    state_of,
    writes,
)
from coder.addons.batch.fork_server import ForkServer
from coder.addons.batch.mirror import bundle_of, mirror_for
from coder.addons.batch.task_file import Task
from kit import ScriptedServer
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


@pytest.mark.thorough
def test_results_as_files_and_the_checkout_untouched(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(
        project, [{**TASK, "check": "grep -q new new.txt"}, {**TASK, "id": "two", "check": "false"}]
    )
    before = state_of(project.cwd)
    with model(writes()) as server:
        done = batch.run(server.url)
    assert done.returncode == 1  # one of them failed its check
    rows = batch.by_id()
    one, two = rows["one"], rows["two"]
    assert (one["status"], one["check"]["status"], one["check"]["exit_code"]) == ("ok", "passed", 0)
    assert (two["status"], two["check"]["status"], two["check"]["exit_code"]) == ("ok", "failed", 1)
    assert (one["attempt"], one["steps"], one["tokens"]["prompt"]) == (1, 2, 20)
    assert one["verification"]["status"] == "not_run"
    assert one["duration"] > 0
    assert (one["patch"], one["record"]) == ("one/patch.diff", "one/record.jsonl")
    assert batch.file_of("one", "answer.md") == "It is **done**."
    assert "+new" in batch.file_of("one", "patch.diff")
    types = [json.loads(line)["type"] for line in batch.file_of("one", "record.jsonl").splitlines()]
    assert types[0] == "session_start"
    assert types[-1] == "session_end"
    assert "turn_end" in types
    assert state_of(project.cwd) == before
    assert "one: succeeded" in done.stdout
    assert "two: failed" in done.stdout


@pytest.mark.thorough
def test_a_patch_applies_to_where_the_task_started(project: Project) -> None:
    """Changed, made, removed and binary files; not what `setup` made, nor what `check` did."""
    make_repository(project.cwd, {"a.txt": "one\ntwo\n", "gone.txt": "x\n"})
    script = "printf 'one\\n2\\n' > a.txt; rm gone.txt; printf '\\000\\001' > b.bin; mkdir d; echo deep > d/f"
    batch = Batch(
        project,
        [
            {
                **TASK,
                "mode": "yolo",
                "setup": "echo built > built.txt",
                "check": "test -f built.txt; echo > late",
            }
        ],
    )
    with model(runs(script)) as server:
        assert batch.run(server.url).returncode == 0
    patch = batch.out / "one" / "patch.diff"
    git(project.cwd, "apply", str(patch))
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\n2\n"
    assert (project.cwd / "b.bin").read_bytes() == b"\0\1"
    assert (project.cwd / "d" / "f").exists()
    assert [(project.cwd / name).exists() for name in ("gone.txt", "built.txt", "late")] == [False] * 3
    row = batch.by_id()["one"]
    assert (row["files"], row["additions"], row["deletions"]) == (4, 2, 2)


@pytest.mark.thorough
def test_caches_are_no_part_of_the_patch_unless_the_repository_has_them(project: Project) -> None:
    make_repository(project.cwd, {"a.txt": "one\n", "old/__pycache__/kept": "one\n"})
    left = "mkdir -p p/__pycache__ .mypy_cache node_modules/m && echo x | tee p/__pycache__/m.pyc"
    script = f"{left} .mypy_cache/c node_modules/m/i.js a.txt old/__pycache__/kept"
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs(script)) as server:
        assert batch.run(server.url).returncode == 0
    changed = [line for line in batch.file_of("one", "patch.diff").split("\n") if line.startswith("+++ ")]
    assert changed == ["+++ b/a.txt", "+++ b/old/__pycache__/kept"]


@pytest.mark.thorough
def test_a_directory_is_taken_as_it_is_now_and_a_ref_as_it_was(project: Project) -> None:
    """Uncommitted and untracked files are part of a `cwd`; ignored ones are not. A `ref` is that commit."""
    make_repository(project.cwd, {".gitignore": "secret\n", "a.txt": "one\n"})
    first = git(project.cwd, "rev-parse", "HEAD")
    project.write("a.txt", "two\n")
    commit(project.cwd, "two")
    project.write("a.txt", "three\n")
    project.write("untracked", "u\n")
    project.write("secret", "s\n")
    look = "cat a.txt; ls"
    batch = Batch(
        project,
        [
            {**TASK, "id": "now", "check": look},
            {**TASK, "id": "head", "ref": "HEAD", "check": look},
            {**TASK, "id": "first", "ref": first, "check": look},
            {**TASK, "id": "repo", "cwd": "", "repo": str(project.cwd), "check": look},
        ],
    )
    with ScriptedServer([{"text": "nothing to do"}] * 4) as server:
        batch.run(server.url)
    seen = {name: row["check"]["output"].split("\n") for name, row in batch.by_id().items()}
    assert seen["now"][0] == "three"
    assert "untracked" in seen["now"]
    assert [seen[name][0] for name in ("head", "first", "repo")] == ["two", "one", "two"]
    assert all("secret" not in lines for lines in seen.values())
    assert not any("untracked" in seen[name] for name in ("head", "first", "repo"))


def shallow_clone(source: Path, into: Path) -> Path:
    """Of a repository that gets a second commit, the last one alone."""
    make_repository(source)
    (source / "a.txt").write_text("two\n", encoding="utf-8")
    commit(source, "two")
    git(source, "clone", "--quiet", "--depth", "1", source.as_uri(), str(into))
    git(into, "tag", "here")
    return into


@pytest.mark.thorough
def test_a_history_that_is_cut_off_can_be_read(project: Project) -> None:
    source = str(shallow_clone(project.home / "source", project.cwd / "shallow"))
    look = "git log --format=%s; git tag"
    batch = Batch(
        project,
        [
            {**TASK, "cwd": source, "check": look},
            {**TASK, "id": "two", "cwd": "", "repo": source, "check": look},
        ],
    )
    with model(writes()) as server:
        assert batch.run(server.url).returncode == 0
    outputs = {name: row["check"]["output"].split("\n") for name, row in batch.by_id().items()}
    assert outputs["one"] == ["The files as they were when the batch started", "two", "here"]
    assert outputs["two"] == ["two", "here"]


@pytest.mark.thorough
@pytest.mark.parametrize("shape", ["shallow", "sha256"])
def test_a_repository_that_is_sent_to_another_machine_is_whole_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source = tmp_path / "clone"
    if shape == "shallow":
        shallow_clone(tmp_path / "source", source)
    else:
        source.mkdir()
        git(source, "init", "--quiet", "--object-format=sha256")
        make_repository(source)
        git(source, "tag", "here")
    task = Task(id="one", prompt="x", repo=str(source))
    here, there = ForkServer("here"), ForkServer("there")
    try:
        bundle = bundle_of(task, here, lambda: False)
        mirror = mirror_for(task, there, lambda: False, lambda: bundle)
        found = Path(mirror.path)
        assert mirror.base == git(source, "rev-parse", "HEAD")
        assert git(found, "log", "--format=%H") == git(source, "log", "--format=%H")
        assert "refs/tags/here" in (found / "packed-refs").read_text(encoding="utf-8")
    finally:
        here.close()
        there.close()


@pytest.mark.thorough
def test_a_directory_with_the_temporary_files_in_it_is_taken_without_the_batch(project: Project) -> None:
    """What other tasks do there meanwhile is not theirs to see, nor a reason to fail."""
    make_repository(project.cwd, {"a.txt": "1\n", "tmp/kept.txt": "2\n"})
    batch = Batch(project, [{**TASK, "check": "find tmp"}])
    batch.temp = project.cwd / "tmp"
    with model(writes()) as server:
        batch.run(server.url)
    assert batch.by_id()["one"]["check"]["output"] == "tmp\ntmp/kept.txt"


@pytest.mark.thorough
def test_a_directory_that_is_no_repository_is_copied(project: Project) -> None:
    project.write("plain/a.txt", "one\n")
    batch = Batch(project, [{**TASK, "cwd": "plain"}])
    with model(writes()) as server:
        assert batch.run(server.url).returncode == 0
    assert "+new" in batch.file_of("one", "patch.diff")
    assert [path.name for path in (project.cwd / "plain").iterdir()] == ["a.txt"]


@pytest.mark.thorough
def test_a_directory_inside_a_repository_is_where_the_agent_works(project: Project) -> None:
    make_repository(project.cwd, {"top.txt": "t\n", "sub/a.txt": "a\n"})
    batch = Batch(project, [{**TASK, "cwd": "sub", "check": "ls"}])
    with model(writes()) as server:
        batch.run(server.url)
    assert batch.by_id()["one"]["check"]["output"] == "a.txt\nnew.txt"
    assert "+++ b/sub/new.txt" in batch.file_of("one", "patch.diff")


@pytest.mark.thorough
def test_every_task_has_its_own_home_temp_and_settings(project: Project) -> None:
    make_repository(project.cwd)
    look = 'echo "$HOME" "$TMPDIR" "$CODER_HOME" "$TOKEN" "$CODER_API_KEY"; touch ~/made; ls ~'
    batch = Batch(
        project,
        [
            {**TASK, "setup": look, "check": look, "env": ["TOKEN", "HOME", "TMPDIR", "CODER_HOME"]},
            {**TASK, "id": "two", "check": look},
        ],
    )
    secret = "sk-very-secret-key"
    with ScriptedServer([{"text": "done"}] * 2) as server:
        batch.run(server.url, env={"TOKEN": "tok", "CODER_API_KEY": secret})
        assert {chat.headers["authorization"] for chat in server.requests} == {f"Bearer {secret}"}
    outputs = {name: row["check"]["output"] for name, row in batch.by_id().items()}
    homes = {name: text.split()[0] for name, text in outputs.items()}
    assert len(set(homes.values())) == 2
    assert str(project.home / ".coder") not in "".join(outputs.values())
    assert str(project.home) not in [word for text in outputs.values() for word in text.split()]
    assert (" tok \n" in outputs["one"], " tok \n" in outputs["two"]) == (True, False)
    assert all(text.endswith("made") for text in outputs.values())
    assert not any(Path(home).exists() for home in homes.values())
    everything = b"".join(path.read_bytes() for path in batch.out.rglob("*") if path.is_file())
    assert secret.encode() not in everything


@pytest.mark.thorough
def test_a_task_is_a_message_and_never_a_command(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "prompt": "!touch ran"}, {**TASK, "id": "two", "prompt": "/exit"}])
    with ScriptedServer([{"text": "I see"}] * 2) as server:
        batch.run(server.url)
        said = sorted(str(chat["messages"][-1]["content"]) for chat in server.chats)
    assert ["/exit" in said[0] or "/exit" in said[1], "!touch ran" in "".join(said)] == [True, True]
    assert {row["patch"] for row in batch.rows()} == {""}


@pytest.mark.thorough
def test_what_a_task_asks_for_holds_for_it_alone(project: Project) -> None:
    """Model, step limit and operating mode."""
    make_repository(project.cwd)
    batch = Batch(
        project,
        [
            {**TASK, "model": "small"},
            {**TASK, "id": "short", "max_steps": 1},
            {**TASK, "id": "plan", "mode": "plan"},
        ],
    )
    with model(writes()) as server:
        batch.run(server.url, "--jobs", "1")
        assert [chat["model"] for chat in server.chats].count("small") == 2
    rows = batch.by_id()
    assert [rows[name]["status"] for name in ("one", "short", "plan")] == ["ok", "max_steps", "ok"]
    assert (rows["one"]["model"], rows["one"]["patch"]) == ("small", "one/patch.diff")
    assert rows["plan"]["patch"] == ""  # plan mode denies the write


@pytest.mark.thorough
def test_a_matrix_runs_every_combination(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    with model(writes()) as server:
        batch.run(server.url, "--matrix", "model=a,b", "mode=plan,auto-edit")
    rows = batch.by_id()
    assert {(row["model"], row["mode"], bool(row["patch"])) for row in rows.values()} == {
        ("a", "plan", False),
        ("a", "auto-edit", True),
        ("b", "plan", False),
        ("b", "auto-edit", True),
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ({"setup": "echo broken >&2; exit 3"}, "setup_failed", "exit 3: broken"),
        ({"ref": "no-such-branch"}, "setup_failed", "no-such-branch"),
        ({"ref": "+main:refs/heads/other"}, "setup_failed", "is not a commit"),  # what other tasks start from
        ({"timeout_s": 1, "setup": "sleep 60"}, "timeout", "exit 124"),
    ],
)
def test_a_task_that_cannot_begin_says_why(
    project: Project, more: dict[str, Any], status: str, said: str
) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, **more}])
    with ScriptedServer() as server:
        assert batch.run(server.url).returncode == 1
        assert server.chats == []
    row = batch.by_id()["one"]
    assert row["status"] == status
    assert said in row["error"]


@pytest.mark.thorough
def test_a_task_that_takes_too_long_keeps_what_it_has_done(project: Project) -> None:
    make_repository(project.cwd)

    def slow(request: dict[str, Any]) -> Any:
        if request["messages"][-1]["role"] == "tool":
            return {"text": "still thinking " * 100, "delay": 30}
        return {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "new\n"}}]}

    batch = Batch(project, [{**TASK, "timeout_s": 4, "check": "test -f new.txt"}])
    with model(slow) as server:
        batch.run(server.url)
    row = batch.by_id()["one"]
    assert (row["status"], row["check"]["status"]) == ("timeout", "passed")
    assert "+new" in batch.file_of("one", "patch.diff")


@pytest.mark.thorough
def test_what_a_task_leaves_running_is_ended_and_what_it_locks_is_removed(project: Project) -> None:
    make_repository(project.cwd)
    script = "setsid sleep 4321 & mkdir -p d/e; touch d/e/f; chmod 000 d; chmod 500 .; true"
    batch = Batch(project, [{**TASK, "mode": "yolo", "check": "setsid sleep 4321 >/dev/null 2>&1 & true"}])
    with model(runs(script)) as server:
        batch.run(server.url)
    from kit.driving import left_running

    assert left_running("4321") == []


@pytest.mark.thorough
def test_a_hostile_work_tree_runs_nothing_outside_the_sandbox(project: Project) -> None:
    """A nested repository names a program as its fsmonitor: making the patch must not run it here."""
    make_repository(project.cwd)
    canary = project.home / "canary"
    script = (
        "mkdir n && cd n && git init -q && "
        "git -c user.name=a -c user.email=a@a commit -q --allow-empty -m x && "
        f"printf '[core]\\n\\tfsmonitor = touch {canary}; false\\n' >> .git/config; touch f; cd ..; "
        "printf '* filter=x diff=x\\n' > .gitattributes; "
        f"git config filter.x.clean 'touch {canary}'; true"
    )
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs(script)) as server:
        batch.run(server.url)
    assert batch.by_id()["one"]["status"] == "ok"
    assert not canary.exists()


@pytest.mark.thorough
def test_the_person_s_modes_and_skills_reach_every_task(project: Project) -> None:
    """Copies in the task's own homes; links are followed, and a path of `skills.paths` is found there too."""
    make_repository(project.cwd)
    own = project.home / ".coder"
    elsewhere = project.home / "elsewhere"
    for directory, name in [
        (own / "skills", "from-coder"),
        (project.home / ".agents/skills", "from-agents"),
        (elsewhere, "from-paths"),
        (project.home / "linked", "from-link"),
    ]:
        (directory / name).mkdir(parents=True)
        head = f"---\nname: {name}\ndescription: What {name} is for.\n---\nBody of {name}.\n"
        (directory / name / "SKILL.md").write_text(head, encoding="utf-8")
    (own / "skills" / "from-link").symlink_to(project.home / "linked" / "from-link")
    (own / "skills" / "from-link" / "round").symlink_to(own / "skills")
    (own / "modes").mkdir()
    (own / "modes" / "brief.md").write_text(
        "---\nkind: persistent\n---\nAnswer in one word.\n", encoding="utf-8"
    )
    project.configure(skills={"paths": ["~/elsewhere"]})
    batch = Batch(project, [{**TASK, "mode": "/brief"}])
    with model(writes()) as server:
        assert batch.run(server.url).returncode == 0, batch.rows()[0]["error"]
        sent = json.dumps(server.chats[0])
    for name in ("from-coder", "from-agents", "from-paths", "from-link"):
        assert f"What {name} is for." in sent
    assert "Answer in one word." in sent


def test_modes_and_skills_that_are_too_many_to_take_along_are_said(project: Project) -> None:
    make_repository(project.cwd)
    large = project.home / ".coder" / "skills" / "large"
    large.mkdir(parents=True)
    with (large / "data").open("wb") as file:
        file.truncate(33 << 20)
    batch = Batch(project, [TASK])
    done = batch.run("http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert f"{large.parent} these are more than 32 MB" in done.stderr
