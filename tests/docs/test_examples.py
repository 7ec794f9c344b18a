"""What README and docs show is true: their code is run, their settings are loaded, their commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from coder.addons.batch.task_file import Task, check_task
from coder.base.addons import addons, commands
from coder.cli.arguments import main_parser
from coder.cli.start import subcommands
from coder.config.load import load_config
from coder.config.schema import Config
from coder.engine.commands.table import COMMANDS
from coder.extend.modes.discover import Catalogue, places
from coder.policy.decide import preset_table
from coder.protocol.ops import AnyOp
from coder.ui.terminal.local_commands import LOCAL
from kit import ScriptedServer
from kit.driving import Project

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


FENCED = re.compile(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced piece of a page."""

    name: str
    language: str
    text: str
    title: str  # a path in the repository, where the piece belongs there: `test_howto` puts it in


def _blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCED.finditer(text):
            line = text[: match.start()].count("\n") + 1
            found.append(Block(f"{page.relative_to(ROOT)}:{line}", match[1], match[3], match[2] or ""))
    return found


BLOCKS = _blocks()


def in_language(*languages: str) -> list[object]:
    return [pytest.param(b.text, id=b.name) for b in BLOCKS if b.language in languages and not b.title]


def test_every_block_is_looked_at_by_a_test() -> None:
    assert {block.language for block in BLOCKS} <= {
        "python",
        "json",
        "jsonc",
        "jsonl",
        "markdown",
        "sh",
        "text",
        "diff",
        "",
    }
    assert all(block.title for block in BLOCKS if block.language == "diff")
    assert all((ROOT / page).read_text(encoding="utf-8").count("```") % 2 == 0 for page in PAGES)


@pytest.mark.parametrize("code", in_language("python"))
def test_python_runs(project: Project, code: str) -> None:
    example = project.write("example.py", code)
    with ScriptedServer([{"text": "It sells baskets."}] * 3) as server:
        done = subprocess.run(
            [sys.executable, str(example)],
            cwd=project.cwd,
            env=project.environ(server.url),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "It sells baskets. ok" in done.stdout


@pytest.mark.parametrize("text", in_language("jsonc"))
def test_settings_load(project: Project, text: str) -> None:
    project.write("config.json", text)
    loaded = load_config(
        project.cwd, project.home / ".coder", {}, {}, project.cwd / "config.json", preset_table, trusted=True
    )
    assert loaded.config != Config()


@pytest.mark.parametrize("text", in_language("json"))
def test_ops_are_ops(text: str) -> None:
    msgspec.json.decode(text.encode("utf-8"), type=AnyOp)


@pytest.mark.parametrize("text", in_language("jsonl"))
def test_lines_of_task_files_are_tasks(text: str) -> None:
    for line in text.splitlines():
        check_task(msgspec.json.decode(line.encode("utf-8"), type=Task), {})


def _modes(project: Project) -> Catalogue:
    return Catalogue(places(project.cwd, {}, project.home / ".coder"))


@pytest.mark.parametrize("text", in_language("markdown"))
def test_mode_files_are_modes(project: Project, text: str) -> None:
    project.write(".coder/modes/example.md", text)
    (definition,) = _modes(project).definitions
    assert definition.error is None
    assert definition.warnings == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "examples" / "modes").glob("*.md")), ids=lambda p: p.stem
)
def test_example_modes_are_modes(project: Project, path: Path) -> None:
    project.write(f".coder/modes/{path.name}", path.read_bytes())
    (definition,) = _modes(project).definitions
    assert definition.error is None
    assert definition.warnings == []


def _lines() -> list[str]:
    """Lines of shell blocks, and what stands in backticks and begins with one of our commands."""
    lines = [line for block in BLOCKS if block.language == "sh" for line in block.text.splitlines()]
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        lines += re.findall(r"`((?:coder|\./dev) [^`]+)`", prose)
    return lines


@pytest.mark.parametrize("line", sorted({line for line in _lines() if "coder " in line}))
def test_commands_are_commands(line: str) -> None:
    """Options exist, subcommands exist; the part after a pipe is what counts."""
    there = line.replace("--lang fr", "--lang zh")  # French is what docs/add-language.md adds
    words = shlex.split(there.split("|")[-1], comments=True)
    if "coder" not in words:
        return
    arguments = words[words.index("coder") + 1 :]
    if arguments[1:] and any(arguments[0] in addon.own_options for addon in addons()):
        import_module(commands().get(arguments[0]) or f"coder.cli.{arguments[0]}").parser(
            arguments[1:]
        ).parse_args(arguments[1:])
        return
    chosen, unknown = main_parser().parse_known_args(arguments)
    if chosen.words and chosen.words[0] in subcommands():
        return  # which checks its own options
    assert unknown == []
    assert chosen.once or not chosen.words or " " in chosen.words[0], "neither a question nor a subcommand"


@pytest.mark.parametrize("line", sorted({line for line in _lines() if "./dev " in line}))
def test_dev_knows_its_words(line: str) -> None:
    word = line.split("./dev ", 1)[1].split()[0]
    script = (ROOT / "dev").read_text(encoding="utf-8")
    assert re.search(rf"^  (\w+ \| )*{word}( \| \w+)*\)", script, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text):
        assert (page.parent / target.split("#")[0]).exists(), target


def commands_named(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return set(re.findall(r"`/([a-z][a-z-]*)(?![\w/.-])[^`]*`", text))


PERSONS_PAGES = ["session", "permissions", "memory", "instructions", "providers", "troubleshooting"]


@pytest.mark.parametrize(
    "page", ["README.md", "README.zh.md", *(f"docs/{name}.md" for name in PERSONS_PAGES)]
)
def test_the_commands_that_pages_name_exist(page: str) -> None:
    named = commands_named(page)
    assert named
    assert named - {*COMMANDS, *LOCAL} <= {"name"}  # which stands for a mode of one's own


def test_the_page_on_sessions_names_the_everyday_commands() -> None:
    everyday = {"undo", "redo", "rewind", "diff", "status", "budget", "memory"}
    assert commands_named("docs/session.md") >= everyday


def test_the_readme_stays_short() -> None:
    assert all(len((ROOT / name).read_text().splitlines()) <= 120 for name in ("README.md", "README.zh.md"))
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    assert all(any(word in line for line in first_screen) for word in ("./dev demo", "--live", "./dev test"))


def test_no_source_cites_a_document_that_is_not_here() -> None:
    cited = re.compile(r"\bseed \d{3}|\bSPEC §|\b00\d §")
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("src/**/*.py")
        if cited.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def _shape(name: str) -> list[str]:
    """What both languages share: headings by depth, code without its comments, what stands in backticks in
    tables, links."""
    text = (ROOT / name).read_text(encoding="utf-8").partition("\n## ")[2]
    found = []
    for line in text.splitlines():
        if found_heading := re.match(r"#+(?= )", line):
            found.append(found_heading[0])
        elif line.startswith("|"):
            found.append(" ".join(sorted(re.findall(r"`[^`]+`", line))))
    blocks = [re.sub(r"\s*(#|//) .*", "", match[3]) for match in FENCED.finditer(text)]
    return [*found, *blocks, *sorted(re.findall(r"\]\(([^)]+)\)", text))]


def test_the_chinese_readme_says_the_same() -> None:
    assert _shape("README.zh.md") == _shape("README.md")
    assert "](README.zh.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](README.md)" in (ROOT / "README.zh.md").read_text(encoding="utf-8")
