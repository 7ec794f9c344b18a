"""Whether a value matches its variable's `pattern`, in bounded time.

`re` goes back and tries again, with some patterns for ever, and holds the whole process meanwhile. A match
that cannot take long, whatever the value, is made here; any other one in a process of its own that ends
when its time is over.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_STEPS = 2_000_000  # some hundredths of a second
CHILD_SECONDS = 0.1  # of processor time, so that a busy machine changes no answer
MOST_RUNAWAYS = 40  # in all; a project that has more of them is not worth the time

_REPEATS = re.compile(r"[*+?]|\{\d*,")
_GROUP_MARK = re.compile(r"(?<!\\)\(\?")
# A group that is repeated may take the same text in ever more ways; `#` could hide the sign that repeats it.
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]|#")
_CHILD = """\
import re, signal, sys
pattern, value = (bytes.fromhex(line).decode("utf-8", "surrogatepass") for line in sys.stdin)
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
sys.exit(10 if re.search(pattern, value) else 11)
"""
_runaways: list[str] = []


def is_quick(pattern: str, length: int) -> bool:
    """Whether no value of that length can take long: from above, so that some quick ones are called slow.

    Without a repeated group there are at most as many ways to try as the product of the choices: where to
    begin, how often each sign repeats, which alternative.
    """
    if _REPEATED_GROUP.search(pattern):
        return False
    repeats = len(_REPEATS.findall(pattern)) - len(_GROUP_MARK.findall(pattern))
    ways: int = (length + 1) * (length + 2) ** repeats * 2 ** pattern.count("|")
    return ways <= MOST_STEPS


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Raises what `re` raises. That Python may read a `[[` differently one day is not said to anybody."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern)


def matches(pattern: str, value: str) -> bool | None:
    """None where it could not be found out in the time there is."""
    if is_quick(pattern, len(value)):
        return compiled(pattern).search(value) is not None
    return _found_in_child(pattern, value)


@lru_cache(maxsize=256)  # a form asks for each of its values whenever it is drawn
def _found_in_child(pattern: str, value: str) -> bool | None:
    import subprocess
    import sys

    if len(_runaways) >= MOST_RUNAWAYS:
        return None
    lines = "".join(text.encode("utf-8", "surrogatepass").hex() + "\n" for text in (pattern, value))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD, str(CHILD_SECONDS)],
            input=lines.encode("ascii"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=100 * CHILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is not None and done.returncode in (10, 11):
        return done.returncode == 10
    _runaways.append(pattern)
    return None
