"""`coder acp` as an editor's user meets it: the official SDK's client, the real process, a scripted model."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from typing import Any

import acp
import pytest
from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    TextResourceContents,
)
from acp_kit import Editor, converse

from kit.calls import call
from kit.driving import Project
from kit.images import png


def test_a_conversation(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        hello = ed.hello
        assert hello.protocol_version == acp.PROTOCOL_VERSION
        assert hello.agent_info is not None
        assert hello.agent_info.name == "coder"
        assert hello.auth_methods == []
        assert hello.agent_capabilities is not None
        assert hello.agent_capabilities.load_session is True
        opened = await ed.opened()
        session = opened.session_id
        assert opened.modes is not None
        assert [m.id for m in opened.modes.available_modes] == ["plan", "default", "auto-edit", "yolo"]
        answer = await ed.prompt(session, "what is it?")
        assert answer.stop_reason == "end_turn"
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)
        assert ed.client.text("agent_thought_chunk") == "let me see"
        assert ed.client.text() == "It is a test."
        assert [u["title"] for u in ed.client.of("session_info_update")] == ["what is it?"]
        (usage,) = ed.client.of("usage_update")
        assert usage["used"] == 10
        assert {s for s, _ in ed.client.updates} == {session}
        answer = await ed.prompt(session, "and now?")
        assert ed.client.text().endswith("Still a test.")

    script = [
        {
            "reasoning": "let me see",
            "text": "It is a test.",
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        },
        {"text": "Still a test."},
    ]
    server = converse(project, script, scenario)
    said = [m["content"].partition("\n\n<note>")[0] for m in server.chats[1]["messages"][1:]]
    assert said == ["what is it?", "It is a test.", "and now?"]
    assert project.events()[-1]["type"] == "session_end"
    assert project.events()[0]["meta"]["mode"] == "acp"


EDIT = [
    {"calls": [call("read", path="a.txt", offset=2)]},
    {"calls": [call("edit", path="a.txt", old_string="two", new_string="zwei")]},
    {"text": "done"},
]


def test_an_edit_is_asked_about_and_shown_as_a_diff(project: Project) -> None:
    project.write("a.txt", "one\ntwo\nthree\n")
    project.configure(workflow={"auto_verify_after_edit": False})

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "change it")
        (asked,) = ed.client.asked
        assert asked["options"] == {"allow": "allow_once", "reject": "reject_once"}
        path = str(project.cwd / "a.txt")
        diff = {"type": "diff", "path": path, "oldText": "one\ntwo\nthree\n", "newText": "one\nzwei\nthree\n"}
        shown, reason = asked["call"]["content"]
        assert shown == diff
        assert "Mode default with preset balanced asks before edit" in reason["content"]["text"]
        read, edited = ed.client.calls().values()
        assert (read["kind"], read["status"], read["title"]) == ("read", "completed", "read a.txt")
        assert read["locations"] == [{"path": path, "line": 2}]
        assert (edited["kind"], edited["status"]) == ("edit", "completed")
        assert edited["content"] == [diff]
        assert edited["locations"] == [{"path": path, "line": 2}]
        assert edited["rawInput"] == {"path": "a.txt", "old_string": "two", "new_string": "zwei"}
        assert asked["call"]["toolCallId"] == edited["toolCallId"]
        statuses = [u.get("status") for u in ed.client.of("tool_call_update")]
        assert statuses == ["in_progress", "completed", "in_progress", "completed"]

    converse(project, EDIT, scenario)
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\nzwei\nthree\n"


def test_every_operation_of_a_patch_is_in_the_question(project: Project) -> None:
    project.write("a.txt", "one\ntwo\n")
    project.write("old.txt", "stays as it is\n")
    project.write("logo.bin", b"\0\1")
    project.write("run.sh", "true\n").chmod(0o644)
    patch = (
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n"
        + f"-two\n+{'x' * 3000}\n+the end\n"
        + "diff --git a/old.txt b/new.txt\nrename from old.txt\nrename to new.txt\n"
        + "diff --git a/logo.bin b/logo.bin\ndeleted file mode 100644\n"
        + "diff --git a/empty b/empty\nnew file mode 100755\n"
        + "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    )

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "change it")
        (asked,) = ed.client.asked
        told = [one["content"]["text"] for one in asked["call"]["content"] if one["type"] == "content"]
        assert told[:5] == [
            "update a.txt (+2 -1)",
            "move old.txt to new.txt (+0 -0)",
            "delete logo.bin (binary)",
            "create empty (+0 -0), mode 755",
            "update run.sh (+0 -0), mode 755",
        ]
        assert asked["call"]["rawInput"] == {"patch": patch}

    converse(project, [{"calls": [call("patch", patch=patch)]}, {"text": "ok"}], scenario, lambda _: "reject")


def test_a_refusal_reaches_the_model(project: Project) -> None:
    project.write("a.txt", "one\ntwo\nthree\n")

    async def scenario(ed: Editor) -> None:
        answer = await ed.prompt(await ed.new(), "change it")
        assert answer.stop_reason == "end_turn"
        _, edited = ed.client.calls().values()
        assert edited["status"] == "failed"

    server = converse(project, EDIT, scenario, lambda asked: "reject")
    assert server.chats[2]["messages"][-1]["content"].startswith("denied: the person refused")
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


@pytest.mark.parametrize("chosen", ["surely", "always"])
def test_an_answer_that_was_not_offered_is_no_yes(project: Project, chosen: str) -> None:
    project.write("a.txt", "one\ntwo\nthree\n")

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "change it")

    converse(project, EDIT, scenario, lambda asked: chosen)
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_always_is_offered_where_the_policy_has_it_and_is_remembered(project: Project) -> None:
    script = [
        {"calls": [call("bash", command="touch one")]},
        {"calls": [call("bash", command="touch two")]},
        {"calls": [call("bash", command="rm one")]},
        {"text": "done"},
    ]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "go")
        first, risky = ed.client.asked  # not about the second `touch`
        assert first["options"] == {"allow": "allow_once", "always": "allow_always", "reject": "reject_once"}
        assert first["call"]["title"] == "`touch one`"
        assert first["call"]["kind"] == "execute"
        assert risky["options"] == {"allow": "allow_once", "reject": "reject_once"}

    converse(project, script, scenario, lambda asked: "always" if "always" in asked["options"] else "allow")
    assert not (project.cwd / "one").exists()
    assert (project.cwd / "two").exists()


def test_a_permission_shows_the_true_command_and_what_cannot_be_seen(project: Project) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    project.write(".env", f"GITHUB_TOKEN={token}\n")

    def curl(request: Any) -> dict[str, Any]:
        """With the token as the model knows it."""
        name = re.findall(r"__coder_secret_\w+?__", repr(request))[-1]
        return {"calls": [call("bash", command=f"touch {name}\u200b" + " " * 2500 + "x")]}

    script = [{"calls": [call("read", path=".env")]}, curl, {"text": "done"}]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "go")
        (asked,) = ed.client.asked
        said = [block["content"]["text"] for block in asked["call"]["content"]]
        assert f"touch {token}⟨U+200B⟩␠×2500x" in said[0]
        assert asked["call"]["rawInput"]["command"] == f"touch {token}\u200b" + " " * 2500 + "x"
        assert any("1 character in it cannot be seen" in text for text in said)
        assert any("␠ spaces" in text for text in said)
        assert "\u200b" not in asked["call"]["title"]
        assert asked["names"]["always"] == "Always allow touch in this project"

    converse(project, script, scenario, lambda asked: "reject")
    kept = "".join(path.read_text(encoding="utf-8") for path in (project.cwd / ".coder").rglob("*.json*"))
    assert token not in kept


def test_a_command_shows_its_output_while_it_runs(project: Project) -> None:
    command = "printf '\\033[31mfirst\\033[0m\\n'; while [ ! -e go ]; do sleep 0.02; done; echo last; exit 3"

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        prompting = asyncio.create_task(ed.prompt(session, "go"))

        def shown() -> str:
            content = next(iter(ed.client.calls().values()), {}).get("content") or []
            return str(content[0]["content"]["text"]) if content else ""

        await ed.client.until(lambda: "first" in shown())
        assert ed.client.call()["status"] == "in_progress"
        assert "last" not in shown()
        project.write("go", "")
        await prompting
        assert shown() == "```\nfirst\nlast\n```"
        assert ed.client.call()["status"] == "failed"
        assert ed.client.call()["rawOutput"]["exit_code"] == 3

    script = [{"calls": [call("bash", command=command)]}, {"text": "done"}]
    converse(project, script, scenario, None, "--mode", "yolo")


def test_a_patch_of_several_files(project: Project) -> None:
    project.write("old.txt", "gone\n")
    project.write("a.txt", "one\n")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n"
        "*** Add File: new.txt\n+fresh\n*** Delete File: old.txt\n*** End Patch"
    )
    only_delete = "*** Begin Patch\n*** Delete File: new.txt\n*** End Patch"
    script = [
        {"calls": [call("read", path="a.txt"), call("read", path="old.txt")]},
        {"calls": [call("patch", patch=patch)]},
        {"calls": [call("patch", patch=only_delete)]},
        {"text": "done"},
    ]

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "go")
        *_, patched, deleted = ed.client.calls().values()
        blocks = {b["path"].rpartition("/")[2]: (b["oldText"], b["newText"]) for b in patched["content"]}
        assert blocks == {
            "a.txt": ("one\n", "two\n"),
            "new.txt": (None, "fresh\n"),
            "old.txt": ("gone\n", ""),
        }
        assert patched["kind"] == "edit"
        assert deleted["kind"] == "delete"

    converse(project, script, scenario, None, "--mode", "auto-edit")


def test_todos_are_the_plan(project: Project) -> None:
    todos = [
        {"content": "look", "status": "completed", "priority": "high"},
        {"content": "write", "status": "in_progress"},
        {"content": "given up", "status": "cancelled"},
    ]
    script = [{"calls": [call("todowrite", todos=todos)]}, {"text": "done"}]

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        await ed.prompt(session, "go")
        (plan,) = ed.client.of("plan")
        assert plan["entries"] == [
            {"content": "look", "priority": "high", "status": "completed"},
            {"content": "write", "priority": "medium", "status": "in_progress"},
        ]
        assert ed.client.calls() == {}  # the plan is what it shows

    converse(project, script, scenario)


def test_modes_options_and_commands(project: Project) -> None:
    project.write(
        ".coder/prompts/review.md", "---\ndescription: look closely\n---\nReview this: look closely."
    )

    async def scenario(ed: Editor) -> None:
        opened = await ed.opened()
        session = opened.session_id
        assert opened.config_options is not None
        assert {o.id: o.current_value for o in opened.config_options} == {
            "mode": "default",
            "model": "scripted",
        }
        await ed.agent.set_session_mode(session_id=session, mode_id="plan")
        await ed.client.until(lambda: ed.client.of("config_option_update"))
        values = ed.client.of("config_option_update")[-1]["configOptions"]
        assert values[0]["currentValue"] == "plan"
        await ed.prompt(session, "go")
        assert ed.client.call()["status"] == "failed"  # plan mode writes nothing
        with pytest.raises(acp.RequestError, match="nonsense"):
            await ed.agent.set_session_mode(session_id=session, mode_id="nonsense")
        changed = await ed.agent.set_config_option(session_id=session, config_id="mode", value="auto-edit")
        assert changed.config_options[0].current_value == "auto-edit"
        assert ed.client.of("current_mode_update")[-1]["currentModeId"] == "auto-edit"
        changed = await ed.agent.set_config_option(session_id=session, config_id="model", value="other")
        assert changed.config_options[1].current_value == "other"
        await ed.prompt(session, "/yolo")
        assert ed.client.of("current_mode_update")[-1]["currentModeId"] == "yolo"
        await ed.client.until(lambda: any("prompts:review" in _names(u) for u in _commands(ed)))
        names = _names(_commands(ed)[-1])
        assert {"plan", "undo", "status", "prompts:review"} <= set(names)
        assert not {"exit", "new", "resume"} & set(names)
        before = len(ed.client.text())
        await ed.prompt(session, "/status")
        assert "```" in ed.client.text()[before:]
        before = len(ed.client.text())
        await ed.prompt(session, "/exit")
        assert "/exit is not available here" in ed.client.text()[before:]
        await ed.prompt(session, "/review")

    script = [{"calls": [call("write", path="x", content="y")]}, {"text": "no"}, {"text": "reviewed"}]
    server = converse(project, script, scenario)
    assert "look closely" in server.chats[-1]["messages"][-1]["content"]
    assert server.chats[-1]["model"] == "other"


def _commands(ed: Editor) -> list[dict[str, Any]]:
    return ed.client.of("available_commands_update")


def _names(update: dict[str, Any]) -> list[str]:
    return [command["name"] for command in update["availableCommands"]]


def test_a_mode_takes_effect_in_the_middle_of_a_turn(project: Project) -> None:
    script = [
        {"calls": [call("write", path="one.txt", content="1\n")]},
        {"calls": [call("write", path="two.txt", content="2\n")]},
        {"text": "done"},
    ]

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        ed.client.decides.clear()
        prompting = asyncio.create_task(ed.prompt(session, "go"))
        await ed.client.until(lambda: ed.client.asked)
        await ed.agent.set_session_mode(session_id=session, mode_id="auto-edit")
        ed.client.decides.set()
        await prompting
        assert len(ed.client.asked) == 1  # the second was not asked about

    converse(project, script, scenario)
    assert (project.cwd / "two.txt").exists()
    assert [e["meta"]["operating_mode"] for e in project.of_type("state")] == ["auto-edit"]


def test_what_a_prompt_brings_along(project: Project) -> None:
    project.write("src/my file.py", "print('on disk')\n")
    project.configure(workflow={"require_todo_for_complex": False})
    resource = TextResourceContents(
        uri=f"file://{project.cwd}/buffer.py#L3-4", text="unsaved = True\n</resource>"
    )

    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        link = acp.resource_link_block(name="my file.py", uri=f"file://{project.cwd}/src/my%20file.py")
        web = acp.resource_link_block(name="docs", uri="https://example.org/docs")
        embedded = EmbeddedResourceContentBlock(type="resource", resource=resource)
        await ed.prompt(session, "look at", link, "and", web, "with", embedded)
        sound = AudioContentBlock(type="audio", data="AAAA", mime_type="audio/wav")
        with pytest.raises(acp.RequestError, match="Audio is not supported"):
            await ed.prompt(session, "hear", sound)
        with pytest.raises(acp.RequestError, match="prompt is empty"):
            await ed.prompt(session, "  ")

    server = converse(project, [{"text": "seen"}], scenario)
    message = server.chats[0]["messages"][-1]["content"]
    assert (
        "look at @src/my\\ file.py and docs (https://example.org/docs) with buffer.py (lines 3-4)" in message
    )
    assert "print('on disk')" in message
    assert '<resource name="buffer.py (lines 3-4)">\nunsaved = True\n&lt;/resource>\n</resource>' in message
    assert len(server.chats) == 1


def test_images_of_a_prompt(project: Project) -> None:
    project.configure(provider={"models": {"scripted": {"images": True}}})
    data = b64encode(png()).decode("ascii")

    async def scenario(ed: Editor) -> None:
        capabilities = ed.hello.agent_capabilities
        assert capabilities is not None
        assert capabilities.prompt_capabilities is not None
        assert capabilities.prompt_capabilities.image
        session = await ed.new()
        broken = ImageContentBlock(type="image", data="AAAA", mime_type="image/png")
        image = ImageContentBlock(type="image", data=data, mime_type="image/png")
        blob = BlobResourceContents(uri=f"file://{project.cwd}/a.png", blob=data, mime_type="image/png")
        embedded = EmbeddedResourceContentBlock(type="resource", resource=blob)
        await ed.prompt(session, "see", image, broken, embedded)
        await ed.prompt(session, image)

    server = converse(project, [{"text": "seen"}] * 2, scenario)
    both, alone = (chat["messages"][-1]["content"] for chat in server.chats)
    url = f"data:image/png;base64,{data}"
    assert [part["image_url"]["url"] for part in both[1:]] == [url, url]
    assert both[0]["text"].startswith("see a.png\n\n[image image-1: PNG, 8×6,")
    assert "[image a.png: PNG, 8×6," in both[0]["text"]
    assert "[not shown: image-2 is not a supported image" in both[0]["text"]
    assert alone[1]["image_url"]["url"] == url


@pytest.mark.thorough
def test_images_are_shown_and_shown_again(project: Project) -> None:
    """Of results, and of prompts when their session is loaded."""
    project.configure(provider={"models": {"scripted": {"images": True}}})
    project.write("shot.png", png())
    data = b64encode(png()).decode("ascii")
    block = {"type": "image", "mimeType": "image/png", "data": data}
    sessions: list[str] = []

    async def scenario(ed: Editor) -> None:
        sessions.append(await ed.new())
        image = ImageContentBlock(type="image", data=data, mime_type="image/png")
        await ed.prompt(sessions[0], "see", image)
        assert ed.client.call()["content"][-1] == {"type": "content", "content": block}

    async def load(ed: Editor) -> None:
        await ed.agent.load_session(cwd=str(project.cwd), session_id=sessions[0], mcp_servers=[])
        said = [update["content"] for update in ed.client.of("user_message_chunk")]
        assert [content["type"] for content in said] == ["text", "image"]
        assert said[1] == block
        assert ed.client.call()["content"][-1] == {"type": "content", "content": block}

    converse(project, [{"calls": [call("read", path="shot.png")]}, {"text": "seen"}], scenario)
    converse(project, [], load)


def test_the_persons_own_shell(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        await ed.prompt(session, "!echo mine; exit 2")
        shown = ed.client.call()
        assert (shown["kind"], shown["status"]) == ("execute", "failed")
        assert "mine" in shown["content"][0]["content"]["text"]
        await ed.prompt(session, "!touch ran\nand more")  # several lines are a message, not a command

    server = converse(project, [{"text": "fine"}], scenario)
    assert not (project.cwd / "ran").exists()
    assert "!touch ran" in server.chats[0]["messages"][-1]["content"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "args", "reason"),
    [
        ([{"calls": [call("list")]}] * 3, {"runtime": {"max_steps": 2}}, "max_turn_requests"),
        ([{"text": "I would rather", "finish": "content_filter"}], {}, "refusal"),
        (
            [{"text": "x", "finish": "length"}],
            {"runtime": {"next_speaker": "off"}},
            "max_tokens",
        ),
    ],
    ids=["steps", "refusal", "length"],
)
def test_why_a_prompt_ended(project: Project, script: list[Any], args: dict[str, Any], reason: str) -> None:
    project.configure(**args)

    async def scenario(ed: Editor) -> None:
        answer = await ed.prompt(await ed.new(), "go")
        assert answer.stop_reason == reason
        if reason == "max_turn_requests":
            assert "step limit reached" in ed.client.text()

    converse(project, script, scenario)


def test_a_providers_fault_is_the_answer_to_the_prompt(project: Project) -> None:
    async def scenario(ed: Editor) -> None:
        session = await ed.new()
        with pytest.raises(acp.RequestError, match="401") as caught:
            await ed.prompt(session, "go")
        assert caught.value.code == -32603
        assert (await ed.prompt(session, "again")).stop_reason == "end_turn"

    converse(
        project, [{"status": 401, "body": {"error": {"message": "wrong key"}}}, {"text": "ok"}], scenario
    )
