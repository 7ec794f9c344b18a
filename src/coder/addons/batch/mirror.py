"""Mirrors: a bare repository for every source of tasks, made once on each machine, which tasks clone.

Runs in the supervisor, as the person: git's credentials and ssh keys are theirs. Nothing is written to the
source. A `cwd` without `ref` is mirrored as its files are now, uncommitted ones included.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from coder.addons.batch.fork_server import ForkServer
from coder.addons.batch.task_file import Task, is_url
from coder.base.process.git import git_line
from coder.base.process.programs import DEVNULL, PIPE, Runs, TimeoutExpired, start
from coder.base.safe_open import read_whole

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


_NOBODY = {
    "GIT_AUTHOR_NAME": "coder",
    "GIT_AUTHOR_EMAIL": "coder@localhost",
    "GIT_COMMITTER_NAME": "coder",
    "GIT_COMMITTER_EMAIL": "coder@localhost",
}
_BASE = "refs/coder/base"
_CLONE = ["clone", "--quiet", "--bare", "--template=", "-c", "core.hooksPath=/dev/null"]

NO_GIT = "there is no git on PATH that is outside the task's directory and nobody else can replace"
NO_COMMIT = re.compile(r"'([^'\n]+?)/?' does not have a commit checked out")
_OF_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
_MOST_PATTERNS = 1 << 20  # bytes
_SPECIAL = re.compile(r"[\\*?\[\]]")

_USER = re.compile(r"(?<=[a-z0-9])://[^/@\s]+@")

Stopping = Callable[[], bool]


class CheckoutError(Exception):
    """The source cannot be had; the text is git's."""


class Killed(Exception):
    """A signal ended git, which says nothing of the task: the attempt counts as lost."""


class Stopped(Exception):
    """The attempt was cancelled meanwhile."""


class Mirror(msgspec.Struct, frozen=True):
    """`base`: the commit that the task starts from. `prefix`: the directory in it that was named as `cwd`.
    `left_out`: folders of the source that are not in it. `cut`: of a task with `until_ref`, and `source` the
    git directory that this was made from, where it is on this machine."""

    path: str
    base: str
    prefix: str = ""
    left_out: list[str] = []
    cut: str = ""
    source: str = ""


class _Made(msgspec.Struct, frozen=True):
    """Kept in the mirror as `coder.json`."""

    base: str = ""
    prefix: str = ""
    left_out: list[str] = []


class Bundle(msgspec.Struct, frozen=True):
    """A mirror as one file, for machines that do not have the source's path. `shallow`: git's list of where
    its history is cut off, without which it would not unpack."""

    data: bytes
    made: _Made
    head: str
    shallow: bytes


def mirror_for(
    task: Task, fork_server: ForkServer, stopping: Stopping, bundle: Callable[[], Bundle] | None = None
) -> Mirror:
    """Of a task's source, made where it is missing. Raises `CheckoutError`, `Killed`, `Stopped`,
    `OSError`."""
    git = Git(stopping, fork_server, task.source)
    path = _mirror(git, task, fork_server.root, bundle)
    made = _made(path)
    base = made.base or _commit(git, path, task.ref or "HEAD", task.repo or "origin")
    found = Mirror(str(path), base, made.prefix, made.left_out)
    if not task.until_ref:
        return found
    with _locked(path.with_suffix(".lock"), stopping):
        cut = cut_at(git, path, base)
    source = "" if task.repo and is_url(task.repo) else _git_directory(git, task.source)
    return msgspec.structs.replace(found, cut=str(cut), source=source)


def _mirror(git: Git, task: Task, root: Path, bundle: Callable[[], Bundle] | None = None) -> Path:
    snapshot = bool(task.cwd) and not task.ref
    key = blake2b(f"{task.source}\0{snapshot}".encode(), digest_size=10).hexdigest()
    path = root / "repos" / f"{key}.git"
    if not (path / "coder.json").exists():
        with _locked(path.with_suffix(".lock"), git.stopping):
            if not (path / "coder.json").exists():
                _make(git, task, path, bundle, snapshot=snapshot)
    return path


def _made(path: Path) -> _Made:
    return msgspec.json.decode((path / "coder.json").read_bytes(), type=_Made)


def _make(git: Git, task: Task, path: Path, bundle: Callable[[], Bundle] | None, *, snapshot: bool) -> None:
    making = path.with_suffix(".new")
    shutil.rmtree(making, ignore_errors=True)
    if bundle is not None:
        made = _unpack(git, bundle(), making)
    elif task.repo:
        git.run([*_CLONE, "--", task.repo, str(making)])
        # Tasks can read the mirror: a token in the address stays here.
        git.run(["remote", "set-url", "origin", _USER.sub("://", task.repo)], {"GIT_DIR": str(making)})
        made = _Made()
    else:
        made = _mirror_directory(git, Path(task.cwd), making, snapshot=snapshot)
    (making / "coder.json").write_bytes(msgspec.json.encode(made))
    making.rename(path)


