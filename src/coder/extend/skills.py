"""Skills: directories with a `SKILL.md` (the Agent Skills convention).

Precedence: the workspace and its ancestors up to the repository's root, the person's home, `skills.paths`,
those shipped with coder. Only frontmatter is read until a skill is loaded. A broken skill is reported and
skipped. `allowed-tools` is ignored: a skill grants no permissions.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from coder.base.frontmatter import MAX_HEADER, FrontmatterError, Node, read_header, split
from coder.base.safe_open import open_beneath, read_open, real_path, repository_chain
from coder.texts import Text
from coder.tools.skill import LoadedSkill, NoSkill

PROJECT_DIRECTORIES = (".coder/skills", ".agents/skills", ".claude/skills")
HOME_DIRECTORIES = (".agents/skills", ".claude/skills")
BUILT_IN = Path(__file__).parent / "builtin_skills"

MAX_FILE = 1 << 20  # bytes
_HEAD_BYTES = MAX_HEADER + 4_096  # enough to detect a header that is too long
MAX_BODY = 48_000  # characters, about 12,000 tokens: more than twice what the convention recommends
MAX_INDEX = 8_000  # characters, about 2,000 tokens: part of every request
MAX_LISTING = 40_000  # characters; sent only on request
MAX_DIRECTORIES = 500  # scanned below one root
MAX_FILES = 100  # of one skill, listed to the model
MAX_NAME = 64
# Descriptions are shortened in steps until the index fits; the convention allows 1024 characters.
_WIDTHS = (1024, 300, 120, 60, 0)
_SKIPPED = frozenset({"__pycache__", "node_modules"})


class SkillInfo(msgspec.Struct, frozen=True):
    """A skill's metadata. `directory` is its real path."""

    name: str
    description: str
    directory: Path
    origin: str  # project, home, paths or built-in
    inside: Path | None = None  # symlinks of its files may not leave this directory

    @property
    def file(self) -> Path:
        return self.directory / "SKILL.md"


class BrokenSkill(msgspec.Struct, frozen=True):
    """A skill that cannot be used, and why."""

    name: str
    file: Path
    reason: Text


class Root(msgspec.Struct, frozen=True):
    """A directory of skills. `inside`: symlinks may not leave this directory."""

    directory: Path
    origin: str
    inside: Path | None = None


class Skills:
    """The skills of one workspace. Scanned lazily, and again at `list` and `load`."""

    def __init__(
        self, workspace: Path, coder_home: Path, person_home: Path | None, paths: Sequence[str] = ()
    ) -> None:
        self._workspace = workspace
        self._roots = [
            *_project_roots(workspace),
            Root(coder_home / "skills", "home"),
            *(Root(person_home / name, "home") for name in HOME_DIRECTORIES if person_home),
            *(Root(_named(text, workspace, person_home), "paths") for text in paths),
            Root(BUILT_IN, "built-in"),
        ]
        self._found: dict[str, SkillInfo] | None = None
        self._broken: list[BrokenSkill] = []

    def scan(self) -> None:
        """Rescan; a skill may have been written in this session."""
        found: dict[str, SkillInfo] = {}
        broken: dict[tuple[str, str], BrokenSkill] = {}  # deduplicated
        for root in self._roots:
            for one in _skills_below(root):
                if isinstance(one, BrokenSkill):
                    broken.setdefault((real_path(one.file), one.reason.key), one)
                else:
                    found.setdefault(one.name, one)
        self._found, self._broken = found, list(broken.values())

    def all(self) -> list[SkillInfo]:
        """Nearest first, one of each name."""
        if self._found is None:
            self.scan()
        return list((self._found or {}).values())

    def broken(self) -> list[BrokenSkill]:
        self.all()
        return list(self._broken)

    def index(self, limit: int = MAX_INDEX) -> str:
        """One line per skill for the system prompt, at most `limit` characters."""
        return _index(self.all(), limit)

    def readable_directories(self) -> list[Path]:
        """Directories of skills outside the workspace, for `read`."""
        real = Path(os.path.realpath(self._workspace))
        directories = [
            Path(os.path.realpath(root.directory))
            for root in self._roots
            if root.inside is None and root.origin != "paths" and root.directory.is_dir()
        ]
        for skill in self.all():
            if not any(skill.directory.is_relative_to(directory) for directory in (real, *directories)):
                directories.append(skill.directory)
        return directories

    # for the tool

    def listing(self) -> tuple[str, int]:
        self.scan()
        skills = self.all()
        lines = [_index(skills, MAX_LISTING) or "There are no skills here."]
        if self._broken:
            lines += ["", "Broken, not usable:", *(f"- {b.file}: {b.reason}" for b in self._broken[:20])]
        return "\n".join(lines), len(skills)

    def load(self, name: str) -> LoadedSkill:
        self.scan()
        skill = (self._found or {}).get(name)
        if skill is None:
            raise NoSkill(self._why_not(name))
        try:
            _, body, _ = split(_read(skill.file, skill.inside, MAX_FILE))
        except (OSError, FrontmatterError, ValueError) as error:
            raise NoSkill(f"the skill {name} cannot be used: {_reason(error)} Go on without it.") from error
        files, more = _files(skill)
        return LoadedSkill(name, skill.file, body[:MAX_BODY], files, more, cut=len(body) > MAX_BODY)

    def _why_not(self, name: str) -> str:
        for broken in self._broken:
            if broken.name == name:
                return f"the skill {name} is broken: {broken.file}: {broken.reason} Go on without it."
        from difflib import get_close_matches

        names = [skill.name for skill in self.all()]
        near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        near += [other for other in names if name and name.lower() in other and other not in near][:3]
        hint = (
            f"the nearest are {', '.join(near)}" if near else f"there are {', '.join(names[:20]) or 'none'}"
        )
        return f"there is no skill {name!r}; {hint}. Go on without it if none fits."


