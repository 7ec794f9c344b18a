"""DirectoryWorkspace: nothing outside is reached, whatever the path looks like."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.policy.workspace import DirectoryWorkspace
from coder.tools.tool import OutsideWorkspace

from .place import make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> DirectoryWorkspace:
    return DirectoryWorkspace(make_workspace(tmp_path))


def test_paths_inside(workspace: DirectoryWorkspace) -> None:
    root = workspace.root
    assert workspace.resolve("README.md") == root / "README.md"
    assert workspace.resolve("./src/../README.md", write=True) == root / "README.md"
    assert workspace.resolve(str(root / "src")) == root / "src"
    assert workspace.resolve(".") == root
    assert workspace.resolve("new/deep/file.py", write=True) == root / "new/deep/file.py"
    assert workspace.resolve((root / "README.md").as_uri()) == root / "README.md"
    assert workspace.resolve("file://localhost" + str(root / "a%20b")) == root / "a b"
    assert workspace.resolve("src//a.py/") == root / "src" / "a.py"


@pytest.mark.parametrize(
    "path",
    ["..", "../x", "/etc/passwd", "/", "~", "~/x", "link", "dangling", "outlink", "outlink/new",
     "src/../../x", "file:///etc/passwd", "file://host/etc/passwd", "file:etc", "file:///a%00b", "", "  ",
     "a\0b", "a/" * 3000, "x" * 300, "outlink/../outlink/file", "\ud800"],
)  # fmt: skip
@pytest.mark.parametrize("write", [False, True])
def test_paths_outside_or_impossible(workspace: DirectoryWorkspace, path: str, write: bool) -> None:
    with pytest.raises(OutsideWorkspace) as problem:
        workspace.resolve(path, write=write)
    str(problem.value).encode("utf-8")


def test_a_refusal_names_the_path_and_the_workspace(workspace: DirectoryWorkspace) -> None:
    with pytest.raises(OutsideWorkspace) as problem:
        workspace.resolve("/etc/passwd")
    assert "/etc/passwd" in str(problem.value)
    assert str(workspace.root) in str(problem.value)


def test_links(workspace: DirectoryWorkspace) -> None:
    root = workspace.root
    (root / "inner").symlink_to("src")
    assert workspace.resolve("inner/a.py") == root / "src" / "a.py"
    assert workspace.resolve("inner/new.py", write=True) == root / "src" / "new.py"
    (root / "loop").symlink_to("pool")
    (root / "pool").symlink_to("loop")
    for path in ("loop", "loop/x"):
        with pytest.raises(OutsideWorkspace, match="loop"):
            workspace.resolve(path)


def test_a_workspace_reached_by_a_link(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    (tmp_path / "alias").symlink_to(root)
    workspace = DirectoryWorkspace(tmp_path / "alias")
    assert workspace.root == root
    assert workspace.resolve(str(tmp_path / "alias" / "README.md")) == root / "README.md"


def test_a_neighbour_with_the_same_beginning(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    (tmp_path / "workspace-other").mkdir()
    with pytest.raises(OutsideWorkspace):
        DirectoryWorkspace(root).resolve("../workspace-other")


@pytest.mark.parametrize(
    "path",
    [".git/config", ".git/hooks/pre-commit", ".git", "sub/.git", "sub/.git/config", ".coder/config.json",
     "src/../.git/config",
     "gitlink/config", "coderlink"],
)  # fmt: skip
def test_own_files_may_be_read_and_not_written(workspace: DirectoryWorkspace, path: str) -> None:
    (workspace.root / "gitlink").symlink_to(".git")
    (workspace.root / ".coder").mkdir()
    (workspace.root / "coderlink").symlink_to(".coder/config.json")
    assert workspace.resolve(path).is_relative_to(workspace.root)
    with pytest.raises(OutsideWorkspace):
        workspace.resolve(path, write=True)


@pytest.mark.parametrize(
    "path", [".coder/history/x.jsonl", ".coder/history", "src/../.coder/sessions/x.json", "linked/x.jsonl"]
)
@pytest.mark.parametrize("write", [False, True])
def test_records_of_sessions_are_closed(workspace: DirectoryWorkspace, path: str, write: bool) -> None:
    (workspace.root / ".coder").mkdir()
    (workspace.root / ".coder" / "history").mkdir()
    (workspace.root / "linked").symlink_to(".coder/history")
    with pytest.raises(OutsideWorkspace):
        workspace.resolve(path, write=write)


@pytest.mark.parametrize("git", ["a link", "a file that names it"])
def test_gits_own_files_may_have_another_name(tmp_path: Path, git: str) -> None:
    (tmp_path / "real" / "hooks").mkdir(parents=True)
    if git == "a link":
        (tmp_path / ".git").symlink_to("real")
    else:
        (tmp_path / ".git").write_text("gitdir: ./real\n", encoding="utf-8")
    workspace = DirectoryWorkspace(tmp_path)
    with pytest.raises(OutsideWorkspace):
        workspace.resolve("real/hooks/pre-commit", write=True)
    with pytest.raises(OutsideWorkspace):
        workspace.resolve(".GIT/config", write=True)
    workspace.resolve("really.txt", write=True)
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").write_text("gitdir: .\n", encoding="utf-8")
    workspace.resolve("a.txt", write=True)  # a project cannot make itself unwritable


def test_like_names_may_be_written(workspace: DirectoryWorkspace) -> None:
    for path in (
        ".gitignore",
        ".github/x.yml",
        ".coder/modes/x.md",
        ".coder/prompts/x.md",
        "sub/.coder/config.json",
    ):
        assert workspace.resolve(path, write=True) == workspace.root / path


def test_readable_directories_are_only_read(tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    workspace = DirectoryWorkspace(root, [tmp_path / "outside"])
    assert workspace.resolve(str(tmp_path / "outside" / "file")) == tmp_path / "outside" / "file"
    assert workspace.resolve("link") == tmp_path / "outside" / "file"
    for path in (str(tmp_path / "outside" / "file"), "link"):
        with pytest.raises(OutsideWorkspace):
            workspace.resolve(path, write=True)


def test_show(workspace: DirectoryWorkspace) -> None:
    root = workspace.root
    assert workspace.show(root / "src" / "a.py") == "src/a.py"
    assert workspace.show(root) == "."
    assert workspace.show(Path("/etc/passwd")) == "/etc/passwd"
    odd = root / os.fsdecode(b"a\xffb")
    assert workspace.show(odd) == "a\\xffb"
    assert workspace.show(root / "\udc80\ud800").isascii()


PARTS = st.sampled_from(
    [
        "..",
        ".",
        "src",
        "outlink",
        "link",
        "dangling",
        "up",
        "a.py",
        "new",
        "~",
        "",
        "/",
        "workspace",
        "inner",
        "...",
    ]
)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> DirectoryWorkspace:
    """With links; resolving changes nothing, so one serves all examples."""
    root = make_workspace(tmp_path_factory.mktemp("linked"))
    (root / "up").symlink_to("..")
    (root / "inner").symlink_to("src")
    return DirectoryWorkspace(root)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(parts=st.lists(PARTS, min_size=1, max_size=7), write=st.booleans())
def test_whatever_resolves_lies_inside(linked: DirectoryWorkspace, parts: list[str], write: bool) -> None:
    try:
        found = linked.resolve("/".join(parts), write=write)
    except OutsideWorkspace:
        return
    real = Path(os.path.realpath(found))
    assert found == real
    assert real.is_relative_to(os.path.realpath(linked.root))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_path_or_a_refusal(text: str) -> None:
    workspace = DirectoryWorkspace(Path(tempfile.gettempdir()))
    try:
        found = workspace.resolve(text)
    except OutsideWorkspace as problem:
        str(problem).encode("utf-8")
    else:
        assert found.is_relative_to(workspace.root)
        workspace.show(found).encode("utf-8")
