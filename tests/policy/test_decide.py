"""The policy table cell by cell, the operating modes over it, overrides, risks, the allowlist."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import cast

import pytest

from coder.config.schema import OPERATING_MODES, PRESETS, Decision, OperatingMode, Preset
from coder.policy.decide import decide, matrix, preset_table
from coder.policy.explain import explain
from coder.policy.shell.judge import judge
from coder.policy.shell.verdict import ShellVerdict
from coder.policy.verification import is_verification
from coder.texts import Catalog
from coder.tools.registry import built_in_tools

# Written from the contract, not from the code. Columns: strict, balanced, auto-edit, yolo.
TABLE = {
    "read list glob grep todoread todowrite skill": "allow allow allow allow",
    "write edit patch": "deny ask allow allow",
    "save_memory": "deny ask ask allow",
    "bash-looking": "deny allow allow allow",
    "bash-doing": "deny ask ask allow",
    "fetch task mcp__s__search unheard_of": "deny ask ask allow",
}
LIFTED = {"write", "edit", "patch"}
LOOKING = ShellVerdict([], read_only=True, risks=[])
DOING = ShellVerdict([], read_only=False, risks=[])


def expected(tool: str, cell: str, mode: str) -> str:
    """The contract's words on operating modes, once more."""
    if tool.startswith("bash") and mode == "yolo":
        return "allow"
    if cell == "deny":
        return "deny"
    changes = LIFTED | {"save_memory", "bash-doing", "mcp__s__search", "unheard_of"}
    if mode == "plan" and tool in changes:
        return "deny"
    if mode in ("auto-edit", "yolo") and tool in LIFTED:
        return "allow"
    return cell


CELLS = [
    (tool, preset, mode, expected(tool, cell, mode))
    for tools, cells in TABLE.items()
    for tool in tools.split()
    for preset, cell in zip(("strict", "balanced", "auto-edit", "yolo"), cells.split(), strict=True)
    for mode in ("plan", "default", "auto-edit", "yolo")
]


@pytest.mark.parametrize(("tool", "preset", "mode", "wanted"), CELLS)
def test_cell(tool: str, preset: Preset, mode: OperatingMode, wanted: str) -> None:
    shell = {"bash-looking": LOOKING, "bash-doing": DOING}.get(tool)
    decided = decide("bash" if shell else tool, preset, mode, shell=shell)
    assert decided.decision == wanted
    assert decided.reasons
    assert all(reason.endswith((".", "!")) for reason in decided.english)
    assert all(reason.text(Catalog("zh")).endswith("。") for reason in decided.for_person)


def test_the_cells_cover_all_presets_and_modes() -> None:
    assert set(PRESETS) == {"strict", "balanced", "auto-edit", "yolo"}
    assert set(OPERATING_MODES) == {"plan", "default", "auto-edit", "yolo"}
    assert len({cell[:3] for cell in CELLS}) == len(" ".join(TABLE).split()) * 16  # no tool has two rows


def test_trust_goes_by_the_same_table() -> None:
    for tools, cells in TABLE.items():
        for tool in tools.replace("bash-looking", "").replace("bash-doing", "bash").split():
            assert [preset_table(preset, tool) for preset in PRESETS] == cells.split()


def test_every_tool_says_what_it_is_and_has_its_row() -> None:
    in_table = {tool.partition("-")[0] for tools in TABLE for tool in tools.split()}
    # `job` shows and stops what bash was allowed to start
    assert set(built_in_tools()) - in_table == {"job"}, "a new tool gets a row in TABLE"
    assert {preset_table(preset, "job") for preset in PRESETS} == {"allow"}
    assert "unknown" not in {tool.kind for tool in built_in_tools().values()}


def bash(
    line: str,
    directory: Path,
    preset: str = "balanced",
    mode: str = "default",
    override: Decision | None = None,
    allowlist: tuple[str, ...] = (),
) -> tuple[str, list[str], bool, list[str]]:
    decided = decide(
        "bash",
        cast(Preset, preset),
        cast(OperatingMode, mode),
        overrides={"bash": override} if override else {},
        shell=judge(line, directory),
        allowlist=allowlist,
    )
    return decided.decision, decided.english, decided.can_always, decided.always_names


