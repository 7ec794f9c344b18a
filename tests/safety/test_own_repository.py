"""The workspace's own repository where a lock cannot hold: a file that is replaced, a link, a rebase that
waits, the workspace itself as a repository. On every backend."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from box import available, level_of
from test_sandbox_engine import approved, git, played
from test_sandbox_repositories import ME, commit, warnings

from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project

RUNGS = available()
pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.parametrize("backend", RUNGS),
]


@pytest.fixture
def root(project: Project) -> Path:
    git(project.cwd, "init", "-q")
    commit(project.cwd)
    return project.cwd


def meanwhile(project: Project, backend: str, line: str, *words: str) -> Driver:
    """The line of a command that waits for `go`, which comes after the person has called git."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo", preset="yolo")
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.engine.agent.sandbox.confirmed = True
        driver.start()
        running = asyncio.create_task(driver.send("go"))
        while not (project.cwd / "waits").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        git(project.cwd, *words)
        project.write("go", "")
        await running
        await driver.close()
        return driver

    waiting = f"touch waits; while ! [ -e go ]; do sleep 0.02; done; {line}"
    with ScriptedServer([{"calls": [bash(waiting)]}, {"text": "ok"}]) as server:
        return asyncio.run(scenario(server.url))


def test_settings_stay_closed_when_the_person_s_git_replaces_them(
    project: Project, root: Path, backend: str
) -> None:
    evil = 'printf "[core]\\n\\tfsmonitor = ./evil\\n" >> .git/config'
    driver = meanwhile(project, backend, evil, "config", "color.ui", "never")
    assert "fsmonitor" not in (root / ".git/config").read_text(encoding="utf-8")
    if backend == "bwrap":
        assert ".git/config" in warnings(driver)


def test_what_the_person_sets_meanwhile_stays_where_it_names_no_program(
    project: Project, root: Path, backend: str
) -> None:
    if backend != "bwrap":
        pytest.skip("the weaker backend puts all of it back")
    meanwhile(project, backend, "true", "config", "color.ui", "never")
    assert git(root, "config", "color.ui") == "never\n"


@pytest.mark.parametrize(
    "line",
    [
        "rm .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "rm .git/hooks; mkdir e; echo evil > e/pre-commit; ln -s ../e .git/hooks",
    ],
)
def test_hooks_that_are_a_link_lead_to_nothing_else(
    project: Project, root: Path, backend: str, line: str
) -> None:
    shutil.rmtree(root / ".git/hooks")
    project.write("githooks/pre-push", "#!/bin/sh\n")
    (root / ".git/hooks").symlink_to("../githooks")
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert not (root / ".git/hooks/pre-commit").exists()
    assert ".git/hooks" in warnings(driver)


def test_the_steps_of_a_rebase_that_waits_are_named_where_they_run_something(
    project: Project, root: Path, backend: str
) -> None:
    todo = 'sh -c "printf \\"break\\nexec ./evil\\n\\" > \\$0"'
    line = f"{ME} commit -qm two --allow-empty; GIT_SEQUENCE_EDITOR='{todo}' {ME} rebase -qi HEAD~1"
    driver = played(project, backend, [{"calls": [bash(line)]}, {"calls": [bash("touch b")]}, {"text": "ok"}])
    assert "exec ./evil" in (root / ".git/rebase-merge/git-rebase-todo").read_text(encoding="utf-8")
    assert warnings(driver).count("git-rebase-todo") == 1


def test_a_workspace_that_becomes_a_repository_itself_is_named_also_where_its_files_are_ignored(
    project: Project, root: Path, backend: str
) -> None:
    line = (
        "printf 'config\\nHEAD\\nobjects\\nrefs\\n' > .gitignore; mkdir objects refs; mv .git/HEAD HEAD; "
        "printf '[core]\\n\\tworktree = .\\n\\tfsmonitor = ./evil\\n' > config"
    )
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert "This command made .:" in warnings(driver)


def test_what_the_person_approves_may_name_programs(project: Project, root: Path, backend: str) -> None:
    driver = approved(project, backend, [{"calls": [bash("git config alias.st '!ls'")]}, {"text": "ok"}])
    assert git(root, "config", "alias.st") == "!ls\n"
    assert warnings(driver) == ""
