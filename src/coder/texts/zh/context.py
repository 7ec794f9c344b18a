"""What goes into the context, what cannot, and where its tokens go, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # skills that cannot be used
    "context.skill.binary": "不是文本文件。",
    "context.skill.description": "缺少 description，无从得知何时使用。",
    "context.skill.head": "没有 frontmatter：第一行必须是 ---。",
    "context.skill.irregular": "不是普通文件。",
    "context.skill.large": "共 {size} 字节；最多只读 {limit} 字节。",
    "context.skill.link": "是指向项目之外的链接。",
    "context.skill.name": "名称只能包含字母、数字和连字符，最多 {limit} 个字符。",
    "context.skill.other_name": "名称为 {name}，而所在文件夹为 {directory}；两者必须一致。",
    "context.skill.unreadable": "无法读取：{why}。",
    # files that are read at the start of a session
    "context.file.binary": "{path} 不是文本文件，未读取。",
    "context.file.cut": "{path} 超过 {limit} 字节；其余部分未读取。",
    "context.file.full": "{path} 未读取：前面的文件已占满 {limit} 字节。",
    "context.file.irregular": "{path} 不是普通文件，未读取。",
    "context.file.large": "{path} 大于 {limit} 字节，未读取；请删去已不成立的内容。",
    "context.file.link": "{path} 是指向项目之外的链接，未读取。",
    "context.file.unreadable": "无法读取 {path}：{why}。",
    # the line to the editor
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
    # /context
    "context.part.assistant": "模型的回答",
    "context.part.environment": "环境信息",
    "context.part.instructions": "指令（AGENTS.md、模式）",
    "context.part.memory": "记忆",
    "context.part.result": "{tool} 的结果",
    "context.part.skills": "技能索引",
    "context.part.summary": "摘要与台账",
    "context.part.system": "系统提示词",
    "context.part.tools": "工具定义",
    "context.part.user": "用户消息与附注",
    # facts that are not kept
    "context.memory.empty": "内容是空的；请写一句话",
    "context.memory.link": "{path} 是指向别处的链接，不予写入",
    "context.memory.long": (
        "内容有 {length} 个字符；请控制在一句话、{limit} 个字符以内，更长的写进 AGENTS.md 或技能"
    ),
    "context.memory.secret": (
        "这看起来是密码或密钥；记忆文件是纯文本，每次会话都会发送。请记住密钥放在哪里，而不是密钥本身"
    ),
    "context.memory.unwritable": "无法写入 {path}：{why}",
}
