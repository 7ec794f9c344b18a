"""`git status` is read-only only where the repository names no program for git to run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from coder.policy.git_config import is_tame
from coder.policy.shell import judge

from .place import make_workspace


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\tfsmonitor = ./evil\n",
        "[core] fsmonitor=evil\n",
        '[CORE]\nFSMonitor = "evil"\n',
        "[core]\n\tfs\\\nmonitor = x\n",
        "[diff]\n\texternal = evil\n",
        '[diff "x"]\n\tcommand = evil\n',
        '[diff "x"]\n\ttextconv = evil\n',
        '[filter "x"]\n\tclean = evil\n',
        "[include]\n\tpath = ../evil\n",
        '[includeIf "gitdir:x"]\n\tpath = ../evil\n',
        "[gpg]\n\tprogram = evil\n",
        "[core]\n\tpager = evil\n",
        '[remote "o"]\n\turl = ext::sh -c evil\n',
        '[url "ext::sh -c evil "]\n\tinsteadOf = x:\n',
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f || ./evil\n',
        # What looking starts by way of another setting, or of one that is missing.
        "[log]\n\tdiffMerges = remerge\n",
        "[log]\n\tshowSignature = true\n",
        "[diff]\n\tsubmodule = diff\n",
        "[alias]\n\twhatchanged = !evil\n",
        '[remote "o"]\n\turl = x\n\tpromisor = true\n[core]\n\talternateRefsCommand = evil\n',
        "[credential]\n\thelper = !evil\n[extensions]\n\tpartialClone = o\n",
        # What git reads otherwise than it looks: no line goes on after a comment, a mark may stand first.
        "\ufeff[core]\n\tfsmonitor = ./evil\n",
        "# x \\\n[core]\n\tfsmonitor = ./evil\n",
        "[core]\n\ta = b # \\\n\tfsmonitor = ./evil\n",
        "[user]\n\tname = a\\\\\n[core]\n\tfsmonitor = ./evil\n",
        "[core]\n#\x0c[user]\n\tfsmonitor = ./evil\n",
    ],
)
def test_a_configuration_that_runs_programs(config: str, tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    assert judge("git status", root).read_only
    (root / ".git" / "config").write_text(config, encoding="utf-8")
    for line in ("git status", "cd src && git diff", "git -C src log"):
        verdict = judge(line, root)
        assert not verdict.read_only
        assert "configuration" in str(verdict.segments[-1].rule)


def test_usual_configurations_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_workspace(tmp_path)
    (root / ".git" / "config").write_text(
        '[core]\n\tfsmonitor = true\n\thooksPath = .husky\n[remote "origin"]\n\turl = git@h:x/y.git\n'
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n[alias]\n\tst = status\n[user]\n\tname = a\n',
        encoding="utf-8",
    )
    assert is_tame(root)
    (root / ".husky").mkdir()
    (root / ".husky" / "post-index-change").write_text("evil", encoding="utf-8")
    assert not is_tame(root)
    for spelt in ('".husky" ; where', '.hus"ky"', "~/.husky"):
        (root / ".git" / "config").write_text(f"[core]\n\thooksPath = {spelt}\n", encoding="utf-8")
        monkeypatch.setenv("HOME", str(root))
        assert not is_tame(root)


def test_a_repository_inside_is_looked_into(tmp_path: Path) -> None:
    """`git status` starts git in each submodule, by the submodule's own settings."""
    root = tmp_path / "work"
    inner = root / "inner"
    for folder in (inner, root):
        _git("init", "-q", folder)
        (folder / "a").write_text("a", encoding="utf-8")
        _git("-C", folder, "add", "a")
        _git("-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    _git("-C", root, "add", "inner")
    assert judge("git status", root).read_only
    _git("-C", inner, "config", "core.fsmonitor", "./evil")
    for version in ("2", "4"):
        _git("-C", root, "update-index", "--index-version", version)
        assert not judge("git status", root).read_only


def test_the_settings_say_where_the_repositories_inside_lie(tmp_path: Path) -> None:
    root, inner = tmp_path / "work", tmp_path / "work" / "elsewhere" / "inner"
    for folder in (inner, root):
        _git("init", "-q", folder)
    _git("-C", inner, "config", "core.fsmonitor", "./evil")
    _git("-C", root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    assert judge("git status", root).read_only
    _git("-C", root, "config", "core.worktree", "../elsewhere")
    assert not judge("git status", root).read_only


def _git(*words: str | Path) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def test_cd_by_way_of_a_link(tmp_path: Path) -> None:
    """The shell takes `link/..` for where it stands, the disk for where the link leads."""
    root = make_workspace(tmp_path)
    (root / "far" / "deep").mkdir(parents=True)
    (root / "far" / "sub").mkdir()
    (root / "near").symlink_to("far/deep")
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "sub" / ".git" / "config").write_text("[core]\n\tfsmonitor = evil\n", encoding="utf-8")
    assert not judge("cd near/../sub && git status", root).read_only
    assert not judge("cd near/../.. && ls", root).read_only  # to the shell: above the workspace


def test_no_repository_is_none_to_git(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    (root / ".git" / "config").write_text("[core]\n\tfsmonitor = evil\n", encoding="utf-8")
    (root / "src" / ".git").mkdir()  # git passes it by
    assert not judge("cd src && git status", root).read_only
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("objects/x", ""), ("refs/x", ""), ("HEAD", "no")):
        (root / "src" / ".git" / name).parent.mkdir(exist_ok=True)
        (root / "src" / ".git" / name).write_text(text, encoding="utf-8")
        whole = name == "refs/x"
        assert judge("git -C src status", root).read_only == whole, name


def test_a_hidden_bare_repository(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    hidden = root / "src" / "hidden"
    (hidden / "objects").mkdir(parents=True)
    (hidden / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    assert judge("git status", root).read_only
    assert not judge("cd src/hidden && git status", root).read_only
    assert not judge("git -C src/hidden status", root).read_only
    assert not judge("while true; do git status; cd src/hidden; done", root).read_only


def test_a_worktree_or_submodule_pointer(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    real = tmp_path / "real"
    real.mkdir()
    (real / "config").write_text("[core]\n\tfsmonitor = evil\n", encoding="utf-8")
    (root / "src" / ".git").write_text(f"gitdir: {real}\n", encoding="utf-8")
    assert judge("git status", root).read_only
    assert not judge("cd src && git status", root).read_only


def test_toolchain_files_choose_the_program(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    assert judge("cargo --version", root).read_only
    (root / "rust-toolchain.toml").write_text('[toolchain]\npath = "evil"\n', encoding="utf-8")
    assert not judge("cargo --version", root).read_only


@pytest.mark.parametrize(
    "name", [".git", ".git/config", ".git/commondir", ".git/index", ".git/config.worktree"]
)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path, name: str) -> None:
    if "/" in name:
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    os.mkfifo(tmp_path / name)
    assert not is_tame(tmp_path)
