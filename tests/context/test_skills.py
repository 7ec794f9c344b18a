"""Skills: where they are found, which wins, what a broken one says, what the model is told and handed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from placing import Place

from coder.base.frontmatter import FrontmatterError, Node, read_header, read_simply, read_with_yaml, split
from coder.engine.commands.extensions import skills_answer
from coder.extend.skills import MAX_BODY, Skills
from coder.policy.workspace import DirectoryWorkspace
from coder.texts import Catalog
from coder.tools.read import Read
from coder.tools.skill import Skill
from coder.tools.tool import ToolResult


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_all_the_usual_directories_are_searched(place: Place) -> None:
    for directory, name in (
        (place.repo / ".coder/skills", "in-coder"),
        (place.repo / ".agents/skills", "in-agents"),
        (place.repo / ".claude/skills", "in-claude"),
        (place.work / ".agents/skills", "in-workspace"),
        (place.coder_home / "skills", "in-coder-home"),
        (place.home / ".agents/skills", "in-home-agents"),
        (place.home / ".claude/skills", "in-home-claude"),
        (place.root / "shared", "in-paths"),
        (place.work / "tools/skills", "in-relative-paths"),
    ):
        place.skill(directory, name)
    place.skill(place.root / ".claude/skills", "above-the-repository")
    skills = place.skills(str(place.root / "shared"), "tools/skills")
    found = {skill.name: skill.origin for skill in skills.all()}
    assert found == {
        "in-workspace": "project",
        "in-coder": "project",
        "in-agents": "project",
        "in-claude": "project",
        "in-coder-home": "home",
        "in-home-agents": "home",
        "in-home-claude": "home",
        "in-paths": "paths",
        "in-relative-paths": "paths",
        "create-skill": "built-in",
    }
    assert skills.broken() == []


def test_without_a_repository_only_the_workspace_is_the_project(place: Place) -> None:
    place.skill(place.root / ".claude/skills", "above")
    place.skill(place.work / ".claude/skills", "here")
    (place.repo / ".git").rmdir()
    assert [s.name for s in place.skills().all() if s.origin == "project"] == ["here"]


def test_the_nearest_of_a_name_wins_and_a_broken_one_does_not_hide_a_good_one(place: Place) -> None:
    place.skill(place.home / ".claude/skills", "deploy", "from home")
    place.skill(place.repo / ".claude/skills", "deploy", "from the repository")
    assert place.described("deploy") == "from the repository"
    place.skill(place.repo / ".agents/skills", "deploy", "from agents")
    assert place.described("deploy") == "from agents"
    place.skill(place.repo / ".coder/skills", "deploy", "from coder")
    assert place.described("deploy") == "from coder"
    place.skill(place.work / ".claude/skills", "deploy", "from the workspace")
    assert place.described("deploy") == "from the workspace"
    place.write(place.work / ".claude/skills/deploy/SKILL.md", "no frontmatter\n")
    assert place.described("deploy") == "from coder"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Just text\n", "no frontmatter"),
        ("", "no frontmatter"),
        ("---\nname: odd\ndescription: never closed\n", "not closed"),
        ("---\nname: odd\ndescription: [unclosed\n---\n", "no valid YAML"),
        ('---\nname: odd\ndescription: "x" y\n---\n', "no valid YAML"),
        ("---\n- a\n- b\n---\n", "fields of the form"),
        ("---\nname: odd\n---\nbody", "no description"),
        ("---\nname: odd\ndescription: '  '\n---\n", "no description"),
        ("---\nname: odd\ndescription:\n  a: b\n---\n", "no description"),
        ("---\nname: other\ndescription: x\n---\n", "'other', but its folder is 'odd'"),
        ("---\nname: odd\ndescription: x\n---\n\0", "not a text file"),
        ("---\nname: odd\nx: " + "[" * 9000 + "\ndescription: x\n---\n", "nested more than"),
        ("---\nname: odd\ndescription: " + "x" * 70_000 + "\n---\n", "longer than"),
        ("---\nname: odd\ndescription: x\n---\n" + "x" * 1_100_000, "bytes"),
    ],
)
def test_a_broken_skill_is_told_with_file_and_reason(place: Place, text: str, reason: str) -> None:
    file = place.write(place.work / ".coder/skills/odd/SKILL.md", text)
    place.skill(place.work / ".coder/skills", "good")
    skills = place.skills()
    assert [s.name for s in skills.all()] == ["good", "create-skill"]
    (broken,) = skills.broken()
    assert broken.file == file
    assert reason in str(broken.reason)
    result = place.call(Skill(skills), action="load", name="odd")
    assert not result.ok
    assert result.for_model.startswith("error: the skill odd is broken")
    assert reason in result.for_model
    assert reason in str(skills_answer(skills).text)


def test_what_cannot_be_read_is_broken_and_never_waited_for(place: Place) -> None:
    below = place.work / ".coder/skills"
    (below / "folder" / "SKILL.md").mkdir(parents=True)
    (below / "pipe").mkdir()
    os.mkfifo(below / "pipe" / "SKILL.md")
    (below / "circle").mkdir()
    (below / "circle" / "SKILL.md").symlink_to("SKILL.md")
    place.write(below / "no-skill" / "README.md", "x")
    place.write(below / "loose.md", "x")
    skills = place.skills(".coder/skills")  # named once more, told of once
    assert sorted(b.name for b in skills.broken()) == ["circle", "folder", "pipe"]


def test_a_project_cannot_lead_out_of_itself_by_a_link(place: Place) -> None:
    secret = place.write(place.root / "secret/SKILL.md", "---\nname: secret\ndescription: x\n---\nkey\n")
    below = place.work / ".coder/skills"
    below.mkdir(parents=True)
    (below / "secret").symlink_to(secret.parent)
    skills = place.skills()
    assert "leads out of the project" in str(skills.broken()[0].reason)
    assert not place.readable(skills, secret)
    # The person's own links are theirs to make.
    (place.home / ".claude/skills").mkdir(parents=True)
    (place.home / ".claude/skills/secret").symlink_to(secret.parent)
    skills = place.skills()
    assert place.readable(skills, secret)


def test_the_files_of_a_skill_outside_the_workspace_can_be_read(place: Place) -> None:
    for directory in (place.home / ".claude/skills", place.repo / ".agents/skills", place.root / "shared"):
        name = directory.name + "-" + directory.parent.name.strip(".")
        place.skill(directory, name, body="See scripts/run.py.")
        place.write(directory / name / "scripts/run.py", f"print({name!r})\n")
        place.write(directory / name / ".git/config", "x")
    skills = place.skills(str(place.root / "shared"))
    loaded = [place.call(Skill(skills), action="load", name=s.name) for s in skills.all()]
    for result in loaded:
        assert result.ok
        assert ".git" not in result.for_model
    runs = [line[2:] for r in loaded for line in r.for_model.splitlines() if line.endswith("run.py")]
    assert len(runs) == 3
    for path in runs:
        answer = place.call(Read(), path=path, workspace=place.workspace(skills))
        assert "print(" in answer.for_model
    outside = place.write(place.root / "private.txt", "x")
    assert place.call(Read(), path=str(outside), workspace=place.workspace(skills)).denied


def test_loading_gives_body_and_files(place: Place) -> None:
    place.skill(place.work / ".coder/skills", "deploy", body="# Deploy\n\n1. Run `make ship`.\n")
    place.write(place.work / ".coder/skills/deploy/references/env.md", "x")
    result = place.call(Skill(place.skills()), action="load", name="deploy")
    assert "1. Run `make ship`." in result.for_model
    assert "description:" not in result.for_model
    assert "- .coder/skills/deploy/references/env.md" in result.for_model.splitlines()
    assert result.meta["name"] == "deploy"


def test_a_long_body_is_cut_and_says_where_the_rest_is(place: Place) -> None:
    place.skill(place.work / ".coder/skills", "long", body="x" * (MAX_BODY + 10))
    result = place.call(Skill(place.skills()), action="load", name="long")
    assert len(result.for_model) < MAX_BODY + 500
    assert "the rest is in .coder/skills/long/SKILL.md" in result.for_model


def test_a_missing_skill_gets_the_nearest_names(place: Place) -> None:
    place.skill(place.work / ".coder/skills", "pdf-processing")
    tool = Skill(place.skills())
    for name in ("pdf-procesing", "pdf", "PDF-Processing"):
        assert "pdf-processing" in _failed(place.call(tool, action="load", name=name))
    for name in ("../../etc", "\n", "名"):
        assert "create-skill" in _failed(place.call(tool, action="load", name=name))
    assert "pdf-processing" in _failed(place.call(tool, action="load"))


def _failed(result: ToolResult) -> str:
    assert not result.ok
    assert result.for_model.startswith("error: ")
    return result.for_model


def test_a_skill_written_in_the_session_is_found(place: Place) -> None:
    skills = place.skills()
    assert "create-skill" in skills.index()
    place.skill(place.work / ".coder/skills", "fresh", "made just now")
    result = place.call(Skill(skills), action="list")
    assert "- fresh: made just now" in result.for_model
    assert place.call(Skill(skills), action="load", name="fresh").ok


def test_the_built_in_skill_follows_the_rules_it_teaches(place: Place) -> None:
    (built_in,) = place.skills().all()
    assert built_in.name == "create-skill"
    assert len(built_in.description) <= 1024
    assert place.readable(place.skills(), built_in.file)
    result = place.call(Skill(place.skills()), action="load", name="create-skill")
    assert "SKILL.md" in result.for_model
    assert len(result.for_model.splitlines()) < 500


def test_the_index_is_one_line_a_skill_and_bounded(place: Place) -> None:
    for number in range(60):
        place.skill(place.work / ".coder/skills", f"skill-{number:02}", "word " * 150)
    skills = place.skills()
    whole = skills.index(100_000)
    assert len(whole.splitlines()) == 61
    assert all(line.startswith("- ") for line in whole.splitlines())
    for limit in (20_000, 8_000, 3_000, 900, 300):
        index = skills.index(limit)
        assert len(index) <= limit
        assert "skill-00" in index
    assert "more: see skill with action list" in skills.index(300)
    assert "skill-59" in skills.index(3_000)


def test_an_index_line_is_one_line_whatever_the_description(place: Place) -> None:
    place.write(
        place.work / ".coder/skills/multi/SKILL.md",
        "---\nname: multi\ndescription: >\n  several\n  lines\n\n  # not a heading\nmetadata:\n  a: b\n---\n",
    )
    assert "- multi: several lines # not a heading\n" in place.skills().index()


def test_the_person_sees_origins_and_faults_in_both_languages(place: Place) -> None:
    place.skill(place.work / ".coder/skills", "good")
    place.write(place.work / ".coder/skills/bad/SKILL.md", "x")
    english = str(skills_answer(place.skills()).text)
    assert "good" in english
    assert "[project]" in english
    assert "1 skill is broken" in english
    assert "已损坏" in Catalog("zh").of(skills_answer(place.skills()).text)


def test_ordinary_skills_do_not_load_yaml(place: Place) -> None:
    place.skill(place.work / ".coder/skills", "plain", "Do this: when asked, and 'quoted' too")
    code = (
        "import sys; from pathlib import Path; from coder.extend.skills import Skills\n"
        f"s = Skills(Path({str(place.work)!r}), Path({str(place.coder_home)!r}), None)\n"
        "print(s.index()); sys.exit(1 if 'yaml' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "plain: Do this: when asked" in done.stdout


# the head


values = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Z", "S"]), max_size=12)


@given(
    st.lists(st.tuples(st.sampled_from(["name", "description", "allowed-tools", "x_1"]), values), max_size=3)
)
@example([("name", "'a' b")])
@example([("name", '"a: b"')])
def test_the_short_way_reads_what_yaml_reads(fields: list[tuple[str, str]]) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in fields)
    short = read_simply(head)
    if short is not None and not any(": " in str(node.value) for node in short.values()):
        assert short == read_with_yaml(head)


def test_a_colon_in_a_plain_value_is_text_however_the_rest_is_written() -> None:
    line = "description: Use it when: asked, it's said"
    wanted = "Use it when: asked, it's said"
    for head in (f"{line}\n", f"{line}\nmetadata:\n  a: b\n", f"tags: [a, b]\n{line}\nx: >\n  y\n"):
        assert read_header(head)["description"].value == wanted, head


@given(st.text(max_size=200))
def test_no_text_is_more_than_a_bad_head(text: str) -> None:
    for candidate in (text, f"---\n{text}\n---\n"):
        with contextlib.suppress(FrontmatterError):
            read_header(split(candidate)[0] or "")


def test_line_endings_and_a_byte_order_mark_do_not_matter(place: Place) -> None:
    path = place.work / ".coder/skills/dos/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xef\xbb\xbf---\r\nname: dos\r\ndescription: x\r\n---\r\nbody\r\n")
    assert place.described("dos") == "x"
    assert "body" in place.call(Skill(place.skills()), action="load", name="dos").for_model


def test_values_know_their_lines() -> None:
    head, body, line = split("---\nname: a\n# why\ndescription: 'b'\n---\nbody\n")
    assert (body, line) == ("body\n", 6)
    assert read_header(head or "") == {"name": Node(2, "a", plain=True), "description": Node(4, "b")}


def test_skills_and_workspace_agree_on_what_is_readable(place: Place) -> None:
    skills = Skills(place.work, place.coder_home, place.home)
    assert all(directory.is_absolute() for directory in skills.readable_directories())
    DirectoryWorkspace(place.work, skills.readable_directories())


def test_a_path_may_name_one_skill_itself(place: Place) -> None:
    place.skill(place.root / "shared", "alone")
    skills = place.skills(str(place.root / "shared" / "alone"))
    (skill,) = [s for s in skills.all() if s.origin == "paths"]
    assert (skill.name, skill.directory) == ("alone", place.root / "shared" / "alone")
