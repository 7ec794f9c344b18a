"""Which backend is taken, what is remembered of that, and when a failed command is the sandbox's doing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from box import NOBODY, Box, available, bwrap, level_of, why_not_nobody

from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.policy.sandbox import places
from coder.policy.sandbox.backends import Hitch, Sandbox, SandboxLevel, probe
from coder.policy.sandbox.bubblewrap import find_bwraps
from coder.policy.sandbox.probe import connecting, forget
from coder.texts import Catalog

RUNGS = available()


def fake_bwrap(directory: Path, body: str) -> str:
    """A `bwrap` that does something else; first on PATH, so that it is the one found."""
    directory.mkdir()
    program = directory / "bwrap"
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(directory)


@pytest.fixture
def only_the_system_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the bundled bwrap is not installed."""
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if "site-packages" not in entry])


@pytest.mark.skipif("bwrap" not in RUNGS, reason="no bubblewrap here")
def test_a_bwrap_of_the_system_without_overlays_gives_way_to_the_bundled_one(tmp_path: Path) -> None:
    old = f'for word; do case "$word" in --overlay*) exit 1;; esac; done; exec {bwrap()} "$@"'
    path = fake_bwrap(tmp_path / "bin", old)
    level = probe(tmp_path, path)
    assert (level.program, level.overlays) == (find_bwraps("", "/nonexistent")[0], True)


@pytest.mark.skipif("bwrap" not in RUNGS, reason="no bubblewrap here")
def test_the_system_s_bwrap_is_used_where_there_is_no_other(tmp_path: Path, only_the_system_s: None) -> None:
    old = f'for word; do case "$word" in --overlay*) exit 1;; esac; done; exec {bwrap()} "$@"'
    path = fake_bwrap(tmp_path / "bin", old)
    level = probe(tmp_path, path)
    assert (level.backend, level.program, level.overlays) == ("bwrap", f"{path}/bwrap", False)


def test_the_strongest_rung_is_found(tmp_path: Path) -> None:
    assert probe(tmp_path).backend == (RUNGS[0] if RUNGS else "none")


@pytest.mark.skipif("landlock" not in RUNGS, reason="no Landlock here")
def test_a_broken_bwrap_is_passed_over_and_named(tmp_path: Path, only_the_system_s: None) -> None:
    path = fake_bwrap(tmp_path / "bin", "echo 'setting up uid map: Permission denied' >&2; exit 1")
    level = probe(tmp_path, path)
    assert level.backend == "landlock"
    assert "uid map" in str(level.reason[0])


@pytest.mark.skipif("landlock" not in RUNGS, reason="no Landlock here")
def test_a_bwrap_that_protects_nothing_is_not_believed(tmp_path: Path, only_the_system_s: None) -> None:
    body = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    level = probe(tmp_path, fake_bwrap(tmp_path / "bin", body))
    assert level.backend == "landlock"
    assert str(level.reason[0]) == "bwrap: it let a command write outside"


def test_with_no_rung_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(level: SandboxLevel, directory: Path, network: bool) -> Hitch:
        return Hitch("sandbox.why.failed", {"line": "not here"}, level.backend)

    monkeypatch.setattr("coder.policy.sandbox.probe.trial", failed)
    level = probe(tmp_path, fake_bwrap(tmp_path / "bin", "exit 1"))
    assert level.backend == "none"
    said = Catalog("en").say("sandbox.first_use", level=level.describe())
    assert "none (bwrap: it says: not here, landlock: it says: not here)" in said
    assert "bwrap：报错：not here" in level.describe().text(Catalog("zh"))
    assert probe(tmp_path, str(tmp_path / "bin")) == level  # as it was kept


def test_without_a_bwrap_that_is_the_reason_in_either_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coder.policy.sandbox.probe.find_bwraps", lambda *_: [])
    level = probe(tmp_path)
    assert [phrase.text(Catalog("en")) for phrase in level.reason][:1] == ["bwrap is not installed"]
    assert [phrase.text(Catalog("zh")) for phrase in level.reason][:1] == ["未安装 bwrap"]


def test_the_answer_is_kept_until_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f'echo run >> {tmp_path}/runs; while [ "$1" != -- ]; do shift; done; exit 1'
    path = fake_bwrap(tmp_path / "bin", body)
    runs = tmp_path / "runs"
    first = probe(tmp_path, path)
    count = len(runs.read_text().splitlines())
    assert probe(tmp_path, path) == first
    assert len(runs.read_text().splitlines()) == count
    program = tmp_path / "bin" / "bwrap"
    os.utime(program, ns=(1, 1))
    probe(tmp_path, path)
    assert len(runs.read_text().splitlines()) == 2 * count
    forget(tmp_path)
    probe(tmp_path, path)
    assert len(runs.read_text().splitlines()) == 3 * count
    (tmp_path / "sandbox.json").write_text("{torn", encoding="utf-8")
    probe(tmp_path, path)
    assert len(runs.read_text().splitlines()) == 4 * count


