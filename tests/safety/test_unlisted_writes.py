"""A hostile project or model gets nothing from an approved line beyond what the question listed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from box import Box, available, level_of, users

from coder.base.process.programs import Runs, start
from coder.policy.sandbox.backends import Sandbox
from coder.policy.sandbox.caches import clear_layers, settings_without_credentials, take_layer
from coder.policy.sandbox.grants import Grants
from coder.policy.sandbox.places import LineAccess
from coder.policy.shell.verdict import OutsideWrite
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Event, Project

RUNGS = available()
EVIL = "#!/bin/sh\nfor d in ~ ../out; do echo evil > $d/.bashrc; echo evil > $d/kept; done\n"


@pytest.fixture(params=RUNGS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def play(
    project: Project,
    backend: str,
    *lines: str,
    answer: Literal["yes", "no"] = "yes",
    meanwhile: Callable[[], None] = lambda: None,
    **options: Any,
) -> None:
    """The model runs these lines, all of which the person approves; `meanwhile` happens before the answer."""

    def answered(asked: ApprovalRequested) -> ApprovalReply:
        meanwhile()
        return ApprovalReply(asked.approval_id, answer)

    async def scenario(url: str) -> None:
        driver = Driver(project, url, **{"can_ask": True, **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()
        await driver.send("go", answered)
        await driver.close()

    with ScriptedServer([*({"calls": [bash(line)]} for line in lines), {"text": "done"}]) as server:
        asyncio.run(scenario(server.url))


def played(project: Project, backend: str, *lines: str, **options: Any) -> list[Event]:
    """Their results."""
    play(project, backend, *lines, **options)
    return project.of_type("observation")


UNLISTED = [
    "./mkdir ../out/d",
    "./mkdir ~/d",
    "mkdir ~/d; echo evil > link",
    "ln -s .bashrc ~/x; echo evil > ~/x",
    "ln -s kept ../out/x; echo evil > ../out/x",
    "mv tokept ../out/x; echo evil > ../out/x",
    "cp -rT tree ~",
    "cp -rT tree ../out",
    "cp -r --parents .bashrc/x ../out",
    "cp -rvt ../out/sub mine ../out/f",
    "cp -r --t=../out/sub mine ../out/f",
    "cp -r mine ../out/kept -bS ../zz",
    "mv -b mine ../out/kept",
    "rmdir -p ../out/empty/inner",
    "chmod -x ../out/kept ../out/sub; mkdir ../out/d",
    "printf -v PATH %s:/usr/bin:/bin .; mkdir ../out/d",
    "mkdir ../out/d ~+/../out/sub/mine",
    "chmod 755 ../out; ./mkdir",
]


@pytest.mark.parametrize("line", UNLISTED)
def test_an_approved_line_writes_nothing_that_was_not_listed(
    project: Project, backend: str, line: str
) -> None:
    out = project.cwd.parent / "out"
    for directory in (out / "sub", out / "empty" / "inner", project.cwd / "tree"):
        directory.mkdir(parents=True)
    (out / "kept").write_text("kept", encoding="utf-8")
    (project.home / ".bashrc").write_text("kept", encoding="utf-8")
    project.write("mine", "evil")
    project.write("tree/.bashrc", "evil")
    project.write("tree/kept", "evil")
    project.write("mkdir", EVIL).chmod(0o755)
    (project.cwd / "tokept").symlink_to("kept")
    played(project, backend, "ln -sfn ~/.bashrc link" if "link" in line else "true", line)
    assert (out / "kept").read_text(encoding="utf-8") == "kept"
    assert (project.home / ".bashrc").read_text(encoding="utf-8") == "kept"
    assert (out / "empty").is_dir()
    assert not any((out / name).exists() for name in (".bashrc", "sub/mine", "kept~", "kept../zz"))


def test_known_commands_are_the_system_s(
    project: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = project.cwd.parent / "out"
    out.mkdir()
    project.write("bin/mkdir", EVIL).chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.cwd}/bin:{os.environ['PATH']}")
    played(project, backend, "mkdir ../out/d")
    assert sorted(path.name for path in out.iterdir()) == ["d"]


@pytest.mark.parametrize("line", ["rmdir ~/sub", "mkdir /made-by-a-test", "mkdir -p /made-by-a-test/a/b"])
def test_nobody_is_asked_about_what_no_approval_opens(project: Project, backend: str, line: str) -> None:
    (project.home / "sub").mkdir()
    (result,) = played(project, backend, line, answer="no")
    assert 'sandbox: "off"' in result["content"]


@pytest.mark.parametrize("line", ["mkdir ~/d", "mv mine ~/d", "mkdir ../out/d"])
def test_landlock_opens_neither_the_home_nor_another_repository(project: Project, line: str) -> None:
    if "landlock" not in RUNGS:
        pytest.skip("needs Landlock")
    (project.cwd.parent / "out" / ".git").mkdir(parents=True)
    project.write("mine", "mine")
    (result,) = played(project, "landlock", line, answer="no")
    assert 'sandbox: "off"' in result["content"]


class Staging:
    """Places that are never opened, with something in them."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        if "bwrap" not in RUNGS:
            pytest.skip("needs mounts")
        self.home, self.out = project.home, project.cwd.parent / "out"
        (self.out / ".git" / "hooks").mkdir(parents=True)
        (self.out / "bin").mkdir()
        (self.home / "link").symlink_to("notes")
        for path in (self.home / ".bashrc", self.home / "notes", self.out / "kept"):
            path.write_text("kept", encoding="utf-8")
        project.write("mine", "mine")
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{self.out}/bin")

    def tree(self) -> dict[str, str]:
        """All files and links, but for coder's own."""
        found = {}
        for top in (self.home, self.out):
            for path in sorted(top.rglob("*")):
                name = str(path.relative_to(top.parent))
                if not name.startswith("home/.coder"):
                    link = str(path.readlink()) if path.is_symlink() else ""
                    found[name] = link or (path.read_text(encoding="utf-8") if path.is_file() else "")
        return found


