"""The start and end of a turn: its message is expanded and recorded, its answer and cost are recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from coder import context, engine
from coder.engine.complex_tasks import without_pastes
from coder.engine.limits import Stop, stopped, too_long
from coder.engine.notes import settle_git, settle_sandbox, with_notes
from coder.engine.session import Session
from coder.engine.turn_state import NOTHING_ASKED, Turn, TurnInput, Words
from coder.history.sinks import HistoryError, valid_text
from coder.protocol import entries
from coder.protocol.events import Evidence, Failed, Notice, Steered, TurnEnded, TurnStarted
from coder.protocol.history import INTERRUPTED, title_of
from coder.protocol.messages import IMAGE_SUFFIX, Image, Tokens, tool_message
from coder.texts import Text
from coder.tools.tool import ToolResult


async def begin(session: Session, given: TurnInput) -> tuple[Turn, Stop | None]:
    """The recorded start of a turn, and why it must stop at once, if it must."""
    agent = session.agent
    if agent.ide is not None:
        await agent.ide.settle()
    await settle_git(session)
    await settle_sandbox(session)
    images: list[Image] = []
    typed = given.words.typed if given.words is not None else ""  # a subagent's objective is a model's
    text = given.text
    if given.instant is None and agent.parent is None:  # otherwise nobody typed its `@`
        text = await _expand_mentions(session, text, images, typed)
    lines = await _take_images(session, given.images, images)
    message = "\n\n".join(part for part in (text, given.attached, lines) if part)
    too_large = too_long(session, message, images)
    blocked = await _blocked_by_hook(session, given.text or given.attached)
    refused = too_large is not None or blocked is not None
    said = given.text or given.attached or lines
    turn = _record(session, given, said, message, () if refused else images, refused=refused)
    turn.images = [image.name for image in images]
    if too_large is not None:
        return turn, stopped(session, "prompt_limit", "prompt_limit", too_large)
    if blocked is not None:
        return turn, stopped(session, "error", "hook", blocked)
    return turn, None


def _record(
    session: Session, given: TurnInput, text: str, message: str, images: Sequence[Image], *, refused: bool
) -> Turn:
    """Record the message; one that is `refused` does not become part of the conversation."""
    agent, redact = session.agent, session.redactor.redact
    words = given.words or Words(given.text, given.text)
    text, words = redact(text), Words(redact(words.typed), redact(words.said))
    session.log.turn += 1
    session.log.step = 0
    turn = Turn(session.log.turn, text, session.id, given.asks, words)
    turn.refused = refused
    session.turn = turn
    allow_subagents(session)
    session.undo.begin_turn(turn.number)
    if not refused:
        # The editor's selection, mentioned files and the person's own words may hold secrets as well.
        message = redact(with_notes(session, message))
    entry = entries.TurnStart(
        prompt_id=turn.prompt_id,
        tokens=entries.PromptTokens(prompt=_prompt_tokens(session, text)),
        said=words.said if words.said != text else None,
        asks=given.asks if given.asks != NOTHING_ASKED else None,
        refused=refused,
        message=message if message != text and not refused else None,
        instant=_redacted(given.instant, redact),
    )
    session.rewinds = []
    session.title = session.title or title_of(text)
    session.history.add_user(text, entry, images)
    agent.emit(TurnStarted(turn=turn.number, text=text, prompt_id=turn.prompt_id))
    return turn


async def add_steering(session: Session, turn: Turn) -> None:
    """What the person wrote while the turn ran becomes part of the conversation before the next step."""
    redact = session.redactor.redact
    while turn.steers:
        op = turn.steers[0]
        text = valid_text(op.text).strip()
        images: list[Image] = []
        typed = without_pastes(text, [valid_text(piece).strip() for piece in op.pasted])
        message = await _expand_mentions(session, text, images, typed)
        # A message that does not fit becomes a turn of its own, which says why or shows its images.
        fits = not images and too_long(session, message, images) is None
        heard = fits and await _blocked_by_hook(session, text) is None
        if heard:
            session.history.add_note(message, "person")
            turn.heard.append(redact(text))
            typed = redact(typed)
            turn.words = Words(f"{turn.words.typed}\n\n{typed}", f"{turn.words.said}\n\n{typed}")
        del turn.steers[0]  # only now: a turn that is cancelled meanwhile gives it back
        session.agent.emit(Steered(op.text, heard))


def allow_subagents(session: Session) -> None:
    if "task" in session.agent.tools:
        session.context.start_task = partial(_start_task, session)


async def _start_task(
    session: Session, kind: str, objective: str, on_output: Callable[[str], None]
) -> ToolResult:
    return await engine.subagent.run_subagent(session, kind, objective, on_output)


async def _blocked_by_hook(session: Session, text: str) -> Text | None:
    return None if session.agent.hooks is None else await engine.hook_points.before_prompt(session, text)


async def _expand_mentions(session: Session, text: str, images: list[Image], typed: str) -> str:
    """The text, then the files (`@path`) and MCP resources (`@server:uri`) that it names, images in `images`.
    Inserted text is not searched for names again. `typed`: the person's words.
    """
    if "@" not in text and not IMAGE_SUFFIX.search(text):  # a dropped image's path
        return text
    agent = session.agent
    servers = agent.mcp.all if agent.mcp is not None else {}
    person = typed if agent.front.kind != "batch" else ""  # a task may be anybody's text
    expand = context.attachments.expand
    message, notes, found = await asyncio.to_thread(expand, text, agent.place.workspace, servers, person)
    for note in notes:
        agent.emit(Notice(note, "warning"))
    images += found
    if not servers:
        return message
    return "\n\n".join([message, *await engine.mcp_session.resources(session, text)])


async def _take_images(session: Session, sent: Sequence[Image], images: list[Image]) -> str:
    """Add what the front end sent; a line of the message for each."""
    if not sent:
        return ""
    taken, lines = await engine.session_images.received(session, sent)
    images += taken
    return "\n".join(lines)


def _redacted(
    instant: entries.InstantMode | None, redact: Callable[[str], str]
) -> entries.InstantMode | None:
    if instant is None:
        return None
    values = {name: redact(value) for name, value in instant.values.items()}
    return entries.InstantMode(mode_id=instant.mode_id, values=values)


def _prompt_tokens(session: Session, text: str) -> int:
    """Exact if a tokenizer is configured, otherwise an estimate."""
    counter = session.conversation.counter
    return counter.count(text) if session.agent.chosen.tokenizer else counter.quick(text)


def end(session: Session, turn: Turn) -> None:
    """Record the end and write the snapshot."""
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
        engine.verify.attempts.tell_evidence(session, turn, evidence)
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
    """Of a turn that changed files, or whose answer speaks of tests."""
    if not turn.checks.touched and not ("test" in turn.answer.lower() or "测" in turn.answer):
        return None
    return engine.verify.attempts.evidence_of(session, turn)


def _leave_no_call_open(session: Session) -> None:
    """Answer calls that have no result because the log could not be written; resuming does the same."""
    messages = session.conversation.messages
    at = len(messages)
    while at and messages[at - 1].role == "tool":
        at -= 1
    given = {message.tool_call_id for message in messages[at:]}
    for call in messages[at - 1].tool_calls if at else ():
        if call.id not in given:
            session.conversation.append(tool_message(call, INTERRUPTED))
