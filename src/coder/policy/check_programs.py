"""The table of checks: programs that test, lint or type-check, with the options known to be harmless.

An option that is not listed is not known: it may load code, write elsewhere or fix what it checks."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

from coder.policy.programs import names

Kind = Literal["tests", "lint"]

# `-x` is a flag, `-x=` takes any value, `-x=@` a path inside the workspace, `-x=p` one that the pattern `p`
# matches: attached, or the next word. `-x?=` may have an attached value, `-x==` must have one. Where a
# program could take the next word for something else, that word must not pass as a value.
# part: options that select some of the tests. letters: flags that may be clustered. needs: without one of
# these it changes files. targets: operands are names like this, not paths. rest: options after `--`. asks:
# what it does depends on more than its words, so it is no more than evidence.
_TABLE = r"""
define &cargo
  -q --quiet -v --verbose -vv --workspace --all --all-targets --lib --bins --tests --examples --benches
    --doc --all-features --features= -F= --no-default-features --release -r --locked --offline --frozen
    --color= --message-format= --no-fail-fast --keep-going -j= --jobs= --exclude= --manifest-path=@
define &crates
  -p= --package= --test= --bin= --example= --bench=
define &libtest
  --nocapture --no-capture --show-output --test-threads= --ignored --include-ignored --exact --skip= -q
    --quiet --color= --format= --list
define &go
  -v -race -short -tags= -mod=readonly|vendor -p=\d+ -x -json -trimpath
define &node
  --ci --silent --verbose --coverage --no-coverage --runInBand -i --bail?=\d+ -b --watchAll=false
    --watch=false --passWithNoTests --no-cache --detectOpenHandles --forceExit --colors --color --no-color
    --maxWorkers= --testTimeout= --config=@ -c=@ --listTests --json --errorOnDeprecated --no-watchman
    --env=node|jsdom --logHeapUsage --expand
define &selection
  -t= --testNamePattern= --testPathPattern= --testPathPatterns= -g= --grep= -f= --fgrep=
tests pytest, py.test
  -q -v -vv -vvv -x -l -s -r= -n= -p=no:[\w.-]+ --quiet --verbose --exitfirst --maxfail= --tb= --showlocals
    --no-showlocals --color= --no-header --no-summary --capture= --show-capture= --durations=
    --durations-min= --strict-markers --strict-config --disable-warnings --disable-pytest-warnings
    --full-trace --setup-show --setup-plan --setup-only --cache-clear --collect-only --co --fixtures
    --markers --import-mode= --dist= --numprocesses= --timeout= --timeout-method= --reruns= --cov?= --no-cov
    --cov-branch --cov-report=term(?:-missing)?(?::skip-covered)? --cov-fail-under= --asyncio-mode=
    --doctest-modules --doctest-continue-on-failure --log-level= --log-cli-level= --randomly-seed=
    --hypothesis-seed= --hypothesis-show-statistics --benchmark-skip --benchmark-disable --reuse-db
    --create-db --no-migrations --ff --failed-first --nf --new-first
    -W=(?:error|ignore|default|always)(?:::\w+)? --continue-on-collection-errors
  part: -k= -m= --lf --last-failed --sw --stepwise --deselect= --ignore=@ --ignore-glob= --lfnf=
  letters: qvxls
tests unittest
  -v -q -f -b -c --verbose --quiet --failfast --buffer --catch --locals
  part: -k=
  letters: vqfbc
tests unittest discover
  -v -q -f -b -c --verbose --quiet --failfast --buffer --locals -s=@ --start-directory=@ -t=@
    --top-level-directory=@ -p= --pattern=
  part: -k=
  letters: vqfbc
tests doctest
  -v -f --verbose --fail-fast
tests manage.py test
  --parallel?= --keepdb -v= --verbosity= --failfast --noinput --no-input --timing --shuffle -b --buffer
  part: -k= --tag= --exclude-tag=
lint manage.py check
  --deploy --fail-level=
