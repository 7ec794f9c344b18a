"""Recognizes checks: commands that test, lint or type-check, by their words and not by their spelling.

One recognizer for two uses: what the model may run unasked (`Check.doubt` is None, see `shell.judge`), and
what a line that ran has shown (`check_lines`). For the first every word must be in the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import join

import msgspec

from coder.base.safe_open import read_whole
from coder.policy import check_programs as table
from coder.policy.check_programs import Option, Program, options_in
from coder.policy.programs import names
from coder.policy.shell.verdict import Check, ShellVerdict
from coder.policy.shell.words import Word, may_be_exported
from coder.policy.verification import TOOL_DIRECTORIES
from coder.texts import Text

MAX_PACKAGE = 4_000_000  # bytes of a package.json that is looked into
# Where a project keeps the programs that it has installed for itself.
_OWN_DIRECTORIES = (*TOOL_DIRECTORIES, "env/bin", "vendor/bin")
_SYSTEM_DIRECTORIES = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_PYTHON = re.compile(r"python[\d.]*|py")
_PYTHON_OPTIONS = "-B -u -s -E -I -b -bb -X=dev|utf8(?:=1)? -W=(?:error|ignore|default|always)(?:::\\w+)?"
_MANAGERS = names("npm pnpm yarn bun")
_MANAGER_OPTIONS = "-s --silent -q --quiet --if-present --no-color --loglevel= --color=false --bun"
_SCRIPT_ARGUMENTS = Program("tests", "--watch=false --watchAll=false --run --ci --silent --coverage")
_RUN_MANY = names("run-s run-p npm-run-all npm-run-all2")
_STEERING = re.compile(r"(?m)^\s*(?:script-shell|node-options|shell-emulator)\s*=")
_TEST_SCRIPT = re.compile(
    r"(?:.*/)?(?:run[-_]?)?(?:unit[-_]?)?tests?(?:[-_](?:all|unit))?(?:\.(?:sh|py|js|rb|mjs|cjs|ts))?"
)
_TEST_FILE = re.compile(r"(?:.*/)?(?:test_\w+|\w+_test|[\w.-]+\.(?:test|spec))\.\w+")
_JVM_TASK = re.compile(r"test|verify|check|build|\w+Test")
_SHELLS = ("bash", "sh")


class Around(msgspec.Struct, frozen=True):
    """What a command's words are looked up in. `judge`: the verdict on a script of `package.json`."""

    root: Path
    directories: list[Path]  # where the command may run
    inside: Callable[[str], bool]
    judge: Callable[[str, Path], ShellVerdict]


def find_check(words: list[Word], around: Around | None = None) -> Check | None:
    """The check that a simple command is, or None. Without `around` by its words alone."""
    finder = _Finder(around)
    if around is not None and not around.inside("."):
        finder.doubt = Text("policy.why.leaves")
    return finder.check(words)


def is_harmless_variable(name: str, word: Word, inside: Callable[[str], bool]) -> bool:
    """Whether a check may be given this variable."""
    pattern = table.VARIABLES.get(name)
    if pattern is None or not word.exact:
        return False
    if pattern == "@":
        return all(part and inside(part) for part in word.text.split(":"))
    return re.fullmatch(pattern, word.text) is not None


