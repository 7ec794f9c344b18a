"""What the Agent Client Protocol server says to a person in an editor, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "acp.auth": "设置模型服务",
    "acp.call.allow": "允许一次",
    "acp.call.always": "在此项目中始终允许",
    "acp.call.always_names": "在此项目中始终允许 {names}",
    "acp.call.reject": "拒绝",
    "acp.call.some": "选择部分改动…",
    "acp.cursor": "{cursor} 不是先前回答给出的游标。",
    "acp.empty_prompt": "提示中没有文字。",
    "acp.form.hunks": "要应用的改动块",
    "acp.form.message": "要应用这次更改的哪些部分？",
    "acp.form.reason": "其余为何不要（会告知模型）",
    "acp.mcp_wrong": "编辑器给出的 MCP 服务器 {name} 无法使用；会话继续，但没有它。",
    "acp.no_auth": "没有名为 {name} 的认证方式。",
    "acp.no_option": "没有选项 {name}；可用的有 mode 和 model。",
    "acp.no_session": "会话 {id} 未在此打开；session/load 可打开它。",
    "acp.not_here": "/{name} 在此不起作用：打开、选择和离开会话由编辑器负责。",
    "acp.one_folder": "一个会话只有一个文件夹：不支持 additionalDirectories。",
    "acp.option.mode": "运行模式",
    "acp.option.model": "模型",
    "acp.relative": "{directory} 不是绝对路径。",
    "acp.resource_binary": "{name} 不是文本，已略去。",
    "acp.resource_cut": "{name} 过长，无法全部发送；模型只得到开头部分。",
    "acp.terminal": "这里与编辑器以 JSON-RPC 通信，由编辑器自行启动；Ctrl+D 结束。",
    "acp.text_only": "这里听不了声音；请把内容写成文字。",
    "acp.turn.allow": "继续",
    "acp.turn.always": "继续，且不再询问",
    "acp.turn.reject": "停止",
}
