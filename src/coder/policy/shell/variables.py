"""Environment variables that change what a program does."""

from __future__ import annotations

import os
import re

from coder.policy.programs import names

# Integer variables of bash evaluate arithmetic when set: `RANDOM='a[$(x)]'` runs x.
_NAMES = names(
    """
    IFS ENV HOME SHELL SHELLOPTS PAGER EDITOR VISUAL BROWSER TMPDIR TMP TEMP PWD OLDPWD POSIXLY_CORRECT
    GLOBIGNORE FIGNORE EXINIT VIMINIT OPTARG OPTIND MAIL USER LOGNAME ZDOTDIR FPATH FCEDIT INPUTRC
    HOSTALIASES LOCALDOMAIN TERMCAP DISPLAY KUBECONFIG MAKE MAKEFILES CC CXX AR LD AS NM REPLY COPROC
    MAPFILE histchars auto_resume RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME FUNCNAME GROUPS
    DIRSTACK PIPESTATUS SHLVL UID EUID PPID TMOUT FUNCNEST EXECIGNORE CHILD_MAX IGNOREEOF HOSTFILE TIMEFORMAT
    """
)
_BEGINNINGS = tuple(
    names(
        """
        LD_ DYLD_ GIT_ GH_ BASH PYTHON PERL RUBY NODE NPM_ npm_ YARN_ GLIBC_ MALLOC_ GCONV LESS MAN
        RIPGREP RUST CARGO GO JAVA JDK _JAVA SSH GPG XDG_ PS0 PS1 PS2 PS3 PS4 PROMPT GREP_ TAR_ AWK
        RSYNC CVS TERMINFO SUDO PIP_ UV_ DOCKER CODER_ OPENAI ANTHROPIC GEMINI JQ_ BAT_ FZF LUA_ PHP
        GEM_ BUNDLE MAVEN GRADLE DOTNET CLASSPATH HIST NLSPATH LOCPATH DEBUGINFOD DIRENV EZA_ EXA_ FD_
        OPENSSL SSL_ CURL_ WGET FTP MAKE CMAKE VIM EMACS
        """
    )
)
_ENDINGS = tuple(
    names(
        """
        PATH _OPTIONS _OPTS FLAGS _CONFIG PAGER EDITOR _COMMAND _CMD _PROXY _proxy _HOME _ROOT _WRAPPER
        _LAUNCHER _PRELOAD _RC _SHELL _HOOK _HOOKS
        """
    )
)
# Programs read command lines from variables (`BZIP2`, `XZ_OPT`, `UNZIP`): an allowlist, and lower-case names,
# which no program uses.
_EXPORTED = names(
    """
    TZ COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM CI DEBUG
    LS_COLORS BLOCK_SIZE BLOCKSIZE TIME_STYLE QUOTING_STYLE VERBOSE
    """
)

# A character set decides where a quote ends (in GBK the backslash of `"你\\"` is half a character), and
# `LANGUAGE` is a path below the directory of translations.
_LOCALES = ("LANG", "LC_")
_PLAIN_LOCALE = re.compile(r"(?:C|POSIX|\w+\.(?i:UTF-?8)(?:@\w+)?)?", re.ASCII)


def is_identifier(name: str) -> bool:
    """Whether `name` is a plain variable name to the shell."""
    return name.isascii() and name.isidentifier()


def is_dangerous(name: str, value: str | None = None) -> bool:
    """Whether setting this variable, to `value` if that is certain, can make a harmless command do something
    else.
    """
    if name.startswith(_LOCALES):
        return value is None or not _PLAIN_LOCALE.fullmatch(value)
    return name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS)


def may_be_exported(name: str, value: str | None = None) -> bool:
    """Whether no program is known to act on this variable."""
    known = name in _EXPORTED or name.startswith(_LOCALES) or name.islower()
    return known and not is_dangerous(name, value)


def reads_utf8() -> bool:
    """Whether the shell reads a line beyond ASCII as it is meant, in the person's own locale."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return _PLAIN_LOCALE.fullmatch(next(filter(None, named), "")) is not None
