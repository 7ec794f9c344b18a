"""The editor's state in words: whole first, then changes, within bounds, whatever the editor sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.addons.ide.ide_context import (
    MAX_FILES,
    MAX_SELECTION,
    IdeContext,
    OpenFile,
    changes,
    full,
    open_files,
)

WORK = Path("/srv/app")


def state(*files: Any) -> dict[str, Any]:
    return {"workspaceState": {"openFiles": list(files), "isTrusted": True}}


def active(path: str, line: int = 1, text: str = "", timestamp: int = 100) -> dict[str, Any]:
    cursor = {"line": line, "character": 1}
    return {
        "path": path, "timestamp": timestamp, "isActive": True, "cursor": cursor, "selectedText": text
    }  # fmt: skip


def other(path: str, timestamp: int = 1) -> dict[str, Any]:
    return {"path": path, "timestamp": timestamp}


class Told:
    """An editor's context, and what the model is told of it."""

    def __init__(self) -> None:
        self.context = IdeContext(WORK)

    def after(self, *files: Any) -> Any:
        self.context.update(state(*files))
        return self.next()

    def next(self) -> Any:
        text = self.context.next_note()
        return json.loads(text.split("```json\n")[1].removesuffix("\n```")) if text else None


def test_the_first_note_is_the_whole_context_as_the_seed_has_it() -> None:
    told = Told().after(
        active("/srv/app/src/app.ts", 42, "function foo() {"),
        other("/srv/app/src/utils.ts"),
        other("/etc/x"),
    )
    assert told == {
        "activeFile": {
            "path": "src/app.ts",
            "cursor": {"line": 42, "character": 1},
            "selectedText": "function foo() {",
        },
        "otherOpenFiles": ["src/utils.ts", "/etc/x"],
    }


def test_each_kind_of_change_is_told_alone() -> None:
    told = Told()
    told.after(active("/srv/app/a", 1), other("/srv/app/b"))
    assert told.after(active("/srv/app/a", 45), other("/srv/app/b")) == {
        "changes": {"cursorMoved": {"path": "a", "cursor": {"line": 45, "character": 1}}}
    }
    assert told.after(active("/srv/app/a", 45, "x"), other("/srv/app/b")) == {
        "changes": {"selectionChanged": {"path": "a", "selectedText": "x"}}
    }
    assert told.after(active("/srv/app/a", 45), other("/srv/app/b")) == {
        "changes": {"selectionChanged": {"path": "a", "selectedText": ""}}
    }
    assert told.after(active("/srv/app/a", 45), other("/srv/app/c")) == {
        "changes": {"filesOpened": ["c"], "filesClosed": ["b"]}
    }
    assert told.after(active("/srv/app/c", 2, "y", 200), other("/srv/app/a")) == {
        "changes": {
            "activeFileChanged": {"path": "c", "cursor": {"line": 2, "character": 1}, "selectedText": "y"}
        }
    }
    assert told.after(other("/srv/app/c"), other("/srv/app/a")) == {
        "changes": {"activeFileChanged": {"path": None, "previousPath": "c"}}
    }
    assert told.after(other("/srv/app/c"), other("/srv/app/a")) is None


def test_after_a_compaction_all_is_told_again() -> None:
    told = Told()
    first = told.after(active("/srv/app/a"))
    assert told.next() is None
    told.context.tell_all_again()
    assert told.next() == first


def test_an_editor_with_nothing_open_says_nothing_until_something_is() -> None:
    told = Told()
    assert told.next() is None
    assert told.after() is None
    assert told.after(active("/srv/app/a"))["activeFile"]["path"] == "a"
    told.context.lost()
    assert told.next() is None
    assert told.after(active("/srv/app/a")) is None


def test_it_is_bounded() -> None:
    files = [other(f"/f{n}", n) for n in range(50)]
    told = Told().after(*files, active("/a", text="x" * 100_000, timestamp=999))
    assert len(told["otherOpenFiles"]) == MAX_FILES - 1
    assert told["otherOpenFiles"][0] == "/f49"  # the most recently used ones
    assert told["activeFile"]["selectedText"] == "x" * MAX_SELECTION + "... [TRUNCATED]"


def test_only_the_newest_file_can_be_the_active_one() -> None:
    files = open_files(state(active("/old", timestamp=1), other("/new", 2)))
    assert files == [OpenFile("/new"), OpenFile("/old")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
odd_files = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["/a", "/b", "/srv/app/c", ""]) | json_values,
        "timestamp": st.integers() | json_values,
        "isActive": st.booleans() | json_values,
        "cursor": st.fixed_dictionaries({"line": json_values, "character": json_values}) | json_values,
        "selectedText": json_values,
    },
)


@pytest.mark.thorough
@given(st.lists(st.lists(odd_files | json_values, max_size=4) | json_values, max_size=4))
def test_nothing_an_editor_sends_is_a_fault(updates: list[Any]) -> None:
    told = Told()
    for one in updates:
        told.context.update({"workspaceState": {"openFiles": one}})
        told.context.update(one)
        told.next()


paths = st.sampled_from(["/a", "/b", "/c", "/d"])
editors = st.lists(paths, unique=True).flatmap(
    lambda names: st.tuples(st.just(names), st.booleans(), st.integers(1, 3), st.sampled_from(["", "x", "y"]))
)


def opened(names: list[str], some: bool, line: int, text: str) -> list[OpenFile]:
    files = [active(names[0], line, text)] if names and some else [other(name) for name in names[:1]]
    return open_files(state(*files, *(other(name, -1) for name in names[1:])))


@given(editors, editors)
def test_what_was_told_and_the_changes_make_the_whole(before: Any, after: Any) -> None:
    """The law of deltas: a reader who applies them to what it knows, knows what is."""
    was, now = opened(*before), opened(*after)
    told, change = full(was), changes(was, now)
    known = {told["activeFile"]["path"]} if "activeFile" in told else set()
    known |= set(told.get("otherOpenFiles", []))
    known = (known | set(change.get("filesOpened", []))) - set(change.get("filesClosed", []))
    assert known == {file.path for file in now}
    current = dict(told.get("activeFile", {"path": None}))
    if "activeFileChanged" in change:
        current = {key: value for key, value in change["activeFileChanged"].items() if key != "previousPath"}
    if "cursorMoved" in change:
        current["cursor"] = change["cursorMoved"]["cursor"]
    if "selectionChanged" in change:
        current["selectedText"] = change["selectionChanged"]["selectedText"]
    wanted = full(now).get("activeFile", {"path": None})
    assert {k: v for k, v in current.items() if v or k == "path"} == wanted
    assert bool(change) == (was != now and {f.path: f for f in was} != {f.path: f for f in now})
