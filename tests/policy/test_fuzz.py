"""The differential fuzzer, briefly: fixed seeds, a few thousand lines. `./dev fuzz` runs it for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .fuzz.campaign import Campaign
from .fuzz.chamber import Chamber, Impossible, Line, Seen, opened
from .fuzz.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def chamber(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chamber]:
    try:
        with opened(tmp_path_factory.mktemp("fuzz") / "root", seconds=8) as found:
            yield found
    except Impossible as problem:
        pytest.skip(f"lines cannot be run safely on this machine: {problem}")


@pytest.fixture(scope="module")
def words(chamber: Chamber) -> Vocabulary:
    return chamber.vocabulary()


def _run(chamber: Chamber, *lines: str) -> Seen:
    return chamber.run([Line(line) for line in lines])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_judged_read_only_does_nothing(chamber: Chamber, words: Vocabulary, seed: int) -> None:
    tally = Campaign(chamber, seed, words).run(1500)
    assert tally.ran > 150
    assert not tally.unclear
    assert not tally.failures, "\n".join(f"{failure.shortest!r}: {failure.did}" for failure in tally.failures)


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("touch PWN", "marks/run"),
        ("echo x >PWN", "work/PWN"),
        ("echo x >>a.txt", "work/a.txt"),
        (": >../home/x", "home/x"),
        (": >/tmp/x", "/tmp/"),
        (": >/dev/shm/x", "/dev/shm/"),
        ("evil", "marks/run"),
        ("./evil", "marks/run"),
        ("/usr/bin/curl example.org", "marks/run"),
        ("python3 -c 1", "marks/run"),
        ("kill -9 -1", "(another process)"),
        ("echo x >/dev/tcp/127.0.0.1/9999", "(sockets)"),
        ("echo x >/dev/tcp/192.0.2.1/80", "(network)"),
        ("echo x >/dev/udp/192.0.2.1/53", "(network)"),
        ("git tag PWN", ".git/refs/tags"),
        ("git -C hostile diff --ext-diff", "marks/run"),
        ("git -C hostile log -p", "marks/run"),
        ("git -C bare.git log -p -1", "marks/run"),
    ],
)
def test_the_chamber_sees(chamber: Chamber, line: str, sign: str) -> None:
    """Every kind of effect, or the fuzzer would find nothing."""
    seen = _run(chamber, "ls", line, "echo a")
    chamber.put_back(seen.changed)
    assert any(sign in path for path in seen.changed), seen
    assert not _run(chamber, "ls", "git -C tame status", "cat a.txt | sort", "python3 --version").changed


def test_the_chamber_sees_what_is_left_behind(chamber: Chamber) -> None:
    seen = _run(chamber, "ls", "sleep 50 &")
    assert seen.left == {1: ["sleep 50"]}
    assert not _run(chamber, "ls").left


def test_the_chamber_lets_nothing_out(chamber: Chamber, tmp_path: Path) -> None:
    """The disk is read-only but for the tree, and a line that goes on is ended."""
    outside = tmp_path / "outside"
    outside.mkdir()
    seen = _run(
        chamber, f"echo x >{outside}/x", f"mkdir -p {outside}; echo x >{outside}/x", "while :; do :; done"
    )
    assert seen.late == [2]
    assert not list(outside.iterdir())
    assert chamber.capture("echo x >/proc/sys/kernel/domainname && echo written").count("Read-only") == 1
    chamber.restore()


def test_a_failure_is_made_short(
    chamber: Chamber, words: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Campaign(chamber, 1, words)
    monkeypatch.setattr(campaign, "_judged", Line)
    campaign._try([Line("ls"), Line("echo 'some text'; evil; ls -la src")])
    assert [failure.shortest for failure in campaign.tally.failures] == ["evil"]


@pytest.mark.thorough
def test_what_a_line_that_was_given_up_leaves_in_tmp_is_no_failure(tmp_path: Path) -> None:
    """git puts files there while it compares, and takes them away unless it is killed."""
    try:
        with opened(tmp_path / "root", seconds=0.5) as chamber:
            seen = _run(chamber, "echo x >/tmp/x; while :; do :; done")
            assert (seen.late, seen.changed) == ([0], [])
    except Impossible as problem:
        pytest.skip(f"lines cannot be run safely on this machine: {problem}")
