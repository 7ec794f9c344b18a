"""What `always` keeps: per project, private, and nothing lost between processes."""

from __future__ import annotations

import stat

import pytest

from coder.config import ConfigError
from coder.config.allowlist import Allowlist, project_directory
from config.place import Place, run_at_once


def test_add_list_revoke(place: Place) -> None:
    allowlist = Allowlist(place.home, place.cwd)
    assert allowlist.names() == []
    allowlist.add("npm test", "git")
    allowlist.add("git", "make")
    assert Allowlist(place.home, place.cwd).names() == ["npm test", "git", "make"]
    assert allowlist.revoke("git")
    assert not allowlist.revoke("git")
    assert allowlist.names() == ["npm test", "make"]


def test_kept_in_the_persons_directory_by_real_path(place: Place) -> None:
    link = place.cwd.parent / "link"
    link.symlink_to(place.cwd)
    Allowlist(place.home, link).add("git")
    allowlist = Allowlist(place.home, place.cwd)
    assert allowlist.names() == ["git"]
    assert allowlist.path.parent == project_directory(place.home, place.cwd)
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
    code = """
from pathlib import Path
from coder.config.allowlist import Allowlist
for n in range(10):
    Allowlist(Path(sys.argv[1]), Path(sys.argv[2])).add(f"{sys.argv[3]}-{n}")
"""
    run_at_once([[code, str(place.home), str(place.cwd), name] for name in "abcd"])
    allowlist = Allowlist(place.home, place.cwd)
    assert set(allowlist.names()) == {f"{name}-{n}" for name in "abcd" for n in range(10)}
    left = sorted(path.name for path in allowlist.path.parent.iterdir())
    assert left == ["allowlist.json", "allowlist.json.lock"]


def test_what_cannot_be_kept_is_a_sentence(place: Place) -> None:
    (place.home / "projects").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"could not be saved to .*allowlist\.json: "):
        Allowlist(place.home, place.cwd).add("git")