@pytest.fixture
def staging(project: Project, monkeypatch: pytest.MonkeyPatch) -> Staging:
    return Staging(project, monkeypatch)


STAGED: dict[str, dict[str, str | None]] = {
    "mkdir ~/d": {"home/d": ""},
    "mkdir -p ~/d/e && cp mine ~/d/e/f": {"home/d": "", "home/d/e": "", "home/d/e/f": "mine"},
    "mkdir ~/d && echo x > ~/d/f": {"home/d": "", "home/d/f": "x\n"},
    "mv mine ~/": {"home/mine": "mine"},
    "mv mine ~/notes": {"home/notes": "mine"},
    "rm ~/notes": {"home/notes": None},
    "mv ~/notes ~/moved": {"home/notes": None, "home/moved": "kept"},
    "touch ~/new; cat ~/notes ~/link > seen": {"home/new": ""},
    "mkdir ../out/d": {"out/d": ""},
    "ln -s kept ../out/x": {"out/x": "kept"},
    "cp -r ../out/bin ../out/more": {"out/more": ""},
    "mkdir ~/d && false": {"home/d": ""},
    # A program that is not known gets the same, and no more.
    'python3 -c \'open("../out/kept", "w")\'; mkdir ../out/d': {"out/d": ""},
    "mkdir ~/d && python3 -c 'import os; os.mkdir(os.path.expanduser(\"~/e\"))'": {"home/d": ""},
}


@pytest.mark.parametrize("line", STAGED)
def test_a_listed_entry_is_made_where_the_directory_is_not_opened(
    project: Project, staging: Staging, line: str
) -> None:
    before = staging.tree()
    played(project, "bwrap", line)
    expected = {name: text for name, text in {**before, **STAGED[line]}.items() if text is not None}
    assert staging.tree() == expected
    assert not list(project.home.glob(".coder/staged/*"))


