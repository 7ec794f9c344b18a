"""What `coder batch`, `coder apply` and `coder compare` say, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # the task file
    "batch.unreadable": "{file} cannot be read: {why}.",
    "batch.no_tasks": "{file} holds no task: it has one JSON object a line.",
    "batch.wrong_lines": "{file}: nothing was started.",
    "batch.line": "line {number}: {why}",
    "batch.and_line": "{before}\n{line}",
    "batch.not_json": "not a JSON object ({why}).",
    "batch.unknown_field": "there is no field {name}; there is {names}.",
    "batch.missing_field": "the field {name} is missing.",
    "batch.wrong_value": "{why}.",
    "batch.bad_id": "{id!r} cannot be an id: it names a folder, so letters, digits and _ . @ = , + - (not "
    "first) are allowed, up to 150 of them, and no name that the batch itself uses.",
    "batch.no_prompt": "the prompt is empty.",
    "batch.cwd_or_repo": "name the project with either cwd (a folder) or repo (what git can clone).",
    "batch.looks_like_option": "{value} begins with a dash, which git would take for an option.",
    "batch.mode": "there is no operating mode {name}; there are {modes}. A custom mode begins with a slash.",
    "batch.bad_variable": "env names variables, and {name!r} is not the name of one.",
    "batch.git_variable": "env names {name}, which leads git away from the task's own clone.",
    "batch.no_variable": "env names {name}, which is not set.",
    "batch.no_folder": "{directory} is not a folder.",
    "batch.twice": "the id {id} is that of line {first} already.",
    "batch.matrix": "--matrix {word}: write NAME=A,B, each name once; names are {names}.",
    # the output directory
    "batch.out_missing": "Say where the results go: coder batch TASKS.jsonl --out DIR",
    "batch.no_out": "{directory} cannot be used: {why}.",
    "batch.unwritten": "{directory} cannot be written: {why}. What ran was stopped; the same command with "
    "--resume goes on once that is put right.",
    "batch.locked": "Another `coder batch` is writing {directory}; "
    "`coder batch status {directory}` shows it.",
    "batch.has_results": "{directory} has results already: add --resume to do what is missing, --retry "
    "failed to do failed tasks again as well, or name another folder.",
    "batch.no_results": "{directory} has no results: {why}.",
    "batch.no_status": "{directory} is not the folder of a batch: {why}.",
    "batch.status_missing": "Name the folder: coder batch status DIR",
    "batch.surplus": "{word} is one word too many; options begin with two dashes.",
    "batch.changed": "{file} was changed while its tasks ran, so the batch was stopped; the same command "
    "with --resume goes on with the file as it is now.",
    "batch.home_too_large": "Every task takes a copy of your modes and skills along; with {directory} these "
    "are more than {limit} MB. Move out of there what tasks do not need.",
    "batch.no_ray": "--engine ray needs Ray: {line}",
    "batch.ray_only": "--address, --task-cpus and --task-memory belong to --engine ray.",
    "batch.address": "--address {address}: write auto, HOST:PORT or ray://HOST:PORT.",
    "batch.no_cluster": "There is no Ray cluster at {address}: {why}",
    "batch.no_own_cluster": (
        "No Ray cluster of yours or of root's runs on this machine. Name one: --address HOST:PORT."
    ),
    "batch.several_clusters": "Several Ray clusters run here: {addresses}. Choose one with --address.",
    "batch.open_cluster": (
        "Commands of tasks could submit jobs to this cluster, which run outside their sandbox. "
        "Set sandbox.network to false or a list of hosts, or start the nodes with RAY_AUTH_MODE=token."
    ),
    "batch.cluster_gone": "the cluster is gone: {why}",
    # limits
    "batch.no_price": (
        "--budget and budget_usd need a price for {models}: set budget.prices in your configuration, "
        "in USD per million tokens."
    ),
    "batch.rate": "--rpm {word}: write a number of requests a minute, or PROVIDER=NUMBER.",
    "batch.rate_of_nobody": "--rpm {name}=…: no task has this provider; there is {names}.",
    "batch.budget_used_up": "the budget of the batch is used up",
    # while it runs, and afterwards
    "batch.counts": "{done} of {total} done",
    "batch.running": "{n} running",
    "batch.waiting": "{n} waiting for a node",
    "batch.well": "{n} succeeded",
    "batch.badly": "{n} failed",
    "batch.throttled": "{n} requests put off (429)",
    "batch.throttled.one": "1 request put off (429)",
    "batch.lost": "{n} attempts lost",
    "batch.lost.one": "1 attempt lost",
    "batch.tokens": "{n} tokens, {rate}/s",
    "batch.left": "{time} left",
    "batch.attempt": "attempt {n}",
    "batch.more": "  … and {n} more",
    "batch.succeeded": "succeeded",
    "batch.failed": "failed",
    "batch.stopping.interrupted": "finishing what runs; Ctrl+C again cancels it",
    "batch.stopping.cancelled": "cancelling",
    "batch.stopping.budget": "the budget allows no further request",
    "batch.stopping.time": "the time is up",
    "batch.stopped.interrupted": "Interrupted: what ran was finished, nothing more was started.",
    "batch.stopped.cancelled": "Cancelled: what ran was stopped.",
    "batch.stopped.budget": "What is left of the budget is too little for a further request: none was made.",
    "batch.stopped.time": "The time is up: what ran was stopped.",
    "batch.stopping.engine": "the cluster is gone",
    "batch.stopped.engine": "The cluster is gone, and what ran there with it.",
    "batch.go_on": "{n} tasks have no result yet; the same command with --resume does them.",
    "batch.go_on.one": "1 task has no result yet; the same command with --resume does it.",
    "batch.written": "Results: {directory}/results.jsonl, {directory}/index.html",
    "batch.apply": "A task's patch: coder apply {directory}/ID",
    "batch.ended": "It has ended.",
    "batch.died": "Its driver is gone: `coder batch TASKS.jsonl --out {directory} --resume` goes on.",
    # apply and compare
    "batch.no_patch": "There is no patch at {file}: {why}.",
    "batch.empty_patch": "{file} is empty: the task changed nothing.",
    "batch.binary_patch": "{file} changes links or files that are not text, which cannot be shown for "
    "approval; `git apply {file}` applies it.",
    "batch.apply_this": "Apply {file}.",
    "batch.applied": "The patch is applied. `coder --continue`, then /undo, takes it back.",
    "batch.not_applied": "The patch was not applied.",
    "batch.compare.tasks": "{n} tasks are in both.",
    "batch.compare.tasks.one": "1 task is in both.",
    "batch.compare.success": "succeeded: {before} → {after}, with exact 95 % intervals",
    "batch.compare.better": "{n} failed before and succeed now",
    "batch.compare.worse": "{n} succeeded before and fail now",
    "batch.compare.chance": "A split at least as uneven comes by chance with probability {chance}.",
    "batch.compare.cost": "cost: {change}",
    "batch.compare.steps": "steps: {change}",
    "batch.compare.median": "{total} in all; median change {median} (95 %: {low} to {high})",
    "batch.compare.few": "{total} in all; median change {median} (too few tasks for an interval)",
    "batch.compare.first": "{n} are in the first alone",
    "batch.compare.first.one": "1 is in the first alone",
    "batch.compare.second": "{n} are in the second alone",
    "batch.compare.second.one": "1 is in the second alone",
    # help
    "batch.help.tasks": "one task a line, as JSON; or `status`",
    "batch.help.status": "with `status`: the folder of a batch",
    "batch.help.out": "where results go",
    "batch.help.engine": "local: processes of this machine (the default); ray: a Ray cluster",
    "batch.help.address": "with --engine ray: auto (the default), HOST:PORT or ray://HOST:PORT",
    "batch.help.task_cpus": "with --engine ray: cores that a task needs (default 1)",
    "batch.help.task_memory": "with --engine ray: memory that a task needs, e.g. 4G (default 1G)",
    "batch.help.jobs": "tasks at once; else as many as there are cores, here or in the cluster",
    "batch.help.resume": "do what has no result yet",
    "batch.help.retry": "the same, and do failed tasks again",
    "batch.help.matrix": "run every task with every combination, e.g. model=a,b mode=plan,yolo",
    "batch.help.budget": "for all tasks together; no request is made that could pass it",
    "batch.help.rpm": "requests a minute, for every provider or as PROVIDER=N (repeatable)",
    "batch.help.time": "for the batch, e.g. 90m or 8h; what runs then is cancelled",
    "batch.help.timeout": "for a task that names none (default 1h)",
    "batch.help.result": "a task's folder in the results of a batch",
    "batch.help.first": "the results of a batch",
    "batch.help.second": "those of another with the same tasks",
}
