"""What is said and sent of modes is true: after a resume, with files, failing commands, in every answer."""

from __future__ import annotations

import json

import pytest

from coder.protocol.events import CommandDone, TurnEnded
from coder.protocol.modes import CustomModesListed, InstantModeExecuted, ModeStateChanged
from kit.calls import ANSWERS
from kit.driving import Driver, Project, of, play

CALM = "---\nkind: persistent\nvariables: [tone]\n---\nBe calm {{tone}}.\n"


def replies(driver: Driver) -> list[str]:
    return [event.text for event in of(driver.seen, CommandDone)]


class TestResume:
    def test_a_mode_that_is_gone_is_neither_on_nor_sent(self, project: Project) -> None:
        project.write("AGENTS.md", "Base rules.")
        path = project.write(".coder/modes/calm.md", CALM)
        first = play(project, ANSWERS, ["/calm deeply", "one"])
        assert "Be calm deeply." in json.dumps(first.chats[0])
        path.unlink()
        (log,) = project.logs()
        second = play(project, ANSWERS, ["two"], resume=log.stem)
        (changed,) = of(second.seen, ModeStateChanged)
        assert changed.enabled_modes == []
        assert "There is no mode /calm" in changed.errors[0].message
        assert "mode_instructions" not in json.dumps(second.chats)
        assert "Base rules." in json.dumps(second.chats)
        third = play(project, ANSWERS, ["three"], resume=log.stem)
        assert "mode_instructions" not in json.dumps(third.chats)

    def test_revisions_count_on(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        first = play(project, ANSWERS, ["/calm a", "/calm b", "/calm c"])
        (log,) = project.logs()
        second = play(project, ANSWERS, ["/calm d"], resume=log.stem)
        revisions = [e.server_rev for driver in (first, second) for e in of(driver.seen, ModeStateChanged)]
        assert revisions == sorted(revisions)
        assert revisions[-1] > revisions[2]


class TestWhatWasRenderedIsText:
    def test_files_are_put_in_once_and_values_and_outputs_name_none(self, project: Project) -> None:
        project.write("notes.txt", "NOTES")
        project.write(".env", "TOKEN=hidden-in-env")
        project.write("list.txt", "@.env\n")
        project.write(
            ".coder/modes/m.md",
            "---\nkind: instant\nvariables: [who]\n---\nSee @notes.txt {{who}}\n!cat list.txt\n",
        )
        project.coder("trust")
        driver = play(project, ANSWERS, ["/m @.env"], mode="yolo")
        (message,) = (
            m["content"] for m in driver.chats[0]["messages"] if "See @notes.txt" in str(m["content"])
        )
        assert message.count("NOTES") == 1
        assert "See @notes.txt @.env\n@.env" in message
        assert "hidden-in-env" not in json.dumps(driver.chats)

    def test_a_saved_prompt_names_files_and_its_arguments_do_not(self, project: Project) -> None:
        project.write("notes.txt", "NOTES")
        project.write("other.txt", "OTHER")
        project.write(".coder/prompts/p.md", "Read @notes.txt and $1.\n```\n@other.txt\n```\n")
        sent = json.dumps(play(project, ANSWERS, ["/p @other.txt"]).chats)
        assert "NOTES" in sent
        assert "OTHER" not in sent

    def test_the_record_keeps_mode_values_and_text(self, project: Project) -> None:
        header = "kind: instant\nvariables:\n  - name: who\n  - name: how\n    default: well"
        project.write(".coder/modes/m.md", f"---\n{header}\n---\nGreet {{{{who}}}} {{{{how}}}}.\n")
        play(project, ANSWERS, ["/m Ann"])
        (start,) = project.of_type("turn_start")
        assert start["content"] == "Greet Ann well."
        assert start["meta"]["instant"] == {"mode_id": "/m", "values": {"who": "Ann", "how": "well"}}

    def test_nothing_is_not_sent(self, project: Project) -> None:
        project.write(".coder/modes/m.md", "---\nkind: instant\nvariables: [who]\n---\n{{who}}\n")
        driver = play(project, ANSWERS, ["/m"])
        assert driver.chats == []
        (executed,) = of(driver.seen, InstantModeExecuted)
        assert [error.code for error in executed.errors] == ["template"]
        assert replies(driver) == ["/m renders to nothing with these values, so nothing was sent."]

    def test_a_task_is_complex_by_what_was_typed(self, project: Project) -> None:
        project.write(".coder/modes/long.md", "---\nkind: instant\n---\n1. a\n2. b\n" + "Do much. " * 20)
        body = "---\nkind: instant\nvariables:\n  - {name: what, rest: true}\n---\nDo: {{what}}\n"
        project.write(".coder/modes/do.md", body)
        driver = play(project, ANSWERS, ["/long", "/do 1. rename a 2. delete b"])
        first, second = driver.chats
        assert not [m for m in first["messages"] if m.get("tool_calls")]
        assert "rename a" in json.dumps([m for m in second["messages"] if m.get("tool_calls")])


class TestCommands:
    @pytest.fixture(autouse=True)
    def _trusted(self, project: Project) -> None:
        self.project = project

    def mode(self, body: str, header: str = "") -> None:
        self.project.write(".coder/modes/m.md", f"---\nkind: instant\n{header}---\n{body}\n")
        self.project.coder("trust")

    def test_a_failed_command_s_output_and_status_are_put_in(self) -> None:
        self.mode("Mend this:\n!echo broken; echo worse >&2; exit 3")
        driver = play(self.project, ANSWERS, ["/m"], mode="yolo")
        (executed,) = of(driver.seen, InstantModeExecuted)
        assert executed.rendered_prompt == "Mend this:\nbroken\nworse\n[exit status 3]"
        assert [event.status for event in of(driver.seen, TurnEnded)] == ["ok"]

    def test_a_search_that_finds_nothing_did_run(self) -> None:
        self.project.write("a.txt", "x")
        self.mode("Found:\n!grep -n zebra a.txt")
        (executed,) = of(play(self.project, ANSWERS, ["/m"], mode="yolo").seen, InstantModeExecuted)
        assert executed.errors == []
        assert executed.rendered_prompt == "Found:"

    def test_a_mode_can_ask_to_be_stopped_by_it(self) -> None:
        self.mode("Mend this:\n!echo broken; exit 3", "on_error: stop\n")
        driver = play(self.project, ANSWERS, ["/m"], mode="yolo")
        (executed,) = of(driver.seen, InstantModeExecuted)
        assert driver.chats == []
        assert executed.errors[0].message.endswith("/m: `echo broken; exit 3` failed: exit status 3\nbroken")

    def test_one_that_does_not_end_is_stopped_and_said_to_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coder.engine.custom_modes._COMMAND_TIMEOUT_MS", 300)
        self.mode("Log:\n!echo begun; sleep 60")
        (executed,) = of(play(self.project, ANSWERS, ["/m"], mode="yolo").seen, InstantModeExecuted)
        assert executed.rendered_prompt.startswith("Log:\nbegun\n[no end after ")


class TestAnswers:
    def test_an_unknown_name_is_answered_with_modes_too(self, project: Project) -> None:
        project.write(".coder/modes/release-notes.md", "Write them.\n")
        (text,) = replies(play(project, ANSWERS, ["/relese-notes"]))
        assert text.startswith("Unknown command: /relese-notes\n")
        assert "/release-notes" in text.splitlines()[1]

    def test_a_model_that_a_mode_overrules(self, project: Project) -> None:
        project.write(".coder/modes/deep.md", "---\nkind: persistent\nmodel: big\n---\nThink.\n")
        driver = play(
            project, ANSWERS, ["/deep", "/model other", "hello", "/model", "/modes off deep", "/model third"]
        )
        _, overruled, current, _, free = replies(driver)
        assert "The mode /deep is on and asks for big" in overruled
        assert "The mode /deep is on and asks for big" in current
        assert "/deep" not in free
        assert driver.chats[0]["model"] == "big"

    def test_without_any_it_says_where_they_go(self, project: Project) -> None:
        (text,) = replies(play(project, ANSWERS, ["/modes"]))
        assert f"{project.home / '.coder'}/modes" in text
        assert "coder modes new NAME" in text

    def test_a_name_with_off(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        flag = "---\nkind: persistent\nvariables:\n  - {name: loud, type: boolean}\n---\nLoud: {{loud}}\n"
        project.write(".coder/modes/flag.md", flag)
        driver = play(project, ANSWERS, ["/calm off", "/calm deeply", "/calm off", "/flag off"])
        assert replies(driver) == ["/calm is not on.", "Mode on: /calm [tone=deeply]", "Mode off: /calm",
                                   "Mode on: /flag [loud=off]"]  # fmt: skip

    def test_show_renders_and_changes_nothing(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        project.write(".coder/modes/say.md", "---\nkind: instant\nvariables: [what]\n---\nSay {{what}}.\n")
        shows = ["/modes show calm", "/modes show say it", "/modes show nope"]
        driver = play(project, ANSWERS, ["/modes show calm now", "/calm deeply", *shows, "hello"])
        shown = replies(driver)
        assert [shown[0], shown[2], shown[3]] == ["Be calm now.", "Be calm deeply.", "Say it."]
        assert "There is no mode /nope" in shown[4]
        assert len(driver.chats) == 1
        assert "Be calm deeply." in json.dumps(driver.chats[0])

    def test_reload_reads_the_files_again(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        edit = "!cd .coder/modes && sed -i 's/Be calm/Stay calm/' calm.md && echo New. > new.md"
        driver = play(project, ANSWERS, ["/calm deeply", "one", edit, "/modes reload", "two"])
        first, second = (json.dumps(chat["messages"][:2]) for chat in driver.chats)
        assert "Be calm deeply." in first
        assert "Stay calm deeply." in second
        assert "Be calm" not in second
        assert replies(driver)[-1] == "Read again: 2 modes and saved prompts; on: 1."
        listed = of(driver.seen, CustomModesListed)[-1]
        assert [mode.mode_id for mode in listed.modes] == ["/calm", "/new"]

    def test_reload_names_what_it_could_not_use(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        driver = play(
            project,
            ANSWERS,
            ["!printf -- '---\\nkind: instnt\\n---\\nx\\n' > .coder/modes/odd.md", "/modes reload"],
        )
        counted, broken = replies(driver)[-1].splitlines()
        assert counted == "Read again: one mode or saved prompt; on: 0."
        assert broken.startswith("/odd: ")
        assert "instnt" in broken


class TestNew:
    def test_a_new_file_works_as_it_is(self, project: Project) -> None:
        for arguments, typed in (
            (["team:look"], "/team:look"),
            (["--kind", "persistent", "status"], "/modes:status"),
        ):
            made = project.coder("modes", "new", *arguments)
            assert made.returncode == 0, made.stderr
            assert f"type {typed} in a session" in made.stdout
        driver = play(
            project, ANSWERS, ["/team:look", "/team:look the README, please", "/modes:status thorough"]
        )
        assert "Look at the current changes" in json.dumps(driver.chats[0]["messages"][-1])
        assert "Look at the README, please and" in json.dumps(driver.chats[1]["messages"][-1])
        assert replies(driver) == ["Mode on: /status [tone=thorough]"]

    def test_it_overwrites_nothing_and_takes_no_other_names(self, project: Project) -> None:
        project.write(".coder/modes/a.md", "mine")
        taken, wrong, none = (project.coder("modes", "new", *name) for name in (["a"], ["../up"], []))
        assert [one.returncode for one in (taken, wrong, none)] == [2, 2, 2]
        assert "exists already" in taken.stderr
        assert "is no name for a mode" in wrong.stderr
        assert (project.cwd / ".coder/modes/a.md").read_text(encoding="utf-8") == "mine"
        assert not (project.cwd / ".coder/up.md").exists()

    def test_among_the_person_s_own(self, project: Project) -> None:
        assert project.coder("modes", "new", "x", "--global").returncode == 0
        assert (project.home / ".coder/modes/x.md").exists()

    def test_the_list_says_on_or_off_of_those_that_can_be_on(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        project.write(".coder/modes/say.md", "---\nkind: instant\ndescription: Aloud\n---\nSay it.\n")
        project.write(".coder/prompts/old.md", "Do it.\n")
        calm, say, old = project.coder("modes").stdout.splitlines()
        assert "  off" in calm
        assert "off" not in say + old
