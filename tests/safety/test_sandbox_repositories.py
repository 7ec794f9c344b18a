"""Repositories inside the workspace: what steers git in them is not a command's to change, on any backend."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from box import available
from test_sandbox_engine import approved, git, played

from coder.policy.sandbox.repositories import Repositories, _naming_lines, git_directories_in
from coder.protocol.events import CommandDone, Notice
from kit.calls import bash
from kit.driving import Driver, Project, of

RUNGS = available()
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
ME = "git -c user.name=t -c user.email=t@localhost -c init.defaultBranch=main -c protocol.file.allow=always"
# What a program would be planted with; `$G` is the git directory.
PLANTS = {
    "setting": 'printf "[core]\\n\\tfsmonitor = ./evil\\n" >> "$G/config"',
    "setting by git": 'git config -f "$G/config" core.fsmonitor ./evil',
    "hooks path": 'git config -f "$G/config" core.hooksPath /evil',
    "include": 'git config -f "$G/config" include.path ../evil',
    "alias": 'git config -f "$G/config" alias.st "!evil"',
    "filter": 'git config -f "$G/config" filter.x.clean evil',
    "by replacing": 'cp "$G/config" c; echo "[core] fsmonitor = evil" >> c; mv -f c "$G/config"; rm -f c',
    "not understood": 'printf "[core\\n" > "$G/config"',
    "hook": 'printf "#!/bin/sh\\nevil\\n" > "$G/hooks/post-checkout"; chmod +x "$G/hooks/post-checkout"',
    "hook that was there": 'echo evil >> "$G/hooks/pre-push"',
    "hook by folder": 'mv "$G/hooks" "$G/h"; mkdir "$G/hooks"; echo evil > "$G/hooks/pre-commit"',
    "hooks by link": 'mv "$G/hooks" "$G/h"; mkdir -p e; echo evil > e/pre-commit; ln -s "$PWD/e" "$G/hooks"',
    "elsewhere": 'mkdir -p e; echo "[core] fsmonitor = evil" > e/config; echo "$PWD/e" > "$G/commondir"',
    "link": 'echo "[core] fsmonitor = evil" > c; rm -f "$G/config"; ln -s "$PWD/c" "$G/config"',
}


def commit(directory: Path, name: str = "a") -> None:
    (directory / name).write_text("one\n", encoding="utf-8")
    git(directory, "add", name)
    git(directory, "commit", "-qm", "first")


def workspace(project: Project) -> dict[str, Path]:
    """A repository with one of each kind in it; the git directory of each."""
    root, elsewhere = project.cwd, project.cwd.parent / "library"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    commit(elsewhere)
    git(root, "init", "-q")
    commit(root)
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(elsewhere), "lib/sub")
    git(root, "commit", "-qm", "with a submodule")
    git(root, "worktree", "add", "-q", "tree")
    for name in ("plain", "parted"):
        (root / name).mkdir()
    git(root / "plain", "init", "-q")
    commit(root / "plain")
    git(root / "parted", "init", "-q", "--separate-git-dir", str(root / "kept"))
    commit(root / "parted")
    git(root, "init", "-q", "--bare", "bare.git")
    found = {
        "plain": root / "plain" / ".git",
        "submodule": root / ".git" / "modules" / "lib" / "sub",
        "parted": root / "kept",
        "bare": root / "bare.git",
    }
    for directory in found.values():
        (directory / "hooks").mkdir(exist_ok=True)
        (directory / "hooks" / "pre-push").write_text("#!/bin/sh\n", encoding="utf-8")
    return found


def steering(directory: Path) -> dict[str, bytes]:
    """What git would run, or take its settings from; samples are nothing of the kind."""
    hooks = directory / "hooks"
    files = [directory / "config", directory / "config.worktree", directory / "commondir", *hooks.iterdir()]
    wanted = [path for path in files if path.exists() and not path.name.endswith(".sample")]
    return {path.name: path.read_bytes() for path in wanted}


def warnings(driver: Driver) -> str:
    return "\n".join(n.text for n in of(driver.seen, Notice) if n.level == "warning")


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_what_is_there_is_not_turned_against_the_person(project: Project, backend: str) -> None:
    directories = workspace(project)
    before = {name: steering(directory) for name, directory in directories.items()}
    lines = [
        (f"G={directory}; ({plant}) 2>/dev/null; rm -rf e c; true", kind, way)
        for kind, directory in directories.items()
        for way, plant in PLANTS.items()
    ]
    script = [{"calls": [bash(line)]} for line, _, _ in lines]
    driver = played(project, backend, [*script, {"text": "ok"}], max_steps=200)
    assert len(project.of_type("observation")) == len(lines)
    assert {name: steering(directory) for name, directory in directories.items()} == before
    if backend == "landlock":
        assert "has been put back" in warnings(driver)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_a_pointer_does_not_come_to_lead_elsewhere(project: Project, backend: str) -> None:
    """Of a submodule, a worktree and a repository whose directory lies apart `.git` is a file."""
    workspace(project)
    marks = [project.cwd / name / ".git" for name in ("lib/sub", "tree", "parted")]
    before = [mark.read_bytes() for mark in marks]
    evil = "cp -r plain/.git evil; git config -f evil/config core.fsmonitor ./evil"
    lines = [f"{evil}; echo 'gitdir: {project.cwd}/evil' > {mark}; true" for mark in marks]
    lines += [f"rm -f {mark}; ln -s {project.cwd}/evil {mark}; true" for mark in marks]
    played(project, backend, [*({"calls": [bash(line)]} for line in lines), {"text": "ok"}])
    assert "evil" in (project.cwd / "evil" / "config").read_text(encoding="utf-8")
    assert [mark.read_bytes() for mark in marks] == before
    assert "evil" not in "".join(git(mark.parent, "config", "--list") for mark in marks)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_one_that_takes_the_place_of_another(project: Project, backend: str) -> None:
    """Moving the whole directory away is not stopped: it may be honest. What takes its place is locked."""
    workspace(project)
    line = (
        "mv plain aside; mkdir plain; cp -r aside/.git plain/.git; cd plain; "
        "git config core.fsmonitor ./evil; echo evil > .git/hooks/pre-commit; echo tried"
    )
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert "tried" in project.of_type("observation")[0]["content"]
    assert "evil" not in git(project.cwd / "plain", "config", "--list")
    assert not (project.cwd / "plain" / ".git" / "hooks" / "pre-commit").exists()
    assert "plain/.git/config" in warnings(driver)


MADE = {
    "init": "git init -q new && cd new && git config core.fsmonitor ./evil",
    "clone": "git clone -q plain new && echo evil > new/.git/hooks/post-checkout",
    "bare": "git init -q --bare new.git && echo evil > new.git/hooks/post-update",
    "pointer": "mkdir new && echo 'gitdir: /elsewhere/.git' > new/.git",
    "include": "git init -q new && git -C new config include.path ../evil",
}


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_what_a_command_makes_with_programs_in_it_is_named(project: Project, backend: str) -> None:
    workspace(project)
    script = [{"calls": [bash(line.replace("new", f"made-{name}"))]} for name, line in MADE.items()]
    driver = played(project, backend, [*script, {"text": "ok"}])
    told = [n.text for n in of(driver.seen, Notice) if "outside the sandbox, as soon as" in n.text]
    assert len(told) == len(MADE)
    for name, text in zip(MADE, told, strict=True):
        assert f"made-{name}" in text


def test_what_runs_without_a_sandbox_is_the_person_s_to_allow(project: Project) -> None:
    workspace(project)
    line = "git -C plain config core.hooksPath mine && git init -q new && git -C new config core.editor mine"
    driver = played(project, "none", [{"calls": [bash(line)]}, {"text": "ok"}])
    assert git(project.cwd / "plain", "config", "core.hooksPath") == "mine\n"
    assert warnings(driver) == ""


@pytest.mark.parametrize("backend", RUNGS)
def test_one_made_where_there_was_none_at_all_is_named(project: Project, backend: str) -> None:
    line = "git init -q && git config core.fsmonitor ./evil"
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert "This command made .git:" in warnings(driver)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_honest_work_in_them_goes_on_as_before(project: Project, backend: str) -> None:
    directories = workspace(project)
    for directory in directories.values():
        (directory / "hooks" / "pre-push").unlink()
    lines = [
        f"set -e; cd {name}; echo 2 > b; git add b; {ME} commit -qm two; git checkout -qb side; echo 3 >> b; "
        f"{ME} commit -qam three; git switch -q -; git stash list; git gc -q; git log --oneline | wc -l"
        for name in ("plain", "lib/sub", "parted")
    ]
    lines += [
        "git worktree add -q second && cd second && git status --short",
        "cd plain && git worktree add -q ../third && git worktree list",
        f"git clone -q plain copy && cd copy && {ME} commit -q --allow-empty -m one && git log --oneline",
        "rm -rf copy && test ! -e copy",  # what a command made, the next one may remove
        "git worktree remove second && test ! -e second",
        f"{ME} -C bare.git fetch -q ../plain HEAD && git -C bare.git log --oneline FETCH_HEAD",
    ]
    driver = played(project, backend, [*({"calls": [bash(line)]} for line in lines), {"text": "ok"}])
    results = project.of_type("observation")
    assert [event["content"] for event in results if not event["meta"]["ok"]] == []
    assert "outside the sandbox, as soon as" not in warnings(driver)
    assert "put back" not in warnings(driver)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_submodules_can_be_brought_in(project: Project, backend: str, tmp_path: Path) -> None:
    workspace(project)
    (project.home / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n', encoding="utf-8")
    git(project.cwd, "commit", "-qam", "all", "--allow-empty")
    again = project.cwd.parent / "again"
    shutil.move(project.cwd, again)
    git(again.parent, "clone", "-q", str(again), str(project.cwd))
    line = "git submodule update --init --recursive"
    driver = approved(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    (event,) = project.of_type("observation")
    assert event["meta"]["ok"], event["content"]
    assert (project.cwd / "lib" / "sub" / "a").read_text(encoding="utf-8") == "one\n"
    assert warnings(driver) == ""


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_our_own_calls_of_git_run_nothing_that_could_do_harm(project: Project, backend: str) -> None:
    """`/diff` looks at files, which filters are made for."""
    evil = f"sh -c 'touch {project.cwd.parent}/escaped {project.cwd}/escaped; cat'"
    line = (
        f"set -e; git init -q; echo '* filter=x' > .gitattributes; echo 1 > a; {ME} add .; {ME} commit -qm 1;"
        f'{ME} init -q sub; cd sub; {ME} commit -q --allow-empty -m 1; git config core.fsmonitor "{evil}"; '
        f'cd ..; {ME} add sub; git config filter.x.clean "{evil}"; git config core.fsmonitor "{evil}"; '
        "echo 2 > a; rm -f escaped"
    )
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}], "go", "/diff", "/diff full")
    assert project.of_type("observation")[0]["meta"]["ok"]
    assert not (project.cwd.parent / "escaped").exists()
    assert not (project.cwd / "escaped").exists()
    short, full = (done.text for done in of(driver.seen, CommandDone))
    assert "a" in short
    assert "+2" in full


# the parts


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[user]\n\tname = x\n[remote "origin"]\n\turl = https://example.org/clean-editor\n', False),
        ('[core]\n\tbare = false\n\tworktree = ../x\n[submodule "s"]\n\tactive = true\n', False),
        ("[core]\n\thooksPath = .husky\n", True),
        ("[core] FSMonitor = evil\n", True),
        ("[core]\n\tbare = false\r\tfsmonitor = evil\n", True),
        ("[core]\r\n\tfsmonitor\r\n", True),
        ("\ufeff[alias]\n\tx = !sh\n", True),
        ("[ include ]\n\tpath = evil\n", True),
        ('[includeIf "gitdir:/"]\n\tpath = evil\n', True),
        ('[credential "https://h"]\n\thelper = !evil\n', True),
        ('[merge "m"]\n\tdriver = evil %A\n', True),
        ('[filter "x"]\n\tclean= evil\n', True),
        ('[remote "x"]\n\tuploadpack=evil\n', True),
        ('[submodule "s"]\n\tupdate = !evil\n', True),
    ],
)
def test_which_bytes_may_name_programs(text: str, named: bool) -> None:
    assert bool(_naming_lines(text.encode())) == named


@pytest.mark.thorough
@pytest.mark.parametrize("backend", RUNGS)
def test_a_pointer_is_followed_as_git_follows_it(project: Project, backend: str) -> None:
    """Blanks belong to the name: what lies without them is another directory."""
    workspace(project)
    lead = "cp -r plain/.git 'evil '; cp -r plain/.git evil; git config -f 'evil /config' core.fsmonitor x"
    line = f"{lead}; mkdir led; printf 'gitdir: ../evil \\n' > led/.git"
    driver = played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert "led/.git" in warnings(driver)


def test_two_commands_beside_each_other_share_what_was_before(tmp_path: Path) -> None:
    """Else the second would take for given what the first has planted."""
    directory = tmp_path / "sub" / ".git"
    (directory / "hooks").mkdir(parents=True)
    config = directory / "config"
    config.write_text("[core]\n", encoding="utf-8")
    found = Repositories(str(tmp_path))
    marks = [str(directory)]
    found.look(marks)
    config.write_text("[core]\n\tfsmonitor = evil\n", encoding="utf-8")
    found.look(marks)
    assert found.settle(marks).put_back == [str(config)]
    config.write_text("[core]\n\tfsmonitor = worse\n", encoding="utf-8")
    assert found.settle(marks).put_back == [str(config)]
    assert config.read_text(encoding="utf-8") == "[core]\n"


def test_what_the_person_sets_between_commands_stays(tmp_path: Path) -> None:
    directory = tmp_path / "sub" / ".git"
    (directory / "hooks").mkdir(parents=True)
    config, hook = directory / "config", directory / "hooks" / "pre-commit"
    config.write_text("[core]\n", encoding="utf-8")
    found = Repositories(str(tmp_path))
    found.look([str(directory)])
    found.settle([str(directory)])
    config.write_text("[core]\n\thooksPath = mine\n", encoding="utf-8")
    hook.write_text("mine", encoding="utf-8")
    found.look([str(directory)])
    settled = found.settle([str(directory)])
    assert (settled.put_back, settled.left) == ([], [])
    assert "mine" in config.read_text(encoding="utf-8")
    assert hook.exists()


def test_a_link_in_the_way_of_putting_back_is_not_followed_but_named(tmp_path: Path) -> None:
    inside, outside = tmp_path / "work" / "sub", tmp_path / "person"
    for directory in (inside, outside):
        (directory / ".git" / "hooks").mkdir(parents=True)
        (directory / ".git" / "config").write_text("[core]\n", encoding="utf-8")
    (outside / ".git" / "config").write_text("[core]\n\teditor = mine\n", encoding="utf-8")
    found = Repositories(str(tmp_path / "work"))
    marks = [str(inside / ".git")]
    found.look(marks)
    inside.rename(tmp_path / "work" / "aside")
    inside.symlink_to(outside)
    settled = found.settle(marks)
    assert settled.put_back == []
    assert "mine" in (outside / ".git" / "config").read_text(encoding="utf-8")


def test_submodules_within_submodules_are_found(tmp_path: Path) -> None:
    for name in (
        "modules/a/objects",
        "modules/group/b/objects",
        "modules/a/modules/c/objects",
        "worktrees/w",
    ):
        (tmp_path / name).mkdir(parents=True)
    found = {str(Path(path).relative_to(tmp_path)) for path in git_directories_in(str(tmp_path))}
    assert found == {"modules/a", "modules/group/b", "modules/a/modules/c", "worktrees/w"}


def test_looking_costs_questions_and_no_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", "sub"], cwd=tmp_path, check=True)
    found = Repositories(str(tmp_path))
    marks = [str(tmp_path / "sub" / ".git")]
    found.look(marks)
    found.settle(marks)
    reads: list[Path] = []
    monkeypatch.setattr("coder.policy.sandbox.repositories.read_whole", lambda path, *_: reads.append(path))
    found.look(marks)
    found.settle(marks)
    assert reads == []


@pytest.mark.skipif("bwrap" not in RUNGS, reason="put back afterwards on the weaker backend, not stopped")
@pytest.mark.parametrize(
    "line", ["cd sub && git config user.name x", "git -C sub config user.name x", "rm -rf sub"]
)
def test_what_is_locked_in_them_is_told(project: Project, line: str) -> None:
    (project.cwd / "sub").mkdir()
    git(project.cwd / "sub", "init", "-q")
    before = (project.cwd / "sub" / ".git" / "config").read_bytes()
    played(project, "bwrap", [{"calls": [bash(line)]}, {"text": "ok"}])
    (event,) = project.of_type("observation")
    assert f"Commands may not write {project.cwd}/sub/.git/" in event["content"]
    assert (project.cwd / "sub" / ".git" / "config").read_bytes() == before


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize(
    "move",
    [
        "mv .git .git2; ln -s {other}/.git .git",
        "mv .git .git2; mkdir .git; cd .git; ln -s {other}/.git/hooks .; ln -s {other}/.git/config config",
        "rm -rf .git/hooks; ln -s {other}/.git/hooks .git/hooks",
        "mv .git/hooks .git/h; ln -s {other}/.git/hooks .git/hooks; mv .git .g; ln -s .g .git",
    ],
)
def test_nothing_is_restored_in_another_repository(project: Project, backend: str, move: str) -> None:
    """The person's other repository keeps its hooks and settings, whatever takes the place of .git."""
    other = project.cwd.parent / "other"
    other.mkdir()
    for directory in (project.cwd, other):
        git(directory, "init", "-q")
        commit(directory)
    (project.cwd / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\necho of the project\n", "utf-8")
    (other / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\necho of the person\n", "utf-8")
    before = {path: path.read_bytes() for path in (other / ".git").rglob("*") if path.is_file()}
    played(project, backend, [{"calls": [bash(move.format(other=other))]}, {"text": "done"}])
    assert project.of_type("observation")[-1]["meta"]["sandbox"] == backend
    assert {path: path.read_bytes() for path in (other / ".git").rglob("*") if path.is_file()} == before
    git_directory = project.cwd / ".git"
    assert git_directory.resolve() != (other / ".git").resolve()


def linked(project: Project) -> Path:
    """Makes the workspace a linked worktree of the repository that is returned."""
    main = project.cwd.parent / "main"
    main.mkdir()
    git(main, "init", "-q")
    commit(main)
    project.cwd.rmdir()
    git(main, "worktree", "add", "-q", "-b", "feature", str(project.cwd))
    return main


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize("mode", ["default", "auto-edit", "yolo"])
def test_git_works_in_a_linked_worktree(project: Project, backend: str, mode: str) -> None:
    main = linked(project)
    line = f"echo new > b && git add b && {ME} commit -qm second && git log --format=%s"
    played(
        project,
        backend,
        [{"calls": [bash(line)]}, {"calls": [bash("git status --short --branch")]}, {"text": "ok"}],
        mode=mode,
    )
    written, looked = project.of_type("observation")
    assert written["content"] == "second\nfirst"
    assert looked["content"] == "## feature"
    assert "second" in git(main, "log", "--format=%s", "feature")


def below(project: Project) -> Path:
    """Makes the workspace a directory of the repository that is returned."""
    top = project.cwd.parent / "top"
    project.cwd = top / "part"
    project.cwd.mkdir(parents=True)
    git(top, "init", "-q")
    commit(top)
    return top


@pytest.mark.skipif("bwrap" not in RUNGS, reason="Landlock cannot close a part of a git directory")
@pytest.mark.parametrize("mode", ["default", "yolo"])
def test_git_works_in_a_directory_of_a_repository(project: Project, mode: str) -> None:
    top = below(project)
    line = f"echo new > b && git add b && {ME} commit -qm second && git log --format=%s"
    played(project, "bwrap", [{"calls": [bash(line)]}, {"text": "ok"}], mode=mode)
    assert project.of_type("observation")[-1]["content"] == "second\nfirst"
    assert "second" in git(top, "log", "--format=%s")


@pytest.mark.parametrize("backend", RUNGS)
def test_a_repository_that_holds_the_home_stays_closed(project: Project, backend: str) -> None:
    top = project.cwd.parent
    git(top, "init", "-q")
    commit(top)
    line = f"echo new > b && git add b && {ME} commit -qm second"
    played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}], mode="yolo")
    assert git(top, "log", "--format=%s").split() == ["first"]


