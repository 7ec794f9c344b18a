"""Allowlist of read-only programs, and the options by which they are not.

A program that is not listed is not read-only. A rule returns why a call is *not* read-only, or None."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coder.policy.programs import git_rules, names
from coder.policy.programs import languages as programs
from coder.policy.programs.flags import Flags, check_flags
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.words import Word
from coder.texts import Text

Rule = Callable[[list[Word], WorkingDirectories], Text | None]

# No option of these writes a file, runs a program or opens a connection:
HARMLESS = names(
    """
    b2sum base32 basename cal cat cksum cmp column comm cut df dirname du echo egrep expand
    expr factor false fgrep fmt fold free getconf grep groups head id join locale logname ls lscpu
    md5sum nl nproc numfmt od paste pathchk pgrep pr printenv pwd readlink realpath rev seq sha1sum
    sha224sum sha256sum sha384sum sha512sum sleep stat strings sum tac tail tr true tsort tty type uname
    unexpand uptime users w wc whereis which whoami : hexdump
    """
)

_OPTIONS: dict[str, Flags] = {
    "arch": Flags(operands=0),  # macOS: runs its operands
    "base64": Flags(short="o", long=("--output",)),  # macOS
    "bat": Flags(long=("--pager", "--paging", "--config-file", "--generate-config-file", "--diagnostic",
                       "--diagnostics", "--lessopen"), short="", words=("cache",)),
    "diff": Flags(short="l", long=("--output", "--paginate")),
    "dmesg": Flags(short="CcDEn", long=("--clear", "--read-clear", "--console-off", "--console-on",
                                        "--console-level"), operands=0),
    "exa": Flags(),
    "eza": Flags(),
    "fd": Flags(short="xXl", long=("--exec", "--exec-batch", "--list-details")),
    "fdfind": Flags(short="xXl", long=("--exec", "--exec-batch", "--list-details")),
    "file": Flags(short="CzZp", long=("--compile", "--uncompress", "--uncompress-noreport",
                                      "--preserve-date")),
    # Its long forms use the network (DNS).
    "hostname": Flags(short="FbfdiaAy", long=("--file", "--boot", "--fqdn", "--long", "--domain", "--alias",
                                              "--ip-address", "--all-fqdns", "--yp", "--nis"), operands=0),
    "iconv": Flags(short="o", long=("--output",)),
    "jq": Flags(short="i", long=("--in-place", "--inplace")),
    "lsblk": Flags(),
    "nm": Flags(long=("--plugin",), texts=("@",)),  # `@file` contains options
    "objdump": Flags(short="WLP", long=("--plugin", "--dwarf", "--process-links"), texts=("@",)),
    "readelf": Flags(short="wDP", long=("--debug-dump", "--process-links"), texts=("@",)),
    "rg": Flags(short="z", long=("--pre", "--hostname-bin", "--search-zip")),
    "shuf": Flags(short="o", long=("--output",)),
    "sort": Flags(short="oT", long=("--output", "--compress-program", "--temporary-directory")),
    # A filter may be a host name, which is resolved by DNS.
    "ss": Flags(short="KDFrN", long=("--kill", "--diag", "--filter", "--resolve", "--net"), operands=0),
    "tree": Flags(short="oR", long=("--output",)),
    "uniq": Flags(operands=1),
    "who": Flags(long=("--lookup",)),
    "yq": Flags(short="is", long=("--inplace", "--in-place", "--split-exp-file"), texts=("system",)),
}  # fmt: skip

# Version queries: exactly these arguments.
_VERSIONS = {
    **dict.fromkeys(
        names("bash gcc g++ clang cmake make docker uv ruff mypy curl tar rustup awk sed find jq git rg"),
        names("--version"),
    ),
    **dict.fromkeys(names("python python3 pip pip3 cargo rustc"), names("--version -V")),
    **dict.fromkeys(names("node npm ruby perl php"), names("--version -v")),
    **dict.fromkeys(names("java javac"), names("--version -version")),
    "go": names("version"),
}
# Project files that make these start a program or write elsewhere.
_CONTROL_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cargo", "rustc", "rustup"), ("rust-toolchain", "rust-toolchain.toml")),
    "npm": (".npmrc",),
    "go": ("go.mod", "go.work"),
    "uv": (".venv", "pyproject.toml", "uv.toml"),
}
_NPM_LS = names("-g --all --json --depth=0 --depth=1 --prod --omit=dev")
_PIP_SHOW = frozenset({"-f", "--files", "-v", "--verbose"})

_LISTINGS: dict[str, frozenset[tuple[str, ...]]] = {
    "rustup": frozenset({("show",), ("show", "active-toolchain"), ("toolchain", "list")}),
    "uv": frozenset({("pip", "list"), ("pip", "freeze"), ("python", "find")}),
    "pip": frozenset({("list",), ("freeze",)}),
    "pip3": frozenset({("list",), ("freeze",)}),
}

_SPECIAL: dict[str, Rule] = {
    **dict.fromkeys(names("awk gawk mawk nawk"), programs.awk),
    **dict.fromkeys(names("sed gsed"), programs.sed),
    **dict.fromkeys(names("test ["), programs.single_test),
    **dict.fromkeys(names("exit break continue return wait"), programs.numbers_only),
    **dict.fromkeys(names("lsof netstat"), programs.numeric),
    **dict.fromkeys(names("export declare local readonly typeset"), programs.declare),
    "[[": programs.double_test,
    "printf": programs.printf,
    "read": programs.read,
    "set": programs.shell_set,
    "cd": programs.change_directory,
    "date": programs.date,
    "ps": programs.ps,
    "xxd": programs.xxd,
    "tar": programs.tar,
    "unzip": programs.unzip,
    "git": git_rules.git,
}


class ProgramCheck(msgspec.Struct, frozen=True):
    """The table's answer on one call. `why`: None if it is read-only. `guarded`: see `Segment`."""

    listed: bool
    why: Text | None = None
    guarded: bool = False


def is_listed(name: str) -> bool:
    """Whether the effect of every option of this program is known."""
    return name in HARMLESS or name in _OPTIONS or name in _SPECIAL


def look_up(name: str, args: list[Word], places: WorkingDirectories) -> ProgramCheck:
    if name in HARMLESS or _asks_version(name, args, places):
        return ProgramCheck(True)
    if name in _OPTIONS:
        return ProgramCheck(True, check_flags(args, _OPTIONS[name]))
    if name in _SPECIAL:
        return ProgramCheck(True, _SPECIAL[name](args, places), guarded=name == "git")
    return ProgramCheck(False, Text("policy.why.unknown"))


def _asks_version(name: str, args: list[Word], places: WorkingDirectories) -> bool:
    if not all(word.exact for word in args):
        return False
    given = tuple(word.text for word in args)
    if name in ("pip", "pip3") and given[:1] == ("show",):
        return all(text in _PIP_SHOW or not text.startswith("-") for text in given[1:])
    version = len(given) == 1 and given[0] in _VERSIONS.get(name, ())
    if name == "npm" and given[:1] in (("ls",), ("list",)):
        version = all(text in _NPM_LS or not text.startswith("-") for text in given[1:])
    if name == "go" and given[:1] == ("env",):
        version = all(text == "-json" or text.isupper() for text in given[1:])
    if not version and given not in _LISTINGS.get(name, ()):
        return False
    # In the sandbox of read-only lines such a program can do no harm.
    files = () if places.confined else _CONTROL_FILES.get(name, ())
    above = {parent for directory in places.directories for parent in (directory, *directory.parents)}
    return places.known and not any((parent / file).exists() for parent in above for file in files)
