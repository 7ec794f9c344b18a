"""Which files are modes, what they are called, and who wins (seed 003 §3, SPEC §1.4, §1.5)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from modeshop import Shop

from coder.extend.modes.discover import MAX_BYTES, MAX_DEPTH, ModeRoots, discover, places


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def ids(shop: Shop, cwd: Path | None = None) -> list[str]:
    return [definition.mode_id for definition in shop.definitions(cwd=cwd)]


def test_a_project_with_too_many_files_hides_no_others(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder.extend.modes.discover.MAX_FILES", 3)
    for number in range(9):
        shop.mode(f"m{number}", "x")
    shop.mode("mine", "x", "home/.coder/modes")
    shop.mode("said", "x", "home/.coder/prompts")
    assert ids(shop) == ["/m0", "/m1", "/m2", "/mine", "/prompts:said"]


def test_directories_are_joined_with_colons(shop: Shop) -> None:
    shop.mode("a/b/c", "x")
    shop.mode("foo", "x")
    assert ids(shop) == ["/a:b:c", "/foo"]


@pytest.mark.parametrize("name", ["with space", "dot.ted", "semi;colon", "é", "a:b", "a/b c/d", ".hidden"])
def test_other_characters_are_skipped_silently(shop: Shop, name: str) -> None:
    shop.mode(name, "x")
    shop.mode("Fine_1-x", "x")
    assert ids(shop) == ["/Fine_1-x"]


def test_only_markdown_files_count(shop: Shop) -> None:
    path = shop.mode("a", "x")
    path.rename(path.with_suffix(".txt"))
    path.with_name("plain").write_text("x", encoding="utf-8")
    assert ids(shop) == []


def test_all_ancestors_then_the_homes_nearest_first(shop: Shop) -> None:
    deep = shop.cwd / "sub" / "deep"
    deep.mkdir(parents=True)
    shop.mode("far", "x", "project/.codex/modes")
    shop.mode("near", "x", "project/sub/deep/.coder/modes")
    shop.mode("mid", "x", "project/sub/.codex/modes")
    shop.mode("mine", "x", "home/.coder/modes")
    shop.mode("theirs", "x", "home/.codex/modes")
    found = [(d.mode_id, d.scope.label, d.scope.kind) for d in shop.definitions(cwd=deep)]
    assert found == [
        ("/near", "(project:deep)", "project"),
        ("/mid", "(project:sub)", "project"),
        ("/far", "(project:project)", "project"),
        ("/mine", "(global)", "global"),
        ("/theirs", "(global)", "global"),
    ]


def test_the_nearest_definition_wins_and_the_others_say_who_did(shop: Shop) -> None:
    sub = shop.cwd / "sub"
    sub.mkdir()
    near = shop.mode("x/deploy", "near", "project/sub/.codex/modes")
    shop.mode("x/deploy", "far", "project/.coder/modes")
    shop.mode("x/deploy", "home", "home/.coder/modes")
    catalogue = shop.catalogue(cwd=sub)
    winner = catalogue.find("/x:deploy")
    assert winner is not None
    assert winner.body == "near"
    states = [(d.scope.label, d.shadowed_by, d.command) for d in catalogue.definitions]
    assert states == [
        ("(project:sub)", None, "/x:deploy"),
        ("(project:project)", "(project:sub)", ""),
        ("(global)", "(project:sub)", ""),
    ]
    assert catalogue.definitions[1].shadowed_by_path == str(near)


def test_the_same_name_in_another_directory_is_another_mode(shop: Shop) -> None:
    shop.mode("a/x", "1")
    shop.mode("b/x", "2")
    assert [d.shadowed_by for d in shop.definitions()] == [None, None]


def test_at_the_same_level_coder_wins_over_codex(shop: Shop) -> None:
    shop.mode("m", "theirs", "project/.codex/modes")
    shop.mode("m", "ours", "project/.coder/modes")
    shop.mode("g", "theirs", "home/.codex/modes")
    shop.mode("g", "ours", "home/.coder/modes")
    catalogue = shop.catalogue()
    assert [m.body for m in catalogue.modes if not m.definition.shadowed_by] == ["ours", "ours"]
    assert len(catalogue.definitions) == 4


def test_built_in_commands_win_and_the_mode_is_reached_another_way(shop: Shop) -> None:
    shop.mode("status", "mine")
    catalogue = shop.catalogue(built_in=["status", "help"])
    (definition,) = catalogue.definitions
    assert (definition.shadowed_by, definition.command) == ("(built-in)", "/modes:status")
    found = catalogue.find("/modes:status")
    assert found is not None
    assert found.body == "mine"


def test_saved_prompts_are_a_category_of_their_own(shop: Shop) -> None:
    shop.mode("hello", "Say hello to $1.", "project/.codex/prompts")
    shop.mode("hello", "a mode", "project/.coder/modes")
    shop.mode("bye", "Say bye.", "home/.coder/prompts")
    found = {d.mode_id: (d.category, d.kind, d.shadowed_by) for d in shop.definitions()}
    assert found == {
        "/hello": ("mode", "instant", None),
        "/prompts:hello": ("prompt", "instant", None),
        "/prompts:bye": ("prompt", "instant", None),
    }
    bare = shop.catalogue().find("/bye")
    assert bare is not None
    assert bare.body == "Say bye."


def test_a_home_above_the_project_is_global_and_not_listed_twice(shop: Shop) -> None:
    inside = shop.home / "work"
    inside.mkdir()
    shop.mode("m", "x", "home/.coder/modes")
    assert [(d.mode_id, d.scope.label) for d in shop.definitions(cwd=inside)] == [("/m", "(global)")]


def test_homes_come_from_the_environment(tmp_path: Path) -> None:
    where = places(tmp_path, {"HOME": "/h"}, Path("/h/.coder"))
    assert where.homes == [Path("/h/.coder"), Path("/h/.codex")]
    named = places(tmp_path, {"HOME": "/h", "CODEX_HOME": "/else"}, Path("/c"))
    assert named.homes == [Path("/c"), Path("/else")]


# -- what a hostile or careless directory may hold -----------------------------------------------------------


def test_circles_of_links_end(shop: Shop) -> None:
    path = shop.mode("a/m", "x")
    (path.parent / "loop").symlink_to(path.parent, target_is_directory=True)
    (path.parent / "up").symlink_to(path.parent.parent, target_is_directory=True)
    (path.parent / "self.md").symlink_to("self.md")
    (path.parent / "gone.md").symlink_to("nowhere")
    assert ids(shop) == ["/a:m"]


def test_a_project_cannot_make_a_mode_of_a_private_file(shop: Shop) -> None:
    secret = shop.home / "id_rsa"
    secret.write_text("PRIVATE", encoding="utf-8")
    directory = shop.mode("fine", "x").parent
    (directory / "stolen.md").symlink_to(secret)
    (directory / "dir").symlink_to(shop.home, target_is_directory=True)
    (shop.home / "note.md").write_text("PRIVATE", encoding="utf-8")
    (shop.cwd / "inside.md").write_text("ok", encoding="utf-8")
    (directory / "linked.md").symlink_to(shop.cwd / "inside.md")
    assert ids(shop) == ["/fine", "/linked"]


def test_links_of_the_person_may_lead_anywhere(shop: Shop) -> None:
    real = shop.root / "dotfiles"
    real.mkdir()
    (real / "m.md").write_text("x", encoding="utf-8")
    (shop.home / ".coder").mkdir()
    (shop.home / ".coder" / "modes").symlink_to(real, target_is_directory=True)
    assert ids(shop) == ["/m"]


def test_depth_is_bounded(shop: Shop) -> None:
    shop.mode("/".join("d" * (MAX_DEPTH - 1)) + "/ok", "x")
    shop.mode("/".join("e" * (MAX_DEPTH + 3)) + "/deep", "x")
    assert [one.rpartition(":")[2] for one in ids(shop)] == ["ok"]


def test_a_file_of_ten_megabytes_is_an_entry_with_an_error(shop: Shop) -> None:
    path = shop.mode("big", "")
    path.write_bytes(b"x" * 10_000_000)
    shop.mode("fine", "x")
    big, fine = shop.definitions()
    assert big.error is not None
    assert str(big.error.message) == f"{path}: The file has 10000000 bytes; a mode may have {MAX_BYTES}."
    assert fine.error is None


def test_what_cannot_be_read_is_an_entry_with_an_error(shop: Shop) -> None:
    directory = shop.mode("fine", "x").parent
    os.mkfifo(directory / "pipe.md")
    (directory / "latin.md").write_bytes("ok\nd\xe9j\xe0".encode("latin-1"))
    messages = {d.mode_id: str(d.error.message) for d in shop.definitions() if d.error}
    assert messages["/pipe"].endswith("It is not a regular file.")
    assert messages["/latin"].endswith(".md:2: The file is not UTF-8 text.")
    assert len(messages) == 2


def test_directories_of_others_above_us_are_not_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/tmp/.coder` may be anybody's; what lies above the working directory must be ours or root's."""
    shop.mode("m", "x", "project/.coder/modes")
    sub = shop.cwd / "sub"
    sub.mkdir()
    where = ModeRoots(cwd=sub, homes=[])
    assert len(discover(where)) == 1
    monkeypatch.setattr(
        "coder.extend.modes.discover.owner_of", lambda path: 4242 if ".coder" in str(path) else 7
    )
    assert discover(where) == []


def test_a_definition_is_read_once(shop: Shop) -> None:
    path = shop.mode("m", "before")
    catalogue = shop.catalogue()
    assert len(catalogue.definitions) == 1
    path.write_text("after", encoding="utf-8")
    shop.mode("other", "x")
    found = catalogue.find("m")
    assert found is not None
    assert found.body == "before"
    assert len(catalogue.definitions) == 1


def test_a_directory_whose_name_is_no_text_is_shown_and_read(shop: Shop) -> None:
    odd = Path(os.fsdecode(os.fsencode(shop.root) + b"/caf\xe9\n"))
    (odd / ".coder" / "modes").mkdir(parents=True)
    (odd / ".coder" / "modes" / "m.md").write_text("x", encoding="utf-8")
    (definition,) = shop.definitions(cwd=odd)
    assert definition.error is None
    assert definition.scope.label == "(project:caf\\udce9\\n)"
    assert msgspec.json.encode(definition)


def test_a_home_of_nobody_is_no_error(tmp_path: Path) -> None:
    where = places(tmp_path, {"HOME": "/h", "CODEX_HOME": "~nobody-of-that-name/x"}, tmp_path)
    assert discover(where) == []
