"""Subcommands, settings and statistics, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "config.no_local": "Serving models on this machine is an add-on that is not installed.",
    "cli.about": "A coding agent for the terminal.",
    "cli.about.acp": "Speak the Agent Client Protocol on stdio, for editors.",
    "cli.about.apply": "Put a task's patch into this checkout, with approval and undo.",
    "cli.about.cache": "Show or remove the caches that package managers fill in the sandbox.",
    "cli.about.demo": "A tour with no network and no key.",
    "cli.about.doctor": "Say what works here: provider, key, tokenizer, sandbox, tools.",
    "cli.about.explain": "Say what the policy would do with a shell line, and why.",
    "cli.about.export": "Write a session as one HTML or Markdown file.",
    "cli.about.mcp": "Try the MCP servers, or add and remove your own.",
    "cli.about.models": "List the providers that are set up and their models: wire, window, price, dialect.",
    "cli.about.modes": "List custom modes and saved prompts, or import another tool's commands.",
    "cli.about.schema": "Print the protocol of the engine: every op and every event.",
    "cli.about.serve-mcp": (
        "Be an MCP server on stdio: other agents give coder tasks in this folder, under your policy."
    ),
    "cli.about.sessions": "List the sessions of this folder, newest first.",
    "cli.about.show": "Show what happened in a session.",
    "cli.about.stats": "Count what the sessions did, took and cost: by day, model, project and tool.",
    "cli.about.trust": "Trust what this folder brings: .coder/config.json, and commands in its modes.",
    "cli.bad_op": "Line {line} is no op: {why}. `coder schema` has their form.",
    "cli.late_op": "Line {line} came after `close` and was not taken.",
    "cli.no_approval": "Line {line} answers no question that waits: there is no approval {id}.",
    "cli.long_op": "Line {line} is longer than {most} MiB and was not taken.",
    "cli.about.view": "See all that was recorded, in a browser; on 127.0.0.1 alone, with a token.",
    "cli.models.blind": "no",
    "cli.models.dialect": "dialect",
    "cli.models.guessed": "?: not known; {window} is a guess. Set provider.models.NAME.context_window.",
    "cli.models.images": "images",
    "cli.models.listed": (
        "Prices that you have not set are list prices of {month}, where a long prompt may cost more; "
        "budget.prices overrides them."
    ),
    "cli.models.model": "model",
    "cli.models.no_price": (
        '–: no price, so no cost is counted. Set USD per million tokens: {{"budget": {{"prices": '
        '{{"{model}": {{"input": 1.0, "cached_input": 0.1, "output": 4.0}}}}}}}} in {file}.'
    ),
    "cli.models.price": "USD in / cached / out",
    "cli.models.provider": "provider",
    "cli.models.sees": "yes",
    "cli.models.window": "window",
    "cli.models.wire": "wire",
    "cli.cache.busy.one": "One project's is in use and stays.",
    "cli.cache.busy": "Those of {n} projects are in use and stay.",
    "cli.cache.cleared": "{size} MB removed.",
    "cli.cache.size.one": "One project's caches take {size} MB ({path}). coder cache clear removes them.",
    "cli.cache.size": "The caches of {n} projects take {size} MB ({path}). coder cache clear removes them.",
    "cli.doctor.bash": "bash",
    "cli.doctor.binary_own": "{path} (installed on this machine)",
    "cli.doctor.binary_recorded": "{path} (from {package} {version}; its SHA-256 is the recorded one)",
    "cli.doctor.binary_unrecorded": "{path} (from {package} {version}; no SHA-256 is recorded for it)",
    "cli.doctor.binary_differs": "{path} (from {package} {version}; its SHA-256 is not recorded: {digest})",
    "cli.doctor.bwrap": "bwrap",
    "cli.doctor.coder": "coder",
    "cli.doctor.estimates": "estimates only",
    "cli.doctor.fine": "All is well: `coder` begins a session.",
    "cli.doctor.git": "git",
    "cli.doctor.mend": "Not ready yet: mend {names}, then run `coder doctor` again.",
    "cli.doctor.model": "model",
    "cli.doctor.mcp": "MCP servers",
    "cli.doctor.caches": "caches",
    "cli.doctor.cache_size.one": "package managers of a project: {size} MB (coder cache clear removes them)",
    "cli.doctor.cache_size": "package managers of {n} projects: {size} MB (coder cache clear removes them)",
    "cli.doctor.mcp_servers": "{names} (coder mcp tries them)",
    "cli.doctor.no_answer": "no answer in {seconds} s",
    "cli.doctor.plugins": "plugins",
    "cli.doctor.provider": "provider",
    "cli.doctor.record": "record",
    "cli.doctor.ripgrep": "ripgrep",
    "cli.doctor.settings": "settings",
    "cli.doctor.sandbox": "sandbox",
    "cli.doctor.tokenizer": "tokenizer",
    "cli.doctor.trust": "trust",
    "cli.doctor.without": "coder works here. It does without what is marked {mark}.",
    "cli.driven_json": "--input stream-json goes with --output stream-json, which is its default.",
    "cli.elsewhere.config": (
        "There is no subcommand config: settings are in ~/.coder/config.json, `coder doctor` checks them. "
        "To ask it: coder --once {word}"
    ),
    "cli.elsewhere.init": (
        "There is no subcommand init: `/init` in a session writes AGENTS.md. To ask it: coder --once {word}"
    ),
    "cli.elsewhere.login": (
        "There is no subcommand {word}: set a provider's key, e.g. export OPENAI_API_KEY=…; `coder doctor` "
        "says whether it works. To ask it: coder --once {word}"
    ),
    "cli.elsewhere.resume": (
        "There is no subcommand {word}: `coder --continue` goes on with the latest session, `coder --resume` "
        "lets you choose one. To ask it: coder --once {word}"
    ),
    "cli.elsewhere.undo": (
        "There is no subcommand {word}: `coder --continue`, then `/{word}`. To ask it: coder --once {word}"
    ),
    "cli.elsewhere.update": (
        "There is no subcommand {word}: `git pull` in the checkout and `pipx install --force .` there. "
        "To ask it: coder --once {word}"
    ),
    "cli.elsewhere.version": "`coder --version` says the version. To ask it: coder --once {word}",
    "cli.empty_message": "The message is empty.",
    "cli.empty_stdin": 'There is nothing to do: stdin is empty. Try coder --once "…".',
    "cli.epilog": (
        "subcommands:\n"
        "  coder demo                   a tour with no network and no key\n"
        "  coder sessions               those of this folder; --search WORDS finds some\n"
        "  coder show ID                what happened in one\n"
        "  coder export ID --html FILE  the same as a page; --md FILE as Markdown\n"
        "  coder stats                  what they did, took, cost; --all: every project\n"
        "  coder view [ID]              all that was recorded, in a browser\n"
        "  coder doctor                 what works here\n"
        '  coder explain "shell line"   what the policy would do with it, and why\n'
        "  coder acp                    for editors (Agent Client Protocol on stdio)\n"
        "  coder mcp                    try MCP servers, add and remove them\n"
        "  coder serve-mcp              coder as an MCP server for other agents\n"
        "  coder modes                  custom modes and saved prompts\n"
        "  coder models                 the providers that are set up and their models\n"
        "  coder schema                 the JSON Schema of ops and events\n"
        "  coder trust                  let this folder's own settings take effect\n"
        "  coder cache [clear]          the sandbox's caches of package managers\n"
        "{addons}\n"
        "exit status: 0 answered, 1 the turn failed, 2 wrong usage or configuration,\n"
        "             3 step limit, 4 prompt-token limit, 5 answered but the check fails,\n"
        "             130 cancelled"
    ),
    "cli.folder_gone": "The current folder no longer exists; name one with --cwd.",
    "cli.from_alone": "--from belongs to `coder modes import`.",
    "cli.group.arguments": "arguments",
    "cli.group.options": "options",
    "cli.help.config": "a further configuration file",
    "cli.help.continue": "go on with the latest session",
    "cli.help.cache_action": "remove all of them but those in use",
    "cli.help.cwd": "the folder to work in",
    "cli.help.explain_mode": "operating mode to judge it in",
    "cli.help.explain_preset": "preset to judge it by, if not the configured one",
    "cli.help.input": "text (the default), or stream-json: ops as JSON lines on stdin, for programs",
    "cli.help.keep_demo": "leave the project of the tour and its record where they are, and say where",
    "cli.help.fast": "without the pauses of a model that thinks",
    "cli.help.from": "folder to import from",
    "cli.help.help": "this page",
    "cli.help.html": "the page to write",
    "cli.help.md": "the Markdown file to write",
    "cli.help.no_browser": "print the address, and leave the browser alone",
    "cli.help.port": "the port to listen on; otherwise a free one",
    "cli.help.id": "a session's id, or as much of its beginning as makes it the only one",
    "cli.help.json_lines": "one JSON object a line",
    "cli.help.json_object": "one JSON object",
    "cli.help.json_record": "the record's own lines",
    "cli.help.lang": "language of the interface",
    "cli.help.limit": "how many at most",
    "cli.help.line": "the shell line, in quotes",
    "cli.help.log_dir": "where the record goes",
    "cli.help.max_prompt": "end the turn where a prompt would have more tokens",
    "cli.help.effort": "how much the model reasons ({levels})",
    "cli.help.max_steps": "how many answers of the model a turn may have",
    "cli.help.mode": "operating mode ({modes}), or a custom mode as '/name args' (repeatable)",
    "cli.help.model": "who answers",
    "cli.help.mcp": "list (the default): try them; test: try one; add: put one into your own settings; "
    "remove: take one out of them; login, logout: at an address that wants OAuth",
    "cli.help.mcp_env": "a variable for the program; ${{NAME}} is put in when it starts",
    "cli.help.mcp_header": "a header for the address; ${{NAME}} is put in",
    "cli.help.mcp_name": "what to call it",
    "cli.help.mcp_target": "the program with its arguments (after --), or the address",
    "cli.help.mcp_writable": "a further folder that the program may write: for npx ~/.npm",
    "cli.help.modes_action": (
        "list (the default): show them; new: make a file; import: make some of another tool's commands"
    ),
    "cli.help.modes_global": "with new: among your own modes instead of this project's",
    "cli.help.modes_kind": "with new: persistent or instant (the default)",
    "cli.help.modes_name": "with new: the name of the mode, a:b for one in a folder",
    "cli.mcp_add_usage": "Give a name and what to start or reach: coder mcp add NAME -- PROGRAM ARG…, "
    "or coder mcp add NAME https://…",
    "cli.mcp_address": "{text} is not an address; one begins with http:// or https:// and a host.",
    "cli.mcp_dashes": "coder has no option {option}. A program's own options come after --: "
    "coder mcp add {name} -- {line}",
    "cli.mcp_list_usage": "`coder mcp list` takes no name: it tries them all.",
    "cli.mcp_not_text": "{text} is not valid UTF-8.",
    "cli.mcp_pair": "{text} is not NAME=VALUE.",
    "cli.mcp_remove_usage": "Give one name: coder mcp remove NAME",
    "cli.mcp_surplus": "That does not go together: --env and --writable are for a program, --header is for "
    "an address, and all of them are for add.",
    "cli.help.once": "one turn, then exit",
    "cli.help.output": "how the answer is printed",
    "cli.help.question": "a first message; without --once the session goes on",
    "cli.help.resume": "go on with a session (its id, or the beginning of it; without one, choose)",
    "cli.help.revoke": "trust them no longer",
    "cli.help.trust_session": "believe the record of this session, which you did not make here",
    "cli.help.tokenizer": "vocabulary for counting, e.g. cl100k_base",
    "cli.help.ts": "TypeScript types instead of JSON Schema",
    "cli.help.version": "print the version",
    "cli.help.warn_prompt": "warn where a prompt has more tokens",
    "cli.mcp_test_usage": "Say which one: coder mcp {action} NAME.",
    "cli.modes_new_alone": "NAME, --kind and --global belong to `coder modes new`.",
    "cli.modes_no_name": "Say which: coder modes new NAME.",
    "cli.help.tune_only": "only this way to put the tools to the model (repeatable)",
    "cli.help.tune_seconds": "how long a task may take",
    "cli.help.tune_task": "only this task (repeatable)",
    "cli.help.tune_yes": "keep what suits it without asking",
    "cli.export_one": "Name the file to write: --html FILE or --md FILE.",
    "cli.near_miss": "There is no subcommand {word}; did you mean {near}? To ask it: coder --once {word}",
    "cli.no_folder": "--cwd {directory} is not a folder.",
    "cli.no_mode": "--mode {name}: there is no such operating mode; there are {modes}. "
    "A custom mode is written with its slash: --mode /name.",
    "cli.no_question": '--once needs a question: coder --once "…", or text on stdin.',
    "cli.no_session": "There is no session {id}; `coder sessions` lists those of this folder.",
    "cli.no_source": "{directory} is not a folder; name one with --from DIR.",
    "cli.exported": "Wrote {file}",
    "cli.exported_over": "Replaced {file}",
    "cli.not_written": "{file} cannot be written: {why}.",
    "cli.nothing_to_continue": "There is no session to continue in this folder.",
    "cli.output": "The output cannot be written",
    "cli.sessions.id": "session",
    "cli.sessions.more": "There are more; --limit N lists N of them.",
    "cli.sessions.title": "began with",
    "cli.sessions.turns": "turns",
    "cli.sessions.when": "last used",
    "cli.show.approval": "approval of {what}: {answer}",
    "cli.show.compaction": "history summarised: {before} → {after} tokens",
    "cli.show.more": "… {n} more lines (--json has them all)",
    "cli.show.more.one": "… 1 more line (--json has it)",
    "cli.show.session": "session {id}",
    "cli.show.turn": "turn {n}",
    "cli.show.turn_end": "{status} · {n} steps · {tokens} tokens",
    "cli.show.turn_end.one": "{status} · 1 step · {tokens} tokens",
    "cli.show.rewind": "rewound to before turn {turn}",
    "cli.show.rewind_back": "undid that rewind",
    "cli.resume_which": (
        "--resume needs an ID where there is no terminal to choose on. Recent sessions:\n{sessions}"
    ),
    "cli.show.verify": "verify {command} → {state} (exit {code})",
    "cli.system": "{what}: {why}.",
    "cli.unquoted": "Put the line in quotes: coder explain {line}",
    "cli.usage": "{what}. `{prog} --help` lists the options.",
    "cli.usage_prefix": "usage: ",
    "cli.windows": (
        "coder runs on Linux and macOS; on Windows, install and start it inside WSL (wsl --install)."
    ),
    "cli.wrong.choice": "{name} cannot be {value}; allowed are {allowed}",
    "cli.wrong.missing": "{name} is missing",
    "cli.wrong.no_id": "ID is missing; `coder sessions` lists them",
    "cli.wrong.no_value": "{name} needs a value",
    "cli.wrong.no_value_wanted": "{name} takes no value, but got {value}",
    "cli.wrong.other": "{message}",
    "cli.wrong.positive": "{name}: {value} is not a whole number from 1 on",
    "cli.wrong.surplus": "{name} is too much; what belongs together is put in quotes",
    "cli.wrong.unknown": "There is no option {name}",
    "cli.wrong.unknown_near": "There is no option {name} (did you mean {near}?)",
    "cli.wrong.value": "{name} cannot be {value}",
    "cli.help.live": "with a real model on this machine instead of a script (`coder local` fetches it)",
    "cli.help.local_yes": "fetch without asking",
    "config.allowlist_not_saved": "The allowlist could not be saved to {file}: {why}.",
    "config.bad_header": "{where} holds a character that an HTTP header cannot carry.",
    "config.shared_home": (
        "Another user could have written {directory}, where coder finds programs to run. Make it yours "
        "(`chown`, `chmod 700`), or set CODER_HOME to a directory of your own."
    ),
    "config.bad_home": "There is no home folder here; set CODER_HOME to a folder for coder's own files.",
    "config.bad_value": "{where} is {found}; allowed: {allowed}.",
    "config.corrupt_store": "{file} is damaged ({why}) and was treated as empty.",
    "config.expect_address": "an address such as http://127.0.0.1:11434/v1 ({why})",
    "config.expect_bool": "true or false",
    "config.expect_float": "a number",
    "config.expect_float_below": "a number from {low} to below {high}",
    "config.expect_float_between": "a number from {low} to {high}",
    "config.expect_float_from": "a number, {low} or more",
    "config.expect_host": "a host such as api.example.com, *.example.org, example.com:443 or localhost:5432",
    "config.expect_int": "a whole number",
    "config.expect_int_between": "a whole number from {low} to {high}",
    "config.expect_int_from": "a whole number, {low} or more",
    "config.expect_list": "a list of {items}",
    "config.expect_object": "an object {{…}}",
    "config.expect_key": (
        'a key such as ctrl+t, alt+r, f5, shift+tab or ctrl+x ctrl+t (not ctrl+c, d, h, i or m), or ""'
    ),
    "config.expect_string": "a text in quotes",
    "config.expect_strings": "texts in quotes",
    "config.file_directory": "{file} is a folder, not a configuration file.",
    "config.file_irregular": "{file} is not an ordinary file.",
    "config.file_missing": "{file} does not exist.",
    "config.file_too_big": "{file} is larger than {limit} bytes, which is too large for a configuration.",
    "config.file_unreadable": "{file} cannot be read: {why}.",
    "config.ignored": "{file}: {key} is ignored until you trust this folder ({reason}).",
    "config.ignored.costs": "it would let a session spend more",
    "config.ignored.loosens": "it would loosen the policy",
    "config.ignored.sends": "it would send data elsewhere",
    "config.ignored.starts": "it would start programs",
    "config.invalid": "{file} is not a valid configuration: {what}.",
    "config.own_not_saved": "{file} could not be written: {why}.",
    "config.own_shape": "{file} has a shape that cannot be edited safely; change it by hand.",
    "config.more": "… and {n} more errors; `coder doctor` lists all.",
    "config.more.one": "… and 1 more error; `coder doctor` lists all.",
    "config.model_not_saved": "The model could not be saved to {file}: {why}.",
    "config.model_not_saved_link": "it is a link to a file outside the project",
    "config.model_not_saved_shape": "provider is not an object there",
    "config.no_folder": "{directory} is not a folder.",
    "config.no_plugin": "No installed package offers the provider {name} (coder.providers); "
    "there are: {names}.",
    "config.no_provider": (
        "No model provider is configured. Set an API key ({keys}), or a server's address (CODER_BASE_URL,"
        " e.g. {example}). `coder local` fetches a model, `coder demo` needs none."
    ),
    "config.no_provider_trusted": (
        "No model provider is configured but the one that .coder/config.json names, and this folder "
        "is not trusted; `coder trust` allows it."
    ),
    "config.not_utf8": "{file} is not UTF-8 text (byte {byte}); save it as UTF-8.",
    "config.syntax": "{file}:{line}:{column}: {what}.",
    "config.syntax_comment": "the comment that begins here has no end",
    "config.syntax_deep": "nested more than {limit} levels deep",
    "config.syntax_rejected": "a number out of range, NaN or Infinity, or one half of a \\u pair",
    "config.tool_taken": "There is a tool called {name} already; give yours another name.",
    "config.trust_not_saved": "The trust in this folder could not be saved to {file}: {why}.",
    "config.unknown_key": "{file}: unknown key {key}; allowed here: {allowed}.",
    "config.unknown_key_near": "{file}: unknown key {key} (nearest: {nearest}); allowed here: {allowed}.",
    "config.url_host": "no host is named",
    "config.url_port": "the port must be a number from 1 to 65535",
    "config.url_scheme": "it must begin with http://, https:// or plugin:",
    "config.url_space": "it must not contain spaces or control characters",
    "stats.by_day": "By day",
    "stats.by_model": "By model",
    "stats.by_project": "By project",
    "stats.by_tool": "By tool",
    "stats.checks": "Checks: {checks}",
    "stats.head.cached": "cached",
    "stats.head.calls": "calls",
    "stats.head.completion": "out",
    "stats.head.cost": "cost",
    "stats.head.denied": "denied",
    "stats.head.failed": "failed",
    "stats.head.prompt": "in",
    "stats.head.requests": "requests",
    "stats.head.sessions": "sessions",
    "stats.head.steps": "steps",
    "stats.head.time": "time",
    "stats.head.turns": "turns",
    "stats.help.all": "the sessions of every project, not of this folder alone",
    "stats.help.days": "only the last N days, today included",
    "stats.hours": "{hours} h {minutes} min",
    "stats.minutes": "{minutes} min {seconds} s",
    "stats.none": "No session was recorded here.",
    "stats.none_lately": "No session was recorded here in the last {n} days.",
    "stats.none_lately.one": "No session was recorded here today.",
    "stats.seconds": "{seconds} s",
    "stats.time": "Time",
    "stats.time.model": "waiting for the model",
    "stats.time.person": "waiting for you",
    "stats.time.tools": "in tools",
    "stats.tokens": "Tokens: {prompt} in ({share} cached), {completion} out; cost {cost}",
    "stats.total": "Sessions: {sessions}, turns: {turns}, steps: {steps}",
}
