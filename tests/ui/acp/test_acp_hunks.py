"""Parts of a change, chosen in a form of the editor."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import Editor, converse

from kit.calls import call
from kit.driving import Project


@pytest.mark.parametrize(
    ("content", "left", "told"),
    [
        ({"hunks": ["2"], "reason": "one stays"}, "1\n{}zwölf\n", "Hunk 1 of 2"),
        ({"hunks": ["1", "2"]}, "eins\n{}zwölf\n", "updated a.txt"),
        ({"hunks": []}, "1\n{}12\n", "denied: the person refused"),
        (None, "1\n{}12\n", "denied: the person refused"),
    ],
)
def test_hunks_are_chosen_in_a_form(
    project: Project, content: dict[str, Any] | None, left: str, told: str
) -> None:
    between = "".join(f"{n}\n" for n in range(2, 12))
    project.write("a.txt", f"1\n{between}12\n")
    project.configure(workflow={"auto_verify_after_edit": False})
    new = f"eins\n{between}zwölf\n"
    script = [{"calls": [call("read", path="a.txt")]}, {"calls": [call("write", path="a.txt", content=new)]}]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "change it")
        (asked,) = ed.client.asked
        assert asked["options"] == {"allow": "allow_once", "some": "allow_once", "reject": "reject_once"}
        (form,) = ed.client.forms
        assert form["toolCallId"] == asked["call"]["toolCallId"]
        offered = form["requestedSchema"]["properties"]["hunks"]
        titles = [one["title"] for one in offered["items"]["anyOf"]]
        assert titles == ["a.txt @@ -1,4 +1,4 @@ +1 -1: -1", "a.txt @@ -9,4 +9,4 @@ +1 -1: -12"]
        assert offered["default"] == ["1", "2"]

    server = converse(
        project, [*script, {"text": "ok"}], scenario, lambda asked: "some", fill=lambda form: content
    )
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == left.format(between)
    heard = server.chats[2]["messages"][-1]["content"]
    assert told in heard
    assert ("one stays" in heard) == bool(content and content.get("reason"))


def test_a_client_without_forms_is_offered_no_hunks(project: Project) -> None:
    project.write("a.txt", "1\n" + "\n" * 20 + "12\n")
    change = call("write", path="a.txt", content="eins\n" + "\n" * 20 + "zwölf\n")
    script = [{"calls": [call("read", path="a.txt")]}, {"calls": [change]}, {"text": "ok"}]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "change it")
        assert "some" not in ed.client.asked[0]["options"]

    converse(project, script, scenario, lambda asked: "some")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8").startswith("1\n")


def test_a_review_of_the_session_is_a_form_too(project: Project) -> None:
    between = "".join(f"{n}\n" for n in range(2, 12))
    project.write("a.txt", f"1\n{between}12\n")
    project.configure(workflow={"auto_verify_after_edit": False})
    change = call("write", path="a.txt", content=f"eins\n{between}zwölf\n")
    script = [{"calls": [call("read", path="a.txt")]}, {"calls": [change]}, {"text": "ok"}]

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        await ed.prompt(session, "change it")
        await ed.prompt(session, "/diff review")
        assert ed.client.asked[-1]["options"] == {
            "allow": "allow_once",
            "some": "allow_once",
            "reject": "reject_once",
        }
        assert ed.client.asked[-1]["call"]["title"].startswith("These changes are already made")

    def answer(asked: dict[str, Any]) -> str:
        return "some" if asked["call"]["toolCallId"].startswith("ask.") else "allow"

    converse(project, script, scenario, answer, fill=lambda form: {"hunks": ["2"]})
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == f"1\n{between}zwölf\n"
