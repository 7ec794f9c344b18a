"""The one door for programs: whatever coder starts is found, given its environment and started here.

The programs that coder starts for itself run with the person's rights. So none is found in the workspace (an
activated `.venv` brings what its project likes), in a relative PATH entry, or where another user can replace
it, and their environment is an allow-list without keys. Commands of the model and the person bring their own
environment. `tests/process/test_one_door.py` finds code that goes around this module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from threading import Thread, Timer
from typing import Any, NoReturn, Protocol

from coder.base.files import coder_home, make_private
from coder.base.process.own_process import is_secret

Process = subprocess.Popen[bytes]
TimeoutExpired = subprocess.TimeoutExpired
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL


class Runs(Enum):
    """Whether a program is confined, and why if it is not."""

    IN_SANDBOX = "as the policy decides: in the sandbox, unless the person allowed otherwise"
    FOR_PERSON = "outside: the person typed it, or named it in their own settings"
    HARDENED = "outside: a tool of coder's own (git, ripgrep) that runs no program a project names"
    AS_CODER = "outside: this interpreter with coder's own code"


# finding

_distrusted: list[str] = []


def distrust(*directories: Path | str) -> None:
    """Find no program in these directories: the originals of a copied workspace, for example."""
    _distrusted.extend(map(str, directories))


def find_program(name: str, path: str | None, *workspaces: Path | str) -> str | None:
    """The first trusted `name` on `path` (a PATH; None for this process's own). Cached."""
    return _search(name, _searched(path), (*map(str, workspaces), *_distrusted))


PROGRAMS = "programs"  # in $CODER_HOME: copies of and links to programs that came with coder


def find_bundled(
    name: str, directories: Iterable[str], workspace: Path | str, libraries: str = ""
) -> str | None:
    """A program of this installation, or a verified copy if that is in the workspace."""
    directories = list(directories)
    found = find_program(name, os.pathsep.join(directories), workspace)
    if found is not None:
        return found
    root = os.path.realpath(workspace)
    inside = [path for path in directories if _within(os.path.realpath(path), root)]
    copies = (_copy(name, directory, libraries, coder_home(os.environ) / PROGRAMS) for directory in inside)
    return next(filter(None, copies), None)


@lru_cache(maxsize=8)
def _copy(name: str, directory: str, libraries: str, copies: Path) -> str | None:
    from coder.base.process.binaries import copy_recorded

    program = Path(directory, name)
    base = program.parent.parent.parent if libraries else program.parent
    files = [program, *(base.glob(f"{libraries}/*") if libraries else ())]
    if not program.exists():
        return None
    try:
        return str(copy_recorded(files, base, copies) / program.relative_to(base))
    except (OSError, ValueError):
        return None


def path_with_ripgrep(path: str, workspace: Path | str, home: Path) -> str:
    """The PATH of commands: the person's, with our `rg` at its end if they have none. `home`: $CODER_HOME."""
    if any(os.access(f"{one}/rg", os.X_OK) for one in path.split(os.pathsep)):
        return path
    program = find_bundled("rg", [str(Path(sys.executable).parent)], workspace)
    if program is None:
        return path
    link = home / PROGRAMS / "bin" / "rg"
    try:
        if not link.is_symlink() or str(link.readlink()) != program:
            make_private(link.parent)
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    except OSError:
        return path
    return f"{path}{os.pathsep}{link.parent}" if path else str(link.parent)


def find_outside(name: str, path: str | None, workspace: Path | str) -> str | None:
    """The first `name` on `path` outside the workspace, for a program named by the person and sandboxed."""
    return _search(name, _searched(path), (str(workspace), *_distrusted), shared=True)


def find_chosen(word: str, path: str | None, workspace: Path | str) -> str | None:
    """The program in a person's setting ($PAGER, $EDITOR, $BROWSER), by name or absolute path."""
    directory, name = os.path.split(word)
    return find_program(name, directory or path, workspace) if name else None


def outside_workspaces(path: str, *workspaces: Path | str) -> str:
    """PATH without relative entries and those in a workspace, where the model may have written a program."""
    return _outside(path, (*map(str, workspaces), *_distrusted))


@lru_cache(maxsize=8)
def _outside(path: str, workspaces: tuple[str, ...]) -> str:
    roots = [os.path.realpath(workspace) for workspace in workspaces]
    return os.pathsep.join(
        directory
        for directory in path.split(os.pathsep)
        if directory.startswith("/") and not any(_within(os.path.realpath(directory), root) for root in roots)
    )


def _searched(path: str | None) -> str:
    return os.environ.get("PATH", os.defpath) if path is None else path


@lru_cache(maxsize=64)
def _search(name: str, path: str, workspaces: tuple[str, ...], shared: bool = False) -> str | None:
    roots = [Path(workspace).resolve() for workspace in workspaces]
    for directory in map(Path, path.split(os.pathsep)):
        program = directory / name
        if directory.is_absolute() and os.access(program, os.X_OK) and _is_trusted(program, roots, shared):
            return str(program)
    return None


def _is_trusted(program: Path, workspaces: Iterable[Path], shared: bool) -> bool:
    """Whether file, symlink target and all directories above belong to the person or the system."""
    places = {program.parent.resolve() / program.name, program.resolve()}
    return program.is_file() and all(
        not any(place.is_relative_to(workspace) for workspace in workspaces)
        and (shared or all(map(_only_ours, (place, *place.parents))))
        for place in places
    )


def _only_ours(path: Path) -> bool:
    """Whether only this user and root can change it."""
    try:
        info = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(info.st_mode):
        return True  # its target is checked too
    me = os.getuid()
    if info.st_uid not in (0, me):
        return False
    # In a sticky directory others can add entries but not replace them.
    if info.st_mode & stat.S_IWOTH:
        return stat.S_ISDIR(info.st_mode) and bool(info.st_mode & stat.S_ISVTX)
    # User private groups: many systems give each user a group of the same id, with write permission.
    own_group = info.st_gid == 0 or (info.st_gid == os.getgid() == me)
    return not info.st_mode & stat.S_IWGRP or own_group


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# environment

_NAMES = frozenset(
    """
    HOME PATH USER LOGNAME SHELL TMPDIR TZ LANG LANGUAGE HOSTNAME LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    TERM TERMINFO TERMINFO_DIRS COLORTERM COLORFGBG NO_COLOR COLUMNS LINES VTE_VERSION TMUX TMUX_PANE STY
    DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS DESKTOP_SESSION WSLENV WSL_DISTRO_NAME
    WSL_INTEROP EDITOR VISUAL ALTERNATE_EDITOR EMACS_SERVER_FILE PAGER MANPAGER BROWSER VIM VIMRUNTIME VIMINIT
    MYVIMRC NVIM VIRTUAL_ENV SSH_AUTH_SOCK SSH_AGENT_PID SSH_CONNECTION SSH_TTY GPG_TTY GNUPGHOME
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    GIT_SSL_CAPATH GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES
    GIT_EXEC_PATH GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    """.split()  # noqa: SIM905 - readable
)
_PREFIXES = (
    *("LC_", "XDG_", "LESS", "TERM_PROGRAM", "GDK_", "GTK_", "QT_", "KDE_", "GNOME_", "MOZ_", "NVIM_"),
    *("KITTY_", "WEZTERM_", "ITERM_", "ZELLIJ", "VSCODE_", "BAT_", "NIX_"),
)


def own_environment(
    environment: Mapping[str, str] | None = None, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """The allow-listed environment of coder's own programs, and variables that begin with one of `also`."""
    return {
        name: value
        for name, value in (os.environ if environment is None else environment).items()
        if (name in _NAMES or name.startswith((*_PREFIXES, *also))) and not is_secret(name, value)
    }


# starting

Starting = Callable[[], Process]
DESCRIPTOR = "<descriptor>"  # the word that `Prepared.opened` replaces


class Closeable(Protocol):
    """Something that a running program uses."""

    def close(self) -> None: ...


class HeldLine(list[str]):
    """A command line with something to close at the program's end. `descriptors` are passed on."""

    held: Closeable | None = None
    descriptors: tuple[int, ...] = ()

    def release(self) -> None:
        """Close what the line holds."""
        if self.held is not None:
            self.held.close()


class Prepared(HeldLine):
    """A line that needs this process at its start. `file`: opened for the child in place of `DESCRIPTOR`.
    `start`: wraps the function that spawns it (seccomp supervision)."""

    def __init__(
        self, words: Iterable[str], *, file: str = "", start: Callable[[Starting], Process] | None = None
    ) -> None:
        super().__init__(words)
        self.file = file
        self.start = start

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """The words to start, and the descriptors to pass on."""
        if not self.file:
            yield self, self.descriptors
            return
        descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)  # its own offset: read by one child only
        try:
            yield (
                [str(descriptor) if word == DESCRIPTOR else word for word in self],
                (descriptor, *self.descriptors),
            )
        finally:
            os.close(descriptor)


def start(
    argv: list[str], *, runs: Runs, environment: Mapping[str, str] | None = None, **options: Any
) -> Process:
    """Start the program at `argv[0]` (absolute) with the options of `subprocess.Popen`. Raises OSError."""
    if not argv[0].startswith("/"):  # find it first
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    if runs is Runs.IN_SANDBOX and environment is None:
        raise ValueError("a command has an environment of its own")
    options["env"] = own_environment() if environment is None else dict(environment)
    if not isinstance(argv, Prepared):
        if isinstance(argv, HeldLine):
            options["pass_fds"] = argv.descriptors
        return subprocess.Popen(argv, **options)
    with argv.opened() as (words, descriptors):

        def spawn() -> Process:
            return subprocess.Popen(words, pass_fds=descriptors, **options)

        return spawn() if argv.start is None else argv.start(spawn)


def run(
    argv: list[str],
    *,
    runs: Runs,
    given: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **options: Any,
) -> tuple[int, bytes]:
    """Run it to its end or `end_running`: exit status, output. Raises OSError, `TimeoutExpired`."""
    stdin = {} if given is None else {"stdin": PIPE}
    with start(argv, runs=runs, environment=environment, **stdin, **options) as process:
        _running.add(process)
        try:
            output, _ = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        finally:
            _running.discard(process)
        return process.returncode, output or b""


_running: set[Process] = set()
_END_GRACE = 0.5  # seconds between SIGTERM and SIGKILL: for an editor to keep what was typed


def end_running() -> None:
    """End the programs that threads wait for in `run`, such as an editor."""
    for process in list(_running):
        process.terminate()
        timer = Timer(_END_GRACE, process.kill)
        timer.daemon = True
        timer.start()


def run_python(words: list[str], **options: Any) -> tuple[int, bytes]:
    """Run this interpreter with code of coder's own."""
    return run([sys.executable, *words], runs=Runs.AS_CODER, **options)


def restart_python(words: list[str]) -> NoReturn:
    """Replace this process by this interpreter with other options."""
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - ourselves, with all that we were given


def open_browser(url: str, environment: Mapping[str, str], workspace: Path | str) -> bool:
    """Show `url` in `$BROWSER` or the desktop's browser; False if there is none."""
    chosen = environment.get("BROWSER", "").split(os.pathsep)
    if sys.platform == "darwin":
        chosen.append("/usr/bin/open")
    elif environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        chosen += ["xdg-open", "gio open", "x-www-browser", "firefox"]
    for line in filter(None, chosen):
        with contextlib.suppress(OSError, ValueError):  # unbalanced quotes
            first, *rest = shlex.split(line)
            program = find_chosen(first, environment.get("PATH"), workspace)
            if program is not None:
                words = [*(word.replace("%s", url) for word in rest), *([] if "%s" in line else [url])]
                quiet = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL, "start_new_session": True}
                kept = own_environment(environment)
                shown = start([program, *words], runs=Runs.FOR_PERSON, environment=kept, **quiet)
                Thread(target=shown.wait, daemon=True).start()
                return True
    return False
