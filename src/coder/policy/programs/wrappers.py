"""Wrappers: commands that run another command, and which one.

`unwrap` returns the inner commands or lines. Where it is not certain what runs, it says so and the caller
fails closed."""

from __future__ import annotations

import msgspec

from coder.policy.allowlist_names import is_interpreter
from coder.policy.programs import names
from coder.policy.programs.flags import Flags, check_flags, is_long
from coder.policy.shell.words import UNKNOWN, Word
from coder.texts import Text


class Inner(msgspec.Struct, frozen=True):
    """What a wrapper runs. `certain`: nothing else can run. `acts`: the wrapper itself is not read-only.
    `clears`: the inner command does not get the whole environment. `elsewhere`: it runs in other
    directories."""

    commands: list[list[Word]] = []
    lines: list[str] = []
    assigns: list[tuple[str, Word]] = []
    certain: bool = True
    acts: bool = False
    clears: bool = False
    elsewhere: bool = False
    note: Text | None = None
    posix: bool | None = None  # whether `lines` are for another shell than bash; None: for the current one


UNCERTAIN = Inner(certain=False, note=Text("policy.why.unseen"))
NOTHING = Inner()


class _Options(msgspec.Struct, frozen=True):
    """A wrapper's options before its command: flags, options with a value, leading operands."""

    plain: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    acts: bool = False


def _options(plain: str = "", valued: str = "", operands: int = 0, acts: bool = False) -> _Options:
    return _Options(frozenset(plain.split()), frozenset(valued.split()), operands, acts)


_PREFIXES: dict[str, _Options] = {
    "timeout": _options("--foreground --preserve-status -v --verbose", "-k -s --kill-after --signal", 1),
    "gtimeout": _options("--foreground --preserve-status", "-k -s", 1),
    "nice": _options("", "-n --adjustment"),
    "ionice": _options("-t", "-c -n"),
    "nohup": _options(),
    "time": _options("-p"),
    "stdbuf": _options("", "-i -o -e --input --output --error"),
    "setsid": _options("-w --wait -f --fork -c --ctty"),
    "command": _options(),
    "builtin": _options(),
    "exec": _options(),  # `-a` and `-l` change argv[0], and so the program's behaviour
    "coproc": _options(acts=True),
    "caffeinate": _options("-i -d -s -m"),
    "sudo": _options("-E -H -n -S -k -b -i -s -A --", "-u -g -h -p -C -U -T -R -D -r -t", acts=True),
    "doas": _options("-n -s -L", "-u -C", acts=True),
}
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash"})
_RUNNERS = names(
    """
    su pkexec runuser run0 ssh watch strace ltrace gdb lldb valgrind perf unshare nsenter chroot flock
    script parallel entr expect screen tmux npx bunx uvx nix-shell xvfb-run dbus-run-session firejail
    bwrap systemd-run at batch rsh rexec telnet nc ncat socat osascript mapfile readarray alias source .
    trap compgen complete bind enable hash vim vi nvim emacs ed ex less more most man rlwrap proot
    fakeroot torsocks proxychains cpulimit numactl taskset chrt prlimit setarch eatmydata direnv mise
    asdf runcon start-stop-daemon daemonize busybox toybox
    """
)
# Subcommands that run their arguments.
_RUNNING_WORDS: dict[str, frozenset[str]] = {
    "docker": names("run exec compose build buildx container -H --context"),
    "podman": names("run exec build container"),
    "kubectl": names("exec run debug attach"),
    "npm": names("exec x explore"),
    **dict.fromkeys(("pnpm", "yarn"), names("exec dlx")),
    "uv": names("run tool"),
    **dict.fromkeys(("poetry", "pdm", "hatch", "pipx", "conda"), names("run")),
    "bundle": names("exec"),
    "nix": names("run shell develop"),
    "deno": names("eval"),
    "bun": names("x -e --eval"),
    "gh": names("alias extension codespace"),
    "go": names("generate tool"),
}
_INLINE: dict[str, str] = {"python": "c", "perl": "eE", "ruby": "e", "node": "ep", "php": "rBRE", "lua": "e",
                           "Rscript": "e"}  # fmt: skip


def unwrap(name: str, args: list[Word]) -> Inner | None:
    """What `name` runs when called with `args`; None if it is no wrapper."""
    if name == "command" and args and args[0].exact and args[0].text in ("-v", "-V"):
        return NOTHING
    if name in _PREFIXES:
        return _prefix(args, _PREFIXES[name])
    if name in SHELLS:
        return _shell(name, args)
    if name in _READERS:
        return _READERS[name](args)
    return UNCERTAIN if name in _RUNNERS else _runs_by_argument(name, args)


