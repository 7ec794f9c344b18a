"""The escape suite: what a hostile command tries in each backend that works here, as root and as nobody."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import SECRET, Box, available, users

from coder.base.process import child as children
from coder.policy.sandbox.launch import SCOPES_FROM, landlock_abi
from kit.driving import left_running

RUNGS = available()
PLACES = [(backend, user) for backend in RUNGS for user in users()]

# Each must leave everything outside as it was. Whether it fails aloud is not asked: some tools swallow it.
WRITES = {
    "create": 'echo x > "$OUT/new"',
    "overwrite": 'echo x > "$OUT/kept.txt"',
    "append": 'echo x >> "$OUT/kept.txt"',
    "delete": 'rm -rf "$OUT"/* "$HOME"/*',
    "rename": 'mv "$OUT/kept.txt" "$OUT/gone.txt"',
    "move in": 'mv "$OUT/kept.txt" "$W/mine.txt"',
    "truncate": 'truncate -s 0 "$OUT/kept.txt"',
    "make folder": 'mkdir "$OUT/folder"',
    "parent": "cd .. && echo x > evil.txt && echo x > ../evil.txt",
    "parent by path": "echo x > ../evil.txt; echo x > src/../../evil.txt",
    "link to file": 'ln -s "$OUT/kept.txt" l; echo x > l; echo x >> l',
    "link to folder": 'ln -s "$OUT" d; echo x > d/new; rm d/kept.txt',
    "link chain": "ln -s .. up; ln -s up/outside o; echo x > o/new",
    "hard link": 'ln "$OUT/kept.txt" h && echo x > h',
    "hard link by link": 'ln -s "$OUT" d; ln d/kept.txt h && echo x >> h',
    "proc root": 'echo x > /proc/self/root/"$OUT"/new',
    "proc cwd": "cd src; echo x > /proc/self/cwd/../../evil.txt",
    "proc of others": 'for p in /proc/[0-9]*; do echo x > "$p/root$OUT/new"; echo x > "$p/cwd/evil"; done',
    "descriptor of a folder": 'exec 9<"$OUT"; echo x > /proc/self/fd/9/new',
    "home": 'echo x >> "$HOME/.bashrc"; echo x > "$HOME/.ssh/authorized_keys"; echo x > "$HOME/new"',
    "own settings": 'echo "{}" > "$HOME/.coder/config.json"; rm -rf "$HOME/.coder"',
    "remount": 'mount -o remount,rw / ; mount -o remount,rw "$OUT"; echo x > "$OUT/new"',
    "unmount": 'umount "$HOME/.ssh"; umount -l "$W"; echo x > "$OUT/new"',
    "bind": 'mkdir m; mount --bind "$OUT" m; echo x > m/new',
    "namespace": 'unshare -rm sh -c \'mount -o remount,rw / ; umount "$HOME/.ssh"; echo x > "$OUT/new"\'',
    "chroot": "chroot / sh -c 'echo x > \"$OUT/new\"'",
    "git hook": "cd .git/hooks; echo evil > pre-commit; chmod +x pre-commit; echo evil > pre-push",
    "git hook by move": "mv .git g; mkdir -p .git/hooks; echo evil > .git/hooks/pre-push",
    "git hook by folder move": "mv .git/hooks .git/h; mkdir .git/hooks; echo evil > .git/hooks/pre-push",
    "git hook by link": "ln -s .git/hooks hk; echo evil > hk/pre-push; rm hk/pre-push",
    "git settings": "git config core.fsmonitor evil; echo '[core] fsmonitor = evil' >> .git/config",
    "git settings by move": "mv .git/config .git/c; echo evil > .git/c; mv .git/c .git/config; rm .git/c*",
    "git settings by link": "ln -s .git/config gc; echo evil > gc; ln -f a.txt .git/config",
    "git settings by lock": "cd .git; echo evil > config.lock; mv -f config.lock config; rm config.lock",
    "own folder": 'echo "{}x" > .coder/config.json; rm .coder/config.json',
    "own folder by move": "rm -f .coder/config.json; mv .coder/config.json c; echo evil > .coder/config.json",
    "tar": 'echo x > new; tar cf t.tar new; tar xf t.tar -C "$OUT"',
    "install": 'install -m 755 a.txt "$OUT/kept.txt"',
    "python": "python3 -c \"import os; open(os.environ['OUT'] + '/new', 'w').write('x')\"",
}

READS = {
    "cat": 'cat "$HOME/.ssh/id_ed25519" "$HOME/.netrc" "$HOME/.coder/config.json"',
    "others": 'cat "$HOME/.aws/credentials" "$HOME/.local/share/keyrings/"*; cat "$HOME"/.local/share/k*/*',
    "outputs": 'cat "$HOME"/.coder/outputs/*/* "$HOME/.coder/outputs/own/../other/old.txt"',
    "link": 'ln -s "$HOME/.ssh" s; cat s/*; ln -s "$HOME/.netrc" n; cat n',
    "hard link": 'ln "$HOME/.ssh/id_ed25519" k && cat k; ln "$HOME/.netrc" n && cat n',
    "copy": 'cp -a "$HOME" copy; cat copy/.ssh/* copy/.netrc copy/.coder/*',
    "move": 'mv "$HOME/.ssh" s; cat s/*; mv "$HOME" h; cat h/.ssh/*',
    "archive": 'tar cf - "$HOME" | strings',
    "proc": 'cat /proc/self/root/"$HOME"/.ssh/*; for p in /proc/[0-9]*; do cat "$p/root$HOME/.ssh/"*; done',
    "unmount": 'umount "$HOME/.ssh"; umount -l "$HOME/.netrc"; cat "$HOME/.ssh/id_ed25519" "$HOME/.netrc"',
    "namespace": 'unshare -rm sh -c \'umount "$HOME/.ssh"; cat "$HOME/.ssh/id_ed25519"\'',
    "grep": 'grep -r "correct" "$HOME/.ssh" "$HOME"',
    "permissions": 'chmod -R 777 "$HOME/.ssh" "$HOME/.netrc"; cat "$HOME/.ssh/id_ed25519" "$HOME/.netrc"',
    "environment of others": "cat /proc/*/environ | tr '\\0' '\\n'",
    "memory of others": 'for p in /proc/[0-9]*; do timeout 1 strings "$p/mem" | head -c 2000; done',
    "devices": 'for d in /dev/sd* /dev/vd* /dev/nvme* /dev/mem; do head -c 100 "$d" | strings; done',
}


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    found = Box(*request.param)
    yield found
    found.close()


def test_some_rung_works_here() -> None:
    assert RUNGS


@pytest.mark.thorough
def test_no_write_gets_out(box: Box) -> None:
    """All of them in one box; the check after each says which one got out."""
    before = box.before_and_after()
    for name, script in in_runs(box, WRITES):
        box.run(f"exec 2>/dev/null\n{script}")
        assert box.before_and_after() == before, name


def in_runs(box: Box, scripts: dict[str, str]) -> list[tuple[str, str]]:
    """One command each; for another user, whose every command is a start of Python, all in one."""
    whole = {
        name: f"({script}); rm -rf l d up o h m g t.tar new mine.txt hk c s n k copy gc"
        for name, script in scripts.items()
    }
    return list(whole.items()) if box.user == "me" else [("all", "\n".join(whole.values()))]


@pytest.mark.thorough
def test_no_secret_gets_out(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_API_KEY_OF_THE_TEST", SECRET)
    for name, script in in_runs(box, READS):
        outcome = box.run(f"exec 2>&1\n{script}")
        assert SECRET not in outcome.stdout, name
        kept = b"".join(
            p.read_bytes() for p in box.workspace.rglob("*") if p.is_file() and not p.is_symlink()
        )
        assert SECRET.encode() not in kept, name


def test_what_a_build_does_works(box: Box) -> None:
    """A sandbox that stops honest work is switched off by the first person who meets it."""
    script = """
    set -e
    test "$PWD" = "$W"
    echo new > src/new.txt && mv src/new.txt moved.txt && ln -s moved.txt link && cat link
    mkdir -p deep/er && cp a.txt deep/er/ && rm -r deep && chmod +x moved.txt
    t=$(mktemp) && echo temp > "$t" && cat "$t" && rm "$t"
    cat "$HOME/notes.txt" "$HOME/.coder/outputs/own/old.txt" < /dev/null > /dev/null
    cat <<END | sort | head -c 100 > /dev/null
    here
