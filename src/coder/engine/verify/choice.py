"""Which command verifies: what the person named, else what is configured, else what suits the project."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from coder.base.safe_open import read_whole
from coder.policy.verification import in_directories, is_document, is_verification, same_check

_MAX_PACKAGE = 4_000_000  # bytes of a package.json that is looked into
_NO_TEST = "no test specified"  # what `npm init` writes where a test would be
_PYTHON = {".py", ".pyi"}
_SCRIPTS = {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"}
_JAVA = {".java", ".kt", ".groovy", ".scala"}
_MAX_DIRECTORIES = 3  # sub-projects that one check covers; more are the workspace's own check


class Choice(msgspec.Struct, frozen=True):
    """The command to run ("" for none) and those that were named but are not on the list."""

    command: str
    refused: list[str]


def choose(
    text: str,
    configured: Iterable[str],
    root: Path,
    edited: Iterable[str],
    allow: Collection[str] = (),
) -> Choice:
    """A command that somebody named and that is not on the list is never replaced by another."""

    wanted = named(text, root, allow)
    if wanted:
        listed = [command for command in wanted if is_verification(command, root, allow)]
        refused = [command for command in wanted if command not in listed]
        return Choice(in_directories([("", command) for command in listed]) if listed else "", refused)
    refused = []
    for command in (command.strip() for command in configured):
        if is_verification(command, root, allow):
            return Choice(command, refused)
        refused.append(command)
    return Choice("", refused) if refused else Choice(_inferred(root, edited), [])


def project_check(configured: Iterable[str], root: Path, allow: Collection[str] = ()) -> str:
    """The check of the whole project, before anything is edited; "" where none is known."""
    listed = [command.strip() for command in configured if is_verification(command.strip(), root, allow)]
    return next(iter([*listed, *(command for command, _ in _candidates(root, top=True))]), "")


def _inferred(root: Path, edited: Iterable[str]) -> str:
    """The checks of the sub-projects that the edited files lie in, else of the workspace."""
    found: dict[tuple[str, str], None] = {}
    for path in sorted(edited):
        if not is_document(path) and (check := _check_for(root, PurePosixPath(path))):
            found[check] = None
    if len(found) > _MAX_DIRECTORIES:
        found = {check: None for check in found if not check[0]}
    return in_directories(list(found)) if found else ""


def _check_for(root: Path, path: PurePosixPath) -> tuple[str, str] | None:
    """The directory nearest to a file that has a check for its language; else the nearest that has any."""
    if path.is_absolute() or ".." in path.parts:
        path = PurePosixPath(path.name)
    other: tuple[str, str] | None = None
    for directory in path.parents:
        name = "" if directory == PurePosixPath(".") else str(directory)
        for command, languages in _candidates(root / directory, top=not name):
            if path.suffix in languages and not (languages is _JAVA and name and _has_java(root)):
                return name, command
            other = other or (name, command)
    return other


def _has_java(root: Path) -> bool:
    """Whether modules below belong to a build of the whole."""
    return any(languages is _JAVA for _, languages in _candidates(root, top=True))


def _candidates(directory: Path, *, top: bool) -> Iterable[tuple[str, set[str]]]:
    """Every kind of project the directory looks like, with the files its check is about."""

    def has(*names: str) -> bool:
        return any((directory / name).exists() for name in names)

    python = has("pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini")
    if python or (top and (has("conftest.py") or _has_tests(directory))):  # further down these are its tests
        yield "pytest -q", _PYTHON
    if has("go.mod"):
        yield "go test ./...", {".go"}
    if has("Cargo.toml"):
        yield "cargo test", {".rs"}
    if _has_test_script(directory / "package.json"):
        if has("pnpm-lock.yaml"):
            yield "pnpm test -- --watch=false", _SCRIPTS
        elif has("yarn.lock"):
            yield "yarn test --watch=false", _SCRIPTS
        else:
            yield "npm test -- --watch=false", _SCRIPTS
    if has("pom.xml"):
        yield "mvn -q test", _JAVA
    if has("gradlew"):
        yield "./gradlew test", _JAVA
    elif has("build.gradle", "build.gradle.kts"):
        yield "gradle test", _JAVA


def _has_tests(root: Path) -> bool:
    return any(next(directory.glob("test_*.py"), None) for directory in (root, root / "tests", root / "test"))


def _has_test_script(path: Path) -> bool:
    try:
        package = msgspec.json.decode(read_whole(path, _MAX_PACKAGE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return isinstance(scripts, dict) and "test" in scripts and _NO_TEST not in str(scripts["test"])


# Patterns stay text: they are compiled at the first turn that needs them, off the start-up path.
_FILE = (
    r"(?<![\w./\\-])[\w./\\-]*\w\."  # from a word's beginning: else a long one is read from each letter
    r"(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|sh|bash|md|txt|rst|json"
    r"|ya?ml|toml|ini|cfg|xml|html|css|scss|sql|vue|svelte|swift|lua|log|lock|ipynb|conf|env|bat|ps1)\b"
)
_QUOTED = r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|『[^』\n]*』"
_SENTENCES = r"(?<=[.!?])\s+|(?<=[。！？；;])|\n+"
_CLAUSES = r"[，,、]"

# An order begins a clause, or follows one of these.
_ORDER = (
    r"(?:^[\s(*#>-]*(?:\d+[.)]\s*)?"
    r"|\b(?:and|then|please|also|finally|afterwards|next|now|just|always|but|do|forget to|sure to|sure you"
    r"|remember to|you to|you should|you must|(?:can|could|would|will) you|let's)\s+(?:also\s+)?)"
)
_RUN = r"(?:re-?)?run|execute"
_RUNNING = r"(?:re-?)?run(?:ning)?|execut(?:e|ing)|start(?:ing)?|launch(?:ing)?"
_WHICH = (
    r"(?:(?:the|any|all|your|our|its|my|full|whole|entire|complete|existing|unit|integration|project's|test)"
    r"\s+)*"
)
_TESTS = rf"{_WHICH}(?:tests?|test[- ]?suites?|suite|checks|verification)\b"
_OTHER_THING = r"(?![\w-]|[- ](?:server|script|runner|data|file|environment|env|database|db|app|page)s?\b)"
_CHANGE = (
    r"(?:it|this|that|them|everything|all"
    r"|(?:the|your|my|these) (?:changes?|fix(?:es)?|results?|edits?|work))\b"
)
_ASKED = (
    rf"{_ORDER}(?:{_RUN})\s+{_TESTS}{_OTHER_THING}",
    rf"{_ORDER}verify(?:\s+{_CHANGE}|\s+(?:with|using|by|afterwards|again|too)\b|\s*[.!;)]*$)",
    rf"{_ORDER}verify\s+that\b.*\b(?:works?|pass)",
    rf"{_ORDER}test\s+(?:{_CHANGE}|that it works)",
    r"\b(?:make sure|ensure|confirm|check|verify|until|so that)\b.{0,30}\btests?\b.{0,15}\bpass",
    r"\btests? (?:must|should|have to|need to)(?: all| still)* pass\b",
)
_ZH_LEAD = (
    r"(?:^|并且?|然后|再|最后|请你?|帮我|接着|之后|改?后|完|务必|记得|忘了?"
    r"|一定要|需要|要|做|进行|执行|运行|跑)"
)
_ZH_ALL = r"(?:一下|一遍|一次|下|完|通|全部|所有|全量|完整|整个|相关|项目|现有|的|单元|集成|回归|自动化?)*"
_ZH_OTHER = r"(?!文件|脚本|数据|环境|服务|命令|的|时|失败|报错|代码|框架|工具|用例的|码|器|函数)"
_ZH_CHANGE = r"(?:一下|一遍|一次|它|这个|改动|修改|变更|结果|效果|通过|功能)*"
_ZH_ASKED = (
    rf"(?:跑|运行|执行){_ZH_ALL}(?:测试|单测|用例|验证){_ZH_OTHER}",
    rf"{_ZH_LEAD}(?:自动)?(?:验证|校验|测试){_ZH_CHANGE}\s*(?=$|[。；！!.）)]|吗|并|然后|再)",
    r"(?:确保|保证|直到|使|让|应).{0,8}(?:测试|单测|用例).{0,4}通过",
    r"(?:测试|单测|用例)(?:都|全部)*(?:必须|应该|应当|需要|要|须|得)(?:都|全部)*通过",
)
_ZH_NOT_AN_ORDER = r"(?:[不别勿没未][^忘]{0,5}|来|用于|自动|会|在|我|怎么|如何)$"

_QUESTION = (
    r"(?i)^\W*(?:(?:why|how|what|when|where|which|who|does|did|is|are|was|were|has|have|should)\b"
    r"|do (?:the|these|those|all|any|my|your|our|i|we|you|they|tests)\b)"
)
_POLITE = (
    r"(?i)^\W*(?:(?:hi|hello|hey)\W+)?(?:(?:please|and|then)\W+)*(?:can|could|would|will) you\b"
    r"|能|可以|可否|麻烦|好吗|行吗"
)
_WHY = r"(?i)\b(?:how|why|what|whether|which)\b|为什么|为何|怎么|怎样|如何|是否|是不是|有没有"
_ZH_QUESTION = r"为什么|为何|怎么|怎样|如何|是否|是不是|有没有|[吗呢][?？]?$"

_PROGRAMS = (
    r"make|just|task|rake|tox|nox|npm|pnpm|yarn|npx|bun|deno|node|pytest|python[\d.]*|go|cargo|mvn|gradle|ctest"
    r"|cmake|bazel|dotnet|mix|swift|composer|phpunit|bundle|rspec|jest|vitest|mocha|uv|poetry|hatch|pdm|pipenv"
    r"|bash|sh|ruff|mypy|eslint|tsc|flake8|pylint|\./[A-Za-z0-9_./-]+"
)
_GOES_ON = r"and|then|to|before|after|please|in|on|it|the|for|when|so|but|or|again|first|as|if|now|too|once"
_ARGUMENT = r"(?:\./\.\.\.|[A-Za-z0-9_@%+=:./-]*[A-Za-z0-9_@%+=:/-])"
_BARE = rf"(?:{_PROGRAMS})(?![A-Za-z0-9_.-])(?: (?!(?:{_GOES_ON})\b){_ARGUMENT})*"
_COMMAND = rf"(`[^`\n]+`|\"(?:{_BARE})\"|{_BARE})"
_CHECKING = r"(?i)test|check|verify|spec\b|lint|tox|nox"
_VERIFY = r"(?:verify|validate|check|test)\b"
# Who says these means the command that follows, whatever it is; after `run` it must look like a check.
_VERIFY_WITH = (
    rf"\b{_VERIFY}[^.!?。！？\n`]{{0,40}}?\b(?:with|using|by running|by|via|through)\s+{_COMMAND}",
    rf"\b(?:use|using|run|running|execute)\s+{_COMMAND}\s+(?:to|and)\s+{_VERIFY}",
    rf"(?:用|使用|通过|跑|运行|执行)\s*{_COMMAND}\s*(?:来|去|进行|做|再)*(?:验证|校验|检查|测试)",
)
_RUN_IT = (
    rf"{_ORDER}(?:{_RUN})\s+{_COMMAND}",
    rf"(?:跑|运行|执行|用|使用)(?:一下|一遍|一次)?\s*{_COMMAND}",
)

_NOT = (
    r"\b(?:don't|dont|do not|never|must not|should not|not to|need not|no need to|not necessary to|needn't"
    r"|without|avoid|refrain from|instead of|rather than|shouldn't|mustn't|can't|cannot)"
    r"(?:\s+(?:you|please|ever|bother|even|try|to|yet|actually|automatically|need|want|have|me|be))*\s+"
)
_ZH_NOT = (
    r"(?:不要|不用|不需要|不必|无需|无须|别|勿|先不|暂不|暂时不|禁止|不准|不许|不想|不希望|避免|跳过|省略|不能|不)\s*"
    r"(?:再|去|先|给我|帮我|自动|你|主动|急着|做|进行|跑|运行|执行|用|使用|任何|所有|全部|整个|单元|集成|回归"
    r"|完整|一下|这些|的)*\s*"
)
_REFUSED = (
    rf"{_NOT}(?:{_RUNNING})\s+(?:{_TESTS}|them\b|{_COMMAND})",
    rf"{_NOT}(?:verify(?:ing)?|test(?:ing)?|verification)\b"
    rf"(?:\s+{_CHANGE}|\s*(?:$|[.,;!)\n]|(?:any|yet|now|for now|at all|anything)\b))",
    r"\bskip(?:ping)?\s+(?:(?:the|any|all|unit)\s+)*(?:tests?|testing|test runs?|verification|checks)\b"
    r"(?! (?:that|which|in|on))",
    r"\bno (?:tests?|testing|checks?) (?:please|now|yet|this time|for now|needed|required|necessary)",
    r"\bno (?:verification|test runs?)\b",
    rf"\bi(?:'ll| will| can|'d rather)\s+(?:run|do)\s+(?:{_TESTS}|the testing)",
    rf"{_ZH_NOT}(?:测试|单测|用例|校验|{_COMMAND}){_ZH_OTHER}",
    rf"{_ZH_NOT}验证(?=$|[，。；！!,.\s、]|了|它|这|改动|修改|结果|代码)",
    r"(?:测试|单测|验证|用例)[就先都也暂时]*(?:不要|不用|别|不必|先别|先不|不需要|无需)(?:再|去)?(?:跑|运行|执行|做|测)",
    r"我[会来等稍后再]*自己(?:来|会|去)?(?:跑|测|运行|验证|执行)",
)
_FAR = 100  # characters


def asked_for(text: str) -> bool:
    """Whether the person asks for verification in so many words."""
    if refused(text):
        return False
    return bool(named(text, Path("/"))) or any(map(_is_order, _clauses(_bare(text))))


def refused(text: str) -> bool:
    """Whether the person says that nothing is to be run."""
    text = _unstyled(text)
    return any(re.search(pattern, text, re.IGNORECASE | re.MULTILINE) for pattern in _REFUSED)


def named(text: str, root: Path, allow: Collection[str] = ()) -> list[str]:
    """The commands that the person wants used for it, as the list spells them where it has them."""
    found: list[str] = []
    for sentence in _sentences(_unstyled(text)):
        for pattern in _VERIFY_WITH:
            for match in re.finditer(pattern, sentence, re.IGNORECASE):
                if not re.search(f"{_NOT}$", _before(sentence, match), re.IGNORECASE):
                    found += [match[1], *_and_more(sentence[match.end(1) :])]
        for pattern in _RUN_IT:
            matches = [m[1] for m in re.finditer(pattern, sentence, re.IGNORECASE)]
            found += [command for command in matches if _looks_like_a_check(command)]
    commands = [" ".join(command.strip('`"').split()) for command in found if _may_be_a_command(command)]
    commands = ["go test ./..." if command == "go test" else command for command in commands]
    return list(dict.fromkeys(same_check(command, root, allow) or command for command in commands))


def _before(text: str, match: re.Match[str]) -> str:
    """What stands before it, as far as it may negate it: text that is all matches is still read in linear
    time."""
    return text[max(0, match.start() - _FAR) : match.start()]


def _and_more(rest: str) -> Iterator[str]:
    """What is named beside it: `a` and `b`."""
    while match := re.match(rf"\s*(?:,|，|、|and|then|和|与)+\s*{_COMMAND}", rest):
        yield match[1]
        rest = rest[match.end() :]


def _may_be_a_command(quoted: str) -> bool:
    """Code in backticks is not always one: "check it with `x=1`"."""
    known = re.match(rf'[`"]?(?:{_PROGRAMS})(?![A-Za-z0-9_.-])', quoted)
    return bool(known or (re.search(_CHECKING, quoted) and "(" not in quoted))


def _looks_like_a_check(command: str) -> bool:
    """`pytest` alone may be what tests are to be written with."""
    return bool(re.search(_CHECKING, command)) and (command[0] in '`"' or " " in command)


def _unstyled(text: str) -> str:
    return text.replace("’", "'").replace("**", "")


def _bare(text: str) -> str:
    """Without file names and what stands in quotes."""
    return re.sub(f"{_QUOTED}|{_FILE}", "\0", _unstyled(text), flags=re.IGNORECASE)


def _sentences(text: str) -> Iterator[str]:
    """Those that are no questions; a polite one is a request."""
    for sentence in re.split(_SENTENCES, text):
        asks = sentence.rstrip().endswith(("?", "？")) or re.match(_QUESTION, sentence)
        if not asks or (re.search(_POLITE, sentence) and not re.search(_WHY, sentence)):
            yield sentence


def _clauses(text: str) -> Iterator[str]:
    for sentence in _sentences(text):
        for clause in re.split(_CLAUSES, sentence):
            if not re.search(_ZH_QUESTION, clause) or re.search(_POLITE, clause):
                yield clause.strip()


def _is_order(clause: str) -> bool:
    if any(re.search(pattern, clause, re.IGNORECASE) for pattern in _ASKED):
        return True
    found = (found for pattern in _ZH_ASKED for found in re.finditer(pattern, clause))
    return any(not re.search(_ZH_NOT_AN_ORDER, _before(clause, match)) for match in found)