def _mirror_directory(git: Git, directory: Path, making: Path, *, snapshot: bool) -> _Made:
    top = git.ask(["-C", str(directory), "rev-parse", "--show-toplevel"])
    if top:
        git.run([*_CLONE, "--", top, str(making)])
    elif snapshot:
        git.run(["init", "--quiet", "--bare", "--template=", str(making)])
    else:
        raise CheckoutError(f"{directory} is not in a git repository, so `ref` means nothing there")
    root = Path(top) if top else directory
    prefix = os.path.relpath(os.path.realpath(directory), os.path.realpath(root))
    prefix = "" if prefix == "." else prefix
    base, left_out = _snapshot(git, root, making) if snapshot else ("", [])
    found = not prefix or git.ask(["ls-tree", base, "--", f"{prefix}/"], {"GIT_DIR": str(making)})
    if base and not found and any(directory.iterdir()):
        raise CheckoutError(f"{root} ignores {prefix}: nothing of it would be in the task's clone")
    return _Made(base, prefix, left_out)


def _snapshot(git: Git, root: Path, making: Path) -> tuple[str, list[str]]:
    """A commit of the files as they are now, and what is not in it. The index is ours: the person's is not
    touched."""
    index, exclude = making / "snapshot.index", making / "info" / "exclude"
    where = {"GIT_DIR": str(making), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(index), **_NOBODY}
    parent = git.ask(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], where)
    if parent:  # what is tracked is part of it, also where .gitignore names it
        git.run(["read-tree", parent], where)
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_bytes(_ignored(git, root, making))
    left_out = _add(git, root, where)
    tree = git.run(["write-tree"], where)
    commit = ["commit-tree", "-m", "The files as they were when the batch started", tree]
    base = git.run([*commit, *(["-p", parent] if parent else [])], where)
    index.unlink()
    exclude.unlink()  # tasks can read the mirror
    return base, left_out


def _add(git: Git, root: Path, where: Mapping[str, str]) -> list[str]:
    """Returns the nested repositories that it left out: git cannot add one without a commit.

    Git would run `git status` in those that the index has, with the programs that their settings name: they
    are excluded, and stay as they were committed.
    """
    left_out: list[str] = []
    # Of the repository or the person: its patterns are heeded, its content is copied nowhere.
    named = git.ask(["-C", str(root), "config", "--type=path", "--get", "core.excludesFile"])
    settings = {"core.excludesFile": named} if named else {}
    words = ["add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"]
    while True:
        entries = git.run(["ls-files", "--stage", "-z"], where).split("\0")
        links = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
        excluded = (f":(top,exclude,literal){name}" for name in (*links, *left_out))
        try:
            git.run(words, where, cwd=root, given="\0".join([".", *excluded]), settings=settings)
        except CheckoutError as error:
            found = [name for name in NO_COMMIT.findall(str(error)) if name not in left_out]
            if not found:
                raise
            left_out += found
        else:
            return left_out


def _ignored(git: Git, root: Path, making: Path) -> bytes:
    """The repository's own patterns, and the folder of batches where temporary files lie in it."""
    common, patterns = _git_directory(git, str(root)), b""
    if common:
        with contextlib.suppress(OSError):  # too long, or not a plain file
            bound = Path(os.path.realpath(common))
            patterns = read_whole(bound / "info" / "exclude", _MOST_PATTERNS, bound) + b"\n"
    batches = os.path.relpath(os.path.realpath(making.parents[2]), os.path.realpath(root))
    return patterns if batches.startswith("..") else patterns + os.fsencode(_pattern(batches))


def _pattern(folder: str) -> str:
    """A line of `info/exclude`."""
    return "/" + _SPECIAL.sub(r"\\\g<0>", folder) + "/\n"


def _git_directory(git: Git, directory: str) -> str:
    return git.ask(["-C", directory, "rev-parse", "--path-format=absolute", "--git-common-dir"])


def _commit(git: Git, path: Path, ref: str, source: str) -> str:
    where = {"GIT_DIR": str(path)}
    question = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
    if found := _commits.get((str(path), ref)) or git.ask(question, where):
        _commits[str(path), ref] = found
        return found
    if ":" in ref or "*" in ref:  # to fetch that would change the mirror's branches
        raise CheckoutError(f"{ref} is not a commit")
    if not git.ask(["remote"], where):  # from a bundle
        raise CheckoutError(f"{ref} is not a commit that a branch or tag reaches")
    with _locked(path.with_suffix(".lock"), git.stopping):  # a commit that no branch or tag reaches
        git.run(["fetch", "--quiet", "--no-tags", "--", source, ref], where)
        found = git.ask(["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"], where)
    if not found:
        raise CheckoutError(f"{ref} is not a commit")
    _commits[str(path), ref] = found
    return found