def test_risk_turns_allow_into_ask_with_its_reason(tmp_path: Path) -> None:
    decision, reasons, can_always, _ = bash("echo $(pwd)", tmp_path)
    assert (decision, can_always) == ("ask", False)
    assert any("substitutes" in reason for reason in reasons)
    assert bash("echo $(pwd)", tmp_path, mode="plan")[0] == "ask"
    assert bash("rm x", tmp_path, preset="yolo")[0] == "ask"
    assert bash("rm x", tmp_path, preset="yolo", mode="yolo")[0] == "allow"
    assert bash("rm x", tmp_path, mode="plan")[0] == "deny"


def test_all_reasons_come_at_once(tmp_path: Path) -> None:
    _, reasons, can_always, names = bash("rm x; sudo touch $(pwd)", tmp_path)
    text = " ".join(reasons)
    assert all(word in text for word in ("Mode default with preset balanced", "rm ", "sudo ", "substitutes"))
    assert not can_always
    assert names == []


def test_overrides_replace_the_cell_and_keep_the_risk(tmp_path: Path) -> None:
    assert bash("touch x", tmp_path, override="allow")[0] == "allow"
    assert bash("rm x", tmp_path, override="allow")[0] == "ask"
    assert bash("ls", tmp_path, override="ask")[0] == "ask"
    assert bash("ls", tmp_path, override="ask", allowlist=("ls",))[0] == "allow"
    assert bash("ls | wc", tmp_path, override="ask", allowlist=("ls",))[0] == "ask"
    assert bash("ls", tmp_path, override="deny", preset="yolo")[0] == "deny"
    assert bash("ls", tmp_path, override="deny", mode="yolo")[0] == "allow"
    assert bash("touch x", tmp_path, override="allow", mode="plan")[0] == "deny"
    assert decide("write", "yolo", "yolo", overrides={"write": "deny"}).decision == "deny"
    assert decide("write", "strict", "default", overrides={"write": "ask"}).decision == "ask"
    assert decide("write", "strict", "auto-edit", overrides={"write": "ask"}).decision == "allow"
    assert decide("write", "yolo", "plan", overrides={"write": "allow"}).decision == "deny"
    assert decide("fetch", "balanced", "yolo", overrides={}).decision == "ask"
    assert decide("read", "balanced", "default", overrides={"read": "deny"}).decision == "deny"


def test_a_deny_tells_the_person_what_would_allow_and_the_model_does_not_hear_of_it() -> None:
    for decided, hint in (
        (decide("write", "strict", "default"), "Preset balanced would ask."),
        (decide("write", "balanced", "plan"), "Leave plan mode (/mode default) to use it."),
    ):
        assert str(decided.for_person[-1]) == hint
        assert hint not in " ".join(decided.english)
    assert "plan mode" in decide("write", "balanced", "plan").english[0].lower()
    assert "permission.tools" in decide("read", "balanced", "default", overrides={"read": "deny"}).english[0]


def test_plan_tells_which_part_is_not_read_only(tmp_path: Path) -> None:
    reasons = bash("ls && touch x", tmp_path, mode="plan")[1]
    assert any("touch x" in reason for reason in reasons)


