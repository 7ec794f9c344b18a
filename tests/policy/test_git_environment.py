"""git looks at repositories that name programs to run, and runs none. With real git, without a sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from coder.base.process import git as git_environment
from coder.base.process.git import read_only_environment
from coder.policy.decide import decide
from coder.policy.shell.judge import judge

from .place import make_workspace

AUTHOR = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


class Repository:
    """Two commits, changed files, attributes that name drivers, and a program that tells when it ran."""

    def __init__(self, root: Path, marker: Path) -> None:
        self.root = root
        self.marker = marker
        self.evil = root.parent / "evil"
        root.mkdir(parents=True)
        told = f'#!/bin/sh\necho "$0 $*" >> "{marker}"\n'
        self.evil.write_text(told + '[ -f "$1" ] && exec cat "$1"\nexec cat\n', encoding="utf-8")
        self.evil.chmod(0o755)
        self.stamp = 1
        self.git("init", "-q", "-b", "main", ".")
        (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
        for text in ("one\n", "two\n"):
            (root / "a").write_text(text, encoding="utf-8")
            self.git("add", ".")
            self.git("commit", "-q", "-m", text)
        self.change()

    def git(self, *words: str | Path) -> None:
        environment = {**os.environ, **AUTHOR}
        subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, env=environment)

    def said(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, check=True, capture_output=True, text=True, input=given
        )
        return done.stdout.strip()

    def set(self, key: str, value: str | Path) -> None:
        self.git("config", key, str(value))

    def change(self) -> None:
        """The file differs from the index in its times alone, and another in its text."""
        self.stamp += 1
        os.utime(self.root / "a", (self.stamp, self.stamp))
        (self.root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n#\n", encoding="utf-8")

    def bytes(self) -> dict[str, bytes]:
        directory = self.root / ".git"
        return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}

    def look(self, line: str, root: Path | None = None) -> str:
        """Judge the line and run it as read-only lines are run; what it printed."""
        top = root or self.root
        verdict = judge(line, top)
        assert verdict.read_only, [str(segment.rule) for segment in verdict.segments]
        before = self.bytes()
        environment = read_only_environment(os.environ, top, verdict.drivers)
        done = _bash(line, top, environment)
        assert not self.marker.exists(), self.marker.read_text(encoding="utf-8")
        assert self.bytes() == before, "the line wrote into .git"
        return done.stdout + done.stderr

    def runs_without(self, line: str, root: Path | None = None) -> bool:
        """Whether the program would have run in an ordinary environment."""
        _bash(line, root or self.root, os.environ)
        ran = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return ran


def _bash(line: str, directory: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ["bash", "-c", line]
    return subprocess.run(
        argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "work", tmp_path / "ran")


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("core.fsmonitor", "{evil}", "git status"),
        ("core.fsmonitor", "{evil}", "git diff"),
        ("core.fsmonitor", "{evil}", "cd . && git ls-files -m"),
        ("filter.evil.clean", "{evil}", "git status"),
        ("filter.evil.clean", "{evil}", "git diff --stat HEAD"),
        ("filter.evil.clean", "{evil}", "find . -maxdepth 1 -name a -exec git diff {} +"),
        ("filter.evil.process", "{evil}", "git diff-files -p"),
        ("diff.evil.textconv", "{evil}", "git log -p"),
        ("diff.evil.textconv", "{evil}", "git show HEAD"),
        ("diff.evil.textconv", "{evil}", "git blame a"),
        ("diff.evil.textconv", "{evil}", "git diff HEAD~1"),
        ("diff.evil.command", "{evil}", "git diff HEAD~1"),
        ("diff.external", "{evil}", "git diff HEAD~1"),
        ("format.pretty", "%G? %s", "git log"),
        ("log.showSignature", "true", "git log"),
    ],
)
def test_no_setting_runs_a_program(repository: Repository, key: str, value: str, line: str) -> None:
    repository.set(key, value.format(evil=repository.evil))
    if key in ("format.pretty", "log.showSignature"):
        repository.set("gpg.program", repository.evil)
        repository.set("user.signingkey", "x")
        commit = "tree %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n%s\n\nsigned\n"
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----"
        tree = repository.said("rev-parse", "HEAD^{tree}")
        made = repository.said(
            "hash-object", "-t", "commit", "-w", "--stdin", given=commit % (tree, signature)
        )
        repository.git("update-ref", "HEAD", made)
    repository.look(line)
    repository.change()
    assert repository.runs_without(line), "the setting starts nothing: this tests nothing"


def test_hooks_and_the_index_are_left_alone(repository: Repository) -> None:
    hook = repository.root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(repository.evil.read_bytes())
    hook.chmod(0o755)
    for line in ("git status", "git diff"):  # either refreshes the index
        repository.look(line)
        assert repository.runs_without(line)
        repository.change()
    assert not judge("git describe --always --dirty", repository.root).read_only


def test_what_is_shown_is_still_right(repository: Repository) -> None:
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "core.pager", "pager.diff"):
        repository.set(key, repository.evil)
    repository.set("filter.evil.required", "true")
    repository.set("diff.evil.cachetextconv", "true")
    assert "+two" in repository.look("git diff HEAD~1 HEAD")
    assert " M .gitattributes" in repository.look("git status --short").splitlines()
    repository.set("diff.evil.command", "false")
    shown = repository.look("git diff HEAD~1 HEAD -- a")
    assert "-one" in shown and "+two" in shown and "b/a" in shown  # noqa: PT018 - one diff
    # The settings themselves are shown as they are.
    assert str(repository.evil) in repository.look("git config --get core.pager")


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tfsmonitor = {evil} #\r\n",
        "[core]\n\tfsmonitor = {evil}\r\n",
        '[core]\r\n\tfsmonitor = "{evil}"\r',
        "\ufeff[core]\n\tfsmonitor = {evil}\n",
        "# x \\\n[core]\n\tfsmonitor = {evil}\n",
        "[CORE] FSMonitor={evil}\n",
        "[include]\n\tpath = ../included\n",
        '[includeIf "gitdir:**"]\n\tpath = ../included\n',
        '[filter "evil"]\n\tclean = {evil}\n',
        "[filter.evil]\n\tclean = {evil}\n",
        '[filter "ev\\il"] clean = {evil}\n',
        "[extensions]\n\tworktreeConfig = true\n",
    ],
)
def test_however_the_settings_are_spelt(repository: Repository, text: str) -> None:
    fsmonitor = f"[core]\n\tfsmonitor = {repository.evil}\n"
    (repository.root / "included").write_text(fsmonitor, encoding="utf-8")
    (repository.root / ".git" / "config.worktree").write_text(fsmonitor, encoding="utf-8")
    config = repository.root / ".git" / "config"
    kept = config.read_bytes()
    config.write_bytes(text.format(evil=repository.evil).encode() + kept)
    repository.look("git status")
    repository.change()
    assert repository.runs_without("git status")


def test_a_driver_without_a_name(repository: Repository) -> None:
    (repository.root / ".gitattributes").write_text("* diff=\n", encoding="utf-8")
    with (repository.root / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(f'[diff ""]\n\ttextconv = {repository.evil}\n')
    repository.look("git log -p")


def test_a_driver_whose_name_is_no_text(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a locale of UTF-8 git's own regular expressions do not match its name."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    (repository.root / ".gitattributes").write_bytes(b"* filter=\xff diff=\xff\n")
    with (repository.root / ".git" / "config").open("ab") as config:
        for kind in (b"filter", b"diff"):
            names = b"clean", b"textconv"
            values = b"".join(b"\t%s = %s\n" % (name, os.fsencode(repository.evil)) for name in names)
            config.write(b'[%s "\xff"]\n%s' % (kind, values))
    for line in ("git status", "git diff a", "git log -p"):
        repository.look(line)
    assert repository.runs_without("git diff a")


def test_a_git_that_takes_no_settings_from_the_environment_is_asked_about(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "git").write_text(
        f'#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec {shutil.which("git")} "$@"\n', encoding="utf-8"
    )
    (old / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    assert not judge("git status", repository.root).read_only
    assert judge("git --version", repository.root).read_only


def test_where_the_git_directory_lies(repository: Repository) -> None:
    """`gitdir:` and `commondir` with blanks: only git has to find out where they lead."""
    repository.set("core.fsmonitor", repository.evil)
    for name, blanks in (("blanks", "  "), ("tab", "\t"), ("none", "")):
        inner = repository.root / name
        inner.mkdir()
        (inner / ".git").write_text(f"gitdir: {blanks}../.git{blanks}\n\n", encoding="utf-8")
        for line in (f"cd {inner.name} && git status", f"git -C {inner.name} status"):
            if judge(line, repository.root).read_only:
                repository.look(line)


def test_a_worktree(repository: Repository) -> None:
    repository.set("core.fsmonitor", repository.evil)
    repository.git("worktree", "add", "-q", "tree")
    repository.marker.unlink(missing_ok=True)
    for line in ("cd tree && git status", "git -C tree diff", "git worktree list"):
        repository.look(line)
    assert repository.runs_without("cd tree && git status")


def test_a_bare_repository_in_a_subdirectory(repository: Repository) -> None:
    """Not believed at all: git itself refuses it, or runs nothing of it."""
    hidden = repository.root / "hidden"
    hidden.mkdir()
    repository.git("init", "-q", "--bare", "hidden")
    with (hidden / "config").open("a", encoding="utf-8") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {repository.evil}\n")
    repository.look("git status")
    for line in (
        "cd hidden && git status",
        "git -C hidden status",
        "(cd hidden; git log)",
    ):
        repository.look(line)
    assert repository.runs_without("git -C hidden status")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["filter.evil.clean", "core.fsmonitor"])
def test_repositories_within_are_looked_into(repository: Repository, tmp_path: Path, kind: str) -> None:
    """`git status` starts git in each submodule, by the submodule's own settings, and so on."""
    inner = Repository(repository.root / "inner", repository.marker)
    deep = Repository(inner.root / "deep", repository.marker)
    for outer, name in ((inner, "deep"), (repository, "inner")):
        outer.git("add", name)
        outer.git("commit", "-q", "-m", "x")
    deep.set(kind, repository.evil)
    deep.change()
    for line in ("git status", "git diff", "git submodule status --recursive", "cd inner && git status"):
        repository.look(line)
    assert repository.runs_without("git status")


