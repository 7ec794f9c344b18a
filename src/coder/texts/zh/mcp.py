"""What can go wrong with servers of the Model Context Protocol, in Chinese. Same keys as `en_mcp.py`."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "mcp.no_program": "无法启动 MCP 服务器 {name}：找不到程序 {program}。请检查它的命令。",
    "mcp.no_start": "无法启动 MCP 服务器 {name}（{program}）：{why}。",
    "mcp.refused": "MCP 服务器 {name} 拒绝了请求：{why}。",
    "mcp.slow": "MCP 服务器 {name} 在 {seconds} 秒内没有回答{said}",
    "mcp.version": "MCP 服务器 {name} 只支持协议版本 {theirs}；这里支持的是 {ours}。",
    "mcp.cut_off": "MCP 服务器 {name} 的回答在给出结果之前就结束了；请重试。",
    "mcp.denied": "MCP 服务器 {name}（{address}）拒绝访问（{status}）；请检查它设置里的 `headers`。",
    "mcp.elsewhere": "MCP 服务器 {name} 要求改用与其 url 不同源的地址；不会照做。",
    "mcp.login": "MCP 服务器 {name}（{address}）要求登录：coder mcp login {name}",
    "mcp.oauth": "登录 MCP 服务器 {name} 失败：{why}。",
    "mcp.oauth_client": "MCP 服务器 {name} 不自动注册程序：请在它那里注册一个（重定向地址 http://127.0.0.1/callback），"
    "并把编号设为 mcp.servers.{name}.client_id。",
    "mcp.oauth_late": "{seconds} 秒内没有人登录 MCP 服务器 {name}；请重试：coder mcp login {name}",
    "mcp.session_lost": "MCP 服务器 {name} 的会话一建立就失效，无法使用。",
    "mcp.status": "{address} 返回 HTTP 状态 {status}",
    "mcp.unreachable": "无法连接 MCP 服务器 {name}：{why}。请检查它的 url。",
    "mcp.closed": "与 MCP 服务器 {name} 的连接已关闭。",
    "mcp.died": "MCP 服务器 {name} 已退出（退出状态 {status}）{said}",
    "mcp.hung_up": "MCP 服务器 {name} 不再通信，已被结束{said}",
    "mcp.said": "；它的输出：{words}",
    "mcp.said_nothing": "，stderr 上没有任何输出。",
    "mcp.endless_list": "MCP 服务器 {name} 的工具列表没有尽头，无法使用。",
    "mcp.invalid": "MCP 服务器 {name} 的回答无效。",
    "mcp.invalid_list": "MCP 服务器 {name} 给出的工具列表无效。",
    "mcp.slow_list": "MCP 服务器 {name} 在 {seconds} 秒内没有列出它的工具。",
    "mcp.call_refused": "MCP 服务器 {name} 拒绝调用 {tool}：{why}",
    "mcp.invalid_result": "MCP 服务器 {name} 返回的 {tool} 结果不符合协议。",
    "mcp.long_message": "MCP 服务器 {name} 发来的一条消息超过 {limit} MB；请一次少要一些。",
    "mcp.slow_call": "MCP 服务器 {name} 的 {tool} 在 {seconds} 秒内没有回答，已取消。",
    "mcp.wants_input": (
        "MCP 服务器 {name} 的 {tool} 需要人来回答，本客户端无法提供；请在调用时给全所需的内容，或者不用它。"
    ),
}
