"""The verdict on a shell line: its commands, whether each is read-only, the risks.

Works on the syntax tree (`tree`), never on the text. What is not understood fails closed: not read-only, and
a risk that prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from coder.base.process.programs import find_program
from coder.policy.allowlist_names import depends_on_directory, is_interpreter, name_of
from coder.policy.checks import Around, find_check, is_harmless_variable
from coder.policy.programs import git_rules, names
from coder.policy.programs.command_rules import is_listed, look_up
from coder.policy.programs.effects import PRIVILEGED, Written, base_name, danger_of, output_files, written_by
from coder.policy.programs.wrappers import SHELLS, Inner, unwrap
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.private import looks_private, reads_private_tree
from coder.policy.shell.tree import Line, Redirect, SimpleCommand, read_line
from coder.policy.shell.verdict import Check, OutsideWrite, Segment, ShellVerdict
from coder.policy.shell.words import ShellParseError, Word, is_dangerous, may_be_exported
from coder.policy.workspace import temporary_directory
from coder.texts import Text

_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
# The scratch directory by its variable, which is set to it for commands; a line that sets it prompts.
_TMPDIR = re.compile(r'"?\$(?:TMPDIR|\{TMPDIR\})/((?:[\w@+-][\w.@+-]*/)*[\w@+-][\w.@+-]*)"?')
_OVERWRITING = frozenset({">", ">|", "&>", ">&"})


class Effect(msgspec.Struct, frozen=True):
    """Why a redirection is not read-only (None: it is), whether it makes the command opaque, its risk."""

    why: Text | None = None
    opaque: bool = False
    risk: Text | None = None


def judge_redirect(redirect: Redirect, places: WorkingDirectories, directories: Sequence[Path]) -> Effect:
    """`directories`: those that the command may run in."""
    target = redirect.target
    if redirect.operator in ("<", "<&", ">&-", "<&-"):
        return _read_effect(redirect)
    if redirect.operator == ">&" and target.exact and (target.text.isdigit() or target.text == "-"):
        return Effect()
    if not target.exact and (found := _TMPDIR.fullmatch(target.shell_text)):
        return _write_effect(redirect, f"{places.scratch}/{found[1]}", places, directories)
    if not target.exact:
        return Effect(Text("policy.why.expansion"), True, Text("policy.risk.writes_hidden"))
    name = target.text
    if name in _HARMLESS:
        return Effect()
    if name.startswith(("/dev/", "/proc/", "/sys/")):
        outside = Text("policy.why.writes_outside", path=name)
        return Effect(outside, True, Text("policy.risk.device", path=name))
    return _write_effect(redirect, name, places, directories)


def outside_risk(path: str, scratch: str) -> Text:
    """The risk of a write outside the workspace; of temporary files with the scratch directory."""
    if temporary_directory(path):
        return Text("policy.risk.temporary", path=path, scratch=scratch)
    return Text("policy.risk.outside", path=path)


def _write_effect(
    redirect: Redirect, name: str, places: WorkingDirectories, directories: Sequence[Path]
) -> Effect:
    if not places.inside(name) and not places.in_scratch(name):
        path = places.outside(redirect.target, directories) or name
        return Effect(Text("policy.why.writes_outside", path=path), True, outside_risk(path, places.scratch))
    if places.protected(name):
        return Effect(Text("policy.why.writes", path=name), True, Text("policy.risk.steering", path=name))
    if redirect.operator in _OVERWRITING and places.exists(name):
        return Effect(Text("policy.why.writes", path=name), False, Text("policy.risk.overwrites", path=name))
    return Effect(Text("policy.why.writes", path=name))


def _read_effect(redirect: Redirect) -> Effect:
    target = redirect.target
    if redirect.operator in ("<&", ">&-", "<&-"):
        plain = target.exact and (target.text.isdigit() or target.text == "-")
        return Effect() if plain else Effect(Text("policy.why.expansion"), True)
    if not target.exact:
        process = target.text == "/dev/fd/" and not target.splits
        return Effect() if process else Effect(Text("policy.why.expansion"), True)
    if target.text.startswith(("/dev/tcp", "/dev/udp", "//")) or "/dev/tcp" in target.text:
        return Effect(Text("policy.why.network"), True, Text("policy.risk.network"))
    return Effect()


_MOST_NESTED = 6
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_UNSEEN = Text("policy.risk.unseen")
_FED_SHELL = Text("policy.risk.fed")
_TRUSTED_DIRECTORIES = ("/bin/", "/usr/bin/")
_RESERVED = names("if then else elif fi do done case esac while until for select function in { } ! [[ ]]")
# Other shells parse these differently: in dash `[[ a > b ]]` writes b, and `$'a\'; x #'` runs x.
_BASH_ONLY = ("[[", "((", "=(", "<(", ">(", "$'", '$"', "&>", "|&", "<<<")
# Options of unlisted programs that say what to run, or where to find it.
_RUN_OPTIONS = names(
    """
    --config --config-file --configfile --plugin --plugins --rulesdir --exec --eval --init-script --project
    --manifest-path --project-dir --project-directory --rootdir --prefix --cwd --directory --dir --justfile
    --makefile --require --import --loader --preload --app --post-renderer --kubeconfig --chdir -chdir
    """
)
# Programs that write what they are given as operands or by common options.
_WRITERS = names("tee cp install ln touch truncate rsync sed patch perl ed ex awk gawk curl wget tar unzip")
_FIRST_DIRECTORY = re.compile(r"\s*cd ((?!-)[\w./+@:,=-]+) && ")


def judge(line: str, cwd: Path, *, confined: bool = False, home: str = "") -> ShellVerdict:
    """The verdict on `line` run in `cwd`. Never raises. `confined`: read-only lines run in a sandbox, so a
    program counts as what its name says wherever it is installed. `home`: of the command, if it is not ours.
    """
    places = WorkingDirectories(cwd, confined=confined, home=home)
    return _Judge(places, posix=not find_program("bash", None, cwd)).line(line)


class _Finding:
    """Collects the findings about one command."""

    def __init__(self) -> None:
        self.rule: Text | None = None  # why it is not read-only; None: it is
        self.opaque = False
        self.guarded = False
        self.risks: list[Text] = []
        self.note: Text | None = None

    def refuse(self, why: Text, *, opaque: bool = False, risk: Text | None = None) -> None:
        self.rule = self.rule or why
        self.opaque = self.opaque or opaque
        if risk and risk not in self.risks:
            self.risks.append(risk)


class _Judge:
    """Judges one line, and the lines nested in it."""

    def __init__(
        self,
        places: WorkingDirectories,
        depth: int = 0,
        shadowed: frozenset[str] = frozenset(),
        *,
        posix: bool = False,
        cleared: bool = False,
    ) -> None:
        self._places = places
        self._depth = depth
        self._posix = posix  # the line is for a shell other than bash
        self._shadowed = shadowed
        self._cleared = cleared  # the command does not get the environment of read-only lines
        self._extra: list[Segment] = []
        self._in: str | None = None  # where the current command certainly runs
        self._outside: dict[str, OutsideWrite] = {}
        self._inside_writes: set[str] = set()
        self._plain = depth == 0 and not posix
        self._links = False  # a command may put a link somewhere
        self._following = 0  # commands that would write through one
        self._exchangeable = False  # a write goes where another program of the workspace can put a link

    def line(self, text: str) -> ShellVerdict:
        if self._posix and any(mark in text for mark in _BASH_ONLY):
            return _unparsed(text, Text("policy.unread.other_shell"))
        try:
            return self._verdict(read_line(text, self._depth), _FIRST_DIRECTORY.match(text))
        except ShellParseError as problem:
            return _unparsed(text, problem.phrase)
        except (RecursionError, ValueError, OSError):
            return _unparsed(text, Text("policy.unread.deep"))

    def _verdict(self, parsed: Line, first: re.Match[str] | None) -> ShellVerdict:
        self._shadowed = self._shadowed | parsed.functions | _aliases(parsed)
        segments = self._segments(parsed)
        if len(self._places.directories) > 1 or not self._places.known:
            # A later `cd` may run earlier (loops, functions): second pass with all directories known.
            if first and self._depth == 0 and self._places.cd_count == 1 and self._places.known:
                self._places.begins_in = first[1]
            segments = self._segments(parsed)
        risks = [Text("policy.risk.substitution")] if parsed.substitutes else []
        if parsed.fork_bomb:
            risks.append(Text("policy.risk.fork_bomb"))
        for segment in segments:
            risks.extend(risk for risk in segment.risks if risk not in risks)
        read_only = all(segment.read_only for segment in segments)
        drivers = self._places.drivers
        return ShellVerdict(
            segments,
            read_only=read_only,
            risks=risks,
            drivers=frozenset().union(*drivers.values()) if drivers else None,
            outside=tuple(self._outside.values()),
            inside=frozenset(self._inside_writes),
            plain=self._plain
            and not parsed.substitutes
            and not self._shadowed
            and not (self._links and self._following > 1)
            and not (self._exchangeable and self._outside),
        )

    def _segments(self, parsed: Line) -> list[Segment]:
        segments: list[Segment] = []
        self._outside.clear()
        self._inside_writes.clear()
        self._links, self._following, self._exchangeable = False, 0, False
        for simple, directory in zip(parsed.commands, parsed.directories(), strict=True):
            self._in = directory
            segments.append(self._segment(simple))
            segments.extend(self._extra)
            self._extra = []
        segments.extend(_mentioned(word) for word in parsed.mentions if looks_private(word, self._places))
        return segments

    def _segment(self, simple: SimpleCommand) -> Segment:
        finding = _Finding()
        here = self._here()
        check = self._check(simple.words) if simple.words else None
        if simple.trouble:
            finding.refuse(simple.trouble, opaque=True)
        known = (lambda name, word: is_harmless_variable(name, word, self._inside)) if check else None
        self._assigns(simple.assigns, simple.words, finding, exported=bool(simple.words), known=known)
        for redirect in simple.redirects:
            effect = judge_redirect(redirect, self._places, self._directories())
            if effect.why:
                finding.refuse(effect.why, opaque=True, risk=effect.risk)  # `always` covers no redirection
            elif looks_private(redirect.target, here):
                finding.refuse(Text("policy.why.private"), opaque=True)
        if simple.words:
            if any(looks_private(word, here) for word in simple.words):
                finding.refuse(Text("policy.why.private"), opaque=True)
            check = None if finding.rule else check
            if check is None or check.doubt:
                self._command(simple.words, finding, fed=simple.fed)
            if check is not None:  # without doubt all its words are known, so that none is a risk
                wraps = unwrap(base_name(simple.words[0].text), simple.words[1:]) is not None
                finding.refuse(check.reason, opaque=wraps)
                finding.rule = check.doubt or finding.rule
            if finding.rule:
                self._check_steering(simple.words, finding)
        self._writes(simple, finding)
        listed = bool(simple.words) and is_listed(_program(simple.words[0].text))
        name = name_of(simple.words, listed=listed, inside=self._places.inside)
        by_directory = depends_on_directory(simple.words, listed=listed)
        return Segment(
            command=simple.source,
            name=self._places.named(name) if by_directory else name,
            read_only=not finding.rule,
            opaque=finding.opaque,
            rule=finding.rule or finding.note or Text("policy.reads.only"),
            risks=finding.risks,
            guarded=finding.guarded,
            check=check,
        )

    def _check_steering(self, words: list[Word], finding: _Finding) -> None:
        """`always tee` must not cover git's hooks, coder's own settings or an agent's instructions."""
        named = next((word.text for word in words[1:] if self._places.protected(word.text)), None)
        if named is not None:
            finding.opaque = True
            if any(base_name(word.text) in _WRITERS for word in words):
                finding.risks.append(Text("policy.risk.steering", path=named))

    def _check(self, words: list[Word]) -> Check | None:
        """The check that these words are, as a program of this directory."""
        name = words[0].text
        looks = is_listed(name) or look_up(name, words[1:], self._places).why is None  # `make --version`
        if looks or not words[0].exact or name in self._shadowed:
            return None
        directories = [Path(self._places.real(directory)) for directory in self._directories()]
        around = Around(Path(self._places.real_root), directories, self._inside, self._script)
        return find_check(words, around)

    def _directories(self) -> list[Path]:
        return self._places.directories if self._in is None else [self._places.directories[0] / self._in]

    def _here(self) -> WorkingDirectories:
        return self._places if self._in is None else self._places.starting_in(self._directories()[0])

    def _inside(self, target: str) -> bool:
        """Whether `target` lies in the workspace, from where the current command runs."""
        if self._in is None:
            return self._places.inside(target)
        return self._places.inside(str(self._directories()[0] / target)) and not target.startswith("~")

    def _script(self, text: str, directory: Path) -> ShellVerdict:
        """The verdict on a script of package.json, which `sh` runs in its directory."""
        places = WorkingDirectories(self._places.root, directory)
        return _Judge(places, self._depth + 1, posix=True).line(text)

    def _writes(self, simple: SimpleCommand, finding: _Finding) -> None:
        """Collect what the command names to write outside the workspace."""
        named = [Written(redirect.target) for redirect in simple.redirects if redirect.operator in _WRITING]
        if simple.words:
            name, args = _program(simple.words[0].text), simple.words[1:]  # not a project's own `./mkdir`
            known = written_by(name, args)
            # What is harmless only in the environment of read-only lines has another one here.
            if known is None and (finding.rule or finding.opaque or finding.guarded):
                self._plain = False
            named += output_files(name, args) if known is None else known
            self._links = self._links or self._may_place_link(name, args)
            # What `~+` and `~name` expand to is not known here.
            if any(word.shell_text[:1] == "~" and word.shell_text[1:2] not in ("", "/") for word in args):
                self._plain = False
            self._following += bool(named) and name != "mkdir"
        elif named:
            self._following += 1
        if simple.assigns or simple.trouble or not all(one.word.exact for one in named):
            self._plain = False
        for one in named:
            path = self._places.outside(one.word, self._directories())
            if not path and (kept := self._places.target(one.word, self._directories())):
                self._inside_writes.add(kept)
            self._exchangeable = self._exchangeable or self._places.exchangeable(one, path)
            inside = path and one.into and Path(path).is_dir()
            targets = (
                [f"{path.rstrip('/')}/{name}" for name in one.into] if inside else [path] if path else []
            )
            for target in targets:
                before = self._outside.get(target)
                entry = one.entry or (before is not None and before.entry)
                gone = one.gone or (before is not None and before.gone)
                self._outside[target] = OutsideWrite(target, entry, gone)
                risk = outside_risk(target, self._places.scratch)
                finding.refuse(Text("policy.why.writes_outside", path=target), opaque=True, risk=risk)

    def _may_place_link(self, name: str, args: list[Word]) -> bool:
        """Whether another command of the line could write through a link that this one puts somewhere."""
        if name not in ("cp", "mv"):
            return name == "ln"
        sources = [directory / word.text for directory in self._directories() for word in args[:-1]]
        return any(source.is_symlink() or source.is_dir() for source in sources)

    def _assigns(
        self,
        assigns: list[tuple[str, Word]],
        words: list[Word],
        finding: _Finding,
        *,
        exported: bool,
        known: Callable[[str, Word], bool] | None = None,
    ) -> None:
        for name, word in assigns:
            if known is not None and known(name, word):
                continue
            value = word.text if word.exact else None
            if looks_private(word, self._places):
                finding.refuse(Text("policy.why.private"), opaque=True)
            if name == "IFS" and words and words[0].text == "read":
                continue  # `while IFS= read -r line`: scoped to the read
            if is_dangerous(name, value):
                finding.refuse(Text("policy.why.changes_variable", name=name), opaque=True)
            elif exported and not may_be_exported(name, value):
                finding.refuse(Text("policy.why.changes_variable", name=name))

    def _command(self, words: list[Word], finding: _Finding, *, fed: bool = False, nested: int = 0) -> None:
        """One command and what it runs."""
        head, args = words[0], words[1:]
        if not head.exact or not head.text:
            finding.refuse(Text("policy.why.unseen"), opaque=True, risk=_UNSEEN)
            self._scan_for_risks(args, finding)
            return
        if nested > _MOST_NESTED:
            finding.refuse(Text("policy.why.unseen"), opaque=True, risk=_UNSEEN)
            return
        if head.shell_text in _RESERVED:
            raise ShellParseError(head.text)
        name = base_name(head.text) if self._places.confined else _program(head.text)
        risk = danger_of(head.text, args)
        if risk:
            finding.refuse(Text("policy.why.dangerous"), opaque=base_name(head.text) in PRIVILEGED, risk=risk)
        finding.guarded = finding.guarded or name != _program(head.text)
        if name in self._shadowed or head.text in self._shadowed:
            finding.refuse(Text("policy.why.shadowed"), opaque=True)
            return
        if "/" in name or ("/" not in head.text and self._places.holds_program(name)):
            finding.refuse(Text("policy.why.not_system"))
        if reads_private_tree(name, args, self._here()):
            finding.refuse(Text("policy.why.private"), opaque=True)
        inner = unwrap(base_name(head.text), args)
        if inner is not None:
            self._wrapper(base_name(head.text), args, inner, finding, fed=fed, nested=nested)
            return
        self._known(name, args, finding)

    def _known(self, name: str, args: list[Word], finding: _Finding) -> None:
        if name == "find":  # all its predicates are known, or `unwrap` would have caught it
            return
        known = look_up(name, args, self._places)
        finding.guarded = finding.guarded or known.guarded
        if name == "git" and self._cleared:
            finding.refuse(Text("policy.why.git_programs"), opaque=True)
        if known.why:
            finding.refuse(known.why, opaque=_runs_others(name, args, known.listed))
        if name in ("cd", "pushd", "popd"):
            target = args[-1].text if len(args) == 1 and args[0].exact else None
            self._places.enter(target)

    def _wrapper(
        self, name: str, args: list[Word], inner: Inner, finding: _Finding, *, fed: bool, nested: int
    ) -> None:
        finding.opaque = True
        finding.note = Text("policy.reads.wrapped", name=name)
        self._assigns(inner.assigns, [], finding, exported=True)
        if inner.acts:
            finding.refuse(inner.note or Text("policy.why.acts", name=name))
        if not inner.certain:
            finding.refuse(inner.note or Text("policy.why.unseen"))
            self._uncertain_wrapper(name, args, finding, fed=fed)
        if inner.elsewhere:
            self._places.enter(None)
        outer, self._cleared = self._cleared, self._cleared or inner.clears
        for command in inner.commands:
            self._command(command, finding, fed=fed, nested=nested + 1)
        for line in inner.lines:
            posix = self._posix if inner.posix is None else inner.posix
            inside = _Judge(self._places, self._depth + 1, self._shadowed, posix=posix, cleared=self._cleared)
            verdict = inside.line(line)
            self._extra.extend(verdict.segments)
            for risk in (*verdict.risks, *(() if verdict.read_only else (None,))):
                finding.refuse(Text("policy.why.acts", name=name), risk=risk)
        self._cleared = outer

    def _uncertain_wrapper(self, name: str, args: list[Word], finding: _Finding, *, fed: bool) -> None:
        """A wrapper whose command is not certain: scan all its arguments for risks."""
        operands = [word for word in args if not (word.exact and word.text.startswith("-"))]
        if name in SHELLS:
            script = bool(operands) and not any(word.text == "-s" for word in args)
            if not script or fed:
                finding.refuse(Text("policy.why.unseen"), risk=_FED_SHELL)
            if any(not word.exact for word in args):
                finding.refuse(Text("policy.why.unseen"), risk=_UNSEEN)
        elif is_interpreter(name) and fed and not operands:
            finding.refuse(Text("policy.why.unseen"), risk=_FED_SHELL)
        elif name == "eval" or (name in ("source", ".") and any(not word.exact for word in args)):
            finding.refuse(Text("policy.why.unseen"), risk=_UNSEEN)
        if name in SHELLS or not is_interpreter(name):  # code in another language is no shell line
            self._scan_for_risks(args, finding)

    def _scan_for_risks(self, args: list[Word], finding: _Finding) -> None:
        """Risks among words that may or may not run: a destructive command's name, or a line."""
        for index, word in enumerate(args):
            # `alias x='rm y'`: the value after the equals sign counts as well.
            for text in {word.text, word.text.split("=", 1)[-1]}:
                risk = danger_of(text, args[index + 1 :])
                if risk:
                    finding.refuse(Text("policy.why.may_risk"), risk=risk)
                elif any(char in text for char in " \n;&|`$(<>") and not _is_code(args[:index]):
                    inner = _Judge(self._places, self._depth + 1, self._shadowed).line(text)
                    for inner_risk in inner.risks:
                        finding.refuse(Text("policy.why.may_risk"), risk=inner_risk)


