"""编辑器伴随服务，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "status.label.ide": "编辑器",
    "status.no_ide": "未连接",
    "context.ide.connected": "{name} 已连接。其中打开的文件（{n} 个）会告知模型：",
    "context.ide.cursor": "{path}，第 {line} 行",
    "context.ide.none": (
        "编辑器：{state}。运行伴侣扩展（如 Gemini CLI Companion）并打开了此文件夹的编辑器会在 15 秒内被找到。"
    ),
    "context.ide.off": (
        "当前不读取编辑器。`/ide on` 从现在起读取；在 {file} 中设置 `ide.enabled` 则始终读取。"
    ),
    "context.ide.selected": "，已选中 {n} 个字符",
    "context.ide.usage": "/ide 显示编辑器；/ide on 和 /ide off 决定是否读取。",
    "context.ide.no_answer": "编辑器没有回应 {method}",
    "context.ide.not_yours": "端口 {port} 上没有你的程序在监听",
    "context.ide.says": "编辑器报告：{why}",
    "context.ide.status": "伴随服务返回 {status}",
    "context.ide.unreachable": "无法连接伴随服务：{why}",
    "help.ide": "已连接的编辑器，以及告知模型的内容",
}
