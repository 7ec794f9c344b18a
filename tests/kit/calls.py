"""Tool calls and answers that hold one, as a script for the scripted model has them."""

from __future__ import annotations

from typing import Any

ANSWERS = [{"text": f"answer {n}"} for n in range(20)]  # for tests to which the words do not matter


def call(name: str, call_id: str = "", /, **arguments: Any) -> dict[str, Any]:
    made = {"name": name, "arguments": arguments}
    return {**made, "id": call_id} if call_id else made


def bash(command: str, **more: Any) -> dict[str, Any]:
    return call("bash", command=command, **more)


def read(path: str) -> dict[str, Any]:
    return call("read", path=path)


def write(path: str, content: str) -> dict[str, Any]:
    return call("write", path=path, content=content)


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return call("edit", path=path, old_string=old, new_string=new)


def step(name: str, /, **arguments: Any) -> dict[str, Any]:
    """An answer that is this one call."""
    return {"calls": [call(name, **arguments)]}


def bash_step(command: str) -> dict[str, Any]:
    return step("bash", command=command)