def test_bash_without_a_verdict_fails_closed() -> None:
    assert decide("bash", "balanced", "default").decision == "ask"
    assert decide("bash", "yolo", "default").decision == "ask"
    assert decide("bash", "balanced", "plan").decision == "deny"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("touch x", ["touch"]),
        ("npm run test", ["npm run test"]),
        ("make test lint", ["make test lint"]),
        ("make -j4 -k", ["make"]),
        ("git commit -m x", ["git commit"]),
        ("cargo build --release && cargo test", ["cargo build", "cargo test"]),
        ("ls | tee new.txt", ["tee"]),
        ("cd src && make", ["make (in src)"]),
        ("cd src && touch x", ["touch"]),
        ("tsx a.ts", ["tsx a.ts"]),
        ("go run ./cmd", ["go run ./cmd"]),
        ("pip install x", ["pip install x"]),
        ("go test ./...", ["go test"]),
        ("docker ps", ["docker ps"]),
        ("kubectl get pods", ["kubectl get pods"]),
        ("python -m pytest -q", ["python -m pytest"]),
        ("python manage.py test", ["python manage.py test"]),
        ("python3 -m pytest -xvs --tb=short -k 'a or b' tests/a.py", ["python3 -m pytest"]),
        ("python3 -m unittest -v", ["python3 -m unittest"]),
        ("python -m pip install x", ["python -m pip install x"]),
        ("npm install --save-dev @types/node", ["npm install --save-dev @types/node"]),
        ("pip install 'x[y]==1.2' -U", ["pip install 'x[y]==1.2' -U"]),
        ("mkdir -p a/b", ["mkdir"]),
        ("cargo run --bin a", ["cargo run --bin a"]),
        ("cd src && git add .", ["git add (in src)"]),
        ("make 'a b'", ["make 'a b'"]),
        ("./run.sh", ["./run.sh"]),
        ("aws s3 ls", ["aws s3 ls"]),
        ("gh release list --limit 3", ["gh release list --limit 3"]),
        ("git remote add o https://h/x", ["git remote add"]),
        ("cmake -B build -DPREFIX=E", ["cmake -B build -DPREFIX=E"]),
        ("/usr/bin/make test", ["make test"]),
        ("make; make", ["make"]),
        (".venv/bin/python -m pytest -q tests/a.py", [".venv/bin/python -m pytest"]),
        ("./.venv/bin/pytest -x", ["./.venv/bin/pytest"]),
        ("node_modules/.bin/jest --ci", ["node_modules/.bin/jest"]),
        (".venv/bin/python a.py b", [".venv/bin/python a.py b"]),
        (".venv/bin/../x/python -m pytest -q", [".venv/bin/../x/python -m pytest -q"]),
    ],
)
def test_always_is_offered_by_name(line: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    decision, _, can_always, always_names = bash(line, tmp_path)
    assert (decision, can_always, always_names) == ("ask", True, names)
    assert bash(line, tmp_path, allowlist=tuple(names))[0] == "allow"
    assert bash(line, tmp_path, allowlist=tuple(names), mode="plan")[0] == "deny"
    for missing in names:
        fewer = tuple(name for name in names if name != missing)
        assert bash(line, tmp_path, allowlist=fewer)[0] == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "sudo touch x", "env touch x", "xargs touch", "sh -c 'touch x'", "bash -c 'make'", "python -c 'x'",
        "python3 -c x", "perl -e 1", "node -e 1", "ruby -e 1", "nohup make", "timeout 5 make", "nice make",
        "time make", "eval make", "exec make", "command make", "bash x.sh", "source x", ". x", "ssh h ls",
        "docker run x", "docker exec c x", "npx x", "uv run x", "find . -exec touch {} ;", "xargs make",
        "git -c a=b commit", "git rebase -x make", "git bisect run make", "git submodule foreach make",
        "git config core.pager x", "git log --ext-diff", "git grep -O x", "awk 'BEGIN{system(1)}'",
        "sed 's/a/b/e' x", "rg --pre x y", "PATH=. make", "LD_PRELOAD=x make", "GIT_EDITOR=x git commit",
        "make() { x; }; make", "alias make=x; make", "$X", "$X make", "npm $X", "git $X",
        "npm --prefix x run y",
        "make $(pwd)", "rm x", "echo hi > /etc/x", "echo hi > .git/hooks/x", "make > $X", "tar xf a -I x",
        "tee .git/hooks/x", "cp a .coder/config.json", "tee ~/.bashrc", "git merge -s x y",
        "split --filter=x y", "cp a ~/.ssh/authorized_keys",
        "git archive --remote=ext::x HEAD", "go build -toolexec=x", "cargo build --config x", "cmake -P x",
        "gcc -fplugin=x a.c", "zip -TT x a b", "scp -S x a h:b", "sqlite3 db '.shell x'", "psql -c '\\! x'",
        "make -E 'x:;evil'", "make --eval=x", "make -f other", "make -C sub", "make SHELL=x", "make CC=x all",
        "wget -e x=y http://h", "wget --execute=x http://h", "gcc @file", "curl -K x http://h",
        "echo hi > new.txt", "make > new.txt", "touch x >> log", "touch x 2> new.txt",
        "vim x", "man x", "trap make EXIT", "echo $((x))", "npm exec x", ".venv/bin/python -c x",
    ],
)  # fmt: skip
def test_always_never_covers(line: str, tmp_path: Path) -> None:
    decision, _, can_always, names = bash(line, tmp_path)
    assert (decision, can_always, names) == ("ask", False, [])
    verdict = judge(line, tmp_path)
    everything = {segment.name for segment in verdict.segments} | {"make", "touch", "x", "git", "npm", "rm"}
    assert bash(line, tmp_path, allowlist=tuple(everything))[0] == "ask"