lint mypy
  --strict --pretty --no-pretty --show-error-codes --no-error-summary --no-incremental
    --ignore-missing-imports --explicit-package-bases --namespace-packages --show-error-context
    --show-column-numbers --check-untyped-defs --disallow-untyped-defs --no-color-output
    --warn-unused-ignores --warn-unreachable --warn-return-any --python-version= --platform= --exclude=
    --follow-imports= --config-file=@ -p=[\w.]+ -m=[\w.]+ --package=[\w.]+ --module=[\w.]+
    --enable-error-code= --disable-error-code= --cache-dir=/dev/null -v --verbose
lint pyright, basedpyright
  -p=@ --project=@ --pythonversion= --pythonplatform= --outputjson --warnings --level= --stats --verbose
    --dependencies --skipunannotated --threads
lint ruff check
  -q --quiet -v --verbose --select= --ignore= --extend-select= --extend-ignore= --per-file-ignores=
    --output-format= --no-cache -n --diff --statistics --preview --no-preview --target-version=
    --line-length= --config=@ --exclude= --extend-exclude= --show-files --show-settings --isolated
    --exit-zero -e --no-fix --respect-gitignore --exit-non-zero-on-fix
lint ruff format
  -q --quiet -v --verbose --check --diff --no-cache -n --preview --config=@ --line-length= --target-version=
    --exclude= --isolated
  needs: --check --diff
lint black
  -q --quiet -v --verbose --check --diff --color --no-color --fast -l= --line-length= -t= --target-version=
    -S --preview --exclude= --extend-exclude= --include= --config=@ --required-version= -W= --workers=
  needs: --check --diff
lint isort
  -c --check --check-only --diff --df -q --quiet -v --verbose --profile= --sp=@ --settings-path=@ -l=
    --line-length= --skip= --color --filter-files
  needs: -c --check --check-only --diff --df
lint flake8
  -q --quiet -v --verbose --select= --ignore= --extend-select= --extend-ignore= --count --statistics
    --show-source --exclude= --extend-exclude= --filename= --format=[\w-]+ --max-line-length=
    --max-complexity= --max-doc-length= --per-file-ignores= --config=@ -j= --jobs= --color= --exit-zero
    --isolated --benchmark
lint pylint
  -E --errors-only --disable= -d= --enable= -e= -j= --jobs= --rcfile=@ --score= -s= -r= --reports= -f=[\w-]+
    --output-format=[\w-]+ --max-line-length= --fail-under= --ignore= --ignore-paths= --ignore-patterns=
    --recursive= --disable-all --exit-zero
lint pyflakes
lint pycodestyle
  --max-line-length= --ignore= --select= --exclude= --statistics --count -q --show-source
lint ty check
  --project=@ --python-version= --output-format= --exclude= -q --quiet -v --verbose --error-on-warning
    --exit-zero --ignore= --warn= --error=
lint compileall
  -q -f -l -x= -j=
  letters: qfl
lint py_compile
  -q --quiet
lint coverage report
  -m --show-missing --skip-covered --include= --omit= --fail-under= --sort= --precision= -i
tests tox, nox, nose2, stestr, green, trial, zig test, bazel test
  asks:
tests jest
  &node -w=
  part: &selection -o --onlyChanged --changedSince= --selectProjects= --runTestsByPath --findRelatedTests
    --shard=
tests vitest
  &node --run --watch=false --no-watch --reporter=[\w-]+ --typecheck --environment=node|jsdom|happy-dom
    --pool=[\w-]+ --dir=@ --root=@ --globals --retry= --no-file-parallelism --isolate --no-isolate
  part: &selection --changed?= --project= --shard=
tests mocha
  --recursive --exit -b --bail --timeout= -t= --reporter=[\w-]+ -R=[\w-]+ --colors --color --no-color
    --parallel --jobs= -j= --extension= --ext= --spec= -u=bdd|tdd --ui=bdd|tdd --check-leaks --forbid-only
    --forbid-pending --full-trace --slow= --retries= --config=@ -r=(?:@[\w.-]+/)?\w[\w.-]*(?:/[\w-][\w.-]*)*
    --require=(?:@[\w.-]+/)?\w[\w.-]*(?:/[\w-][\w.-]*)*
  part: -g= --grep= -f= --fgrep= -i --invert --ignore= --exclude=
