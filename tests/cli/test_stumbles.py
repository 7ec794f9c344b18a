"""Small things that a person stumbles over: ids by their beginnings, statuses, headings, titles."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.cli.start import subcommands
from coder.protocol.events import CommandDone
from coder.ui.terminal.render.width import text_width
from kit import ScriptedServer
from kit.driving import Project, drive, of

BASH = {"name": "bash", "arguments": {"command": "true"}}


@pytest.fixture
def two(project: Project) -> Project:
    """Two sessions whose ids begin alike."""
    directory = project.cwd / ".coder" / "history"
    directory.mkdir(parents=True)
    for name, said in (
        ("20260101-120000-aaaaaa", "first <b>thing</b>"),
        ("20260101-120500-bbbbbb", "second"),
    ):
        line: dict[str, Any] = {"ts": "2026-01-01T12:00:00.000Z", "session_id": name, "turn": 1, "step": 0}
        events = [
            {**line, "type": "session_start", "content": "", "role": None, "meta": {}},
            {**line, "type": "turn_start", "content": said, "role": "user", "meta": {}},
            {**line, "type": "final", "content": "yes", "role": "assistant", "meta": {}},
            {**line, "type": "turn_end", "content": "", "role": None, "meta": {"status": "ok"}},
        ]
        (directory / f"{name}.jsonl").write_text(
            "".join(json.dumps(e) + "\n" for e in events), encoding="utf-8"
        )
    return project


def test_the_beginning_of_an_id_will_do(two: Project) -> None:
    assert "> second" in two.coder("show", "20260101-1205").stdout
    assert two.coder("export", "20260101-1200", "--html", "page.html").returncode == 0
    with ScriptedServer([{"text": "again"}]) as server:
        done = two.coder("--resume", "20260101-1205", "--once", "go on", url=server.url)
        assert done.stdout == "again\n"
        assert "second" in json.dumps(server.chats[0]["messages"])


def test_an_ambiguous_beginning_names_those_it_may_mean(two: Project) -> None:
    for line in (["show", "2026"], ["export", "2026", "--html", "x"], ["--resume", "2026", "--once", "x"]):
        done = two.coder(*line, url="http://127.0.0.1:9/v1")
        assert done.returncode == 2
        assert "2 sessions begin with 2026" in done.stderr
        assert "20260101-120000-aaaaaa" in done.stderr
    assert not (two.cwd / "x").exists()


def test_a_session_that_is_not_listed_makes_no_beginning_ambiguous(two: Project) -> None:
    directory = two.cwd / ".coder" / "history"
    log = directory / "20260101-120500-bbbbbb.jsonl"
    start = log.read_text(encoding="utf-8").splitlines()[0].replace('"turn": 1', '"turn": 0')
    log.write_text(start + "\n", encoding="utf-8")
    assert "20260101-120500" not in two.coder("sessions").stdout
    assert "> first" in two.coder("show", "2026").stdout
    assert two.coder("show", "20260101-1205").returncode == 0


@pytest.mark.parametrize(
    "name", ["", "zzz", "../20260101-120000-aaaaaa", "20260101-120000-aaaaaa.jsonl", "*"]
)
def test_what_is_no_beginning_of_an_id(two: Project, name: str) -> None:
    done = two.coder("show", name)
    assert done.returncode == 2
    assert "There is no session" in done.stderr


def test_slash_resume_takes_a_beginning_too(two: Project) -> None:
    with ScriptedServer([]) as server:
        driver = drive(two, server.url, ["/resume 2026", "/resume 20260101-1200"])
    ambiguous, resumed = of(driver.seen, CommandDone)
    assert not ambiguous.ok
    assert "20260101-120500-bbbbbb" in ambiguous.text
    assert resumed.ok
    assert resumed.data["session_id"] == "20260101-120000-aaaaaa"


def test_a_page_has_the_session_s_title(two: Project) -> None:
    two.coder("export", "20260101-1200", "--html", "page.html")
    page = (two.cwd / "page.html").read_text(encoding="utf-8")
    assert "<title>first &lt;b&gt;thing&lt;/b&gt;</title>" in page
    assert "<h1>first &lt;b&gt;thing&lt;/b&gt;</h1>" in page
    assert "20260101-120000-aaaaaa" in page


def on_terminal(project: Project, *args: str, status: int = 0, **more: str) -> str:
    """What a command prints where its output is a terminal; little enough for the terminal to hold."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "coder", *args]
    environ = project.environ(TERM="xterm", **more)
    try:
        done = subprocess.run(
            command, cwd=project.cwd, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, timeout=60
        )
        assert done.returncode == status
        return os.read(ours, 65536).decode("utf-8").replace("\r\n", "\n")
    finally:
        os.close(theirs)
        os.close(ours)


