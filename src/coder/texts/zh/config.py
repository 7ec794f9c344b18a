"""Settings and what is wrong with them, in Chinese. Same keys, same placeholders as `en_config.py`."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "config.allowlist_not_saved": "无法把总是允许的内容保存到 {file}：{why}。",
    "config.bad_header": "{where} 含有 HTTP 头不允许的字符。",
    "config.bad_home": "找不到主目录；请把 CODER_HOME 设为存放 coder 自身文件的文件夹。",
    "config.bad_value": "{where} 的值是 {found}；可用：{allowed}。",
    "config.corrupt_store": "{file} 已损坏（{why}），按空文件处理。",
    "config.expect_address": "形如 http://127.0.0.1:11434/v1 的地址（{why}）",
    "config.expect_bool": "true 或 false",
    "config.expect_float": "数字",
    "config.expect_float_below": "从 {low} 起、小于 {high} 的数字",
    "config.expect_float_between": "{low} 到 {high} 之间的数字",
    "config.expect_float_from": "不小于 {low} 的数字",
    "config.expect_host": "主机，如 api.example.com、*.example.org、api.example.com:443 或 localhost:5432",
    "config.expect_int": "整数",
    "config.expect_int_between": "{low} 到 {high} 之间的整数",
    "config.expect_int_from": "不小于 {low} 的整数",
    "config.expect_list": "由{items}组成的列表",
    "config.expect_object": "对象 {{…}}",
    "config.expect_key": (
        '按键，如 ctrl+t、alt+r、f5、shift+tab 或 ctrl+x ctrl+t（不能是 ctrl+c、d、h、i、m），或 ""'
    ),
    "config.expect_string": "带引号的文本",
    "config.expect_strings": "带引号的文本",
    "config.file_directory": "{file} 是文件夹，不是配置文件。",
    "config.file_irregular": "{file} 不是普通文件。",
    "config.file_missing": "{file} 不存在。",
    "config.file_too_big": "{file} 超过 {limit} 字节，作为配置文件过大。",
    "config.file_unreadable": "无法读取 {file}：{why}。",
    "config.ignored": "{file}：在您信任此文件夹之前忽略 {key}（{reason}）。",
    "config.ignored.costs": "它会让会话花费更多",
    "config.ignored.loosens": "它会放宽权限策略",
    "config.ignored.sends": "它会把数据发往别处",
    "config.ignored.starts": "它会启动程序",
    "config.invalid": "{file} 不是有效的配置：{what}。",
    "config.own_not_saved": "无法写入 {file}：{why}。",
    "config.own_shape": "{file} 的写法无法安全地自动修改；请手工修改。",
    "config.more": "……另有 {n} 处错误；`coder doctor` 可全部列出。",
    "config.model_not_saved": "无法把模型保存到 {file}：{why}。",
    "config.model_not_saved_link": "它是指向项目之外文件的链接",
    "config.model_not_saved_shape": "其中的 provider 不是对象",
    "config.no_folder": "{directory} 不是文件夹。",
    "config.no_plugin": "没有已安装的软件包提供模型服务 {name}（coder.providers）；现有：{names}。",
    "config.no_provider": (
        "尚未配置模型服务。请设置 API 密钥（{keys}），或本地服务器的地址"
        "（CODER_BASE_URL={example}）。`coder local` 下载一个两者都不需要的小模型，`coder demo` 是演示。"
    ),
    "config.no_provider_trusted": (
        "除 .coder/config.json 所指定的以外没有配置模型服务，而此文件夹未被信任；`coder trust` 可允许。"
    ),
    "config.not_utf8": "{file} 不是 UTF-8 文本（第 {byte} 字节）；请另存为 UTF-8。",
    "config.syntax": "{file}:{line}:{column}: {what}。",
    "config.syntax_comment": "此处开始的注释没有结束",
    "config.syntax_deep": "嵌套超过 {limit} 层",
    "config.syntax_rejected": "含有超出范围的数字、NaN、Infinity 或不成对的 \\u 转义",
    "config.tool_taken": "已有名为 {name} 的工具；请给你的工具换个名字。",
    "config.trust_not_saved": "无法把对此文件夹的信任保存到 {file}：{why}。",
    "config.unknown_key": "{file}：未知的键 {key}；此处可用：{allowed}。",
    "config.unknown_key_near": "{file}：未知的键 {key}（相近的键：{nearest}）；此处可用：{allowed}。",
    "config.url_host": "没有写明主机",
    "config.url_port": "端口必须是 1 到 65535 之间的数字",
    "config.url_scheme": "必须以 http://、https:// 或 plugin: 开头",
    "config.url_space": "不能含有空格或控制字符",
}
