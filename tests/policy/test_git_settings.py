"""Which lines are let at git's settings inside the sandbox."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coder.policy.git_settings import may_change_settings

DAILY = [
    "git push -u origin HEAD",
    "git config user.email me@localhost",
    "git config --local user.name 'A Person'",
    "git remote add origin https://example.invalid/a.git",
    "git add -A && git commit -m 'one two' && git push -u origin side",
    "git status; git checkout -b side origin/side",
    "git branch -m old new 2>&1 | tail -3",
    'git push -u origin "$(git branch --show-current)"',
    'git commit -m "$(cat a)" && git push',
    "git fetch --depth=1 --all",
    "git remote add there ../there",  # contacts nobody yet
    "git submodule update --init --recursive",
    "git submodule init lib && git submodule update lib",
    "git submodule add https://example.invalid/lib.git lib",
]
NOT_SO = [
    "git config core.fsmonitor ./evil.sh",
    "git config core.hooksPath ./hooks",
    "git config alias.st '!evil'",
    "git config --file x user.name y",
    "git config --global user.name y",
    "git config $KEY value",
    "git config --edit",
    "git remote add evil 'ext::sh -c evil'",
    "git push --receive-pack=evil origin",
    "git -c core.editor=evil commit",
    "GIT_EDITOR=evil git commit",
    "git submodule foreach evil",
    "git submodule add 'ext::sh -c evil' lib",
    "git submodule add https://example.invalid/lib.git bare.git",  # there already, whatever it is
    "git submodule add https://example.invalid/lib.git",
    "git submodule update --init --reference elsewhere",
    "git submodule update --init $WHICH",
    "git submodule update --init && make",
    "git rebase --exec evil main",
    "git bisect run evil",
    "git push -u origin HEAD && make",
    "python evil.py; git config user.name x",
    "git config user.name x > .git/config",
    'git config user.name "$(evil)"',
    "f() { evil; }; git config user.name x; f",
    "git commit -m 'unfinished",
    "git push --rece=evil origin",  # git takes options abbreviated
    "git fetch --upload-p=evil",
    "git branch --edi",
    "git merge -s evil main",
    'x=--receive-pack=evil; git push origin "$x"',
    "git push ./bare.git HEAD",  # a folder's own hooks would run
    "git push bare.git HEAD",
    "git push --repo=bare.git",
    "git fetch --depth 1 bare.git",
    "git fetch 'ext::sh -c evil'",
    "git remote add -f evil bare.git",
    "git remote set-url origin ./bare.git && git push origin",
    "git checkout other && git push there.git",
    "cd inner && git commit -m x",  # another repository, with hooks of its own
    "(cd inner; git commit -m x)",
    "ls='a[$(evil)]'; git push origin $((ls))",
    "ls",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "bare.git").mkdir()
    return tmp_path


@pytest.mark.parametrize("line", DAILY)
def test_daily_work_may(root: Path, line: str) -> None:
    assert may_change_settings(line, root)


@pytest.mark.parametrize("line", NOT_SO)
def test_what_runs_programs_may_not(root: Path, line: str) -> None:
    assert not may_change_settings(line, root)


def test_hooks_start_what_the_project_holds(root: Path) -> None:
    """A hook of the person's may run the project's own scripts, while the settings are open."""
    hook = root / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nmake check\n", encoding="utf-8")
    assert not may_change_settings("git push -u origin HEAD", root)
    assert may_change_settings("git config user.name x", root)  # starts none
    hook.unlink()
    with (root / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write("[core]\n\thooksPath = .husky\n")
    assert not may_change_settings("git push -u origin HEAD", root)


def test_not_in_a_repository_that_names_programs(root: Path) -> None:
    with (root / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write("[core]\n\tfsmonitor = ./evil.sh\n")
    assert not may_change_settings("git config user.name x", root)


def test_not_with_a_repository_that_is_a_folder_here(root: Path) -> None:
    assert may_change_settings("git push", root)
    legacy = root / ".git" / "remotes" / "origin"  # where git looks for a remote that is not in its settings
    legacy.parent.mkdir()
    legacy.write_text("URL: bare.git\n", encoding="utf-8")
    assert not may_change_settings("git push", root)
    legacy.unlink()
    with (root / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write('[remote "origin"]\n\turl = ./bare.git\n')
    assert not may_change_settings("git push", root)
    assert may_change_settings("git config user.name x", root)


def test_not_while_a_repository_inside_may_be_taken_in(root: Path) -> None:
    assert may_change_settings("git add -A && git commit -m x", root)
    subprocess.run(["git", "init", "-q", root / "inner"], check=True)
    assert not may_change_settings("git add -A && git commit -m x", root)
    assert may_change_settings("git config user.name x", root)


UPDATE = "git submodule update --init"


def submodule(root: Path) -> Path:
    """One as git makes it; where its own folder is."""
    folder = root / ".git" / "modules" / "lib"
    (folder / "objects").mkdir(parents=True)
    (folder / "hooks").mkdir()
    (folder / "config").write_text("[core]\n\tworktree = ../../../lib\n", encoding="utf-8")
    (root / "lib").mkdir()
    (root / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n", encoding="utf-8")
    said = '[submodule "lib"]\n\tpath = lib\n\turl = https://example.invalid/lib\n'
    (root / ".gitmodules").write_text(said, encoding="utf-8")
    return folder


def test_submodules_that_start_nothing_may_be_brought_up_to_date(root: Path) -> None:
    submodule(root)
    assert may_change_settings(UPDATE, root)
    assert not may_change_settings(f"{UPDATE} --recursive", root)  # what is within is not looked at


@pytest.mark.parametrize(
    "plant",
    [
        "echo evil > .git/modules/lib/hooks/post-checkout",
        "git config -f .git/modules/lib/config filter.x.smudge evil",
        "echo ../../../evil > .git/modules/lib/commondir",
        "mv .git/modules/lib m; ln -s ../../m .git/modules/lib",
        "mv .git/modules m; ln -s ../m .git/modules",
        "mv .git/modules/lib/hooks h; ln -s ../../../h .git/modules/lib/hooks",
        "rm lib/.git; git init -q lib",
        "cp -r .git/modules/lib m; echo 'gitdir: ../m' > lib/.git",
        "mv .git/modules/lib m; rm lib/.git; ln -s ../m lib/.git",
        "git config submodule.lib.update '!evil'",
        "git config -f .gitmodules submodule.lib.url 'ext::evil'",
    ],
)
def test_submodules_that_the_model_has_prepared_may_not(root: Path, plant: str) -> None:
    submodule(root)
    subprocess.run(["bash", "-ec", plant], cwd=root, check=True)
    assert not may_change_settings(UPDATE, root)