def _project_roots(workspace: Path) -> list[Root]:
    chain = repository_chain(workspace)
    inside = Path(os.path.realpath(chain[-1]))
    return [Root(directory / name, "project", inside) for directory in chain for name in PROJECT_DIRECTORIES]


def _named(text: str, workspace: Path, person_home: Path | None) -> Path:
    if person_home and (text == "~" or text.startswith("~/")):
        return person_home / text[2:]
    return workspace / text


def _skills_below(root: Root) -> Iterator[SkillInfo | BrokenSkill]:
    """The root's skills by name; the root itself where it is one."""
    try:
        with os.scandir(root.directory) as entries:
            names = sorted((e.name, e.is_symlink()) for e in entries if not e.name.startswith("."))
    except (OSError, ValueError):
        return
    real_root = real_path(root.directory)
    if root.origin == "paths" and any(name == "SKILL.md" for name, _ in names):
        names = [("", False)]
    for name, linked in names[:MAX_DIRECTORIES]:
        file = root.directory / name / "SKILL.md"
        # Resolving symlinks for each directory would take half of the scan.
        real = real_path(file.parent) if linked else os.path.join(real_root, name)  # noqa: PTH118 - hot
        try:
            info = os.lstat(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield BrokenSkill(file.parent.name, file, _reason(error))
            continue
        yield _skill(root, Path(real), file, info)


def _skill(root: Root, directory: Path, file: Path, info: os.stat_result) -> SkillInfo | BrokenSkill:
    name = file.parent.name
    try:
        _check_file(root, directory, file, info)
        description = _checked(_fields(_read(file, root.inside, _HEAD_BYTES)), name)
    except (OSError, FrontmatterError, ValueError) as error:
        return BrokenSkill(name, file, _reason(error))
    return SkillInfo(name, description, directory, root.origin, root.inside)


def _check_file(root: Root, directory: Path, file: Path, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        info = file.stat()
        directory = Path(real_path(file)).parent
    if root.inside is not None and not directory.is_relative_to(root.inside):
        raise FrontmatterError("context.skill.link")
    if not stat.S_ISREG(info.st_mode):
        raise FrontmatterError("context.skill.irregular")
    if info.st_size > MAX_FILE:
        raise FrontmatterError("context.skill.large", size=info.st_size, limit=MAX_FILE)


def _fields(text: str) -> dict[str, Node]:
    header, _, _ = split(text)
    if header is None:
        raise FrontmatterError("context.skill.head")
    return read_header(header)


def _checked(fields: dict[str, Node], name: str) -> str:
    """Validate name and description; returns the description on one line."""
    stated = fields["name"].value if "name" in fields else name
    if stated != name:
        raise FrontmatterError("context.skill.other_name", name=repr(stated), directory=repr(name))
    if len(name) > MAX_NAME or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise FrontmatterError("context.skill.name", limit=MAX_NAME)
    node = fields.get("description")
    if node is None or node.absent or not isinstance(node.value, str) or not node.value.strip():
        raise FrontmatterError("context.skill.description")
    return " ".join(node.value.split())


def _read(file: Path, inside: Path | None, limit: int) -> str:
    """The first `limit` bytes as text. Does not block on a FIFO."""
    data = read_open(open_beneath(file, inside), file, limit)
    if b"\0" in data:
        raise FrontmatterError("context.skill.binary")
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")


def _reason(error: Exception) -> Text:
    if isinstance(error, FrontmatterError):
        return error.phrase
    why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return Text("context.skill.unreadable", why=why)


def _files(skill: SkillInfo) -> tuple[list[Path], int]:
    """The skill's other files, and how many were omitted."""
    found: list[Path] = []
    for directory, below, names in os.walk(skill.directory):
        below[:] = sorted(b for b in below if not b.startswith(".") and b not in _SKIPPED)
        here = Path(directory)
        found += [here / n for n in sorted(names) if not n.startswith(".") and here / n != skill.file]
        if len(found) > 10 * MAX_FILES:
            break
    return found[:MAX_FILES], max(0, len(found) - MAX_FILES)


def _index(skills: Sequence[SkillInfo], limit: int) -> str:
    for width in _WIDTHS:
        lines = [_line(skill, width) for skill in skills]
        if sum(map(len, lines)) + len(lines) <= limit:
            return "\n".join(lines)
    kept: list[str] = []
    room = limit - 80  # for the line about omissions
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, f"- and {len(lines) - len(kept)} more: see skill with action list"])


def _line(skill: SkillInfo, width: int) -> str:
    text = skill.description
    if width == 0:
        return f"- {skill.name}"
    return f"- {skill.name}: {text if len(text) <= width else text[: width - 1].rstrip() + '…'}"