def test_sessions_have_a_heading_on_a_terminal_and_none_in_a_pipe(two: Project) -> None:
    rows = two.coder("sessions").stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["20260101-120500-bbbbbb", "20260101-120000-aaaaaa"]
    heading, *rows = on_terminal(two, "sessions").splitlines()
    assert heading.split("  ")[0] == "session"
    assert len(rows) == 2
    assert heading.index("began with") == rows[0].index("second")


def test_a_long_title_keeps_to_its_row(two: Project) -> None:
    heading, *rows = on_terminal(two, "sessions", COLUMNS="60").splitlines()
    assert max(map(text_width, [heading, *rows])) <= 60
    assert rows[1].endswith("first <b>t…")
    assert "first <b>thing</b>" in two.coder("sessions", env={"COLUMNS": "60"}).stdout


def test_sentences_are_broken_between_words(project: Project) -> None:
    with ScriptedServer(model="unheard-of") as server:
        rows = on_terminal(project, "models", COLUMNS="60", CODER_BASE_URL=server.url).splitlines()
    assert "–: no price, so no cost is counted. Set USD per million" in rows


def test_a_page_that_is_replaced_is_told(two: Project) -> None:
    first, second = (two.coder("export", "20260101-1200", "--html", "page.html") for _ in range(2))
    assert (first.stderr, second.stderr) == ("Wrote page.html\n", "Replaced page.html\n")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_lines_on_a_terminal_break_between_words(two: Project, lang: str) -> None:
    rows = on_terminal(two, "doctor", "--lang", lang, status=1, COLUMNS="60").splitlines()
    assert max(map(text_width, rows)) <= 60
    assert " ANTHROPIC_API_KEY," in " ".join(rows)
    rows = on_terminal(two, "show", "2026", "--lang", lang, status=2, COLUMNS="60").splitlines()
    assert max(map(text_width, rows)) <= 60
    assert "20260101-120000-aaaaaa" in " ".join(rows)
    rows = on_terminal(two, "--help", "--lang", lang, COLUMNS="80").splitlines()
    assert max(map(text_width, rows)) <= 80


def test_show_without_an_id_says_where_they_are(two: Project) -> None:
    assert "`coder sessions` lists them" in two.coder("show").stderr


def test_show_says_why_a_turn_ended(project: Project) -> None:
    project.coder("--once", "hi", url="http://127.0.0.1:1/v1")
    assert "· Cannot reach http://127.0.0.1:1/v1" in project.coder("show", "2").stdout


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("!true", 0),
        ("!false", 1),
        ("!exit 7", 1),
        ("!", 2),
        ("/status", 0),
        ("/frobnicate", 2),
        ("/mode no", 1),
    ],
)
def test_once_says_by_its_status_how_it_went(project: Project, line: str, status: int) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", line, url=server.url)
        as_json = project.coder("--once", line, "--output", "json", url=server.url)
    assert done.returncode == status, (done.stdout, done.stderr)
    told = json.loads(as_json.stdout)
    assert (as_json.returncode, told["exit_code"]) == (status, status)
    assert told["status"] == ("ok" if status == 0 else "error")


