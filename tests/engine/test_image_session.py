"""Images in a session: named, dropped, read, of servers; recorded, resumed, and kept from models that do not
see."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64encode
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import Notice, ToolCallChanged
from coder.protocol.messages import Image
from coder.protocol.ops import UserInput
from kit import Chaos, ScriptedServer
from kit.driving import Driver, Project, drive, left_running, of, play
from kit.fakes import WIRES
from kit.images import png
from kit.validity import check_conversation
from kit.wire_exchange import MODELS

SHOT, OTHER = png(), png(9, 9, seed=7)
DATA, OTHER_DATA = (b64encode(one).decode() for one in (SHOT, OTHER))
READ = {"calls": [{"name": "read", "arguments": {"path": "shot.png"}}]}
BLIND = "gpt-oss:20b"


@pytest.fixture
def ready(project: Project) -> Project:
    project.write("shot.png", SHOT)
    project.write("other.png", OTHER)
    project.configure(workflow={"require_todo_for_complex": False})
    return project


def told(driver: Driver) -> list[str]:
    return [str(notice.text) for notice in of(driver.seen, Notice)]


def images_of(chat: dict[str, Any]) -> list[str]:
    parts = [
        part
        for message in chat["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def url(data: str) -> str:
    return f"data:image/png;base64,{data}"


@pytest.mark.parametrize("wire", WIRES)
def test_named_and_read_images_reach_the_model_and_outlive_the_process(ready: Project, wire: str) -> None:
    ready.configure(provider={"wire": wire, "models": {"m": {"images": True}}})
    script = [{"text": "A square."}, READ, {"text": "The same."}, {"text": "Still there."}]
    with Chaos(script, wire=wire) as server:
        driver = drive(ready, server.url, ["what is on @other.png?", "and the shot?"], model=MODELS[wire])
        (log,) = ready.logs()
        drive(ready, server.url, ["compare them"], model=MODELS[wire], resume=log.stem)
        bodies = [json.dumps(request.json) for request in server.requests]
    assert [body.count(OTHER_DATA) for body in bodies] == [1, 1, 1, 1]
    assert [body.count(DATA) for body in bodies] == [0, 0, 1, 1]
    assert told(driver) == []
    kept = log.read_text(encoding="utf-8")
    assert (kept.count(DATA), kept.count(OTHER_DATA)) == (1, 1)
    snapshot = ready.snapshot()
    check_conversation(snapshot["messages"])
    assert images_of(snapshot) == [url(OTHER_DATA), url(DATA)]


def test_the_same_image_is_recorded_once(ready: Project) -> None:
    play(ready, [{"text": "a"}, READ, {"text": "b"}], ["@shot.png", "again"], model="gpt-5")
    images = ready.of_type("image")
    assert [image["content"] for image in images] == [DATA]
    (first, _), (seen,) = ready.of_type("turn_start"), ready.of_type("observation")
    assert first["meta"]["images"] == seen["meta"]["images"] == [images[0]["meta"]["image_id"]]
    assert first["content"] == "@shot.png"
    play(
        ready, [{"text": "c"}, READ, {"text": "d"}], ["@shot.png"], resume=ready.logs()[0].stem, model="gpt-5"
    )
    assert len(ready.of_type("image")) == 1


def test_the_list_of_sessions_has_the_title_behind_a_large_image(ready: Project) -> None:
    ready.write("large.png", png(500, 500, noise=True))
    play(ready, [{"text": "noise"}], ["what is on @large.png?"], model="gpt-5")
    done = ready.coder("sessions")
    assert "what is on @large.png?" in done.stdout


@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda path: f"'{path}'",
        lambda path: str(path).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)"),
        lambda path: path.as_uri(),
    ],
)
def test_a_dropped_file(ready: Project, write: Any) -> None:
    name = "shot.png" if write is str else "my shot (1).png"
    path = ready.write(name, SHOT)
    driver = play(ready, [{"text": "seen"}], [write(path)], model="gpt-5")
    assert images_of(driver.chats[0]) == [url(DATA)]
    assert driver.chats[0]["messages"][-1]["content"][0]["text"].startswith(write(path))


def test_several_dropped_files(ready: Project) -> None:
    one, two = ready.cwd / "shot.png", ready.cwd / "other.png"
    driver = play(ready, [{"text": "seen"}], [f"{one} {two}"], model="gpt-5")
    assert images_of(driver.chats[0]) == [url(DATA), url(OTHER_DATA)]


@pytest.mark.parametrize(
    "sentence",
    [
        "{}",
        "what colour is {}",
        "{} is odd",
        "see {}, please",
        "看{}是什么颜色",
        "@{} is odd",
        "one\n{}\nthree",
    ],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda path: f"'{path}'",
        lambda path: f'"{path}"',
        lambda path: str(path).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)"),
        lambda path: path.as_uri(),
    ],
)
def test_an_image_that_the_person_names_comes_from_anywhere(
    ready: Project, write: Any, sentence: str
) -> None:
    path = ready.home / "my shot (1)\u202fPM.png"
    path.write_bytes(SHOT)
    text = sentence.format(write(path))
    if text.startswith("@'"):
        pytest.skip("after @ a name stands in double quotes")
    driver = play(ready, [{"text": "seen"}], [text], model="gpt-5")
    assert (told(driver), images_of(driver.chats[0])) == ([], [url(DATA)])


def test_words_that_only_look_like_an_image(ready: Project) -> None:
    """What is not there, an address, code and other files are words; a file that is no image is told of."""
    text, fake = ready.home / "notes.txt", ready.home / "fake.png"
    text.write_text("private words", encoding="utf-8")
    fake.write_text("private words", encoding="utf-8")
    quiet = [
        "is /static/logo.png served?",
        "see https://x.org/tmp/shot.png",
        f"run `open {ready.cwd}/shot.png`",
    ]
    inputs = [*quiet, f"read {text}", f"read @{text}", f"what is {fake}"]
    driver = play(ready, [{"text": "?"}] * len(inputs), inputs, model="gpt-5")
    assert [images_of(chat) for chat in driver.chats] == [[]] * len(inputs)
    outside = "@{} is outside the workspace and was left out: only images are taken from there."
    assert told(driver) == [outside.format(text), outside.format(fake)]
    assert "private words" not in ready.logs()[0].read_text(encoding="utf-8")


def test_no_way_around_the_workspace_or_its_secrets(ready: Project) -> None:
    outside = ready.home / "private.png"
    outside.write_bytes(SHOT)
    secret = ready.home / ".ssh" / "key.png"
    secret.parent.mkdir()
    secret.write_bytes(SHOT)
    (ready.home / "to_secret.png").symlink_to(secret)
    (ready.cwd / "link.png").symlink_to(outside)
    (ready.cwd / "folder").symlink_to(ready.home)
    os.mkfifo(ready.cwd / "pipe.png")
    ready.write(".gitignore", "ignored.png\n")
    ready.write("ignored.png", SHOT)
    inputs = [
        "@link.png",
        f"see {ready.cwd}/folder/private.png",
        "@pipe.png",
        "@ignored.png",
        f"see {secret}",
        f"@{ready.home}/to_secret.png",
    ]
    driver = play(ready, [{"text": "?"}] * len(inputs), inputs, model="gpt-5")
    assert [images_of(chat) for chat in driver.chats] == [[]] * len(inputs)
    assert len(told(driver)) == len(inputs)
    assert DATA not in ready.logs()[0].read_text(encoding="utf-8")


def test_only_the_persons_words_reach_outside(ready: Project) -> None:
    """Not what was piped or pasted, a mode's body or a subagent's objective."""
    outside = ready.home / "private.png"
    outside.write_bytes(SHOT)
    ready.write(".coder/modes/look.md", f"---\nkind: instant\n---\nlook at {outside}\n")

    async def run(server: ScriptedServer) -> Driver:
        driver = Driver(ready, server.url, model="gpt-5", preset="yolo")
        driver.start()
        pasted = f"a log with {outside}\nand @{outside}\n"
        for op in (UserInput(f"see {pasted}", pasted=[pasted]), UserInput("/look"), UserInput("explore")):
            driver.engine.submit(op)
            await driver.until_idle()
        await driver.close()
        return driver

    task = {
        "name": "task",
        "arguments": {"agent": "explore", "objective": f"look at @{outside} and {outside}"},
    }
    with ScriptedServer(
        [{"text": "a"}, {"text": "b"}, {"calls": [task]}, {"text": "c"}, {"text": "d"}]
    ) as server:
        asyncio.run(run(server))
        sent = [json.dumps(chat) for chat in server.chats]
    assert len(sent) == 5
    assert [body.count(DATA) for body in sent] == [0] * 5
    assert str(outside) in sent[1]


def test_an_image_that_is_none_is_said_and_the_question_goes_out(ready: Project) -> None:
    ready.write("cut.png", SHOT[:-9])
    ready.write("huge.png", SHOT)
    os.truncate(ready.cwd / "huge.png", 100_000_000)
    driver = play(ready, [{"text": "?"}], ["see @cut.png and @huge.png and @shot.png"], model="gpt-5")
    assert images_of(driver.chats[0]) == [url(DATA)]
    assert told(driver) == [
        "cut.png is truncated or damaged.",
        "huge.png is larger than 32.0 MB.",
    ]


def test_a_directory_sends_no_pictures_unasked_and_a_message_not_too_many(ready: Project) -> None:
    for at in range(12):
        ready.write(f"shots/{at:02}.png", png(8 + at, 8))
    driver = play(ready, [{"text": "?"}] * 2, ["@shots/", "@shots/*.png"], model="gpt-5")
    directory, glob = driver.chats
    assert (len(images_of(directory)), len(images_of(glob))) == (0, 10)
    assert "shots/10.png was left out: a message carries at most 10 images, of 10 MB together." in told(
        driver
    )


def test_a_model_that_does_not_see_and_the_person_knows_before_it_is_asked(ready: Project) -> None:
    script = [READ, {"text": "I cannot see it."}]
    driver = play(ready, script, ["what is on @shot.png?"], model=BLIND)
    kinds = [type(event) for event in driver.seen]
    assert told(driver) == [f"{BLIND} cannot see images: not sent: shot.png."]
    assert kinds.index(Notice) < kinds.index(ToolCallChanged)
    assert [images_of(chat) for chat in driver.chats] == [[], []]
    first, second = (chat["messages"][-1]["content"] for chat in driver.chats)
    assert "[1 image is not shown here: you cannot see images]" in first
    assert "you cannot see images" in second


def test_after_a_change_to_a_blind_model_and_back(ready: Project) -> None:
    inputs = ["@shot.png", "look", f"/model {BLIND}", "and now?", "again", "/model gpt-5", "back?"]
    script = [{"text": "a"}, READ, {"text": "b"}, {"text": "c"}, {"text": "d"}, {"text": "e"}]
    driver = play(ready, script, inputs, model="gpt-5")
    counts = [len(images_of(chat)) for chat in driver.chats]
    assert counts == [1, 1, 2, 0, 0, 2]
    for chat in driver.chats:
        check_conversation(chat["messages"])
    assert told(driver) == [f"{BLIND} cannot see images: those of this conversation are not sent to it."]


def test_of_an_unknown_model_it_is_said_that_it_is_tried(ready: Project) -> None:
    driver = play(ready, [{"text": "a"}, {"text": "b"}], ["@shot.png", "@other.png"], model="homemade")
    assert [len(images_of(chat)) for chat in driver.chats] == [1, 2]
    assert told(driver) == [
        "Whether homemade sees images is not known: they are sent. "
        "If it does not, set images to false for it in provider.models."
    ]
    ready.configure(provider={"models": {"homemade": {"images": False}}})
    driver = play(ready, [{"text": "c"}], ["@shot.png"], model="homemade")
    assert images_of(driver.chats[0]) == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_refuses_images_is_asked_again_without(ready: Project, wire: str) -> None:
    ready.configure(provider={"wire": wire, "models": {"m": {"images": True}}})
    error = {"message": "image input is not supported", "type": "invalid_request_error"}
    refusal = {"status": 400, "body": {"type": "error", "error": error}}
    with Chaos([refusal, {"text": "ok"}, {"text": "and on"}], wire=wire) as server:
        driver = drive(ready, server.url, ["see @shot.png", "on"], model=MODELS[wire])
        bodies = [json.dumps(request.json) for request in server.requests]
    assert [body.count(DATA) for body in bodies] == [1, 0, 0]
    assert [text for text in told(driver) if "refused a request with images" in text]
    assert ready.of_type("final")[-1]["content"] == "and on"


def test_more_images_than_a_request_holds(ready: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from coder.engine import session_images as images

    monkeypatch.setattr(images, "_REQUEST_BYTES", 4 * len(DATA))
    shots = [ready.write(f"{at}.png", png(seed=at)).name for at in range(9)]
    driver = play(ready, [{"text": "ok"}] * 9, [f"@{name}" for name in shots], model="gpt-5")
    counts = [len(images_of(chat)) for chat in driver.chats]
    assert max(counts) <= 4
    assert counts[:4] == [1, 2, 3, 4]
    dropped = [json.dumps(chat["messages"]).count("not shown any more") for chat in driver.chats]
    assert all(kept + gone == at for at, (kept, gone) in enumerate(zip(counts, dropped, strict=True), 1))
    changes = sum(before != after for before, after in pairwise(dropped))
    assert changes <= 3  # the provider's cache is lost now and then, not with each image
    assert (
        told(driver).count("The oldest images are left out of the request: it has room for 0 MB of them.")
        <= 1
    )


def test_a_window_too_small_for_the_image(ready: Project) -> None:
    ready.write("large.png", png(1900, 1900))
    small = {"claude-opus-5": {"context_window": 5000}}
    ready.configure(provider={"models": small}, workflow={"require_todo_for_complex": False})
    look = {"calls": [{"name": "read", "arguments": {"path": "large.png"}}]}
    driver = play(ready, [look, {"text": "ok"}], ["@large.png", "read it"], model="claude-opus-5")
    refused, read = ready.of_type("turn_end")
    assert (refused["meta"]["status"], read["meta"]["status"]) == ("prompt_limit", "ok")
    assert [images_of(chat) for chat in driver.chats] == [[], []]
    assert "the context window has no room for it" in driver.chats[-1]["messages"][-1]["content"]


# other sources


def test_images_of_a_server(ready: Project) -> None:
    server = str(Path(__file__).parent.parent / "kit" / "tool_server.py")
    tool = {"TOOL_SERVER_TOOL": "picture"}
    entry = {"command": sys.executable, "args": [server, str(ready.cwd)], "env": tool}
    ready.configure(mcp={"servers": {"plain": entry}}, permission={"tools": {"mcp__*": "allow"}})
    ready.write("cut.png", SHOT[:-9])

    def picture(name: str) -> dict[str, Any]:
        call = {"name": "mcp__plain__picture", "arguments": {"path": str(ready.cwd / name)}}
        return {"calls": [call]}

    driver = play(
        ready, [picture("shot.png"), picture("cut.png"), {"text": "seen"}], ["show it"], model="gpt-5"
    )
    *_, last = driver.chats
    check_conversation([m for m in last["messages"] if isinstance(m["content"], str)])
    assert images_of(last) == [url(DATA)] * 2
    whole, cut = (message["content"] for message in last["messages"] if message["role"] == "tool")
    assert whole.count("shown beside this result") == 2
    assert cut.count("[not shown: image") == 2
    blind = play(ready, [picture("shot.png"), {"text": "?"}], ["show it"], model=BLIND)
    assert images_of(blind.chats[-1]) == []
    assert "not shown" in blind.chats[-1]["messages"][-1]["content"]
    assert left_running(str(ready.cwd)) == []


def test_images_of_a_front_end(ready: Project) -> None:
    sent = [Image("image/jpeg", DATA, "clip"), Image("image/png", "AAAA"), Image("image/png", OTHER_DATA)]

    async def run(server: ScriptedServer) -> Driver:
        driver = Driver(ready, server.url, model="gpt-5")
        driver.start()
        for images in (sent, sent[1:2]):
            driver.engine.submit(UserInput("", images=images))
            await driver.until_idle()
        await driver.close()
        return driver

    with ScriptedServer([{"text": "seen"}] * 2) as server:
        driver = asyncio.run(run(server))
        first, second = server.chats
    assert images_of(first) == [url(DATA), url(OTHER_DATA)]
    text = first["messages"][-1]["content"][0]["text"]
    assert "[image clip: PNG, 8×6," in text
    assert "[not shown: image-2 is not a supported image" in text
    assert second["messages"][-1]["content"].startswith("[not shown: image-1")
    assert len(told(driver)) == 2


@pytest.mark.parametrize("dialect", ["react-xml", "guided"])
def test_in_every_dialect(ready: Project, dialect: str) -> None:
    ready.configure(provider={"dialect": dialect}, workflow={"require_todo_for_complex": False})
    final = "<final>a square</final>" if dialect == "react-xml" else '{"do": "done", "answer": "a square"}'
    driver = play(ready, [{"text": final}], ["what is on @shot.png?"], model="gpt-5")
    assert images_of(driver.chats[-1]) == [url(DATA)]


def test_a_subagent_sees_what_it_reads_and_its_parents_record_stays_small(ready: Project) -> None:
    task = {"name": "task", "arguments": {"agent": "explore", "objective": "look at shot.png"}}
    script = [{"calls": [task]}, READ, {"text": "a square"}, {"text": "It is a square."}]
    driver = play(ready, script, ["ask an explorer"], model="gpt-5", preset="yolo")
    assert [len(images_of(chat)) for chat in driver.chats] == [0, 0, 1, 0]
    assert DATA not in ready.logs()[0].read_text(encoding="utf-8")
