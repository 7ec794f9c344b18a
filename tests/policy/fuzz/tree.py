"""The throw-away tree: a workspace that is as hostile as a project can be, with canaries everywhere.

Whatever runs that should not leaves a mark: scripts of the tree and every program of the system that the
policy does not know write into `marks/`, anything else changes a file that is looked at.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from coder.policy.programs import command_rules as commands
from coder.policy.programs import names, wrappers

_HOOKS = (
    *(
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "fsmonitor-watchman",
        "post-rewrite",
        "pre-auto-gc",
    ),
    *("reference-transaction", "post-update", "update", "pre-push", "sendemail-validate", "push-to-checkout"),
)
# Names that are canaries although no such program is installed here.
_WANTED = names(
    """
    evil git-evil rm touch tee mv cp ln chmod curl wget nc ssh less more man vi vim gpg gpgv sudo doas python
    python3 perl ruby node npm make gcc cc sqlite3 mktemp dd truncate install mkdir rmdir kill
    """
)
# Wrappers and shells: they must be the real ones for a line to get anywhere.
_SHELLS = frozenset({"sh", "bash", "dash", "env", "find", "xargs", "git"})
# What known programs start by themselves, of the system's own and on the system's own files.
_HELPERS = frozenset({"gzip", "gettext.sh", "gettext", "envsubst"})  # `locale -m`, `git submodule`
_NEVER_REAL = frozenset({"sudo", "doas"})
_RELATIVE = ("ls", "cat", "git", "sh", "bash", "rg", "sort", "touch", "evil", "echo", "[", "test")


def real_programs() -> frozenset[str]:
    """The programs of the policy's tables: what they do when they are really run is the question."""
    tables = (commands.HARMLESS, commands._OPTIONS, commands._SPECIAL, wrappers._PREFIXES, _SHELLS, _HELPERS)
    return frozenset(name for table in tables for name in table) - _NEVER_REAL