@pytest.mark.parametrize(
    ("question", "answer"), [("!echo typed", "exit_code: 0\nstdout:\ntyped\n"), ("/mode", "plan, default")]
)
def test_what_is_piped_in_is_no_part_of_a_command(project: Project, question: str, answer: str) -> None:
    """Else it would be run as shell: the other lines, where a loop over a file calls `coder`."""
    with ScriptedServer([]) as server:
        done = project.coder("--once", question, url=server.url, stdin="touch made-by-stdin\n")
    assert done.returncode == 0, done.stderr
    assert answer in done.stdout
    assert not (project.cwd / "made-by-stdin").exists()


def said(chat: dict[str, Any]) -> str:
    """The newest message without what the engine notes below it; a todo list would be newer."""
    assert chat["messages"][-1]["role"] == "user"
    text, _, _ = chat["messages"][-1]["content"].partition("\n\n<note>")
    return str(text)


PAGES = ["![logo](l.svg)\ntouch made-by-stdin", "!touch made-by-stdin", "/* a */\nint x;", "/model other\nx"]


@pytest.mark.parametrize("page", PAGES)
def test_a_piped_page_is_a_message_whatever_it_begins_with(project: Project, page: str) -> None:
    with ScriptedServer([{"text": "seen"}, {"text": "summed up"}]) as server:
        alone = project.coder(url=server.url, stdin=f"{page}\n")
        asked = project.coder("--once", "sum up", url=server.url, stdin=f"{page}\n")
        messages = [said(chat) for chat in server.chats]
    assert (alone.returncode, alone.stdout) == (0, "seen\n")
    assert (asked.returncode, asked.stdout) == (0, "summed up\n")
    assert messages == [page, f"sum up\n\n{page}"]
    assert not (project.cwd / "made-by-stdin").exists()


def test_a_piped_line_with_a_command_s_name_is_taken_as_typed(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder(url=server.url, stdin="/fork\n")
    assert "linear" in done.stdout + done.stderr
    typed = project.coder("--once", "!echo typed", url="http://127.0.0.1:9/v1")
    assert "typed\n" in typed.stdout


def test_what_is_piped_in_is_taken_as_it_is(project: Project) -> None:
    """A diff is full of `@@`, and a list in it is no list of things to do."""
    project.write("other.txt", "CONTENT OF ANOTHER FILE\n")
    piped = "@@ -1,5 +1,5 @@\n1. see @other.txt\n2. @missing.txt\n3. and so on, and on, and on"
    with ScriptedServer([{"text": "reviewed"}]) as server:
        done = project.coder("--once", "review this", url=server.url, stdin=piped)
        (chat,) = server.chats
    assert (done.returncode, done.stdout) == (0, "reviewed\n")
    assert said(chat) == f"review this\n\n{piped}"
    assert "no such file" not in done.stderr
    assert project.of_type("turn_start")[0]["content"] == "review this"


def test_what_is_piped_in_goes_with_a_custom_mode(project: Project) -> None:
    project.write(
        ".coder/modes/sum.md",
        "---\nkind: instant\nvariables: [{name: how, default: briefly}]\n---\nSum up {{how}}.\n",
    )
    project.write(".coder/modes/terse.md", "---\nkind: persistent\n---\nBe terse.\n")
    with ScriptedServer([{"text": "one"}, {"text": "two"}]) as server:
        instant = project.coder("--once", "/sum", url=server.url, stdin="a b c\n")
        persistent = project.coder("--once", "/terse", url=server.url, stdin="d e f\n")
        messages = [said(chat) for chat in server.chats]
    assert (instant.returncode, persistent.returncode) == (0, 0)
    assert messages == ["Sum up briefly.\n\na b c", "d e f"]


@pytest.mark.parametrize("line", ["git status", "rm -rf x", "ls -la", "ls --all", "git log --oneline"])
def test_a_line_without_its_quotes_is_not_called_an_option(project: Project, line: str) -> None:
    done = project.coder("explain", *line.split())
    assert done.returncode == 2
    assert done.stderr == f"coder: Put the line in quotes: coder explain '{line}'\n"
    assert "no option --wat" in project.coder("explain", "git status", "--wat").stderr


def test_a_mistyped_subcommand_is_told_all_that_it_may_be(project: Project) -> None:
    done = project.coder("modles")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean models, modes?" in done.stderr


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("shwo", "did you mean show?"),
        ("veiw", "did you mean view?"),
        ("serve_mcp", "did you mean serve-mcp?"),
        ("Doctor", "did you mean doctor?"),
        ("version", "coder --version"),
        ("init", "/init"),
        ("login", "export OPENAI_API_KEY="),
        ("update", "git pull"),
        ("upgrade", "git pull"),
        ("config", "~/.coder/config.json"),
        ("continue", "`coder --continue`"),
        ("resume", "`coder --resume`"),
        ("undo", "then `/undo`"),
    ],
)
def test_a_word_that_is_a_subcommand_elsewhere_or_nearly_one_here_costs_nothing(
    project: Project, word: str, told: str
) -> None:
    with ScriptedServer([{"text": "Here it is."}] * 2) as server:
        done = project.coder(word, url=server.url)
        assert (done.returncode, done.stdout) == (2, "")
        assert server.chats == []
        asked = project.coder("--once", word, url=server.url), project.coder(word, "please", url=server.url)
    assert told in done.stderr
    assert [one.stdout for one in asked] == ["Here it is.\n"] * 2


