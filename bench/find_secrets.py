"""How many secrets are found, how many false alarms real repositories raise, and what the search costs.

python bench/find_secrets.py SDISTS [OLD_SRC]   measures, prints every hit and writes bench/SECRETS.md

SDISTS is a directory of source archives from PyPI (`pip download --no-binary :all: --no-deps django …`).
Recall is measured with the formats of tests/safety/secret_formats.tsv, each with fake secrets from 20 seeds.
OLD_SRC is the `src` of an older tree to compare with.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
REPORT = Path(__file__).with_name("SECRETS.md")
SEEDS = 20
LARGEST = 2_000_000


def texts(archive: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each file that is no binary."""
    with tarfile.open(archive) as files:
        for member in files:
            file = files.extractfile(member) if member.isfile() and member.size <= LARGEST else None
            data = file.read() if file else b"\0"
            if b"\0" not in data:
                yield member.name, data.decode("utf-8", "replace")


def measure(directory: Path) -> dict[str, Any]:
    sys.path.insert(0, str(CHECKOUT / "tests" / "safety"))
    from secret_formats import make, templates

    from coder.policy.secrets.formats import find_secrets

    found: dict[str, int] = {}
    for name, template in templates().items():
        found[name] = 0
        for seed in range(SEEDS):
            text, secret = make(template, random.Random(f"{name} {seed}"))
            left = text
            for start, end, _kind in reversed(find_secrets(text)):
                left = f"{left[:start]}\0{left[end:]}"
            found[name] += secret not in left and secret[-8:] not in left
    repositories = []
    for archive in sorted(directory.glob("*.tar.gz")):
        files = size = 0
        seconds = 0.0
        hits = []
        for path, text in texts(archive):
            begun = time.process_time()
            spans = find_secrets(text)
            seconds += time.process_time() - begun
            files, size = files + 1, size + len(text)
            hits += [f"{path}: {text[max(0, start - 30) : end][:120]!r}" for start, end, _kind in spans]
        name = archive.name.removesuffix(".tar.gz")
        repositories.append({"name": name, "files": files, "size": size, "seconds": seconds, "hits": hits})
    return {"found": found, "repositories": repositories}


def measured_with(source: Path, directory: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    line = [sys.executable, __file__, "--measure", str(directory)]
    done = subprocess.run(line, env=environment, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def recall(measured: dict[str, Any]) -> str:
    found = measured["found"]
    always = sum(count == SEEDS for count in found.values())
    return (
        f"{100 * sum(found.values()) / (SEEDS * len(found)):.1f} % ({always} of {len(found)} formats always)"
    )


def speed(repositories: list[dict[str, Any]]) -> str:
    return f"{1e9 * sum(r['seconds'] for r in repositories) / sum(r['size'] for r in repositories):.0f}"


def main() -> None:
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(Path(sys.argv[2]))))
        return
    directory = Path(sys.argv[1])
    now = measured_with(CHECKOUT / "src", directory)
    old = measured_with(Path(sys.argv[2]), directory) if len(sys.argv) > 2 else None
    repositories = now["repositories"]
    for repository in repositories:
        print(*repository["hits"], sep="\n")
    print("not always found:", {name: n for name, n in now["found"].items() if n < SEEDS})
    before = f" Before: {recall(old)}, {speed(old['repositories'])} ms/MB." if old else ""
    rows = [
        f"| {r['name']} | {r['files']} | {r['size'] / 1e6:.1f} | {len(r['hits'])} | {speed([r])} |"
        for r in repositories
    ]
    files, size = sum(r["files"] for r in repositories), sum(r["size"] for r in repositories) / 1e6
    hits = sum(len(r["hits"]) for r in repositories)
    REPORT.write_text(
        "# Secrets found and false alarms\n\n"
        f"Written by `python bench/find_secrets.py SDISTS [OLD_SRC]`, Python {sys.version.split()[0]}. "
        f"Recall on fake secrets in {len(now['found'])} formats, {SEEDS} of each: {recall(now)}.{before}\n\n"
        "The script lists every hit in the source archives below. Each is a key, token or password that was "
        "made up for tests or documentation.\n\n"
        "| archive | files | MB | hits | ms/MB |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join([*rows, f"| all | {files} | {size:.1f} | {hits} | {speed(repositories)} |"])
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
