"""`list`, `glob` and `grep`: what they find and hide, their bounds, and that both engines agree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World

from coder.base.process import programs
from coder.tools.glob import Glob
from coder.tools.grep import Grep
from coder.tools.list import List
from coder.tools.search import ripgrep
from coder.tools.search.globs import BadGlob, expand_braces, matcher
from coder.tools.tool import ToolResult

RECENT = "#!/bin/sh\n[ $1 = --version ] && echo ripgrep 14.1.0 && exit\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=["ripgrep", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(ripgrep, "find_ripgrep", lambda *_: None)
    elif ripgrep.find_ripgrep(os.environ["PATH"], "/nonexistent") is None:
        pytest.skip("no ripgrep here")
    return str(request.param)


def paths(result: ToolResult) -> list[str]:
    return [line for line in result.for_model.splitlines() if not line.startswith("[")]


def forest(world: World) -> None:
    """A tree with nested ignore files, hidden files, links, odd names and odd contents."""
    world.put(".gitignore", "*.log\nbuild/\n/only_top.txt\n!keep.log\n")
    world.put("a.py", "needle one\nnothing\nneedle two\n")
    world.put("keep.log", "needle kept\n")
    world.put("drop.log", "needle dropped\n")
    world.put("only_top.txt", "needle\n")
    world.put("sub/only_top.txt", "needle below\n")
    world.put("build/out.py", "needle built\n")
    world.put("sub/.gitignore", "secret.*\n!drop.log\n/deep/hidden/\n")
    world.put("sub/secret.py", "needle secret\n")
    world.put("sub/drop.log", "needle brought back\n")
    world.put("sub/deep/hidden/x.py", "needle\n")
    world.put("sub/deep/shown/x.py", "  a needle with\ttab\r\nsecond\r\n")
    world.put(".hidden/conf.py", "needle hidden\n")
    world.put(".git/config", "needle git\n")
    world.put("bin.dat", b"needle\0needle\n")
    world.put("latin.txt", "für needle\n".encode("latin-1"))
    world.put("wide.txt", "needle wide\n".encode("utf-16"))
    world.put(os.fsdecode(b"sub/caf\xe9.py"), "needle name\n")
    world.put("a-b.py", "needle\n")
    world.put("a/z.py", "needle\n")
    (world.root / "loop").symlink_to(world.root)
    (world.root / "linked.py").symlink_to(world.root / "a.py")


EXPECTED = [
    ".hidden/conf.py",
    "a-b.py",
    "a.py",
    "a/z.py",
    "keep.log",
    "latin.txt",
    "sub/caf\\xe9.py",
    "sub/deep/shown/x.py",
    "sub/drop.log",
    "sub/only_top.txt",
    "wide.txt",
]


def test_grep_finds_and_hides_the_same_with_both_engines(world: World, engine: str) -> None:
    forest(world)
    result = world.call(Grep(), pattern="needle")
    assert result.meta["engine"] == engine
    headings = [line for line in result.for_model.splitlines() if not re.match(r"\d+: ", line)]
    assert sorted(headings) == EXPECTED
    assert headings[1:4] == ["a/z.py", "a-b.py", "a.py"]
    assert "a.py\n1: needle one\n3: needle two" in result.for_model
    assert "sub/deep/shown/x.py\n1:   a needle with\ttab" in result.for_model
    assert "latin.txt\n1: f\\xfcr needle" in result.for_model
    assert result.meta["files"] == 11
    assert result.meta["matches"] == 12


def test_both_engines_answer_alike(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    if ripgrep.find_ripgrep(os.environ["PATH"], "/nonexistent") is None:
        pytest.skip("no ripgrep here")
    forest(world)
    calls: list[tuple[Grep | Glob, dict[str, object]]] = [
        (Grep(), {"pattern": "needle"}),
        (Grep(), {"pattern": "needle$"}),
        (Grep(), {"pattern": r"(?i)NEEDLE\b", "glob": "*.py"}),
        (Grep(), {"pattern": "needle", "glob": "sub/**/*.{py,log}"}),
        (Grep(), {"pattern": "needle", "path": "sub"}),
        (Grep(), {"pattern": "needle", "path": "build"}),
        (Grep(), {"pattern": "needle", "path": "drop.log"}),
        (Grep(), {"pattern": r"one\nnothing"}),
        (Grep(), {"pattern": "(?<!a )needle"}),
        (Grep(), {"pattern": "-x"}),
        (Glob(), {"pattern": "**/*"}),
        (Glob(), {"pattern": "**/*.py"}),
        (Glob(), {"pattern": "sub/**"}),
        (Glob(), {"pattern": "*.py"}),
        (Glob(), {"pattern": "**/*.{log,txt}", "path": "sub"}),
        (Glob(), {"pattern": "*", "path": "build"}),
        (Glob(), {"pattern": "[a-c]*"}),
    ]
    world.put("many.txt", "hit\n" * 2000)
    calls.append((Grep(), {"pattern": "hit", "max_matches": 3}))
    with_ripgrep = [world.call(tool, **args) for tool, args in calls]
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda *_: None)
    for (tool, args), theirs in zip(calls, with_ripgrep, strict=True):
        ours = world.call(tool, **args)
        assert (theirs.meta["engine"], ours.meta["engine"]) == ("ripgrep", "python")
        assert ours.for_model == theirs.for_model, args


def test_repository_rules_end_at_its_top(tmp_path: Path, engine: str) -> None:
    (tmp_path / ".gitignore").write_text("*.py\n", encoding="utf-8")
    for kind in ("plain", "repository"):
        world = World(tmp_path / kind)
        world.put("sub/a.py", "needle\n")
        world.put("sub/b.txt", "needle\n")
        world.put(".gitignore", "*.txt\n")
        if kind == "repository":
            world.put(".git/HEAD", "")
        for path in (".", "sub"):
            assert "sub/a.py" in world.call(Grep(), pattern="needle", path=path).for_model
            assert "b.txt" not in world.call(Grep(), pattern="needle", path=path).for_model


def test_rules_of_the_repository_above_the_workspace_hold(tmp_path: Path, engine: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    world = World(tmp_path / "package")
    world.put("a.log", "needle\n")
    world.put("b.py", "needle\n")
    assert paths(world.call(Glob(), pattern="**")) == ["b.py"]
    assert "b.py" in world.call(List()).for_model
    assert world.call(List()).for_model.endswith("\n(hidden by .gitignore: a.log)")


def test_grep_is_bounded_and_says_so(world: World, engine: str) -> None:
    world.put("a.txt", "hit\n" * 5000)
    result = world.call(Grep(), pattern="hit")
    assert result.meta["matches"] == 100
    assert result.meta["truncated"] is True
    assert "[100 of more than 100 matches shown" in result.for_model
    few = world.call(Grep(), pattern="hit", max_matches=5)
    assert few.for_model.count(": hit") == 5


def test_grep_searches_several_paths_that_are_there(world: World) -> None:
    for path in ("one/a.py", "two/b.py", "three/c.py"):
        world.put(path, "x\nx\n")
    both = world.call(Grep(), pattern="x", path="one two")
    assert both.for_model == "one/a.py\n1: x\n2: x\ntwo/b.py\n1: x\n2: x"
    assert (both.meta["matches"], both.meta["files"], both.meta["path"]) == (4, 2, "one two")
    assert "one four does not exist" in world.call(Grep(), pattern="x", path="one four").for_model
    world.put("one two/d.py", "x\n")
    assert world.call(Grep(), pattern="x", path="one two").for_model == "one two/d.py\n1: x"


def test_grep_counts_all_where_they_are_few(world: World) -> None:
    world.put("a.txt", "hit\n" * 150)
    assert "[100 of 150 matches shown" in world.call(Grep(), pattern="hit").for_model


def test_grep_cuts_long_lines_around_the_match(world: World, engine: str) -> None:
    world.put("a.js", "x" * 2000 + "needle" + "y" * 2000 + "\n")
    world.put("b.js", "z" * 10_000_000 + "needle\n")
    result = world.call(Grep(), pattern="needle")
    assert "xneedley" in result.for_model
    assert "match at column 2001" in result.for_model
    assert "match at column 10000001" in result.for_model
    assert len(result.for_model) < 1500


def test_grep_without_matches(world: World, engine: str) -> None:
    world.put("a.txt", "x\n")
    result = world.call(Grep(), pattern="absent")
    assert result.ok
    assert result.for_model == "no matches for absent in ."
    assert result.meta["matches"] == 0


@pytest.mark.parametrize("pattern", ["foo(", "[a", "*x", "(?<!a)foo("])
def test_what_is_no_expression_is_searched_as_text(world: World, engine: str, pattern: str) -> None:
    world.put("a.txt", f"other\nsome {pattern} here\n")
    result = world.call(Grep(), pattern=pattern)
    note, *found = result.for_model.splitlines()
    assert found == ["a.txt", f"2: some {pattern} here"]
    assert note.startswith("[searched as plain text, being no regular expression: ")
    assert "look-around" not in note
    assert result.meta["literal"] is True
    assert f"no matches for {pattern}zz in ." in world.call(Grep(), pattern=f"{pattern}zz").for_model


def test_context_lines(world: World, engine: str) -> None:
    world.put("a.txt", "".join(f"line {n}\n" for n in range(1, 21)))
    world.put("b.txt", "line 3 at the very end")
    result = world.call(Grep(), pattern=r"line (3|5|15)\b", context=1)
    assert result.for_model.splitlines() == [
        *("a.txt", "2- line 2", "3: line 3", "4- line 4", "5: line 5", "6- line 6", "--"),
        *("14- line 14", "15: line 15", "16- line 16", "b.txt", "1: line 3 at the very end"),
    ]
    assert result.meta["matches"] == 4


def test_names_and_counts_alone(world: World, engine: str) -> None:
    world.put("a.txt", "hit\nhit\n")
    world.put("b.txt", "hit\n")
    assert world.call(Grep(), pattern="hit", output_mode="files_with_matches").for_model == "a.txt\nb.txt"
    assert world.call(Grep(), pattern="hit", output_mode="count").for_model == "a.txt: 2\nb.txt: 1"


@pytest.mark.parametrize("pattern", ["-e", "--files", "-- x"])
def test_patterns_that_look_like_options(world: World, engine: str, pattern: str) -> None:
    world.put("a.txt", f"{pattern}\n")
    world.put("--files", "other\n")
    result = world.call(Grep(), pattern=pattern)
    assert result.for_model == f"a.txt\n1: {pattern}"
    assert "--files\n1: other" in world.call(Grep(), pattern="other", path="--files").for_model


def test_user_configuration_of_ripgrep_has_no_say(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = tmp_path_factory.mktemp("home") / "rc"
    settings.write_text("--ignore-case\n--max-count=1\n", encoding="utf-8")
    world = World(world.root, {**os.environ, "RIPGREP_CONFIG_PATH": str(settings)})
    world.put("a.txt", "hit\nHIT\nhit\n")
    assert world.call(Grep(), pattern="hit").for_model == "a.txt\n1: hit\n3: hit"


def test_a_ripgrep_that_cannot_be_used_is_done_without(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("bin")
    program = directory / "rg"
    program.write_text(f"{RECENT}echo 'error: unexpected argument' >&2\nexit 2\n", encoding="utf-8")
    program.chmod(0o755)
    world = World(world.root, {"PATH": f"{directory}:/bin:/usr/bin"})
    world.put("a.txt", "hit\n")
    assert world.call(Grep(), pattern="hit").meta["engine"] == "python"
    assert world.call(Glob(), pattern="*").meta["engine"] == "python"
    when = program.stat().st_mtime_ns
    program.write_text("not a program", encoding="utf-8")
    os.utime(program, ns=(when, when))  # its version was asked for before
    assert world.call(Grep(), pattern="hit").meta["engine"] == "python"


def test_ripgrep_is_found_beside_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rg").write_text("", encoding="utf-8")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert ripgrep.find_ripgrep("", "/nonexistent") == str(tmp_path / "rg")


@pytest.mark.parametrize(
    ("version", "own"),
    [("ripgrep 13.0.0", True), ("ripgrep 150.1 (rev 1)", True), ("ripgrep 12.1.1", False), ("rg?", False)],
)
def test_a_recent_ripgrep_of_the_machine_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, own: bool
) -> None:
    for name in ("bundled", "machine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rg").write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
        (tmp_path / name / "rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bundled" / "python"))
    bundled, machine = str(tmp_path / "bundled"), str(tmp_path / "machine")
    for path in (f"{bundled}:{machine}", f"{machine}:{bundled}", machine):
        assert ripgrep.find_ripgrep(path, "/nonexistent") == f"{machine if own else bundled}/rg"
    (tmp_path / "bundled" / "rg").unlink()
    programs._search.cache_clear()
    assert ripgrep.find_ripgrep(machine, "/nonexistent") == f"{machine}/rg", "an old one is better than none"


def _sleeper(directory: Path, mark: Path) -> dict[str, str]:
    program = directory / "rg"
    program.write_text(f"{RECENT}echo $$ > {mark}\nsleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": f"{directory}:/bin:/usr/bin"}


def _wait_for(mark: Path) -> None:
    while not (mark.exists() and mark.read_text(encoding="utf-8").strip()):
        time.sleep(0.005)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cancelled_search_leaves_no_process(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("bin")
    mark = directory / "pid"
    world = World(world.root, _sleeper(directory, mark))

    async def scenario() -> None:
        call = asyncio.create_task(Grep().run({"pattern": "x"}, world.context, lambda text: None))
        await asyncio.to_thread(_wait_for, mark)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scenario())
    assert not _alive(int(mark.read_text(encoding="utf-8")))


def test_a_search_that_takes_too_long_ends_with_what_it_has(
    world: World, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path_factory.mktemp("bin")
    world = World(world.root, _sleeper(directory, directory / "pid"))
    monkeypatch.setattr(ripgrep, "SECONDS", 0.05)
    assert "took too long" in world.call(Grep(), pattern="x").for_model
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda *_: None)
    monkeypatch.setattr(ripgrep, "SECONDS", -1.0)
    world.put("a.txt", "x\n")
    result = world.call(Grep(), pattern="x")
    assert result.meta["timed_out"] is True
    assert "took too long" in result.for_model


def test_glob_newest_first(world: World) -> None:
    for age, name in enumerate(["new.py", "middle.py", "old.py"]):
        os.utime(world.put(name, ""), ns=(10**18 - age, 10**18 - age))
    assert paths(world.call(Glob(), pattern="*.py")) == ["new.py", "middle.py", "old.py"]


def test_glob_is_bounded_and_counts(world: World, engine: str) -> None:
    for number in range(230):
        world.put(f"f{number}.py", "")
    result = world.call(Glob(), pattern="*.py")
    assert len(paths(result)) == 200
    assert "230 files match" in result.for_model
    assert result.meta["matches"] == 230


def test_glob_without_slash_looks_deeper_only_where_nothing_is_near(world: World, engine: str) -> None:
    world.put("top.py", "")
    world.put("src/low.py", "")
    world.put("src/low.rs", "")
    assert paths(world.call(Glob(), pattern="*.py")) == ["top.py"]
    deeper = world.call(Glob(), pattern="*.rs")
    assert paths(deeper) == ["src/low.rs"]
    assert "deeper" in deeper.for_model


def test_glob_takes_whole_paths_and_refuses_to_go_up(world: World) -> None:
    world.put("src/a.py", "")
    assert paths(world.call(Glob(), pattern=f"{world.root}/src/*.py")) == ["src/a.py"]
    assert not world.call(Glob(), pattern="../*").ok
    assert not world.call(Glob(), pattern="/etc/*").ok
    assert not world.call(Glob(), pattern="").ok
    assert world.call(Glob(), pattern="*", path="..").denied
    assert world.call(Glob(), pattern="*.absent").for_model == "no files match **/*.absent in ."


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a/b.txt"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
        ("**/test/**/x", ["test/x", "a/test/b/x"], ["testx/x"]),
        ("{a,b{c,d}}.py", ["a.py", "bc.py", "bd.py"], ["b.py"]),
        ("{src,lib}/*.{c,h}", ["src/a.c", "lib/b.h"], ["src/a.o"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("{a}", ["{a}"], ["a"]),
        ("a{b", ["a{b"], []),
        (r"\*", ["*"], ["a"]),
        ("a+b(c)", ["a+b(c)"], ["aab(c)"]),
        ("[", ["["], []),
    ],
)
def test_glob_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    match = matcher(pattern)
    assert [path for path in yes if not match(path)] == []
    assert [path for path in no if match(path)] == []


@given(st.text("a*?[]{},!^-/\\", max_size=20))
def test_any_glob_is_a_matcher_or_refused(pattern: str) -> None:
    with contextlib.suppress(BadGlob):
        matcher(pattern, any_depth=True)("a/b")


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(BadGlob):
        expand_braces("{a,b}" * 12)


def test_list_one_level(world: World) -> None:
    forest(world)
    result = world.call(List())
    lines = result.for_model.splitlines()
    assert lines[:3] == [".hidden/", "a/", "sub/"]
    assert "a.py (30 B)" in lines
    assert "linked.py -> " in result.for_model
    assert not any(line.startswith((".git/", "build", "drop.log")) for line in lines)
    assert lines[-1].startswith("(hidden by .gitignore: build/, drop.log")
    assert "caf\\xe9.py" in world.call(List(), path="sub").for_model
    assert "out.py" in world.call(List(), path="build").for_model


def test_list_is_bounded(world: World) -> None:
    for number in range(510):
        world.put(f"f{number}", "")
    result = world.call(List())
    assert "[10 more entries not shown" in result.for_model
    assert result.meta["entries"] == 510


def test_list_of_other_things(world: World) -> None:
    world.put("a.txt", "")
    (world.root / "empty").mkdir()
    assert "use read" in world.call(List(), path="a.txt").for_model
    assert world.call(List(), path="empty").for_model == "(empty folder)"
    assert "does not exist" in world.call(List(), path="emty").for_model
    assert world.call(List(), path="/").denied


def test_links_out_of_the_workspace_are_not_followed(
    world: World, tmp_path_factory: pytest.TempPathFactory, engine: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.py").write_text("needle\n", encoding="utf-8")
    (world.root / "way").symlink_to(outside)
    (world.root / "file.py").symlink_to(outside / "secret.py")
    assert world.call(Grep(), pattern="needle").meta["matches"] == 0
    assert paths(world.call(Glob(), pattern="**/*.py")) == ["no files match **/*.py in ."]
    assert world.call(Grep(), pattern="needle", path="way").denied


def test_a_virtual_environment_is_searched_only_where_that_is_asked_for(world: World, engine: str) -> None:
    world.put(".venv/pyvenv.cfg", "home = /usr/bin\n")
    world.put(".venv/lib/package.py", "needle\n")
    world.put("venv/own.py", "needle\n")  # of the project: a directory with that name
    world.put("a.py", "needle\n")
    assert sorted(paths(world.call(Glob(), pattern="**/*.py"))) == ["a.py", "venv/own.py"]
    found = world.call(Grep(), pattern="needle").for_model
    assert "a.py" in found
    assert ".venv" not in found
    assert paths(world.call(Glob(), pattern="**/*.py", path=".venv")) == [".venv/lib/package.py"]
    assert ".venv/lib/package.py" in world.call(Grep(), pattern="needle", path=".venv/lib").for_model