@pytest.mark.parametrize(
    ("allowed", "other"),
    [
        ("npm run lint", "npm run evil"), ("python3 a.py", "python3 b.py"), ("make test", "make evil"),
        ("make", "make evil"), ("npm run", "npm run lint"), ("python3 -m unittest", "python3 -m evil"),
        ("./run.sh", "./other.sh"), ("git commit", "git push"),
        (".venv/bin/python -m pytest", ".venv/bin/python -m pytest -p evil"),
        (".venv/bin/python -m pytest", ".venv/bin/python -m evil"), ("pytest", ".venv/bin/pytest"),
        (".venv/bin/pytest", "sub/.venv/bin/pytest"), (".venv/bin/pytest", "cd sub && .venv/bin/pytest"),
        ("./run.sh", "cd sub && ./run.sh"), ("python3 a.py", "cd sub; python3 a.py"),
        ("npm test", "cd sub && npm test"), ("make test (in src)", "cd sub && make test"),
        ("make test (in src)", "cd src; cd sub; make test"),
        ("node a.js", "node a.js && cd sub && node a.js"),
        ("npm test", "npm test --prefix sub"), ("npm test", "npm test -C sub"),
        ("pnpm test", "pnpm test -C sub"),
        ("yarn build", "yarn build --cwd sub"), ("mvn test", "mvn test -f sub"),
        ("gradle test", "gradle test -I x.gradle"),
        ("cargo test", "cargo test --manifest-path=sub/Cargo.toml"),
        ("go test", "go test -C sub ./..."), ("pytest", "pytest -p evil"), ("pytest", "pytest --rootdir=sub"),
        ("eslint", "eslint --rulesdir sub ."), ("jest", "jest --config evil.js"), ("tsx a.ts", "tsx b.ts"),
        ("just a", "just b"), ("rake a", "rake b"), ("deno run a.ts", "deno run b.ts"),
        ("go run ./a", "go run ./b"), ("coverage run a.py", "coverage run b.py"),
        ("java A", "java -jar b.jar"),
        ("python -m pytest", "python -m pytest -p evil"), ("python -m pytest", "python -m pytest -pevil"),
        ("python -m pytest", "python -m pytest --pyargs=evil"), ("python -m pip", "python -m pip install x"),
        ("python -m pytest", "python -m pytest /tmp/evil"), ("pytest", "pytest ../evil"),
        ("pytest", "pytest -cevil"), ("mvn test", "mvn test -fevil"), ("mvn test", "mvn test evil:goal"),
        ("mvn", "mvn -fevil"), ("cargo run", "cargo run --bin evil"), ("cargo run", "cargo run -- evil"),
        ("cargo run --bin a", "cargo run --bin evil"), ("cargo install", "cargo install --path evil"),
        ("cargo install", "cargo install --git https://h/evil"), ("meson test", "meson test -C evil"),
        ("meson test", "meson test -Cevil"), ("pip install", "pip install ./evil"),
        ("pip install", "pip install evil/x"), ("pip install", "pip install evil.whl"),
        ("pip install", "pip install git+https://h/evil"), ("pip install", "pip install -r evil.txt"),
        ("pip install", "pip install x@file:evil"), ("npm install", "npm install ../evil"),
        ("npm install", "npm install owner/evil"), ("php artisan", "php artisan evil"),
        ("python manage.py", "python manage.py evil"), ("./run.sh", "./run.sh evil"),
        ("terraform apply", "terraform apply x"), ("gradle test", "gradle test evil"),
        ("helm install", "helm install a ./evil"), ("kubectl apply", "kubectl apply -f evil.yaml"),
        ("cmake", "cmake evil"), ("cmake", "cmake -DCMAKE_C_COMPILER=evil"), ("rake a", "rake a -fevil"),
        ("git add", "cd evil && git add ."), ("git add (in src)", "cd evil && git add ."),
        ("git add", "cd evil; git add ."), ("eslint", "cd evil && eslint ."),
        ("go test", "cd evil && go test"),
        ("celery", "celery -Aevil"), ("tar", "tar xTf evil a"), ("python a.py evil", "python 'a.py evil'"),
    ],
)  # fmt: skip
def test_always_covers_no_other_script_of_the_same_runner(allowed: str, other: str, tmp_path: Path) -> None:
    assert bash(other, tmp_path, allowlist=(allowed,))[0] == "ask"


