"""What is said of MCP servers as the person set them up, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # where a server is reached
    "servers.ambiguous_name": "MCP 服务器 {name}：请改名，名称中不能有 `__`，也不能以 `_` 结尾，"
    "这样 mcp__server__tool 才只指一个工具。",
    "servers.logged_in": "已登录 MCP 服务器 {name}。",
    "servers.logged_out": "MCP 服务器 {name} 的令牌已清除。",
    "servers.no_login": "MCP 服务器 {name}：登录用于没有 Authorization 头的地址，此处无可登录。",
    "servers.open_page": "请在本机浏览器中打开此页面登录：\n{url}",
    "servers.no_endpoint": "MCP 服务器 {name} 既没有 `command` 也没有 `url`：请设置其中之一。",
    "servers.no_prompt": "MCP 服务器 {name} 没有提示 {prompt}；它有：{names}。",
    "servers.prompt_needs": "{prompt} 需要：{names}。请按顺序输入，或写成 名称=值。",
    "servers.two_endpoints": "MCP 服务器 {name} 同时有 `command` 和 `url`：请只设置其中之一。",
    "servers.type_wants": "MCP 服务器 {name}：类型 {type} 需要 `{wants}`。",
    "servers.bad_url": "MCP 服务器 {name}：`url` 必须以 http:// 或 https:// 开头。",
    "servers.no_program": "MCP 服务器 {name}：找不到程序 {program}。",
    "servers.workspace_program": (
        "MCP 服务器 {name}：{program} 只在工作区内的 PATH 目录中。"
        "若确实要用它，请在 `command` 中写出它的路径。"
    ),
    "servers.no_folder": "MCP 服务器 {name}：文件夹 {directory} 不存在。",
    "servers.no_variable": "MCP 服务器 {name}：{where} 用到的变量 {variable} 没有设置。",
    "servers.own_key": "MCP 服务器 {name}：{where} 会含有模型服务的密钥，任何服务器都拿不到它。",
    "servers.no_sandbox": "MCP 服务器 {name} 没有启动：{why}",
    # what became of it
    "servers.in_plan": "MCP 服务器 {name} 在 plan 模式下不运行。",
    "servers.switched_off": "MCP 服务器 {name} 已关闭：请先去掉 mcp.servers.{name}.disabled。",
    "servers.unavailable": "MCP 服务器 {name} 没有运行：{why}",
    "servers.confined": "{why} 它在沙箱中运行：请在 mcp.servers.{name}.writable 中写明它需要写入的文件夹"
    '（npx 用 "~/.npm"，uvx 用 "~/.cache/uv"）。',
    "servers.failed": "有工具不可用，详见 /mcp：{why}",
    "servers.too_many": "MCP 服务器 {name} 的 {n} 个工具中只提供前 {kept} 个：所有服务器合计最多 {most} 个。"
    "请在 mcp.servers.{name}.tools 中写明需要的工具。",
    "servers.unusable": "MCP 服务器 {name} 有 {n} 个工具无法提供：名称缺失或重复。",
    "servers.waiting": "正在等待 MCP 服务器：{names}。",
    # `/mcp` and `coder mcp`
    "servers.more_resources": "……以及另外 {n} 个资源",
    "servers.none": "没有配置 MCP 服务器。添加方法：coder mcp add 名称 -- 程序 参数…",
    "servers.state.off": "已关闭",
    "servers.state.waiting": "未启动",
    "servers.state.starting": "正在启动",
    "servers.state.ready": "就绪",
    "servers.state.failed": "失败",
    "servers.state.ended": "已结束",
    "servers.tools": "{n} 个工具",
    "servers.added": "已把 {name} 添加到 {file}。可用 coder mcp 试连。",
    "servers.removed": "已删除 {name}。",
    "servers.there_already": "{file} 中已有名为 {name} 的 MCP 服务器；请先移除：coder mcp remove {name}",
    "servers.not_yours": "{file} 中没有名为 {name} 的 MCP 服务器。",
    "servers.restarted": "{name} 已重新启动。",
    "servers.no_server": "没有名为 {name} 的 MCP 服务器；现有：{names}。",
    "servers.usage": "用法：/mcp [restart 名称]",
    "servers.otel_failed": "无法设置 OpenTelemetry，因此不会发送任何内容：{why}",
    "servers.otel_missing": ("已设置 OTEL_EXPORTER_OTLP_ENDPOINT，但不会发送任何内容：发送 span 需要 {line}"),
    "servers.otel_protocol": (
        "OTEL_EXPORTER_OTLP_PROTOCOL 为 {protocol}，但 span 只能通过 http/protobuf 发送；不会发送任何内容。"
    ),
}