def test_resume_with_an_id_is_no_question(two: Project) -> None:
    done = two.coder("resume", "20260101-1205", url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "`coder --resume`" in done.stderr


def test_a_mistyped_option_is_told_the_nearest(project: Project) -> None:
    done = project.coder("--contniue")
    assert done.returncode == 2
    assert "There is no option --contniue (did you mean --continue?). " in done.stderr
    assert "did you mean --limit?" in project.coder("sessions", "--limt=3").stderr


@pytest.mark.parametrize("limit", ["0", "-3", "x"])
def test_a_limit_is_a_number_from_one_on(two: Project, limit: str) -> None:
    done = two.coder("sessions", f"--limit={limit}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--limit" in done.stderr


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help_is_a_page_that_names_every_subcommand(project: Project, lang: str) -> None:
    page = project.coder("help", "--lang", lang)
    assert page.returncode == 0
    assert page.stdout == project.coder("--help", "--lang", lang).stdout
    listed = [line.split()[1] for line in page.stdout.splitlines() if line.startswith("  coder ")]
    assert sorted(listed) == sorted(subcommands())


def test_help_of_a_subcommand_and_a_question_that_begins_so(project: Project) -> None:
    assert project.coder("help", "mcp").stdout == project.coder("mcp", "--help").stdout
    with ScriptedServer([{"text": "I will."}]) as server:
        assert project.coder("help", "me", url=server.url).stdout == "I will.\n"


def test_the_language_is_not_the_one_of_a_program(project: Project) -> None:
    done = project.coder("mcp", "add", "--", "sh", "--lang", "zh")
    assert "Give a name" in done.stderr


@pytest.mark.parametrize("name", subcommands())
def test_a_page_of_help_has_its_options_in_one_place(project: Project, name: str) -> None:
    page = project.coder(name, "--help").stdout
    assert page.count("options:") == 1
    assert re.findall(r"^  (\S+)\n(?!   )", page, re.MULTILINE) == []  # and none without a word on it


@pytest.mark.thorough
def test_the_tour_leaves_nothing_or_names_a_command_that_can_be_typed(
    project: Project, tmp_path: Path
) -> None:
    def told(*words: str) -> str:
        environ = project.environ(PATH=os.defpath, TMPDIR=str(tmp_path))  # where no `coder` is
        done = subprocess.run(
            words, cwd=project.cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
        )
        return done.stdout.decode("utf-8")

    demo = (sys.executable, "-m", "coder", "demo", "--fast")
    shown = told(*demo)
    assert "demo --keep" in shown
    assert "kept in" not in shown
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("coder-")]
    assert left == []
    kept = told(*demo, "--keep")
    named = re.search(r"recorded: (.+)", kept)
    assert named is not None
    assert "basket.py" in told(*shlex.split(named[1]))
    (directory,) = tmp_path.glob("coder-demo-*")
    assert f"kept in {directory}\n" in kept