@pytest.mark.parametrize(
    ("agreed", "other"),
    [
        ("npm install lodash", "npm install evil"), ("npm install", "npm install evil"),
        ("npm i lodash", "npm i evil"), ("pnpm add a", "pnpm add evil"), ("yarn add a", "yarn add evil"),
        ("bun add a", "bun add evil"), ("pip install x", "pip install evil"),
        ("pip install x", "pip install x -U"),
        ("uv add x", "uv add evil"), ("uv pip install x", "uv pip install evil"),
        ("poetry add x", "poetry add evil"),
        ("cargo add x", "cargo add evil"), ("cargo install x", "cargo install evil"),
        ("go get a.b/x", "go get a.b/evil"), ("go install a.b/x@v1", "go install a.b/evil@v1"),
        ("gem install x", "gem install evil"), ("apt-get install x", "apt-get install evil"),
        ("brew install x", "brew install evil"), ("python -m pip install x", "python -m pip install evil"),
        (".venv/bin/pip install x", ".venv/bin/pip install evil"),
        ("kubectl get pods", "kubectl get secrets"), ("kubectl get pods", "kubectl get pods -n kube-system"),
        ("helm list", "helm list -A"), ("aws s3 ls", "aws s3 ls s3://evil"),
        ("gh pr list", "gh pr list -R evil/x"),
        ("gcloud projects list", "gcloud projects list --account=x"), ("az vm list", "az vm list -g x"),
        ("terraform plan", "terraform plan -out=x"), ("docker ps", "docker ps -a"),
        ("docker pull x", "docker pull evil"), ("curl https://h/a", "curl https://h/evil"),
        ("wget https://h/a", "wget https://h/evil"), ("psql -l", "psql -l evil"),
        ("scp a h:b", "scp a evil:b"),
        ("sftp h", "sftp evil"), ("rsync -a x h:b", "rsync -a x evil:b"),
        ("git push https://h/x", "git push https://h/evil"), ("git clone https://h/x", "git clone https://h/evil"),
    ],
)  # fmt: skip
def test_always_covers_no_other_package_or_resource(agreed: str, other: str, tmp_path: Path) -> None:
    names = bash(agreed, tmp_path)[3]
    assert bash(agreed, tmp_path, allowlist=tuple(names))[0] == "allow"
    assert bash(other, tmp_path, allowlist=tuple(names))[0] == "ask"


def test_the_allowlist_is_exact(tmp_path: Path) -> None:
    assert bash("git push", tmp_path, allowlist=("git",))[0] == "ask"
    assert bash("git push", tmp_path, allowlist=("git push",))[0] == "allow"
    assert bash("git push -f", tmp_path, allowlist=("git push",))[0] == "ask"
    assert bash("git push", tmp_path, preset="strict", allowlist=("git push",))[0] == "deny"
    assert bash("make", tmp_path, override="deny", allowlist=("make",))[0] == "deny"
    assert bash("timeout 5 ls; make", tmp_path, allowlist=("make",))[0] == "allow"
    assert not bash("timeout 5 ls; make", tmp_path)[2]


def test_exploring_is_allowed_where_reading_is() -> None:
    for preset, mode in itertools.product(PRESETS, OPERATING_MODES):
        assert decide("task", preset, mode, explores=True).decision == "allow"
        assert decide("task", preset, mode, explores=True, overrides={"task": "deny"}).decision == "deny"
        plain = decide("task", preset, mode).decision
        assert decide("task", preset, mode, explores=True, overrides={"grep": "ask"}).decision == plain
    assert decide("task", "balanced", "default", explores=True, overrides={"task": "ask"}).decision == "ask"


def test_matrix_agrees_with_decide() -> None:
    for preset, mode in itertools.product(PRESETS, OPERATING_MODES):
        shown = dict(matrix(preset, mode, {"fetch": "deny"}))
        assert shown["write"] == decide("write", preset, mode).decision
        assert shown["bash, read-only"] == decide("bash", preset, mode, shell=LOOKING).decision
        assert shown["bash, otherwise"] == decide("bash", preset, mode, shell=DOING).decision
        assert shown["fetch"] == "deny"
        assert shown["MCP tools"] == decide("mcp__s__x", preset, mode).decision
        assert shown["task, explore"] == "allow"
        running = [name for name, tool in built_in_tools().items() if tool.kind == "runs"]  # two rows each
        assert len(shown) == len([*built_in_tools(), *running, "task, explore", "MCP tools"])


