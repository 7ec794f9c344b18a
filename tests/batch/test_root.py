"""The batch's directory on a machine is removed, whatever is in it and whoever else removes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from coder.addons.batch.batch_directory import remove_tree

REMOVE = (
    "import sys, pathlib; from coder.addons.batch.batch_directory import remove_tree; "
    "remove_tree(pathlib.Path(sys.argv[1]))"
)


def test_two_may_remove_one_tree(tmp_path: Path) -> None:
    for _ in range(3):
        tree = tmp_path / "tree"
        for n in range(600):
            (tree / str(n // 10) / str(n % 10)).mkdir(parents=True)
        both = [subprocess.Popen([sys.executable, "-c", REMOVE, str(tree)]) for _ in range(2)]
        assert [one.wait() for one in both] == [0, 0]
        assert not tree.exists()


def test_directories_that_cannot_be_opened_are_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for n in range(8):
        (tree / str(n) / "x" / "y").mkdir(parents=True)
    pid = os.fork()
    if pid == 0:  # root opens everything
        status = 1
        try:
            _be_nobody(tmp_path)
            for n in range(8):
                for directory in (tree / str(n) / "x", tree / str(n)):
                    directory.chmod(0)
            tree.chmod(0)
            remove_tree(tree)
            status = int(os.path.lexists(tree))
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_link_in_the_tree_is_removed_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o750)
    (tmp_path / "tree" / "closed").mkdir(parents=True)
    (tmp_path / "tree" / "link").symlink_to(mine)
    (tmp_path / "tree" / "closed").chmod(0)
    remove_tree(tmp_path / "tree")
    assert mine.stat().st_mode & 0o777 == 0o750
    assert not (tmp_path / "tree").exists()


def _be_nobody(directory: Path) -> None:
    if os.getuid() != 0:
        return
    for path in (*directory.parents, directory):
        if path.stat().st_mode & 0o055 != 0o055:
            path.chmod(path.stat().st_mode | 0o055)
    subprocess.run(["chown", "-R", "65534", str(directory)], check=True)
    os.setuid(65534)
