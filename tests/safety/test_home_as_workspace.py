"""The workspace is the home directory, or contains it: what is closed to commands is closed to file tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coder.context.attachments import expand
from coder.policy.workspace import DirectoryWorkspace
from coder.tools.tool import ClosedPlace
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Event, Project, drive

SECRET = "correct horse battery staple"
PLACES = (
    ".ssh/id_rsa",
    ".netrc",
    ".config/gh/hosts.yml",
    ".config/Bitwarden CLI/data.json",
    ".coder/config.json",
)


@pytest.fixture(params=["home", "above"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    place = Project(tmp_path)
    place.cwd = place.home if request.param == "home" else tmp_path
    for name in PLACES[:-1]:
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n", encoding="utf-8")
    (place.home / "notes.txt").write_text(f"not the {SECRET[:13]}\n", encoding="utf-8")
    (place.home / ".config" / "other.ini").write_text("plain\n", encoding="utf-8")
    (place.home / "by-another-name").symlink_to(".ssh")
    place.configure(approval={"auto_approve_ask": True})
    return place


def results(project: Project, *calls: tuple[str, dict[str, str]]) -> list[Event]:
    script = [{"calls": [call(tool, **args) for tool, args in calls]}, {"text": "done"}]
    with ScriptedServer(script) as server:
        drive(project, server.url, ["go"], mode="yolo")
        assert SECRET not in json.dumps(server.chats)
    return project.of_type("observation")


def test_no_file_tool_opens_what_is_closed(project: Project) -> None:
    home = f"{project.home.relative_to(project.cwd)}/"
    names = [home + name for name in (*PLACES, "by-another-name/id_rsa", "notes.txt/../.netrc", ".ssh/new")]
    changes = [
        ("list", {"path": f"{home}.ssh"}),
        ("grep", {"pattern": "horse", "path": f"{home}.netrc"}),
        ("glob", {"pattern": "*", "path": f"{home}.config/gh"}),
        ("write", {"path": f"{home}.ssh/authorized_keys", "content": "x"}),
        ("write", {"path": f"{home}.bash_history", "content": "x"}),
        ("edit", {"path": f"{home}.netrc", "old_string": "correct", "new_string": "x"}),
    ]
    reads = [("read", {"path": name}) for name in names]
    *refused, allowed = results(project, *reads, *changes, ("read", {"path": f"{home}notes.txt"}))
    assert len(refused) == 14
    for event in refused:
        assert event["content"].startswith("denied: ")
        assert "secrets are kept" in event["content"]
    assert "not the correct horse" in allowed["content"]
    assert not (project.home / ".ssh" / "authorized_keys").exists()
    assert not (project.home / ".bash_history").exists()


@pytest.mark.parametrize("ripgrep", [True, False])
def test_walks_leave_it_out_and_say_so(
    project: Project, ripgrep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ripgrep:
        monkeypatch.setattr("coder.tools.search.ripgrep.find_ripgrep", lambda path, workspace: None)
    home = str(project.home.relative_to(project.cwd))
    lines, files, listed, below = results(
        project,
        ("grep", {"pattern": "horse"}),
        ("glob", {"pattern": "**/*"}),
        ("list", {"path": home}),
        ("list", {"path": f"{home}/.config"}),
    )
    prefix = "" if home == "." else f"{home}/"
    for found in (lines, files):
        told = found["content"].split("\n")
        assert f"{prefix}notes.txt" in told
        (note,) = [line for line in told if line.startswith("[not searched")]
        for name in (".ssh", ".netrc", ".config/gh", ".config/Bitwarden CLI", ".coder"):
            assert f"{prefix}{name}" in note
            assert not any(line.startswith(f"{prefix}{name}") for line in told)
    assert f"{prefix}.config/other.ini" in files["content"].split("\n")
    assert lines["meta"]["engine"] == ("ripgrep" if ripgrep else "python")
    assert listed["content"].endswith("(closed to you: .coder/, .netrc, .ssh/)")
    assert "(closed to you: Bitwarden CLI/, gh/)" in below["content"]
    assert "other.ini" in below["content"]


def test_attachments_leave_it_out_and_say_so(project: Project) -> None:
    home = str(project.home.relative_to(project.cwd))
    workspace = DirectoryWorkspace(project.cwd, person=str(project.home), own=str(project.home / ".coder"))
    for text in (f"see @{home}/.ssh/id_rsa", f"see @{home}/.netrc", f"see @{home}/by-another-name/id_rsa"):
        message, notes, _ = expand(text, workspace)
        assert message == text
        assert [note.key for note in notes] == ["attach.closed"]
    for text in (f"all of @{home}", "all of @**/*"):
        message, notes, _ = expand(text, workspace)
        assert SECRET not in message
        assert "not the correct horse" in message
        assert {note.key for note in notes} == {"attach.closed"}
        assert len(notes) == 5


def test_a_project_in_the_home_directory_keeps_its_own_files(tmp_path: Path) -> None:
    """`.npmrc` of a project is no secret of the home directory; what the home's links lead to is."""
    work = tmp_path / "work"
    (work / "ssh").mkdir(parents=True)
    (tmp_path / ".ssh").symlink_to("work/ssh")
    workspace = DirectoryWorkspace(work, person=str(tmp_path), own=str(tmp_path / ".coder"))
    assert list(workspace.closed)[:-2] == [str(work / "ssh")]
    assert workspace.resolve(".npmrc") == work / ".npmrc"
    with pytest.raises(ClosedPlace):
        workspace.resolve("ssh/id_rsa")