@pytest.mark.parametrize(("backend", "found"), [("bubblewrap", "bwrap"), ("landlock", "landlock")])
def test_the_backend_can_be_chosen(
    tmp_path: Path, backend: Literal["bubblewrap", "landlock"], found: str
) -> None:
    level = probe(tmp_path, backend=backend)
    assert level.backend == (found if found in RUNGS else "none")
    assert probe(tmp_path).backend == (RUNGS[0] if RUNGS else "none")


def test_without_the_chosen_backend_there_is_none(tmp_path: Path, only_the_system_s: None) -> None:
    assert probe(tmp_path, str(tmp_path), backend="bubblewrap").backend == "none"


def test_a_home_that_cannot_be_written_does_not_cost_the_sandbox() -> None:
    """As in a container whose user owns no home."""
    if why := why_not_nobody():
        pytest.skip(why)
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with tempfile.TemporaryDirectory() as work:
        Path(work).chmod(0o777)
        home = Path(work, "home")
        home.mkdir(0o555)
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": work}
        line = [*(become if os.getuid() == 0 else []), sys.executable, "-m", "coder", "doctor"]
        done = subprocess.run(line, cwd=work, env=environment, capture_output=True, text=True, check=False)
    (row,) = [row for row in done.stdout.splitlines() if " sandbox " in row]
    assert row.startswith("ok" if RUNGS else "✗"), row


def test_no_probe_leftovers(tmp_path: Path) -> None:
    probe(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["sandbox.json"]


def test_each_level_has_words_in_both_languages() -> None:
    for lang in ("en", "zh"):
        texts = Catalog("zh" if lang == "zh" else "en", strict=True)
        for level in (SandboxLevel("bwrap", "/usr/bin/bwrap"), SandboxLevel("landlock"), SandboxLevel()):
            assert level.describe().text(texts)


def test_sandbox_costs_nothing_at_start_up() -> None:
    loaded = "print([m for m in sys.modules if 'sandbox_' in m or m == 'ctypes'])"
    code = f"import sys, coder.cli, coder.engine.setup; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "[]"


# notes


@pytest.fixture(params=RUNGS)
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    found = Box(request.param)
    yield found
    found.close()


def noted(box: Box, script: str, **options: bool) -> str | None:
    sandbox = Sandbox(
        level_of(box.backend),
        box.workspace,
        box.coder_home,
        network=options.get("network", True),
        plan=options.get("plan", False),
        environment=box.environment(),
    )
    outcome = box.run(script, **options)
    found = sandbox.note(f"{outcome.stdout}\n{outcome.stderr}")
    return None if found is None else found.key


@pytest.mark.parametrize(
    "script",
    [
        'echo x > "$OUT/new"',
        'touch "$HOME/new"',
        "mkdir ../made",
        'cp a.txt "$OUT/kept.txt"',
        "python3 -c \"import os; open(os.environ['OUT'] + '/n', 'w')\"",
    ],
)
def test_a_place_that_is_not_written_is_named(box: Box, script: str) -> None:
    assert noted(box, script) == "sandbox.note.write"


def test_a_locked_place_is_named(box: Box) -> None:
    if box.backend != "bwrap":
        pytest.skip("put back afterwards there, not stopped")
    assert noted(box, "touch .git/hooks/pre-commit") == "sandbox.note.locked"


def test_a_secret_is_named(box: Box) -> None:
    assert noted(box, 'cat "$HOME/.netrc"') == "sandbox.note.secret"


def test_where_nothing_is_written_that_is_said(box: Box) -> None:
    assert noted(box, "echo x > src/new.txt", plan=True) == "sandbox.note.reading"
    script = "python3 -c 'import urllib.request as u; u.urlopen(\"http://example.org\")'"
    assert noted(box, script, network=False) == "sandbox.note.network"


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "cat missing.txt",
        "echo 'tests: permission denied for user bob'; exit 1",
        "chmod 000 a.txt; ./a.txt",
        "echo 'Permission denied (publickey).' >&2; exit 128",
        "echo 'could not resolve host: example.org' >&2; exit 6",
        "echo 'Read-only file system' >&2; exit 1",
        "ls /nonexistent/place",
    ],
)
def test_nothing_is_said_of_a_failure_that_touches_none_of_it(box: Box, script: str) -> None:
    assert noted(box, script) is None


