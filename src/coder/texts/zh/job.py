"""后台任务，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "job.count": "{n} 个任务",
    "job.ended": "任务 {id} 已结束，退出码 {code}：{command}",
    "job.ended_with_session": "已随会话结束：任务 {jobs}。",
    "job.gone": "后台任务已随之前的进程结束：{jobs}。",
    "job.has_ended": "已结束，退出码 {code}，用时 {time}",
    "job.no_such": "没有任务 {id}；正在运行：{ids}。",
    "job.none": "本会话没有后台任务。",
    "job.none_running": "没有正在运行的后台任务。",
    "job.runs": "已运行 {time}",
    "job.still_running": "仍在后台运行：任务 {jobs}。/stop 可结束。",
    "job.stopped": "已停止：任务 {jobs}。",
    "job.uncovered": "/undo 不覆盖后台任务启动之后的改动。",
    "job.was_stopped": "已停止，运行了 {time}",
}
