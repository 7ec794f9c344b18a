"""命令与按键的说明，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "help.auto-edit": "运行模式 auto-edit：直接改动并验证，不再询问",
    "help.compact": "用摘要替换较早的历史",
    "help.default": "运行模式 default：按权限预设执行",
    "help.diff": "有哪些改动；review 逐处保留或撤回本会话的改动",
    "help.everyday": "常用：",
    "help.rest": "其他：",
    "help.exit": "退出",
    "help.fork": "不支持：会话是线性的（/rewind 可退回）",
    "help.help": "本列表",
    "help.hooks": "已配置的钩子及其上次运行结果",
    "help.ide": "已连接的编辑器，以及告知模型的内容",
    "help.keys": (
        "用自己的话写下要做的事，Enter 发送；{newline} 或行尾 \\ 换行；空行按 Ctrl+D 退出，有文字时发送。\n"
        "Esc 或 Ctrl+C 中断本回合。!命令 直接执行你自己的 shell 命令，@路径 把文件放入消息。\n"
        "运行中发送的消息会排队，按 Up 取回；按 {steer} 插话：随下一步发给模型。\n"
        "{mode} 切换运行模式。按 Down 进入模式栏。空行按 ? 显示此说明。\n"
        "{transcript} 在分页器中查看完整记录。空行按 Esc Esc 退回到之前的消息。\n"
        "{search} 搜索历史。{editor} 打开 $EDITOR。Ctrl+Y 找回清除的文字。"
    ),
    "help.mode": "查看或切换运行模式",
    "help.model": "查看或切换模型（保存到 .coder/config.json）",
    "help.modes": "可用的模式；关闭、查看渲染结果、重新读取文件",
    "help.new": "新建会话",
    "help.permissions": "显示权限、设置预设，或撤回“总是允许”",
    "help.ps": "本会话的后台任务",
    "help.stop": "结束一个或全部后台任务",
    "help.plan": "运行模式 plan：只分析与提议，不改动",
    "help.resume": "恢复之前的会话；不带 ID 时列出",
    "help.sessions": "此文件夹的会话",
    "help.mcp": "MCP 服务器及其状态",
    "help.skills": "可用的技能",
    "help.status": "会话、模型、token、信任状态",
    "help.todos": "待办列表",
    "help.tools": "模型可用的工具",
    "help.undo": "撤销最近一个回合、N 个回合、N.. 及之后，或只撤销第 N 回合（turn N）的文件改动；show 只预览",
    "help.yolo": "运行模式 yolo：改动与命令全部放行",
    "help.budget": "查看或设置本会话的费用上限",
    "help.context": "上下文的 token 用在哪里",
    "help.effort": "查看或设置本会话中模型思考多少",
    "help.loop": "开关本会话的循环检测",
    "help.memory": "查看、添加或忘记已记住的内容（add --home：用于所有项目）",
    "help.copy": "把最近的回答复制到剪贴板",
    "help.theme": "查看或设置配色",
    "help.vim": "开关 vim 键位",
    "help.redo": "重做被 /undo 撤销的改动",
    "help.clear": "同 /new",
    "help.quit": "同 /exit",
    "help.cost": "同 /status",
    "help.init": "让模型写 AGENTS.md：代理需要了解的项目情况",
    "help.review": "让模型审查未提交的改动，或你指定的内容（WHAT）",
    "help.rename": "为本会话命名",
    "help.rewind": "把文件和对话退回到之前某条消息之前（Esc Esc）",
}
