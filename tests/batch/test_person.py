"""What is the person's own stays closed to tasks: their secrets, their folders, their checkouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from batch.batch_kit import Batch, commit, git, make_repository, model, runs, writes
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def test_commands_of_tasks_see_no_secrets_of_the_person_s_home(project: Project) -> None:
    make_repository(project.cwd)
    project.configure(ui={"lang": "en"}, provider={"headers": {"X-Team": "PRIVATE"}})
    secret = project.home / ".aws" / "credentials"
    secret.parent.mkdir()
    secret.write_text("PRIVATE", encoding="utf-8")
    show = f"cat {secret}; cat {project.home}/.coder/config.json; true"
    batch = Batch(
        project,
        [{**TASK, "mode": "yolo", "setup": f"{{ {show}; }} > seen.txt", "check": f"cat seen.txt; {show}"}],
    )
    with model(runs(show)) as server:
        batch.run(server.url)
    assert batch.rows()[0]["check"]["status"] == "passed"
    assert "PRIVATE" not in batch.file_of("one", "record.jsonl")
    assert "PRIVATE" not in batch.rows()[0]["check"]["output"]


def test_what_names_a_secret_of_the_person_s_home_is_denied(project: Project) -> None:
    """Without a sandbox the verdict on the line is all there is."""
    make_repository(project.cwd)
    project.configure(sandbox={"mode": "off"})
    secret = project.home / ".netrc"
    secret.write_text("PRIVATE", encoding="utf-8")
    for line in (
        f"cat {secret}",
        f"cat {project.home}/.coder/config.json",
        f"grep -r PRIVATE {project.home}",
    ):
        batch = Batch(project, [{**TASK, "id": "t"}])
        with model(runs(line)) as server:
            batch.run(server.url, "--retry", "failed")
        assert '"denied":true' in batch.file_of("t", "record.jsonl"), line
        (batch.out / "results.jsonl").unlink()


def test_results_have_no_keys_and_tokens(project: Project) -> None:
    make_repository(project.cwd)
    key, token = "key-of-the-provider", f"ghp_{'a1B2' * 9}"
    line = f"echo {key} {token}"
    tasks = [{**TASK, "check": line}, {**TASK, "id": "two", "setup": f"{line}; false"}]
    batch = Batch(project, tasks)
    with model(writes()) as server:
        batch.run(server.url, env={"CODER_API_KEY": key})
    one, two = (batch.by_id()[name] for name in ("one", "two"))
    for text in (one["check"]["output"], two["error"]):
        assert "provider key" in text
        assert key not in text
        assert token not in text


def test_a_folder_that_setup_turned_into_a_link_is_not_worked_in(project: Project, tmp_path: Path) -> None:
    make_repository(project.cwd, {"sub/a.txt": "one\n"})
    mine = tmp_path / "mine"
    mine.mkdir()
    line = f"cd .. && rm -r sub && ln -s {mine} sub"
    batch = Batch(project, [{**TASK, "cwd": "sub", "setup": line}])
    with model(writes()) as server:
        batch.run(server.url)
    assert list(mine.iterdir()) == []
    assert batch.rows()[0]["status"] == "setup_failed"


def test_a_folder_that_is_a_link_in_ref_is_not_worked_in(project: Project, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    make_repository(project.cwd)
    (project.cwd / "sub").symlink_to(mine)
    commit(project.cwd, "link")
    git(project.cwd, "tag", "link")
    (project.cwd / "sub").unlink()
    (project.cwd / "sub" / "more").mkdir(parents=True)
    tasks = [{**TASK, "cwd": "sub", "ref": "link"}, {**TASK, "id": "two", "cwd": "sub/more", "ref": "link"}]
    batch = Batch(project, tasks)
    with model(writes()) as server:
        batch.run(server.url)
    assert list(mine.iterdir()) == []
    assert {row["status"] for row in batch.rows()} == {"setup_failed"}


def test_a_folder_that_is_not_in_the_clone_is_a_failed_setup(project: Project) -> None:
    """Because its repository ignores it, or because `ref` does not have it."""
    make_repository(project.cwd, {".gitignore": "made/\n", "a.txt": "one\n"})
    for name in ("made", "later", "empty"):
        (project.cwd / name).mkdir()
    for name in ("made", "later"):
        (project.cwd / name / "b.txt").write_text("two\n", encoding="utf-8")
    folders: dict[str, dict[str, str]] = {
        "ignored": {"cwd": "made"},
        "missing": {"cwd": "later", "ref": "HEAD"},
        "empty": {"cwd": "empty"},
    }
    batch = Batch(project, [{**TASK, "id": name, **fields} for name, fields in folders.items()])
    with model(writes()) as server:
        batch.run(server.url)
    found = {name: row["status"] for name, row in batch.by_id().items()}
    assert found == {"ignored": "setup_failed", "missing": "setup_failed", "empty": "ok"}


def test_git_variables_lead_no_task_to_another_repository(project: Project, tmp_path: Path) -> None:
    make_repository(project.cwd)
    mine = make_repository(tmp_path / "mine")
    (mine / "a.txt").write_text("not committed\n", encoding="utf-8")
    named = {"GIT_DIR": str(mine / ".git"), "GIT_WORK_TREE": str(mine)}
    batch = Batch(project, [{**TASK, "cwd": "", "repo": ".", "env": list(named)}])
    with model(writes()) as server:
        done = batch.run(server.url, env=named)
    assert done.returncode == 2
    assert "GIT_DIR" in done.stderr
    batch = Batch(project, [{**TASK, "cwd": "", "repo": "."}])
    with model(writes()) as server:
        assert batch.run(server.url, env=named).returncode == 0
    assert (mine / "a.txt").read_text(encoding="utf-8") == "not committed\n"


def test_a_token_in_the_address_of_a_repository_is_not_in_its_mirror(
    project: Project, tmp_path: Path
) -> None:
    """Tasks can read the mirror."""
    source = make_repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), "served.git")
    git(tmp_path / "served.git", "update-server-info")
    show = 'cat "$(cat .git/objects/info/alternates)"/../config'
    with http_files(tmp_path) as address:
        address = address.replace("://", "://me:sesame-of-mine@")
        tasks = {
            "one": {"repo": f"{address}/served.git", "check": show},
            "two": {"repo": f"{address}/missing.git"},
            "three": {"repo": f"{address}/served.git", "ref": "a" * 40},
        }
        batch = Batch(project, [{"id": name, "prompt": "x", **task} for name, task in tasks.items()])
        with model(writes()) as server:
            batch.run(server.url)
    rows = batch.by_id()
    assert rows["one"]["status"] == "ok"
    assert "url = http://127.0.0.1" in rows["one"]["check"]["output"]
    for name, row in rows.items():
        assert "sesame" not in json.dumps(row), name
    assert rows["two"]["status"] == rows["three"]["status"] == "setup_failed"


@contextmanager
def http_files(directory: Path) -> Iterator[str]:
    """The directory as a web server shows it, which git can clone from."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