tests ava
  -v --verbose --fail-fast --serial -s --tap -t --timeout= -T= -c= --concurrency=
  part: -m= --match=
tests react-scripts test
  &node
  part: &selection
tests playwright test
  --reporter=[\w,-]+ --workers= -j= --retries= --timeout= -x --max-failures= --list --quiet --config=@ -c=@
    --pass-with-no-tests --forbid-only
  part: -g= --grep= --grep-invert= --project= --shard= --last-failed --only-changed
tests node --test
  --test --test-reporter=\w+ --test-concurrency= --test-timeout= --no-warnings --experimental-vm-modules
    --experimental-test-coverage --experimental-strip-types --enable-source-maps --trace-warnings
    --test-force-exit --import=tsx|tsx/esm --loader=tsx|ts-node/esm --require=ts-node/register
    -r=ts-node/register
  part: --test-name-pattern= --test-skip-pattern= --test-only
tests bun test
  --bail?= --timeout= --coverage --only --todo --rerun-each= --silent
  part: -t= --test-name-pattern=
tests deno test
  -A --allow-all -q --quiet --no-check --check --fail-fast --parallel --allow-read --allow-read= --allow-env
    --allow-env= --allow-write --allow-net --allow-sys --coverage --doc --trace-leaks --reporter=[\w-]+
    --permit-no-files --no-lock --frozen --cached-only
  part: --filter= --ignore=
lint deno check
  -q --quiet --all --doc --frozen --cached-only --no-lock
lint deno lint
  -q --quiet --json --compact --rules-tags= --rules-include= --rules-exclude= --ignore=
lint deno fmt
  --check -q --quiet --ignore= --ext=
  needs: --check
lint tsc, vue-tsc, tsd
  --noEmit -p=@ --project=@ -b --build --skipLibCheck --pretty?=true|false --strict --noEmitOnError
    --incremental=false --target= --module= --moduleResolution= --jsx= --lib= --esModuleInterop --allowJs
    --checkJs --listFilesOnly --force --verbose
lint eslint, oxlint
  --ext= --max-warnings= --quiet --no-color --color -f=[\w-]+ --format=[\w-]+ --cache --no-cache
    --no-error-on-unmatched-pattern --ignore-pattern= --ignore-path=@ -c=@ --config=@ --no-eslintrc --debug
    --report-unused-disable-directives --pass-on-no-patterns
lint xo, standard
  --verbose --quiet
lint prettier
  -c --check -l --list-different --no-config --config=@ --ignore-path=@ --log-level= --loglevel=
    --no-error-on-unmatched-pattern --ignore-unknown --no-color --cache
  needs: -c --check -l --list-different
lint biome check, biome lint, biome ci, biome format
  --max-diagnostics= --diagnostic-level= --error-on-warnings --no-errors-on-unmatched --colors= --changed
    --staged --config-path=@ --verbose --reporter=[\w-]+ --files-ignore-unknown=true|false
lint stylelint
  --quiet -q --max-warnings= --allow-empty-input --formatter=\w+ -f=\w+ --config=@ --color --no-color
    --cache
lint markdownlint, markdownlint-cli2
  -q --quiet --ignore= -i= --config=@ -c=@
tests go test
  &go -count= -timeout= -cover -covermode= -failfast -benchtime= -benchmem -parallel= -cpu= -list= -shuffle=
    -vet= -fullpath
  part: -run= -skip= -bench= -fuzztime=
lint go vet
  &go -c=
lint go build
  &go -o=/dev/null
lint gofmt
  -l -d -e -s -r=
  needs: -l -d
lint golangci-lint run
  --timeout= --fast --fast-only -D= --disable= -E= --enable= --enable-only= --tests= --build-tags= -v
    --verbose -j= --concurrency= --new --new-from-rev= --config=@ -c=@ --no-config --max-issues-per-linter=
    --max-same-issues= --allow-parallel-runners --color= --sort-results
lint staticcheck
  -checks= -tests= -tags= -f=\w+ -go=
tests cargo test
  &cargo --no-run
  part: &crates
  rest: &libtest
