"""When the prompt takes an answer to a question, and when what was typed is for something else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from editor_kit import NOWHERE

from coder.protocol.events import ApprovalRequested, ApprovalResolved
from coder.texts import Catalog
from coder.ui.terminal.ask import approval_prompt
from coder.ui.terminal.ask.approval_prompt import ApprovalPrompt, choice_rows, choices
from coder.ui.terminal.ask.question import QuestionQueue
from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.input.input_history import ProjectHistory
from coder.ui.terminal.input.menu import Menus
from coder.ui.terminal.render.width import plain, text_width
from coder.ui.terminal.screen_state import PromptState


def asked(number: int) -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=str(number),
        call_id=str(number),
        tool="bash",
        subject=f"touch {number}",
        subject_kind="command",
        reasons=[],
        can_always=False,
        always_names=[],
    )


@pytest.mark.parametrize("waited", [True, False], ids=["waited behind another", "came later"])
def test_a_yes_typed_twice_does_not_answer_the_question_behind(
    monkeypatch: pytest.MonkeyPatch, waited: bool
) -> None:
    now = 100.0
    monkeypatch.setattr(approval_prompt, "time", SimpleNamespace(monotonic=lambda: now))
    editor = Editor(ProjectHistory(NOWHERE), Menus([], {}, lambda _query: []), str)
    bar = SimpleNamespace(editing=False)
    focus: Any = SimpleNamespace(
        editor=editor, bar=bar, occupied=False, leave_bar=lambda: None, stash_draft=lambda: None
    )
    questions, state, sent = QuestionQueue(), PromptState(model="m", mode="default"), list[Any]()
    screen: Any = SimpleNamespace(
        show_question=lambda event: None,
        say_answer=lambda line: None,
        draw_now=lambda: None,
        region=SimpleNamespace(is_lent=False, has_unread_keys=False),
    )
    prompt = ApprovalPrompt(
        state, focus, screen, questions, sent.append, lambda _delay, _do: None, Catalog("en")
    )

    def take(event: Any) -> None:
        for one in questions.visible(event):
            state.approval = one if isinstance(one, ApprovalRequested) else None
            prompt.update()

    first, second = asked(1), asked(2)
    take(first)
    if waited:
        take(second)
    prompt.answer(first, "y")
    assert [reply.approval_id for reply in sent] == ["1"]
    take(ApprovalResolved(approval_id="1", answer="yes"))
    if not waited:
        take(second)
    assert state.approval is second
    now += 0.05
    assert not prompt.takes("y")  # nor does the key alone
    assert prompt.takes("n")  # a refusal harms nobody
    prompt.answer(second, "y")
    assert [reply.approval_id for reply in sent] == (["1"] if waited else ["1", "2"])
    prompt.answer(second, "n")
    assert sent[-1].answer == "no"
    take(ApprovalResolved(approval_id="2", answer="no"))
    take(third := asked(3))
    now += 1.0
    assert prompt.takes("y")
    prompt.answer(third, "y")
    assert sent[-1].answer == "yes"
    take(ApprovalResolved(approval_id="3", answer="yes"))
    screen.region.has_unread_keys = True  # typed before the question was drawn
    now += 1.0
    take(asked(4))
    assert not state.answering
    assert not prompt.takes("y")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("columns", [44, 80, 200])
def test_choices_are_broken_between_two_of_them(columns: int, lang: str) -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    event = ApprovalRequested("1", "1", "edit", diff, "diff", [], can_always=False)
    offered = choices(event, "default", Catalog(lang))
    rows = [plain(row) for row in choice_rows(offered, columns)]
    assert " · ".join(rows) == " · ".join(f"{choice.key} {choice.about}" for choice in offered)
    assert all(text_width(row) <= columns for row in rows)
