"""The way of one turn: from a person's message to the model's answer.

input → user message → which model? → (complex? todos) → for each step: compact? → guards → ask the model →
tool calls: run them and go on · none: continue? verify? → end of turn, recorded
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from coder.engine.complex_tasks import start_with_todos, without_pastes
from coder.engine.fitting import needs_compaction, too_long
from coder.engine.guards import GUARDS, session_turns, stopped
from coder.engine.notes import (
    rules_note,
    settle_git,
    settle_sandbox,
    tell_changed_rules,
    tell_nested_instructions,
    with_notes,
)
from coder.engine.routing import choose_model
from coder.engine.session import Session
from coder.engine.setup import installed
from coder.engine.step import Answer, ask_model
from coder.engine.turn_state import NOTHING_ASKED, Asks, Turn, Words
from coder.history.sinks import HistoryError, valid_text
from coder.models.model import CallReady, ModelError
from coder.protocol import entries
from coder.protocol.events import Evidence, Failed, Notice, Steered, TurnEnded, TurnStarted
from coder.protocol.history import INTERRUPTED, title_of
from coder.protocol.messages import IMAGE_SUFFIX, Image, Tokens, tool_message
from coder.texts import Text
from coder.tools.tool import ToolResult


async def run_turn(
    session: Session,
    text: str,
    asks: Asks = NOTHING_ASKED,
    attached: str = "",
    words: Words | None = None,
    instant: entries.InstantMode | None = None,
    sent: Sequence[Image] = (),
) -> Turn:
    """Run a message to its answer. Whatever happens, the turn's end is recorded.
    `attached` is part of the message, but not of what the person said. `words`: what they said of `text`;
    all of it where that is not told. `instant`: the mode that `text` was rendered from; its `@` are text.
    `sent`: images of the front end's."""
    if session.agent.ide is not None:
        await session.agent.ide.settle()
    await settle_git(session)
    await settle_sandbox(session)
    images: list[Image] = []
    typed = words.typed if words is not None else ""  # a subagent's objective is a model's
    written = instant or session.agent.parent is not None  # nobody typed its `@`
    expanded = text if written else await _expand_mentions(session, text, images, typed)
    lines = await _with_images(session, sent, images) if sent else ""
    message = "\n\n".join(part for part in (expanded, attached, lines) if part)
    refused = too_long(session, message, images)
    blocked = await _blocked_by_hook(session, text or attached)
    words = words or Words(text, text)
    turn = _begin(
        session,
        text or attached or lines,
        message,
        asks,
        words,
        refused=bool(refused or blocked),
        instant=instant,
        images=images,
    )

    async def work() -> None:
        if refused is not None:
            turn.status, turn.reason = stopped(session, "prompt_limit", "prompt_limit", refused)
            return
        if blocked is not None:
            turn.status, turn.reason = stopped(session, "error", "hook", blocked)
            return
        if stop := session_turns(session, turn):
            turn.status, turn.reason = stop
            return
        await _gather_tools(session, turn)
        await choose_model(session, turn)
        await start_with_todos(session, turn)
        await _steps(session, turn)

    await _run_and_finish(session, turn, work())
    return turn


async def _blocked_by_hook(session: Session, text: str) -> Text | None:
    if session.agent.hooks is None:
        return None
    from coder.engine.hook_points import before_prompt

    return await before_prompt(session, text)


async def _gather_tools(session: Session, turn: Turn) -> None:
    """The tools of installed packages, and of MCP servers, which may have to be waited for."""
    agent = session.agent
    if agent.plugins is None:
        agent.plugins = await asyncio.to_thread(installed, agent.root)
        if agent.plugins:
            from coder.engine.plugins import add_tools

            with turn.busy(Text("stopped.packages")):
                await add_tools(session)
    if session.agent.mcp is None:
        return
    from coder.engine.mcp_session import offer_tools

    with turn.busy(Text("stopped.servers")):
        await offer_tools(session)


async def _expand_mentions(session: Session, text: str, images: list[Image], typed: str) -> str:
    """The text, then what it names: files (`@path`) and resources of MCP servers (`@server:uri`). Files that
    are images go to `images`. What is put in is not searched for names again. `typed`: the person's words."""
    if "@" not in text and not IMAGE_SUFFIX.search(text):  # a dropped image's path
        return text
    from coder.context.attachments import expand

    agent = session.agent
    servers = agent.mcp.all if agent.mcp is not None else {}
    person = typed if agent.front.kind != "batch" else ""  # a task may be anybody's text
    message, notes, found = await asyncio.to_thread(expand, text, agent.place.workspace, servers, person)
    for note in notes:
        agent.emit(Notice(note, "warning"))
    images += found
    if not servers:
        return message
    from coder.engine.mcp_session import resources

    return "\n\n".join([message, *await resources(session, text)])


async def _with_images(session: Session, sent: Sequence[Image], images: list[Image]) -> str:
    """Add what the front end sent; a line of the message for each."""
    from coder.engine.session_images import received

    taken, lines = await received(session, sent)
    images += taken
    return "\n".join(lines)


