"""Files of the context that are huge, binary, links in circles or no files: bounded, said, survived."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coder.context.memory import MAX_FILE, Memory
from coder.context.prompt import MAX_INSTRUCTIONS, project_instructions, read_instructions
from coder.extend.skills import MAX_INDEX
from coder.protocol.events import Notice
from kit.driving import Driver, Project, of, play


def make(path: Path, kind: str) -> None:
    """Something at `path` that is no plain text file of a sensible size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "circle":
            path.symlink_to(path.name)
        case "nowhere":
            path.symlink_to("not there")
        case "device":
            path.symlink_to("/dev/zero")
        case "binary":
            path.write_bytes(b"\x7fELF\0\0\0" * 100)
        case "huge":
            path.write_text("a line of text that goes on and on\n" * 20_000, encoding="utf-8")
        case "latin":
            path.write_bytes(b"caf\xe9 rules\n")


KINDS = ["folder", "pipe", "circle", "nowhere", "device", "binary", "huge", "latin"]
SAID = {
    "folder": "not an ordinary file",
    "pipe": "not an ordinary file",
    "circle": "cannot be read",
    "nowhere": "",
    "device": "leads out of the project",
    "binary": "not a text file",
    "latin": "",
}


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def first_request(project: Project) -> tuple[Driver, str]:
    """A session of one turn, and all that its request says."""
    driver = play(project, [{"text": "fine"}], ["hi"])
    return driver, "\n".join(m["content"] for m in driver.chats[0]["messages"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["AGENTS.md", ".coder/memory.md"])
def test_a_session_begins_all_the_same_and_says_why(project: Project, name: str, kind: str) -> None:
    make(project.cwd / name, kind)
    before = files_open()
    driver, sent = first_request(project)
    assert files_open() <= before
    assert "\0" not in sent
    assert len(sent) < 2 * MAX_INSTRUCTIONS
    told = [e.text for e in of(driver.seen, Notice) if Path(name).name in e.text]
    wanted = {**SAID, "huge": "longer than" if name == "AGENTS.md" else "larger than"}[kind]
    assert len(told) == (1 if wanted else 0), told
    assert all(wanted in text for text in told)
    if kind == "latin":
        assert " rules" in sent


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("latin", "nowhere")])
def test_a_skill_like_that_is_reported_and_the_others_stay(project: Project, kind: str) -> None:
    make(project.cwd / ".coder/skills/odd/SKILL.md", kind)
    project.write(".coder/skills/good/SKILL.md", "---\nname: good\ndescription: Does good.\n---\nDo it.\n")
    driver, sent = first_request(project)
    assert "- good: Does good." in sent
    assert [b.name for b in driver.engine.agent.skills.broken()] == ["odd"]


def test_a_link_in_the_project_cannot_put_a_private_file_into_the_context(project: Project) -> None:
    secret = project.home / "secret.txt"
    secret.write_text("the family recipe\n", encoding="utf-8")
    (project.cwd / "AGENTS.md").symlink_to(secret)
    (project.cwd / ".coder").mkdir()
    (project.cwd / ".coder/memory.md").symlink_to(secret)
    driver, sent = first_request(project)
    assert "recipe" not in sent
    assert len([e for e in of(driver.seen, Notice) if "link that leads out" in e.text]) == 2


def test_a_link_inside_the_project_is_followed(project: Project) -> None:
    project.write("docs/rules.md", "Use tabs.\n")
    (project.cwd / "AGENTS.md").symlink_to("docs/rules.md")
    assert "Use tabs." in first_request(project)[1]


def test_instructions_from_the_repository_root_down_and_from_home(tmp_path: Path) -> None:
    repo, home = tmp_path / "repo", tmp_path / "home"
    work = repo / "a" / "b"
    work.mkdir(parents=True)
    home.mkdir()
    (tmp_path / "AGENTS.md").write_text("above the repository", encoding="utf-8")
    for directory, text in ((home, "home"), (repo, "root"), (repo / "a", "middle"), (work, "here")):
        (directory / "AGENTS.md").write_text(f"rules of {text}", encoding="utf-8")
    alone = project_instructions(work, home)
    assert [line for line in alone.splitlines() if line.startswith("rules")] == [
        "rules of home",
        "rules of here",
    ]
    (repo / ".git").mkdir()
    told = project_instructions(work, home)
    assert [line.split()[-1] for line in told.splitlines() if line.startswith("rules")] == [
        "home", "root", "middle", "here"
    ]  # fmt: skip
    assert "above" not in told


def test_all_instructions_together_are_bounded_in_bytes_and_cut_between_lines(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / "a").mkdir(parents=True)
    (repo / ".git").mkdir()
    line = "规则：使用制表符。\n"
    for directory in (repo, repo / "a"):
        (directory / "AGENTS.md").write_text(line * 1_000, encoding="utf-8")
    read = read_instructions(repo / "a", tmp_path / "home")
    lines = [text for text in read.text.splitlines() if text.startswith("规")]
    assert set(lines) == {line.strip()}  # no half character, no half line
    assert MAX_INSTRUCTIONS - 200 < len("\n".join(lines).encode()) <= MAX_INSTRUCTIONS
    assert "[cut at" in read.text
    assert [problem.key for problem in read.problems] == ["context.file.cut"]
    (repo / "a" / "AGENTS.md").write_text("x" * MAX_INSTRUCTIONS, encoding="utf-8")
    read = read_instructions(repo / "a", tmp_path / "home")
    assert [problem.key for problem in read.problems] == ["context.file.full"]


def test_what_memory_lost_and_gained_since_the_prompt_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "work/.coder").mkdir(parents=True)
    memory = Memory(tmp_path / "work", tmp_path / "home")
    facts = [f"- fact number {n} of the old ones" for n in range(2_000)]
    memory.path("project").write_text("\n".join(facts) + "\n", encoding="utf-8")
    prompt = f"<memory>\n{memory.text()}\n</memory>"
    assert memory.missing_from(prompt) == []  # the oldest are too old for the context, and stay out of it
    assert memory.gone_from(prompt) == []
    memory.save("brand new")
    memory.forget(1_999)
    assert memory.missing_from(prompt)[-1] == "brand new"
    assert memory.gone_from(prompt) == ["fact number 1998 of the old ones"]
    memory.path("project").write_bytes(b"- x\n" * MAX_FILE)
    assert memory.text() == ""


def test_the_index_of_many_skills_stays_within_its_bound_on_the_wire(project: Project) -> None:
    for number in range(300):
        name = f"skill-{number:03}"
        project.write(
            f".agents/skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: {'word ' * 60}\n---\nx\n"
        )
    _, sent = first_request(project)
    index = sent.split("<skills>\n")[1].split("\n</skills>")[0]
    assert len(index) <= MAX_INDEX
    assert "skill-000" in index
