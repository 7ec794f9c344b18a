"""Finds the model's claim that tests pass, in English and Chinese.

Precision over recall: a sentence that is negated, conditional, about the future or about the time before the
change, a question, an order, or quoted, is no claim.
"""

from __future__ import annotations

import re

_MOST = 160  # characters of a claim that are kept
_TEXT = 20_000  # characters of an answer that are read: its end, where results are told
_SENTENCE = 1_000  # characters; what is longer is no sentence

# Compiled when they are first needed.
_FENCES = r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)"
_QUOTES = r"\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|『[^』\n]*』|(?m:^[ \t]*>.*$)"
_SENTENCES = r"(?<=[.!?])\s+|(?<=[。！？；;])|\n+"

_WHICH = (
    r"(?:(?:all|the|every|each|of|these|those|our|my|your|its|new|existing|other|related|relevant|updated"
    r"|added|full"
    r"|whole|entire|complete|unit|integration|regression|doc|project|project's|\d+|both|remaining"
    r"|affected)\s+){0,8}"
)
_TESTS = (
    rf"{_WHICH}(?:(?:doc|unit)?tests?|test[- ]?(?:suite|cases?)|suite|specs|pytest|unittests?)(?:\s+suite)?"
)
# Where they are: "the tests in tests/test_a.py and b.py".
_PLACE = r"[\w./:\[\]-]+"
_WHERE = rf"\s+(?:in|of|for|from|under)\s+(?:the\s+)?{_PLACE}(?:(?:,|\s+and)\s+{_PLACE}){{0,4}}"
# A test, its file, or a command that runs tests, as the subject.
_NAMED = (
    r"(?:(?:[\w.-]+/)*(?:tests?[\w-]*|[\w-]+[_.]test)\.\w+|test_\w+(?:\(\))?"
    rf"|(?:{_PLACE}\s+(?:-m\s+|run\s+)?)?(?:pytest|unittest|tox|nox)(?:\s+{_PLACE}){{0,6}}"
    rf"|(?:cargo|go|npm|pnpm|yarn|make|gradle|mvn)\s+(?:-\w+\s+|run\s+)?test(?:\s+[\w./:=-]+){{0,6}})"
)
_NOW = (
    r"(?:\s+(?:now|all|still|also|again|successfully|cleanly|fully|are|is|both|have|has|been|should've"
    r"|were run|run|ran|and|to|continue[sd]?)){0,6}"
)
_CLAIMS = (
    rf"\b{_TESTS}(?:\s+\([^)]*\)|\s+(?:in|for|under)\s+\S+|\s+and\s+(?:\w+\s+)?(?:checks?|lint(?:er)?|build))?"
    rf"{_NOW}\s+(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?|ok)\b"
    rf"(?!\s*(?:through|on to|in\b|along|down|[`'\[{{]|(?:an?|no|its|their|this|that|it|them)\b"
    rf"|None|null|True|False|(?:(?:the|wrong|right|same) )*(?:value|argument|parameter|path|flag|data)s?\b)"
    rf"|-)",
    rf"\b{_TESTS}\s+(?:run|ran)\s+(?:clean(?:ly)?|without (?:any )?(?:errors?|failures?))\b",
    # The verb ends its clause: "pytest passes options to plugins" is none.
    rf"(?<![\w/.-])(?:{_TESTS}{_WHERE}|`?{_NAMED}`?){_NOW}\s+(?:pass(?:es|ed)?|green|succeed(?:s|ed)?)"
    r"(?=\s*(?:$|[.,;:!)]|(?:now|again|too|here|cleanly|and|with|after)\b))",
    r"\b\d+(?:\s*/\s*\d+)?\s+(?:tests?\s+)?pass(?:ed|ing)\b(?:\s*,\s*(?:0|no) fail\w*)?",
    r"\btests?:\s*(?:all\s+)?(?:pass(?:ed|ing)?|green)\b",
    r"\beverything\s+(?:now\s+)?(?:passes|is (?:now )?(?:green|passing))\b",
    rf"\b(?:ran|re-?ran|executed)\s+(?:{_TESTS}|`?{_NAMED}`?).{{0,40}}"
    r"\b(?:pass(?:es|ed|ing)?|green|success\w*|no (?:failures|errors))\b",
    r"\bverified\s+(?:by|with|using|via)\s+(?:running\s+)?(?:the\s+)?(?:full\s+)?`?(?:tests?|test suite"
    r"|pytest|unittest"
    r"|cargo test|go test|npm test)\b",
    r"(?:测试|单测|用例|单元测试|集成测试|回归测试|测试套件)(?:[^，。；！？\n]{0,8}?)(?:已经|已|现已|现在|均"
    r"|都|也|全部|全|仍|依然|顺利|成功)*"
    r"(?:通过|跑通|绿了|全绿)(?!率|后|之后|前|之前|以后|时|的话|与否|条件|标准|命令|方式|这个|该|参数"
    r"|\s*[`A-Za-z])",
    r"(?:运行|跑)(?:了|过)?[^，。；！？\n]{0,12}(?:测试|单测|用例)，(?:已经?|都|均|结果)*(?:全部|全都|均)?(?:通过|过了)",
    r"(?:测试|单测|用例)(?:已经?|现在|全部|全都?|都|均)*过了",
    r"测试结果[:：]\s*(?:\d+\s*/\s*\d+\s*)?(?:全部|均|都)*通过",
    r"(?:pytest|unittest|(?:cargo|go|npm|pnpm|yarn|make) test)[^，。；！？\n]{0,16}[，,]?\s*(?:结果)?"
    r"(?:(?:已经?|均|都|全部)+通过|通过(?=了|\s*(?:[。！，,；（(]|$)))(?!率|后|之后|前|之前|以后|时|的话|\s*[`A-Za-z])",
    r"(?:通过了?|跑通了?)(?:所有|全部|全量|现有|相关|单元|集成|\d+\s*个|的)*(?:测试|单测|用例)(?!后|之后|的"
    r"话|来|命令|验证|，请)",
)
# In the same sentence, before the claim or anywhere in it.
_NO_CLAIM = (
    r"\b(?:not|n't|cannot|never|no longer|doubt\w*|without(?! (?:any )?(?:error|failure|issue"
    r"|problem|warning)s?)|unable|fail(?:s|ed)? to|neither|nor|hardly|none of|few"
    r"|only (?:\d+|some|the|one|two|three|on|with|when|under|if)|no (?:\w+ )?tests?|some|several"
    r"|(?:one|two|three|four|five|\d+|many) of the tests"
    r"|all but|most|almost|nearly|half)\b|n't\b",
    r"\b(?:should|would|will|shall|may|might|could|must|can|expect(?:ed)?|ought|hopefully|presumably"
    r"|probably|likely|assume"
    r"|assuming|i believe|i think|in theory)\b|'ll\b",
    r"\b(?:if|once|when(?:ever)?|until|unless|whether|after|before|as (?:long|soon) as|in order to|so that"
    r"|so the"
    r"|to (?:make|get|have|let|see|check|confirm|ensure|verify|keep)|make sure|ensure|ensures|confirm that"
    r"|check that"
    r"|please|need(?:s|ed)?|want(?:s|ed)?|have to|has to|try|goal|previously(?![ -](?:fail|broken|red))"
    r"|earlier|originally|used to|told|fails"
    r"|already passed"
    r"|did|does|do|you can|let me|i'll|next|todo|claim(?:s|ed)?|says?|said)\b",
    r"不|没|未|无法|尚|还未|别|勿|非|并非|难以",
    r"应该|应当|应能|应可|会|将|能|可以|可能|预计|预期|理应|想必|大概|或许|估计|希望|期望|争取|即可",
    r"如果|若|一旦|除非|直到|是否|能否|为了|以便|以使|使得|确保|保证|请|需要|需|须|必须|要求|让|使|等|待|之"
    r"前|此前|原先|原本|修改前|改动前"
    r"|先前|以前|当|只要|才|后再|后即|声称|说|提示|部分|大部分|大多|多数|个别|有些|一些|只有",
)
# Anywhere after the claim: what it leaves out.
_BUT = (
    r"\b(?:except|excluding|apart from|other than|aside from|but (?:for|one|two|\d+)|all but)\b|除"
    r"|\b(?:[1-9]\d*|one|two|three|some|others?)(?:\s+\w+)?\s+(?:still\s+)?fail|\bbut\b.*\bfail"
)
# The time after the turn's own change is now.
_SINCE = (
    r"\bafter\s+(?:(?:the|this|these|those|that|my|all)\s+)*"
    r"(?:(?:change|fix|edit|update|patch|refactor)(?:e?s|ing)?"
    r"|(?:chang|fix|updat|add|correct|adjust|edit|refactor)ing\b[^,;]{0,60}(?=,))"
)


