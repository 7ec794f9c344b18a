"""The name by which `always` remembers a command."""

from __future__ import annotations

from coder.policy.programs.dangers import base_name
from coder.policy.programs.tables import names
from coder.policy.shell.words import Word

# Programs whose first word is a program of its own.
_FAMILIES = names(
    """
    git npm yarn pnpm bun deno cargo go pip pip3 uv poetry pdm hatch pipx conda mamba docker podman
    kubectl helm gh glab brew apt apt-get dnf yum pacman apk snap rustup dotnet mvn gradle terraform aws
    gcloud az bundle gem composer rails mix flutter dart swift systemctl nix ng nx turbo lerna tox nox
    pre-commit alembic flask django-admin doctl heroku fly flyctl pipenv coverage bazel buck meson
    """
)
_TWO_WORDS = frozenset({("docker", "compose"), ("uv", "pip"), ("gh", "pr"), ("gh", "issue"), ("gh", "repo"),
                        ("go", "mod"), ("git", "submodule"), ("uv", "tool"), ("git", "stash"),
                        ("git", "worktree"), ("git", "remote"), ("git", "notes"), ("git", "lfs"),
                        ("yarn", "workspace"), ("npm", "run"), ("npm", "run-script"), ("pnpm", "run"),
                        ("yarn", "run"), ("bun", "run"), ("deno", "task"), ("composer", "run"),
                        ("conda", "env"), ("dotnet", "ef"), ("docker", "volume"), ("docker", "image"),
                        ("docker", "network"), ("docker", "system"), ("go", "run"), ("deno", "run"),
                        ("mix", "run"), ("rails", "runner"), ("coverage", "run"), ("bazel", "run"),
                        ("buck", "run"), ("pipenv", "run")})  # fmt: skip
# Each of their operands is a script of its own.
_MAKERS = names("make gmake rake just task invoke inv fab doit ansible-playbook")
# Not interpreters of ours, but their first operand is what they run.
_LOADERS = names("tsx ts-node julia tclsh wish java gunicorn uvicorn hypercorn streamlit")
# What these run by a name stands in a file of the folder they are started in.
_BY_FOLDER = names("npm yarn pnpm bun deno composer rails mix bundle tox nox poetry pdm hatch pipenv uv")
# Here a second word, and a third, say what is done: `aws s3 ls` is not `aws s3 rm`.
_DEEP = names("aws gcloud az gh glab doctl heroku fly flyctl")
_INTERPRETERS = (
    "python",
    "node",
    "ruby",
    "perl",
    "php",
    "lua",
    "Rscript",
    "bash",
    "sh",
    "zsh",
    "dash",
    "ksh",
)


def name_of(words: list[Word]) -> str:
    """The command word, with its subcommand or script where that is what is really run. Empty: not known."""
    if not words or not words[0].exact or not words[0].text:
        return ""
    head = words[0].text
    plain = base_name(head) if head.startswith(("/bin/", "/usr/bin/", "/usr/local/bin/")) else head
    if plain in _FAMILIES:
        return _family(plain, words[1:])
    if plain in _MAKERS:
        return _targets(plain, words[1:])
    if is_interpreter(plain) or plain in _LOADERS:
        return _script(plain, words[1:])
    return plain


def goes_by_folder(words: list[Word]) -> bool:
    """Whether another folder makes it run another script: `./run.sh`, `python a.py`, `make test`."""
    head = words[0].text if words else ""
    plain = base_name(head)
    by_name = plain in _MAKERS or plain in _LOADERS or plain in _BY_FOLDER or is_interpreter(plain)
    return by_name or ("/" in head and not head.startswith("/"))


def is_interpreter(name: str) -> bool:
    """Whether the program runs a script that its arguments name."""
    stem = name.rstrip("0123456789.")
    return stem in _INTERPRETERS


def _family(name: str, args: list[Word]) -> str:
    if not args:
        return name
    first = args[0]
    if not first.exact or first.text.startswith("-"):
        return f"{name} {first.text}" if first.exact and len(args) == 1 else ""
    if name in _DEEP:
        return _deep(name, args)
    if (name, first.text) in _TWO_WORDS and len(args) > 1:
        return f"{name} {first.text} {args[1].text}" if args[1].exact else ""
    return f"{name} {first.text}"


def _deep(name: str, args: list[Word]) -> str:
    """All words before the first option, up to three: nothing where one of them is not in plain sight."""
    said: list[str] = []
    for word in args[:3]:
        if not word.exact:
            return ""
        if word.text.startswith("-"):
            break
        said.append(word.text)
    return " ".join([name, *said])


def _targets(name: str, args: list[Word]) -> str:
    """`make test`: each target is a script of its own."""
    said = [word.text for word in args if not (word.exact and word.text.startswith("-"))]
    return " ".join([name, *said]) if all(word.exact for word in args) else ""


def _script(name: str, args: list[Word]) -> str:
    if args and args[0].exact and args[0].text == "-m" and len(args) > 1:
        return f"{name} -m {args[1].text}" if args[1].exact else ""
    if args and args[0].exact and (not args[0].text.startswith("-") or len(args) == 1):
        return f"{name} {args[0].text}"
    return ""