def _is_code(before: list[Word]) -> bool:
    """Whether the next word is code of an interpreter other than a shell: `uv run python -c …`."""
    if len(before) < 2 or before[-1].text not in ("-c", "-e"):
        return False
    name = base_name(before[-2].text)
    return is_interpreter(name) and name not in SHELLS


def _mentioned(word: Word) -> Segment:
    """Private data that a variable or the input of a command gets: `for f in ~/.ssh/*`."""
    why = Text("policy.why.private")
    return Segment(command=word.shell_text, name="", read_only=False, opaque=True, rule=why, risks=[])


def _program(path: str) -> str:
    """The name to look up: a path counts as the system's program only in a system directory."""
    for directory in _TRUSTED_DIRECTORIES:
        if path.startswith(directory) and "/" not in path[len(directory) :]:
            return path[len(directory) :]
    return path


def _runs_others(name: str, args: list[Word], listed: bool) -> bool:
    """Whether `always` must not cover this call because it may run something that its name does not say."""
    if name == "git":
        return git_rules.runs_programs(args)
    if not listed:
        return any(word.text.split("=", 1)[0] in _RUN_OPTIONS for word in args)
    return name in ("awk", "gawk", "mawk", "nawk", "sed", "gsed", "rg", "fd", "fdfind", "sort")


def _aliases(parsed: Line) -> set[str]:
    """Names that the line redefines by `alias`."""
    return {
        word.text.split("=", 1)[0]
        for simple in parsed.commands
        if simple.words and simple.words[0].text == "alias"
        for word in simple.words[1:]
    }


def _unparsed(text: str, why: Text) -> ShellVerdict:
    command = text if len(text) <= 2000 else text[:2000] + " …"
    risks = [Text("policy.unread", why=why)]
    segment = Segment(command, name="", read_only=False, opaque=True, rule=why, risks=risks)
    return ShellVerdict([segment], read_only=False, risks=risks, parsed=False)
