"""Hooks in the engine: the real programs, at every point of a session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import ApprovalRequested, CommandDone, Notice, ToolCallChanged, TurnEnded
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, of, play

DONE = {"text": "done"}


def hook(command: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}


def asking(project: Project, script: list[Any], answer: str) -> Driver:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", lambda e: ApprovalReply(e.approval_id, answer))  # type: ignore[arg-type] # yes or no
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        return asyncio.run(scenario(server.url))


def told(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


class TestPreToolUse:
    def test_the_documented_one_blocks_a_push(self, project: Project) -> None:
        page = Path(__file__).parents[2] / "docs" / "hooks.md"
        example = page.read_text(encoding="utf-8").split("```jsonc\n")[1].split("```")[0]
        project.configure(hooks={"PreToolUse": json.loads(example)["hooks"]["PreToolUse"]})
        pushing = [bash("git push"), bash("cd . && git -C . --no-pager  push -f origin main")]
        calls = {
            "calls": [*pushing, bash("git stash push || true"), bash("echo pushed >out; git log | head -1")]
        }
        play(project, [calls, DONE], ["go"], mode="yolo")
        *refused, stashed, echoed = (seen["content"] for seen in project.of_type("observation"))
        assert refused == ["denied: a hook refused this call: I push myself."] * 2
        assert "denied" not in stashed + echoed

    def test_it_blocks_and_the_model_hears_why(self, project: Project) -> None:
        guard = """case "$(cat)" in *'git push'*) echo 'push by hand, please' >&2; exit 2;; esac"""
        project.configure(hooks={"PreToolUse": [hook(guard, "Bash")]})
        calls = {"calls": [bash("git push origin main"), bash("echo fine")]}
        driver = play(project, [calls, DONE], ["go"], mode="yolo")
        pushed, echoed = project.of_type("observation")
        assert pushed["content"] == "denied: a hook refused this call: push by hand, please"
        shown = [str(event.summary) for event in of(driver.seen, ToolCallChanged)]
        assert "refused by a hook: push by hand, please" in shown
        assert pushed["meta"]["denied"] is True
        assert "fine" in echoed["content"]
        assert "push by hand" in json.dumps(driver.chats[1])
        assert [entry["meta"]["outcome"] for entry in project.of_type("hook")] == ["blocked", "ok"]

    def test_it_is_told_of_the_call(self, project: Project) -> None:
        project.configure(hooks={"PreToolUse": [hook("cat > told.json")]})
        play(project, [{"calls": [bash("echo hi")]}, DONE], ["go"])
        given = told(project.cwd / "told.json")
        (log,) = project.logs()
        assert given["hook_event_name"] == "PreToolUse"
        assert (given["tool_name"], given["tool_input"]["command"]) == ("bash", "echo hi")
        assert (given["cwd"], given["session_id"]) == (str(project.cwd), log.stem)
        assert given["transcript_path"] == str(log)

    def test_changed_arguments_are_judged_again(self, project: Project) -> None:
        def change(command: str) -> str:
            answer = {"hookSpecificOutput": {"updatedInput": {"command": command}}}
            return f"echo '{json.dumps(answer)}'"

        project.configure(hooks={"PreToolUse": [hook(change("echo changed"), "bash")]})
        play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"])
        (observation,) = project.of_type("observation")
        assert "changed" in observation["content"]
        assert (
            'A hook changed the arguments of this call to {"command":"echo changed"}'
            in observation["content"]
        )
        assert project.of_type("hook")[0]["meta"]["input"] == {"command": "echo changed"}
        project.logs()[0].unlink()
        project.configure(hooks={"PreToolUse": [hook(change("touch made.txt"), "bash")]})
        play(project, [{"calls": [bash("echo harmless")]}, DONE], ["go"])  # nobody can be asked
        (observation,) = project.of_type("observation")
        assert "needs a person's approval" in observation["content"]
        assert not (project.cwd / "made.txt").exists()

    @pytest.mark.parametrize(("decision", "made"), [("allow", True), ("deny", False)])
    def test_a_person_s_own_hook_answers_for_them(self, project: Project, decision: str, made: bool) -> None:
        answer = json.dumps({"hookSpecificOutput": {"permissionDecision": decision}})
        project.configure(hooks={"PreToolUse": [hook(f"echo '{answer}'")]})
        driver = play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"])
        assert (project.cwd / "made.txt").exists() is made
        assert of(driver.seen, ApprovalRequested) == []

    def test_what_the_policy_denies_stays_denied(self, project: Project) -> None:
        answer = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
        project.configure(hooks={"PreToolUse": [hook(f"echo '{answer}'")]})
        play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"], mode="plan")
        assert not (project.cwd / "made.txt").exists()

    def test_only_the_person_lets_a_command_leave_the_sandbox(self, project: Project) -> None:
        answer = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
        project.configure(hooks={"PreToolUse": [hook(f"echo '{answer}'")]})
        call = {"name": "bash", "arguments": {"command": "touch made", "sandbox": "off", "reason": "so"}}
        driver = asking(project, [{"calls": [call]}, DONE], "no")
        assert len(of(driver.seen, ApprovalRequested)) == 1
        assert not (project.cwd / "made").exists()

    def test_it_can_have_the_person_asked(self, project: Project) -> None:
        answer = json.dumps({"hookSpecificOutput": {
            "permissionDecision": "ask", "permissionDecisionReason": "is it Friday?"}})  # fmt: skip
        project.configure(hooks={"PreToolUse": [hook(f"echo '{answer}'")]})
        driver = asking(project, [{"calls": [bash("echo harmless")]}, DONE], "no")
        (asked,) = of(driver.seen, ApprovalRequested)
        assert "is it Friday?" in asked.reasons[0]
        assert project.of_type("observation")[0]["meta"]["denied"] is True

    def test_one_that_hangs_is_ended_and_passed_over(self, project: Project) -> None:
        project.configure(hooks={"PreToolUse": [hook("sleep 600", timeout=1)]})
        driver = play(project, [{"calls": [bash("echo fine")]}, DONE], ["go"])
        assert "fine" in project.of_type("observation")[0]["content"]
        (warning,) = [e.text for e in of(driver.seen, Notice) if "did not end in time" in e.text]
        assert "PreToolUse" in warning

    def test_a_long_answer_is_read_whole(self, project: Project) -> None:
        answer = {
            "hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no" * 90_000}
        }
        said = project.write("answer.json", json.dumps(answer))
        project.configure(hooks={"PreToolUse": [hook(f"cat {said}")]})
        play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"], mode="yolo")
        assert project.of_type("observation")[0]["content"].startswith(
            "denied: a hook refused this call: nono"
        )
        project.logs()[0].unlink()
        said.write_text(json.dumps({**answer, "reason": "x" * 2_000_000}), encoding="utf-8")
        play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"], mode="yolo")
        assert "the answer of a hook is unclear" in project.of_type("observation")[0]["content"]
        assert not (project.cwd / "made.txt").exists()

    def test_a_secret_in_changed_arguments_reaches_the_call_alone(self, project: Project) -> None:
        token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
        answer = {"hookSpecificOutput": {"updatedInput": {"command": f"echo {token} | rev"}}}
        project.configure(hooks={"PreToolUse": [hook(f"echo '{json.dumps(answer)}'; cat >told.json")]})
        driver = play(project, [{"calls": [bash("echo")]}, DONE], ["go"], mode="yolo")
        assert token[::-1] in project.of_type("observation")[0]["content"]
        assert token not in project.logs()[0].read_text(encoding="utf-8")
        assert token not in json.dumps(driver.chats)

    def test_it_can_end_the_turn(self, project: Project) -> None:
        project.configure(
            hooks={"PreToolUse": [hook("""echo '{"continue": false, "stopReason": "enough"}'""")]}
        )
        driver = play(project, [{"calls": [bash("echo fine")]}, DONE], ["go"])
        (ended,) = of(driver.seen, TurnEnded)
        assert (ended.status, ended.error) == ("error", "A hook stopped the turn: enough")
        assert len(driver.chats) == 1


class TestOtherPoints:
    def test_after_a_call_it_can_add_to_the_result_and_undo_covers_it(self, project: Project) -> None:
        project.write("a.txt", "before\n")
        done = "echo formatted >> a.txt; echo 'line 3 is too long' >&2; exit 2"
        project.configure(hooks={"PostToolUse": [hook(done, "Edit|Write")]})
        write = {"name": "write", "arguments": {"path": "b.txt", "content": "b\n"}}
        play(project, [{"calls": [write]}, DONE], ["go", "/undo"], mode="yolo")
        (observation,) = project.of_type("observation")
        assert "line 3 is too long" in observation["content"]
        assert observation["meta"]["ok"] is True
        assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "before\n"
        assert not (project.cwd / "b.txt").exists()

    def test_a_prompt_gets_context_or_is_not_sent(self, project: Project) -> None:
        check = """case "$(cat)" in *secret*) echo 'no secrets' >&2; exit 2;; *) echo 'Branch: main';; esac"""
        project.configure(hooks={"UserPromptSubmit": [hook(check)]})
        driver = play(project, [DONE, DONE], ["hello", "a secret"])
        assert len(driver.chats) == 1
        assert "Branch: main" in driver.chats[0]["messages"][-1]["content"]
        blocked = of(driver.seen, TurnEnded)[1]
        assert (blocked.status, blocked.error) == (
            "error",
            "A hook did not let the message through: no secrets",
        )
        assert project.of_type("turn_start")[1]["meta"]["refused"] is True

    def test_a_session_starts_once_and_says_how(self, project: Project) -> None:
        project.configure(hooks={"SessionStart": [hook("cat >> starts.jsonl; echo 'Use tabs.'")]})
        driver = play(project, [DONE] * 3, ["one", "two", "/new", "three"])
        first = project.logs()[0].stem
        starts = [json.loads(line) for line in (project.cwd / "starts.jsonl").read_text().splitlines()]
        assert [start["source"] for start in starts] == ["startup", "clear"]
        assert "Use tabs." in json.dumps(driver.chats[0]["messages"][-1])
        assert json.dumps(driver.chats[1]["messages"]).count("Use tabs.") == 1
        play(project, [DONE], ["again"], resume=first)
        last = (project.cwd / "starts.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["source"] == "resume"

    def test_a_turn_goes_on_until_the_hook_is_content(self, project: Project) -> None:
        stop = (
            "cat >> stops.jsonl; [ -e ok.txt ] || { touch ok.txt; echo 'write the summary too' >&2; exit 2; }"
        )
        project.configure(hooks={"Stop": [hook(stop)]})
        driver = play(project, [{"text": "half"}, {"text": "whole"}], ["go"])
        assert of(driver.seen, TurnEnded)[0].text == "whole"
        assert "write the summary too" in driver.chats[1]["messages"][-1]["content"]
        stops = [json.loads(line) for line in (project.cwd / "stops.jsonl").read_text().splitlines()]
        assert [one["stop_hook_active"] for one in stops] == [False, True]

    def test_a_compaction_can_be_kept_from_happening(self, project: Project) -> None:
        project.configure(hooks={"PreCompact": [hook("cat > told.json; echo 'not now' >&2; exit 2")]})
        long = [{"text": "word " * 400} for _ in range(4)]
        driver = play(project, long, ["a", "b", "c", "/compact"])
        (answer,) = of(driver.seen, CommandDone)
        assert not answer.ok
        assert "not now" in answer.text
        assert told(project.cwd / "told.json")["trigger"] == "manual"
        assert project.of_type("compaction") == []

    def test_a_question_notifies(self, project: Project) -> None:
        project.configure(hooks={"Notification": [hook("cat > told.json")]})
        asking(project, [{"calls": [bash("touch a.txt")]}, DONE], "yes")
        assert "touch a.txt" in told(project.cwd / "told.json")["message"]


class TestTrust:
    def configured(self, project: Project, command: str) -> None:
        settings = {"hooks": {"PreToolUse": [hook(command)], "PostToolUse": [hook(command)]}}
        project.write(".coder/config.json", json.dumps(settings))

    def test_a_project_s_are_not_run_before_it_is_trusted(self, project: Project) -> None:
        self.configured(project, "touch ran.txt; exit 2")
        driver = play(project, [{"calls": [bash("echo fine")]}, DONE], ["go", "/hooks"])
        assert "fine" in project.of_type("observation")[0]["content"]
        assert not (project.cwd / "ran.txt").exists()
        assert any("hooks.PreToolUse" in notice.text for notice in of(driver.seen, Notice))
        (listed,) = of(driver.seen, CommandDone)
        assert listed.text.count("not run: this project is not trusted") == 2

    def test_then_they_run_in_the_sandbox(self, project: Project) -> None:
        outside = project.home / "outside.txt"
        self.configured(
            project, f"touch ran-$(cat | grep -o 'P[a-z]*ToolUse' | head -1).txt; touch {outside}"
        )
        assert project.coder("trust").returncode == 0
        driver = play(project, [{"calls": [bash("echo fine")]}, DONE], ["go", "/status"])
        if "sandbox: none" in of(driver.seen, CommandDone)[0].text.lower():
            pytest.skip("this machine has no sandbox")
        assert not outside.exists()
        assert not (project.cwd / "ran-PreToolUse.txt").exists()  # before a call nothing is written
        assert (project.cwd / "ran-PostToolUse.txt").exists()

    def test_a_project_cannot_change_what_the_person_s_has_allowed(self, project: Project) -> None:
        allow = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
        change = json.dumps({"hookSpecificOutput": {"updatedInput": {"command": "touch evil"}}})
        self.configured(project, f"echo '{change}'")
        assert project.coder("trust").returncode == 0
        project.configure(hooks={"PreToolUse": [hook(f"echo '{allow}'", "Bash")]})
        driver = asking(project, [{"calls": [bash("touch made")]}, DONE], "no")
        assert [event.subject for event in of(driver.seen, ApprovalRequested)] == ["touch evil"]
        assert not (project.cwd / "evil").exists()

    def test_a_project_can_neither_allow_nor_remove_the_person_s(self, project: Project) -> None:
        allow = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
        self.configured(project, f"echo '{allow}'")
        assert project.coder("trust").returncode == 0
        play(project, [{"calls": [bash("touch made.txt")]}, DONE], ["go"])
        assert not (project.cwd / "made.txt").exists()
        project.logs()[0].unlink()
        project.configure(hooks={"PreToolUse": [hook("echo mine >&2; exit 2")]})
        project.write(".coder/config.json", '{"hooks": {"PreToolUse": []}}')
        play(project, [{"calls": [bash("echo fine")]}, DONE], ["go"])
        assert "refused this call: mine" in project.of_type("observation")[0]["content"]


class TestSettings:
    def test_the_command_lists_them_and_their_last_runs(self, project: Project) -> None:
        project.configure(hooks={"Stop": [hook("echo tidy >&2; exit 1")], "PreCompact": [hook("true", "x")]})
        (listed,) = of(play(project, [DONE], ["go", "/hooks"]).seen, CommandDone)
        stop, compact = listed.text.splitlines()
        assert stop.startswith("Stop  *  echo tidy >&2; exit 1  (")
        assert ", failed, " in stop
        assert stop.endswith(" ms: exit status 1: tidy")
        assert compact.endswith("not run yet")
        assert (
            "There are no hooks"
            in of(play(project_without(project), [], ["/hooks"]).seen, CommandDone)[0].text
        )

    def test_a_wrong_event_is_named(self, project: Project) -> None:
        project.configure(hooks={"PreToolUze": []})
        done = project.coder("--once", "x", url="http://127.0.0.1:9/")
        assert done.returncode == 2
        assert "PreToolUse" in done.stderr


def project_without(project: Project) -> Project:
    project.configure()
    return project