def _begin(
    session: Session,
    text: str,
    message: str,
    asks: Asks,
    words: Words,
    *,
    refused: bool,
    instant: entries.InstantMode | None,
    images: Sequence[Image],
) -> Turn:
    """Record the message; one that is `refused` does not become part of the conversation."""
    agent = session.agent
    redact = session.redactor.redact
    text, words = redact(text), Words(redact(words.typed), redact(words.said))
    session.log.turn += 1
    session.log.step = 0
    turn = Turn(session.log.turn, text, session.id, asks, words)
    turn.refused = refused
    session.turn = turn
    _let_start_tasks(session)
    session.undo.begin_turn(turn.number)
    if not refused:
        # The editor's selection, the files named with @ and the person's own words may hold secrets as well.
        message = redact(with_notes(session, message))
    entry = entries.TurnStart(
        prompt_id=turn.prompt_id,
        tokens=entries.PromptTokens(prompt=_prompt_tokens(session, text)),
        said=words.said if words.said != text else None,
        asks=asks if asks != NOTHING_ASKED else None,
        refused=refused,
        message=message if message != text and not refused else None,
        instant=_redacted(instant, redact),
    )
    session.rewinds = []
    session.title = session.title or title_of(text)
    session.history.add_user(text, entry, () if refused else images)
    turn.images = [image.name for image in images]
    agent.emit(TurnStarted(turn=turn.number, text=text, prompt_id=turn.prompt_id))
    return turn


def _redacted(
    instant: entries.InstantMode | None, redact: Callable[[str], str]
) -> entries.InstantMode | None:
    if instant is None:
        return None
    values = {name: redact(value) for name, value in instant.values.items()}
    return entries.InstantMode(mode_id=instant.mode_id, values=values)


def _prompt_tokens(session: Session, text: str) -> int:
    """Exact where a vocabulary was chosen for it; else none is loaded for this alone."""
    counter = session.conversation.counter
    return counter.count(text) if session.agent.chosen.tokenizer else counter.quick(text)


def _let_start_tasks(session: Session) -> None:
    if "task" in session.agent.tools:
        session.context.start_task = partial(_start_task, session)


async def _start_task(
    session: Session, kind: str, objective: str, on_output: Callable[[str], None]
) -> ToolResult:
    from coder.engine.subagent import run_subagent  # whose turn is one of these

    return await run_subagent(session, kind, objective, on_output)


async def _steps(session: Session, turn: Turn) -> None:
    while True:
        session.log.step = turn.steps
        await settle_sandbox(session)  # before the guards: what they find must hold until the request
        if needs_compaction(session):
            from coder.engine.compact import compact_if_needed

            await compact_if_needed(session, turn)
        for guard in GUARDS:
            if stop := await guard(session, turn):
                turn.status, turn.reason = stop
                return
        tell_changed_rules(session)
        await _hear_person(session, turn)
        try:
            answer = await ask_model(session, turn)
        except ModelError as error:
            if error.kind == "context":
                from coder.engine.compact import compact_after_overflow

                if await compact_after_overflow(session, turn):
                    continue
            raise
        turn.steps += 1
        if answer.calls:
            from coder.engine.calls import run_calls

            await run_calls(session, turn, answer.calls)
            tell_nested_instructions(session)
        elif answer.cut_by_loop:
            continue  # the loop guard has the next word
        elif not await _goes_on(session, turn, answer):
            return


async def _goes_on(session: Session, turn: Turn, answer: Answer) -> bool:
    """Whether the turn continues after an answer without calls: it was truncated, verification failed, or a
    hook says so."""
    from coder.engine.continuation import wants_to_continue

    if await wants_to_continue(session, turn, answer) or await verify_edits(session, turn):
        return True
    if session.agent.hooks is not None:
        from coder.engine.hook_points import before_stop

        if await before_stop(session, turn):
            return True
    if not turn.steers:
        return False
    turn.earlier_answers, turn.unverified_answers = turn.answers(), []
    return True


async def _hear_person(session: Session, turn: Turn) -> None:
    """What came while the turn ran becomes part of the conversation before the next step."""
    redact = session.redactor.redact
    while turn.steers:
        op = turn.steers[0]
        text = valid_text(op.text).strip()
        images: list[Image] = []
        typed = without_pastes(text, [valid_text(piece).strip() for piece in op.pasted])
        message = await _expand_mentions(session, text, images, typed)
        # What cannot be heard becomes a turn of its own, which says why or shows its images.
        fits = not images and too_long(session, message, images) is None
        heard = fits and await _blocked_by_hook(session, text) is None
        if heard:
            session.history.add_note(message, "person")
            turn.heard.append(redact(text))
            typed = redact(typed)
            turn.words = Words(f"{turn.words.typed}\n\n{typed}", f"{turn.words.said}\n\n{typed}")
        del turn.steers[0]  # only now: a turn that is cancelled meanwhile gives it back
        session.agent.emit(Steered(op.text, heard))


async def verify_edits(session: Session, turn: Turn) -> bool:
    """True where the turn must go on because a check failed."""
    if not turn.edited:
        return False
    from coder.engine.verify import attempts as verify

    return await verify.verify_edits(session, turn)


