"""Repositories that end at a commit, for tasks with `until_ref`: what came later is not in their clones, and
cannot be found there.

A cut is one more pack beside the mirror: the commit's history without that of an earlier cut, whose packs it
needs too. So many commits of one repository take little more room than the newest. Of a chain of packs each
has more commits than all that follow it, or they are made one again: a dozen at most.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coder.batch.mirror import Git

_PACKED = "# pack-refs with: peeled fully-peeled sorted \n"


class _Layer(msgspec.Struct, frozen=True):
    """A commit whose cut has a pack of this many commits."""

    commit: str
    commits: int


def cut_at(git: Git, mirror: Path, base: str) -> Path:
    """The cut at a commit of the mirror, made where it is missing; the caller holds the mirror's lock.
    Raises `CheckoutError`, `Killed`, `Stopped`, `OSError`."""
    cuts = mirror.with_suffix(".cuts")
    path = cuts / base
    if path.exists():
        return path
    where = {"GIT_DIR": str(mirror)}
    history = git.run(["rev-list", base], where).split()
    at = {commit: number for number, commit in enumerate(history)}
    layers = _below(cuts, history)
    while layers and at[layers[-1].commit] >= layers[-1].commits:
        layers.pop()
    own = at[layers[-1].commit] if layers else len(history)
    making = cuts / f"{base}.new"
    shutil.rmtree(making, ignore_errors=True)
    (making / "pack").mkdir(mode=0o700, parents=True)
    wanted = [base, *(f"^{layer.commit}" for layer in layers[-1:])]
    words = ["pack-objects", "--revs", "--quiet", "--delta-base-offset", str(making / "pack" / "pack")]
    git.run(words, where, given="".join(f"{one}\n" for one in wanted))
    (making / "packed-refs").write_bytes(os.fsencode(_PACKED + _tags(git, where, at)))
    if (mirror / "shallow").exists():
        ends = (mirror / "shallow").read_text(encoding="ascii").split()
        (making / "shallow").write_text("".join(f"{one}\n" for one in ends if one in at), encoding="ascii")
    (making / "layers.json").write_bytes(msgspec.json.encode([*layers, _Layer(base, own)]))
    making.rename(path)
    return path


def _below(cuts: Path, history: list[str]) -> list[_Layer]:
    """Those of the newest cut in a history."""
    made = {entry.name for entry in os.scandir(cuts)} if cuts.exists() else set[str]()
    newest = next((commit for commit in history if commit in made), "")
    return _layers(cuts / newest) if newest else []


def _layers(cut: Path) -> list[_Layer]:
    return msgspec.json.decode((cut / "layers.json").read_bytes(), type=list[_Layer])


def _tags(git: Git, where: dict[str, str], at: dict[str, int]) -> str:
    """Of the commits that there are, by which a build may know its version; without the tags' own objects,
    which may be younger."""
    words = ["for-each-ref", "--format=%(objectname) %(*objectname) %(refname)", "refs/tags"]
    lines = []
    for line in git.run(words, where).splitlines():
        tag, peeled, name = line.split(" ", 2)
        commit = peeled or tag
        if commit in at:
            lines.append(f"{commit} {name}\n")
    return "".join(lines)


def lay_out(cut: Path, into: Path) -> None:
    """A repository of this cut, as far as a clone needs one to borrow its objects from. By hard links: it is
    where tasks can only read."""
    packs = into / "objects" / "pack"
    packs.mkdir(mode=0o700, parents=True)
    for layer in _layers(cut):
        for file in (cut.with_name(layer.commit) / "pack").iterdir():
            os.link(file, packs / file.name)
    for name in ("packed-refs", "shallow"):
        if (cut / name).exists():
            shutil.copyfile(cut / name, into / name)
