"""The macOS backend: what its profile allows, read by an interpreter of our own, and the line that starts it.

On macOS itself the real `sandbox-exec` is tried as well.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from sbpl import Profile, parse

from coder.policy.network.door import Door
from coder.policy.network.rules import Rules
from coder.policy.sandbox import probe as sandbox_probe
from coder.policy.sandbox import seatbelt as sandbox_seatbelt
from coder.policy.sandbox.backends import LongSandbox, Sandbox, SandboxLevel
from coder.policy.sandbox.places import AccessRules
from coder.policy.sandbox.probe import kept, probe
from coder.policy.sandbox.seatbelt import seatbelt_line, seatbelt_profile, true_path
from coder.texts import Catalog

LEVEL = SandboxLevel("seatbelt", sandbox_seatbelt.PROGRAM)
PLACES = AccessRules(
    workspace="/Users/me/work",
    writable=["/Users/me/work", "/Users/me/cache"],
    hidden=["/Users/me/.ssh", "/Users/me/.coder"],
    readable=["/Users/me/.coder/outputs"],
    locked=["/Users/me/work/.git/config", "/Users/me/work/.git/hooks", "/Users/me/work/.coder"],
    absent=["/Users/me/work/.git/commondir"],
    pinned=["/Users/me/work/.git"],
    temp=["/private/tmp"],
    scratch="/private/var/folders/T/coder-501/ab",
    seen_in_temp=[],
)
READING = msgspec.structs.replace(PLACES, writable=[], locked=[], absent=[], pinned=[])
NASTY = [
    'a "quoted" name',
    "new\nline",
    "back\\slash\\",
    "(allow default)",
    '")) (allow file-write*) ("',
    "; comment",
    "=P0=",
    "名字",
]


def profile(places: AccessRules = PLACES, *, network: bool = True, fresh: str = "/private/fresh") -> Profile:
    text, parameters = seatbelt_profile(places, network=network)
    return Profile(text, parameters if places.writable else {**parameters, "TMPDIR": fresh})


@pytest.mark.parametrize(
    ("path", "writes"),
    [
        ("/Users/me/work/a.py", True),
        ("/Users/me/work/.git/index", True),
        ("/Users/me/cache/x", True),
        ("/private/tmp/x", True),
        (PLACES.scratch + "/x", True),
        ("/dev/null", True),
        ("/Users/me/a.py", False),
        ("/Users/me/workshop/a.py", False),
        ("/Users/me/work/.git/config", False),
        ("/Users/me/work/.git/hooks/pre-commit", False),
        ("/Users/me/work/.git/commondir", False),
        ("/Users/me/work/.coder/config.json", False),
        ("/Users/me/.ssh/authorized_keys", False),
        ("/etc/hosts", False),
        ("/dev/ttys001", False),
    ],
)
def test_where_a_command_writes(path: str, writes: bool) -> None:
    assert profile().allows("file-write-data", path=path) is writes


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        ("/usr/lib/dyld", True),
        ("/Users/me/work/a.py", True),
        ("/Users/me/other/a.py", True),
        ("/Users/me/.coder/outputs/1.txt", True),
        ("/Users/me/.coder/config.json", False),
        ("/Users/me/.ssh/id_ed25519", False),
        ("/dev/ttys001", False),
    ],
)
@pytest.mark.parametrize("places", [PLACES, READING], ids=["writing", "reading"])
def test_what_a_command_reads(places: AccessRules, path: str, reads: bool) -> None:
    assert profile(places).allows("file-read-data", path=path) is reads


def test_a_line_that_only_reads_writes_its_own_temporary_directory_alone() -> None:
    held = profile(READING, network=False)
    assert held.allows("file-write-create", path="/private/fresh/x")
    for path in ("/Users/me/work/a.py", "/Users/me/cache/x", "/private/tmp/x", PLACES.scratch + "/x"):
        assert not held.allows("file-write-create", path=path)


def test_the_network_is_addresses_and_no_unix_sockets() -> None:
    online, offline = profile(network=True), profile(network=False)
    assert online.allows("network-outbound", remote="ip 1.1.1.1:443")
    assert online.allows("network-bind", local="ip 127.0.0.1:8000")
    assert not offline.allows("network-outbound", remote="ip 127.0.0.1:80")
    assert not offline.allows("network-bind", local="ip 127.0.0.1:8000")
    for held in (online, offline):
        agent = "/private/tmp/com.apple.launchd.x/Listeners"
        assert not held.allows("network-outbound", remote=f"unix-socket {agent}", path=agent)
        assert not held.allows("network-bind", local="unix-socket x", path="/Users/me/work/x")


def test_a_door_is_the_only_way_to_the_network(stand_in: str, tmp_path: Path) -> None:
    async def made() -> Door:
        door = Door(Rules(["a.com", "localhost:5432"]))
        await door.open_here()
        door.close()
        return door

    door = asyncio.run(made())
    text, parameters = seatbelt_profile(PLACES, network=True, door=door)
    held = Profile(text, parameters)
    for port in (door.port, 5432):
        assert held.allows("network-outbound", remote=f"ip localhost:{port}")
    for remote in ("ip localhost:80", f"ip 1.1.1.1:{door.port}"):
        assert not held.allows("network-outbound", remote=remote)
    assert not held.allows("network-outbound", remote="unix-socket x", path="/private/var/run/mDNSResponder")
    places = msgspec.structs.replace(PLACES, scratch=str(tmp_path))
    line = seatbelt_line(stand_in, ["sh", "-c", "echo $HTTPS_PROXY"], places, network=False, door=door)
    assert ran(line, tmp_path) == f"http://coder:{door.token}@127.0.0.1:{door.port}\n"


def test_other_processes_and_services_are_out_of_reach() -> None:
    held = profile()
    for operation in ("process-info-pidinfo", "signal"):
        assert held.allows(operation, target="same-sandbox")
        assert not held.allows(operation, target="others")
    for operation in ("mach-priv-task-port", "appleevent-send", "iokit-open", "job-creation"):
        assert not held.allows(operation, target="same-sandbox")
    assert held.allows("sysctl-read", name="hw.ncpu")
    assert not held.allows("sysctl-read", name="kern.procargs2")  # another process's environment
    for service in (
        "com.apple.SecurityServer",
        "com.apple.pasteboard.1",
        "com.apple.coreservices.launchservicesd",
    ):
        assert not held.allows("mach-lookup", name=service)


def test_a_terminal_is_one_that_the_command_has_made() -> None:
    held = profile()
    assert held.allows("file-read-data", path="/dev/ttys009", extension="com.apple.sandbox.pty")
    assert not held.allows("file-read-data", path="/dev/ttys009")


def test_what_is_closed_cannot_be_moved_out_of_the_way() -> None:
    inside = msgspec.structs.replace(PLACES, writable=["/Users/me"], hidden=["/Users/me/.config/gcloud"])
    held = profile(inside)
    for path in ("/Users/me/work/.git", "/Users/me/work", "/Users/me/.config", "/Users/me/.config/gcloud"):
        assert not held.allows("file-write-unlink", path=path), path
    assert held.allows("file-write-unlink", path="/Users/me/work/.git/index.lock")
    assert not held.allows("file-read-data", path="/Users/me/.config/gcloud/token")


def test_a_workspace_inside_a_hidden_directory_is_open() -> None:
    inside = msgspec.structs.replace(PLACES, hidden=["/Users/me"])
    assert profile(inside).allows("file-write-data", path="/Users/me/work/a.py")
    assert not profile(inside).allows("file-write-data", path="/Users/me/work/.git/config")
    reading = msgspec.structs.replace(READING, hidden=["/Users/me"])
    assert profile(reading).allows("file-read-data", path="/Users/me/work/a.py")
    assert not profile(reading).allows("file-read-data", path="/Users/me/a.py")


def test_neighbours_in_a_temporary_directory_are_not_given_away() -> None:
    beside = msgspec.structs.replace(PLACES, seen_in_temp=["/private/tmp/work"])
    assert not profile(beside).allows("file-write-data", path="/private/tmp/x")
    assert profile(beside).allows("file-write-data", path=PLACES.scratch + "/x")


@pytest.mark.parametrize("name", NASTY)
def test_no_name_becomes_a_rule(name: str) -> None:
    """Paths are parameters: the text of the profile is the same whatever they are."""
    renamed = msgspec.structs.replace(
        PLACES,
        hidden=[f"/Users/me/{name}"],
        readable=[],
        locked=[f"/Users/me/work/{name}"],
        absent=[],
        pinned=[],
    )
    plain = msgspec.structs.replace(renamed, hidden=["/Users/me/x"], locked=["/Users/me/work/x"])
    text, parameters = seatbelt_profile(renamed, network=False)
    assert text == seatbelt_profile(plain, network=False)[0]
    assert f"/Users/me/{name}" in parameters.values()
    held = Profile(text, parameters)
    assert not held.allows("file-read-data", path=f"/Users/me/{name}/key")
    assert not held.allows("file-write-data", path=f"/Users/me/work/{name}")
    assert held.allows("file-write-data", path="/Users/me/work/other")


def test_the_profile_is_this_text() -> None:
    """The rules about places, whole: a change of them is meant, and seen here."""
    text, parameters = seatbelt_profile(PLACES, network=False)
    rules = text.split('com.apple.sandbox.pty")))\n')[1]
    for name, path in sorted(parameters.items(), reverse=True):
        rules = rules.replace(f'(param "{name}")', path)
    assert rules.splitlines() == [
        "(allow file-read* file-write* (subpath /private/tmp))",
        "(allow file-read* (subpath /Users/me/work))",
        "(allow file-read* file-write* (subpath /Users/me/cache))",
        "(allow file-read* file-write* (subpath /Users/me/work))",
        "(deny file-read* file-write* (subpath /Users/me/.coder))",
        "(deny file-read* file-write* (subpath /Users/me/.ssh))",
        "(allow file-read* (subpath /Users/me/.coder/outputs))",
        "(deny file-write* (subpath /Users/me/work/.coder))",
        "(deny file-write* (literal /Users/me/work/.git/commondir))",
        "(deny file-write* (subpath /Users/me/work/.git/config))",
        "(deny file-write* (subpath /Users/me/work/.git/hooks))",
        f"(allow file-read* file-write* (subpath {PLACES.scratch}))",
        "(deny file-write-unlink (literal /Users/me/work/.git))",
        "(deny file-write-unlink (literal /Users/me/work))",
    ]
    assert all(isinstance(form, list) for form in parse(text))


@pytest.mark.skipif(sys.platform == "darwin", reason="plays a file system that ignores case")
def test_the_spelling_on_disk_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules distinguish case where the file system does not: `~/.SSH` must close `~/.ssh`."""
    (tmp_path / "shouted").mkdir()
    asked: list[int] = []

    def answer(descriptor: int, code: int, _: bytes) -> bytes:
        asked.append(code)
        shown = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        return os.fsencode(shown.replace("shouted", "Shouted")) + bytes(9)

    monkeypatch.setattr("fcntl.F_GETPATH", 50, raising=False)
    monkeypatch.setattr("fcntl.fcntl", answer)
    assert true_path(str(tmp_path / "shouted")) == str(tmp_path / "Shouted")
    assert true_path(str(tmp_path / "shouted" / "not" / "there")) == str(
        tmp_path / "Shouted" / "not" / "there"
    )
    assert set(asked) == {50}


