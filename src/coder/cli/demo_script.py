"""The script of `coder demo`: a small project with a failing test, and the model's answers."""

from __future__ import annotations

from typing import Any

QUESTION = "Find out why the tests fail and fix it."

PROJECT = {
    "README.md": "# basket\n\nPrices of a shopping basket. Run the tests with `python3 -m unittest`.\n",
    "basket.py": '''\
"""A shopping basket."""


def total(prices, discount=0):
    """The sum of all prices, less a discount in percent."""
    result = 0
    for price in prices[1:]:
        result += price
    return result * (100 - discount) / 100
''',
    "test_basket.py": """\
import unittest

from basket import total


class TotalTest(unittest.TestCase):
    def test_sums_all_prices(self):
        self.assertEqual(total([10, 20, 30]), 60)

    def test_takes_off_the_discount(self):
        self.assertEqual(total([0, 100], discount=10), 90)


if __name__ == "__main__":
    unittest.main()
""",
    ".coder/config.json": """\
{
  // The model of the demo runs the tests itself; pytest may not be installed here.
  "workflow": { "auto_verify_after_edit": false }
}
""",
}

CHECK = "python3 -m unittest"

LIVE_CONFIG = f"""\
{{
  "workflow": {{
    "verify_commands": ["{CHECK}"],
    "verify_allow": ["{CHECK}"],
    "auto_verify_after_edit": true
  }}
}}
"""

FIX = """\
*** Begin Patch
*** Update File: basket.py
@@ def total(prices, discount=0):
-    for price in prices[1:]:
+    for price in prices:
         result += price
*** End Patch
"""

SCRIPT: list[dict[str, Any]] = [
    {
        "reasoning": "First I look at what is there, and at the failing test itself.",
        "text": "Let me look at the project and run its tests.",
        "calls": [
            {"name": "list", "arguments": {}},
            {"name": "read", "arguments": {"path": "basket.py"}},
            {"name": "read", "arguments": {"path": "test_basket.py"}},
            {"name": "bash", "arguments": {"command": "python3 -m unittest"}},
        ],
    },
    {
        "reasoning": "total() starts at prices[1:], so the first price is never added.",
        "text": "`total` skips the first price: it loops over `prices[1:]`. I fix that line.",
        "calls": [{"name": "patch", "arguments": {"patch": FIX}}],
    },
    {
        "text": "Now the same tests again.",
        "calls": [{"name": "bash", "arguments": {"command": "python3 -m unittest"}}],
    },
    {
        "text": (
            "The tests pass now.\n\n"
            "- **Cause:** `total` in `basket.py` looped over `prices[1:]` and so left out the first price.\n"
            "- **Fix:** it loops over all prices; nothing else has changed.\n"
            "- **Checked:** `python3 -m unittest`, 2 tests, both pass.\n"
        ),
    },
]
