"""`coder tune`，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "tune.usage": ("  coder tune --model NAME      用真实的小任务试一个模型，保存最合适的用法\n"),
    "cli.about.tune": "用真实的小任务试一个模型，说明怎样用它最合适，并保存下来。",
    "cli.tune.begin": "{model}：{n} 个任务，各试 {ways} 种方式，都在临时文件夹中。",
    "cli.tune.done": "完成",
    "cli.tune.failed": "未完成",
    "cli.tune.head.cost": "费用",
    "cli.tune.head.done": "完成",
    "cli.tune.head.seconds": "秒",
    "cli.tune.head.steps": "步数",
    "cli.tune.head.tokens": "token",
    "cli.tune.head.way": "方式",
    "cli.tune.keep": "为这个模型保存吗？[y/N] ",
    "cli.tune.kept": "已保存到 {file}。",
    "cli.tune.late": "{seconds} 秒内没有完成",
    "cli.tune.no_task": "没有任务 {name}；有 {names}。",
    "cli.tune.nothing": "无论用哪种方式，{model} 一个任务也没有完成。",
    "cli.tune.suits": "最适合 {model} 的方式：{way}。",
}
