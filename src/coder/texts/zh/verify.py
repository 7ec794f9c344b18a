"""自动验证，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "verify.also": "另外运行了：{runs}",
    "verify.by_model": "已验证：`{command}` 在最后一次改动后通过（模型运行）",
    "verify.changed": "{files}",
    "verify.changed_since": "未验证：`{command}` 通过之后又有改动：{files}",
    "verify.claim": "“{claim}”只是模型的说法：最后一次改动后没有看到测试通过",
    "verify.denied": "未执行自动验证：此处不允许运行命令。",
    "verify.documents": "只改动了文档",
    "verify.environment": (
        "未验证：`{command}` 在此处无法检查代码：{why}。自动验证仅为 best-effort：排除该原因后请自行运行，"
        "或在 workflow.verify_commands 中写明本项目的检查命令。"
    ),
    "verify.environment.denied": "其程序不可执行（退出码 126）",
    "verify.environment.missing": "找不到其程序（退出码 127）",
    "verify.environment.modules": "未安装：{names}",
    "verify.environment.no_tests": "没有找到测试（退出码 5）",
    "verify.environment.printed": "它输出了“{line}”",
    "verify.environment.timeout": "未能按时结束",
    "verify.environment.usage": "pytest 不接受其调用方式或配置（退出码 4）",
    "verify.failed": "验证未通过：`{command}` 失败。",
    "verify.failed_then_changed": "未验证：`{command}` 失败，其后文件又有改动；请再运行一次确认现状。",
    "verify.more_files": "{files} 等另 {n} 个文件",
    "verify.not_approved": "未执行自动验证：`{command}` 未获批准。",
    "verify.not_listed": (
        "`{command}` 不在自动验证白名单内，未执行，也没有改用其他命令。白名单：{listed}。可在你的配置 "
        "workflow.verify_allow 中追加。"
    ),
    "verify.own.failed": "最后一次改动后 `{command}` 未通过（模型运行）",
    "verify.own.failed_part": "最后一次改动后部分测试未通过：`{command}`（模型运行）",
    "verify.own.passed": "已验证：`{command}` 在最后一次改动后通过（模型运行）",
    "verify.own.passed_part": "部分验证：`{command}` 在最后一次改动后通过（模型运行）",
    "verify.own.unclear": "模型在最后一次改动后运行了 `{command}`，结果不明",
    "verify.own.unclear_part": "模型在最后一次改动后运行了部分测试 `{command}`，结果不明",
    "verify.passed": "已验证：`{command}` 在最后一次改动后通过",
    "verify.refused": "未执行自动验证：你要求不要运行。",
    "verify.run.failed": "`{command}`（未通过）",
    "verify.run.passed": "`{command}`（通过）",
    "verify.run.unclear": "`{command}`（结果不明）",
    "verify.since.before": "本回合首次改动之前就已同样失败，因此并非本回合所致。",
    "verify.since.more": "其中一部分在本回合首次改动之前就已失败，另一部分没有。",
    "verify.since.new": "本回合首次改动之前它是通过的。",
    "verify.since.unknown": "本回合首次改动之前是否已失败并不清楚：之前没有运行过。",
    "verify.skipped": "未执行自动验证：没有适用于此项目的检查命令。",
    "verify.still_failing": "验证未通过：`{command}` 运行 {n} 次后仍失败。{since}",
    "verify.unchecked": "未检查：最后一次改动后没有运行测试",
    "verify.unlisted": "未执行自动验证。",
}
