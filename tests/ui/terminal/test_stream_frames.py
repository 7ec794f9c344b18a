"""What a frame costs: our rows are written as they are, and prompt_toolkit lays out only what has changed."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyte
import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.renderer import Renderer

from coder.ui.terminal.render import live_region as room
from coder.ui.terminal.render.live_region import FrameOutput, LiveRegion


class Bench:
    """A screen that is drawn on a text, and what it consists of."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.live: list[str] = []
        self.menu: list[str] = []
        self.laid_out = 0

    def drawn(self) -> list[str]:
        paper = pyte.Screen(80, 24)
        pyte.Stream(paper).feed(self.out.getvalue())
        return [row.rstrip() for row in paper.display if row.strip()]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Bench, LiveRegion], None]], None]:
    def run(act: Callable[[Bench, LiveRegion], None]) -> None:
        bench = Bench()
        drawn = asyncio.Event()
        render = Renderer.render

        def counted(self: Renderer, *args: Any, **more: Any) -> None:
            bench.laid_out += 1
            render(self, *args, **more)
            drawn.set()

        monkeypatch.setattr(Renderer, "render", counted)

        async def main() -> None:
            with create_pipe_input() as keys:
                monkeypatch.setattr(room, "keyboard_input", lambda: keys)
                sections: Any = SimpleNamespace(
                    live=lambda: bench.live,
                    status=lambda: ["status"],
                    queue=list,
                    menu=lambda: bench.menu,
                    bar=list,
                    prompt=lambda: "> ",
                )
                shown = LiveRegion(FrameOutput(bench.out), Buffer(), sections, KeyBindings(), vim=False)
                running = asyncio.create_task(shown.app.run_async())
                await drawn.wait()
                act(bench, shown)
                shown.app.exit()
                await running

        asyncio.run(main())

    return run


Run = Callable[[Callable[[Bench, LiveRegion], None]], None]


def test_a_frame_lays_out_nothing(bench: Run) -> None:
    def act(it: Bench, screen: LiveRegion) -> None:
        screen.commit(["first"])
        before = it.laid_out
        for at in range(50):
            it.live = [f"live {at}"] * (at % 3)
            screen.commit([f"row {at}"])
        assert it.laid_out == before
        assert it.drawn()[-4:] == ["row 49", "live 49", "status", ">"]

    bench(act)


def test_only_rows_that_changed_are_written_and_nothing_where_none_did(bench: Run) -> None:
    def act(it: Bench, screen: LiveRegion) -> None:
        it.live = ["one", "two"]
        screen.commit(["first"])
        written = len(it.out.getvalue())
        screen.redraw()
        assert len(it.out.getvalue()) == written
        it.live = ["one", "deux"]
        screen.redraw()
        added = it.out.getvalue()[written:]
        assert "deux" in added
        assert "one" not in added
        assert "status" not in added
        assert it.drawn() == ["first", "one", "deux", "status", ">"]

    bench(act)


def test_what_is_below_is_drawn_anew_when_it_changes(bench: Run) -> None:
    def act(it: Bench, screen: LiveRegion) -> None:
        screen.commit(["first"])
        it.menu = ["an entry"]
        screen.buffer.text = "typed"
        screen.commit(["second"])
        assert it.drawn() == ["first", "second", "status", "> typed", "an entry"]
        it.menu = []
        screen.redraw()
        assert it.drawn() == ["first", "second", "status", "> typed"]

    bench(act)


def test_our_rows_make_room_where_the_screen_is_full(bench: Run) -> None:
    def act(it: Bench, screen: LiveRegion) -> None:
        it.live = [f"live {at}" for at in range(40)]
        screen.commit(["first"])
        assert it.drawn()[-3:] == ["live 39", "status", ">"]
        assert len(it.drawn()) <= 24
        it.live = []
        screen.commit(["second"])
        assert it.drawn()[-3:] == ["second", "status", ">"]
        assert "live 39" not in it.drawn()

    bench(act)
