"""The interface in English: every key of the catalogue. Sections by room, keys sorted within.

Placeholders are `str.format`'s; a literal brace is doubled. `key.one` is the singular of `key`
for `n` = 1 and needs no Chinese counterpart.
"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # engine, terminal, command line
    "command.nearest": "Did you mean {names}?",
    "compact.done": "Compacted: {before} → {after} tokens.",
    "compact.fell_back": (
        "No summary could be made ({reason}) and the conversation is too long: only the action log, earlier "
        "summaries and the newest messages are kept."
    ),
    "compact.inflated_before": "an earlier one came out longer than what it was to replace",
    "compact.inflated_now": "it came out no shorter than what it was to replace",
    "compact.nothing": "There is nothing to compact yet.",
    "demo.foot": (
        "To use a model of your own, set CODER_API_KEY (or CODER_BASE_URL for a local server) and run "
        "`{coder}` in your project."
    ),
    "demo.gone": "The tour's project is removed; `{coder} demo --keep` leaves it and its record.",
    "demo.head": "A tour: a scripted model, real tools, a project with a failing test.\n",
    "demo.kept": (
        "The project is kept in {directory}\n"
        "Everything above is recorded: {coder} show {id} --cwd {directory}"
    ),
    "diff.by_session": "No git repository here. Changed by this session (/diff session shows how):",
    "diff.failed": "git could not show the difference: {reason}",
    "diff.hint": (
        "/diff full shows every line, /diff PATH those of one file; /diff session and /diff turn N what the "
        "session or a turn of it changed."
    ),
    "diff.more": "… and {n} more new files",
    "diff.no_turn": "Turn {turn} changed no file that could be taken back. Turns that did: {turns}",
    "diff.none": "No changes.",
    "diff.none_by_session": "This session has changed no file.",
    "diff.none_without_git": "No git repository here, and this session has changed no files.",
    "diff.untracked": "new file: {path}",
    "doctor.key": "key set",
    "doctor.missing": "{name} was not found on PATH",
    "doctor.model_unlisted": "{model} is not among the models that the provider lists",
    "doctor.no_key": "no key",
    "doctor.no_rg": "not found; searching falls back to Python, which is slower",
    "engine.internal": (
        "Something went wrong inside coder ({error}). The session is recorded; please report this."
    ),
    "engine.internal_kept": (
        "Something went wrong inside coder ({error}). The session is recorded; details for a report "
        "are in {path}."
    ),
    "engine.part_missing": (
        "A part of coder is missing ({error}): it was removed or replaced while it ran. Leave, install it "
        "again if it is gone, and go on with `coder --resume {id}`."
    ),
    "fork.linear": "Sessions are linear: there is no /fork. /new starts another one.",
    "guard.fixed_too_long": (
        "Instructions and tools alone take {count} tokens and the limit is {limit}: raise it "
        "(--max-prompt-tokens, runtime.context_window)."
    ),
    "guard.message_too_long": (
        "With this message alone the prompt has {count} tokens and the limit is {limit}, so it was not sent "
        "and is not part of the conversation. Shorten it, or name files for the model to read in parts."
    ),
    "guard.prompt_limit": (
        "The prompt has {count} tokens and the limit is {limit}. Shorten the message, or /compact."
    ),
    "guard.prompt_warning": "The prompt has {count} tokens; you asked to be warned from {limit} on.",
    "guard.steps": "step limit reached ({limit}); say “continue” to go on, or raise --max-steps.",
    "guard.turns": "This session has had its {limit} turns; /new starts another one.",
    "mode.current": "Operating mode: {mode} (there are {names}).",
    "mode.set.auto-edit": "Operating mode: auto-edit. Edits are made without asking; tests run after them.",
    "mode.set.default": "Operating mode: default. The permission preset decides: /permissions shows it.",
    "mode.set.plan": "Operating mode: plan. It looks and proposes, and changes nothing until /default.",
    "mode.set.yolo": "Operating mode: yolo. Edits and all commands are carried out without asking.",
    "mode.unknown": "There is no operating mode {name}; there are {names}.",
    "model.bad_call": "The answer is not whole: its server could not read the call that the model made.",
    "model.elsewhere": (
        "{model} is a model of {provider}, and provider.wire or provider.headers is set for another. Leave "
        "and go on with `coder --model {model} --resume`, with settings for {provider}."
    ),
    "model.filtered_calls": "The provider's content filter stopped the answer, so its calls were not run.",
    "model.current": "Model: {model}",
    "model.more": "  … and {n} more: `coder models` shows all.",
    "model.other_effort": "{model} does not take the effort {effort} here, so it is asked with {other}.",
    "model.no_effort": "{model} does not take the effort {effort} here, so it is asked without one.",
    "model.no_tools": "{model} takes no native tools here; from now on it is spoken to in {dialect}.",
    "model.not_listed": "The server has no model {model} on its list; near to it: {names}.",
    "model.not_listed_at_all": "The server has no model {model} on its list; it has {names}.",
    "model.mode_wins": "The mode {mode} is on and asks for {model}, which is used until it is off.",
    "model.retry": "{reason} Trying again in {wait} s (attempt {attempt}).",
    "model.one_name": "A model has one name without blanks: /model NAME.",
    "effort.current": "Effort: {effort}",
    "effort.default": "Effort: the model's own. There are {names}.",
    "effort.unknown": "There is no effort {name}; there are {names}.",
    "model.provider": "It is reached by {provider}.",
    "model.variable": "That holds for this session; CODER_MODEL ({model}) decides the next.",
    "model.set": "Model: {model}",
    "model.unchanged": "The model stays {model}.",
    "model.use_it": "Use it all the same?",
    "permissions.head": "preset {preset}, operating mode {mode}:",
    "permissions.unknown": "There is no preset {name}; there are {names}.",
    "plugins.failed": "{name} of the package {package} cannot be used: {why}",
    "plugins.no_tool": "it is no tool, or its name is taken or none that providers accept",
    "plugins.shadowed": "a built-in command has this name and wins; the package has to choose another",
    "plugins.slow": "Still loading {name} of the package {package}; if that does not end, uninstall it.",
    "session.about": "No session has the id {words}. Sessions in which it occurs; /resume takes one's id:",
    "session.already": "Session {id} is the current one.",
    "session.missing": "There is no session {id}; /sessions lists those of this folder.",
    "session.new": "New session {id}.",
    "session.no_snapshot": (
        "The snapshot of this session could not be written ({reason}); its record is complete all the same."
    ),
    "session.no_other": "There is no other session in this folder.",
    "session.none": "There are no sessions in this folder yet.",
    "session.resumed": "Resumed {id}: {title} ({turns}).",
    "skills.none": "There are no skills here.",
    "status.context": "{tokens} of {window} tokens ({share} %)",
    "status.guessed": "the window is a guess: provider.models.{model}.context_window sets it",
    "status.label.context": "context",
    "status.label.evidence": "last changes",
    "status.label.folder": "folder",
    "status.label.mcp": "MCP servers",
    "status.label.mode": "mode",
    "status.label.model": "model",
    "status.label.record": "record",
    "status.label.session": "session",
    "status.label.trust": "trust",
    "status.label.cache": "cache",
    "usage.cached": "{turn} of the newest turn's input was cached, {session} of the session's",
    "status.label.used": "used",
    "status.preset": "preset {preset}",
    "status.trusted": "this folder's settings are trusted",
    "status.turns": "{n} turns",
    "status.turns.one": "1 turn",
    "status.untrusted": "some of this folder's settings are ignored until you run `coder trust`",
    "status.used": "{prompt} tokens in, {completion} out, {cached} of those in were cached",
    "todos.none": "The todo list is empty.",
    "trust.done": "The settings of {directory} are trusted:",
    "trust.ignored": (
        "Settings of .coder/config.json that this folder may not give itself are ignored: {keys}. "
        "`coder trust` allows them."
    ),
    "trust.nothing": "There is nothing to trust: this folder's settings ask for nothing special.",
    "trust.prompt": "Trust them? [y/N] ",
    "trust.question": "The settings of {directory} would change what coder may do:",
    "trust.revoked": "The settings of {directory} are no longer trusted.",
    "view.bye": "Session recorded; `coder --resume {id}` continues it.",
    "view.citation": "source: {text}",
    "view.compressed": "(older history summarised: {before} → {after} tokens)",
    "view.shortened": "(older outputs shortened: {before} → {after} tokens)",
    "view.files": "{n} files: {names}",
    "view.times": "{n} times: {names}",
    "view.home": "This is your home folder: all of it is the workspace. Start in a project instead.",
    "view.hint": "/help: commands and keys",
    "view.hidden": "… {n} lines not shown …",
    "view.loop": "The model repeats itself: {reason}",
    "view.restarted": "(the answer was restarted; ignore the text above)",
    "view.session": "session {id}",
    "view.then_enter": ", then Enter: ",
    "view.verify.failed": "✗ verify: {command} failed (exit {code}, attempt {attempt})",
    "view.verify.gave_up": "verify: {command}",
    "view.verify.passed": "✓ verify: {command} passed",
    "view.verify.skipped": "not verified",
    "view.verify.started": "verify: {command} …",
    "stopped.approval": "the question about {tool} (which was not run)",
    "stopped.compaction": "summarising older history",
    "stopped.hook": "a hook",
    "stopped.model": "the model's answer",
    "stopped.packages": "packages being loaded",
    "stopped.question": "a question",
    "stopped.servers": "the start of MCP servers",
    "stopped.verify": "verification ({command})",
    "turn.cancelled": "Cancelled: {what} was stopped.",
    "turn.cancelled_idle": "Cancelled.",
    "turn.cut_off": "The answer is not whole: the model's output limit cut it off (continued {n}×).",
    "turn.call_not_run": "A call of {tool} stands in the text of the answer. It was not run.",
    "turn.filtered": "The provider's content filter stopped the answer at its start. Ask in other words.",
    "turn.filtered_part": "The answer is not whole: the provider's content filter stopped it.",
    "turn.nothing": "The model answered with nothing ({n}×). Ask again, or choose another model.",
    "budget.near": "{spent} of {limit} USD of the budget are spent.",
    "budget.no_price": "The budget cannot be kept: budget.prices has no price for {model}.",
    "budget.reached": (
        "The next request would pass the budget: {spent} of {limit} USD are spent. /budget AMOUNT raises it."
    ),
    "guard.loop": "The model went in circles ({finding}), so the turn was ended.",
    "guard.loop_question": (
        "The model repeats itself: {finding}. Go on? (always: do not check again in this session)"
    ),
    "routing.chosen": "model for this prompt: {model}",
    "routing.fallback": "{old} cannot answer ({reason}) {new} takes over for this prompt.",
    # policy: the sandbox
    "sandbox.first_none": "No sandbox works here ({reason}): commands of the model can do whatever you can.",
    "sandbox.first_use": "Commands of the model run in a sandbox: {level}",
    "sandbox.level.bwrap": (
        "bubblewrap: writes only in the workspace and a temporary folder of its own; no secrets of "
        "your home; "
        "no process outlives its command or, as a background job, the session"
    ),
    "sandbox.level.landlock": (
        "Landlock: writes only in the workspace and temporary folders; no secrets of your home. It "
        "does not stop "
        "changes of permissions and times of your other files"
    ),
    "sandbox.level.seatbelt": (
        "Seatbelt (sandbox-exec): writes only in the workspace and temporary folders; no secrets of your "
        "home; no Unix sockets. A process that leaves its command's group outlives it, in the sandbox"
    ),
    "sandbox.level.none": (
        "none ({reason}): commands can do whatever you can, and only coder's analysis of "
        "shell lines limits what runs unasked"
    ),
    "sandbox.outside.above": "{path} contains the home directory, which no sandboxed command may change.",
    "sandbox.outside.directory": (
        "{path} is in a directory that no sandboxed command may change, so it cannot be removed or moved."
    ),
    "sandbox.outside.path": "{path} is on PATH, where no sandboxed command may write.",
    "sandbox.outside.secret": "{path} is a place for secrets, which no sandboxed command may write.",
    "sandbox.outside.starts": "Programs read {path} when they start, so no sandboxed command may write it.",
    "sandbox.outside.system": "{path} belongs to the system, where no sandboxed command may write.",
    "sandbox.note.bypassed": (
        "A program tried to connect to {addresses} without the proxy. Commands reach the network only by the "
        "proxy in HTTPS_PROXY (sandbox.network); true instead of a list opens all of it."
    ),
    "sandbox.note.check": (
        "A check that runs unasked reaches no network but what sandbox.network.allow lists, such as "
        "localhost:5432."
    ),
    "sandbox.note.limited": (
        "Commands reach the network only by the proxy in HTTPS_PROXY, and of this machine only listed ports: "
        "sandbox.network.allow lists hosts."
    ),
    "sandbox.note.locked": (
        "Commands may not write {path}: it controls git or coder. The person can, with `!`."
    ),
    "sandbox.note.network": "The network is off for commands here (sandbox.network).",
    "sandbox.note.reading": (
        "Nothing but $TMPDIR can be written where this ran, and there is no network and no socket."
    ),
    "sandbox.note.secret": "Commands may not read {path}.",
    "sandbox.note.write": (
        "Commands may not write {path}, only the workspace and $TMPDIR. A setting of the person "
        "opens a directory: sandbox.writable: {directory}."
    ),
    "sandbox.off": (
        "off, as configured: commands can do whatever you can, and only coder's "
        "analysis of shell lines limits what runs unasked"
    ),
    "sandbox.required": "The sandbox is required (sandbox.mode) and there is none here: {reason}",
    # policy: secrets
    "budget.bad": "{text} is not an amount; say for example /budget 2.00, or /budget off.",
    "budget.not_set": "Not set: there is no price for {models} in budget.prices, so nothing can be counted.",
    "budget.listed": "By list prices of {month}; budget.prices overrides them.",
    "budget.none": "{spent} USD spent, no budget set.",
    "budget.unpriced": "{spent} USD spent, not counting {models} (no price in budget.prices). No budget set.",
    "budget.state": "{spent} of {limit} USD spent.",
    "loop.bad": "{text} is neither on nor off.",
    "loop.off": "The loop guard is off for this session.",
    "loop.on": "The loop guard is on.",
    "status.label.budget": "budget",
    # context: skills and memory
    "memory.added": "Remembered: {fact} ({path})",
    "memory.forgotten": "Forgotten: {fact}",
    "memory.home": "About you",
    "memory.known": "Already remembered: {fact}",
    "memory.missing": "There is no fact {number}; /memory shows them with their numbers.",
    "memory.none": "Nothing is remembered yet. Facts are kept in {project} and {home}.",
    "memory.not_saved": "Not remembered: {reason}.",
    "memory.project": "About this project",
    "memory.usage": "Usage: /memory, /memory add [--home] FACT, /memory forget N",
    "skills.broken": "{n} skills are broken and not used:",
    "skills.broken.one": "1 skill is broken and not used:",
    "skills.origin.built-in": "built in",
    "skills.origin.home": "home",
    "skills.origin.paths": "skills.paths",
    "skills.origin.project": "project",
    # terminal: the interactive prompt
    "first.demo": "To look around first (needs no model):",
    "first.keep": (
        "An export ends with the terminal: to keep it, put it into your shell's profile, or set `provider` "
        "in ~/.coder/config.json."
    ),
    "first.offer": "{name} seems to be running at {url}. Use it? [y/N] ",
    "first.way_key": "a provider's key, put in place of the dots ({keys} and others work too)",
    "first.way_local": "fetches a small model once and runs it on this machine",
    "first.way_server": "a server of your own (Ollama, llama.cpp, vLLM, …)",
    "first.welcome": "Welcome to coder. First give it a model:",
    "terminal.answer_always": "always allowed",
    "terminal.answer_edits": "→ allowed, and all edits from now on (auto-edit: tests run after them)",
    "terminal.question_after_typing": "A question is waiting: it appears once you stop typing.",
    "terminal.no_pager": "No pager found: install less, or set PAGER.",
    "terminal.steered": "with the next step: {text}",
    "terminal.answer_because": "refused: {reason}",
    "terminal.answer_no": "refused",
    "terminal.answer_yes": "allowed",
    "terminal.context": "context: {tokens} tokens · model: {model}",
    "terminal.effort": "effort: {effort}",
    "terminal.spent_of": "{spent} of {limit} USD",
    "terminal.copied": "Copied {n} characters to the clipboard.",
    "terminal.copy_nothing": "No answer to copy yet.",
    "terminal.copy_too_long": "The answer is too long for the terminal's clipboard.",
    "terminal.pager_hint": "q goes back",
    "terminal.leave_hint": "Press Ctrl+C again to leave.",
    "terminal.mode_runs_other": "{command} runs that one",
    "terminal.paged": "({n} lines of differences, shown in the pager)",
    "terminal.pasted": "[pasted {n} lines]",
    "terminal.pasted.one": "[pasted 1 line]",
    "terminal.menu_more": "… {n} more: type a name, or go down",
    "terminal.menu_more.one": "… 1 more: type a name, or go down",
    "terminal.queued": "queued (Up takes it back): {text}",
    "terminal.search": "I-search: ",
    "terminal.search_back": "I-search backward: ",
    "terminal.theme": "Theme: {name} (available: {names}).",
    "terminal.theme_unknown": "Unknown theme {name}. Choose one of: {names}.",
    "terminal.vim_off": "vim keys are off.",
    "terminal.vim_on": "vim keys are on.",
    # context: @ commands
    "attach.binary": "@{name} is not text and was left out.",
    "attach.cut": "@{name} is long: its first {limit} bytes were put in.",
    "attach.full": "@{name} was left out: the message is full.",
    "attach.ignored": "@{name} is ignored by .gitignore and was left out.",
    "attach.left_out": "@{name}: {n} more files were left out.",
    "attach.left_out.one": "@{name}: 1 more file was left out.",
    "attach.missing": "@{name}: there is no such file.",
    "attach.nothing": "@{name}: no files there.",
    "attach.closed": "@{name} is closed to the model (secrets, or coder's records) and was left out.",
    "attach.outside": "@{name} is outside the workspace and was left out: only images are taken from there.",
    "attach.unreadable": "@{name} cannot be read: {why}.",
    # record: undo of commands, redo
    "redo.conflict": (
        "Turn {turn} was not redone, because these files have changed since:\n{files}\n/redo force "
        "replaces them anyway (a copy is kept)."
    ),
    "redo.done": "Redid the file changes of turn {turn}:",
    "redo.nothing": "There is nothing to redo.",
    "shell_undo.git": "This command changed git's own state (commits, branches, stashes): /undo leaves that.",
    "shell_undo.partial": (
        "/undo may not cover all changes of commands here: the folder has too many files, or the home cannot "
        "be written."
    ),
    "shell_undo.uncovered": "/undo cannot undo this command's changes of: {files}",
    "sandbox.untried": "the strongest backend of this machine; probed with the first command",
    "status.label.sandbox": "sandbox",
    "status.label.secrets": "secrets replaced",
    "status.nothing_to_trust": "nothing here needs it",
    "permissions.no_tool": "permission.tools names unknown tools: {names}. /tools lists them.",
    # terminal: the REPL
    "view.cancelled": "cancelled",
    "diff.more.one": "… and 1 more new file",
    "first.chosen": "For this session. To keep it: export CODER_BASE_URL={url}",
    "recap.more": "… ({n} more lines)",
    "recap.more.one": "… (1 more line)",
    "recap.cancelled": "(cancelled)",
    "recap.error": "(ended with an error)",
    "recap.interrupted": "(cut off)",
    "recap.max_steps": "(step limit reached)",
    "recap.not_again": "(not shown again)",
    "recap.prompt_limit": "(prompt too long)",
    "terminal.call_approval": "a question is waiting",
    "terminal.call_done": "done",
    "terminal.copied.one": "Copied 1 character to the clipboard.",
    "terminal.paged.one": "(1 line of differences, shown in the pager)",
    "command.waits": "{name} is not answered while a turn runs: send it as an input, to wait for its end.",
    "command.no_arguments": "/{name} takes no arguments; nothing was done.",
    "view.rest_of_file": "… {n} more lines ({key}: all of it)",
    "view.rest_of_file.one": "… 1 more line ({key}: all of it)",
    "view.retry": "failed {n} times",
    "view.retry.one": "failed once",
    "view.hidden.one": "… 1 line not shown …",
    # engine: long conversations
    "compact.empty": "the model wrote nothing",
    "compact.unchanged": (
        "No summary could be made ({reason}): the conversation is as it was. /compact tries again."
    ),
    "compact.shortened": (
        "No summary could be made ({reason}): older outputs were shortened, all else is as it was. /compact "
        "tries again."
    ),
    "routing.none": (
        "The model is `auto`, but neither routing.fast nor routing.strong names"
        " one. Set them, or choose with /model."
    ),
    # trust: what changed
    "trust.changed": (
        "The settings of this folder changed since you trusted it, so they are ignored: {changes}. "
        "`coder trust` allows them as they are now."
    ),
    "trust.changed_question": "The settings of {directory} changed since you trusted them:",
    "trust.line_added": "new: {key} = {value}",
    "trust.line_changed": "changed: {key}: {then} → {value}",
    "trust.line_removed": "gone: {key} (was {then})",
    "trust.unchanged": "The settings of {directory} are already trusted and unchanged:",
    "trust.value_unknown": "(not known)",
    # engine: undo, redo, permissions
    "permissions.allowed_head": "commands that run without asking:",
    "permissions.by_always": "by your “always”",
    "permissions.by_file": "by {file}",
    "permissions.configured": "{name} is allowed by {file}: take it out of permission.command_allowlist.",
    "permissions.none_allowed": "Nothing was allowed with “always”.",
    "permissions.not_allowed": "{name} was not allowed with “always”; allowed: {names}.",
    "permissions.revoke_hint": "/permissions revoke NAME asks about one again, revoke all about every one.",
    "permissions.revoke_usage": "Say which: /permissions revoke NAME, one of {names}.",
    "permissions.revoked": "These are asked about again: {names}",
    "redo.failed": "The redo could not be completed: {reason}",
    "redo.merged": "put the change back into {path}, and kept what changed later",
    "redo.removed": "removed {path} again",
    "redo.restored": "redid {path}",
    "redo.usage": "Usage: /redo [N] [force]",
    "sandbox.why.failed": "it says: {line}",
    "sandbox.why.late": "no answer in {seconds} s",
    "sandbox.why.missing": "{name} is not installed",
    "sandbox.why.of": "{backend}: {why}",
    "sandbox.why.place": "no place to try it: {why}",
    "sandbox.why.reads": "it let a command read a secret",
    "sandbox.why.status": "exit status {code}",
    "sandbox.why.system": "there is none for {system} yet",
    "sandbox.why.writes": "it let a command write outside",
    "sandbox.put_back": (
        "This command changed {files}, where git finds programs to run; that has been put back."
    ),
    "sandbox.left": (
        "This command made {files}: git runs what is set there, outside the sandbox, as soon as you call it "
        "there. Look at its config, hooks and the steps of a rebase first."
    ),
    "sandbox.planted": "This command made {files}, from which git would take its settings; it was removed.",
    "sandbox.unlayered": "Commands get caches of their own: no layer can be mounted over {paths}.",
    # terminal: custom modes
    "terminal.bar_edit_keys": "⏎ set · Tab next · empty: the default · Esc cancel",
    "terminal.bar_hint": "↓ edit · {name} off",
    "terminal.bar_keys": "↑↓ mode · ←→ variable · ⏎ edit · Tab form · Space on/off · Esc back",
    "terminal.bar_pick_keys": "↑↓ choose · ⏎ set · ⌫ the default · Esc cancel",
    "terminal.form_keys": "Tab ↑↓ field · ←→ choose · ⌫ default · ⏎ apply · Esc cancel",
    "terminal.bar_edit_keys_narrow": "⏎ set · Tab next · Esc cancel",
    "terminal.bar_keys_narrow": "↑↓ ←→ ⏎ edit · Space on/off · Esc",
    "terminal.bar_pick_keys_narrow": "↑↓ ⏎ set · Esc cancel",
    "terminal.form_keys_narrow": "Tab ↑↓ ←→ · ⏎ apply · Esc cancel",
    "terminal.leftover_hint": "Unused text: Enter sends it as a message, Esc twice clears it.",
    "terminal.mode_default": "default: {value}",
    "terminal.mode_is_default": "(default)",
    "terminal.mode_line": "line {line}: {fault}",
    "terminal.mode_missing": "missing: {names}",
    "terminal.mode_needed": "a value is required",
    "terminal.mode_off": "(off)",
    "terminal.mode_pattern": "must match {pattern}",
    "terminal.mode_shortcuts": "typed as {names}",
    "terminal.mode_switch_off": "switch {name} off",
    "terminal.mode_wait": "wait until this turn has ended",
    "terminal.modes_label": "Mode: ",
    "terminal.type_boolean": "yes or no",
    "terminal.type_enum": "one of a list",
    "terminal.type_number": "a number",
    "terminal.type_path": "a path",
    "terminal.type_text": "text",
    # record: the log, and which session is meant
    "skills.about.create-skill": "write a new skill, or improve one",
    "tokens.unknown": "Unknown tokenizer {name}. Choose one of: {known}.",
    "session.ambiguous": "{n} sessions begin with {id}; the newest: {ids}. Say more of the one you mean.",
    # what the loop guard noticed
    "loop.call": "the same {tool} call with the same result {n} times in a row",
    "loop.cycle": "a cycle of {length} calls ({names}) gone through {n} times",
    "loop.failure": "{what} failed the same way {n} times",
    "loop.words": "the same words over and over",
    # terminal: questions
    "terminal.question_waits": "Leave the modes below to answer.",
    "terminal.yes_or_no": "Answer y for yes; n or Enter alone for no.",
    # engine: status, help, diff
    "diff.no_file": "There is no {path} here.",
    "diff.none_in": "No changes in {path}.",
    "diff.not_kept": "{path}: what it held before was not kept, so its lines cannot be compared",
    "status.modes_trusted": "commands in its modes are trusted",
    "status.modes_untrusted": "commands in its modes are asked about first",
    "demo.live_head": (
        "A tour with a real model, {name}, which runs on this machine:"
        " real tools, a project with a failing test.\n"
    ),
    "demo.mended": "Mended by the model and verified: `{command}` passes now.",
    "demo.not_mended": (
        "Not mended: `{command}` has not passed. The model is a small one: run the tour again, or use a "
        "larger one."
    ),
    "demo.unfetched": "There is no model here yet: `{coder} local` fetches one ({size} MB, once).",
    # engine: rewind, rename
    "rename.done": "This session is now called: {title}",
    "rename.usage": "Usage: /rename NAME",
    "rewind.back": "The conversation is again as it was before the rewind.",
    "rewind.changed": " · {n} files changed",
    "rewind.changed.one": " · 1 file changed",
    "rewind.done": "The conversation is as it was before: {text}",
    "rewind.files_stay": "The files stay as they are.",
    "rewind.jobs": "Still running in the background: {jobs} (/stop ends them)",
    "rewind.list": "/rewind N goes back to before message N, with the files:",
    "rewind.list_conversation": "/rewind N conversation goes back to before message N, and the files stay:",
    "rewind.no_turn": "No message {turn} to go back to. Choose one of: {turns}",
    "rewind.not_covered": "No longer covered by undo, and left as they are (turns {turns}): {files}",
    "rewind.nothing": "No message to go back to.",
    "rewind.redo": "/redo takes the rewind back.",
    "rewind.refused": (
        "Nothing was taken back: these files have been changed since, or others may have changed them:\n"
        "{files}\n/rewind {turn} conversation leaves the files as they are; /rewind {turn} force replaces "
        "them all the same (and keeps a copy)."
    ),
    "rewind.usage": "Usage: /rewind [N] [conversation|force]",
    "rewind.which": "Go back to before which message?",
    # terminal: lists to choose from
    "terminal.pick_message": "⏎ go back, files too · Esc cancel",
    "terminal.pick_message_alone": "⏎ go back, files stay · Esc cancel",
    "terminal.pick_nothing": "nothing found",
    "terminal.pick_search": "search> ",
    "terminal.pick_session": "⏎ resume · Esc cancel",
    "terminal.pick_which_session": "Which session?",
    "terminal.statusline_failed": "statusline: {code}",
    "terminal.vim_normal": "-- NORMAL --",
    "terminal.vim_replace": "-- REPLACE --",
    "terminal.vim_visual": "-- VISUAL --",
}
