"""What searching, viewing and counting the records says, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "lookback.all_alone": '--all 要与 --search 一起用：coder sessions --search "词语" --all',
    "lookback.busy": "另一个 coder 进程正在写会话索引，请稍后再试。",
    "lookback.help.all": "搜索所有项目的会话，而不只是这个文件夹的",
    "lookback.help.search": "只列出含有全部这些词语的会话",
    "lookback.hit": "第 {turn} 回合，{who}：",
    "lookback.indexing": "正在为索引读取 {n} 个会话……",
    "lookback.kind.answer": "回答",
    "lookback.kind.call": "调用",
    "lookback.kind.output": "输出",
    "lookback.kind.person": "你",
    "lookback.kind.thinking": "思考",
    "lookback.no_words": '请给出要搜索的词语：coder sessions --search "词语"',
    "lookback.nothing": "没有会话同时含有：{words}",
    "lookback.unusable": "会话索引无法使用：{why}。",
}
