"""What the subcommands that start no session share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from coder.cli.args import Parser, folder_options
from coder.cli.start import working_folder
from coder.engine.setup import Options, Settings, read_settings


def parser_for(name: str, description: str) -> argparse.ArgumentParser:
    return Parser(
        prog=f"coder {name}", description=description, parents=[folder_options()], allow_abbrev=False
    )


def options_from(chosen: argparse.Namespace) -> Options:
    log_dir: Path | None = chosen.log_dir
    return Options(
        cwd=working_folder(chosen),
        environ=dict(os.environ),
        lang=chosen.lang,
        config_file=chosen.config,
        log_dir=log_dir.absolute() if log_dir else None,
    )


def settings_from(chosen: argparse.Namespace) -> tuple[Options, Settings]:
    options = options_from(chosen)
    return options, read_settings(options)
