"""What `always` keeps: per project, private, and nothing lost between processes."""

from __future__ import annotations

import os
import stat

import pytest

from coder.config.allowlist import Allowlist, project_folder
from coder.config.errors import ConfigError
from config.place import Place


def test_add_list_revoke(place: Place) -> None:
    allowlist = Allowlist(place.home, place.cwd)
    assert allowlist.names() == []
    allowlist.add("npm test", "git")
    allowlist.add("git", "make")
    assert Allowlist(place.home, place.cwd).names() == ["npm test", "git", "make"]
    assert allowlist.revoke("git")
    assert not allowlist.revoke("git")
    assert allowlist.names() == ["npm test", "make"]


def test_kept_in_the_persons_folder_by_real_path(place: Place) -> None:
    link = place.cwd.parent / "link"
    link.symlink_to(place.cwd)
    Allowlist(place.home, link).add("git")
    allowlist = Allowlist(place.home, place.cwd)
    assert allowlist.names() == ["git"]
    assert allowlist.path.parent == project_folder(place.home, place.cwd)
    assert allowlist.path.is_relative_to(place.home / "projects")
    assert stat.S_IMODE(allowlist.path.stat().st_mode) == 0o600
    assert Allowlist(place.home, place.cwd.parent).names() == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"names": [1]}', b"\xff"])
def test_a_damaged_list_allows_nothing_and_says_so(place: Place, content: bytes) -> None:
    allowlist = Allowlist(place.home, place.cwd)
    allowlist.add("git")
    allowlist.path.write_bytes(content)
    assert allowlist.names() == []
    assert str(allowlist.path) in str(allowlist.problem)


def test_processes_that_add_at_once_lose_nothing(place: Place) -> None:
    ready, go = os.pipe()
    children = []
    for n in range(8):
        child = os.fork()
        if child == 0:
            try:
                os.close(go)
                os.read(ready, 1)  # all start together, when the parent closes its end
                for i in range(5):
                    Allowlist(place.home, place.cwd).add(f"c{n}-{i}")
            finally:
                os._exit(0)
        children.append(child)
    os.close(ready)
    os.close(go)
    for child in children:
        os.waitpid(child, 0)
    expected = {f"c{n}-{i}" for n in range(8) for i in range(5)}
    assert set(Allowlist(place.home, place.cwd).names()) == expected
    assert sorted(path.name for path in Allowlist(place.home, place.cwd).path.parent.iterdir()) == [
        "allowlist.json",
        "allowlist.json.lock",
    ]


def test_what_cannot_be_kept_is_a_sentence(place: Place) -> None:
    (place.home / "projects").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"could not be saved to .*allowlist\.json: "):
        Allowlist(place.home, place.cwd).add("git")
