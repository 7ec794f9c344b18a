"""The task file: every wrong line is named with its number before anything starts."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from batch.batch_kit import Batch, make_repository
from coder.addons.batch.task_file import BatchError, Task, TaskFile, read_matrix
from coder.config.distribution import install_line
from kit import ScriptedServer
from kit.driving import Project

GOOD: dict[str, Any] = {"id": "good", "prompt": "do it", "cwd": "."}


class Read(NamedTuple):
    ids: list[str]
    all: list[Task]
    models: set[str]
    variables: set[str]


def read(directory: Path, *lines: str | dict[str, Any], matrix: tuple[str, ...] = ()) -> Read:
    file = directory / "tasks.jsonl"
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    with closing(TaskFile(file, read_matrix(matrix), {"TOKEN": "x"})) as tasks:
        return Read(tasks.ids, [tasks.task(at) for at in range(len(tasks))], tasks.models, tasks.variables)


WRONG = [
    ('{"id": "a", "prompt": "x"', "not a JSON object"),
    ("[]", "array"),
    ({"prompt": "x", "cwd": "."}, "the field id is missing"),
    ({**GOOD, "promt": "x"}, "there is no field promt; there is prompt"),
    ({**GOOD, "id": "../up"}, "'../up' cannot be an id"),
    ({**GOOD, "id": "results.jsonl"}, "cannot be an id"),
    ({**GOOD, "id": "a/b"}, "cannot be an id"),
    ({**GOOD, "prompt": "  "}, "the prompt is empty"),
    ({"id": "a", "prompt": "x"}, "either cwd (a folder) or repo"),
    ({**GOOD, "repo": "https://example.com/x.git"}, "either cwd (a folder) or repo"),
    ({**GOOD, "cwd": "missing"}, "is not a folder"),
    ({**GOOD, "max_steps": 0}, "max_steps"),
    ({**GOOD, "max_steps": 10**23}, "max_steps"),
    ({**GOOD, "timeout_s": 1e300}, "timeout_s"),
    ('{"id": "\udce9", "prompt": "x", "cwd": "."}', "not a JSON object"),  # not UTF-8
    ({**GOOD, "budget_usd": -1}, "budget_usd"),
    ({**GOOD, "timeout_s": "long"}, "timeout_s"),
    ({**GOOD, "mode": "fast"}, "there is no operating mode fast"),
    ({**GOOD, "env": ["NOT_SET"]}, "names NOT_SET, which is not set"),
    ({**GOOD, "env": ["A=B"]}, "is not the name of one"),
    ({**GOOD, "ref": "--upload-pack=x"}, "begins with a dash"),
]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(BatchError) as caught:
        read(tmp_path, {**GOOD, "id": "first"}, "", line)
    assert "line 3: " in str(caught.value)
    assert said in str(caught.value)


def test_all_wrong_lines_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(BatchError) as caught:
        read(tmp_path, "{", GOOD, GOOD)
    assert "line 1: " in str(caught.value)
    assert "line 3: the id good is that of line 2 already" in str(caught.value)


def test_tasks_come_back_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    tasks = read(tmp_path, {**GOOD, "env": ["TOKEN"]}, "", {"id": "b", "prompt": "说", "repo": "sub"})
    assert tasks.ids == ["good", "b"]
    assert tasks.all[0].cwd == str(tmp_path)
    assert (tasks.all[1].prompt, tasks.all[1].repo) == ("说", str(tmp_path / "sub"))
    assert tasks.variables == {"TOKEN"}


def test_a_matrix_makes_every_combination(tmp_path: Path) -> None:
    tasks = read(tmp_path, GOOD, matrix=("model=a,vendor/b", "mode=plan,yolo"))
    assert tasks.ids == [
        "good@model=a,mode=plan",
        "good@model=a,mode=yolo",
        "good@model=vendor-b,mode=plan",
        "good@model=vendor-b,mode=yolo",
    ]
    last = tasks.all[3]
    assert (last.model, last.mode, last.prompt) == ("vendor/b", "yolo", "do it")
    assert tasks.models == {"a", "vendor/b"}


def test_values_that_look_alike_in_a_folder_s_name_have_ids_of_their_own(tmp_path: Path) -> None:
    """Which are the same in any order, so that `--resume` takes none for another."""
    values = ["vendor/b", "vendor:b", "Vendor-b", "c"]
    tasks = read(tmp_path, GOOD, matrix=(f"model={','.join(values)}",))
    again = read(tmp_path, GOOD, matrix=(f"model={','.join(reversed(values))}",))
    assert len({name.lower() for name in tasks.ids}) == 4
    assert tasks.ids[3] == "good@model=c"
    assert again.ids == tasks.ids[::-1]
    assert [task.model for task in tasks.all] == values


def test_a_matrix_of_numbers(tmp_path: Path) -> None:
    tasks = read(tmp_path, GOOD, matrix=("max_steps=1,20",))
    assert [tasks.all[0].max_steps, tasks.all[1].max_steps] == [1, 20]


@pytest.mark.parametrize("word", ["model", "colour=red", "model=", "mode=fast", "max_steps=0"])
def test_a_wrong_matrix_is_refused(word: str) -> None:
    with pytest.raises(BatchError):
        read_matrix([word])


def test_nothing_starts_where_a_line_is_wrong(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**GOOD, "id": "a"}, {**GOOD, "id": "b", "promt": "x"}])
    with ScriptedServer() as server:
        done = batch.run(server.url)
        assert (done.returncode, server.chats) == (2, [])
    assert "line 2: there is no field promt" in done.stderr
    assert not batch.out.exists()


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_an_engine_that_is_not_there_is_said_and_nothing_starts(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**GOOD, "id": "a"}])
    with ScriptedServer([{"text": "done"}]) as server:
        done = batch.run(server.url, "--engine", "ray")
        assert (done.returncode, server.chats) == (2, [])
        assert install_line("ray") in done.stderr
        assert batch.run(server.url, "--address", "auto").returncode == 2  # belongs to --engine ray
        assert batch.run(server.url, "--engine", "local").returncode == 0