def _runs_by_argument(name: str, args: list[Word]) -> Inner | None:
    """Programs that run something else only with certain arguments."""
    if name in _RUNNING_WORDS and any(word.text in _RUNNING_WORDS[name] for word in args[:2]):
        return UNCERTAIN
    letters = _INLINE.get(name.rstrip("0123456789."), "")
    for word in args:
        if not letters or not word.text.startswith("-"):
            break
        if any(letter in letters for letter in word.text[1:]) and not is_long(word.text, ("--version",)):
            return UNCERTAIN
    if is_interpreter(name) and (not args or not args[0].exact or args[0].text == "-"):
        return UNCERTAIN
    if name in _RUN_OPTIONS and _names_program(name, args):
        return UNCERTAIN
    return None


# Options that name a program to run.
_TAR = ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command",
        "--info-script", "--new-volume-script", "--files-from")  # fmt: skip
_RUN_OPTIONS: dict[str, Flags] = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), Flags(short="IFT", long=_TAR)),
    **dict.fromkeys(
        ("make", "gmake"),
        Flags(
            short="fECIo",
            texts=("=",),
            long=("--eval", "--file", "--makefile", "--directory", "--include-dir", "--old-file"),
        ),
    ),
    **dict.fromkeys(("scp", "sftp"), Flags(short="SoFD")),
    "split": Flags(long=("--filter",)),
    "go": Flags(long=("-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "-C")),
    "cargo": Flags(long=("--config", "--manifest-path", "-C", "-Z")),
    "gradle": Flags(long=("-I", "-b", "-c", "-p")),
    "mvn": Flags(long=("-f", "--file")),
    "ninja": Flags(long=("-C", "-f")),
    "pytest": Flags(long=("-c", "-p")),
    "pnpm": Flags(long=("-C",)),
    "tsc": Flags(long=("-p",)),
    "webpack": Flags(long=("-c",)),
    "java": Flags(long=("-jar", "-cp")),
    "cmake": Flags(long=("-P", "-E")),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "ar", "javac", "rustc"),
        Flags(long=("-wrapper", "-fplugin", "-specs", "-B", "-load"), texts=("@",)),
    ),
    "curl": Flags(short="K", long=("--config",)),
    "npm": Flags(long=("--script-shell", "--node-options", "--prefix", "-C")),
    "sqlite3": Flags(texts=(".sh", ".sy", ".load", "|", "edit(")),
    "psql": Flags(texts=("\\", "program", "PROGRAM")),
    "zip": Flags(short="T", long=("--unzip-command", "--test")),
    "install": Flags(long=("--strip-program",)),
    "wget": Flags(short="e", long=("--execute", "--config", "--use-askpass")),
    "cpio": Flags(long=("--rsh-command",)),
    "rsync": Flags(short="e", long=("--rsh", "--rsync-path")),
}


def _names_program(name: str, args: list[Word]) -> bool:
    if name.endswith("tar") and args:  # its first letters need no dash
        args = [Word("-" + args[0].text.removeprefix("-"), exact=args[0].exact), *args[1:]]
    return any(
        word.text.startswith("SHELL=") or check_flags([word], _RUN_OPTIONS[name])
        for word in args
        if word.exact
    )


def _skip(args: list[Word], options: _Options) -> int | None:
    """The index of the command after the wrapper's options; None if uncertain."""
    index = 0
    while index < len(args):
        word = args[index]
        if not word.exact:
            return None
        text = word.text
        if text == "--":
            index += 1
            break
        if not text.startswith("-") or text == "-":
            break
        if text in options.valued:
            index += 2
        elif text in options.plain or _value_attached(text, options.valued):
            index += 1
        else:
            return None
    index += options.operands
    return index if index <= len(args) and all(word.exact for word in args[:index]) else None


def _value_attached(text: str, valued: frozenset[str]) -> bool:
    if text.startswith("--"):
        return text.split("=", 1)[0] in valued and "=" in text
    return text[:2] in valued or (text[1:].isdigit() and "-n" in valued)


def _prefix(args: list[Word], options: _Options) -> Inner:
    start = _skip(args, options)
    if start is None:
        return UNCERTAIN
    if start >= len(args):
        return Inner(acts=options.acts)
    return Inner(commands=[args[start:]], acts=options.acts)


def _env(args: list[Word]) -> Inner:
    start = _skip(args, _options("-i -", "-u --unset"))
    if start is None:
        return UNCERTAIN
    assigns: list[tuple[str, Word]] = []
    while start < len(args) and "=" in args[start].text:
        name, _, value = args[start].text.partition("=")
        word = args[start]
        if word.splits:
            return UNCERTAIN
        assigns.append((name, Word(value, exact=word.exact)))
        start += 1
    if start < len(args) and not args[start].exact:
        return UNCERTAIN
    commands = [args[start:]] if start < len(args) else []
    return Inner(commands=commands, assigns=assigns, clears=bool(args) and args[0].text[:1] == "-")


