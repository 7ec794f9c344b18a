"""Which tasks are complex, and the todo list such a task starts with."""

from __future__ import annotations

import re

import msgspec

from coder.base.text import shortened
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.policy.decide import decide
from coder.protocol import entries
from coder.protocol.messages import Message, tool_call
from coder.tools.todo import unfinished

MIN_LENGTH = 40
MIN_KEYWORDS = 3
MIN_SEGMENTS = 3
MAX_ITEMS = 10
MAX_ITEM = 200  # characters: the list is a reminder beside the message, not the message again

KEYWORDS = (
    *("并且", "同时", "另外", "分别", "步骤", "重构", "迁移", "优化"),
    *("refactor", "migrate", "optimize", "additionally", "respectively", "steps", "as well as", "afterwards"),
)
SPLIT_IT = (
    "This list was made from the first sentence of the request. Where the work has several steps, replace it "
    "by those steps with todowrite; where it has one, go on without it."
)

ADD_THE_REST = "These are the items that the request lists: add with todowrite what it asks for beside them."

# Patterns stay text, and are compiled only where a character that they need occurs: all of them together
# would take 5 ms of the way to the first request.
_SEPARATORS = "，。；、,\n"
_FENCED = r"(?ms)^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)"
_HANZI = "一二三四五六七八九十"
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_BEFORE = r"(?:^|(?<=[\s:：，。；,;、!！?？]))"
# How items are numbered, and the first number; the group is the number. A digit after `1.` makes it a
# version or a sum.
_MARKS = (
    (r"(?<![A-Za-z0-9_.(（])(\d{1,2})[.．)）、](?!\d)[ \t]*", "1"),
    (r"[(（](\d{1,2})[)）][ \t]*", "1"),
    (rf"([{_CIRCLED}])[ \t]*", "①"),
    (_BEFORE + rf"([{_HANZI}])、[ \t]*", "一"),
    (rf"[(（]([{_HANZI}])[)）][ \t]*", "一"),
    (_BEFORE + rf"第([{_HANZI}])[步点项件][，,：:、 \t]*", "一"),
)
_BULLET = r"(?m)^[ \t]*[-*•][ \t]+(?=\S)"
_JOINING = ("and", "or", "to", "和", "与", "或", "到")
_LETTERS = r"(?<![\w/.])[A-Z](?:/[A-Z]){2,}(?![\w/])"
_HAN = r"\u3400-\u9fff"
# Words between slashes are an enumeration where they are Chinese: `src/app/x` is a path, `5/10` a date.
_SLASHED = rf"(?<![\w/.@~-])[\w]*[{_HAN}][\w]*(?:[/／][\w]*[{_HAN}][\w]*){{2,}}(?![\w/.])"
_SENTENCE = r".+?(?:[。！？!?…]+|(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)\.(?=\s|$)|\n|$)"
_GREETING = (
    r"(?i)^(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|thanks|thank you|please|ok|okay"
    r"|你好|您好|嗨|请问)"
    r"(?: (?:there|all|everyone|coder))?\W*$"
)


def is_complex(text: str) -> bool:
    """By explicit enumeration, then length, then keywords and segments, in that order."""
    text = text.strip()
    if listed(text) or len(text) >= MIN_LENGTH:
        return True
    lowered = text.lower()
    return sum(word in lowered for word in KEYWORDS) >= MIN_KEYWORDS or len(_segments(text)) >= MIN_SEGMENTS


def _segments(text: str) -> list[str]:
    for separator in _SEPARATORS:
        text = text.replace(separator, "\n")
    return [part.strip() for part in text.split("\n") if part.strip()]


def without_pastes(text: str, pasted: list[str]) -> str:
    """The typed part of a message, without pastes and fenced code blocks."""
    for piece in sorted(pasted, key=len, reverse=True):
        text = text.replace(piece, "\n") if piece else text
    return re.sub(_FENCED, "\n", text).strip() if "```" in text or "~~~" in text else text.strip()