# The line, with a program in place of `sandbox-exec` that takes the same options.

STAND_IN = """#!/bin/sh
while [ "$1" = -D ]; do echo "$2" >> "$LOG"; shift 2; done
[ "$1" = -p ] || exit 64
shift 2
exec "$@"
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    program = tmp_path / "sandbox-exec"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def ran(line: list[str], tmp_path: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "LOG": str(tmp_path / "log")}
    return subprocess.run(line, env=environment, check=True, capture_output=True, encoding="utf-8").stdout


def test_a_writing_command_gets_the_shared_temporary_directory(stand_in: str, tmp_path: Path) -> None:
    places = msgspec.structs.replace(PLACES, scratch=str(tmp_path))
    line = seatbelt_line(stand_in, ["sh", "-c", 'echo "$TMPDIR $1"', "sh", "a b"], places, network=True)
    assert ran(line, tmp_path) == f"{os.path.realpath(tmp_path)} a b\n"


def test_a_reading_command_gets_one_that_is_gone_afterwards(stand_in: str, tmp_path: Path) -> None:
    places = msgspec.structs.replace(READING, scratch=str(tmp_path / "own" / "scratch"))
    (tmp_path / "own").mkdir()
    script = 'echo x > "$TMPDIR/file"; cat "$TMPDIR/file"; echo "$TMPDIR"; echo "$PATH"; exit 0'
    argv = ["/bin/sh", "-c", script]
    line = seatbelt_line(stand_in, argv, places, network=False, path="/usr/bin:/bin")
    word, fresh, path = ran(line, tmp_path).splitlines()
    assert (word, path) == ("x", "/usr/bin:/bin")
    assert fresh.startswith(os.path.realpath(tmp_path / "own") + "/read-")
    assert list((tmp_path / "own").iterdir()) == []
    assert f"TMPDIR={fresh}" in (tmp_path / "log").read_text(encoding="utf-8").splitlines()


def test_the_status_of_a_reading_command_is_told(stand_in: str, tmp_path: Path) -> None:
    places = msgspec.structs.replace(READING, scratch=str(tmp_path / "scratch"))
    line = seatbelt_line(stand_in, ["sh", "-c", "exit 7"], places, network=False)
    with pytest.raises(subprocess.CalledProcessError) as told:
        ran(line, tmp_path)
    assert told.value.returncode == 7


def test_locks_further_down_and_jobs(tmp_path: Path) -> None:
    git = tmp_path / "inner" / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("", encoding="utf-8")
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    sandbox = Sandbox(LEVEL, tmp_path, tmp_path / "home", environment={"HOME": str(tmp_path)})
    sandbox.look([str(git)])
    assert str(git / "config") in sandbox.places().locked
    (tmp_path / ".git").mkdir()
    job = LongSandbox(LEVEL, tmp_path, tmp_path / "home", environment={"HOME": str(tmp_path)})
    assert str(tmp_path / ".git") in job.places().locked


# Which backend is taken.


@pytest.fixture
def darwin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")


@pytest.mark.usefixtures("darwin")
def test_a_sandbox_exec_that_protects_nothing_is_not_believed(
    stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_probe, "PROGRAM", stand_in)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    level = probe(tmp_path / "home")
    assert level.backend == "none"
    assert [str(reason) for reason in level.reason] == ["seatbelt: it let a command write outside"]
    assert kept(tmp_path / "home", None, tmp_path) == level


@pytest.mark.usefixtures("darwin")
def test_it_is_taken_where_it_holds(stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_probe, "PROGRAM", stand_in)
    monkeypatch.setattr(sandbox_probe, "trial", lambda *_, network: None)
    level = probe(tmp_path / "home")
    assert level == SandboxLevel("seatbelt", stand_in)
    assert "sandbox-exec" in level.describe().text(Catalog("zh"))
    assert Sandbox(level, tmp_path, tmp_path / "home").wrap(["true"])[0] == stand_in


@pytest.mark.usefixtures("darwin")
def test_without_the_program_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_probe, "PROGRAM", "/nonexistent/sandbox-exec")
    level = probe(tmp_path / "home")
    assert [str(reason) for reason in level.reason] == ["/nonexistent/sandbox-exec is not installed"]


@pytest.mark.skipif(sys.platform != "darwin", reason="the real sandbox-exec is on macOS alone")
def test_the_real_one_holds(tmp_path: Path) -> None:
    assert probe(tmp_path / "home") == LEVEL
