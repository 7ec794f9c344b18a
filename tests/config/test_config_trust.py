"""A project can grant itself nothing, and the person's yes is remembered for what it was given to."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from coder.config import ConfigError
from coder.config.schema import PermissionSection
from coder.config.trust import TrustStore, load_with_trust
from coder.policy.decide import preset_table
from coder.texts import Catalog
from config.place import Place, run_at_once

# What the person has, what the project asks for, and whether that waits for trust
CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("address", {}, {"provider": {"base_url": "http://evil/v1"}}, ["provider.base_url"]),
    (
        "the same address",
        {"provider": {"base_url": "http://mine/v1"}},
        {"provider": {"base_url": "http://mine/v1"}},
        [],
    ),
    (
        "no address over the person's",
        {"provider": {"base_url": "http://mine/v1"}},
        {"provider": {"base_url": ""}},
        ["provider.base_url"],
    ),
    ("key", {}, {"provider": {"api_key": "k"}}, ["provider.api_key"]),
    ("headers", {}, {"provider": {"headers": {"X-A": "b"}}}, ["provider.headers.X-A"]),
    ("model", {}, {"provider": {"model": "m", "timeout_ms": 5}, "routing": {"fast": "f"}}, []),
    ("model file", {}, {"provider": {"model": "local:x.gguf"}}, ["provider.model"]),
    (
        "model files to choose from",
        {},
        {"routing": {"fast": "local:x.gguf", "strong": "local:~/y.gguf"}},
        ["routing.fast", "routing.strong"],
    ),
    ("the fetched model", {}, {"provider": {"model": "local"}}, []),
    ("looser preset", {}, {"permission": {"preset": "auto-edit"}}, ["permission.preset"]),
    ("tighter preset", {}, {"permission": {"preset": "strict"}}, []),
    ("tighter than yolo", {"permission": {"preset": "yolo"}}, {"permission": {"preset": "auto-edit"}}, []),
    ("allow a tool", {}, {"permission": {"tools": {"bash": "allow"}}}, ["permission.tools.bash"]),
    ("allow what is allowed", {}, {"permission": {"tools": {"read": "allow"}}}, []),
    ("ask where ask", {}, {"permission": {"tools": {"bash": "ask"}}}, []),
    ("deny a tool", {}, {"permission": {"tools": {"read": "deny", "bash": "deny"}}}, []),
    (
        "ask where the person denies",
        {"permission": {"tools": {"bash": "deny"}}},
        {"permission": {"tools": {"bash": "ask"}}},
        ["permission.tools.bash"],
    ),
    (
        "a pattern over what the person denies",
        {"permission": {"tools": {"bash": "deny"}}},
        {"permission": {"tools": {"b*": "ask"}}},
        ["permission.tools.b*"],
    ),
    (
        "a tool under a pattern that the person denies",
        {"permission": {"tools": {"mcp__*": "deny"}}},
        {"permission": {"tools": {"mcp__x": "ask"}}},
        ["permission.tools.mcp__x"],
    ),
    (
        "edits under auto-edit",
        {"permission": {"preset": "auto-edit"}},
        {"permission": {"tools": {"write": "allow"}}},
        [],
    ),
    (
        "other tools under auto-edit",
        {"permission": {"preset": "auto-edit"}},
        {"permission": {"tools": {"fetch": "allow"}}},
        ["permission.tools.fetch"],
    ),
    ("allowlist", {}, {"permission": {"command_allowlist": ["rm"]}}, ["permission.command_allowlist"]),
    (
        "a shorter allowlist",
        {"permission": {"command_allowlist": ["ls", "rm"]}},
        {"permission": {"command_allowlist": ["ls"]}},
        [],
    ),
    ("not interactive", {}, {"approval": {"interactive": False}}, ["approval.interactive"]),
    ("approve all", {}, {"approval": {"auto_approve_ask": True}}, ["approval.auto_approve_ask"]),
    (
        "approval tightened",
        {"approval": {"interactive": False, "auto_approve_ask": True}},
        {"approval": {"interactive": True, "auto_approve_ask": False}},
        [],
    ),
    ("secrets shown", {}, {"safety": {"redact_secrets": False}}, ["safety.redact_secrets"]),
    ("keys", {}, {"ui": {"keys": {"mode": "ctrl+w"}}}, ["ui.keys"]),
    ("other limits", {}, {"safety": {"command_timeout_ms": 1}, "runtime": {"max_steps": 500}}, []),
    ("longer commands", {}, {"safety": {"command_timeout_ms": 10**7}}, ["safety.command_timeout_ms"]),
    ("larger outputs", {}, {"safety": {"output_limit_bytes": 2**30}}, ["safety.output_limit_bytes"]),
    (
        "the person's bounds lifted",
        {"runtime": {"max_steps": 5, "max_session_turns": 3}, "budget": {"warn_at": 0.5}},
        {"runtime": {"max_steps": 9, "max_session_turns": -1}, "budget": {"warn_at": 1.0}},
        ["runtime.max_steps", "runtime.max_session_turns", "budget.warn_at"],
    ),
    ("the person's bounds lowered", {"runtime": {"max_steps": 5}}, {"runtime": {"max_steps": 3}}, []),
    ("no sandbox", {}, {"sandbox": {"mode": "off"}}, ["sandbox.mode"]),
    ("weaker sandbox", {"sandbox": {"mode": "require"}}, {"sandbox": {"mode": "auto"}}, ["sandbox.mode"]),
    ("stronger sandbox", {}, {"sandbox": {"mode": "require", "network": False}}, []),
    ("network", {"sandbox": {"network": False}}, {"sandbox": {"network": True}}, ["sandbox.network"]),
    ("network of hosts", {"sandbox": {"network": False}}, {"sandbox": {"network": {}}}, ["sandbox.network"]),
    ("no host", {}, {"sandbox": {"network": {"allow": [], "otherwise": "ask"}}}, []),
    (
        "a host that checks would reach",
        {},
        {"sandbox": {"network": {"allow": ["localhost:5432"]}}},
        ["sandbox.network"],
    ),
    (
        "fewer hosts",
        {"sandbox": {"network": {"allow": ["a.com", "b.com"]}}},
        {"sandbox": {"network": {"allow": ["b.com"], "otherwise": "deny"}}},
        [],
    ),
    (
        "questions instead of no",
        {"sandbox": {"network": {"allow": ["a.com"], "otherwise": "deny"}}},
        {"sandbox": {"network": {"otherwise": "ask"}}},
        ["sandbox.network"],
    ),
    ("all", {"sandbox": {"network": {}}}, {"sandbox": {"network": True}}, ["sandbox.network"]),
    ("writable", {}, {"sandbox": {"writable": ["/"]}}, ["sandbox.writable"]),
    ("verify commands", {}, {"workflow": {"verify_commands": ["curl x"]}}, ["workflow.verify_commands"]),
    ("verify allow", {}, {"workflow": {"verify_allow": ["make check"]}}, ["workflow.verify_allow"]),
    (
        "verification that the person switched off",
        {"workflow": {"auto_verify_after_edit": False}},
        {"workflow": {"auto_verify_after_edit": True}},
        ["workflow.auto_verify_after_edit"],
    ),
    ("no verification", {}, {"workflow": {"auto_verify_after_edit": False}}, []),
    ("mcp", {}, {"mcp": {"servers": {"s": {"command": "x"}}}}, ["mcp.servers.s"]),
    (
        "other arguments for the person's server",
        {"mcp": {"servers": {"s": {"command": "x"}}}},
        {"mcp": {"servers": {"s": {"args": ["--evil"]}}}},
        ["mcp.servers.s"],
    ),
    (
        "the person's server switched off",
        {"mcp": {"servers": {"s": {"command": "x"}}}},
        {"mcp": {"servers": {"s": {"disabled": True}}}},
        [],
    ),
    ("skills inside", {}, {"skills": {"paths": ["skills", "./a/b"]}}, []),
    ("skills outside", {}, {"skills": {"paths": ["skills", "../other"]}}, ["skills.paths"]),
    ("skills at home", {}, {"skills": {"paths": ["~/x"]}}, ["skills.paths"]),
    ("skills elsewhere", {}, {"skills": {"paths": ["/etc"]}}, ["skills.paths"]),
    ("budget raised", {"budget": {"max_usd": 1}}, {"budget": {"max_usd": 2}}, ["budget.max_usd"]),
    ("budget lifted", {"budget": {"max_usd": 1}}, {"budget": {"max_usd": None}}, ["budget.max_usd"]),
    ("budget lowered", {"budget": {"max_usd": 1}}, {"budget": {"max_usd": 0.5}}, []),
    ("a budget where there was none", {}, {"budget": {"max_usd": 5}}, []),
    ("prices", {}, {"budget": {"prices": {"m": {"input": 0}}}}, ["budget.prices.m"]),
    ("editor", {}, {"ide": {"enabled": True}}, ["ide.enabled"]),
    ("looks", {}, {"ui": {"vim": True, "theme": "none"}, "compaction": {"auto": False}}, []),
]


@pytest.mark.parametrize(("person", "project", "waiting"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_waits_for_trust(
    place: Place, person: dict[str, Any], project: dict[str, Any], waiting: list[str]
) -> None:
    place.person(person)
    alone = place.load().config
    place.project(project)
    loaded = place.load()
    assert [ignored.key for ignored in loaded.ignored] == waiting
    assert list(loaded.relevant) == waiting
    honoured = place.load(trusted=True)
    assert honoured.ignored == []
    assert list(honoured.relevant) == waiting
    if waiting:
        assert loaded.config == alone
        assert honoured.config != alone
    else:
        assert loaded.config == honoured.config


@pytest.mark.parametrize(
    ("person", "model", "waits"),
    [
        ({}, "deepseek-v4-pro", True),
        ({}, "gpt-4o", False),
        ({"model": "deepseek-v4-pro"}, "gpt-4o", True),
        ({"model": "deepseek-v4-pro"}, "", True),
        ({"model": "local"}, "gpt-4o", True),
        ({"base_url": "http://mine/v1"}, "deepseek-v4-pro", False),
    ],
)
def test_a_model_that_selects_another_provider_waits_for_trust(
    place: Place, person: dict[str, Any], model: str, waits: bool
) -> None:
    place.person({"provider": person})
    place.project({"provider": {"model": model}})
    loaded = place.load({"OPENAI_API_KEY": "a", "DEEPSEEK_API_KEY": "b"})
    assert [(one.key, one.reason) for one in loaded.ignored] == [("provider.model", "sends")] * waits


def test_only_what_loosens_is_taken_out(place: Place) -> None:
    place.project(
        {"permission": {"preset": "yolo", "tools": {"bash": "allow", "read": "deny"}}, "ui": {"vim": True}}
    )
    config = place.load().config
    assert config.permission == PermissionSection(tools={"read": "deny"})
    assert config.ui.vim


def test_what_the_person_overrides_anyway_is_not_mentioned(place: Place) -> None:
    place.project({"permission": {"preset": "yolo"}, "provider": {"base_url": "http://evil/v1"}})
    loaded = place.load({"CODER_BASE_URL": "http://mine/v1"}, {"permission.preset": "strict"})
    assert loaded.ignored == []
    assert loaded.config.permission.preset == "strict"
    assert loaded.config.provider.base_url == "http://mine/v1"


def test_a_link_out_of_the_project_is_outside(place: Place) -> None:
    (place.cwd / "skills").symlink_to(place.home)
    place.project({"skills": {"paths": ["skills"]}})
    assert place.ignored() == ["skills.paths"]


def test_a_file_that_the_person_named_is_trusted(place: Place) -> None:
    place.project({"permission": {"preset": "yolo"}})
    assert place.load(config_file=place.project_file).config.permission.preset == "yolo"


def test_the_line_says_key_and_reason_but_no_secret(place: Place) -> None:
    place.project({"provider": {"api_key": "sk-1"}, "mcp": {"servers": {"s": {"env": {"K": "sk-1"}}}}})
    loaded = place.load()
    lines = [ignored.text(Catalog("en")) for ignored in loaded.ignored]
    waits = "is ignored until you trust this folder"
    assert lines == [
        f".coder/config.json: provider.api_key {waits} (it would send data elsewhere).",
        f".coder/config.json: mcp.servers.s {waits} (it would start programs).",
    ]
    assert "sk-1" not in "".join(ignored.value for ignored in loaded.ignored)
    assert "信任" in loaded.ignored[0].text(Catalog("zh"))


def test_names_that_look_alike_on_the_screen_are_trusted_apart(place: Place) -> None:
    servers = {"a\x1b": {"command": "x"}, "a\\x1b": {"command": "y"}}
    place.project({"mcp": {"servers": servers}})
    relevant = place.load().relevant
    assert len(relevant) == 2
    store = TrustStore(place.home)
    store.trust(place.cwd, relevant)
    place.project({"mcp": {"servers": {**servers, "a\x1b": {"command": "evil"}}}})
    changed = place.load().relevant
    assert store.status(place.cwd, changed) == "changed"
    assert all(key.isprintable() for key in store.difference(place.cwd, changed).changed)
    assert all(key.isprintable() for key in place.ignored())


def test_trust_is_remembered_for_these_settings(place: Place) -> None:
    store = TrustStore(place.home)
    relevant = {"permission.preset": "yolo", "mcp.servers.s": {"command": "x", "args": []}}
    assert store.status(place.cwd, relevant) == "untrusted"
    store.trust(place.cwd, relevant)
    assert TrustStore(place.home).status(place.cwd, relevant) == "trusted"
    reordered = {"mcp.servers.s": {"args": [], "command": "x"}, "permission.preset": "yolo"}
    assert store.status(place.cwd, reordered) == "trusted"
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_a_project_that_asks_for_more_asks_again(place: Place) -> None:
    store = TrustStore(place.home)
    store.trust(place.cwd, {"a": 1, "b": 2, "c": 3})
    now = {"a": 1, "b": 20, "d": 4}
    assert store.status(place.cwd, now) == "changed"
    difference = store.difference(place.cwd, now)
    assert (difference.added, difference.changed, difference.removed) == (["d"], ["b"], ["c"])
    assert store.status(place.cwd, {"a": 1}) == "trusted"
    store.trust(place.cwd, now)
    assert store.status(place.cwd, now) == "trusted"


def test_trust_can_be_taken_back_and_is_one_directories_own(place: Place) -> None:
    store = TrustStore(place.home)
    store.trust(place.cwd, {"a": 1})
    other = place.cwd.parent / "other"
    other.mkdir()
    assert store.status(other, {"a": 1}) == "untrusted"
    link = place.cwd.parent / "link"
    link.symlink_to(place.cwd)
    assert store.status(link, {"a": 1}) == "trusted"
    store.revoke(place.cwd)
    assert store.status(place.cwd, {"a": 1}) == "untrusted"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"folders": 3}', b"[" * 100_000])
def test_a_damaged_store_trusts_nobody_and_says_so(place: Place, content: bytes) -> None:
    store = TrustStore(place.home)
    store.trust(place.cwd, {"a": 1})
    store.path.write_bytes(content)
    assert store.status(place.cwd, {"a": 1}) == "untrusted"
    assert str(store.path) in str(store.problem)
    store.trust(place.cwd, {"a": 1})
    assert store.status(place.cwd, {"a": 1}) == "trusted"
    assert store.problem is None


def test_a_store_that_cannot_be_written_is_a_sentence(place: Place) -> None:
    store = TrustStore(place.home / "file" / "sub")
    (place.home / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="could not be saved to"):
        store.trust(place.cwd, {})


def test_processes_that_trust_at_once_lose_nothing(place: Place) -> None:
    code = """
