"""After a batch: its page, `coder apply`, `coder compare`."""

from __future__ import annotations

import json
import os
import re
from math import comb
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch.batch_kit import Batch, make_repository, model, runs, writes
from coder.addons.batch.batch_page import page
from coder.addons.batch.comparison import binomial_cdf, median_interval, share_interval, sign_test
from coder.addons.batch.results import Row, final_rows
from coder.addons.batch.task import Check
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


@pytest.fixture
def batch(project: Project) -> Batch:
    make_repository(project.cwd, {"a.txt": "one\n"})
    made = Batch(project, [TASK])
    with model(writes("d/new.txt", "first\nsecond\n")) as server:
        assert made.run(server.url).returncode == 0
    return made


@pytest.mark.thorough
def test_apply_goes_through_the_policy(project: Project, batch: Batch) -> None:
    """Nobody can be asked here, so the ordinary answer is no."""
    done = project.coder("apply", str(batch.out / "one"))
    assert done.returncode == 1
    assert "not applied" in done.stdout
    assert not (project.cwd / "d").exists()
    (observation,) = [event for event in project.events() if event["type"] == "observation"]
    assert observation["meta"]["denied"]


@pytest.mark.thorough
def test_apply_is_recorded_and_can_be_undone(project: Project, batch: Batch) -> None:
    done = project.coder("apply", str(batch.out / "one"), "--mode", "auto-edit")
    assert done.returncode == 0, done.stderr
    assert (project.cwd / "d" / "new.txt").read_text(encoding="utf-8") == "first\nsecond\n"
    (action,) = [event for event in project.events() if event["type"] == "action"]
    assert action["meta"]["tool"] == "patch"
    undone = project.coder("--continue", "--once", "/undo", url="http://127.0.0.1:9/v1")
    assert undone.returncode == 0, undone.stderr
    assert not (project.cwd / "d" / "new.txt").exists()


@pytest.mark.thorough
def test_a_patch_that_no_longer_fits_is_not_applied(project: Project) -> None:
    make_repository(project.cwd, {"a.txt": "one\ntwo\nthree\n"})
    made = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs("sed -i s/two/2/ a.txt")) as server:
        made.run(server.url)
    project.write("a.txt", "something\nelse\n")
    done = project.coder("apply", str(made.out / "one"), "--mode", "auto-edit")
    assert done.returncode == 1
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "something\nelse\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no patch"),
        (b"", "changed nothing"),
        (b"diff --git a/x b/x\nGIT binary patch\n", "git apply"),
        (b"diff --git a/x b/x\n+\xff\n", "git apply"),
    ],
)
def test_what_cannot_be_applied_is_refused(project: Project, content: bytes | None, said: str) -> None:
    directory = project.cwd / "out" / "one"
    directory.mkdir(parents=True)
    if content is not None:
        (directory / "patch.diff").write_bytes(content)
    done = project.coder("apply", str(directory))
    assert done.returncode == 2
    assert said in done.stderr


