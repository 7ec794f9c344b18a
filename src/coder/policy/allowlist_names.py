"""The allowlist name by which `always` remembers a command.

A short name (`git commit`, `make test`) covers a call with further arguments only if each is known to run no
other code. Otherwise the name is the whole command, and covers only that; so it is for what
installs packages or reaches other machines, where every word matters."""

from __future__ import annotations

import re
from collections.abc import Callable
from shlex import join

from coder.policy.programs import names
from coder.policy.programs.effects import base_name
from coder.policy.shell.words import Word
from coder.policy.verification import TOOL_DIRECTORIES

# Programs whose subcommand is a program of its own.
_FAMILIES = names(
    """
    git npm yarn pnpm bun deno cargo go pip pip3 uv poetry pdm hatch pipx conda mamba rustup dotnet mvn
    gradle bundle gem composer rails mix flutter dart swift systemctl nix ng nx turbo lerna tox nox pre-
    commit alembic flask django-admin pipenv coverage bazel buck meson
    """
)
_TWO_WORDS = frozenset({("uv", "pip"), ("go", "mod"), ("git", "submodule"), ("uv", "tool"), ("git", "stash"),
                        ("git", "worktree"), ("git", "remote"), ("git", "notes"), ("git", "lfs"),
                        ("yarn", "workspace"), ("yarn", "global"), ("npm", "run"), ("npm", "run-script"),
                        ("pnpm", "run"), ("yarn", "run"), ("bun", "run"), ("deno", "task"),
                        ("composer", "run"), ("composer", "global"), ("conda", "env"), ("dotnet", "ef"),
                        ("dotnet", "tool"), ("go", "run"), ("deno", "run"), ("mix", "run"),
                        ("rails", "runner"), ("coverage", "run"), ("bazel", "run"), ("buck", "run"),
                        ("pipenv", "run")})  # fmt: skip
# Each word of their calls matters: another package, resource, address or query.
_REMOTE = names(
    """
    ansible ansible-playbook apk apt apt-get aptitude argocd aws az bq brew cdk choco cloudflared consul
    curl dnf docker docker-compose doctl eksctl firebase flatpak fly flyctl ftp gcloud gh glab gsutil
    helm heroku http https hub influx kubectl mariadb minikube mongo mongosh mysql mysqldump nc ncat
    nerdctl netlify nomad oc packer pacman pg_dump pg_restore podman psql pulumi railway redis-cli scp
    sftp skaffold snap sqlcmd ssh supabase telnet terraform tofu twine vault vercel wget winget wrangler
    xh yum zypper
    """
)
_INSTALLERS = names(
    """
    npm yarn pnpm bun deno cargo pip pip3 uv poetry pdm hatch pipx conda mamba gem bundle composer rustup
    dotnet pipenv go nix mix flutter dart
    """
)
_INSTALLING = names(
    "install i add get require update upgrade up publish global link remove uninstall rm inject"
)
_GIT_REMOTE = names("push fetch pull clone ls-remote archive")
# Task runners: each operand is a script of its own.
_MAKERS = names("make gmake rake just task invoke inv fab doit ansible-playbook")
# They run their first operand.
_LOADERS = names("tsx ts-node julia tclsh wish java gunicorn uvicorn hypercorn streamlit")
_INTERPRETERS = names("python node ruby perl php lua Rscript bash sh zsh dash ksh")
# Arguments that cannot make a command run other code, so that `always` may cover them (an allowlist): what is
# missing costs one more prompt. No argument of these runs a program, or `wrappers` and `git_rules` know it.
_PLAIN = names(
    """
    touch mkdir cp tee mkfifo mktemp csplit split gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd zip
    gtar bsdtar rsync install cpio dos2unix unix2dos git
    """
)
# Options of verbosity and scope.
_ANYWHERE = names(
    """
    -q -v -vv -vvv -y --quiet --verbose --silent --color --colour --no-color --help --version --dry-run
    --release --all --workspace --offline --locked --frozen --json --ci --limit --no-progress --yes --fix
    --check --write --diff --stat --watch --no-watch --watchAll --coverage
    """
)
# The same per program: whole words, and letters that may be clustered (`-xvs`) or precede a number.
_KNOWN_OPTIONS: dict[str, frozenset[str]] = {
    "pytest": names("--tb --maxfail --lf --ff --last-failed --failed-first --durations --no-header"
                    " --exitfirst --collect-only --co --cov --no-cov -k -m -n"),
    "unittest": names("-k"),
    "ruff": names("--select --ignore --output-format"),
    "mypy": names("--strict --no-error-summary --pretty"),
    "eslint": names("--ext --max-warnings"),
    "tsc": names("--noEmit"),
    **dict.fromkeys(("jest", "vitest"), names("--runInBand -t --testNamePattern --run")),
    "cargo": names("--lib --tests --all-targets --all-features --features --no-default-features"
                   " --message-format --no-fail-fast"),
    "go": names("-race -count -run -short -cover -bench -timeout"),
    **dict.fromkeys(("make", "gmake"), names("--jobs --keep-going --no-print-directory --always-make")),
    "mvn": names("-B -ntp -DskipTests -o -U"),
    "gradle": names("--info --stacktrace --no-daemon --console"),
}  # fmt: skip
_KNOWN_LETTERS = {"pytest": "xslrqv", "unittest": "fcbqv", "make": "jksBniwO", "gmake": "jksBniwO",
            "ninja": "jkv"}  # fmt: skip
