"""Two readers of a shell line, the syntax tree's and the lexer, must have seen the same in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coder.policy.decide import decide
from coder.policy.shell.judge import judge
from coder.policy.shell.lexer import Unsupported, marks_of

# The tree takes `$ $` for one variable, and what follows for text; bash runs it.
HIDDEN = [
    'echo "5 $ {}"',
    'x="$ {}"',
    'echo "a $" "b $ {}"',
    '[[ -n "$ {}" ]]',
    'cat <<< "$ {}"',
    "cat <<EOF\n$ {}\nEOF",
    "cat <<EOF\ntext\n$ {} more\nEOF\nls",
    "cat <<-EOF\n\t$ {}\n\tEOF",
    'for f in "$ {}"; do echo $f; done',
    'case "$ {}" in a) ls;; esac',
    'if [ "$ {}" = x ]; then ls; fi',
    'echo "${{x:-$ {}}}"',
    'ls | grep "$ {}"',
    'echo "$(echo "$ {}")"',
]


@pytest.mark.parametrize(
    "substitution", ["$(: >PWN; echo x)", "$(\n: >PWN\n)", "`: >PWN`", "${y:=$(: >PWN)}"]
)
@pytest.mark.parametrize("line", HIDDEN)
def test_what_the_tree_does_not_see_is_asked_about(line: str, substitution: str, tmp_path: Path) -> None:
    line = line.format(substitution)
    verdict = judge(line, tmp_path)
    assert not verdict.read_only
    assert verdict.risks
    everything = {segment.name for segment in verdict.segments} | {"echo", "cat", "touch"}
    assert decide("bash", "balanced", "default", shell=verdict, allowlist=everything).decision == "ask"
    assert decide("bash", "balanced", "plan", shell=verdict).decision == "deny"
    subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (tmp_path / "PWN").exists(), "no such thing to be seen: the line tests nothing"


def test_always_does_not_cover_what_the_tree_does_not_see(tmp_path: Path) -> None:
    verdict = judge('touch "5 $ $(rm a.txt)"', tmp_path)
    assert decide("bash", "balanced", "default", shell=verdict, allowlist=["touch"]).decision == "ask"


@pytest.mark.parametrize(
    "line",
    [
        'echo "cost: $5 and a $ sign, $"',
        'grep -n "foo$" README.md',
        'grep -E "^(a|b);$" README.md | wc -l',
        "[[ $x =~ ^[a-z]+(-[0-9]+)? || $y == *.js ]] && echo y",
        'case "$x" in (a|b) echo 1 ;; *) echo "2)" ;; esac',
        "awk 'BEGIN { for (i = 0; i < 3; i++) print i; }'",
        "cat <<'EOF' && ls\nsome 'text' \"here\" $(x) `y`\nEOF",
        'cat <<-EOF\n\tit\'s "quoted" $x ${y}\n\tEOF\nls',
        'echo a#b c # d "e',
        'echo ${x//a/b} "${x%.*}" "${x:-none}" ${#x} $# "$@"',
        "echo 'it'\"'\"'s' $'tab\\there' \\; \\(",
        "ls 2>/dev/null -la; ls >&2 | head &",
        "(cd src && ls) | wc -l; { ls; }; ! ls",
        "ls \\\n  -la",
        "echo $(( (1+2) * 3 ))",
        "for f in a b; do\n  echo $f # each\ndone",
    ],
)
def test_ordinary_lines_are_read_alike(line: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert judge(line, tmp_path).read_only


def _kinds(line: str) -> list[str]:
    return [kind for _, kind in sorted(marks_of(line.encode())) if kind not in " '\""]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("a '$(b)' \\$(c) # $(d)", ["(", ")", "#"]),  # an escaped dollar sign leaves a bare parenthesis
        ("a \"$(b '`c`')\"", ["$(", ")"]),
        ("a $$(b)", ["(", ")"]),
        ('a "$$(b)"', []),
        ("a ${b:-$(c)}", ["${", "$(", ")"]),
        ("a $((1 + $(b)))", ["$((", "$(", ")"]),
        ("a <(b) >(c)", ["<(", ")", ">(", ")"]),
        ("a <<E\n$(b) \\$(c) '`d`'\nE\ne", ["<", "<", "$(", "<<", ")", "`", "`", ">>"]),
        ("a <<'E'\n$(b)\nE\ne", ["<", "<", "<<", ">>"]),
        ("a <<<$(b)", ["<", "<", "<", "$(", ")"]),
        ("a &>b 2>&1 |& c;d&&e||f&", ["&", ">", ">", "&", "|", "&", ";", "&", "&", "|", "|", "&"]),
        ("x=$(case a in b) c;; esac)", ["$(", ")", ";", ";", ")"]),
        ("[[ a =~ (b|c) ]]", ["(", "|", ")"]),
        ("$'a\\'$(b)'", ["$'"]),
    ],
)
def test_the_lexer_follows_bashs_quoting(line: str, kinds: list[str]) -> None:
    assert _kinds(line) == kinds


@pytest.mark.parametrize(
    "line",
    [
        "a '", 'a "', "a `b", "a $(b", "a ${b", "a $((b)", "a )", "(a", "a <<E\nb", "a <<E", "a <<$(b)\n",
        "a `b \\` c`", "a \"`b \"c\"`\"", "a ${ b; }", "a \"${b:-'c'}\"", "a $((b) )", "r\\\nm x",
        '"$\\\n(b)"', "a \\", "a\rb", "a\0", "a $(case b in c)", "$(" * 200 + ")" * 200,
    ],
)  # fmt: skip
def test_what_is_odd_is_refused(line: str) -> None:
    with pytest.raises(Unsupported):
        marks_of(line.encode())


@pytest.mark.parametrize(
    ("variables", "read_only"),
    [
        ({"LC_ALL": "zh_CN.GBK"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "ja_JP.SJIS", "LANG": "C.UTF-8"}, False),
        ({"LANG": "zh_TW.Big5"}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LC_ALL": "C", "LANG": "zh_CN.GBK"}, True),
        ({"LANG": "de_DE.UTF8@euro"}, True),
        ({}, True),
    ],
)
def test_a_line_beyond_ascii_is_read_in_the_locale_of_the_shell(
    variables: dict[str, str], read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In GBK the bytes of `你\\` are two characters, and the quote behind them ends the text."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert judge('echo "你\\" ; touch x; echo " #"', tmp_path).read_only is read_only
    assert judge('echo "\\" ; ls; echo " #"', tmp_path).read_only
