"""The person's own settings, changed in one place: everything else of the file stays as it was."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.config import ConfigError
from coder.config.jsonc import decode_jsonc, without_member
from coder.config.save import set_in_user_file, unset_in_user_file

HERE = ("mcp", "servers", "docs")
ENTRY = {"command": "npx", "args": ["-y", "x"]}


def test_a_file_is_made_for_the_first_setting(tmp_path: Path) -> None:
    file = set_in_user_file(tmp_path / "home", HERE, ENTRY)
    assert json.loads(file.read_bytes()) == {"mcp": {"servers": {"docs": ENTRY}}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_comments_and_order_stay(tmp_path: Path) -> None:
    before = '{\n  // mine\n  "ui": {"vim": true}, /* that */\n  "provider": {"model": "m"}\n}\n'
    (tmp_path / "config.json").write_text(before, encoding="utf-8")
    set_in_user_file(tmp_path, HERE, ENTRY)
    after = (tmp_path / "config.json").read_text(encoding="utf-8")
    assert "// mine" in after
    assert "/* that */" in after
    assert decode_jsonc(after.encode(), "f") == {
        "ui": {"vim": True},
        "provider": {"model": "m"},
        "mcp": {"servers": {"docs": ENTRY}},
    }
    assert unset_in_user_file(tmp_path, HERE)
    gone = decode_jsonc((tmp_path / "config.json").read_bytes(), "f")
    assert gone == {"ui": {"vim": True}, "provider": {"model": "m"}, "mcp": {"servers": {}}}


def test_a_name_with_dots_is_one_name(tmp_path: Path) -> None:
    set_in_user_file(tmp_path, ("mcp", "servers", "a.b"), ENTRY)
    assert json.loads((tmp_path / "config.json").read_bytes())["mcp"]["servers"] == {"a.b": ENTRY}


def test_another_value_replaces_and_is_not_merged(tmp_path: Path) -> None:
    set_in_user_file(tmp_path, HERE, ENTRY)
    set_in_user_file(tmp_path, HERE, {"url": "http://x"})
    assert json.loads((tmp_path / "config.json").read_bytes())["mcp"]["servers"]["docs"] == {
        "url": "http://x"
    }


def test_what_is_not_there_is_not_taken_out(tmp_path: Path) -> None:
    assert not unset_in_user_file(tmp_path, HERE)
    (tmp_path / "config.json").write_text('{"mcp": {"servers": {}}}', encoding="utf-8")
    assert not unset_in_user_file(tmp_path, HERE)


def test_a_file_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mcp": 3}', encoding="utf-8")
    with pytest.raises(ConfigError, match="by hand"):
        set_in_user_file(tmp_path, HERE, ENTRY)
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == '{"mcp": 3}'


KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 9) | st.text('x,}{"/*', max_size=4),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@given(
    st.dictionaries(KEYS, VALUES, min_size=1),
    st.sampled_from([None, 2]),
    st.sampled_from(["", "// note\n", "/* , } */"]),
    st.data(),
)
def test_taking_out_takes_out_that_alone(
    settings: dict[str, Any], indent: int | None, comment: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(settings)))
    text = json.dumps(settings, indent=indent).replace("{", "{" + comment, 1)
    after = without_member(text.encode(), (name,))
    assert after is not None
    assert decode_jsonc(after, "f") == {key: value for key, value in settings.items() if key != name}
