"""Paths of secrets in a home directory: masked in the sandbox, and a reason to ask where a command names one.

Missing paths are skipped, so listing too many costs nothing."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_TABLE = """
# keys and vaults
.ssh .gnupg .pki .password-store .local/share/keyrings .local/share/kwalletd .config/age
.config/sops .config/op .op .config/1Password .1password .config/Bitwarden .config/keepassxc
.local/share/pass .ansible/vault .vault_pass .vault_pass.txt .vault-token .vault_password
# clouds and hosts
.aws .azure .kube .config/gcloud .config/doctl .config/hcloud .config/linode-cli .oci .aliyun .tccli
.bluemix .config/scw .config/exoscale .config/rclone .s3cfg .boto .mc .config/flyctl .fly/config.yml
.config/heroku .netlify .config/netlify .vercel .local/share/com.vercel.cli .config/vercel .railway
.wrangler .config/.wrangler .terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json
.cloudflared .config/configstore .databrickscfg .snowflake .snowsql .config/snowflake .saml2aws
# forges, models and services
.netrc _netrc .git-credentials .config/git/credentials .config/gh .config/hub .config/glab-cli
.config/github-copilot .copilot .config/tea .config/jira-cli .jira.d .claude/.credentials.json
.codex/auth.json .gemini/oauth_creds.json .qwen/oauth_creds.json .cache/huggingface/token
.cache/huggingface/stored_tokens .huggingface .kaggle .config/kaggle .config/openai .config/wandb
.wandb .sentryclirc .ngrok2 .config/ngrok .ray/auth_token
# registries of packages
.npmrc .yarnrc .yarnrc.yml .config/pnpm/rc .config/pnpm/auth.ini .bunfig.toml .pypirc
.config/pypoetry/auth.toml .local/share/uv/credentials .cargo/credentials .cargo/credentials.toml
.gem/credentials .local/share/gem/credentials .bundle/config .composer/auth.json
.config/composer/auth.json .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
.sbt/.credentials .ivy2/.credentials .nuget/NuGet/NuGet.Config .config/NuGet/NuGet.Config
.hex/hex.config .conan/.conan.db
# containers: credentials and control sockets, which lead out of any sandbox
.docker/config.json .docker/desktop .docker/run .colima .lima .config/containers/auth.json
.dockercfg .config/helm/registry .config/helm/repositories.yaml .config/argocd .config/oras
# databases
.pgpass .my.cnf .mylogin.cnf .mongorc.js .dbshell .config/redis-cli .rediscli_auth
.cassandra/credentials .cqlshrc .config/pgcli .config/litecli
# command histories: passwords and tokens are typed
.bash_history .bash_sessions .zsh_history .zhistory .histfile .zsh_sessions .history .sh_history
.ash_history .ksh_history .mksh_history .tcsh_history .csh_history .local/share/fish/fish_history
.config/fish/fish_history .local/share/nushell/history.txt .config/nushell/history.txt
.config/nushell/history.sqlite3 .local/share/xonsh .elvish .local/state/elvish
.local/share/powershell/PSReadLine .local/share/atuin .local/share/mcfly .lesshst .local/state/less
.local/state/lesshst .viminfo .local/state/nvim/shada .local/share/nvim/shada .python_history
.local/state/python_history .ipython/profile_default/history.sqlite .node_repl_history
.bun_repl_history .deno_history .irb_history .pry_history .local/share/irb/irb_history .psql_history
.mysql_history .mariadb_history .sqlite_history .rediscli_history .mongo .mongodb .mongosh
.php_history .scala_history .lua_history .Rhistory .octave_hist .gdb_history .units_history
# browsers and messengers: cookies and stored passwords
.mozilla .thunderbird .librewolf .waterfox .zen .config/google-chrome .config/vivaldi
.config/chromium .config/BraveSoftware .config/microsoft-edge .config/opera
.config/google-chrome-beta .config/google-chrome-unstable snap/firefox snap/chromium
snap/thunderbird snap/brave snap/opera .var/app/org.mozilla.firefox .var/app/org.chromium.Chromium
.var/app/com.google.Chrome .var/app/com.brave.Browser .var/app/com.microsoft.Edge
.var/app/org.mozilla.Thunderbird .var/app/io.gitlab.librewolf-community .var/app/com.vivaldi.Vivaldi
.var/app/com.opera.Opera .config/Signal .config/Slack .config/discord .local/share/TelegramDesktop
"""
HOME_SECRETS = (
    *(name for line in _TABLE.splitlines() if not line.startswith("#") for name in line.split()),
    ".config/Bitwarden CLI",
)
_PLACES = frozenset(HOME_SECRETS)
_FIRST_PARTS = [(name.partition("/")[0].casefold(), name) for name in HOME_SECRETS]
_FURTHER: dict[str, str] = {}


def close_home(person: str, own: str) -> None:
    """Close this home, and coder's own directory there, as that of `$HOME`: for a process whose `$HOME` is
    not the person's."""
    _FURTHER[os.path.realpath(person)] = os.path.realpath(own)


def further_homes() -> Iterable[str]:
    """Homes that are closed beside `$HOME`."""
    return _FURTHER


def own_directories() -> list[str]:
    """Coder's own directories, with keys and tokens: those of this process and its account, whatever home a
    session was given, and those of further homes."""
    named = _own_directories(os.environ.get("HOME", ""), os.environ.get("CODER_HOME", ""))
    return [*named, *_FURTHER.values()]


@lru_cache(maxsize=8)
def _own_directories(home: str, named: str) -> list[str]:
    homes = [home]
    with contextlib.suppress(KeyError):  # a container's user may have no account
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    found = [f"{one}/.coder" for one in homes if one.startswith("/")]
    found += [os.path.expanduser(named)] if named else []  # noqa: PTH111 - raises nothing
    return list(dict.fromkeys(map(os.path.realpath, found)))


def secrets_in(home: str) -> list[str]:
    """Those paths whose first part is in the directory: one listing instead of a look-up for each path."""
    try:
        names = {name.casefold() for name in os.listdir(home)}  # noqa: PTH208 - per command; some file systems ignore case
    except OSError:  # it may be searched, perhaps
        return [f"{home}/{name}" for name in HOME_SECRETS]
    return [f"{home}/{name}" for first, name in _FIRST_PARTS if first in names]


def closed_inside(root: str, person: str, own: str) -> list[str]:
    """The places for secrets of the home `person`, and coder's own directories, that lie inside `root` or
    would: as a rule none. Where one is a link, what it leads to is such a place too."""
    home = os.path.realpath(person).rstrip("/") if person else ""
    named = (
        [(f"{home}/{name}", f"{home}/{name.partition('/')[0]}") for name in HOME_SECRETS] if person else []
    )
    paths = [own, os.path.realpath(own)] if own else []
    paths += own_directories()
    for path, top in named:
        paths.append(path)
        if Path(path).is_symlink() or Path(top).is_symlink():
            paths.append(os.path.realpath(path))
    return [path for path in dict.fromkeys(paths) if path.startswith(root.rstrip("/") + "/")]


def names_home_secret(paths: Iterable[str], home: str) -> bool:
    """Whether one of the absolute paths is such a path, or below one."""
    inside = [os.path.relpath(path, home).split("/") for path in paths if path.startswith(f"{home}/")]
    return any("/".join(parts[:n]) in _PLACES for parts in inside for n in range(1, len(parts) + 1))
