"""Variables by which a program's behaviour can be bent."""

from __future__ import annotations

from coder.policy.programs.tables import names

# Those of bash's own that count are evaluated as arithmetic when they are set: `RANDOM='a[$(x)]'` runs x.
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
# Programs take whole command lines from variables of their own (`BZIP2`, `XZ_OPT`, `UNZIP`): so what they are
# given must be on this list, or be spelt as no program's variable is.
_EXPORTED = names(
    """
    LANG LANGUAGE TZ COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM CI DEBUG
    LS_COLORS BLOCK_SIZE BLOCKSIZE TIME_STYLE QUOTING_STYLE VERBOSE
    """
)


def is_identifier(name: str) -> bool:
    """Whether the shell takes `name` for a plain variable name."""
    return name.isascii() and name.isidentifier()


def is_dangerous(name: str) -> bool:
    """Whether setting this variable can make a harmless command do something else."""
    return name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS)


def may_be_exported(name: str) -> bool:
    """Whether programs that find this variable in their environment surely take no orders from it."""
    return not is_dangerous(name) and (name in _EXPORTED or name.startswith("LC_") or name.islower())