@pytest.mark.parametrize(
    "line",
    [
        "tar xf a --to-comm=evil",  # options are taken abbreviated, and letters in clusters
        "tar xIf evil a",
        "tar xf a --checkpoint=1 --checkpoint-act=exec=evil",
        "rsync -av --rs=evil a b",
        "rsync -avze evil a b",
        "make --ev=evil",
        "make -sf evil",
    ],
)
def test_always_covers_no_option_that_runs_a_program(line: str, tmp_path: Path) -> None:
    allowlist = ("tar", "rsync", "make all")
    assert bash(line, tmp_path, allowlist=allowlist)[0] == "ask"
    for plain in ("tar xzf a", "rsync -av --exclude=x a b", "make -j4 all"):
        assert bash(plain, tmp_path, allowlist=allowlist)[0] == "allow"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("mode", OPERATING_MODES)
def test_a_command_that_verifies_runs_unasked_in_auto_edit(preset: Preset, mode: OperatingMode) -> None:
    """Where bash is not denied; nowhere else does it make a difference."""
    plain, verifying = (decide("bash", preset, mode, shell=DOING, verifying=given) for given in (False, True))
    lifted = mode == "auto-edit" and plain.decision != "deny"
    assert verifying.decision == ("allow" if lifted else plain.decision)
    asked = decide("bash", preset, mode, shell=DOING, overrides={"bash": "ask"}, verifying=True).decision
    assert asked == {"plan": "deny", "yolo": "allow"}.get(mode, "ask")
    assert decide("bash", preset, mode, shell=DOING, overrides={"bash": "deny"}, verifying=True).decision == (
        "allow" if mode == "yolo" else "deny"
    )


@pytest.mark.parametrize(
    ("line", "verifies"),
    [
        ("pytest -q", True),
        ("  pytest -q\n", True),
        ("cd sub && pytest -q", True),
        ("(cd sub && pytest -q) && (cargo test)", True),
        ("make check", True),  # the person's own addition
        ("pytest -q; touch x", False),
        ("pytest -q && touch x", False),
        ("cd sub && pytest -q && touch x", False),
        ("(cd sub && pytest -q) && (touch x)", False),
        ("cd .. && pytest -q", False),
        ("cd out && pytest -q", False),
        ("cd - && pytest -q", False),
        ("cd /tmp && pytest -q", False),
        ("cd $HOME && pytest -q", False),
        ("cd sub;x && pytest -q", False),
        ("cd 'sub' ; x' && pytest -q", False),
        ("PATH=. pytest -q", False),
        ("pytest -q\ntouch x", False),
        ("", False),
    ],
)
def test_what_counts_as_a_command_that_verifies(tmp_path: Path, line: str, verifies: bool) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    assert is_verification(line, root, ["make check"]) is verifies
    decided = explain(line, root, "balanced", "auto-edit", verify_allow=["make check"]).decided
    assert decided.check or not verifies


def test_loading_a_skill_is_never_asked_about() -> None:
    for mode in OPERATING_MODES:
        assert decide("skill", "balanced", mode, overrides={"skill": "ask"}).decision == "allow"
        assert decide("skill", "balanced", mode, overrides={"skill": "deny"}).decision == "deny"


def told(line: str, root: Path, mode: OperatingMode) -> list[str]:
    reasons = decide("bash", "balanced", mode, shell=judge(line, root)).reasons
    return [str(reason) for reason in reasons[1:]]


def test_a_question_says_why_a_program_that_only_reads_is_in_doubt(tmp_path: Path) -> None:
    assert told("cat /root/x", tmp_path, "default") == [
        "`cat /root/x`: reads outside the workspace, where private data may be."
    ]
    assert told("npm install left-pad", tmp_path, "default") == []


def test_what_is_not_known_comes_before_checks(tmp_path: Path) -> None:
    line = "pytest -q; ruff check .; mypy .; curl example.org"
    assert told(line, tmp_path, "auto-edit")[0] == "`curl example.org`: not known to be read-only."
    assert len(told(line, tmp_path, "default")) == 3