class Tree:
    """The directories on disk. `live` is what lines see and may damage; it is made anew from a template."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = root / "live"
        self.work = self.live / "work"
        self.home = self.live / "home"
        self.programs = root / "programs"
        self.host = root / "host"
        self.script = f'#!/bin/sh\necho "$0 $*" >>{self.live}/marks/run\nexit 0\n'
        for directory in (self.live, self.programs, self.host):
            directory.mkdir(parents=True)
        self._fill_programs()
        for kind in ("tame", "hostile"):
            self._make_live(kind)
            self.live.rename(root / kind)
            self.live.mkdir()
        self.restore("tame")

    def restore(self, kind: str) -> None:
        """Everything as it was. `kind`: whether the repository at the top is a `tame` or a `hostile` one."""
        for path in self.live.iterdir():
            _remove(path)
        shutil.copytree(self.root / kind, self.live, symlinks=True, dirs_exist_ok=True)

    def put_back(self, kind: str, changed: Iterable[str]) -> None:
        """Only what has changed, parents first: most lines that do something do little."""
        for path in sorted(Path(name) for name in changed if Path(name).is_relative_to(self.live)):
            kept = self.root / kind / path.relative_to(self.live)
            if path.is_dir() and kept.is_dir():
                continue
            if os.path.lexists(path):
                _remove(path)
            if kept.is_dir():
                shutil.copytree(kept, path, symlinks=True)
            elif os.path.lexists(kept) and path.parent.is_dir():
                shutil.copy2(kept, path, follow_symlinks=False)

    # -- programs --------------------------------------------------------------------------------------

    def _fill_programs(self) -> None:
        """`/usr/bin` as lines see it: the programs of the tables, and canaries for all others."""
        real = real_programs()
        system = {path.name for directory in ("/usr/bin", "/bin") for path in Path(directory).iterdir()}
        for name in system | _WANTED:
            if name in real & system:
                self._real(name)
            else:
                _script(self.programs / name, self._canary(name))
        for name in ("rg", "bat", "fd", "eza"):
            found = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
            if name not in system and found:
                (self.programs / name).symlink_to(found)

    def _real(self, name: str) -> None:
        """The system's own, under this name: a link, or a script whose interpreter would be a canary."""
        found = Path(shutil.which(name, path="/usr/bin:/bin") or f"/usr/bin/{name}").resolve()
        with found.open("rb") as file:
            start = file.readline(200)
        interpreter = start[2:].split()[0].decode() if start[:2] == b"#!" else ""
        if Path(interpreter).parent.name == "bin" and Path(interpreter).name not in real_programs():
            script = found.read_bytes().replace(
                interpreter.encode(), os.fsencode(self._in_host(interpreter)), 1
            )
            (self.programs / name).write_bytes(script)
            (self.programs / name).chmod(0o755)
        else:
            (self.programs / name).symlink_to(self._in_host(str(found)))

    def _in_host(self, path: str) -> Path:
        return self.host / Path(path).resolve().name

    def _canary(self, name: str) -> str:
        """A program that may be asked for its version, and marks everything else that is asked of it."""
        allowed: list[tuple[str, ...]] = [(word,) for word in sorted(commands._VERSIONS.get(name, ()))]
        allowed += sorted(commands._LISTINGS.get(name, ()))
        if not allowed:
            return self.script
        cases = "|".join(f"'{' '.join(words)}'" for words in allowed)
        check = f'case "$*" in {cases}) exit 0;; esac'
        if name.startswith("pip"):
            odd = f'case "$x" in {"|".join(sorted(commands._PIP_SHOW))}) ;; -*) odd=1;; esac'
            check += f'; odd=; for x; do {odd}; done; [ "$1$odd" = show ] && exit 0'
        if name == "go":
            odd = 'case "$x" in env|-json) ;; *[a-z]*|-*) odd=1;; esac'
            check += f'; odd=; for x; do {odd}; done; [ "$1$odd" = env ] && exit 0'
        return self.script.replace("\n", f"\n{check}\n", 1)

    # -- the workspace ---------------------------------------------------------------------------------

    def _make_live(self, kind: str) -> None:
        work = self.work
        for directory in ("work/src", "work/bin", "work/empty dir", "home/.ssh", "marks", "outside"):
            (self.live / directory).mkdir(parents=True)
        files = {
            "a.txt": "one\ntwo evil\nthree\n", "b.csv": "1,2\n3,4\n", "f": "evil\ntouch PWN\n-o\nPWN\n",
            "data.json": '{"a": [1, 2, {"b": "evil"}]}\n', "README.md": "hello\n", "src/a.py": "a = 1\n",
            "Makefile": "all:\n\ttouch PWN\n", "package.json": '{"scripts": {"ls": "touch PWN"}}\n',
            ".npmrc": f"script-shell={work}/evil\nnode-options=--require {work}/evil.js\n", "evil.js": "",
            "script.sed": "w PWN\n", "script.awk": 'BEGIN { system("evil") }\n', "names": "a.txt\0-oPWN\0",
            "x": "x\n",
            ".bashrc": "touch PWN\n", "y": "", "PWN2": "", "-oPWN": "", "--output=PWN": "", "a[$(evil)]": "",
            "$(evil)": "", ";evil": "", "-delete": "", "é": "", "evil=1": "", "~": "", "x y": "two words\n",
            ".ripgreprc": f"--pre={work}/evil\n", ".gitattributes": "* diff=evil filter=evil\n",
            "rust-toolchain.toml": '[toolchain]\npath = "."\n', "env": "x=$(touch PWN)\n",
        }  # fmt: skip
        for name, text in files.items():
            (work / name).write_text(text, encoding="utf-8")
        for name in _RELATIVE:
            _script(work / "bin" / name, self.script)
            if not (work / name).exists():
                _script(work / name, self.script)
        _archives(work)
        (work / "link").symlink_to(self.live / "outside")
        (work / "loop").symlink_to("loop")
        (self.live / "outside" / "file").write_text("theirs\n", encoding="utf-8")
        (self.home / ".ssh" / "id_ed25519").write_text("a key\n", encoding="utf-8")
        (self.home / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@b\n", encoding="utf-8")
        for name, hostile in ((".", kind == "hostile"), ("hostile", True), ("tame", False)):
            self._repository(work / name, hostile=hostile)
        self._bare(work / "bare.git")
        (work / "gitfile").mkdir()
        (work / "gitfile" / ".git").write_text(f"gitdir: {work}/hostile/.git\n", encoding="utf-8")

    def _repository(self, directory: Path, *, hostile: bool) -> None:
        directory.mkdir(exist_ok=True)
        names = ("a.txt", "src/a.py", ".gitattributes")
        for name in names:
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(f"{name}\n", encoding="utf-8")
        self._git(directory, "init", "-q", "--template=", "-b", "main", ".")
        for text in ("first", "second"):
            (directory / "a.txt").write_text(f"{text}\n", encoding="utf-8")
            self._git(directory, "add", *names)
            self._git(directory, "commit", "-q", "-m", text)
        self._sign(directory)
        lost = self._git(directory, "rev-parse", "HEAD~1:a.txt").strip()
        self._git(directory, "tag", "v1")
        self._git(directory, "branch", "other")
        self._git(directory, "notes", "add", "-m", "note")
        self._git(directory, "remote", "add", "origin", str(self.work / "bare.git"))
        if directory == self.work:
            self._add_module(directory)
        (directory / "a.txt").write_text("stashed\n", encoding="utf-8")
        self._git(directory, "stash", "-q")
        (directory / "a.txt").write_text("changed\n", encoding="utf-8")
        (directory / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n", encoding="utf-8")
        if (directory / "module").exists():
            self._spoil(directory / "module" / ".git")
        if hostile:
            self._spoil(directory / ".git")
            # A partial clone with a blob missing: git fetches it when it is looked at.
            (directory / ".git" / "objects" / lost[:2] / lost[2:]).unlink()

    def _add_module(self, directory: Path) -> None:
        """A submodule that changes from commit to commit: its diff goes by its own settings."""
        module = directory / "module"
        self._repository(module, hostile=False)
        for commit in ("HEAD~1", "main"):
            self._git(module, "checkout", "-q", "-f", commit)
            self._git(directory, "-c", "advice.addEmbeddedRepo=false", "add", "module")
            self._git(directory, "commit", "-q", "-m", commit)

    def _sign(self, directory: Path) -> None:
        """Where a commit has a signature, looking at it may start a program that checks it."""
        text = self._git(directory, "cat-file", "commit", "HEAD")
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n"
        (directory / "commit").write_text(text.replace("\n\n", "\n" + signature, 1), encoding="utf-8")
        signed = self._git(directory, "hash-object", "-t", "commit", "-w", "commit").strip()
        (directory / "commit").unlink()
        self._git(directory, "update-ref", "HEAD", signed)

    def _bare(self, directory: Path) -> None:
        """A repository without a working tree: git takes it for one wherever it is called in it."""
        self._git(
            self.work,
            "clone",
            "-q",
            "--bare",
            "--template=",
            "--no-local",
            str(self.work / "tame"),
            str(directory),
        )
        self._spoil(directory)

    def _spoil(self, directory: Path) -> None:
        """Name a program wherever git can be told one."""
        run = f"{self.work}/evil"
        with (directory / "config").open("a", encoding="utf-8") as file:
            file.write(_SETTINGS.format(run=run, directory=directory))
        for name in _HOOKS:
            _script(directory / "hooks" / name, self.script)
        (directory / "info").mkdir(exist_ok=True)
        (directory / "info" / "attributes").write_text("* diff=evil filter=evil\n", encoding="utf-8")

    def _git(self, directory: Path, *words: str) -> str:
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        done = subprocess.run(
            ["git", *words], cwd=directory, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout


_SETTINGS = """
[core]
	fsmonitor = {run}
	pager = {run}
	editor = {run}
	sshCommand = {run}
	gitProxy = {run}
	askPass = {run}
	alternateRefsCommand = {run}
	hooksPath = {directory}/hooks
	untrackedCache = true
[diff]
	external = {run}
	tool = evil
	submodule = diff
[diff "evil"]
	textconv = {run}
	command = {run}
	cachetextconv = true
[filter "evil"]
	clean = {run}
	smudge = {run}
	process = {run}
[merge "evil"]
	driver = {run}
[difftool "evil"]
	cmd = {run}
[alias]
	status = !{run}
	st = !{run}
	evil = !{run}
[pager]
	log = {run}
	status = {run}
	diff = {run}
	config = {run}
	branch = {run}
	tag = {run}
[gpg]
	program = {run}
[gpg "ssh"]
	program = {run}
	defaultKeyCommand = {run}
[log]
	showSignature = true
	diffMerges = remerge
[interactive]
	diffFilter = {run}
[credential]
	helper = {run}
[status]
	submoduleSummary = true
[grep]
	fallbackToNoIndex = true
[uploadpack]
	packObjectsHook = {run}
[trailer "evil"]
	command = {run}
	cmd = {run}
[remote "promised"]
	url = {directory}
	uploadpack = {run}
	promisor = true
	partialclonefilter = blob:none
[remote "helped"]
	url = .
	vcs = evil
[submodule "src"]
	url = .
	update = !{run}
	active = true
[include]
	path = more
[sequence]
	editor = {run}
[web]
	browser = evil
[browser "evil"]
	cmd = {run}
"""


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _archives(work: Path) -> None:
    data = b"evil\n"
    for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz")):
        with tarfile.open(work / name, mode) as archive:  # type: ignore[call-overload]  # mode: a str
            info = tarfile.TarInfo("PWN")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with zipfile.ZipFile(work / "a.zip", "w") as packed:
        packed.writestr("PWN", data)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
