"""`coder sessions --search WORDS`: sessions in which the words occur, with a line around each hit."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from coder.engine.setup import Options, Settings
from coder.history.log import as_time, local_time
from coder.history.search.database import terms_of
from coder.history.search.index import IndexProgress
from coder.history.search.projects import Project, known_projects
from coder.history.search.query import FoundSession, Hit, search
from coder.history.store import SessionStore
from coder.texts import Catalog
from coder.ui.streams import Exit, UsageError, show, show_json
from coder.ui.terminal.render.escapes import flat

_MANY = 200  # records to index that take long enough to say so


def search_sessions(options: Options, settings: Settings, chosen: argparse.Namespace) -> int:
    if not terms_of(chosen.search):
        raise UsageError("lookback.no_words")
    projects = projects_of(options, settings, everywhere=chosen.all)
    directories = [project.history for project in projects]
    say = settings.texts.say
    progress = indexing_shown(settings.texts)
    found = search(settings.home, directories, chosen.search, chosen.limit, progress)
    if chosen.json:
        for one in found:
            row = {**msgspec.to_builtins(one), "updated_at": as_time(one.updated_at)}
            show_json(row)
        return Exit.ANSWERED
    if not found:
        show(say("lookback.nothing", words=flat(chosen.search)))
    roots = {project.history: project.root for project in projects}
    for one in found:
        show(_head(one, roots[one.directory] if chosen.all else ""))
        for hit in one.hits:
            show(f"    {_label(hit, settings)} {flat(hit.line)}", fit=True, hang=4)
    return Exit.ANSWERED


def indexing_shown(texts: Catalog) -> IndexProgress:
    """Tells a person at a terminal how many records are still to be read."""

    def progress(left: int) -> None:
        if sys.stderr.isatty() and (left % _MANY == 0):
            text = texts.say("lookback.indexing", n=left) if left else ""
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    return progress


def projects_of(options: Options, settings: Settings, *, everywhere: bool) -> list[Project]:
    """The project in the working directory, and all that this person used."""
    root = Path(os.path.realpath(options.cwd))
    here = Project(str(root), str(SessionStore(root, options.log_dir).history))
    others = known_projects(settings.home) if everywhere else []
    return [here, *(one for one in others if one.history != here.history)]


def _head(found: FoundSession, root: str) -> str:
    cells = [flat(found.session_id), local_time(found.updated_at), flat(root), flat(found.title)]
    return "  ".join(cell for cell in cells if cell)


def _label(hit: Hit, settings: Settings) -> str:
    who = settings.texts.say(f"lookback.kind.{hit.kind}")
    return settings.texts.say("lookback.hit", turn=hit.turn, who=who)
