"""What the command line says outside a session, in Chinese. Same keys as `en_cli.py`."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "cli.about": "终端里的编程代理。",
    "cli.about.acp": "通过标准输入输出使用 Agent Client Protocol，供编辑器调用。",
    "cli.about.apply": "把某个任务的补丁放进此检出，经批准且可撤销。",
    "cli.about.batch": "运行许多任务，每个都在自己的克隆里。",
    "cli.about.cache": "显示或删除沙箱中包管理器的缓存。",
    "cli.about.compare": "说明任务相同的两个批处理之间有何变化。",
    "cli.about.demo": "无需网络和密钥的导览。",
    "cli.about.doctor": "说明这里哪些可用：模型服务、密钥、分词器、沙箱、工具。",
    "cli.about.explain": "说明策略会如何处理一行 shell 命令，以及为何。",
    "cli.about.export": "把一次会话写成一个 HTML 或 Markdown 文件。",
    "cli.about.mcp": "试连 MCP 服务器，或添加、删除你自己的服务器。",
    "cli.about.models": "列出已配置的服务商及其模型：接口、窗口、价格、调用格式。",
    "cli.about.modes": "列出自定义模式和保存的提示词，或导入其他工具的命令。",
    "cli.about.schema": "输出引擎的协议：每个操作和每个事件。",
    "cli.about.serve-mcp": (
        "作为标准输入输出上的 MCP 服务器：其他代理可在你的策略下把本目录的任务交给 coder。"
    ),
    "cli.about.sessions": "列出此文件夹的会话，最新的在前。",
    "cli.about.show": "显示一次会话里发生了什么。",
    "cli.about.stats": "统计会话做了什么、用时多少、花费多少：按日期、模型、项目和工具。",
    "cli.about.trust": "信任此文件夹自带的内容：.coder/config.json 中的设置、自定义模式里的命令。",
    "cli.bad_op": "第 {line} 行不是操作：{why}。`coder schema` 给出其格式。",
    "cli.late_op": "第 {line} 行在 `close` 之后，未被接受。",
    "cli.no_approval": "第 {line} 行没有回答任何等待中的问题：不存在审批 {id}。",
    "cli.long_op": "第 {line} 行超过 {most} MiB，未被接受。",
    "cli.about.tune": "用真实的小任务试一个模型，说明怎样用它最合适，并保存下来。",
    "cli.about.view": "在浏览器中查看全部记录；只监听 127.0.0.1，并需要令牌。",
    "cli.models.blind": "否",
    "cli.models.dialect": "调用格式",
    "cli.models.guessed": "?：不了解该模型，{window} 为猜测；可用 provider.models.NAME.context_window 设置。",
    "cli.models.images": "看图",
    "cli.models.listed": (
        "未自行设置的价格是 {month} 的公开标价，长提示词可能更贵；可用 budget.prices 覆盖。"
    ),
    "cli.models.model": "模型",
    "cli.models.no_price": (
        '–：没有价格，因此不计费用。在 {file} 中设置每百万 token 的美元价格：{{"budget": {{"prices": '
        '{{"{model}": {{"input": 1.0, "cached_input": 0.1, "output": 4.0}}}}}}}}。'
    ),
    "cli.models.price": "美元：输入 / 缓存 / 输出",
    "cli.models.provider": "服务商",
    "cli.models.sees": "是",
    "cli.models.window": "窗口",
    "cli.models.wire": "接口",
    "cli.cache.busy": "{n} 个项目的缓存正在使用，予以保留。",
    "cli.cache.cleared": "已删除 {size} MB。",
    "cli.cache.size": "{n} 个项目的缓存占用 {size} MB（{path}）。coder cache clear 可删除。",
    "cli.doctor.bash": "bash",
    "cli.doctor.binary_own": "{path}（本机已安装）",
    "cli.doctor.binary_recorded": "{path}（来自 {package} {version}；SHA-256 与记录一致）",
    "cli.doctor.binary_unrecorded": "{path}（来自 {package} {version}；没有记录其 SHA-256）",
    "cli.doctor.binary_differs": "{path}（来自 {package} {version}；SHA-256 与记录不符：{digest}）",
    "cli.doctor.bwrap": "bwrap",
    "cli.doctor.coder": "coder",
    "cli.doctor.estimates": "只能估算",
    "cli.doctor.fine": "一切就绪：运行 `coder` 即可开始。",
    "cli.doctor.git": "git",
    "cli.doctor.mend": "还不能使用：请先解决 {names}，再运行 `coder doctor`。",
    "cli.doctor.model": "模型",
    "cli.doctor.mcp": "MCP 服务器",
    "cli.doctor.caches": "缓存",
    "cli.doctor.cache_size": "{n} 个项目的包管理器缓存：{size} MB（coder cache clear 可删除）",
    "cli.doctor.mcp_servers": "{names}（可用 coder mcp 试连）",
    "cli.doctor.no_answer": "{seconds} 秒内没有回答",
    "cli.doctor.plugins": "插件",
    "cli.doctor.provider": "模型服务",
    "cli.doctor.record": "记录",
    "cli.doctor.ripgrep": "ripgrep",
    "cli.doctor.settings": "设置",
    "cli.doctor.sandbox": "沙箱",
    "cli.doctor.tokenizer": "分词器",
    "cli.doctor.trust": "信任",
    "cli.doctor.without": "coder 可以使用；标有 {mark} 的不是必需的。",
    "cli.driven_json": "--input stream-json 只能与 --output stream-json（其默认值）一起使用。",
    "cli.elsewhere.config": (
        "没有子命令 config：设置在 ~/.coder/config.json 中，`coder doctor` 可检查。"
        "若要提问：coder --once {word}"
    ),
    "cli.elsewhere.init": "没有子命令 init：在会话中用 `/init` 生成 AGENTS.md。若要提问：coder --once {word}",
    "cli.elsewhere.login": (
        "没有子命令 {word}：请设置服务商的密钥，例如 export OPENAI_API_KEY=…，"
        "再用 `coder doctor` 检查是否可用。若要提问：coder --once {word}"
    ),
    "cli.elsewhere.resume": (
        "没有子命令 {word}：`coder --continue` 继续最近的会话，`coder --resume` 可以选择。"
        "若要提问：coder --once {word}"
    ),
    "cli.elsewhere.undo": (
        "没有子命令 {word}：先运行 `coder --continue`，再输入 `/{word}`。若要提问：coder --once {word}"
    ),
    "cli.elsewhere.update": (
        "没有子命令 {word}：在源码目录中执行 `git pull`，再执行 `pipx install --force .`。"
        "若要提问：coder --once {word}"
    ),
    "cli.elsewhere.version": "`coder --version` 显示版本。若要提问：coder --once {word}",
    "cli.empty_message": "消息是空的。",
    "cli.empty_stdin": '无事可做：标准输入是空的。可以试试 coder --once "…"。',
    "cli.epilog": (
        "子命令：\n"
        "  coder demo                   无需网络和密钥的导览\n"
        "  coder sessions               此文件夹的会话；--search 词语 可查找\n"
        "  coder show ID                其中一次发生了什么\n"
        "  coder export ID --html FILE  同样内容，写成网页；--md FILE 写成 Markdown\n"
        "  coder stats                  做了什么、用时和花费；--all：所有项目\n"
        "  coder view [ID]              在浏览器中查看全部记录\n"
        "  coder doctor                 这里哪些可用\n"
        '  coder explain "shell line"   策略会如何处理这一行，以及为何\n'
        "  coder acp                    供编辑器使用（Agent Client Protocol）\n"
        "  coder mcp                    试连、添加或删除 MCP 服务器\n"
        "  coder serve-mcp              作为 MCP 服务器供其他代理使用\n"
        "  coder modes                  自定义模式和保存的提示词\n"
        "  coder models                 已设置的提供方及其模型\n"
        "  coder local                  下载一个在本机运行的小模型\n"
        "  coder schema                 操作和事件的 JSON Schema\n"
        "  coder trust                  让此文件夹自带的设置生效\n"
        "  coder batch FILE --out DIR   同时运行许多任务，每个都在自己的克隆里\n"
        "  coder apply DIR/ID           把任务的补丁放进此检出，经批准且可撤销\n"
        "  coder compare DIR DIR2       两个批处理之间有何变化\n"
        "  coder cache [clear]          沙箱中包管理器的缓存\n"
        "  coder tune --model NAME      用真实的小任务试一个模型，保存最合适的用法\n"
        "\n"
        "退出状态：0 已回答，1 本回合失败，2 用法或配置有误，\n"
        "          3 达到步数上限，4 达到提示 token 上限，5 已回答但检查未通过，\n"
        "          130 已取消"
    ),
    "cli.folder_gone": "当前文件夹已不存在；请用 --cwd 指定一个。",
    "cli.from_alone": "--from 只用于 `coder modes import`。",
    "cli.group.arguments": "参数",
    "cli.group.options": "选项",
    "cli.help.config": "另一个配置文件",
    "cli.help.continue": "接着最近一次会话",
    "cli.help.cache_action": "全部删除，正在使用的除外",
    "cli.help.cwd": "工作文件夹",
    "cli.help.explain_mode": "按哪个运行模式判断",
    "cli.help.explain_preset": "按哪个预设判断；默认为配置中的预设",
    "cli.help.input": "text（默认），或 stream-json：从标准输入按行读取 JSON 操作，供程序使用",
    "cli.help.keep_demo": "保留导览所用的项目及其记录，并说明位置",
    "cli.help.fast": "省去模型思考的停顿",
    "cli.help.from": "从哪个文件夹导入",
    "cli.help.help": "显示本页",
    "cli.help.html": "要写入的网页",
    "cli.help.md": "要写入的 Markdown 文件",
    "cli.help.no_browser": "只打印地址，不打开浏览器",
    "cli.help.port": "监听的端口；默认选一个空闲的",
    "cli.help.id": "会话的 ID，或足以认定它的开头部分",
    "cli.help.json_lines": "每行一个 JSON 对象",
    "cli.help.json_object": "一个 JSON 对象",
    "cli.help.json_record": "记录的原始各行",
    "cli.help.lang": "界面语言",
    "cli.help.limit": "最多列出多少个",
    "cli.help.line": "加引号的 shell 命令行",
    "cli.help.log_dir": "记录写到哪里",
    "cli.help.max_prompt": "提示超过这么多 token 就结束本回合",
    "cli.help.effort": "模型思考多少（{levels}）",
    "cli.help.max_steps": "一个回合最多让模型回答几次",
    "cli.help.mode": "运行模式（{modes}），或写成 '/名称 参数' 的自定义模式（可重复）",
    "cli.help.model": "由哪个模型回答",
    "cli.help.mcp": "list（默认）：试连；test：试连一个；add：添加到你自己的设置；remove：从中删除；"
    "login、logout：登录或退出需要 OAuth 的地址",
    "cli.help.mcp_env": "给程序的变量；启动时填入 ${{NAME}}",
    "cli.help.mcp_header": "给地址的请求头；会填入 ${{NAME}}",
    "cli.help.mcp_name": "服务器的名称",
    "cli.help.mcp_target": "程序及其参数（写在 -- 之后），或地址",
    "cli.help.mcp_writable": "程序还可写入的文件夹：例如 npx 需要 ~/.npm",
    "cli.help.modes_action": "list（默认）：列出；new：新建文件；import：从其他工具的命令导入",
    "cli.help.modes_global": "用于 new：放入你自己的模式，而不是本项目",
    "cli.help.modes_kind": "用于 new：persistent 或 instant（默认）",
    "cli.help.modes_name": "用于 new：模式名，a:b 表示放在目录 a 中",
    "cli.mcp_add_usage": "请给出名称，以及要启动或连接的对象：coder mcp add 名称 -- 程序 参数…，"
    "或 coder mcp add 名称 https://…",
    "cli.mcp_address": "{text} 不是地址；地址以 http:// 或 https:// 开头，并含有主机名。",
    "cli.mcp_dashes": "coder 没有选项 {option}。程序自己的选项写在 -- 之后：coder mcp add {name} -- {line}",
    "cli.mcp_list_usage": "`coder mcp list` 不带名称：它会试连全部服务器。",
    "cli.mcp_not_text": "{text} 不是有效的 UTF-8。",
    "cli.mcp_pair": "{text} 不是 NAME=VALUE 的形式。",
    "cli.mcp_remove_usage": "请给出一个名称：coder mcp remove 名称",
    "cli.mcp_surplus": "这些不能一起用：--env 和 --writable 用于程序，--header 用于地址，它们都只用于 add。",
    "cli.help.once": "只进行一个回合，然后退出",
    "cli.help.output": "回答的输出形式",
    "cli.help.question": "第一条消息；不加 --once 则会话继续",
    "cli.help.resume": "接着某次会话（其 ID，或 ID 的开头；不带 ID 时选择）",
    "cli.help.revoke": "不再信任",
    "cli.help.trust_session": "相信这个并非在此由你记录的会话",
    "cli.help.tokenizer": "计数用的词表，例如 cl100k_base",
    "cli.help.ts": "输出 TypeScript 类型而非 JSON Schema",
    "cli.help.version": "显示版本",
    "cli.help.warn_prompt": "提示超过这么多 token 就提醒",
    "cli.mcp_test_usage": "请给出名称：coder mcp {action} NAME。",
    "cli.modes_new_alone": "NAME、--kind 和 --global 只用于 `coder modes new`。",
    "cli.modes_no_name": "请给出名称：coder modes new NAME。",
    "cli.help.tune_only": "只试这一种方式（可重复）",
    "cli.help.tune_seconds": "每个任务最多多少秒",
    "cli.help.tune_task": "只试这个任务（可重复）",
    "cli.help.tune_yes": "不询问，直接保存最合适的方式",
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
    "cli.export_one": "请指明要写入的文件：--html FILE 或 --md FILE。",
    "cli.near_miss": "没有子命令 {word}；是想用 {near} 吗？若要提问：coder --once {word}",
    "cli.no_folder": "--cwd {directory} 不是文件夹。",
    "cli.no_mode": "--mode {name}：没有这个运行模式；可选 {modes}。自定义模式要带斜杠：--mode /name。",
    "cli.no_question": '--once 需要一个问题：coder --once "…"，或从标准输入给出文字。',
    "cli.no_session": "没有会话 {id}；`coder sessions` 可列出此文件夹的会话。",
    "cli.no_source": "{directory} 不是文件夹；请用 --from DIR 指定一个。",
    "cli.exported": "已写入 {file}",
    "cli.exported_over": "已替换 {file}",
    "cli.not_written": "无法写入 {file}：{why}。",
    "cli.nothing_to_continue": "此文件夹里没有可以接着进行的会话。",
    "cli.output": "输出无法写入",
    "cli.sessions.id": "会话",
    "cli.sessions.more": "还有更多；--limit N 列出 N 个。",
    "cli.sessions.title": "开头",
    "cli.sessions.turns": "回合",
    "cli.sessions.when": "最近使用",
    "cli.show.approval": "批准 {what}：{answer}",
    "cli.show.compaction": "历史已概括：{before} → {after} 个 token",
    "cli.show.more": "… 还有 {n} 行（--json 可看全部）",
    "cli.show.session": "会话 {id}",
    "cli.show.turn": "第 {n} 回合",
    "cli.show.turn_end": "{status} · {n} 步 · {tokens} 个 token",
    "cli.show.rewind": "对话退回到第 {turn} 回合之前",
    "cli.show.rewind_back": "撤回了该次退回",
    "cli.resume_which": "没有可供选择的终端时，--resume 需要 ID。最近的会话：\n{sessions}",
    "cli.show.verify": "验证 {command} → {state}（退出码 {code}）",
    "cli.system": "{what}：{why}。",
    "cli.unquoted": "请把命令行放在引号里：coder explain {line}",
    "cli.usage": "{what}。`{prog} --help` 可列出选项。",
    "cli.usage_prefix": "用法：",
    "cli.windows": "coder 在 Linux 和 macOS 上运行；在 Windows 上请在 WSL 中安装并启动它（wsl --install）。",
    "cli.wrong.choice": "{name} 不能是 {value}；可用的有 {allowed}",
    "cli.wrong.missing": "缺少 {name}",
    "cli.wrong.no_id": "缺少 ID；`coder sessions` 可列出",
    "cli.wrong.no_value": "{name} 需要一个值",
    "cli.wrong.no_value_wanted": "{name} 不带值，却给了 {value}",
    "cli.wrong.other": "{message}",
    "cli.wrong.positive": "{name}：{value} 不是从 1 起的整数",
    "cli.wrong.surplus": "{name} 是多余的；含空格的内容请加引号",
    "cli.wrong.unknown": "没有选项 {name}",
    "cli.wrong.unknown_near": "没有选项 {name}（是想用 {near} 吗？）",
    "cli.wrong.value": "{name} 不能是 {value}",
    "cli.about.local": "下载一个小模型（仅一次）；之后 `--model local` 不需要密钥和服务器。",
    "cli.help.live": "用本机的真实模型代替脚本（由 `coder local` 下载）",
    "cli.help.local_yes": "不询问，直接下载",
}
