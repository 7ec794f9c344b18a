"""`coder tune`, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "tune.usage": ("  coder tune --model NAME      try a model on small tasks, keep what suits it\n"),
    "cli.about.tune": "Try a model with small real tasks, say what suits it, and keep that.",
    "cli.tune.begin": "{model}: {n} tasks, {ways} ways each, in throw-away folders.",
    "cli.tune.done": "done",
    "cli.tune.failed": "not done",
    "cli.tune.head.cost": "cost",
    "cli.tune.head.done": "done",
    "cli.tune.head.seconds": "seconds",
    "cli.tune.head.steps": "steps",
    "cli.tune.head.tokens": "tokens",
    "cli.tune.head.way": "way",
    "cli.tune.keep": "Keep that for this model? [y/N] ",
    "cli.tune.kept": "Kept in {file}.",
    "cli.tune.late": "not finished in {seconds} s",
    "cli.tune.no_task": "There is no task {name}; there are {names}.",
    "cli.tune.nothing": "{model} finished none of the tasks in any way.",
    "cli.tune.suits": "What suits {model}: {way}.",
}