END
    python3 -c 'import socket, subprocess; socket.socketpair(); subprocess.run(["true"], check=True)'
    (echo one; echo two) | xargs -P2 -n1 echo
    """
    outcome = box.run(script)
    assert outcome.exit_code == 0, outcome.stderr
    assert (box.workspace / "moved.txt").read_text() == "new\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_works_but_for_its_hooks(box: Box) -> None:
    shutil.rmtree(box.workspace / ".git")
    git = "git -c user.name=n -c user.email=e -c init.defaultBranch=main"
    outcome = box.run(f"{git} init -q && {git} add a.txt && {git} commit -qm one")
    assert outcome.exit_code == 0, outcome.stderr
    outcome = box.run(
        f"echo more >> a.txt && {git} commit -qam two && git checkout -qb other && git log --oneline"
    )
    assert outcome.exit_code == 0, outcome.stderr
    assert len(outcome.stdout.splitlines()) == 2


def test_temporary_files_last_from_one_command_to_the_next(box: Box) -> None:
    box.run('echo kept > "${TMPDIR:-/tmp}/between"')
    outcome = box.run('cat "${TMPDIR:-/tmp}/between"')
    assert outcome.stdout == "kept\n"


@pytest.mark.thorough
def test_plan_writes_nothing_in_the_workspace(box: Box) -> None:
    before = {p: p.read_bytes() for p in box.workspace.rglob("*") if p.is_file()}
    box.run("echo x > a.txt; echo x > new; rm -rf src a.txt; mkdir d; ln -s a l; mv a.txt b.txt", plan=True)
    assert {p: p.read_bytes() for p in box.workspace.rglob("*") if p.is_file()} == before
    assert box.run("cat a.txt", plan=True).stdout == "inside\n"
    assert box.run('echo ok > "${TMPDIR:-/tmp}/x"', plan=True).exit_code == 0


def test_configured_directories_are_writable_and_no_others(box: Box) -> None:
    outcome = box.run('echo x > "$OUT/new"; echo x > "$HOME/new"', writable=[str(box.outside)])
    assert (box.outside / "new").exists()
    assert not (box.home / "new").exists()
    assert outcome.exit_code != 0
    box.run('echo x > "$HOME/sub/new"', writable=["~"])
    assert (box.home / "sub" / "new").exists()


def test_a_home_that_is_writable_still_keeps_its_secrets(box: Box) -> None:
    outcome = box.run('cat "$HOME/.ssh/id_ed25519"; echo x > "$HOME/.ssh/authorized_keys"', writable=["~"])
    assert SECRET not in outcome.stdout
    assert not (box.home / ".ssh" / "authorized_keys").exists()


CONNECT = """python3 - <<'END'
import socket
s = socket.socket(socket.AF_INET)
s.settimeout(5)
s.connect(("127.0.0.1", {port}))
print(s.recv(10).decode())
END"""


class Greeter:
    """A server that says hello to whoever comes."""

    def __init__(self, listening: socket.socket) -> None:
        self.socket = listening
        self.socket.listen()
        self.visits = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            with peer:
                peer.sendall(b"hello")


@pytest.mark.thorough
def test_network_is_on_unless_switched_off(box: Box) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        greeter = Greeter(listening)
        script = CONNECT.format(port=listening.getsockname()[1])
        assert box.run(script).stdout == "hello\n"
        for options in ({"network": False}, {"plan": True}):
            assert box.run(script, **options).exit_code != 0
        assert greeter.visits == 1
        listening.shutdown(socket.SHUT_RDWR)


REACH = """python3 - <<'END'
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        s = socket.socket(socket.AF_UNIX, kind)
        s.connect({address!r})
        print("reached")
    except OSError as error:
        print(type(error).__name__)
