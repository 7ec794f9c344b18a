"""A connection that breaks in mid-answer: the rest goes on in the same block, shown once."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

from coder import run_agent
from coder.models.model import Completed, ReasoningDelta, Restarted, TextDelta
from coder.models.retry import RetryingModel
from coder.models.scripted import Recorded, ScriptedServer, Turn, events, http_head
from coder.models.wires.chat_completions import ChatCompletions
from coder.protocol.events import AnyEvent, Content, ContentRestarted, Notice, TurnEnded
from coder.texts import Catalog
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line
from coder.ui.terminal.screen_state import PromptState, apply_event, input_sent
from kit import Chaos, collect, text_of
from kit.driving import Driver, Project, drive, of

CODE = "Here it is:\n\n```python\ndef area(w, h):\n    # the area\n    return w * h\n```\n\nThat is all.\n"
WHOLE: dict[str, Any] = {"text": CODE, "chunk": 7}
OTHER: dict[str, Any] = {"text": "Something else entirely.", "chunk": 7}


def driven(project: Project, *script: dict[str, Any]) -> Driver:
    with Chaos(script) as server:
        return drive(project, server.url, ["go"])


def rows(seen: Sequence[AnyEvent]) -> list[Line]:
    """What a terminal shows, drawn after every event."""
    transcript = Transcript(Catalog("en"), lambda: 80)
    out: list[Line] = []
    for event in seen:
        transcript.handle(event)
        out += transcript.drain(5)
        transcript.live(5)
    return out


def is_remark(line: Line) -> bool:
    return any(style == "note" for style, _ in line)


@pytest.mark.parametrize("fault", ["cut_text", "reset_text", "error_midway"])
def test_code_stays_code_on_the_screen(project: Project, fault: str) -> None:
    broken = driven(project, {**WHOLE, "fault": fault}, WHOLE).seen
    assert "".join(e.text for e in of(broken, Content)) == CODE
    shown = rows(broken)
    remarks = [at for at, line in enumerate(shown) if is_remark(line)]
    assert remarks, "the retry is told"
    assert rows([e for e in broken if not isinstance(e, Notice)]) == shown[: remarks[0] - 1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_code_stays_code_as_plain_lines(project: Project) -> None:
    broken = driven(project, {**WHOLE, "fault": "cut_text"}, WHOLE).seen
    out = Terminal()
    renderer = PlainRenderer(out, None, Catalog("en"), Theme("none"))
    for event in broken:
        renderer.handle(event)
    assert CODE.rstrip() in out.getvalue()
    assert "Trying again" in out.getvalue()


def test_the_status_says_so_until_the_rest_comes(project: Project) -> None:
    broken = driven(project, {**WHOLE, "fault": "cut_text"}, WHOLE).seen
    state = PromptState(model="m", mode="default")
    input_sent(state)
    doing = []
    for event in broken:
        apply_event(state, event)
        if isinstance(event, Content | Notice):
            doing.append(state.status_key)
    assert doing.count("busy.asking_again") == 1
    at = doing.index("busy.asking_again")
    assert set(doing[:at]) == set(doing[at + 1 :]) == {"busy.writing"}


def test_a_retry_before_the_first_word_is_an_ordinary_remark(project: Project) -> None:
    seen = driven(project, Chaos.failing(), WHOLE).seen
    assert [e.in_answer for e in of(seen, Notice)] == [False]


def test_another_answer_is_said_to_be_one(project: Project) -> None:
    seen = driven(project, {**WHOLE, "fault": "cut_text"}, OTHER).seen
    at = next(at for at, e in enumerate(seen) if isinstance(e, ContentRestarted))
    assert "".join(e.text for e in of(seen[at:], Content)) == OTHER["text"]
    assert of(seen, TurnEnded)[0].text == OTHER["text"]
    told = ["".join(text for _, text in line) for line in rows(seen) if is_remark(line)]
    assert any("was restarted" in line for line in told)


@pytest.mark.parametrize(("again", "answer"), [(WHOLE, CODE), (OTHER, OTHER["text"])])
def test_stdout_and_json_hold_the_answer_once(project: Project, again: dict[str, Any], answer: str) -> None:
    script = [{**WHOLE, "fault": "cut_text"}, again]
    with Chaos(script * 4) as server:
        plain = project.coder("--once", "go", url=server.url)
        as_json = project.coder("--once", "go", "--output", "json", url=server.url)
        lines = project.coder("--once", "go", "--output", "stream-json", url=server.url).stdout.splitlines()
        result = asyncio.run(run_agent("go", cwd=project.cwd, environ=project.environ(server.url)))
    assert plain.stdout == answer.rstrip("\n") + "\n"
    assert json.loads(as_json.stdout)["text"] == answer
    assert result.final_text == answer
    chunks: list[str] = []
    for event in map(json.loads, lines):
        if event["type"] == "assistant_restart":
            chunks.clear()
        elif event["type"] == "assistant_chunk":
            chunks.append(event["content"])
            assert event["ts"].endswith("Z")
    assert "".join(chunks) == answer


class Cutting(ScriptedServer):
    """Every other answer stops after so many bytes."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.body = b"".join(events(turn, "m"))
        self.cut = 0
        self._whole = False

    async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
        body = self.body + b"data: [DONE]\n\n" if self._whole else self.body[: self.cut]
        self._whole = not self._whole
        writer.write(http_head(200, {"Content-Type": "text/event-stream"}) + body)
        await writer.drain()
        writer.close()


@pytest.mark.thorough
def test_cut_at_every_byte_the_text_comes_once() -> None:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    async def run() -> None:
        async with Cutting({"text": "né 1\n```\nx", "reasoning": "hm", "chunk": 4}) as server:
            model = RetryingModel(ChatCompletions(server.url), sleep=no_wait)
            end = server.body.index(b'"finish_reason":"stop"')  # from there on the answer is whole
            for server.cut in range(0, end, 3):
                chunks = await collect(model)
                assert not any(isinstance(chunk, Restarted) for chunk in chunks)
                assert text_of(chunks) == "né 1\n```\nx"
                assert text_of(chunks, ReasoningDelta) == "hm"
                assert isinstance(chunks[-1], Completed)
                assert all(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
            await model.close()

    asyncio.run(run())