@pytest.mark.parametrize("backend", RUNGS)
def test_nothing_steers_the_repository_that_the_workspace_is_in(project: Project, backend: str) -> None:
    top = below(project)
    config = (top / ".git" / "config").read_bytes()
    names = ("config", "config.worktree", "commondir", "hooks/pre-commit", "modules/x")
    tries = [f"mkdir -p $(dirname {top}/.git/{name}); echo evil >> {top}/.git/{name}" for name in names]
    tries += [f"mv {top}/.git {top}/.git2", f"echo evil > {top}/a"]
    played(project, backend, [{"calls": [bash("; ".join(tries))]}, {"text": "ok"}], mode="yolo")
    assert (top / ".git" / "config").read_bytes() == config
    assert [name for name in names[1:4] if (top / ".git" / name).exists()] == []
    assert (top / "a").read_text(encoding="utf-8") == "one\n"


@pytest.mark.parametrize("backend", RUNGS)
def test_the_main_repository_of_a_worktree_stays_as_it_is(project: Project, backend: str) -> None:
    main = linked(project)
    own = main / ".git" / "worktrees" / project.cwd.name
    steering = [main / ".git" / name for name in ("config", "HEAD")] + [own / "commondir", own / "gitdir"]
    before = {path: path.read_bytes() for path in steering}
    hooks = sorted((main / ".git" / "hooks").iterdir())
    tries = [f"echo evil >> {path}" for path in steering] + [f"echo evil > {main}/.git/hooks/pre-commit"]
    tries += [f"mv {own} {own}2", f"echo evil > {main}/a", f"echo /evil > {own}/config.worktree"]
    played(project, backend, [{"calls": [bash("; ".join(tries))]}, {"text": "ok"}])
    assert {path: path.read_bytes() for path in steering} == before
    assert sorted((main / ".git" / "hooks").iterdir()) == hooks
    assert not (own / "config.worktree").exists()
    assert (main / "a").read_text(encoding="utf-8") == "one\n"


@pytest.mark.parametrize("backend", RUNGS)
def test_a_project_cannot_claim_to_be_the_worktree_of_another_repository(
    project: Project, backend: str
) -> None:
    main = linked(project)
    claimed = main / ".git" / "worktrees" / "claimed"
    shutil.copytree(main / ".git" / "worktrees" / project.cwd.name, claimed)
    (claimed / "gitdir").write_text("/elsewhere/.git\n", encoding="utf-8")
    (project.cwd / ".git").write_text(f"gitdir: {claimed}\n", encoding="utf-8")
    played(
        project,
        backend,
        [
            {"calls": [bash(f"echo x > {main}/.git/objects/planted; echo x > {claimed}/planted")]},
            {"text": "ok"},
        ],
    )
    assert not (main / ".git" / "objects" / "planted").exists()
    assert not (claimed / "planted").exists()