def test_the_settings_say_where_the_repositories_within_lie(repository: Repository) -> None:
    inner = Repository(repository.root.parent / "elsewhere" / "inner", repository.marker)
    inner.set("filter.evil.clean", repository.evil)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    repository.set("core.worktree", inner.root.parent)
    inner.change()
    repository.look("git status")
    assert repository.runs_without("git status")


def test_a_partial_clone_fetches_nothing(repository: Repository) -> None:
    repository.evil.write_text(f'#!/bin/sh\n: > "{repository.marker}"\n', encoding="utf-8")
    repository.set("remote.o.url", f"ext::{repository.evil} x")
    repository.set("remote.o.promisor", "true")
    repository.set("protocol.ext.allow", "always")
    repository.set("extensions.partialClone", "o")
    blob = repository.said("rev-parse", "HEAD~1:a")
    (repository.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for line in ("git log -p", "git show HEAD~1:a"):
        repository.look(line)
        assert repository.runs_without(line)


def test_what_cannot_be_found_out_is_asked_about(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_environment, "_SECONDS", 0.3)
    config = repository.root / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    for line in ("git status", "git log", "cd . && git diff"):
        verdict = judge(line, repository.root)
        assert not verdict.read_only
        assert "settings" in str(verdict.segments[-1].rule)


def test_git_of_the_workspace_is_not_asked(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = repository.root / "bin"
    directory.mkdir()
    for name in ("git", "cat"):
        (directory / name).write_bytes(repository.evil.read_bytes())
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:bin:{os.environ['PATH']}")
    assert not judge("git status", repository.root).read_only
    assert not repository.marker.exists()
    environment = read_only_environment(os.environ, repository.root)
    assert str(directory) not in environment["PATH"].split(":")
    assert "bin" not in environment["PATH"].split(":")


def test_the_persons_own_variables(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(repository.evil))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(repository.evil))
    monkeypatch.setenv("GIT_TRACE", str(repository.marker))
    repository.look("git diff HEAD~1")
    assert repository.runs_without("git diff HEAD~1")


def test_always_covers_git_in_a_mixed_line_by_its_name_only(repository: Repository) -> None:
    """Such a line is not read-only as a whole, so it runs in the ordinary environment."""
    verdict = judge("touch x && git status", repository.root)
    decided = decide("bash", "balanced", "default", shell=verdict, allowlist=["touch"])
    assert decided.decision == "ask"
    assert decided.always_names == ["touch", "git status"]
    both = decide("bash", "balanced", "default", shell=verdict, allowlist=["touch", "git status"])
    assert both.decision == "allow"
    wrapped = judge("touch x && timeout 5 git status", repository.root)
    assert decide("bash", "balanced", "default", shell=wrapped, allowlist=["touch"]).decision == "ask"
    assert (
        decide("bash", "balanced", "default", shell=judge("git status", repository.root)).decision == "allow"
    )


def test_cd_by_way_of_a_link(tmp_path: Path) -> None:
    """The shell takes `link/..` for where it stands, the disk for where the link leads."""
    root = make_workspace(tmp_path)
    (root / "far" / "deep").mkdir(parents=True)
    (root / "near").symlink_to("far/deep")
    assert not judge("cd near/../.. && ls", root).read_only  # to the shell: above the workspace


def test_toolchain_files_choose_the_program(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    assert judge("cargo --version", root).read_only
    (root / "rust-toolchain.toml").write_text('[toolchain]\npath = "evil"\n', encoding="utf-8")
    assert not judge("cargo --version", root).read_only
