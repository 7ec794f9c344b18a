"""A task's own clone, and the patch of what became of it.

The clone borrows its objects from the mirror (alternates) and is made by hand: one run of git, to write the
files. It has no remote, and nothing that is done in it reaches the mirror. The patch is made with a second
git directory that the agent's commands cannot write, inside the sandbox, because a work tree can name
programs (a nested repository's fsmonitor) that git would run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder import HOME_DIRECTORIES, places
from coder.addons.batch.mirror import NO_COMMIT, CheckoutError, Killed
from coder.addons.batch.task_file import BatchError
from coder.base.process.run import ProcessOutcome as Ran

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
_ALONE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
}
_BY_SIGNAL = 128  # a shell's exit status, and the signal's number
_CLOSED = "could not open directory"  # git only warns of it
# A task may have taken away its own permissions.
_ADD = f"""\
add() {{ git -c advice.addEmbeddedRepo=false add --all -- . "$@" ; }}
add_all() {{
    said=$(add "$@" 2>&1) && case $said in (*"{_CLOSED}"*) false ;; esac && return
    chmod -R u+rwX . 2>/dev/null
    add "$@"
}}
"""
# The files of a repository that the task made, which git would not look into.
_EMBED = """\
git --literal-pathspecs rm -r -f -q --cached --ignore-unmatch -- {name} &&
tree=$(cd -- {name} && export GIT_WORK_TREE="$PWD" GIT_INDEX_FILE="$GIT_DIR/nested" &&
    rm -f "$GIT_INDEX_FILE" && add_all && git write-tree) &&
git read-tree --prefix={name}/ "$tree"
"""
_DIFF = "git diff --cached --binary --no-renames --no-ext-diff --no-textconv --ignore-submodules=all"

# Runs a shell line in the sandbox: with what further environment, and where else it may write.
RunLine = Callable[[str, dict[str, str], list[str]], Awaitable[Ran]]
# Runs git outside it.
RunGit = Callable[[list[str], dict[str, str]], Awaitable[Ran]]


class Workspace:
    """`root` is the clone; `patches` the git directory that patches are made with."""

    def __init__(self, directory: Path, mirror: Path, base: str, run: RunLine, git: RunGit) -> None:
        self.root = directory / "work"
        self.patch_file = directory / "patches" / "patch.diff"
        self._patches = directory / "patches"
        self._mirror = mirror
        self._base = base
        self._run, self._run_git = run, git
        self.has_attributes = False
        self._nested: list[str] = []  # repositories that the task made
        self.lacks: list[str] = []  # what changed and is not in the last whole patch

    async def check_out(self) -> None:
        """Raises `CheckoutError`, `Killed`."""
        _write_git_directory(self.root / ".git", self._mirror, self._base)
        # No program runs by this: the settings are ours, and they define no filter.
        done = await self._run_git(["reset", "--hard", "--quiet"], {**_ALONE, "LC_ALL": "C"})
        _refuse_failed("git reset", done)
        _write_git_directory(self._patches, self._mirror, self._base)
        (self._patches / "info").mkdir()
        (self._patches / "info" / "exclude").write_text(_EXCLUDED, encoding="utf-8")
        index = self.root / ".git" / "index"
        if index.exists():  # with the files' times, so that unchanged ones are not read again
            shutil.copyfile(index, self._patches / "index")
            # By these git may write a file in another way than it was committed.
            self.has_attributes = b".gitattributes" in index.read_bytes()

    async def start_here(self) -> None:
        """What `setup` or the checkout itself made is no part of the patch. Raises `CheckoutError`,
        `Killed`."""
        done = await self._git(f"{_ADD} add_all && git write-tree")
        tree = done.stdout.strip().splitlines()[-1:] or [""]
        _refuse_failed("git write-tree", done)
        self._base = tree[0]

    async def patch(self) -> bytes:
        """The difference to where the agent started, binary files included. Raises `CheckoutError`, also
        where git could not store or find a file (a full disk, a closed folder)."""
        (self._patches / "index.lock").unlink(missing_ok=True)  # of one that was cut off
        while True:
            done = await self._git(self._patch_line())
            changed = [line.partition("\t") for line in done.stdout.splitlines()]
            made = [name for about, _, name in changed if about.startswith(":000000")]
            made = [name for name in (*made, *NO_COMMIT.findall(done.stderr)) if name not in self._nested]
            self._nested += made
            self.lacks = [name for _, _, name in changed]
            if made:
                continue
            if done.exit_code != 0 or _CLOSED in done.stderr:
                raise CheckoutError(f"git diff: {done.stderr.strip()[-1000:]}")
            return self.patch_file.read_bytes()

    def _patch_line(self) -> str:
        """Prints the repositories inside that changed, which are in no patch by themselves."""
        names = [shlex.quote(name) for name in self._nested]
        without = " ".join(shlex.quote(f":(exclude,literal){name}") for name in self._nested)
        parts = [
            f"add_all {without}",
            *(_EMBED.format(name=name).strip() for name in names),
            f"{_DIFF} --output={shlex.quote(str(self.patch_file))} {self._base}",
            f"{{ git -c core.quotePath=false diff --raw --no-renames --ignore-submodules=none {self._base}"
            " | grep -a '^:160000 \\|^:[0-7]* 160000 ' || : ; }",
        ]
        return _ADD + " &&\n".join(parts)

    async def patch_so_far(self) -> bytes:
        """For the meantime: without what git cannot store now."""
        file = shlex.quote(str(self.patch_file))
        done = await self._git(f"git add --all --ignore-errors . ; {_DIFF} --output={file} {self._base}")
        if done.exit_code != 0:
            raise CheckoutError(f"git diff: {done.stderr.strip()[-1000:]}")
        return self.patch_file.read_bytes()

    async def _git(self, line: str) -> Ran:
        where = {"GIT_DIR": str(self._patches), "GIT_WORK_TREE": str(self.root), "LC_ALL": "C"}
        return await self._run(line, {**_ALONE, **where}, [str(self._patches)])


def _refuse_failed(what: str, done: Ran) -> None:
    if done.exit_code > _BY_SIGNAL:
        raise Killed(f"{what}: signal {done.exit_code - _BY_SIGNAL}")
    if done.exit_code != 0:
        why = done.stderr.strip()[-1000:] or ("it took too long" if done.timed_out else "it failed")
        raise CheckoutError(f"{what}: {why}")


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
