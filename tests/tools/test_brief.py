"""Tools in few words, for small models: declared shorter, taken as ever."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from coder.engine.sdk import create_agent_session
from coder.models.make import make_model
from coder.tools.brief import FEW, brief
from coder.tools.registry import built_in, built_in_tools
from kit import ScriptedServer


def test_every_one_of_them_is_shorter_and_asks_for_no_more_than_there_is() -> None:
    assert len(FEW) == 7
    for name in FEW:
        whole = built_in(name).spec
        short = brief(whole)
        assert len(json.dumps(short.function.parameters)) <= len(json.dumps(whole.function.parameters))
        assert len(short.function.description) < len(whole.function.description)
        there = whole.function.parameters["properties"]
        declared = short.function.parameters["properties"]
        assert set(short.function.parameters["required"]) <= set(declared) <= set(there)
    others = [tool.spec for name, tool in built_in_tools().items() if name not in FEW]
    assert [brief(spec) for spec in others] == others


def test_a_parameter_that_is_not_declared_is_taken(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.py"
    file.write_text("a = 1\nb = 1\n")
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"provider": {"models": {"custom": {"tools": "few"}}}}))
    edit = {"path": "a.py", "old_string": "1", "new_string": "2", "replace_all": True}
    calls = [{"name": "read", "arguments": {"path": "a.py"}}, {"name": "edit", "arguments": edit}]

    async def run() -> None:
        with ScriptedServer([{"calls": calls}, {"text": "Both."}]) as server:
            session = create_agent_session(
                cwd=tmp_path / "work",
                mode="yolo",
                model=make_model(server.url, dialect="native", max_attempts=1),
                config_file=settings,
                environ={"CODER_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
            )
            async with session:
                await session.run_turn("Make both of the names in a.py two, please.")
            assert [message["role"] for message in server.chats[0]["messages"]] == ["system", "user"]
            declared = {one["function"]["name"]: one["function"] for one in server.chats[0]["tools"]}
            assert "replace_all" not in declared["edit"]["parameters"]["properties"]

    asyncio.run(run())
    assert file.read_text() == "a = 2\nb = 2\n"