# Subcommands whose operands select a part of the workspace.
_NARROWED: dict[str, frozenset[str]] = {
    "go": names("test build vet fmt list"),
    "cargo": names("test build check clippy fmt bench doc"),
    "dotnet": names("test build"),
}
# Their operands name targets.
_BY_OPERAND = names("cmake ninja scons waf ctest nox tox")


def name_of(words: list[Word], *, listed: bool, inside: Callable[[str], bool]) -> str:
    """The command word, with the subcommand or script that runs, if any. Empty: not known. `listed`:
    the table of read-only programs knows all its options. `inside`: whether a path is in the workspace."""
    if not words or not words[0].exact or not words[0].text:
        return ""
    head, args = words[0].text, words[1:]
    plain = base_name(head) if head.startswith(("/bin/", "/usr/bin/", "/usr/local/bin/")) else head
    program = _project_program(head) or plain
    identity = _identifying_words(program, args)
    if identity is None or not _exact(identity):
        return ""
    rest = [word for word in args if not any(word is one for one in identity)]
    short = not _leads_elsewhere(program, identity, rest) and (
        listed or plain in _PLAIN or _all_harmless(program, identity, rest, inside)
    )
    if not short and not _exact(args):
        return ""
    return join([plain, *(word.text for word in (identity if short else args))])


def _project_program(head: str) -> str:
    """The name of a program below one of the project's own directories for them, else nothing."""
    path = head.removeprefix("./")
    directory, _, name = path.rpartition("/")
    return name if directory in TOOL_DIRECTORIES else ""


def depends_on_directory(words: list[Word], *, listed: bool) -> bool:
    """Whether another directory may make it run something else: `./run.sh`, `make test`, git by its hooks."""
    head = words[0].text if words else ""
    plain = base_name(head)
    if plain == "git" or ("/" in head and not head.startswith("/")):
        return True
    return not listed and plain not in _PLAIN


def is_interpreter(name: str) -> bool:
    """Whether the program runs a script named by its arguments."""
    return name.rstrip("0123456789.") in _INTERPRETERS


def _leads_elsewhere(program: str, identity: list[Word], rest: list[Word]) -> bool:
    """Whether it installs packages or reaches other machines."""
    while identity and identity[0].text == "-m" and len(identity) > 1:
        program, identity = identity[1].text, identity[2:]
    name = base_name(program)
    if name in _REMOTE or (name in _INSTALLERS and any(word.text in _INSTALLING for word in identity)):
        return True
    if name == "rsync" or (name == "git" and identity and identity[0].text in _GIT_REMOTE):
        return any(":" in word.text for word in rest)
    return False


def _all_harmless(
    program: str, identity: list[Word], rest: list[Word], inside: Callable[[str], bool]
) -> bool:
    while identity and identity[0].text == "-m" and len(identity) > 1:  # `python -m pytest` is pytest
        program, identity = identity[1].text, identity[2:]
        if program in _PLAIN:
            program = ""  # a module, not a system program
    if "/" in program or is_interpreter(program) or program in _LOADERS:
        return not rest  # a script's arguments are its own
    family = program in _FAMILIES
    subcommand = identity[0].text if identity and (family or program not in _MAKERS) else ""
    return all(_is_harmless(word, program, subcommand, family, inside) for word in rest)


def _identifying_words(name: str, args: list[Word]) -> list[Word] | None:
    """The arguments that are the subcommand, script or targets; None: not known."""
    if name in _FAMILIES:
        return _family(name, args)
    if name in _MAKERS:
        return [w for w in args if not (w.exact and w.text.startswith("-"))] if _exact(args) else None
    if is_interpreter(name) or name in _LOADERS:
        return _script(args)
    return []


def _family(name: str, args: list[Word]) -> list[Word] | None:
    if not args:
        return []
    first = args[0]
    if not first.exact or first.text.startswith("-"):
        return [first] if first.exact and len(args) == 1 else None
    return args[:2] if (name, first.text) in _TWO_WORDS else [first]


def _script(args: list[Word]) -> list[Word] | None:
    if args and args[0].exact and args[0].text == "-m" and len(args) > 1:
        module = _identifying_words(args[1].text, args[2:]) if args[1].exact else None
        return None if module is None else [*args[:2], *module]
    if args and args[0].exact and (not args[0].text.startswith("-") or len(args) == 1):
        return [args[0]]
    return None


def _exact(words: list[Word]) -> bool:
    return all(word.exact for word in words)


def _is_harmless(
    word: Word, program: str, subcommand: str, family: bool, inside: Callable[[str], bool]
) -> bool:
    """Whether the argument `word` of `program` runs no other code. `family`: operands are tasks, plans,
    charts and the like unless the subcommand is known."""
    if word.maybe_option():
        return word.exact and _is_harmless_option(word.text, program)
    if program in _BY_OPERAND or (family and subcommand not in _NARROWED.get(program, ())):
        return False
    return "://" not in word.text and inside(word.text)


def _is_harmless_option(text: str, program: str) -> bool:
    if text.split("=", 1)[0] in _ANYWHERE | _KNOWN_OPTIONS.get(program, frozenset()):
        return True
    letters = _KNOWN_LETTERS.get(program, "")
    return bool(letters) and re.fullmatch(rf"-[{letters}]+\d*", text) is not None