END"""


def reached(box: Box, address: str, place: Path | None = None, **options: bool) -> bool:
    """Whether a command gets through to a server that listens there."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(address)
        if place is not None:
            place.chmod(0o777)
        greeter = Greeter(listening)
        outcome = box.run(REACH.replace("{address!r}", repr(address)), **options)
        assert outcome.exit_code == 0, outcome.stderr
        return "reached" in outcome.stdout or greeter.visits > 0
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        if place is not None:
            place.unlink()


@pytest.mark.thorough
def test_sockets_of_other_programs_are_out_of_reach(box: Box) -> None:
    """An ssh-agent, a tmux server, a session bus, X11, docker: each would act for the caller, outside."""
    run = Path("/run") if os.access("/run", os.W_OK) else None
    for directory in filter(None, (Path("/tmp"), run)):
        path = directory / f"docker-{os.getpid()}.sock"
        assert not reached(box, str(path), path), path
    x11 = Path("/tmp/.X11-unix")
    there = x11.exists()
    x11.mkdir(exist_ok=True)
    try:
        screen = x11 / f"X{os.getpid()}"
        assert not reached(box, str(screen), screen)
    finally:
        if not there:
            with contextlib.suppress(OSError):  # another worker is at it
                x11.rmdir()


@pytest.mark.thorough
@pytest.mark.skipif(landlock_abi() < SCOPES_FROM, reason="the kernel cannot keep them apart")
def test_sockets_without_a_file_are_out_of_reach(box: Box) -> None:
    """They belong to the network and not to the file system: X11 and older session buses listen there."""
    name = f"\0/tmp/.X11-unix/X{os.getpid()}-{os.urandom(4).hex()}"
    assert not reached(box, f"{name}-1")
    assert not reached(box, f"{name}-2", network=False)
    assert not reached(box, f"{name}-3", plan=True)