def test_without_a_sandbox_there_is_nothing_to_say(tmp_path: Path) -> None:
    sandbox = Sandbox(SandboxLevel(), tmp_path, tmp_path / "home")
    assert sandbox.note("bash: /x: Read-only file system") is None


# filters and sockets


@pytest.mark.skipif("bwrap" not in RUNGS, reason="for the strong backend")
def test_what_the_strong_rung_can_beside_its_namespaces_is_found_and_kept(tmp_path: Path) -> None:
    level = probe(tmp_path)
    assert (level.filters, level.connects) == (True, True)
    assert probe(tmp_path) == level  # as it was kept


@pytest.mark.skipif("bwrap" not in RUNGS, reason="for the strong backend")
def test_where_the_kernel_takes_no_filter_the_strong_rung_goes_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probe(tmp_path).filters
    forget(tmp_path)
    for kept in tmp_path.glob("*.bpf"):
        kept.unlink()
    monkeypatch.setattr("coder.policy.sandbox.seccomp.strong_filter", lambda sockets: b"no program at all")
    level = probe(tmp_path)
    assert (level.backend, level.filters, level.connects) == ("bwrap", False, False)


@pytest.mark.skipif("bwrap" not in RUNGS, reason="for the strong backend")
def test_a_bwrap_that_lives_by_its_setuid_bit_is_left_alone(tmp_path: Path) -> None:
    """What makes a command's connections for it takes away the rights that such a program needs."""
    real = level_of("bwrap")
    assert connecting(SandboxLevel("bwrap", real.program, filters=True), tmp_path).connects
    program = tmp_path / "bwrap"
    program.write_bytes(Path(real.program).read_bytes())
    program.chmod(0o4755)
    assert not connecting(SandboxLevel("bwrap", str(program), filters=True), tmp_path).connects


@pytest.mark.skipif("landlock" not in available(), reason="that backend does not hold here")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo x >> .git/config", "has been put back"),
        ("mv .git elsewhere", "has been put back"),
        ("mv .git elsewhere; mkdir other; ln -s other .git", "has been put back"),
        ("rm -rf .git", "could not be put back: its folder is gone"),
    ],
)
def test_what_became_of_a_guarded_file_is_said_as_it_is(line: str, said: str) -> None:
    box = Box("landlock")
    try:
        outcome = box.run(line)
        config = box.workspace / ".git" / "config"
        assert f"{config} was changed by the command and {said}" in outcome.stderr
        assert config.exists() == (said == "has been put back")
    finally:
        box.close()


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("backend", RUNGS)
def test_places_that_a_program_closes_are_closed_but_for_what_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, plan: bool
) -> None:
    """As the folders of a batch's tasks: a task sees its own parts alone, in whichever mode."""
    for name in ("tasks/own/work", "tasks/own/home", "tasks/own/shown", "tasks/other", "coder"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(f"{name}\n", encoding="utf-8")
    own = tmp_path / "tasks" / "own"
    monkeypatch.setattr(places, "_CLOSED", [])
    monkeypatch.setattr(places, "_OPEN", [])
    places.close_places([str(tmp_path / "tasks"), str(tmp_path / "missing")], [own / "home", own / "shown"])
    environment = {"HOME": str(own / "home"), "PATH": os.environ["PATH"]}
    box = Sandbox(
        level_of(backend),
        own / "work",
        tmp_path / "coder",
        writable=[str(own / "home")],
        plan=plan,
        environment=environment,
    )
    line = "cat file ../home/file ../shown/file; ls ../../other ../..; cat ../../other/file; "
    line += "echo new > made; echo new > ../home/made; echo new > ../shown/made; exit 0"

    async def run() -> ProcessOutcome:
        return await run_process(
            box.wrap(["/bin/sh", "-c", line]),
            runs=Runs.IN_SANDBOX,
            cwd=own / "work",
            environment=environment,
            timeout_ms=60_000,
            keep_bytes=10_000,
            spill_to=tmp_path / "spilled",
            spill_limit=0,
            on_output=lambda _text: None,
        )

    done = asyncio.run(run())
    assert done.stdout.startswith("tasks/own/work\ntasks/own/home\ntasks/own/shown\n"), done
    assert "other" not in done.stdout
    made = [str(path.relative_to(own).parent) for path in sorted(own.rglob("made"))]
    assert made == ([] if plan else ["home", "work"])