tests cargo nextest
  &cargo --no-capture --status-level= --retries= --no-tests= -P= --profile=
  part: &crates -E= --filter-expr=
  rest: &libtest
lint cargo check
  &cargo &crates
lint cargo build
  &cargo &crates
lint cargo clippy
  &cargo &crates --no-deps
  rest: -D=[\w:-]+ -W=[\w:-]+ -A=[\w:-]+ -F=[\w:-]+ --deny= --warn= --allow= --forbid=
lint cargo fmt
  --check --all -q --quiet -v --verbose -p= --package= --manifest-path=@
  needs: --check
  rest: --check --color= --quiet
tests mvn, mvnw
  -q -B -ntp -o -e -X --quiet --batch-mode --no-transfer-progress --offline --errors -T=[\d.]+C? -fae -ff
    -pl= --projects= -am --also-make
  part: -Dtest== -Dit.test==
  targets: test|verify|compile|test-compile
tests gradle, gradlew
  -q --quiet -i --info --no-daemon --offline --console= --stacktrace -s --continue --rerun-tasks --parallel
    --warning-mode= --build-cache --no-build-cache
  part: --tests=
  targets: :?(?:[\w-]+:)*(?:check|integrationTest|test|test(?:Debug|Release)UnitTest
    |lint(?:Debug|Release)?|compile(?:Test)?(?:Java|Kotlin|Scala|Groovy))
tests dotnet test
  --no-build --no-restore -v= --verbosity= -c=\w+ --configuration=\w+ --nologo -f=[\w.]+ --framework=[\w.]+
    --list-tests -t
  part: --filter=
lint dotnet build
  --no-restore -v= --verbosity= -c=\w+ --configuration=\w+ --nologo -f=[\w.]+ --framework=[\w.]+
    -warnaserror --no-incremental
tests phpunit
  --testdox --colors?= --no-coverage --stop-on-failure --stop-on-error --verbose -v --debug --no-progress
    --display-warnings --display-deprecations --order-by= -c=@ --configuration=@
  part: --filter= --group= --exclude-group= --testsuite=
lint phpstan analyse
  -l= --level= -c=@ --configuration=@ --no-progress --error-format=[\w-]+ --memory-limit= -v -q --no-ansi
    --ansi
lint php -l
  -l
tests rspec
  -f=\w+ --format=\w+ --fail-fast?= --color --no-color --order= --seed= -b --backtrace --profile --dry-run
  part: -e= --example= -t= --tag= --only-failures --next-failure
lint rubocop
  -f=\w+ --format=\w+ -D --parallel -P --only= --except= --fail-level= --color --no-color --force-exclusion
    --display-only-fail-level-offenses -l --lint -c=@ --config=@
tests mix test
  --trace --cover --stale --max-failures= --seed= --color --no-color --slowest= --warnings-as-errors
    --no-start --no-compile
  part: --only= --exclude= --include= --failed
lint mix compile
  --warnings-as-errors --force --all-warnings
lint mix format
  --check-formatted --dry-run
  needs: --check-formatted --dry-run
tests ctest
  -V -VV -Q -j?= --parallel?= --output-on-failure --timeout= --stop-on-failure -N --show-only --test-dir=@
    --rerun-failed --no-tests=
  part: -R= -E= -L= -LE= -I=
tests bats
  -t --tap -p --pretty -r --recursive -j= --jobs= -T --timing -c --count --print-output-on-failure
    --show-output-of-passing-tests
  part: -f= --filter= --filter-tags=
lint shellcheck
  -x -s=\w+ -e= -i= -S=\w+ -f=\w+ --shell=\w+ --exclude= --severity=\w+ --format=\w+ --color= -a -C
    --external-sources
  letters: xaC
tests make, gmake
  -j?=\d+ -k -s -B -w -C=@ --jobs?=\d+ --keep-going --silent --quiet --always-make --no-print-directory
    -O?=\w+ --output-sync?=\w+ -n --dry-run
  letters: ksBwn
  targets: &tasks|\d+
tests just
  -q --quiet -v --verbose --color= -n --dry-run
  targets: &tasks
tests rake
  -q --quiet -s --silent -n --dry-run --trace
  targets: &tasks
