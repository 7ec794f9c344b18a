"""Custom modes and saved prompts, and what is wrong with them, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
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
}