def listed(text: str) -> list[str]:
    """The items of an explicit enumeration, if any."""
    ones = {"1" if char.isdecimal() else char for char in text}
    marks = [mark for mark, one in _MARKS if one in ones]
    found = max((_numbered(text, mark) for mark in marks), key=len, default=[])
    if len(found) < 2 and ones & set("-*•"):
        found = _cut(text, [(m.start(), m.end()) for m in re.finditer(_BULLET, text)])
    if len(found) < 2 and ones & set("/／"):
        found = _slashed(text)
    return found if len(found) >= 2 else []


def _numbered(text: str, mark: str) -> list[str]:
    """Items whose numbers count up from 1."""
    spans: list[tuple[int, int]] = []
    for found in re.finditer(mark, text):
        if _number(found[1]) == len(spans) + 1:
            spans.append(found.span())
    return _cut(text, spans)


def _number(mark: str) -> int:
    if mark.isdecimal():
        return int(mark)
    return (_HANZI if mark in _HANZI else _CIRCLED).index(mark) + 1


def _cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """The text after each mark, up to the next or the end of its paragraph. `(1) and (2)` are references."""
    ends = [start for start, _ in spans[1:]]
    items = [text[start:end] for (_, start), end in zip(spans, [*ends, len(text)], strict=False)]
    items = [" ".join(item.strip().split("\n\n")[0].split()).strip(" ,，;；。、") for item in items]
    return items if all(item and item.lower() not in _JOINING for item in items) else []


def _slashed(text: str) -> list[str]:
    if found := re.search(_LETTERS, text):
        return found[0].split("/")
    if not (found := re.search(_SLASHED, text)):
        return []
    first, *middle, last = re.split("[/／]", found[0])
    # Chinese has no spaces: `实现登录/注册/注销功能` names 登录, 注册 and 注销, which are about as long.
    longest = max(map(len, middle))
    return [first[-longest:], *middle, last[:longest]]


def first_todos(text: str) -> list[str]:
    """The enumerated items, else the first sentence of the request; never fragments of one."""
    items = listed(text.strip()) or [_first_sentence(text)]
    return [shortened(item, MAX_ITEM) for item in items[:MAX_ITEMS] if item]


def _first_sentence(text: str) -> str:
    sentences = [found.strip() for found in re.findall(_SENTENCE, text.strip()) if found.strip()]
    asks: list[str] = [s for s in sentences if not re.match(_GREETING, s)] or [" ".join(text.split())]
    # "Here is the error:" only announces what is pasted below it.
    return next((s for s in asks if not s.endswith((":", "："))), asks[0])


async def start_with_todos(session: Session, turn: Turn) -> None:
    """Start a complex task with a todo list, as a `todowrite` call and its result. An open list is kept,
    unless the engine made it and nobody has updated it."""
    if not _wanted(session) or not is_complex(turn.words.typed):
        return
    todos = [{"content": item, "status": "pending"} for item in first_todos(turn.words.typed)]
    if not todos or (len(todos) == 1 and session.agent.few_tools):  # a small model does nothing but repeat it
        return
    arguments = msgspec.json.encode({"todos": todos}).decode("utf-8")
    call = tool_call(f"todo_{turn.number}", "todowrite", arguments)
    session.history.add_assistant(
        Message(role="assistant", content="", tool_calls=[call]), entries.Assistant(by="engine")
    )
    session.history.add_action(call, {"todos": todos})
    tool = session.agent.tools["todowrite"]
    result = await tool.run({"todos": todos}, session.context, lambda _text: None)
    alone = len(todos) == 1
    for_model = f"{result.for_model}\n{SPLIT_IT if alone else ADD_THE_REST}"
    result = msgspec.structs.replace(result, for_model=for_model, meta={**result.meta, "by": "engine"})
    session.history.add_observation(call, result, shown=not alone)
    session.engine_todos = list(session.context.todos)


def _wanted(session: Session) -> bool:
    agent = session.agent
    if not agent.config.workflow.require_todo_for_complex or "todowrite" not in agent.tools:
        return False
    if (
        decide("todowrite", agent.preset, agent.mode, overrides=agent.config.permission.tools).decision
        != "allow"
    ):
        return False
    todos = session.context.todos
    return not unfinished(todos) or todos == session.engine_todos
