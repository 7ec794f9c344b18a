"""What the engine takes in from around it: skills, memory, and the person's editor."""

from __future__ import annotations

from coder.protocol.events import ApprovalRequested, CommandDone, Notice
from kit.driving import Project, of, play

SKILL = "---\nname: brew\ndescription: How to brew tea here.\n---\n\nBoil water first.\n"


def test_a_skill_never_waits_for_a_person_also_where_the_settings_ask(project: Project) -> None:
    project.configure(permission={"tools": {"skill": "ask"}})
    project.write(".coder/skills/brew/SKILL.md", SKILL)
    load = {"name": "skill", "arguments": {"action": "load", "name": "brew"}}
    driver = play(project, [{"calls": [load]}, {"text": "ok"}], ["go"], can_ask=True)
    assert of(driver.seen, ApprovalRequested) == []
    assert "Boil water first." in driver.chats[1]["messages"][-1]["content"]


def test_a_skill_is_in_the_index_and_loaded_on_demand_without_asking(project: Project) -> None:
    project.write(".coder/skills/brew/SKILL.md", SKILL)
    project.write(".coder/skills/brew/notes.txt", "Use the red pot.\n")
    calls = [
        {"name": "skill", "arguments": {"action": "load", "name": "brew"}},
        {"name": "read", "arguments": {"path": ".coder/skills/brew/notes.txt"}},
    ]
    driver = play(project, [{"calls": calls}, {"text": "ok"}], ["go", "/skills"], preset="strict")
    system = driver.chats[0]["messages"][0]["content"]
    assert "brew" in system
    assert "Boil water" not in system
    skill, notes = (m["content"] for m in driver.chats[1]["messages"] if m["role"] == "tool")
    assert "Boil water first." in skill
    assert "red pot" in notes
    assert "brew" in of(driver.seen, CommandDone)[0].text


def test_a_fact_is_remembered_in_the_next_session(project: Project) -> None:
    save = {"name": "save_memory", "arguments": {"fact": "The build needs Java 21."}}
    play(project, [{"calls": [save]}, {"text": "ok"}], ["remember"], mode="yolo", preset="yolo")
    driver = play(project, [{"text": "ok"}], ["hi", "/memory"])
    assert "The build needs Java 21." in driver.chats[0]["messages"][0]["content"]
    assert "The build needs Java 21." in of(driver.seen, CommandDone)[0].text


def test_what_the_person_adds_reaches_the_model_at_once(project: Project) -> None:
    driver = play(project, [{"text": "a"}, {"text": "b"}], ["hi", "/memory add Tests are slow.", "go"])
    assert "Tests are slow." in driver.chats[1]["messages"][-1]["content"]
    first, second = driver.chats
    assert second["messages"][: len(first["messages"])] == first["messages"]


def test_a_fact_outlives_the_compaction_of_its_message(project: Project) -> None:
    long = " ".join(f"w{n}" for n in range(1300))
    save = {"name": "save_memory", "arguments": {"fact": "Ports start at 9000."}}
    script = [{"calls": [save]}, {"text": long}, {"text": "brief"}, {"text": "ok"}]
    driver = play(project, script, ["remember", "/compact", "go"], mode="yolo", preset="yolo")
    assert "Ports start at 9000." in driver.chats[-1]["messages"][1]["content"]


def test_files_named_with_an_at_sign_are_put_into_the_message(project: Project) -> None:
    project.write("notes.txt", "the red pot\n")
    driver = play(project, [{"text": "ok"}], ["see @notes.txt and @nowhere.txt ?"])
    message = driver.chats[0]["messages"][-1]["content"]
    assert "the red pot" in message
    assert project.of_type("turn_start")[0]["content"] == "see @notes.txt and @nowhere.txt ?"
    assert any("nowhere.txt" in e.text for e in of(driver.seen, Notice))
