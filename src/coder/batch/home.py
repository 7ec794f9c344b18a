"""What tasks take along of the person's home: modes, prompts and skills, as copies in their own homes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder.batch.tasks import BatchError
from coder.context.skills import HOME_DIRECTORIES
from coder.modes.discover import places

OWN, HOME = "coder", "home"  # of an attempt's directory: its `$CODER_HOME` and its `$HOME`
_MOST_MEGABYTES = 32  # written for every attempt
_NAMED = ".skills"  # in the task's home: what `skills.paths` names
_SKIPPED = frozenset({".git", "__pycache__", "node_modules"})


class HomeFile(msgspec.Struct, frozen=True):
    """`path` is in the attempt's directory."""

    path: str
    data: bytes
    executable: bool = False

    def write(self, directory: Path) -> None:
        file = directory / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.data)
        file.chmod(0o700 if self.executable else 0o600)


def files_of(
    environ: Mapping[str, str], coder_home: Path, config: dict[str, Any]
) -> tuple[list[HomeFile], dict[str, Any]]:
    """The files, and the settings with `skills.paths` as tasks find them. Raises `BatchError`."""
    own, codex = places(Path(), environ, coder_home).homes
    wanted = [(own / name, f"{OWN}/{name}") for name in ("modes", "prompts", "skills")]
    wanted += [(codex / name, f"{HOME}/.codex/{name}") for name in ("modes", "prompts")]
    person = Path(environ.get("HOME") or Path.home())
    wanted += [(person / name, f"{HOME}/{name}") for name in HOME_DIRECTORIES]
    skills = config.get("skills")
    if isinstance(skills, dict) and isinstance(named := skills.get("paths"), list):
        kept = []
        for number, text in enumerate(map(str, named)):
            directory = person / text[2:] if text.startswith("~/") else Path(text)
            if directory.is_absolute():
                wanted.append((directory, f"{HOME}/{_NAMED}/{number}"))
                text = f"~/{_NAMED}/{number}"
            kept.append(text)
        config = {**config, "skills": {**skills, "paths": kept}}
    files: list[HomeFile] = []
    size = 0
    for directory, into in wanted:
        for file in _files_below(directory, into):
            size += len(file.data)
            if size > _MOST_MEGABYTES << 20:
                raise BatchError("batch.home_too_large", directory=directory, limit=_MOST_MEGABYTES)
            files.append(file)
    return files, config


def _files_below(directory: Path, into: str) -> Iterator[HomeFile]:
    """Links are followed, as skills often are some; what cannot be read is left out."""
    seen = set()
    for at, folders, names in os.walk(directory, followlinks=True):
        real = os.path.realpath(at)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(set(folders) - _SKIPPED)
        for path in (Path(at) / name for name in sorted(names)):
            try:
                mode = path.stat().st_mode
                if stat.S_ISREG(mode):
                    name = f"{into}/{path.relative_to(directory)}"
                    yield HomeFile(name, path.read_bytes(), bool(mode & stat.S_IXUSR))
            except OSError:
                continue
