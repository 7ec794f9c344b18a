"""`git status` is read-only only where the repository names no program for git to run."""

from __future__ import annotations

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


def test_usual_configurations_are_fine(tmp_path: Path) -> None:
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
