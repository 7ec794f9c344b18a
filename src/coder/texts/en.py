"""The interface in English: every key of the catalogue. Sections by room, keys sorted within.

Placeholders are `str.format`'s; a literal brace is doubled. `key.one` is the singular of `key`
for `n` = 1 and needs no Chinese counterpart.
"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # config: layers, values, trust, saving, provider
    "config.allowlist_not_saved": "What is always allowed could not be saved to {file}: {why}.",
    "config.bad_header": "{where} holds a character that an HTTP header cannot carry.",
    "config.bad_home": "There is no home folder here; set CODER_HOME to a folder for coder's own files.",
    "config.bad_value": "{where} is {found}; allowed: {allowed}.",
    "config.corrupt_store": "{file} is damaged ({why}) and was taken as empty.",
    "config.expect_address": "an address such as http://127.0.0.1:11434/v1 ({why})",
    "config.expect_bool": "true or false",
    "config.expect_float": "a number",
    "config.expect_float_below": "a number from {low} to below {high}",
    "config.expect_float_between": "a number from {low} to {high}",
    "config.expect_float_from": "a number, {low} or more",
    "config.expect_int": "a whole number",
    "config.expect_int_between": "a whole number from {low} to {high}",
    "config.expect_int_from": "a whole number, {low} or more",
    "config.expect_list": "a list of {items}",
    "config.expect_object": "an object {{…}}",
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
    "config.model_not_saved": "The model could not be saved to {file}: {why}.",
    "config.model_not_saved_link": "it is a link to a file outside the project",
    "config.model_not_saved_shape": "provider is not an object there",
    "config.no_provider": (
        "No model provider is configured. Set an API key ({keys}), or the address of a local server"
        " (CODER_BASE_URL, for example {example}); `coder demo` shows a tour that needs neither."
    ),
    "config.not_utf8": "{file} is not UTF-8 text (byte {byte}); save it as UTF-8.",
    "config.syntax": "{file}:{line}:{column}: {what}.",
    "config.syntax_comment": "the comment that begins here has no end",
    "config.syntax_deep": "nested more than {limit} levels deep",
    "config.syntax_rejected": "a number out of range, NaN or Infinity, or one half of a \\u pair",
    "config.trust_not_saved": "The trust in this folder could not be saved to {file}: {why}.",
    "config.unknown_key": "{file}: unknown key {key}; allowed here: {allowed}.",
    "config.unknown_key_near": "{file}: unknown key {key} (nearest: {nearest}); allowed here: {allowed}.",
    "config.url_host": "no host is named",
    "config.url_port": "the port must be a number from 1 to 65535",
    "config.url_scheme": "it must begin with http:// or https://",
    "config.url_space": "it must not contain spaces or control characters",
    # engine, terminal, command line
    "approval.choices": "Allow? [y]es / [n]o (a reason may follow) / [a]lways: ",
    "approval.choices_once": "Allow? [y]es / [n]o (a reason may follow): ",
    "approval.head": "{tool} needs your approval:",
    "approval.nobody": (
        "{tool} was refused because it needs approval and nobody is there to ask; {flag} would allow it."
    ),
    "approval.nobody_short": "needs approval",
    "approval.reason": "because: {reason}",
    "approval.refused": "refused by you",
    "command.nearest": "Did you mean {names}?",
    "compact.done": "Compacted: {before} → {after} tokens.",
    "compact.failed": "The conversation could not be compacted: {reason}",
    "compact.inflated": (
        "The summary came out longer than what it was to replace, so it was dropped; /compact tries again."
    ),
    "compact.nothing": "There is nothing to compact yet.",
    "demo.foot": (
        "Everything above is recorded: coder show {id} --cwd {folder}\nTo use a model of your own, set "
        "CODER_API_KEY (or CODER_BASE_URL for a local server) and run coder in your project."
    ),
    "demo.head": "A tour: a scripted model, real tools, a project with a failing test in {folder}\n",
    "diff.by_session": "No git repository here. Changed by this session:",
    "diff.failed": "git could not show the difference: {reason}",
    "diff.hint": "/diff full shows every line, /diff PATH those of one file.",
    "diff.more": "… and {n} more new files",
    "diff.none": "No changes.",
    "diff.none_without_git": "No git repository here, and this session has changed no files.",
    "diff.untracked": "new file: {path}",
    "doctor.key": "key set",
    "doctor.missing": "{name} was not found on PATH",
    "doctor.model_unlisted": "{model} is not among the models that the provider lists",
    "doctor.no_key": "no key",
    "doctor.no_rg": "not found; searching falls back to Python, which is slower",
    "doctor.no_sandbox": "none: commands run with your own rights",
    "engine.internal": (
        "Something went wrong inside coder ({error}). The session is recorded; please report this."
    ),
    "engine.internal_kept": (
        "Something went wrong inside coder ({error}). The session is recorded; details for a report "
        "are in {path}."
    ),
    "fork.linear": "Sessions are linear: there is no /fork. /new starts another one.",
    "guard.prompt_limit": (
        "The prompt has {count} tokens and the limit is {limit}. Shorten the message, or /compact."
    ),
    "guard.prompt_warning": "The prompt has {count} tokens; you asked to be warned from {limit} on.",
    "guard.steps": "step limit reached ({limit}); say “continue” to go on, or raise --max-steps.",
    "guard.turns": "This session has had its {limit} turns; /new starts another one.",
    "help.auto-edit": "operating mode auto-edit: edits are made and verified without asking",
    "help.compact": "replace older history by a summary",
    "help.default": "operating mode default: the permission preset as it is",
    "help.diff": "what has changed in the folder",
    "help.exit": "leave",
    "help.fork": "sessions are linear; says so",
    "help.help": "this list",
    "help.keys": (
        "Enter sends; Alt+Enter, Ctrl+J or a trailing \\ makes a new line; Ctrl+D on an empty line "
        "leaves, on text it sends.\nEsc or Ctrl+C stops what is running. !command runs a shell command "
        "of your own."
    ),
    "help.mode": "show or set the operating mode",
    "help.model": "show or set the model (kept in .coder/config.json)",
    "help.modes": "the modes there are",
    "help.new": "start a new session",
    "help.permissions": "show the permission matrix, or set the preset",
    "help.plan": "operating mode plan: look and propose, change nothing",
    "help.resume": "go on with an earlier session; without ID, list them",
    "help.sessions": "the sessions of this folder",
    "help.skills": "the skills there are",
    "help.status": "session, model, tokens, trust",
    "help.todos": "the todo list",
    "help.tools": "the tools the model has",
    "help.undo": "take back the file changes of the last turn that made any",
    "help.yolo": "operating mode yolo: edits and all commands without asking",
    "mode.current": "Operating mode: {mode} (there are {names}).",
    "mode.set": "Operating mode: {mode}",
    "mode.unknown": "There is no operating mode {name}; there are {names}.",
    "model.current": "Model: {model}",
    "model.retry": "{reason} Trying again in {wait} s (attempt {attempt}).",
    "model.set": "Model: {model}",
    "permissions.allowed": "always allowed: {names}",
    "permissions.head": "preset {preset}, operating mode {mode}:",
    "permissions.unknown": "There is no preset {name}; there are {names}.",
    "session.already": "Session {id} is the current one.",
    "session.missing": "There is no session {id}; /sessions lists those of this folder.",
    "session.new": "New session {id}.",
    "session.no_snapshot": (
        "The snapshot of this session could not be written ({reason}); its record is complete all the same."
    ),
    "session.none": "There are no sessions in this folder yet.",
    "session.resumed": "Resumed {id}: {title} ({turns} turns).",
    "skills.none": "There are no skills here.",
    "status.context": "{tokens} of {window} tokens ({share} %)",
    "status.label.context": "context",
    "status.label.folder": "folder",
    "status.label.mode": "mode",
    "status.label.model": "model",
    "status.label.record": "record",
    "status.label.session": "session",
    "status.label.trust": "trust",
    "status.label.used": "used",
    "status.preset": "preset {preset}",
    "status.trusted": "this folder's settings are trusted",
    "status.turns": "{n} turns",
    "status.turns.one": "1 turn",
    "status.untrusted": "this folder's settings grant nothing",
    "status.used": "{prompt} tokens in, {completion} out, {cached} of those in were cached",
    "todos.none": "The todo list is empty.",
    "trust.done": "The settings of {folder} are trusted:",
    "trust.ignored": (
        "Settings of .coder/config.json that this folder may not give itself are ignored: {keys}. "
        "`coder trust` allows them."
    ),
    "trust.nothing": "There is nothing to trust: this folder's settings ask for nothing special.",
    "trust.prompt": "Trust them? [y/N] ",
    "trust.question": "The settings of {folder} would change what coder may do:",
    "trust.revoked": "The settings of {folder} are trusted no longer.",
    "undo.conflict": (
        "Turn {turn} was not undone, because these files have changed since:\n{files}\n/undo force "
        "replaces them all the same (a copy is kept)."
    ),
    "undo.copy": "your version is kept in {path}",
    "undo.done": "Undid the file changes of turn {turn}:",
    "undo.failed": "The undo could not be completed: {reason}",
    "undo.nothing": "There is nothing to undo.",
    "undo.removed": "removed {path}",
    "undo.restored": "restored {path}",
    "verify.environment": (
        "Verification could not run here: `{command}` failed for a reason outside the code. Best "
        "effort only: the change is not verified."
    ),
    "verify.not_listed": (
        "`{command}` is not one of the commands that may verify by themselves, so it was not run."
    ),
    "verify.skipped": "Not verified: no automatic check applies to this project.",
    "verify.still_failing": "`{command}` still fails after {attempts} attempts.",
    "view.bye": "Session {id} is recorded; `coder --resume {id}` goes on with it.",
    "view.citation": "source: {text}",
    "view.compressed": "(older history summarised: {before} → {after} tokens)",
    "view.hidden": "… {n} lines not shown …",
    "view.loop": "The model goes in circles: {reason}",
    "view.restarted": "(the connection broke; the answer starts again)",
    "view.session": "session {id}",
    "view.verify.failed": "✗ verify: {command} failed (exit {code}, attempt {attempt})",
    "view.verify.gave_up": "verify: {command}",
    "view.verify.passed": "✓ verify: {command} passed",
    "view.verify.skipped": "not verified",
    "view.verify.started": "verify: {command} …",
    "stopped.approval": "the question about {tool}",
    "stopped.compaction": "summarising older history",
    "stopped.model": "the model's answer",
    "stopped.verify": "verification ({command})",
    "turn.cancelled": "Cancelled: {what} was stopped.",
    "turn.cancelled_idle": "Cancelled.",
    "budget.near": "{spent} of {limit} USD of the budget are spent.",
    "budget.no_price": "The budget cannot be kept: budget.prices has no price for {model}.",
    "budget.reached": (
        "The next request would pass the budget: {spent} of {limit} USD are spent. /budget AMOUNT raises it."
    ),
    "guard.loop": "The model went in circles ({finding}), so the turn was ended.",
    "guard.loop_question": (
        "The model goes in circles: {finding}. Go on? (always: do not check again in this session)"
    ),
    "routing.chosen": "model for this prompt: {model}",
    "routing.fallback": "{old} cannot answer ({reason}) {new} takes over for this prompt.",
    # policy: the sandbox
    "sandbox.first_use": "Commands of the model run in a sandbox: {level}",
    "sandbox.level.bwrap": (
        "bubblewrap: writes only in the workspace and a temporary folder of its own; no secrets of your home; "
        "no process outlives its command"
    ),
    "sandbox.level.landlock": (
        "Landlock: writes only in the workspace and temporary folders; no secrets of your home. It does not stop "
        "changes of permissions and times of your other files"
    ),
    "sandbox.level.none": "none ({reason}): commands can do whatever you can",
    "sandbox.off": "off, as configured: commands can do whatever you can",
    "sandbox.refused.network": "The sandbox stopped this command: the network is off here.",
    "sandbox.refused.plan": "The sandbox stopped this command: in plan mode nothing in the workspace is written ({path}).",
    "sandbox.refused.secret": "The sandbox stopped this command: {path} may not be read.",
    "sandbox.refused.somewhere": "The sandbox stopped this command: it wrote outside the workspace.",
    "sandbox.refused.write": (
        "The sandbox stopped this command: it may not write {path}. The setting sandbox.writable can name "
        "further folders."
    ),
    "sandbox.required": "The sandbox is required (sandbox.mode) and there is none here: {reason}",
    "sandbox.rerun": "Run it again without the sandbox?",
    # policy: secrets
    "secrets.count": "{n} secrets were replaced by placeholders",
    "secrets.count.one": "one secret was replaced by a placeholder",
    "secrets.none": "no secrets seen",
    "budget.bad": "{text} is not an amount; say for example /budget 2.00, or /budget off.",
    "budget.none": "{spent} USD spent, no budget set.",
    "budget.state": "{spent} of {limit} USD spent.",
    "help.budget": "show or set what this session may cost",
    "help.context": "where the tokens of the context go",
    "help.loop": "switch the loop guard of this session on or off",
    "loop.bad": "{text} is neither on nor off.",
    "loop.off": "The loop guard is off for this session.",
    "loop.on": "The loop guard is on.",
    "status.label.budget": "budget",
    # modes
    "modes.a_pattern": "a regular expression ({why})",
    "modes.a_shortcut": "words without spaces or quotes, such as -t or ticket=",
    "modes.a_structure": "a list or mapping",
    "modes.a_text": "a text",
    "modes.a_variable_list": "a list of variables, each with a name",
    "modes.a_variable_name": "a name of letters, digits, _ and - that begins with a letter or _",
    "modes.allowed_list": "allowed are {allowed}",
    "modes.allowed_type": "a value of type {type} is needed",
    "modes.attributes": "attributes ({allowed})",
    "modes.block_long": (
        "{mode} would make the instructions of all modes {length} characters long; {limit} are "
        "allowed. Switch another mode off first."
    ),
    "modes.braces": (
        "{found} holds no variable name. Write {{{{name}}}}, or \\{{{{ for the braces themselves."
    ),
    "modes.command_again": (
        "{mode}: the value of {name} cannot be used in a command with `{construct}`, where the "
        "shell would read it again. Use the variable as a plain argument."
    ),
    "modes.command_lines": "{mode}: the value of {name} has line breaks, which a command cannot take.",
    "modes.command_option": "{mode}: the value of {name} is {value}; a command would read it as an option.",
    "modes.command_refused": "{mode}: `{command}` was not run: {why}",
    "modes.commands_many": "{mode} runs more than {limit} commands.",
    "modes.default_wrong": "The default of {name} is not valid: {why}.",
    "modes.enum_empty": "The variable {name} is of type enum but lists no values; add enum: [a, b].",
    "modes.field_wrong": "`{name}` is {found}; allowed is {allowed}.",
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
    "modes.import_none": "There is nothing to import: no .md files in {folder}.",
    "modes.import_quoted": "{command} takes its arguments as one variable now: type them in double quotes",
    "modes.import_summary": "{done} imported, {kept} kept, {failed} failed.",
    "modes.kind_instant": "instant",
    "modes.kind_persistent": "persistent",
    "modes.kind_prompt": "saved prompt",
    "modes.list_none": (
        "There are no custom modes here. They are Markdown files in .coder/modes of this folder or of {home}."
    ),
    "modes.nearest": "The nearest are {near}.",
    "modes.no_file": "It is not a regular file.",
    "modes.no_utf8": "The file is not UTF-8 text.",
    "modes.none": "none",
    "modes.not_instant": "{mode} is a persistent mode: it is switched on, not run once.",
    "modes.not_persistent": "{mode} is an instant mode: it is run once, not switched on.",
    "modes.one_of": "one of {allowed}",
    "modes.path_refused": "{mode}: @{path} cannot be read: {why}",
    "modes.quote_open": "A quote is not closed: {rest}",
    "modes.see_list": "`coder modes` lists them.",
    "modes.shortcut_bare": "{shortcut} needs a value for {name}.",
    "modes.stale": "The request has revision {rev}, but {newest} was already done; nothing was changed.",
    "modes.state_broken": "broken",
    "modes.state_default": "on by default",
    "modes.state_off": "off",
    "modes.state_shadowed": "overridden by {scope}",
    "modes.state_typed": "typed as {command}",
    "modes.too_big": "The file has {size} bytes; a mode may have {limit}.",
    "modes.true_or_false": "true or false",
    "modes.undeclared": "{mode} uses {{{{{name}}}}}, which it does not declare; declared: {declared}.",
    "modes.unknown": "There is no mode {mode}. {hint}",
    "modes.unknown_variable": "{mode} has no variable {name}; it has: {declared}.",
    "modes.unreadable": "The file cannot be read: {why}.",
    "modes.value_boolean": "{value} is not true or false",
    "modes.value_enum": "{value} is not allowed; allowed are {allowed}",
    "modes.value_long": "the value is longer than {limit} characters",
    "modes.value_missing": "a value is required; {allowed}",
    "modes.value_nul": "the value has a NUL character in it",
    "modes.value_number": "{value} is not a number",
    "modes.value_path": "{value} is not a path",
    "modes.value_pattern": "{value} does not match {pattern}",
    "modes.variable_invalid": "{mode}: {name}: {why}.",
    "modes.variable_missing": "{mode}: {name} is missing: {why}.",
    "modes.variable_twice": "The variable {name} is declared twice.",
    "modes.variable_unnamed": "A variable has no name.",
    "modes.variables_many": "There are more than {limit} variables.",
    "modes.warn_allowed_tools": "allowed_tools is reserved and restricts nothing yet",
    "modes.warn_cut": "{mode} was cut to {limit} characters",
    "modes.warn_file_cut": "{mode}: @{path} was cut to {limit} characters",
    "modes.warn_instant_default": "default_enabled has no meaning for an instant mode",
    "modes.warn_no_file": "{mode}: there is no file {path}; @{path} stays as it is",
    "modes.warn_output_cut": "{mode}: the output of `{command}` was cut to {limit} characters",
    "modes.warn_shortcut": "the shortcut {shortcut} of {name} belongs to {other} already",
    "modes.warn_unknown": "line {line}: `{name}` is not known here and is ignored; known are {allowed}",
}