_commits: dict[tuple[str, str], str] = {}


def bundle_of(task: Task, fork_server: ForkServer, stopping: Stopping) -> Bundle:
    """The mirror of a local source. Raises `CheckoutError`, `Killed`, `Stopped`, `OSError`."""
    git = Git(stopping, fork_server, task.source)
    path = _mirror(git, task, fork_server.root)
    made, where = _made(path), {"GIT_DIR": str(path)}
    if made.base:
        git.run(["update-ref", _BASE, made.base], where)
    head = git.ask(["rev-parse", "--verify", "--quiet", "HEAD"], where)
    file, shallow = path.with_suffix(".bundle"), path / "shallow"
    try:
        git.run(["bundle", "create", "--quiet", str(file), "--all", *_named(head)], where)
        cut_off = shallow.read_bytes() if shallow.exists() else b""
        return Bundle(file.read_bytes(), made, head, cut_off)
    finally:
        file.unlink(missing_ok=True)


def _named(head: str) -> list[str]:
    return ["HEAD"] if head else []


def _unpack(git: Git, bundle: Bundle, making: Path) -> _Made:
    """Not by a clone, which takes no list of where the history is cut off."""
    file, where = making.with_suffix(".bundle"), {"GIT_DIR": str(making)}
    wide = ["--object-format=sha256"] if len(bundle.made.base or bundle.head) == 64 else []
    git.run(["init", "--quiet", "--bare", "--template=", *wide, str(making)])
    if bundle.shallow:
        (making / "shallow").write_bytes(bundle.shallow)
    try:
        file.write_bytes(bundle.data)
        fetch = ["fetch", "--quiet", "--update-head-ok", "--no-auto-maintenance", str(file)]
        git.run([*fetch, "+refs/*:refs/*", *_named(bundle.head)], where)
        git.run(["pack-refs", "--all"], where)
        if bundle.head:
            (making / "HEAD").write_text(f"{bundle.head}\n", encoding="utf-8")
    finally:
        file.unlink(missing_ok=True)
    return bundle.made


class Git:
    """Runs git as the person, without prompts; ended with the attempt or the supervisor. `source`: the
    task's directory, which may configure no program and has none on PATH."""

    def __init__(self, stopping: Stopping, fork_server: ForkServer, source: str) -> None:
        self.stopping = stopping
        self._nursery = fork_server
        self._source = Path(source)
        # Of the process's own repository, in a hook of git, say.
        elsewhere = {name: value for name, value in os.environ.items() if name not in _OF_REPOSITORY}
        self._environment = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **elsewhere}
        self._more = {"LC_ALL": "C"}
        if not is_url(source):  # also for git's own helpers, which do not heed our settings
            self._more["GIT_ALLOW_PROTOCOL"] = "file"

    def run(
        self,
        words: list[str],
        more: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        given: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> str:
        """Git's answer to `given`."""
        line = [word for name, value in (settings or {}).items() for word in ("-c", f"{name}={value}")]
        status, output, errors = self._run([*line, *words], more or {}, cwd, given)
        if status != 0:
            why = _USER.sub("://", errors.strip()[-1000:]) or f"exit status {status}"
            raise CheckoutError(f"git {words[0]}: {why}")
        return output.strip()

    def ask(self, words: list[str], more: Mapping[str, str] | None = None) -> str:
        """Git's answer; empty if it fails."""
        status, output, _ = self._run(words, more or {})
        return output.strip() if status == 0 else ""

    def _run(
        self, words: list[str], more: Mapping[str, str], cwd: Path | None = None, given: str = ""
    ) -> tuple[int, str, str]:
        found = git_line(words, self._environment, self._source, Path.cwd(), remote=True)
        if found is None:
            raise CheckoutError(NO_GIT)
        with start(
            found[0],
            runs=Runs.HARDENED,
            environment={**found[1], **self._more, **more},
            cwd=cwd or self._nursery.root,
            stdin=PIPE if given else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            process_group=self._nursery.group,
        ) as process:
            unsent = os.fsencode(given) or None
            while True:
                try:
                    output, errors = process.communicate(unsent, timeout=0.5)
                except TimeoutExpired:
                    unsent = None  # it is on its way
                    if self.stopping():
                        process.kill()
                        raise Stopped from None
                except BaseException:
                    process.kill()
                    raise
                else:
                    if process.returncode < 0:
                        raise Killed(f"git {words[0]}: signal {-process.returncode}")
                    return process.returncode, os.fsdecode(output), errors.decode("utf-8", "replace")


@contextlib.contextmanager
def _locked(path: Path, stopping: Stopping) -> Iterator[None]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if stopping():
                    raise Stopped from None
                time.sleep(0.05)
            else:
                break
        yield
    finally:
        os.close(descriptor)