class _Finder:
    """Reads the words of one command and notes the first that is not known."""

    def __init__(self, around: Around | None) -> None:
        self._around = around
        self.doubt: Text | None = None
        self._local = ""  # the runner that would download missing programs

    def check(self, words: list[Word]) -> Check | None:
        words = self._unwrapped(words)
        if not words or not words[0].exact:
            return None
        name, args = self._program(words[0].text), words[1:]
        if _PYTHON.fullmatch(name):
            return self._python(args)
        if name in _MANAGERS:
            return self._manager(name, args)
        if name in _RUN_MANY:
            return self._run_many(name, args)
        if name == "node":
            return self._node(args)
        if name in _SHELLS:
            return self._file(args[0], name, asks=True) if args else None
        if words[0].text.startswith("./") and name not in table.PROGRAMS and name not in table.FIRST_WORDS:
            return self._file(words[0], "", asks=True)
        return None if name in table.MODULES else self._known(name, args)

    def _known(self, name: str, args: list[Word]) -> Check | None:
        """A program of the table, with its subcommand if it has one."""
        at = next(
            (n for n, word in enumerate(args) if f"{name} {word.text}" in table.PROGRAMS and word.exact), None
        )
        if at is not None and (
            at == 0 or (name not in table.PROGRAMS and all(map(Word.maybe_option, args[:at])))
        ):
            for word in args[:at]:
                self._suspect(name, word)
            name, args = f"{name} {args[at].text}", args[at + 1 :]
        program = table.PROGRAMS.get(name)
        if program is None:
            return None
        if self._local:
            self._installed(name.split()[0])
        if program.asks:
            self._suspect_program(name)
        return self._result(name, program, args)

    def _result(self, name: str, program: Program, args: list[Word]) -> Check | None:
        part, seen = self._arguments(name, program, args)
        kind = _kind_of_tasks(name, seen) if program.targets else program.kind
        if kind is None or (program.needs and not seen & names(program.needs)):
            return None
        letters = table.DRY_LETTERS.get(name.split()[0], "")
        dry = any(
            word.text in table.DRY or (letters and re.fullmatch(rf"-\w*[{letters}]\w*", word.text))
            for word in args
        )
        return Check(kind, name, part and kind == "tests", dry, self.doubt)

    def _python(self, args: list[Word]) -> Check | None:
        args = self._options("python", options_in(_PYTHON_OPTIONS), args, ("-m",))
        if args[:1] and args[0].text == "-m" and len(args) > 1 and args[1].exact:
            if args[1].text == "coverage":
                return self.check(args[1:])
            known = args[1].text in table.MODULES or args[1].text in table.PYTHON_PROGRAMS
            return self._known(args[1].text, args[2:]) if known else None
        if not args or not args[0].exact or args[0].text.startswith("-"):
            return None
        if args[0].text.rsplit("/", 1)[-1] == "manage.py":
            self._path("manage.py", args[0])
            return self._known("manage.py", args[1:])
        return self._file(args[0], "python", args[1:])

    def _node(self, args: list[Word]) -> Check | None:
        if any(word.text == "--test" for word in args):
            return self._result("node --test", table.PROGRAMS["node --test"], args)
        rest = self._options("node", options_in(table.PROGRAMS["node --test"].options), args)
        if not rest or not rest[0].exact or rest[0].text.startswith("-"):
            return None
        path = rest[0].text
        stem = path.rsplit("/", 1)[-1].split(".")[0]
        if path.removeprefix("./").startswith("node_modules/") and stem in table.PROGRAMS:
            self._path("node", rest[0])
            return self._known(stem, rest[1:])
        return self._file(rest[0], "node", rest[1:])

    def _file(
        self, path: Word, program: str, args: Iterable[Word] = (), *, asks: bool = False
    ) -> Check | None:
        """A file of the project that is named as a test is."""
        whole = _TEST_SCRIPT.fullmatch(path.text)
        if not path.exact or not (whole or _TEST_FILE.fullmatch(path.text)):
            return None
        self._path(program, path)
        for word in args:
            self._suspect(path.text, word)
        if asks:
            self._suspect_program(path.text)
        return Check("tests", f"{program} {path.text}", not whole, False, self.doubt)

    def _manager(self, name: str, args: list[Word]) -> Check | None:
        options = options_in(_MANAGER_OPTIONS)
        args = self._options(name, options, args)
        if not args or not args[0].exact:
            return None
        first = args[0].text
        if name == "bun" and first == "test":
            return self._known(name, args)
        if first in ("run", "run-script"):
            args = self._options(name, options, args[1:])
            if not args or not args[0].exact:
                return None
            script = args[0].text
            title = f"{name} run {script}"
        else:
            script = "test" if first in ("t", "tst") else first
            title = f"{name} {script}"
            if name == "npm" and script != "test":
                return None
        given = args[1:]
        if name == "npm":  # it takes options before `--` for its own settings
            given = self._options(name, options, given, operands=True)
        elif given and given[0].text == "--":
            given = given[1:]
        return self._script(title, script, given, explicit=name == "npm")

    def _script(self, name: str, script: str, given: list[Word], *, explicit: bool) -> Check | None:
        kind = _kind_of_task(script)
        if self._around is None:
            if kind is None:
                return None if explicit else self._known(script, given)
            part, _ = self._arguments(name, _SCRIPT_ARGUMENTS, given)
            dry = any(word.text in table.DRY for word in given)
            return Check(kind, name, part and kind == "tests", dry, self.doubt)
        found: list[Check] = []
        for directory in self._around.directories:
            package = _package_of(directory, self._around.root)
            texts = _texts(package, script) if package else {}
            if script not in texts:
                if not explicit:
                    return self._known(script, given)
                self.doubt = self.doubt or Text("policy.why.no_script", script=script)
                break
            if not all(word.exact for word in given):
                self._suspect(name, next(word for word in given if not word.exact))
            arguments = join(word.text for word in given)
            texts[script] = f"{texts[script]} {arguments}".rstrip()
            assert package is not None
            found += self._judged(texts, package)
        if not found:
            return None if kind is None else Check(kind, name, doubt=self.doubt)
        tests = [check for check in found if check.kind == "tests"]
        part = any(check.part for check in tests)
        dry = all(check.dry for check in found)
        return Check("tests" if tests else "lint", name, part, dry, self.doubt)

    def _judged(self, texts: dict[str, str], package: Path) -> list[Check]:
        """The checks that scripts run."""
        assert self._around is not None
        found: list[Check] = []
        if _is_steered(package, self._around.root):
            self.doubt = self.doubt or Text("policy.why.check_opaque", name="npm")
        for script, text in texts.items():
            verdict = self._around.judge(text, package)
            found += verdict.checks
            if not verdict.only_checks:
                self.doubt = self.doubt or Text("policy.why.script", script=script, text=text)
        if not found:
            self.doubt = self.doubt or Text("policy.why.script", script=next(iter(texts)), text="")
        return found

    def _run_many(self, name: str, args: list[Word]) -> Check | None:
        """`run-s lint test:*`: all of them must be checks."""
        if self._around is None:
            return None
        package = _package_of(self._around.directories[0], self._around.root)
        scripts = _scripts(package) if package else {}
        flags = options_in("-s -p -l -n --silent --sequential --parallel --print-label --serial")
        wanted = self._options(name, flags, args, operands=True)
        texts: dict[str, str] = {}
        for word in wanted:
            matching = [script for script in scripts if fnmatchcase(script, word.text)] if word.exact else []
            if not matching:
                self._suspect(name, word)
            for script in matching:
                texts |= _texts(package, script) if package else {}
        found = self._judged(texts, package) if package and texts else []
        tests = any(check.kind == "tests" for check in found)
        return Check("tests" if tests else "lint", name, doubt=self.doubt) if found else None

    def _installed(self, name: str) -> None:
        """`npx` downloads what the project does not have."""
        if self._around is None:
            return
        for directory in self._around.directories:
            places = [directory, *directory.parents]
            below = [place for place in places if place.is_relative_to(self._around.root)]
            if not any((place / "node_modules/.bin" / name).exists() for place in below):
                self.doubt = self.doubt or Text("policy.why.downloads", runner=self._local, name=name)

    def _unwrapped(self, words: list[Word]) -> list[Word]:
        """The command that `timeout`, `env`, `uv run`, `npx` and the like run."""
        while words and words[0].exact:
            name = self._program(words[0].text)
            key, rest = name, words[1:]
            if name not in table.WRAPPERS:
                key, rest = f"{name} {words[1].text if len(words) > 1 else ''}", words[2:]
            wrapper = table.WRAPPERS.get(key)
            if wrapper is None:
                return words
            if wrapper.asks:
                self._suspect_program(key)
            rest = self._options(key, options_in(wrapper.options), rest, ("-m",))
            for _ in range(wrapper.operands):
                if not rest or not rest[0].exact or not re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", rest[0].text):
                    self._suspect(key, rest[0] if rest else words[0])
                rest = rest[1:]
            while wrapper.assigns and rest and "=" in rest[0].text:
                self._assign(key, rest[0])
                rest = rest[1:]
            if rest and rest[0].exact and rest[0].text == "-m":
                return [Word("python"), *rest]
            if rest and wrapper.downloads:
                self._local = key
                rest = [Word(rest[0].text.removeprefix("@biomejs/"), exact=rest[0].exact), *rest[1:]]
            words = rest
        return words

    def _assign(self, name: str, word: Word) -> None:
        variable, _, value = word.text.partition("=")
        inside = self._around.inside if self._around else bool
        plain = word.exact and may_be_exported(variable, value)
        if not plain and not is_harmless_variable(variable, Word(value, exact=word.exact), inside):
            self._suspect(name, word)

    def _options(
        self,
        name: str,
        known: dict[str, Option],
        args: list[Word],
        ends: tuple[str, ...] = (),
        *,
        operands: bool = False,
    ) -> list[Word]:
        """The words after the options; with `operands` the operands among them too."""
        found: list[Word] = []
        while args:
            word = args[0]
            if word.exact and word.text in ends:
                return found + args
            if word.exact and word.text == "--":
                return found + args[1:]
            if not word.maybe_option() or not word.exact:
                if not operands:
                    return args
                found.append(word)
                args = args[1:]
                continue
            args = args[self._option(name, known, "", args) :]
        return found

    def _arguments(self, name: str, program: Program, args: list[Word]) -> tuple[bool, set[str]]:
        """Whether they select some of the tests, and the options and operands that are there."""
        narrowing = options_in(program.part)
        known = options_in("--version --help") | options_in(program.options) | narrowing
        part, seen, rest = False, set[str](), False
        while args:
            word = args[0]
            if word.exact and word.text == "--" and not rest:
                rest, args = True, args[1:]
                known = options_in(program.rest) if program.rest else {}
                continue
            if word.maybe_option() and word.exact:
                option = word.text.partition("=")[0]
                seen |= {option, word.text}
                clustered = bool(program.letters) and option[1:2] != "-" and option[:2] in narrowing
                part = part or option in narrowing or clustered
                args = args[self._option(name, known, program.letters, args) :]
                continue
            seen.add(word.text)
            part = part or word.text not in table.WHOLE
            if not program.targets:
                self._path(name, word)
            elif not word.exact or not re.fullmatch(program.targets, word.text):
                self._suspect(name, word)
            args = args[1:]
        return part, seen

    def _option(self, name: str, known: dict[str, Option], letters: str, args: list[Word]) -> int:
        """How many words an option takes, its value included."""
        text = args[0].text
        option, attached, value = text.partition("=")
        if option not in known and text[1:2] != "-":
            short = text[1:].lstrip(letters) if letters else text[1:]
            option, attached, value = f"-{short[:1]}", short[1:], short[1:]
            if letters and not short:
                return 1
            if not letters and not value.isdigit():  # `-timeout` is no `-t imeout`
                option = ""
        found = known.get(option)
        if found is None:
            # Evidence goes on behind it; the value of a few is known to follow.
            self._suspect(name, args[0])
            return 2 if text in _VALUED and len(args) > 1 else 1
        if attached:
            if not found.form or not self._fits(found, value):
                self._suspect(name, args[0])
            return 1
        if found.form in ("", "?="):
            return 1
        following = args[1] if len(args) > 1 and found.form == "=" else None
        if following is None or following.maybe_option() or not following.exact:
            self._suspect(name, args[0])
        elif not self._fits(found, following.text):
            self._suspect(name, following)
        return 2

    def _is_inside(self, path: str) -> bool:
        return self._around is None or self._around.inside(path)

    def _fits(self, option: Option, value: str) -> bool:
        if option.value == "@":  # not what a program may read as a setting or as code
            return re.fullmatch(r"[\w@.][\w@./+-]*", value) is not None and self._is_inside(value)
        return re.fullmatch(option.value, value, re.DOTALL) is not None

    def _path(self, name: str, word: Word) -> None:
        """A file, a directory or a name; a glob only in the last part of a path."""
        text = word.text
        if word.globs and not word.splits and word.shell_text.rfind("/") < len(text):
            known = text != "" and "$" not in word.shell_text
        else:
            known = word.exact
        odd = text.startswith(("@", "-", "~")) or "://" in text
        if not known or odd or not self._is_inside(text.split("::")[0]):
            self._suspect(name, word)

    def _program(self, text: str) -> str:
        """The name of a program. One by its path is the system's or the project's own."""
        directory, _, name = text.rpartition("/")
        if not directory or directory in _SYSTEM_DIRECTORIES:
            return text.rpartition("/")[2]
        own = directory == "." and name in ("gradlew", "mvnw")
        own = own or f"/{directory}".endswith(tuple(f"/{place}" for place in _OWN_DIRECTORIES))
        if not own or not self._is_inside(directory):
            self.doubt = self.doubt or Text("policy.why.not_system")
        return name

    def _suspect(self, name: str, word: Word) -> None:
        shown = word.shell_text or word.text
        self.doubt = self.doubt or Text("policy.why.check_word", name=name, word=shown)

    def _suspect_program(self, name: str) -> None:
        self.doubt = self.doubt or Text("policy.why.check_opaque", name=name)


