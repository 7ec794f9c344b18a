"""How this coder was installed, so that messages name what can really be installed.

The distribution is not called `coder`, which is another project on PyPI.
"""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

DISTRIBUTION: Final = "coder-agent"
_CHECKOUT: Final = Path(__file__).parents[3]


class _Directory(msgspec.Struct):
    editable: bool = False


class _Repository(msgspec.Struct):
    vcs: str
    requested_revision: str = ""


class _DirectUrl(msgspec.Struct):
    """The `direct_url.json` of a distribution that does not come from an index."""

    url: str
    dir_info: _Directory | None = None
    vcs_info: _Repository | None = None


def install_line(extra: str) -> str:
    """The command that adds one of coder's extras to this installation."""
    return f"{sys.executable} -m pip install {_source(extra)}"


def requirements() -> list[str]:
    """What coder needs without its extras, as it was installed."""
    return [line for line in metadata.requires(DISTRIBUTION) or () if "extra ==" not in line]


def _source(extra: str) -> str:
    named = f"{DISTRIBUTION}[{extra}]"
    found = _direct_url()
    if found is None:
        return shlex.quote(named)
    if found.vcs_info is not None:
        revision = f"@{found.vcs_info.requested_revision}" if found.vcs_info.requested_revision else ""
        return shlex.quote(f"{named} @ {found.vcs_info.vcs}+{found.url}{revision}")
    if found.dir_info is None:  # a wheel or an archive
        return shlex.quote(f"{named} @ {found.url}")
    directory = unquote(urlsplit(found.url).path)
    return ("-e " if found.dir_info.editable else "") + shlex.quote(f"{directory}[{extra}]")


def _direct_url() -> _DirectUrl | None:
    """Where it came from; None for an index."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        found = msgspec.json.decode(text, type=_DirectUrl) if text else None
    except metadata.PackageNotFoundError:  # run from its sources
        there = (_CHECKOUT / "pyproject.toml").exists()
        return _DirectUrl(_CHECKOUT.as_uri(), dir_info=_Directory(editable=True)) if there else None
    except msgspec.MsgspecError:
        return None
    if found is not None and found.dir_info is not None:
        return found if Path(unquote(urlsplit(found.url).path)).is_dir() else None
    return found
