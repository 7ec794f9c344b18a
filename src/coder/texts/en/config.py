"""Settings and what is wrong with them, in English: layers, values, trust, saving, provider."""

from __future__ import annotations

TEXTS: dict[str, str] = {
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
}