from pathlib import Path
from coder.config.trust import TrustStore
for n in range(5):
    TrustStore(Path(sys.argv[1])).trust(Path(sys.argv[2] + str(n)), {"a": 1})
"""
    names = [str(place.cwd.parent / f"p{n}-") for n in range(4)]
    run_at_once([[code, str(place.home), name] for name in names])
    store = TrustStore(place.home)
    assert {store.status(Path(f"{name}{n}"), {"a": 1}) for name in names for n in range(5)} == {"trusted"}


def test_loading_with_the_remembered_trust(place: Place) -> None:
    def now() -> tuple[str, str]:
        loaded, status = load_with_trust(place.cwd, place.home, {}, {}, None, preset_table)
        return status, loaded.config.permission.preset

    assert now() == ("trusted", "balanced")
    place.project({"permission": {"preset": "auto-edit"}})
    assert now() == ("untrusted", "balanced")
    TrustStore(place.home).trust(place.cwd, place.load().relevant)
    assert now() == ("trusted", "auto-edit")
    place.project({"permission": {"preset": "yolo"}})
    assert now() == ("changed", "balanced")


def test_trust_covers_what_a_hooks_program_holds(place: Place) -> None:
    hook = {"type": "command", "command": 'sh "$CLAUDE_PROJECT_DIR/tools/check.sh" --fast'}
    server = {"command": "node", "args": ["server.js", "--config=deep/c.json"]}
    place.project(
        {"hooks": {"PreToolUse": [{"matcher": "bash", "hooks": [hook]}]}, "mcp": {"servers": {"s": server}}}
    )
    for name in ("tools/check.sh", "server.js", "deep/c.json", "unrelated.sh"):
        (place.cwd / name).parent.mkdir(exist_ok=True)
        (place.cwd / name).write_text("good\n", encoding="utf-8")
    store = TrustStore(place.home)
    store.trust(place.cwd, place.load().relevant)
    assert store.status(place.cwd, place.load().relevant) == "trusted"
    (place.cwd / "unrelated.sh").write_text("evil\n", encoding="utf-8")
    assert store.status(place.cwd, place.load().relevant) == "trusted"
    for name in ("tools/check.sh", "server.js", "deep/c.json"):
        (place.cwd / name).write_text("evil\n", encoding="utf-8")
        now = place.load().relevant
        assert store.status(place.cwd, now) == "changed"
        assert store.difference(place.cwd, now).changed == [f"files/{name}"]
        (place.cwd / name).write_text("good\n", encoding="utf-8")
    outside = place.home.parent / "outside.sh"
    outside.write_text("x", encoding="utf-8")
    (place.cwd / "server.js").unlink()
    (place.cwd / "server.js").symlink_to(outside)  # a link out of the project is not read
    assert place.load().relevant["files/server.js"] == "unreadable"
    assert store.status(place.cwd, place.load().relevant) == "changed"