async def _run_and_finish(session: Session, turn: Turn, work: Coroutine[Any, Any, None]) -> None:
    """Run the work and end the turn, however the work ends."""
    try:
        await work
    except asyncio.CancelledError:
        turn.status, turn.reason = "cancelled", cancelled(turn.doing)
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # the cancel was for this turn; ending it properly must not be cut off
        _tell_of_jobs(session)
    except ModelError as error:
        turn.status, turn.reason = ("prompt_limit" if error.kind == "context" else "error"), error.phrase
        session.agent.emit(Failed(error.phrase, code=error.kind))
    except HistoryError as error:
        turn.status, turn.reason = "error", error.phrase
        session.agent.emit(Failed(error.phrase, code="record"))
    except Exception as error:  # said by the engine, which keeps its details; here the turn is ended
        words = f"{type(error).__name__}: {error}"
        turn.status, turn.reason = "error", Text("fault.words", words=words)
        _end(session, turn)
        raise
    _end(session, turn)


def _tell_of_jobs(session: Session) -> None:
    """A cancel ends the turn; what runs in the background is the session's, and is named."""
    if session.agent.parent is None and (running := session.jobs.running):  # not for a subagent as well
        names = ", ".join(f"{job.id} ({session.redactor.redact(job.command)})" for job in running)
        session.agent.emit(Notice(Text("job.still_running", jobs=names)))


def cancelled(doing: Sequence[str | Text]) -> Text:
    return Text("turn.cancelled", what=tuple(doing)) if doing else Text("turn.cancelled_idle")


def _leave_no_call_open(session: Session) -> None:
    """Answer calls that have no result because the record could not be written; resuming does the same."""
    messages = session.conversation.messages
    at = len(messages)
    while at and messages[at - 1].role == "tool":
        at -= 1
    given = {message.tool_call_id for message in messages[at:]}
    for call in messages[at - 1].tool_calls if at else ():
        if call.id not in given:
            session.conversation.append(tool_message(call, INTERRUPTED))


def _end(session: Session, turn: Turn) -> None:
    agent = session.agent
    turn.accepts_steering = False
    for op in turn.steers:
        agent.emit(Steered(op.text, heard=False))
    _leave_no_call_open(session)
    verification = turn.checks.result()
    turn.answer = "\n\n".join(dict.fromkeys(filter(None, turn.answers())))
    evidence = _evidence(session, turn)
    if evidence is not None:
        session.checks.last_evidence = evidence, verification
    duration = round((time.monotonic() - turn.begun) * 1000)
    entry = entries.TurnEnd(
        status=turn.status,
        step_count=turn.steps,
        duration_ms=duration,
        tokens=Tokens.of(turn.usage),
        prompt_id=turn.prompt_id,
        verification=verification,
        evidence=evidence,
        finish_reason=turn.finish_reason,
        cost_usd=turn.cost or None,
        error_message=None if turn.reason is None else str(turn.reason),
        title=session.renamed,
    )
    try:
        if turn.status == "ok":
            session.log.append(entries.Final(tokens=entry.tokens), turn.answer)
        session.log.append(entry)
    except HistoryError as error:
        if turn.status != "error":
            agent.emit(Failed(error.phrase, code="record"))
        turn.status, turn.reason = "error", error.phrase
    else:
        session.write_snapshot()
    if evidence is not None:
        from coder.engine.verify.attempts import tell_evidence

        tell_evidence(session, turn, evidence)
    agent.emit(
        TurnEnded(
            turn=turn.number,
            status=turn.status,
            text=turn.answer,
            steps=turn.steps,
            usage=turn.usage,
            duration_ms=duration,
            error=turn.reason if turn.reason is not None else "",
            verification=verification,
            finish_reason=turn.finish_reason,
            evidence=evidence,
        )
    )


def _evidence(session: Session, turn: Turn) -> Evidence | None:
    """What a turn has shown that changed files, or whose answer speaks of tests."""
    if not turn.checks.touched and not ("test" in turn.answer.lower() or "测" in turn.answer):
        return None
    from coder.engine.verify.attempts import evidence_of

    return evidence_of(session, turn)


async def continue_turn(session: Session) -> Turn | None:
    """Resume a turn whose last call waited for approval: ask again, then continue."""
    pending = session.pending
    if pending is None:
        return None
    session.pending = None
    state = pending.replay
    turn = Turn.taken_up(state.turn, pending.turn, session.id, pending.asks)
    _let_start_tasks(session)
    session.turn = turn
    session.log.step = max(0, turn.steps - 1)
    session.reminders.rules = rules_note(session)
    waiting = state.pending_approval and state.pending_approval.call_id
    lost = [call for call in state.unanswered if call.id != waiting]

    async def work() -> None:
        session.history.record_interrupted(lost)
        for call in lost:
            session.conversation.append(tool_message(call, INTERRUPTED))
        await choose_model(session, turn, pending.turn.model)
        from coder.engine.calls import run_calls

        await run_calls(session, turn, [CallReady(c) for c in state.unanswered if c.id == waiting])
        await _steps(session, turn)

    await _run_and_finish(session, turn, work())
    return turn