def test_a_command_s_own_sockets_work_where_the_rung_is_strong(box: Box) -> None:
    """Python's process pools, browsers and databases in tests talk to themselves this way."""
    if box.backend != "bwrap":
        pytest.skip("the weaker backend has no sockets of this kind at all")
    script = """python3 - <<'END'
import socket
for name in ("own.sock", "\\0own-of-the-test"):
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    server.listen()
    socket.socket(socket.AF_UNIX).connect(name)
print("ok")
END"""
    assert box.run(script).stdout == "ok\n"


DAEMON = """python3 - <<'END'
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        os.execvp("sleep", ["sleep", "{mark}"])
    os._exit(0)
END"""
SURVIVORS = {
    "background": "sleep {mark} &",
    "nohup": "nohup sleep {mark} > /dev/null 2>&1 &",
    "setsid": "setsid sleep {mark} > /dev/null 2>&1 < /dev/null &",
    "daemon": DAEMON,
    "disowned": "set -m; sleep {mark} & disown; trap '' TERM HUP",
    "deaf": "(trap '' TERM HUP INT; setsid sleep {mark}) & ",
    "nameless": "(env -i setsid sleep {mark} > /dev/null 2>&1 &)",
    "restless": (
        "env -i setsid sh -c 'for i in $(seq 999); do setsid sleep {mark} & sleep .1; done' >/dev/null 2>&1 &"
    ),
    "unwatched": "env -i setsid sleep {mark} > /dev/null 2>&1 & sleep 0.1; kill -9 $PPID",
    "its keeper stopped": "env -i setsid sleep {mark} > /dev/null 2>&1 & sleep 0.1; kill -STOP $PPID",
}


@pytest.mark.parametrize("kind", SURVIVORS)
@pytest.mark.parametrize("backend", [*RUNGS, "none"])
def test_nothing_outlives_its_command(backend: str, kind: str) -> None:
    box = Box(backend)
    mark = f"3{time.time_ns() % 10**9:09d}"
    try:
        # Without a sandbox a keeper that is stopped stays so until the command has run out of time.
        box.run(SURVIVORS[kind].replace("{mark}", mark), timeout_ms=5000)
        assert gone(mark)
        box.run(SURVIVORS[kind].replace("{mark}", mark) + f"\nsleep {mark}", timeout_ms=400)
        assert gone(mark)
    finally:
        box.close()
        for process in left_running(mark):  # where the product fails, the machine need not
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["nameless", "restless", "its keeper stopped"])
@pytest.mark.parametrize("backend", [*RUNGS, "none"])
def test_nothing_outlives_a_command_whose_keeper_comes_late(
    backend: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the keeper may not get a turn before the command is ended for good."""
    monkeypatch.setattr(children, "_TERM_GRACE", 0.0)
    box = Box(backend)
    mark = f"4{time.time_ns() % 10**9:09d}"
    try:
        box.run(SURVIVORS[kind].replace("{mark}", mark) + f"\nsleep {mark}", timeout_ms=400)
        assert gone(mark)
    finally:
        box.close()
        for process in left_running(mark):  # where the product fails, the machine need not
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("backend", RUNGS)
def test_a_keeper_that_comes_late_still_puts_things_in_order(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_TERM_GRACE", 0.0)
    box = Box(backend)
    try:
        before = box.before_and_after()
        box.run("echo evil > .git/hooks/pre-push; touch tried; trap '' TERM; sleep 30", timeout_ms=4000)
        assert (box.workspace / "tried").exists()
        assert box.before_and_after() == before
    finally:
        box.close()


def gone(mark: str) -> bool:
    """A killed process may take a moment to be reaped by whoever inherited it."""
    deadline = time.monotonic() + 20
    while left_running(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not left_running(mark)


def test_exit_codes_and_streams_pass_through(box: Box) -> None:
    outcome = box.run("echo out; echo err >&2; exit 7")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (7, "out\n", "err\n")
    assert box.run("kill -9 $$").exit_code == 137