_SHELL_LETTERS = frozenset("celux")
_POSIX_SHELLS = frozenset({"sh", "dash", "ash"})
_FOREIGN_SHELLS = frozenset({"zsh", "ksh", "mksh", "fish"})  # different quoting and expansion


def _shell(name: str, args: list[Word]) -> Inner:
    """`sh -c 'line'` with only plain option letters before it."""
    index = 0
    script = False
    while index < len(args) and args[index].exact and args[index].text[:1] == "-":
        letters = args[index].text[1:]
        if args[index].text == "--version" and len(args) == 1:
            return NOTHING
        if not letters or not set(letters) <= _SHELL_LETTERS:
            return UNCERTAIN
        script = script or "c" in letters
        index += 1
    if script and index < len(args) and args[index].exact:
        return Inner(
            lines=[args[index].text], posix=name in _POSIX_SHELLS, certain=name not in _FOREIGN_SHELLS
        )
    return UNCERTAIN


def _eval(args: list[Word]) -> Inner:
    if args and args[0].exact and args[0].text == "--":
        args = args[1:]
    if not all(word.exact for word in args):
        return UNCERTAIN
    return Inner(lines=[" ".join(word.text for word in args)])


_XARGS = _options(
    "-0 -r -t -x --null --no-run-if-empty --verbose --max-lines",  # --max-lines takes an attached value only
    "-n -P -L -d -a -s -I -E --max-args --max-procs --delimiter --arg-file",
)


def _xargs(args: list[Word]) -> Inner:
    """The inner command gets unknown arguments."""
    start = _skip(args, _XARGS)
    if start is None:
        return UNCERTAIN
    if start >= len(args):
        return NOTHING
    inner = args[start:]
    marks = _replacements(args[:start])
    for mark in marks:
        inner = [_cut_at_placeholder(word, mark) for word in inner]
    # `-I`, `-n` and `-L`: the last one wins.
    counted = any(word.text.startswith(("-n", "-L", "--max-")) for word in args[:start])
    return Inner(commands=[inner if marks and not counted else [*inner, UNKNOWN]])


def _replacements(options: list[Word]) -> list[str]:
    following = [*(word.text for word in options[1:]), ""]
    pairs = [(word.text, after) for word, after in zip(options, following, strict=False)]
    found = [after if text == "-I" else text[2:] for text, after in pairs if text.startswith("-I")]
    return [mark for mark in found if mark]


def _cut_at_placeholder(word: Word, mark: str, prefix: str = "") -> Word:
    """The word up to its placeholder; the rest is unknown."""
    if mark not in word.text:
        return word
    return Word(word.text.split(mark, 1)[0] + prefix, exact=False, shell_text=word.shell_text)


_FIND_TESTS = names(
    """
    -name -iname -path -ipath -wholename -iwholename -type -xtype -size -mtime -mmin -atime -amin -ctime
    -cmin -newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -regex -iregex
    -regextype -links -inum -samefile -lname -ilname -fstype -used -printf -newermt -newerat -newerct
    -newermm
    """
)
_FIND_PLAIN = names(
    """
    ( ) ! , -not -o -a -or -and -print -print0 -ls -prune -empty -xdev -mount -follow -depth -d
    -readable -writable -executable -true -false -quit -daystart -noleaf -nouser -nogroup -L -H -P -O1
    -O2 -O3 -E -warn -nowarn -ignore_readdir_race -noignore_readdir_race
    """
)


def _find(args: list[Word]) -> Inner | None:
    """Every predicate must be known; what `-exec` runs is the inner command."""
    commands: list[list[Word]] = []
    acts = elsewhere = False
    index = 0
    while index < len(args):
        word = args[index]
        text = word.text
        index += 1
        if not word.exact:
            if word.maybe_option():
                return UNCERTAIN
        elif text in _FIND_TESTS:
            if index < len(args) and not args[index].single:
                return UNCERTAIN  # `-name *`: a second word may be `-delete`
            index += 1
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = _end_of_exec(args, index)
            if end is None:
                return UNCERTAIN
            # A found path begins with a start path or ./, never with a dash.
            commands.append([_cut_at_placeholder(inner, "{}", "./") for inner in args[index:end]])
            acts = acts or text.startswith("-ok")
            elsewhere = elsewhere or text.endswith("dir")
            index = end + 1
        elif text.startswith("-") and text not in _FIND_PLAIN:
            acts = True
    if not commands and not acts:
        return None
    note = None if commands else Text("policy.why.acts", name="find")
    return Inner(commands=commands, acts=acts, elsewhere=elsewhere, note=note)


def _end_of_exec(args: list[Word], start: int) -> int | None:
    for index in range(start, len(args)):
        if not args[index].exact:
            return None
        if args[index].text == ";" or (args[index].text == "+" and args[index - 1].text == "{}"):
            return index
    return None


_READERS = {"env": _env, "genv": _env, "eval": _eval, "xargs": _xargs, "find": _find}
