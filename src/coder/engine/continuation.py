"""Whether the model should continue after an answer without tool calls."""

from __future__ import annotations

import re
from functools import partial

from coder.engine.session import Session
from coder.engine.side_request import one_of, side_request
from coder.engine.step import Answer, is_plain
from coder.engine.turn_state import Turn
from coder.models.model import FILTERED, ModelError
from coder.models.quotation import is_quoted
from coder.models.salvage.find_calls import asks_to_see_calls, find_unrun
from coder.protocol.events import Notice
from coder.texts import Text

CONTINUE = "Please continue."
_EMPTY_IN_A_ROW = 2  # empty answers that are retried
_SHOWN = 2_000  # characters of an answer's end shown to the model
_END = 400  # characters at the end searched for an announcement
# Finish reasons of a call that the provider itself could not read: there was to be one.
_BAD_CALLS = ("malformed_function_call", "unexpected_tool_call")

# A dot ends a sentence only before a space: not in `parse.py` or `v1.2`.
_SENTENCE_END = r"(?<=[.!?…])(?<!e\.g\.)(?<!i\.e\.)[\"')\]*_`]*\s+|(?<=[。！？])|\n+"
_CODE_AT_THE_END = r"\s*(?P<marks>```|~~~)[^`~]*(?P=marks)\s*\Z"
_FILLER = (
    r"(?:this (?:will|may|might|should) take|(?:just )?(?:one|a) (?:moment|second|sec)|please (?:wait|hold)"
    r"|hold on|stand by|bear with|请?稍(?:等|候)|马上)"
)
_ANNOUNCES = (
    r"\b(?:let me|let[’']s|i[’']ll|i will|i[’']?\s?a?m (?:now )?(?:going to|about to)|we[’']ll|we will"
    r"|i (?:now |still |first )?need to|i(?:[’']m| am) now \w+ing|next,? (?:i|we)\b|now (?:i|we)\b|now,? to\b"
    r"|(?:now|next) (?:for|comes)\b|(?:my )?next step(?: is|:)|going to|on to the next|time to"
    r"|proceeding (?:to|with)|moving on to|starting with)"
    r"|(?:让|由)我(?!们?知道)|我(?:们)?(?:现在|接下来|接着|先|再|马上|这就|立即|将|会|来|去|要|需要|准备|打算|开始|继续)"
    r"|(?:接下来|下一步|下面|接着|随后|然后|现在)(?:，|,|：|:|就|开始|是|来|将|要|我|先|去|需要|修改|运行|检查|查看|读取)"
)
# Phrases of an answer that is complete or waits for the person.
_WAITS = (
    r"\blet me know\b|\b(?:if|once|when|after|until|unless|whenever) you\b"
    r"|\bif (?:needed|necessary|desired)\b"
    r"|\bi(?:[’']ll| will) (?:not|never|leave|wait|stop|be (?:here|happy|glad))|\bi need (?:you|your|more)\b"
    r"|\bi(?:[’']ll| will) need (?:you|your|more)\b|\bneed to (?:know|ask)\b"
    r"|如果|若(?:您|你|需)|(?:您|你)(?:可以|需要|想|要是|确认|来决定)|需要(?:您|你)|请(?:您|你)?(?:告诉|确认|提供|问|说明)"
    r"|我(?:不会|会等|会在这里|不再|先不)|等(?:您|你)|吗\s*$|呢\s*$"
)

_QUESTION = """\
Below is the end of an assistant's answer to a person who gave it a task. Who should speak next?
Reply with one word: MODEL if it announced work that it has not done yet, USER if it is done or asks back."""