# Of options that are not known, those whose value follows.
_VALUED = names("--with --python -p --extra --group -s -t -C -f -c -j -n -o --prefix --timeout -timeout")


def _kind_of_task(task: str) -> table.Kind | None:
    return "tests" if table.TEST_TASK.fullmatch(task) else "lint" if table.LINT_TASK.fullmatch(task) else None


def _kind_of_tasks(name: str, tasks: set[str]) -> table.Kind | None:
    """The kind of tasks or goals; `tests` if one of them tests."""
    if name in ("mvn", "mvnw", "gradle", "gradlew"):
        last = {task.rpartition(":")[2] for task in tasks}
        tasks = {
            "test" if _JVM_TASK.fullmatch(task) else re.sub(r"^compile.*", "compile", task) for task in last
        }
    kinds = {_kind_of_task(task) for task in tasks}
    return "tests" if "tests" in kinds else "lint" if "lint" in kinds else None


def _package_of(directory: Path, root: Path) -> Path | None:
    """The directory of the nearest package.json, inside the workspace."""
    for place in (directory, *directory.parents):
        if not place.is_relative_to(root):
            return None
        if (place / "package.json").exists() or place == root:
            return place
    return None


def _scripts(package: Path) -> dict[str, str]:
    try:
        found = msgspec.json.decode(read_whole(package / "package.json", MAX_PACKAGE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return {k: v for k, v in scripts.items() if isinstance(v, str)} if isinstance(scripts, dict) else {}


def _texts(package: Path, script: str) -> dict[str, str]:
    """The script with those that run before and after it."""
    scripts = _scripts(package)
    return {name: scripts[name] for name in (f"pre{script}", script, f"post{script}") if name in scripts}


def _is_steered(package: Path, root: Path) -> bool:
    """Whether npm's settings have scripts run by something else than the shell."""
    for directory in {package, root}:
        try:
            text = read_whole(directory / ".npmrc", MAX_PACKAGE).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if _STEERING.search(text):
            return True
    return False