def claim_in(answer: str) -> str:
    """The sentence that says tests pass; "" if there is none."""
    text = answer[-_TEXT:].replace("’", "'")
    text = re.sub(_FENCES, "\n", text)
    text = re.sub(r"`((?:pytest|unittest|\w+ test|tests?)(?: -\w+)*)`", r"\1", text)
    text = re.sub(_QUOTES, "\0", text)
    text = re.sub(r"\*{1,3}(?=\S)|(?<=\S)\*{1,3}|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)", "", text)
    for sentence in re.split(_SENTENCES, text):
        if len(sentence) <= _SENTENCE and "\0" not in sentence and _is_claim(sentence.strip()):
            return " ".join(sentence.split())[:_MOST].strip("-# ")
    return ""


def _is_claim(sentence: str) -> bool:
    if sentence.endswith(("?", "？")) or re.match(r"(?i)- \[ \]", sentence):
        return False
    for pattern in _CLAIMS:
        for found in re.finditer(pattern, sentence, re.IGNORECASE):
            if not _weakened(sentence, found):
                return True
    return False


def _weakened(sentence: str, found: re.Match[str]) -> bool:
    """Whether the words around the claim make it none. A clause after it may say other things."""
    clause_start = max(
        sentence.rfind(mark, 0, found.start()) for mark in (";", "；", " but ", "但", " - ", " — ")
    )
    before = sentence[max(0, clause_start) : found.end()]
    after = re.split(r"[,，;；:：]|\b(?:and|but|so|with|including)\b|但", sentence[found.end() :])[0]
    around = re.sub(_SINCE, "", f"{before}{after}", flags=re.IGNORECASE)
    if any(re.search(pattern, around, re.IGNORECASE) for pattern in _NO_CLAIM):
        return True
    counts = re.search(r"(\d+)\s*(?:/|of|out of)\s*(?:the\s+)?(\d+)", sentence[max(0, clause_start) :])
    if counts and int(counts[1]) != int(counts[2]):
        return True
    return bool(re.search(_BUT, sentence[max(0, clause_start) :], re.IGNORECASE))