def test_a_file_that_was_replaced_meanwhile_is_kept(tmp_path: Path) -> None:
    root, notes = tmp_path / "project", tmp_path / "out" / "notes"
    for directory in (root, notes.parent, tmp_path / "own"):
        directory.mkdir()
    notes.write_text("old", encoding="utf-8")
    rules = Sandbox(level_of("bwrap"), root, tmp_path / "own").places()
    grants = Grants(
        [OutsideWrite(str(notes), entry=True, gone=True)],
        rules,
        plain=True,
        mounts=False,
        state=tmp_path / "own",
        refused=lambda _directory: True,
    )
    (staged,) = grants.staged.values()
    Path(staged.stage, "notes").unlink()  # as `rm` does
    (tmp_path / "new").write_text("theirs", encoding="utf-8")
    (tmp_path / "new").replace(notes)
    assert "replaced meanwhile" in str(grants.close())
    assert notes.read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("line", ["echo x > ../place/f", "mkdir ../place/d", "touch ../place/sub/f"])
@pytest.mark.parametrize("by", ["link", "directory"])
def test_another_directory_in_its_place_is_not_written(
    project: Project, backend: str, line: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder.engine.calls.require_same_line", lambda *_: None)  # swapped later
    place, other = project.cwd.parent / "place", project.cwd.parent / "other"
    for directory in (place / "sub", other / "sub"):
        directory.mkdir(parents=True)

    def swap() -> Literal["yes"]:
        place.rename(project.cwd.parent / "away")
        place.symlink_to(other) if by == "link" else other.rename(place)
        return "yes"

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()
        await driver.send("go", lambda asked: ApprovalReply(asked.approval_id, swap()))
        await driver.close()

    with ScriptedServer([{"calls": [bash(line)]}, {"text": "done"}]) as server:
        asyncio.run(scenario(server.url))
    (result,) = project.of_type("observation")
    assert "not the place that was approved" in result["content"]
    assert [path.name for path in place.rglob("*")] == ["sub"]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_sandbox_opens_the_directory_that_was_held(tmp_path: Path, backend: str, swapped: bool) -> None:
    """Although another takes its place after the last look at it."""
    root, home, out, other = (tmp_path / name for name in ("project", "home", "out", "other"))
    for directory in (root, home, out, other):
        directory.mkdir()
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    sandbox = Sandbox(level_of(backend), root, tmp_path / "own", environment=environment)
    grants = Grants(
        [OutsideWrite(f"{out}/d", entry=True)], sandbox.places(), plain=True, mounts=backend == "bwrap"
    )
    line = sandbox.wrap(["/bin/mkdir", f"{out}/d"], LineAccess(granted=grants.opened, plain=True))
    if swapped:
        out.rename(tmp_path / "away")
        out.symlink_to(other)
    process = start(line, runs=Runs.IN_SANDBOX, environment=environment, cwd=root)
    assert bool(process.wait()) == swapped
    grants.close()
    assert [path.name for path in (tmp_path / "away" if swapped else out).iterdir()] == ["d"] * (not swapped)
    assert list(other.iterdir()) == []


def test_a_link_in_the_private_tmp_moves_and_removes_nothing(tmp_path: Path) -> None:
    secret, root, home = tmp_path / "secret", tmp_path / "project", tmp_path / "home"
    for directory in (secret, root, home):
        directory.mkdir()
    (secret / "key").write_text("key", encoding="utf-8")
    (secret / "empty").touch()
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    rules = Sandbox(level_of("bwrap"), root, tmp_path / "own", environment=environment).places()
    real = Path(f"/tmp/coder-test-{os.getpid()}-{os.urandom(4).hex()}")
    real.mkdir()
    link = Path(rules.scratch, real.name)
    try:
        writes = [OutsideWrite(str(real / "key"), entry=True), OutsideWrite(str(real / "empty"))]
        grants = Grants(writes, rules, plain=False, mounts=True)
        link.symlink_to(secret)
        grants.close()
        assert sorted(path.name for path in secret.iterdir()) == ["empty", "key"]
    finally:
        link.unlink(missing_ok=True)
        for path in real.iterdir():
            path.unlink()
        real.rmdir()


# what commands leave where coder reads and removes


def test_settings_are_not_copied_through_a_link(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cargo").mkdir(parents=True)
    (home / ".cargo" / "config.toml").write_text("[net]\n", encoding="utf-8")
    layer = take_layer(tmp_path / "own", "/project")
    assert layer is not None
    moved = layer.directory / "moved" / ".cargo"
    moved.mkdir(parents=True)
    (moved / "config.toml").symlink_to(tmp_path / "made")
    layer.caches(str(home), {"PATH": os.environ["PATH"]}, [], None)
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif("bwrap" not in RUNGS, reason="needs overlay mounts")
@pytest.mark.parametrize("name", ["huggingface", "huggingface/token"])
def test_a_link_in_a_layer_does_not_lead_bubblewrap_out(project: Project, name: str) -> None:
    cache = project.home / ".cache" / "huggingface"
    cache.mkdir(parents=True)
    target = f"/oldroot{project.home}/made" if "/" in name else f"/oldroot{project.home}"
    link = project.home / ".cache" / name
    plant = f"rm -rf {link} && ln -s {target} {link} && touch planted"
    play(project, "bwrap", plant, mode="yolo")
    assert (project.cwd / "planted").exists()
    (cache / "token").write_text("very-secret", encoding="utf-8")
    before = sorted(path.name for path in project.home.iterdir())
    play(project, "bwrap", f"cat {cache}/token > seen; true", mode="yolo")
    assert (project.cwd / "seen").read_text(encoding="utf-8") == ""
    assert sorted(path.name for path in project.home.iterdir()) == before


def test_a_layer_with_a_link_to_a_directory_is_removed(tmp_path: Path) -> None:
    layer = take_layer(tmp_path / "own", "/project")
    assert layer is not None
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (layer.directory / "link").symlink_to(outside)
    layer.close()
    clear_layers(tmp_path / "own")
    assert not layer.directory.exists()
    assert outside.stat().st_mode & 0o777 == 0o750


def test_a_layer_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    layer = take_layer(tmp_path / "own", "/project")
    assert layer is not None
    command = "import os\nfor _ in range(2500):\n    os.mkdir('d')\n    os.chdir('d')"
    subprocess.run([sys.executable, "-c", command], cwd=layer.directory, check=True)
    layer.close()
    clear_layers(tmp_path / "own")
    assert not layer.directory.exists()


def test_bundler_s_credentials_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / ".bundle").mkdir()
    (tmp_path / ".bundle" / "config").write_text(
        '---\nBUNDLE_PATH: "vendor"\nBUNDLE_GEMS__EXAMPLE__COM: "me:hunter2"\n'
        'BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "https://mirror.example.com"\n',
        encoding="utf-8",
    )
    ((_, copy),) = settings_without_credentials(str(tmp_path), tmp_path / "state")
    shown = Path(copy).read_text(encoding="utf-8")
    assert "hunter2" not in shown
    assert "BUNDLE_PATH" in shown
    assert "mirror.example.com" in shown


@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p $MAIN/hooks; echo evil > $MAIN/hooks/pre-commit",
        "echo ../evil > $MAIN/commondir",
        "echo evil > $MAIN/config.worktree",
    ],
)
def test_a_linked_worktree_does_not_steer_the_main_repository(
    project: Project, backend: str, line: str
) -> None:
    main = project.cwd.parent / "main"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.templateDir="]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    for path in sorted(project.cwd.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", "-f", str(project.cwd)], check=True)
    played(project, backend, line.replace("$MAIN", f"{main}/.git") + "; true", mode="yolo")
    assert not any((main / ".git" / name).exists() for name in ("commondir", "config.worktree"))
    assert not (main / ".git" / "hooks" / "pre-commit").exists()


