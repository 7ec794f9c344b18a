"""A failing check in two lines: what was expected, what came."""

from __future__ import annotations

import re

_COMPARED = re.compile(r"(?:AssertionError: )?(?:assert )?(?P<got>.+?) (?P<how>==|!=) (?P<expected>.+)")
_WHERE = re.compile(r"\+\s+where (?P<value>.+?) = (?P<call>.+)")
_ERROR = re.compile(r"(?m)^(?:E\s+)?(?P<error>[A-Za-z_.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$")
_PLACE = re.compile(r"(?m)^(?P<place>[\w./-]+\.\w+:\d+)(?::|$)|File \"(?P<file>[^\"]+)\", line (?P<line>\d+)")
_CALLED = re.compile(r"(?m)^\s*(?:>\s+)?self\.assert\w+\((?P<call>.+)\)\s*$")
_LONGEST = 160


def two_lines(output: str) -> str:
    """Of the first failure. Where nothing was compared: the error and its place."""
    stated = [line[1:].strip() for line in output.split("\n") if re.match(r"E\s{2,}", line)]
    for at, line in enumerate(stated):
        compared = _COMPARED.fullmatch(line)
        if compared and compared["how"] == "==":
            where = next((found for one in stated[at + 1 :] if (found := _WHERE.match(one))), None)
            got = compared["got"]
            if where and where["value"] == got:
                return _lines(f"{where['call']} == {compared['expected']}", got)
            return _lines(compared["expected"], got)
    if found := re.search(r"(?m)^AssertionError: (?P<got>.+?) != (?P<expected>.+)$", output):
        call = _CALLED.search(output)
        expected = found["expected"].split(" : ")[0]
        subject = f"{call['call'].rpartition(',')[0]} == " if call and "," in call["call"] else ""
        return _lines(f"{subject}{expected}", found["got"])
    if errors := list(_ERROR.finditer(output)):
        error = errors[-1] if "Traceback" in output else errors[0]
        places = [one["place"] or f"{one['file']}:{one['line']}" for one in _PLACE.finditer(output)]
        at_place = f" at {places[-1]}" if places else ""
        return _lines("no error", error["error"].strip() + at_place)
    told = [line.strip() for line in output.strip().split("\n") if line.strip()]
    return "\n".join(line[:_LONGEST] for line in told[-2:])


def _lines(expected: str, got: str) -> str:
    return f"expected: {expected.strip()[:_LONGEST]}\ngot: {got.strip()[:_LONGEST]}"
