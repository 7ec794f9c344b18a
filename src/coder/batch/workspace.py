"""A task's own clone, and the patch of what became of it.

The clone borrows its objects from the mirror (alternates) and is made by hand: one run of git, to write the
files. It has no remote, and nothing that is done in it reaches the mirror. The patch is made with a second
git directory that the agent's commands cannot write, inside the sandbox, because a work tree can name
programs (a nested repository's fsmonitor) that git would run.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from coder.batch.mirror import CheckoutError
from coder.process.run import Outcome as Ran

_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logallrefupdates = true
	hooksPath = /dev/null
	autocrlf = false
[user]
	name = coder
	email = coder@localhost
[gc]
	auto = 0
{extensions}"""
# Files of coder's own, and what checks and installs leave behind in a project without a .gitignore; ignored
# only where the repository does not have them.
_EXCLUDED = """\
**/.coder/.gitignore
**/.coder/history/
**/.coder/sessions/
__pycache__/
.pytest_cache/
.mypy_cache/
.ruff_cache/
node_modules/
"""
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}
# A task may have taken away its own permissions.
_ADD = "{ git add --all . 2>/dev/null || { chmod -R u+rwX . ; git add --all . ; } ; }"
_DIFF = "git diff --cached --binary --no-renames --no-ext-diff --no-textconv --ignore-submodules=all"

# Runs a shell line: with what further environment, and where else it may write; None: without the sandbox.
RunLine = Callable[[str, dict[str, str], list[str] | None], Awaitable[Ran]]


class Workspace:
    """`root` is the clone; `patches` the git directory that patches are made with."""

    def __init__(self, directory: Path, mirror: Path, base: str, run: RunLine) -> None:
        self.root = directory / "work"
        self.patch_file = directory / "patches" / "patch.diff"
        self._patches = directory / "patches"
        self._mirror = mirror
        self._base = base
        self._run = run

    async def check_out(self) -> None:
        """Raises `CheckoutError`."""
        _write_git_directory(self.root / ".git", self._mirror, self._base)
        # No program runs by this: the settings are ours, and they define no filter.
        done = await self._run("git reset --hard --quiet", {**_ALONE, "LC_ALL": "C"}, None)
        if done.exit_code != 0:
            raise CheckoutError(f"git reset: {done.stderr.strip()[-1000:]}")
        _write_git_directory(self._patches, self._mirror, self._base)
        (self._patches / "info").mkdir()
        (self._patches / "info" / "exclude").write_text(_EXCLUDED, encoding="utf-8")
        index = self.root / ".git" / "index"
        if index.exists():  # with the files' times, so that unchanged ones are not read again
            shutil.copyfile(index, self._patches / "index")

    async def start_here(self) -> None:
        """What `setup` made is no part of the patch."""
        done = await self._git(f"{_ADD} && git write-tree")
        tree = done.stdout.strip().splitlines()[-1:] or [""]
        if done.exit_code != 0:
            raise CheckoutError(f"git write-tree: {done.stderr.strip()[-1000:]}")
        self._base = tree[0]

    async def patch(self, *, whole: bool = True) -> bytes:
        """The difference to where the agent started, binary files included. Raises `CheckoutError`, also
        where git could not store a file (a full disk). Not `whole`: without such files, for the meantime."""
        file = shlex.quote(str(self.patch_file))
        add = f"{_ADD} &&" if whole else "git add --all --ignore-errors . ;"
        done = await self._git(f"{add} {_DIFF} --output={file} {self._base}")
        if done.exit_code != 0:
            raise CheckoutError(f"git diff: {done.stderr.strip()[-1000:]}")
        return self.patch_file.read_bytes()

    async def _git(self, line: str) -> Ran:
        where = {"GIT_DIR": str(self._patches), "GIT_WORK_TREE": str(self.root), "LC_ALL": "C"}
        return await self._run(line, {**_ALONE, **where}, [str(self._patches)])


def _write_git_directory(directory: Path, mirror: Path, base: str) -> None:
    """As `git clone --shared` would, without its processes."""
    (directory / "objects" / "info").mkdir(parents=True)
    (directory / "refs" / "heads").mkdir(parents=True)
    (directory / "objects" / "info" / "alternates").write_text(f"{mirror / 'objects'}\n", encoding="utf-8")
    wide = len(base) == 64
    extensions = "[extensions]\n\tobjectFormat = sha256\n" if wide else ""
    config = _CONFIG.format(version=1 if wide else 0, extensions=extensions)
    (directory / "config").write_text(config, encoding="utf-8")
    (directory / "HEAD").write_text(f"{base}\n", encoding="utf-8")
    for name in ("packed-refs", "shallow"):
        if (mirror / name).exists():
            shutil.copyfile(mirror / name, directory / name)


def counts(patch: bytes) -> tuple[int, int, int]:
    """Files, added and removed lines."""
    files = added = removed = 0
    in_hunk = False
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            files += 1
            in_hunk = False
        elif line.startswith(b"@@ "):
            in_hunk = True
        elif in_hunk:
            added += line.startswith(b"+")
            removed += line.startswith(b"-")
    return files, added, removed