async def wants_to_continue(session: Session, turn: Turn, answer: Answer) -> bool:
    """Continue a truncated or empty answer without asking; the note is recorded. Raises `ModelError` where
    all answers are empty."""
    runtime = session.agent.config.runtime
    reason = _by_rule(turn, answer)
    if runtime.next_speaker == "off" or turn.continuations >= runtime.max_continuations:
        reason = ""
    elif not reason and _to_be_asked(runtime.next_speaker, answer):
        reason = await _by_model(session, turn, answer.text)
    if not reason:
        _tell_how_it_ended(session, turn, answer)
        return False
    turn.continuations += 1
    turn.unfinished = turn.answer if reason in ("truncated", "empty") else ""
    session.history.add_note(CONTINUE, reason)
    return True


def _to_be_asked(next_speaker: str, answer: Answer) -> bool:
    if not answer.text.strip() or _filtered(answer):
        return False
    return next_speaker == "always" or announces(answer.text)


def _by_rule(turn: Turn, answer: Answer) -> str:
    empty = not answer.text.strip()
    turn.empty_answers = turn.empty_answers + 1 if empty else 0
    if _filtered(answer):
        return ""  # it would be filtered again
    if answer.finish_reason == "length" and not empty:
        return "truncated"
    if answer.finish_reason in _BAD_CALLS and not empty:
        return "announced"
    return "empty" if empty and turn.empty_answers <= _EMPTY_IN_A_ROW else ""


def _filtered(answer: Answer) -> bool:
    return answer.finish_reason.lower() in FILTERED


def _tell_how_it_ended(session: Session, turn: Turn, answer: Answer) -> None:
    """Report an incomplete answer to the person and in `turn_end`."""
    agent = session.agent
    if not turn.answer.strip():
        phrase = Text("turn.filtered") if _filtered(answer) else Text("turn.nothing", n=turn.empty_answers)
        raise ModelError(phrase, kind="empty")
    if _filtered(answer):
        agent.emit(Notice(Text("turn.filtered_part"), "warning"))
    elif answer.finish_reason in _BAD_CALLS:
        agent.emit(Notice(Text("model.bad_call"), "warning"))
    elif answer.finish_reason == "length":
        agent.emit(Notice(Text("turn.cut_off", n=turn.continuations), "warning"))
    elif tool := _unrun(session, turn, answer.text):
        agent.emit(Notice(Text("turn.call_not_run", tool=tool), "warning"))
        session.reminders.add(
            f"The call of {tool} in the text of your last answer was not run: it was taken for text."
        )


def _unrun(session: Session, turn: Turn, text: str) -> str:
    """The tool of a call that was written as text, and not taken for one because of the text around it."""
    if "<" not in text and "[TOOL_CALLS]" not in text:
        return ""

    found = find_unrun(text, session.agent.specs, partial(is_plain, session))
    if found is None or asks_to_see_calls(turn.text):
        return ""
    tool, block = found
    earlier = session.conversation.messages[:-1]  # the last is this answer
    return "" if is_quoted(block, earlier, turn.words.typed) else tool


def announces(text: str) -> bool:
    """Whether the end announces work without a tool call."""
    text = re.sub(_CODE_AT_THE_END, "", text[-4 * _END :]).rstrip()[-_END:]
    sentences = [s for s in re.split(_SENTENCE_END, text) if s and s.strip(" \t*_`#>-.…")]
    while len(sentences) > 1 and re.match(rf"\W*{_FILLER}", sentences[-1], re.IGNORECASE):
        sentences.pop()
    if not sentences:
        return False
    last = sentences[-1].strip()
    if last.rstrip("*_`\"')").endswith(("?", "？")) or re.search(_WAITS, last, re.IGNORECASE):
        return False
    return re.search(_ANNOUNCES, last, re.IGNORECASE) is not None


async def _by_model(session: Session, turn: Turn, text: str) -> str:
    """Ask a model; on failure the turn ends."""
    try:
        said = await side_request(session, turn, turn.model, _QUESTION, text[-_SHOWN:])
    except ModelError:
        return ""
    return "announced" if one_of(said, "MODEL", "USER") == "MODEL" else ""
