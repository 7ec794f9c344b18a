"""Memory: what is kept, what is refused, what a session is told, and how a person changes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placing import Place

from coder.context.memory import MAX_FACT, Memory, _bullets, _checked
from coder.engine.commands.extensions import memory_answer
from coder.policy.secrets.formats import secret_in
from coder.tools.save_memory import NotSaved, SaveMemory


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def memory(place: Place) -> Memory:
    return Memory(place.work, place.coder_home)


def test_a_fact_goes_to_its_file_and_into_the_next_sessions_context(place: Place, memory: Memory) -> None:
    assert memory.text() == ""
    tool = SaveMemory(memory)
    result = place.call(tool, fact="The tests run with `make check`.")
    assert result.ok
    assert "The tests run with `make check`." in result.for_model  # the session in progress knows by this
    assert result.meta["path"] == ".coder/memory.md"
    place.call(tool, fact="Prefers short answers", scope="home")
    project = (place.work / ".coder/memory.md").read_text(encoding="utf-8")
    assert project == "# Memory\n\n- The tests run with `make check`.\n"
    home = place.coder_home / "memory.md"
    assert home.read_text(encoding="utf-8").endswith("- Prefers short answers\n")
    assert home.stat().st_mode & 0o777 == 0o600
    text = Memory(place.work, place.coder_home).text()
    assert text.index("make check") < text.index("Prefers short answers")


def test_the_same_fact_is_kept_once(place: Place, memory: Memory) -> None:
    for fact in ("Use tabs.", "use tabs", "  Use\n tabs. ", "- Use tabs."):
        assert place.call(SaveMemory(memory), fact=fact).ok
    assert [fact.text for fact in memory.facts()] == ["Use tabs."]
    assert not memory.save("Use tabs").added
    assert memory.save("Use tabs", "home").added  # another file, another reader


@given(st.text(max_size=300))
def test_a_fact_is_always_one_bullet(text: str) -> None:
    try:
        fact = _checked(text)
    except NotSaved:
        return
    fact.encode("utf-8")
    assert _bullets(f"- {fact}\n") == [fact]
    assert len(f"- {fact}\n".splitlines()) == 1


def test_what_cannot_be_a_fact_is_refused_and_nothing_is_written(place: Place, memory: Memory) -> None:
    tool = SaveMemory(memory)
    assert "empty" in place.call(tool, fact=" \n\t- ").for_model
    assert str(MAX_FACT) in place.call(tool, fact="x" * 501).for_model
    assert not memory.path("project").exists()
    assert place.journal.told == []


@pytest.mark.parametrize(
    "fact",
    [
        "The key is sk-proj-abcdefghijklmnopqrstuvwx",
        "deploy with ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AWS: AKIAIOSFODNN7EXAMPLE",
        "password: hunter2!!",
        "The database password is S3cret-42",
        "数据库密码是 hunter2024",
        "DB at postgres://admin:pw123456@db.local/app",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.SflKxwRJSMeKKF2QT4",
    ],
)
def test_secrets_are_refused_with_a_hint(place: Place, memory: Memory, fact: str) -> None:
    result = place.call(SaveMemory(memory), fact=fact)
    assert result.denied
    assert "where the secret is kept" in result.for_model
    assert not memory.path("project").exists()


@pytest.mark.parametrize(
    "fact",
    [
        "The API key is read from the environment variable OPENAI_API_KEY",
        "Passwords are hashed with argon2; never log them",
        "The token limit is 128000",
        "Secrets live in 1Password, vault Engineering",
        "The password policy is described in docs/security.md",
        "The repository is at https://github.com/acme/app and CI at https://ci.local:8080/app",
        "密码规则见 docs 目录",
    ],
)
def test_talk_about_secrets_is_no_secret(fact: str) -> None:
    assert secret_in(fact) == ""


def test_undo_is_told_before_the_file_is_made(place: Place, memory: Memory) -> None:
    place.call(SaveMemory(memory), fact="one")
    place.call(SaveMemory(memory), fact="two")
    path = memory.path("project")
    assert [(told, existed) for told, _, existed in place.journal.told] == [(path, False), (path, True)]
    assert place.journal.told[-1][1] == path.read_bytes()


def test_a_persons_own_text_stays(place: Place, memory: Memory) -> None:
    path = place.write(memory.path("project"), "# Notes\n\nfree text\n\n* starred\n- last without newline")
    memory.save("added")
    assert path.read_text(encoding="utf-8").endswith("- last without newline\n- added\n")
    assert [fact.text for fact in memory.facts()] == ["starred", "last without newline", "added"]
    forgotten = memory.forget(2)
    assert forgotten is not None
    assert forgotten.text == "last without newline"
    assert path.read_text(encoding="utf-8") == "# Notes\n\nfree text\n\n* starred\n- added\n"
    path.write_bytes(b"- caf\xe9\n")
    memory.save("bytes stay")
    assert path.read_bytes() == b"- caf\xe9\n- bytes stay\n"
    memory.text().encode("utf-8")


def test_the_context_takes_the_newest_facts_of_a_long_file(place: Place, memory: Memory) -> None:
    facts = [f"- fact number {number}" for number in range(2000)]
    place.write(memory.path("project"), "# Memory\n\n" + "\n".join(facts) + "\n")
    text = memory.text(1000)
    assert len(text) < 1400
    assert "fact number 1999" in text
    assert "fact number 100\n" not in text
    assert "left out" in text
    body = [line for line in text.splitlines() if line.startswith("- ")]
    assert all(line in facts for line in body)


def test_a_link_in_the_project_is_not_written_through(place: Place, memory: Memory) -> None:
    target = place.write(place.home / ".bashrc", "x\n")
    (place.work / ".coder").mkdir()
    memory.path("project").symlink_to(target)
    assert place.call(SaveMemory(memory), fact="alias ls=evil").denied
    memory.path("project").unlink()
    (place.work / ".coder").rmdir()
    (place.work / ".coder").symlink_to(place.home)
    assert place.call(SaveMemory(memory), fact="alias ls=evil").denied
    assert target.read_text(encoding="utf-8") == "x\n"
    # The home file may be a link: that one the person made.
    place.coder_home.mkdir()
    (place.coder_home / "memory.md").symlink_to(place.write(place.root / "dotfiles/memory.md", ""))
    memory.save("kept", "home")
    assert "kept" in (place.root / "dotfiles/memory.md").read_text(encoding="utf-8")
    memory.forget(1)
    assert memory.path("home").is_symlink()
    assert "kept" not in memory.path("home").read_text(encoding="utf-8")


def test_what_is_no_file_is_an_error_and_no_wait(place: Place, memory: Memory) -> None:
    memory.path("project").mkdir(parents=True)
    assert not place.call(SaveMemory(memory), fact="x").ok
    place.coder_home.mkdir(parents=True)
    os.mkfifo(memory.path("home"))
    assert "not an ordinary file" in place.call(SaveMemory(memory), fact="x", scope="home").for_model
    assert memory.text() == ""


def test_processes_that_save_at_once_lose_nothing(place: Place, memory: Memory) -> None:
    code = (
        "import sys; from pathlib import Path; from coder.context.memory import Memory\n"
        "m = Memory(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "for n in range(25): m.save(f'fact {n} of {sys.argv[3]}'); m.save('common')"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(place.work), str(place.coder_home), who])
        for who in "abc"
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    texts = [fact.text for fact in memory.facts()]
    assert len(texts) == 76
    assert len(set(texts)) == 76


def test_facts_saved_since_the_prompt_was_made_are_known(place: Place, memory: Memory) -> None:
    memory.save("old fact")
    prompt = f"system\n{memory.text()}"
    assert memory.missing_from(prompt) == []
    memory.save("new fact")
    memory.save("about me", "home")
    assert memory.missing_from(prompt) == ["new fact", "about me"]


def test_the_command_shows_adds_and_forgets(place: Place, memory: Memory) -> None:
    assert str(memory.path("project")) in str(memory_answer(memory, "").text)
    added = memory_answer(memory, "add We deploy on Fridays")
    assert added.ok
    assert "We deploy on Fridays" in added.note  # the model hears of it with the next message
    memory_answer(memory, "add --home Likes tea")
    again = memory_answer(memory, "add we deploy on Fridays.")
    assert (again.ok, again.note) == (True, "")
    shown = str(memory_answer(memory, "").text)
    assert "1. We deploy on Fridays" in shown
    assert "2. Likes tea" in shown
    assert not memory_answer(memory, "forget 3").ok
    assert "Likes tea" in str(memory_answer(memory, "forget 2").text)
    assert [fact.text for fact in memory.facts()] == ["We deploy on Fridays"]
    for wrong in ("forget", "forget x", "add", "add --home", "nonsense"):
        answer = memory_answer(memory, wrong)
        assert (answer.ok, "Usage" in str(answer.text)) == (False, True)
    refused = memory_answer(memory, "add password: hunter2!!")
    assert not refused.ok
    assert "hunter2" not in str(refused.text)
