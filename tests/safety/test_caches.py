"""Package managers work in the sandbox, and never write to the person's own caches."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from box import available, fingerprint, level_of

from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.policy.sandbox import caches
from coder.policy.sandbox.backends import Sandbox
from coder.policy.sandbox.caches import Layer, LayerUse, clear_layers, layers_in_use, take_layer
from coder.policy.sandbox.caches import settings_without_credentials as public_settings
from coder.protocol.events import Notice
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, of

RUNGS = available()


@pytest.fixture(params=RUNGS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.skipif("bwrap" not in RUNGS, reason="needs overlay mounts")
def test_a_second_command_at_the_same_time_has_a_layer_of_its_own(tmp_path: Path) -> None:
    first, second = (take_layer(tmp_path, "/project") for _ in range(2))
    other = take_layer(tmp_path, "/other")
    assert first is not None
    assert second is not None
    assert other is not None
    assert len({first.directory, second.directory, other.directory}) == 3
    directory = first.directory
    first.close()
    again = take_layer(tmp_path, "/project")
    assert again is not None
    assert again.directory == directory


def test_layers_are_closed_to_others(tmp_path: Path) -> None:
    """In a `$CODER_HOME` that the person made: others could put their own layer in the place of ours,
    where the umask lets them write."""
    before = os.umask(0o002)
    try:
        layer = take_layer(tmp_path, "/project")
    finally:
        os.umask(before)
    assert layer is not None
    layer.close()
    made = [path for path in layer.directory.parents if path.is_relative_to(tmp_path) and path != tmp_path]
    assert {path.stat().st_mode & 0o777 for path in (layer.directory, *made)} == {0o700}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    return found


def run(backend: str, tmp_path: Path, home: Path, line: str, **environment: str) -> ProcessOutcome:
    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    given = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    sandbox = Sandbox(level_of(backend), root, tmp_path / "own", environment=given, caches=True)

    async def scenario() -> ProcessOutcome:
        return await run_process(
            sandbox.wrap(["/bin/sh", "-c", line]),
            runs=Runs.IN_SANDBOX,
            cwd=root,
            environment=given,
            timeout_ms=60_000,
            keep_bytes=10_000,
            spill_to=tmp_path / "spilled",
            spill_limit=0,
            spill_from=10_000,
            on_output=lambda _text: None,
        )

    return asyncio.run(scenario())


def test_no_layer_shows_a_credential(backend: str, tmp_path: Path, home: Path) -> None:
    hidden = [
        ".cargo/credentials.toml",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".cache/huggingface/token",
    ]
    for name in hidden:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("token = very-secret\n", encoding="utf-8")
    outcome = run(
        backend,
        tmp_path,
        home,
        f"cd {home}; cat {' '.join(hidden)}; grep -rs very-secret {home} $CARGO_HOME; true",
    )
    assert "very-secret" not in outcome.stdout
    for name in hidden:
        assert (home / name).read_text(encoding="utf-8") == "token = very-secret\n"


def test_programs_on_the_person_s_path_stay_as_they_are(backend: str, tmp_path: Path, home: Path) -> None:
    tool = home / ".cargo" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho true tool\n", encoding="utf-8")
    tool.chmod(0o755)
    line = f"echo evil > {tool}; cp /bin/ls {tool.parent}/other; rm -f {tool}; tool"
    outcome = run(backend, tmp_path, home, line, PATH=f"{tool.parent}:{os.environ['PATH']}")
    assert outcome.stdout == "true tool\n"
    assert [path.name for path in tool.parent.iterdir()] == ["tool"]


def test_a_cache_that_is_on_path_itself_is_not_layered(backend: str, tmp_path: Path, home: Path) -> None:
    (home / ".npm").mkdir()
    line = f"touch {home}/.npm/made && echo written"
    outcome = run(backend, tmp_path, home, line, PATH=f"{home}/.npm:{os.environ['PATH']}")
    assert outcome.stdout == ""
    assert list((home / ".npm").iterdir()) == []


def test_a_cache_that_is_missing_is_made_in_the_layer(backend: str, tmp_path: Path, home: Path) -> None:
    line = 'mkdir -p "$XDG_CACHE_HOME/x" && echo 7 > "$XDG_CACHE_HOME/x/y" && cat "$XDG_CACHE_HOME/x/y"'
    assert run(backend, tmp_path, home, line).stdout == "7\n"
    assert run(backend, tmp_path, home, 'cat "$XDG_CACHE_HOME/x/y"').stdout == "7\n"
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "variable", "target"), [("go", "GOBIN", "go/bin"), ("cargo", "CARGO_INSTALL_ROOT", ".cargo")]
)
def test_a_program_is_not_installed_where_nobody_looks(
    backend: str, tmp_path: Path, home: Path, program: str, variable: str, target: str
) -> None:
    """The cache lies elsewhere, and `go install` would put programs beside it."""
    found = tmp_path / "programs" / program
    found.parent.mkdir()
    found.write_text("#!/bin/sh\n", encoding="utf-8")
    found.chmod(0o755)
    path = f"{found.parent}:{os.environ['PATH']}"
    install = f'echo "${variable}"; mkdir -p "${variable}" && echo x > "${variable}/tool" && echo installed'
    outcome = run(backend, tmp_path, home, install, PATH=path)
    assert outcome.stdout == f"{home}/{target}\n"
    assert not (home / target / "tool").exists()
    assert (
        run(backend, tmp_path, home, f"echo ${variable}", PATH=path, **{variable: "/own"}).stdout == "/own\n"
    )


def test_a_cache_that_a_variable_moved_is_found_there(backend: str, tmp_path: Path, home: Path) -> None:
    moved = tmp_path / "data" / "pip"
    moved.mkdir(parents=True)
    (moved / "kept").write_text("the person's\n", encoding="utf-8")
    before = fingerprint(moved)
    line = 'echo x > "$PIP_CACHE_DIR/made" && cat "$PIP_CACHE_DIR/made" "$PIP_CACHE_DIR/kept"'
    outcome = run(backend, tmp_path, home, line, PIP_CACHE_DIR=str(moved))
    assert outcome.stdout.splitlines()[0] == "x"
    assert "the person's" in outcome.stdout or backend != "bwrap"
    assert fingerprint(moved) == before


def test_registry_settings_are_seen_without_credentials(backend: str, tmp_path: Path, home: Path) -> None:
    (home / ".npmrc").write_text(
        "registry=https://registry.example.com/\n"
        "//registry.example.com/:_authToken=very-secret\n"
        "//other.example.com/:_password=very-secret\n"
        "proxy=http://user:very-secret@proxy.example.com\n"
        "fund=false\n",
        encoding="utf-8",
    )
    (home / ".yarnrc.yml").write_text(
        "npmRegistryServer: https://registry.example.com\n"
        "npmAuthToken: very-secret\n"
        "npmRegistries:\n  //x.example.com:\n    npmAuthToken: very-secret\n    npmAlwaysAuth: true\n",
        encoding="utf-8",
    )
    shown = {
        Path(path).name: Path(copy).read_text("utf-8") for path, copy in public_settings(str(home), tmp_path)
    }
    assert shown[".npmrc"] == "registry=https://registry.example.com/\nfund=false\n"
    assert "npmRegistryServer" in shown[".yarnrc.yml"]
    assert "very-secret" not in "".join(shown.values())
    line = 'cat "${npm_config_userconfig:-$HOME/.npmrc}"; cat "$HOME/.yarnrc.yml"'
    outcome = run(backend, tmp_path, home, line)
    assert outcome.stdout.startswith("registry=https://registry.example.com/\n")
    assert "very-secret" not in outcome.stdout


def test_layers_are_counted_and_cleared(tmp_path: Path) -> None:
    def used(project: str) -> Layer:
        layer = take_layer(tmp_path, project)
        assert layer is not None
        (layer.directory / "data").write_bytes(b"x" * 100_000)
        work = layer.directory / "work"
        work.mkdir(exist_ok=True)
        work.chmod(0)
        return layer

    busy = used("/busy")
    used("/idle").close()
    assert [one.bytes >= 100_000 for one in layers_in_use(tmp_path)] == [True, True]
    assert clear_layers(tmp_path) >= 100_000
    assert [one.directory for one in layers_in_use(tmp_path)] == [busy.directory.parent]
    busy.close()
    clear_layers(tmp_path)
    assert layers_in_use(tmp_path) == []


@pytest.mark.parametrize(
    ("since", "most", "left"),
    [
        (lambda now: now - 50, 10**9, ["new"]),
        (lambda _now: 0, 150_000, ["new"]),
        (lambda _now: 0, 10**9, ["new", "old"]),
    ],
)
def test_old_layers_and_those_beyond_the_limit_go_first(
    tmp_path: Path, since: Callable[[float], float], most: int, left: list[str]
) -> None:
    now = time.time()
    names = {}
    for name, age in (("old", 100), ("new", 0)):
        layer = take_layer(tmp_path, name)
        assert layer is not None
        (layer.directory / "data").write_bytes(b"x" * 100_000)
        names[layer.directory.parent] = name
        for file in (layer.directory / "lock", layer.directory.parent):
            os.utime(file, (now - age, now - age))
        layer.close()
    clear_layers(tmp_path, unused_since=since(now), most_bytes=most)
    assert sorted(names[one.directory] for one in layers_in_use(tmp_path)) == left


ABSURD = {"/": "/", "proc": "/proc", "dev": "/dev", "sys": "/sys", "home": "{home}", "above": "{home}/..",
          "workspace": "{root}", "file": "{home}/file", "relative": "some/where", "missing": "{home}/missing",
          "own": "{state}"}  # fmt: skip


@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("variable", ["CARGO_HOME", "XDG_CACHE_HOME", "GOPATH"])
def test_an_absurd_variable_fails_no_command(
    backend: str, tmp_path: Path, home: Path, variable: str, value: str
) -> None:
    (home / "file").touch()
    (home / ".cache").mkdir()
    (tmp_path / "own").mkdir()
    value = value.format(home=home, root=tmp_path / "project", state=tmp_path / "own")
    outcome = run(backend, tmp_path, home, "touch made && echo works", **{variable: value})
    assert (outcome.stdout, outcome.stderr) == ("works\n", "")
    assert sorted(path.name for path in home.iterdir()) == [".cache", "file"]


@pytest.mark.skipif("bwrap" not in RUNGS, reason="needs overlay mounts")
def test_a_layer_that_cannot_be_mounted_is_replaced_with_a_note(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that no overlay takes."""
    monkeypatch.setattr(caches, "_NEVER_LAYERED", ())
    environ = project.environ
    monkeypatch.setattr(project, "environ", lambda url: environ(url, CARGO_HOME="/proc/sys/fs"))
    (project.home / ".npm").mkdir()
    seen: list[str] = []

    async def scenario(url: str) -> None:
        driver = Driver(project, url, mode="yolo")
        driver.engine.agent.sandbox.level = level_of("bwrap")
        driver.start()
        await driver.send("go")
        await driver.close()
        seen.extend(str(notice.text) for notice in of(driver.seen, Notice))

    line = f'touch "$CARGO_HOME/made" {project.home}/.npm/made && echo works'
    with ScriptedServer([{"calls": [bash(line)]}, {"calls": [bash(line)]}, {"text": "done"}]) as server:
        asyncio.run(scenario(server.url))
    assert [event["content"] for event in project.of_type("observation")] == ["works", "works"]
    assert [text for text in seen if "/proc/sys/fs" in text] == [
        "Commands get caches of their own: no layer can be mounted over /proc/sys/fs."
    ]
    assert list((project.home / ".npm").iterdir()) == []


def test_the_limit_holds_within_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are measured when the disk has lost a tenth of the limit, not with every command."""
    measured = []

    def measure(home: Path) -> list[LayerUse]:
        measured.append(home)
        return layers_in_use(home)

    free = 1000
    disk = SimpleNamespace(f_bavail=0, f_frsize=1000)
    monkeypatch.setattr(caches, "MOST_BYTES", 100_000)
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)
    monkeypatch.setattr(caches, "layers_in_use", measure)
    for size in (0, 5, 5, 95):
        layer = take_layer(tmp_path, "/project")
        assert layer is not None
        (layer.directory / "data").write_bytes(bytes(size * 1000 + 5000))
        free -= size
        disk.f_bavail = free
        while pruning := [thread for thread in threading.enumerate() if thread.name == "prune caches"]:
            pruning[0].join()  # the daily one
        before = len(measured)
        layer.close()
        while pruning := [thread for thread in threading.enumerate() if thread.name == "prune caches"]:
            pruning[0].join()
        assert len(measured) - before == (size == 95)
    assert layers_in_use(tmp_path) == []
