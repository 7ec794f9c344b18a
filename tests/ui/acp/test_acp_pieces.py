"""The pure parts: diffs to blocks, prompts to messages, what is shown of calls."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.diff import unified
from coder.ui.acp.acp_tools import (
    diff_content,
    editor_hunks,
    fenced,
    image_block,
    locations,
    printed,
    tool_title,
    truncate_value,
)
from coder.ui.acp.params import (
    Block,
    LinkBlock,
    ResourceBlock,
    ResourceContents,
    TextBlock,
    mcp_servers,
    message_of,
)
from kit.images import png

ROOT = Path("/home/ann/space")
# Up to four lines: a change anywhere in them shows them all.
_TEXTS = st.tuples(st.lists(st.text("ab -+@\\", max_size=5), max_size=4), st.booleans()).map(
    lambda made: "\n".join(made[0]) + ("\n" if made[1] and made[0] else "")
)


@given(_TEXTS, _TEXTS)
def test_blocks_hold_what_the_diff_was_made_of(old: str, new: str) -> None:
    found = editor_hunks(unified(old, new, "a/x.py", "b/x.py").text(10_000))
    if old == new:
        assert found == []
    else:
        (one,) = found
        assert (one.path, one.old, one.new) == ("x.py", old, new)


def test_every_hunk_is_a_block_with_its_first_changed_line() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 41))
    new = old.replace("line 5\n", "line five\n").replace("line 30\n", "")
    first, second = editor_hunks(unified(old, new, "a/x", "b/x").text(1000))
    assert (first.line, second.line) == (5, 30)
    assert "line five\n" in first.new
    assert "line 30\n" in (second.old or "")
    assert "line 30\n" not in second.new


@pytest.mark.parametrize(
    "diff",
    [
        "Binary files a/x and b/x differ",
        "rename from a\nrename to b",
        "--- a/x\n+++ b/x\n(empty file)",
        "nonsense",
    ],
)
def test_what_has_no_lines_is_shown_as_it_is(diff: str) -> None:
    (block,) = diff_content(diff, ROOT)
    assert block["content"]["text"] == f"```diff\n{diff}\n```"


def test_a_diff_that_was_cut_is_whole_as_far_as_it_goes() -> None:
    new = "".join(f"line {n}\n" for n in range(100))
    (one,) = editor_hunks(unified("", new, "/dev/null", "b/x").text(10))
    assert one.old is None
    assert one.new == "".join(f"line {n}\n" for n in range(7))


def test_a_long_diff_is_bounded_but_for_a_person_who_decides() -> None:
    diff = unified("", "x" * 90 + "\n" * 40_000, "/dev/null", "b/x").text(100_000)
    assert len(str(diff_content(diff, ROOT))) < 40_000
    (block,) = diff_content(diff, ROOT, limit=None)
    assert block["newText"].count("\n") == 40_000


def said(*blocks: Block) -> tuple[str, str]:
    found = message_of(blocks, ROOT)
    return found.text, found.attached


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file:///home/ann/space/a.py", "@a.py"),
        ("file:///home/ann/space/my%20file.py", "@my\\ file.py"),
        ("file:///home/ann/space/a.py#L10-20", "@a.py (lines 10-20)"),
        ("file:///home/ann/space/a.py#L10", "@a.py (line 10)"),
        ("/home/ann/space/a.py", "@a.py"),
        ("file:///etc/passwd", "/etc/passwd"),
        ("file:///home/ann/space/../secret", "/home/ann/space/../secret"),
        ("file://host/home/ann/space/a.py", "it (file://host/home/ann/space/a.py)"),
        ("zed:///agent/thread/1", "it (zed:///agent/thread/1)"),
        ("http://[bad", "it (http://[bad)"),
    ],
)
def test_links(uri: str, shown: str) -> None:
    assert said(TextBlock("see"), LinkBlock(uri, "it"), TextBlock(", please")) == (f"see {shown}, please", "")


@pytest.mark.parametrize("uri", ["//[x", "file://[x", "http://[::1"])
def test_an_address_that_is_none_is_a_name(uri: str) -> None:
    found = message_of([ResourceBlock(ResourceContents(uri=uri, text="t"))], ROOT)
    assert found.attached == f'<resource name="{uri}">\nt\n</resource>'


def test_an_embedded_resource_is_attached_and_named() -> None:
    resource = ResourceBlock(ResourceContents(uri="file:///home/ann/space/a.py", text="x = 1\n"))
    assert said(TextBlock("fix "), resource) == ("fix a.py", '<resource name="a.py">\nx = 1\n</resource>')
    assert said(resource) == ("", '<resource name="a.py">\nx = 1\n</resource>')
    binary = message_of(
        [TextBlock("see"), ResourceBlock(ResourceContents(uri="file:///x.png", blob="AAAA"))], ROOT
    )
    assert (binary.binary, binary.attached) == (["/x.png"], "")


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([TextBlock("!ls")], "!ls"),
        ([TextBlock("!ls\n")], "!ls\n"),
        ([TextBlock("![logo](x.png)\n\nWhat is this?")], ""),
        ([TextBlock("!ls"), LinkBlock("file:///home/ann/space/a.py", "a.py")], ""),
        ([TextBlock("/review"), ResourceBlock(ResourceContents(uri="x:y", text="z"))], "/review x:y"),
    ],
)
def test_only_a_line_that_is_nothing_else_is_the_persons_shell(blocks: list[Block], text: str) -> None:
    found = message_of(blocks, ROOT)
    assert found.text == text
    assert text or "!" in found.attached


@pytest.mark.parametrize(
    "link",
    [
        LinkBlock("!touch x"),
        LinkBlock("x:y", "!touch x"),
        LinkBlock("file:///undo"),
        LinkBlock("https://x.y", "/undo"),
    ],
)
def test_a_link_is_no_command(link: LinkBlock) -> None:
    """Its name was chosen from a list, and may be anybody's."""
    assert message_of([link], ROOT).text.startswith("<")
    assert message_of([TextBlock(" "), link, TextBlock("what is it?")], ROOT).text.startswith(" <")