def rows(project: Project, name: str, verdicts: dict[str, bool], cost: float) -> str:
    directory = project.cwd / name
    directory.mkdir()
    lines = [
        {"id": task, "attempt": 1, "status": "ok", "check": {"status": "passed" if ok else "failed"},
         "cost": cost, "steps": 3 if ok else 5}
        for task, ok in verdicts.items()
    ]  # fmt: skip
    (directory / "results.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return name


def test_compare_says_what_changed(project: Project) -> None:
    tasks = [f"t{n}" for n in range(10)]
    before = rows(project, "before", {task: n >= 6 for n, task in enumerate(tasks)} | {"old": True}, 0.5)
    after = rows(project, "after", {task: n != 9 for n, task in enumerate(tasks)} | {"new": True}, 0.25)
    done = project.coder("compare", before, after)
    assert done.returncode == 0, done.stderr
    assert "10 tasks are in both" in done.stdout
    assert "4/10 (12.2–73.8 %) → 9/10 (55.5–99.7 %)" in done.stdout
    assert "6 failed before and succeed now" in done.stdout
    assert "1 succeeded before and fail now\n  t9" in done.stdout
    assert "probability 0.125" in done.stdout
    assert "$5.0000 → $2.5000 in all; median change -$0.2500 (95 %: -$0.2500 to -$0.2500)" in done.stdout
    found = json.loads(project.coder("compare", before, after, "--json").stdout)
    assert (found["worse"], found["only_first"], found["only_second"]) == (["t9"], ["old"], ["new"])


def test_compare_needs_two_batches(project: Project) -> None:
    done = project.coder("compare", ".", ".")
    assert done.returncode == 2
    assert "has no results" in done.stderr


@given(st.integers(1, 60), st.data())
def test_the_interval_is_clopper_and_pearson_s(of: int, data: st.DataObject) -> None:
    """At its ends, a result at least as extreme has exactly the probability that was allowed."""
    count = data.draw(st.integers(0, of))
    low, high = share_interval(count, of)
    assert low <= count / of <= high
    if count:
        assert sum(
            comb(of, k) * low**k * (1 - low) ** (of - k) for k in range(count, of + 1)
        ) == pytest.approx(0.025, rel=1e-3)
    if count < of:
        assert binomial_cdf(count, of, high) == pytest.approx(0.025, rel=1e-3)


def test_intervals_of_as_many_tasks_as_one_likes() -> None:
    assert share_interval(50_000, 100_000) == pytest.approx((0.4968961, 0.5031039))
    assert share_interval(1, 100_000) == pytest.approx((2.53178e-07, 5.571516e-05), rel=1e-5)
    assert sign_test(50_000, 51_000) == pytest.approx(0.00166963, rel=1e-5)


def test_few_changes_prove_little() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 0) == pytest.approx(0.0625)
    assert sign_test(0, 6) == pytest.approx(0.03125)


def test_the_interval_of_a_median_is_made_of_values_seen() -> None:
    assert median_interval([1, 2, 3, 4, 5]) == (3, None)  # five values cannot reach 95 %
    assert median_interval([6, 5, 4, 3, 2, 1]) == (3.5, (1, 6))
    assert median_interval(list(range(1, 21))) == (10.5, (6, 15))


def test_hostile_text_stays_text_in_the_page() -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    made = page([Row("one", 1, "error", error=hostile, model=hostile, check=Check(output=hostile))])
    assert made.count(b"<script") == 2  # the data and ours
    assert b"<img" not in made
    assert b"default-src 'none'" in made
    assert b"http:" not in made.replace(b"http://www.w3.org/2000/svg", b"")


@pytest.mark.thorough
def test_the_page_has_a_row_for_every_task(batch: Batch) -> None:
    text = (batch.out / "index.html").read_text(encoding="utf-8")
    data = text.partition('id="rows">')[2].partition("</script>")[0]
    (row,) = json.loads(data)
    assert (row["id"], row["verdict"], row["patch"]) == ("one", "success", "one/patch.diff")
    assert row["record"] == "one/record.html"  # the record as a page of `coder view`, not as JSON
    assert "write the file" in batch.file_of("one", "record.html")


@pytest.mark.thorough
def test_a_clock_that_jumps_back_leaves_no_old_page_and_no_wrong_order(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": "test -f b"}, {**TASK, "id": "two", "check": "true"}])
    with model(writes("a")) as server:
        assert batch.run(server.url, "--jobs", "1").returncode == 1
    late = 4_000_000_000
    for path in (batch.out / "one").iterdir():
        os.utime(path, (late, late))  # made before the clock was put back
    rows = (batch.out / "results.jsonl").read_text(encoding="utf-8")
    (batch.out / "results.jsonl").write_text(re.sub('"ended":"2', '"ended":"9', rows), encoding="utf-8")
    with model(writes("b", "second\n")) as server:
        assert batch.run(server.url, "--retry", "failed").returncode == 0
    assert "second" in batch.file_of("one", "record.html")
    data = batch.file_of(".", "index.html").partition('id="rows">')[2].partition("</script>")[0]
    assert [row["id"] for row in json.loads(data)] == ["two", "one"]


def test_a_row_that_a_crash_left_unreadable_is_skipped(tmp_path: Path) -> None:
    row = '{"id": "%s", "attempt": 1, "status": "ok"}\n'
    (tmp_path / "results.jsonl").write_bytes((row % "\xe9").encode("latin-1") + (row % "a").encode())
    assert list(final_rows(tmp_path)) == ["a"]