# what outlives a command of plan mode

KEPT = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None)
done = []
if libc.shmget(KEY, 4096, 0o1600) >= 0:
    done.append("shared memory")
    libc.shmctl(libc.shmget(KEY, 4096, 0o600), 0, None)
try:
    fcntl.ioctl(os.open("a.txt", os.O_RDONLY), 0x40086602, (64).to_bytes(8, "little"))
    done.append("flags of a file")
except OSError:
    pass
try:
    os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0))
    done.append("priority of the person's processes")
except OSError:
    pass
print(done)
"""


@pytest.mark.parametrize("user", users())
def test_plan_mode_changes_nothing_beside_files_either(backend: str, user: str) -> None:
    box = Box(backend, user)
    try:
        script = KEPT.replace("KEY", str(int.from_bytes(os.urandom(3), "big") + 1))
        assert box.run(f"python3 - <<'end'\n{script}\nend", plan=True).stdout == "[]\n"
    finally:
        box.close()


@pytest.mark.parametrize("user", users())
def test_a_throw_away_directory_goes_whatever_is_in_it(backend: str, user: str) -> None:
    box = Box(backend, user)
    try:
        ended = box.run("mkdir -p $TMPDIR/a; umask 777; mkdir $TMPDIR/a/b $TMPDIR/c; echo $TMPDIR", plan=True)
        assert ended.exit_code == 0
        left = Path(ended.stdout.strip())
        assert left == Path("/dev/shm") or not left.exists()
    finally:
        box.close()


SWAPPED = [
    "echo evil > mine",
    "cp evil mine",
    "cp evil mine; mkdir ../out/d",
    "cp evil sub/kept; mkdir ../out/d",
    "cp evil mine && mv evil ../out/sub/",
    "mv evil ../out/sub/; rm mine",
    "echo evil > mine; rm -r ../out/empty",
    "touch mine; truncate -s 0 mine; mkdir ../out/d",
    "chmod 777 mine; mkdir ../out/d",
    "cp evil ../out/sub/x; tee mine < evil",
    "rm sub/kept; mkdir ../out/d",
    "mv evil sub; mkdir ../out/d",
    "mv sub/kept ../out/d",
    "chmod -R 755 ../out; echo evil > mine",
    "mkdir sub/../../out/d; rm sub/kept",
    "cd sub; rm kept; mkdir ../../out/d",
]


@pytest.mark.parametrize("line", SWAPPED)
def test_a_link_put_in_place_of_a_workspace_file_after_the_question_writes_nothing_outside(
    project: Project, backend: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a background job does, even after the line was looked at again."""
    monkeypatch.setattr("coder.engine.calls.require_same_line", lambda *_: None)
    out = project.cwd.parent / "out"
    for directory in (out / "sub", out / "empty", project.cwd / "sub"):
        directory.mkdir(parents=True)
    for name in ("mine", "sub/kept", "../out/kept", "../out/sub/kept"):
        project.write(name, "kept")
    project.write("evil", "evil")

    def swap() -> None:
        (project.cwd / "mine").unlink()
        (project.cwd / "mine").symlink_to("../out/kept")
        (project.cwd / "sub" / "kept").unlink()
        (project.cwd / "sub").rmdir()
        (project.cwd / "sub").symlink_to("../out/sub")

    play(project, backend, line, meanwhile=swap)
    for file in (out / "kept", out / "sub" / "kept"):
        assert file.read_text(encoding="utf-8") == "kept"
        assert backend == "landlock" or file.stat().st_mode & 0o777 != 0o777  # which cannot stop that
    assert sorted(path.name for path in (out / "sub").iterdir()) in (
        ["evil", "kept"],
        ["kept"],
        ["kept", "x"],
    )