def test_a_place_has_a_line_that_is_a_number() -> None:
    assert locations("read", {"path": "a", "offset": True}, ROOT) == [{"path": str(ROOT / "a")}]
    assert locations("read", {"path": "a", "offset": 3}, ROOT) == [{"path": str(ROOT / "a"), "line": 3}]


def test_the_places_of_a_patch_are_the_files_it_names() -> None:
    patch = "*** Begin Patch\n*** Delete File: b\n*** Add File: c\n+x\n*** End Patch"
    assert locations("general › patch", {"patch": patch}, ROOT) == [
        {"path": str(ROOT / "b")},
        {"path": str(ROOT / "c")},
    ]


def test_titles_and_outputs_are_fit_for_markdown() -> None:
    assert tool_title("bash", "echo `date`") == "`` echo `date` ``"
    assert tool_title("read", "a.py") == "read a.py"
    assert tool_title("explore › grep", "x") == "explore › grep x"
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````"
    assert printed("\x1b[1mbold\x1b[0m \x1b]0;title\x07x\r\n10%\r50%\r100%\n") == "bold x\n100%\n"


def test_only_images_are_shown_as_such() -> None:
    """A record may have come with the project."""
    data = b64encode(png()).decode("ascii")
    assert image_block(data) == {"type": "image", "mimeType": "image/png", "data": data}
    page = b64encode(b"<script>alert(1)</script>").decode("ascii")
    assert [image_block(odd) for odd in (page, "", "no Base64!", data + '"><b>', "é" * 40)] == [None] * 5


def test_a_title_controls_no_terminal() -> None:
    assert "\x1b" not in tool_title("\x1b]0;x\x07read", "a\x1b[31m")


def test_raw_values_are_bounded() -> None:
    value = truncate_value(
        {"content": "x" * 10_000, "many": list(range(1000)), "deep": {"a": {"b": {"c": {"d": 1}}}}}
    )
    assert len(str(value)) < 4_000
    assert value["content"].startswith("x" * 2000)


def test_mcp_servers_by_kind() -> None:
    found, wrong = mcp_servers(
        [
            {"name": "files", "command": "/bin/files", "args": ["-v"], "env": [{"name": "A", "value": "1"}]},
            {"name": "web", "type": "http", "url": "https://x/", "headers": [{"name": "K", "value": "v"}]},
            {"name": "odd", "type": "acp", "serverId": "1"},
            "nonsense",
        ]
    )
    assert wrong == ["odd", "mcpServers[3]"]
    files, web = found["files"], found["web"]
    assert (files.command, files.args, files.env) == ("/bin/files", ["-v"], {"A": "1"})
    assert (web.type, web.url, web.headers) == ("http", "https://x/", {"K": "v"})
