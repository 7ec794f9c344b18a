"""Match a value against its variable's `pattern` in bounded time.

Against catastrophic backtracking (ReDoS): a pattern that is provably fast is matched here, any other in a
child process with a CPU limit.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from coder.base.process.programs import DEVNULL, TimeoutExpired, run_python

MOST_STEPS = 2_000_000  # some hundredths of a second
CHILD_SECONDS = 0.1  # of CPU time, so that the result does not depend on load
MOST_RUNAWAYS = 40  # per process

_REPEATS = re.compile(r"[*+?]|\{\d*,")
_GROUP_MARK = re.compile(r"(?<!\\)\(\?")
# A repeated group may backtrack exponentially; a `#` comment could hide the quantifier.
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]|#")
_CHILD = """\
import re, signal, sys
pattern, value = (bytes.fromhex(line).decode("utf-8", "surrogatepass") for line in sys.stdin)
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
sys.exit(10 if re.search(pattern, value) else 11)
"""
_runaways: list[str] = []


def is_quick(pattern: str, length: int) -> bool:
    """Whether no value of that length can be slow; conservative.

    Without repeated groups, the number of paths is at most the product of the choices: start, repetitions of
    each quantifier, alternatives.
    """
    if _REPEATED_GROUP.search(pattern):
        return False
    repeats = len(_REPEATS.findall(pattern)) - len(_GROUP_MARK.findall(pattern))
    ways: int = (length + 1) * (length + 2) ** repeats * 2 ** pattern.count("|")
    return ways <= MOST_STEPS


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile without `re`'s FutureWarning about `[[`. Raises what `re` raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern)


def matches(pattern: str, value: str) -> bool | None:
    """None on time-out."""
    if is_quick(pattern, len(value)):
        return compiled(pattern).search(value) is not None
    return _found_in_child(pattern, value)


@lru_cache(maxsize=256)  # forms validate every value on each redraw
def _found_in_child(pattern: str, value: str) -> bool | None:
    if len(_runaways) >= MOST_RUNAWAYS:
        return None
    lines = "".join(text.encode("utf-8", "surrogatepass").hex() + "\n" for text in (pattern, value))
    try:
        status, _ = run_python(
            ["-I", "-S", "-W", "ignore", "-c", _CHILD, str(CHILD_SECONDS)],
            given=lines.encode("ascii"),
            stdout=DEVNULL,
            stderr=DEVNULL,
            timeout=100 * CHILD_SECONDS,
        )
    except (OSError, TimeoutExpired):
        status = -1
    if status in (10, 11):
        return status == 10
    _runaways.append(pattern)
    return None