tests tox, nox, nose2, stestr, green, trial, pest, tap, uvu, jasmine, karma start, ng test, swift test
  asks:
tests dart test, flutter test, zig test, bazel test
  asks:
tests task, invoke, inv, doit, composer
  asks:
  targets: &tasks
lint ng lint, ng build, swift build, zig build, bazel build, dart analyze, flutter analyze, hadolint
  asks:
lint svelte-check, astro check, next lint, yamllint
  asks:
"""


class Program(msgspec.Struct, frozen=True):
    """One program, or one of its subcommands, as in the table."""

    kind: Kind
    options: str = ""
    part: str = ""
    letters: str = ""
    needs: str = ""
    targets: str = ""
    rest: str = ""
    asks: bool = False


class Option(msgspec.Struct, frozen=True):
    """How an option takes its value: `""` not at all, `=` in both ways, `?=` or `==` attached."""

    form: str
    value: str


@cache
def options_in(text: str) -> dict[str, Option]:
    """The options that a row of the table lists, by name."""
    found = re.finditer(r"(-[^\s=?]*)(\?=|==|=|)(\S*)", text)
    return {match[1]: Option(match[2], match[3] or ".*") for match in found}


_TEST_NAMES = (
    r"(?:[\w-]+:)?(?:unit[-_]?|e2e[-_]?|run[-_]?)?(?:tests?|specs?|check)"
    r"(?:[:_-](?:all|unit|units|integration|e2e|fast|slow|quick|short|race|ci|cov|coverage|types?|lint|api|py|python"
    r"|js|ts|go|rust|lib|core|docs?|backend|frontend|server|client))*"
)
_LINT_NAMES = (
    r"(?:lint|type-?check|types|mypy|ruff|eslint|vet|clippy|format[:_-]check|fmt[:_-]check)"
    r"(?:[:_-](?:all|ci|py|python|js|ts|go|rust|types?|check|backend|frontend))*"
)
TARGETS = f"{_TEST_NAMES}|{_LINT_NAMES}"
# Evidence by name alone, where what runs is not looked at.
TEST_TASK = re.compile(r"(?:[\w-]+:)?(?:unit-?|e2e-?|run-?)?(?:tests?|specs?|check)(?:[:_-][\w:-]+)?")
LINT_TASK = re.compile(
    r"(?:lint|type-?check|types|tsc|build|compile|mypy|ruff|eslint)(?:[:_-][\w:-]+)?|format[:_-]check"
)


def _programs() -> dict[str, Program]:
    shared = {"&tasks": TARGETS}
    found: dict[str, Program] = {}
    for block in re.split(r"\n(?=\S)", _TABLE.strip()):
        head, *rows = block.splitlines()
        first, _, titles = head.partition(" ")
        fields: dict[str, str] = {}
        key = "options"
        for row in rows:
            named = re.match(r"  (\w+):", row)
            key = named[1] if named else key if row.startswith("    ") else "options"
            divider = "" if key == "targets" else " "
            fields[key] = fields.get(key, "") + divider + row[named.end() if named else 0 :].strip()
        if first == "define":
            shared[titles] = fields["options"]
            continue
        known = {
            key: re.sub(r"&\w+", lambda match: shared[match[0]], text.strip()) for key, text in fields.items()
        }
        values = {**known, "asks": "asks" in known, "kind": first}
        found |= dict.fromkeys(titles.split(", "), msgspec.convert(values, Program))
    return found


PROGRAMS = _programs()
MODULES = names("unittest doctest compileall py_compile manage.py")  # no programs of their own
PYTHON_PROGRAMS = names(
    """
    pytest mypy pyright basedpyright ruff black isort flake8 pylint pyflakes pycodestyle ty tox nox nose2
    stestr green trial
    """
)
NAMES = frozenset(key.split()[0] for key in PROGRAMS)
FIRST_WORDS = frozenset(key.split()[0] for key in PROGRAMS if " " in key)


class Wrapper(msgspec.Struct, frozen=True):
    """A program that runs the command after its options, `operands` and, with `assigns`, variables.
    `downloads`: what is not installed."""

    options: str = ""
    operands: int = 0
    assigns: bool = False
    downloads: bool = False
    asks: bool = False


_DURATION = r"\d+(?:\.\d+)?[smhd]?"
_TIMEOUT = Wrapper(
    f"-k={_DURATION} --kill-after={_DURATION} --foreground --preserve-status -v --verbose", operands=1
)
_NPX = Wrapper("--no-install --no --offline -y --yes --bun -q --quiet", downloads=True)
WRAPPERS: dict[str, Wrapper] = {
    "time": Wrapper("-p"),
    "command": Wrapper(),
    "exec": Wrapper(),
    "nice": Wrapper("-n=-?\\d+"),
    "stdbuf": Wrapper("-oL -eL -o0 -e0"),
    **dict.fromkeys(("timeout", "gtimeout"), _TIMEOUT),
    **dict.fromkeys(("env", "cross-env"), Wrapper(assigns=True)),
    "uv run": Wrapper("--no-sync --frozen --locked --offline -q --quiet --no-progress"),
    **dict.fromkeys(("poetry run", "pdm run", "pipenv run", "rye run", "bundle exec"), Wrapper()),
    **dict.fromkeys(("npx", "bunx", "npm exec", "npm x", "bun x"), _NPX),
    **dict.fromkeys(("pnpm exec", "yarn exec"), Wrapper()),
    "coverage run": Wrapper("--branch --source= -p --parallel-mode --omit= --include= -a --append"),
    **dict.fromkeys(("c8", "nyc"), Wrapper("--reporter=[\\w-]+ -r=[\\w-]+ --check-coverage --all --silent")),
    **dict.fromkeys(("hatch run", "xvfb-run", "unbuffer"), Wrapper(asks=True)),
}

# Words that show nothing about the code, or change it.
DRY = names(
    """
    --help --version --collect-only --co --no-run --list --listtests --fixtures --markers --fix --dry-run
    --setup-plan --setup-only --init --exit-zero --notest --listTests --just-print --recon --touch --question
    --ignore-errors -DskipTests -DskipTests=true -Dmaven.test.skip=true -Dmaven.test.skip --list-tests
    -Dmaven.test.failure.ignore=true -Dmaven.test.failure.ignore --show-settings --show-files --listFilesOnly
    """
)
DRY_LETTERS = {"make": "ntqi", "gmake": "ntqi", "tox": "l", "ctest": "N", "gradle": "m", "gradlew": "m",
               "just": "n", "rake": "n"}  # fmt: skip
# Operands that stand for all tests.
WHOLE = names(". ./... all discover tests tests/ test test/ run check verify src src/ lint")

# Variables that a check may be given, with the values that are known.
VARIABLES = {
    **dict.fromkeys(names("PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTEST_DISABLE_PLUGIN_AUTOLOAD"), r"\w*"),
    **dict.fromkeys(names("HYPOTHESIS_PROFILE CARGO_TERM_COLOR CARGO_NET_OFFLINE"), r"\w+"),
    **dict.fromkeys(names("UV_OFFLINE UV_NO_SYNC"), "1|true"),
    "PYTHONHASHSEED": r"\d+|random",
    "PYTHONUTF8": r"[01]",
    "PYTHONWARNINGS": r"error|ignore|default|always",
    "PYTHONPATH": "@",
    "DJANGO_SETTINGS_MODULE": r"[\w.]+",
    "NODE_ENV": r"test|development|production",
    "NODE_OPTIONS": r"--experimental-vm-modules|--max-old-space-size=\d+",
    "RUST_BACKTRACE": r"0|1|full",
    "RUST_LOG": r"[\w:=,]*",
    "CGO_ENABLED": r"[01]",
    "GOTOOLCHAIN": r"local",
    "npm_config_offline": r"true",
}
# What keeps a check that nobody was asked about from downloading.
OFFLINE = {
    "UV_NO_SYNC": "1",
    "UV_OFFLINE": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "npm_config_yes": "false",
    "npm_config_offline": "true",
    "COREPACK_ENABLE_NETWORK": "0",
    "YARN_ENABLE_NETWORK": "0",
}
