"""The engine: sessions, tools, modes, records, undo and checks, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "busy.seconds": "{n}s",
    "busy.minutes": "{m}m {s}s",
    "busy.tokens": "{n} tokens",
    "busy.stops": "esc stops",
    "busy.interrupts": "ctrl+c stops",
    "busy.steers": "{key} steers",
    "busy.do.bash": "running {what}",
    "busy.do.read": "reading {what}",
    "busy.do.list": "listing {what}",
    "busy.do.glob": "looking for {what}",
    "busy.do.grep": "searching for {what}",
    "busy.do.write": "writing {what}",
    "busy.do.edit": "editing {what}",
    "busy.do.patch": "patching {what}",
    "busy.do.fetch": "fetching {what}",
    "busy.do.task": "subagent: {what}",
    "busy.do.job": "job: {what}",
    "busy.do.other": "running {what}",
    "busy.calling": "preparing {tool}",
    "busy.writing_lines": "writing {what}, {n} lines",
    "busy.writing_lines.one": "writing {what}, 1 line",
    "busy.compacting": "compacting the conversation",
    "busy.retrying": "retrying in {n}s",
    "busy.asking_again": "connection broke, asking again",
    "busy.finishing": "finishing",
    "busy.stopping": "stopping …",
    "busy.loading": "loading the model, {percent} %",
    "busy.reading": "the model is reading, {percent} %",
    "busy.waiting": "waiting for the model",
    "busy.thinking": "thinking",
    "busy.writing": "answering",
    # skills that cannot be used
    "context.skill.binary": "It is not a text file.",
    "context.skill.description": "It has no description, so nothing would tell when to use it.",
    "context.skill.head": "It has no frontmatter: the first line must be ---.",
    "context.skill.irregular": "It is not a file.",
    "context.skill.large": "It has {size} bytes; at most {limit} are read.",
    "context.skill.link": "It is a link that leads out of the project.",
    "context.skill.name": "Its name may have letters, digits and hyphens only, at most {limit}.",
    "context.skill.other_name": "Its name is {name}, but its folder is {directory}; they must be the same.",
    "context.skill.unreadable": "It cannot be read: {why}.",
    # files that are read at the start of a session
    "context.file.binary": "{path} is not a text file and is not read.",
    "context.file.cut": "{path} is longer than {limit} bytes; the rest is not read.",
    "context.file.full": "{path} is not read: the files before it fill the {limit} bytes there are.",
    "context.file.irregular": "{path} is not an ordinary file and is not read.",
    "context.file.large": "{path} is larger than {limit} bytes and is not read; remove what no longer holds.",
    "context.file.link": "{path} is a link that leads out of the project and is not read.",
    "context.file.unreadable": "{path} cannot be read: {why}.",
    # the line to the editor
    # /context
    "context.part.assistant": "answers",
    "context.part.environment": "environment",
    "context.part.instructions": "instructions (AGENTS.md, modes)",
    "context.part.memory": "memory",
    "context.part.result": "results of {tool}",
    "context.part.skills": "skills' index",
    "context.part.summary": "summary and action log",
    "context.part.system": "system prompt",
    "context.part.tools": "tool definitions",
    "context.part.user": "messages of the person, notes",
    # facts that are not kept
    "context.memory.empty": "the fact is empty; give one plain sentence",
    "context.memory.link": "{path} is a link that leads elsewhere; it is not written",
    "context.memory.long": (
        "the fact has {length} characters; keep it to one sentence of at most {limit}, and put longer text "
        "into AGENTS.md or a skill"
    ),
    "context.memory.secret": (
        "this looks like a password or key; the memory file is plain text and sent with every session. "
        "Remember where the secret is kept, not the secret"
    ),
    "context.memory.unwritable": "{path} cannot be written: {why}",
    "hooks.asks": "A hook asks for your approval: {reason}",
    "hooks.bad_matcher": "its matcher is no regular expression, so it is run for every tool",
    "hooks.compaction_blocked": "a hook blocked it: {reason}",
    "hooks.failed": "The hook `{command}` ({event}) gave no answer and was passed over: {why}",
    "hooks.last_run": "last run {at}, {outcome}, {ms} ms",
    "hooks.never_run": "not run yet",
    "hooks.none": "There are no hooks. They are the section `hooks` of {file}; docs/hooks.md shows some.",
    "hooks.prompt_blocked": "A hook did not let the message through: {reason}",
    "hooks.refused": "refused by a hook: {reason}",
    "hooks.stopped": "A hook stopped the turn: {reason}",
    "hooks.untrusted": "not run: this project is not trusted (`coder trust`)",
    "image.broken": "{name} is truncated or damaged: it is no whole image.",
    "image.dropped": "The oldest images are left out of the request: it has room for {megabytes} MB of them.",
    "image.needs_pillow": "{name} must be made smaller or converted before a model can see it; "
    "{line} brings what that takes.",
    "image.not_one": "{name} is no image that a model can be shown (PNG, JPEG, GIF, WebP or BMP).",
    "image.not_sent": "{model} cannot see images: not sent: {names}.",
    "image.older_not_sent": "{model} cannot see images: those of this conversation are not sent to it.",
    "image.refused": "{model} refused a request with images, which is repeated without them: {reason}",
    "image.too_large": "{name} is larger than {limit}.",
    "image.too_many": "{name} was left out: a message carries at most {count} images, "
    "of {megabytes} MB together.",
    "image.too_many_pixels": "{name} has {width}×{height} pixels, more than can be taken in.",
    "image.unknown": "Whether {model} sees images is not known: they are sent. "
    "If it does not, set images to false for it in provider.models.",
    "job.count": "{n} jobs",
    "job.count.one": "1 job",
    "job.ended": "Job {id} ended with exit code {code}: {command}",
    "job.ended_with_session": "Ended with the session: job {jobs}.",
    "job.gone": "Background jobs ended with the earlier process: {jobs}.",
    "job.has_ended": "ended, exit {code}, after {time}",
    "job.no_such": "There is no job {id}; running: {ids}.",
    "job.none": "There are no background jobs in this session.",
    "job.none_running": "No background job is running.",
    "job.runs": "running {time}",
    "job.still_running": "Still running in the background: job {jobs}. /stop ends it.",
    "job.stopped": "Stopped: job {jobs}.",
    "job.uncovered": "/undo does not cover what a background job changes after its start.",
    "job.was_stopped": "stopped after {time}",
    # starting and reaching a server
    "mcp.no_program": "The MCP server {name} cannot be started: no program {program}. Check its command.",
    "mcp.no_start": "The MCP server {name} cannot be started ({program}): {why}.",
    "mcp.refused": "The MCP server {name} says no: {why}.",
    "mcp.slow": "The MCP server {name} did not answer within {seconds} s{said}",
    "mcp.version": "The MCP server {name} speaks only version {theirs} of the protocol; known here: {ours}.",
    # a server that has gone
    "mcp.cut_off": "The MCP server {name} ended its answer before the result came; try again.",
    "mcp.denied": "The MCP server {name} ({address}) refuses us ({status}); check `headers` in its settings.",
    "mcp.elsewhere": "The MCP server {name} wants posts to another origin than its url's; that is not done.",
    "mcp.login": "The MCP server {name} ({address}) wants you to log in: coder mcp login {name}",
    "mcp.oauth": "The login at the MCP server {name} failed: {why}.",
    "mcp.oauth_client": "The MCP server {name} registers no programs by itself: register one with it, for "
    "the redirect http://127.0.0.1/callback, and set its id as mcp.servers.{name}.client_id.",
    "mcp.oauth_late": "Nobody logged in at the MCP server {name} within {seconds} s; try again: coder mcp "
    "login {name}",
    "mcp.session_lost": "The MCP server {name} forgets its sessions as they begin; it cannot be used.",
    "mcp.status": "{address} answers with HTTP status {status}",
    "mcp.unreachable": "The MCP server {name} cannot be reached: {why}. Check its url.",
    "mcp.closed": "The connection to the MCP server {name} is closed.",
    "mcp.died": "The MCP server {name} has ended (exit status {status}){said}",
    "mcp.hung_up": "The MCP server {name} stopped talking and was ended{said}",
    "mcp.said": "; it said: {words}",
    "mcp.said_nothing": " without a word on its stderr.",
    # its tools
    "mcp.endless_list": "The MCP server {name} lists its tools without an end; it cannot be used.",
    "mcp.invalid": "The MCP server {name} gave an answer that is none.",
    "mcp.invalid_list": "The MCP server {name} gave a list of tools that is none.",
    "mcp.slow_list": "The MCP server {name} did not list its tools within {seconds} s.",
    # a call
    "mcp.call_refused": "The MCP server {name} refuses the call of {tool}: {why}",
    "mcp.invalid_result": "The MCP server {name} gave a result of {tool} that does not follow the protocol.",
    "mcp.long_message": "The MCP server {name} sent a message of over {limit} MB; ask for less at a time.",
    "mcp.slow_call": "{tool} of the MCP server {name} did not answer within {seconds} s and was cancelled.",
    "mcp.wants_input": (
        "{tool} of the MCP server {name} wants an answer from a person, which this client cannot give; "
        "call it with all that it needs, or do without it."
    ),
    "modes.a_pattern": "a regular expression ({why})",
    "modes.a_shortcut": "words without spaces or quotes, such as -t or ticket=",
    "modes.a_structure": "a list or mapping",
    "modes.a_text": "a text",
    "modes.a_variable_list": "a list of variables, each with a name",
    "modes.a_variable_name": "a name of letters, digits, _ and - that begins with a letter or _",
    "modes.allowed_list": "allowed are {allowed}",
    "modes.allowed_type": "a value of type {type} is needed",
    "modes.attributes": "attributes ({allowed})",
    "modes.bad_name": "{name} is no name for a mode. Use letters, digits, _ and -, with : between folders.",
    "modes.block_long": (
        "{mode} would make the instructions of all modes {length} characters long; {limit} are "
        "allowed. Switch another mode off first."
    ),
    "modes.braces": (
        "{found} holds no variable name. Write {{{{name}}}}, or \\{{{{ for the braces themselves."
    ),
    "modes.built_in_flag": "{name} is a command; the custom mode of that name is {command}.",
    "modes.command_again": (
        "{mode}: the value of {name} cannot be used in a command with `{construct}`, where the "
        "shell would read it again. Use the variable as a plain argument."
    ),
    "modes.command_failed": "{mode}: `{command}` failed: {why}",
    "modes.command_lines": "{mode}: the value of {name} has line breaks, which a command cannot take.",
    "modes.command_option": "{mode}: the value of {name} is {value}; a command would read it as an option.",
    "modes.command_refused": "{mode}: `{command}` was not run: {why}",
    "modes.commands_many": "{mode} runs more than {limit} commands.",
    "modes.created": (
        "Made {path}. Edit it, then type {command} in a session (/modes reload in one that runs)."
    ),
    "modes.default_wrong": "The default of {name} is not valid: {why}.",
    "modes.enum_empty": "The variable {name} is of type enum but lists no values; add enum: [a, b].",
    "modes.field_wrong": "`{name}` is {found}; allowed is {allowed}.",
    "modes.file_exists": "{path} exists already and was left as it is.",
    "modes.files_many": "{mode} names more than {limit} files.",
    "modes.header_alias": "The frontmatter uses *{name}, which is not defined before it.",
    "modes.header_deep": "The frontmatter is nested more than {limit} levels deep.",
    "modes.header_documents": "The frontmatter holds more than one YAML document.",
    "modes.header_key": "A field of the frontmatter has no simple name.",
    "modes.header_long": "The frontmatter is longer than {limit} characters.",
    "modes.header_no_fields": "The frontmatter must be fields of the form name: value.",
    "modes.header_open": "The frontmatter is not closed: a line --- must end it.",
    "modes.header_twice": "`{name}` is given twice.",
    "modes.header_yaml": "The frontmatter is no valid YAML: {why}.",
    "modes.import_done": "{source} → {target}",
    "modes.import_exists": "{source}: kept what is there already ({target})",
    "modes.import_failed": "{source}: {why}",
    "modes.import_none": "There are no .md files to import in {directory}. --from DIR names another folder.",
    "modes.import_outside": "the target leads out of {directory}",
    "modes.import_summary": "{done} imported, {kept} kept, {failed} failed.",
    "modes.instant_as_flag": (
        '{mode} is run once, not switched on; give it as the message: coder --once "{mode} …".'
    ),
    "modes.kind_instant": "instant",
    "modes.kind_persistent": "persistent",
    "modes.kind_prompt": "saved prompt",
    "modes.leftover": "Not part of the mode, and not sent: {text}",
    "modes.leftover_flag": "--mode takes a mode and its values only; left over: {text}",
    "modes.list_none": (
        "There are no custom modes here. They are Markdown files in .coder/modes of this folder or in "
        "{home}/modes; `coder modes new NAME` makes one."
    ),
    "modes.nearest": "The nearest are {near}.",
    "modes.no_file": "It is not a regular file.",
    "modes.no_utf8": "The file is not UTF-8 text.",
    "modes.none": "none",
    "modes.not_instant": "{mode} is a persistent mode: it is switched on, not run once.",
    "modes.not_made": "{path} could not be made: {why}",
    "modes.not_on": "{mode} is not on.",
    "modes.not_persistent": "{mode} is an instant mode: it is run once, not switched on.",
    "modes.off": "Mode off: {mode}",
    "modes.on": "Mode on: {mode}",
    "modes.one_of": "one of {allowed}",
    "modes.path_refused": "{mode}: @{path} cannot be read: {why}",
    "modes.quote_open": "A quote is not closed: {rest}",
    "modes.reloaded": "Read again: {n} modes and saved prompts; on: {on}.",
    "modes.reloaded.one": "Read again: one mode or saved prompt; on: {on}.",
    "modes.rendered_empty": "{mode} renders to nothing with these values, so nothing was sent.",
    "modes.renders_nothing": "(it renders to nothing)",
    "modes.rest_twice": "The variable {name} has rest: true as well; only one can take the rest of the line.",
    "modes.see_list": "`coder modes` lists them.",
    "modes.shortcut_bare": "{shortcut} needs a value for {name}.",
    "modes.stale": "The request has revision {rev}, but {newest} was already done; nothing was changed.",
    "modes.state_broken": "broken",
    "modes.state_default": "on by default",
    "modes.state_off": "off",
    "modes.state_shadowed": "shadowed by {scope}",
    "modes.state_typed": "typed as {command}",
    "modes.too_big": "The file has {size} bytes; a mode may have {limit}.",
    "modes.true_or_false": "true or false",
    "modes.trust_question": (
        "The mode {mode} of this project wants to run `{command}`. Let it? (always: trust this "
        "project's modes)"
    ),
    "modes.undeclared": "{mode} uses {{{{{name}}}}}, which it does not declare; declared: {declared}.",
    "modes.unknown": "There is no mode {mode}. {hint}",
    "modes.unknown_variable": "{mode} has no variable {name}; it has: {declared}.",
    "modes.unreadable": "The file cannot be read: {why}.",
    "modes.untrusted": "this project's modes may run nothing until you trust it (`coder trust`)",
    "modes.usage": "Say /modes to list them, /modes off NAME, /modes show NAME VALUES… or /modes reload.",
    "modes.value_boolean": "{value} is not true or false",
    "modes.value_enum": "{value} is not allowed; allowed are {allowed}",
    "modes.value_long": "the value is longer than {limit} characters",
    "modes.value_nul": "the value has a NUL character in it",
    "modes.value_number": "{value} is not a number",
    "modes.value_path": "{value} is not a path",
    "modes.value_pattern": "{value} does not match {pattern}",
    "modes.value_slow": (
        "this value takes too long to match against {pattern}; the mode needs a simpler pattern"
    ),
    "modes.variable_invalid": "{mode}: {name}: {why}.",
    "modes.variable_missing": "{mode}: {name} is missing: {why}.",
    "modes.variable_twice": "The variable {name} is declared twice.",
    "modes.variable_unnamed": "A variable has no name.",
    "modes.variables_many": "There are more than {limit} variables.",
    "modes.warn_allowed_tools": "allowed_tools is reserved and restricts nothing yet",
    "modes.warn_cut": "{mode} was cut to {limit} characters",
    "modes.warn_file_cut": "{mode}: @{path} was cut to {limit} characters",
    "modes.warn_instant_default": "default_enabled has no meaning for an instant mode",
    "modes.warn_local_model": "a project's mode cannot choose a model file (local:…); its model is ignored",
    "modes.warn_no_file": "{mode}: there is no file {path}; @{path} stays as it is",
    "modes.warn_output_cut": "{mode}: the output of `{command}` was cut to {limit} characters",
    "modes.warn_shortcut": "the shortcut {shortcut} of {name} belongs to {other} already",
    "modes.warn_unknown": "line {line}: `{name}` is not known here and is ignored; known are {allowed}",
    "record.full": "the disk is full",
    "record.in_use": (
        "Session {id} is open in another process: leave it there first. If Ctrl+Z stopped it in this "
        "terminal, `fg` brings it back."
    ),
    "record.leads_out": (
        "The session's record is not written: {directory} leads out of this folder by a link, to {real}. "
        "Remove the link, or name a folder with --log-dir."
    ),
    "record.no_folder": (
        "Cannot record the session in {directory}: {why}. Choose another folder with --log-dir."
    ),
    "record.no_history": "The history {path} cannot be written: {why}.",
    "record.not_written": (
        "The session's record {path} cannot be written: {why}. What was recorded before is safe."
    ),
    # whose a record is
    "record.accepted": "Session {id} ({title}) counts as yours from now on.",
    "record.foreign": (
        "The newest session, {id}, was not recorded by you with this coder home: it may have come with the "
        "project. If you mean it, name it with --resume {id}; if it is yours: coder trust --session {id}"
    ),
    "record.foreign_about": (
        "Session {id} ({title}) was not recorded by you with this coder home: it may have come with the "
        "project, or be older than the seal that tells."
    ),
    "record.foreign_ask": "Believe what it says, and go on with it?",
    "record.foreign_prompt": "Believe what it says, and go on with it? [y/N] ",
    "record.left_alone": "Session {id} is left as it is.",
    "record.no_key": "The key that seals your records cannot be kept in {directory}: {why}.",
    "record.words_only": (
        "Session {id} was not recorded by you with this coder home: what was said in it is taken up, its "
        "system message and what it was waiting for are not. If it is yours: coder trust --session {id}"
    ),
    "record.yours_already": "Session {id} is yours already.",
    "record.review_conflict": (
        "Nothing was taken back, because these files have changed since in the same places:\n{files}"
    ),
    "record.review_kept": "All parts are kept.",
    "record.review_needs_person": (
        "Nothing was changed: keeping or taking back parts needs a terminal where a person can be asked."
    ),
    "record.review_question": (
        "These changes are made already: yes keeps them, no takes all of them back (/redo does them again)."
    ),
    "record.review_redo": "Did the parts that were taken back again:",
    "record.sink_failed": (
        "The history sink {sink} failed ({why}) and may lack events; the record itself is complete."
    ),
    "record.review_undo": "Took back these parts; /redo does them again:",
    "tool.about.bash": "run a shell command in the workspace",
    "tool.about.edit": "replace a piece of text in a file",
    "tool.about.fetch": "get a web page or file as text",
    "tool.about.glob": "find files by name",
    "tool.about.grep": "search in files",
    "tool.about.job": "look at, wait for or stop a background job",
    "tool.about.list": "what is in a folder",
    "tool.about.patch": "change several files at once, all or none",
    "tool.about.read": "a file's lines, with their numbers",
    "tool.about.save_memory": "remember a fact for later sessions",
    "tool.about.skill": "list skills, or load one",
    "tool.about.task": "hand a piece of work to a subagent",
    "tool.about.todoread": "look at the todo list",
    "tool.about.todowrite": "replace the todo list",
    "tool.about.write": "create or replace a file",
    "tool.bad_pattern": "invalid pattern: {why}",
    "tool.binary": "binary file, {size}",
    "tool.blind": "an image, and the model cannot see images",
    "tool.image": "image: {about}",
    "tool.changed_since": "{path} changed on disk",
    "tool.created": "created {path} (+{added} -{deleted})",
    "tool.deleted": "deleted {path} (+{added} -{deleted})",
    "tool.empty_command": "the command is empty",
    "tool.empty_file": "empty file",
    "tool.entries": "{n} entries",
    "tool.entries.one": "{n} entry",
    "tool.exit": "exit {code}",
    "tool.exit_late": "exit {code} (time-out)",
    "tool.failed": "{why}",
    "tool.fetched": "HTTP {status}, {n} characters",
    "tool.files": "{n} files",
    "tool.files.one": "{n} file",
    "tool.is_file": "{path} is a file, not a folder",
    "tool.job_ended": "job {id} has ended (exit {code})",
    "tool.job_runs": "job {id} is running",
    "tool.job_started": "runs in the background as job {id}",
    "tool.jobs": "{n} jobs running",
    "tool.jobs.one": "{n} job running",
    "tool.known": "already remembered",
    "tool.all_lines": "{n} lines",
    "tool.all_lines.one": "1 line",
    "tool.lines": "lines {first}-{last}",
    "tool.lines_of": "lines {first}-{last} of {total}",
    "tool.many_places": "{n} matches",
    "tool.match_count": "{n} matches",
    "tool.match_count.one": "{n} match",
    "tool.matches": "{count} in {files}",
    "tool.missing": "{path} does not exist",
    "tool.moved": "moved {source} to {path} (+{added} -{deleted})",
    "tool.no_match": "no such text in it",
    "tool.no_skill": "no skill {name}",
    "tool.patch_dry": "dry run: {n} files (+{added} -{deleted})",
    "tool.patch_dry.one": "dry run: {n} file (+{added} -{deleted})",
    "tool.patch_misfit": "the patch does not fit",
    "tool.patch_unread": "unreadable patch",
    "tool.patched": "{n} files (+{added} -{deleted})",
    "tool.patched.one": "{n} file (+{added} -{deleted})",
    "tool.path_refused": "{path} may not be touched",
    "tool.remembered": "remembered in {path}",
    "tool.skill_loaded": "loaded {name} ({lines} lines)",
    "tool.skill_unnamed": "load needs a name",
    "tool.skills": "{n} skills",
    "tool.skills.one": "{n} skill",
    "tool.mcp_done": "{n} characters",
    "tool.mcp_done.one": "{n} character",
    "tool.mcp_found": "{n} tools",
    "tool.mcp_found.one": "1 tool",
    "tool.mcp_failed": "the server says it failed",
    "tool.task_done": "{n} steps, {tokens} tokens",
    "tool.task_done.one": "{n} step, {tokens} tokens",
    "tool.task_failed": "the subagent did not finish: {why}",
    "tool.todos": "{n} todos",
    "tool.todos.one": "{n} todo",
    "tool.todos_done": "{done} of {all} done",
    "tool.unchanged": "unchanged {path}",
    "tool.unreachable": "{path} cannot be reached: {why}",
    "tool.unread": "exists and was not read",
    "tool.unseen": "was not read whole",
    "tool.updated": "updated {path} (+{added} -{deleted})",
    "undo.caches": "… and {n} cache files",
    "undo.caches.one": "… and 1 cache file",
    "undo.conflict": (
        "Turn {turn} was not undone, because these files have changed since:\n{files}\n{again} force "
        "replaces them all the same (a copy is kept)."
    ),
    "undo.copy": "your version is kept in {path}",
    "undo.cut_off": ("What these commands had done when the session was cut off is not covered: {commands}"),
    "undo.done": "Undid the file changes of turn {turn}:",
    "undo.doubtful": (
        "Turn {turn} was not undone, because these changes may not be its own:\n{files}\n{again} force "
        "takes them back all the same (a copy is kept)."
    ),
    "undo.failed": "The undo could not be completed: {reason}",
    "undo.force_rest": "{again} force takes back what was left, too (a copy is kept).",
    "undo.kept": "kept {path}: something else is in it by now",
    "undo.merged": "took the change out of {path}, and kept what changed later",
    "undo.more": "… and {n} more",
    "undo.no_change": "no file had to be changed",
    "undo.no_turn": "Turn {turn} has no file changes that could be taken back. Turns that have: {turns}",
    "undo.nothing": "There is nothing to undo in this session.",
    "undo.nothing_left": "Of the file changes of turn {turn} nothing is left to take back.",
    "undo.own_commands": "What your own commands did is not covered: {commands}",
    "undo.preview": "/undo would take back the file changes of turn {turn}:",
    "undo.redo": "/redo puts these changes back.",
    "undo.removed": "removed {path}",
    "undo.restored": "restored {path}",
    "undo.shared": "left {path}: changed while a command of another session ran",
    "undo.uncovered": "not covered: {path}",
    "undo.unsure": "left {path}: changed after a command was cut off, perhaps by you",
    "undo.usage": "Usage: /undo [N|N..|turn N] [force], /undo show …",
    "undo.would_doubt": (
        "/undo would refuse turn {turn}, because these changes may not be its own:\n{files}\n{again} force "
        "would take them back all the same (and keep a copy)."
    ),
    "undo.would_leave_shared": "leave {path}: changed while a command of another session ran",
    "undo.would_leave_unsure": "leave {path}: changed after a command was cut off, perhaps by you",
    "undo.would_merge": "take the change out of {path}, and keep what changed later",
    "undo.would_not": (
        "/undo would refuse turn {turn}, because these files have changed since:\n{files}\n{again} force "
        "would replace them all the same (and keep a copy)."
    ),
    "undo.would_remove": "remove {path}",
    "undo.would_restore": "restore {path}",
    "verify.also": "also run: {runs}",
    "verify.by_model": "Verified: `{command}` passed after the last edit, run by the model",
    "verify.changed": "{files}",
    "verify.changed_since": "Not verified: changed after `{command}` had passed: {files}",
    "verify.claim": "“{claim}” is only claimed: no test was seen to pass after the last edit",
    "verify.denied": "Not verified: commands may not run here.",
    "verify.documents": "Only documents were changed",
    "verify.environment": (
        "Not verified: `{command}` could not check the code here: {why}. Verification is best-effort: fix "
        "that and run it yourself, or name this project's check in workflow.verify_commands."
    ),
    "verify.environment.denied": "its program is not executable (exit 126)",
    "verify.environment.missing": "its program was not found (exit 127)",
    "verify.environment.modules": "not installed: {names}",
    "verify.environment.no_tests": "no tests were found (exit 5)",
    "verify.environment.printed": "it printed “{line}”",
    "verify.environment.timeout": "it did not end in time",
    "verify.environment.usage": "pytest does not accept how it is called or configured (exit 4)",
    "verify.failed": "Verification failed: `{command}` fails.",
    "verify.failed_then_changed": (
        "Not verified: `{command}` failed, and files were changed after that; run it to see how it is now."
    ),
    "verify.more_files": "{files} and {n} more",
    "verify.not_approved": "Not verified: `{command}` was not approved.",
    "verify.not_listed": (
        "`{command}` is not one of the commands that may verify by themselves, so it was not run and nothing "
        "else in its place. Those are: {listed}. workflow.verify_allow in your configuration adds to them."
    ),
    "verify.own.failed": "Failed after the last edit: `{command}`, run by the model",
    "verify.own.failed_part": "Failed after the last edit: `{command}`, some of the tests, run by the model",
    "verify.own.passed": "Verified: `{command}` passed after the last edit, run by the model",
    "verify.own.passed_part": "Partly verified: `{command}` passed after the last edit, run by the model",
    "verify.own.unclear": "The model ran `{command}` after the last edit; how it ended is not known",
    "verify.own.unclear_part": (
        "The model ran `{command}`, some of the tests, after the last edit; how it ended is not known"
    ),
    "verify.passed": "Verified: `{command}` passed after the last edit",
    "verify.refused": "Not verified: you asked for nothing to be run.",
    "verify.run.failed": "`{command}` (failed)",
    "verify.run.passed": "`{command}` (passed)",
    "verify.run.unclear": "`{command}` (result unknown)",
    "verify.since.before": "The same failed before this turn's first change, so this turn did not cause it.",
    "verify.since.more": "Some of it failed before this turn's first change, some did not.",
    "verify.since.new": "It passed before this turn's first change.",
    "verify.since.unknown": (
        "Whether it failed before this turn's first change is not known: it was not run before that."
    ),
    "verify.skipped": "Not verified: no automatic check applies to this project.",
    "verify.still_failing": "Verification failed: `{command}` still fails after {n} runs. {since}",
    "verify.still_failing.one": "Verification failed: `{command}` fails. {since}",
    "verify.unchecked": "Not checked: no test ran after the last edit",
    "verify.unlisted": "Not verified.",
}
