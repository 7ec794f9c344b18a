"""A stand-in for `xllamacpp`, first on the child's path: the same few names, a scripted model behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MODULE = """
import json, os, time
from pathlib import Path
from types import SimpleNamespace

PLACE = Path(__file__).parent
TOLD = json.loads((PLACE / "script.json").read_text())
if TOLD.get("missing"):
    raise ImportError("no such library")

class CommonParams:
    def __init__(self):
        self.model = SimpleNamespace(path="")
        self.cpuparams = SimpleNamespace(n_threads=0)
        self.cpuparams_batch = SimpleNamespace(n_threads=0)

class Server:
    def __init__(self, params):
        print("a line of the library")  # must not be taken for an answer
        (PLACE / "pid").write_text(str(os.getpid()))
        if TOLD.get("fails"):
            raise RuntimeError(TOLD["fails"])
        time.sleep(TOLD.get("loading", 0))
        from coder.models.scripted import ScriptedServer
        self.server = ScriptedServer([*map(self._kept, TOLD["script"])])
        self.server.__enter__()
        self.listening_address = self.server.url.removesuffix("/v1")
        kept = {name: getattr(params, name) for name in ("n_ctx", "n_parallel", "hostnames", "api_keys")}
        (PLACE / "params.json").write_text(json.dumps({**kept, "path": params.model.path}))

    def _kept(self, turn):
        def answer(request):
            last = self.server.requests[-1]
            with (PLACE / "requests.jsonl").open("a") as file:
                file.write(json.dumps({"headers": last.headers, "body": request}) + "\\n")
            if len((PLACE / "requests.jsonl").read_text().splitlines()) <= TOLD.get("dies", 0):
                os._exit(1)
            return turn
        return answer
"""


class FakeLibrary:
    """`environ` puts it on the path of `coder`'s children."""

    def __init__(self, place: Path, script: list[Any], **told: Any) -> None:
        self.place = place
        place.mkdir()
        (place / "xllamacpp.py").write_text(_MODULE, encoding="utf-8")
        (place / "script.json").write_text(json.dumps({"script": script, **told}), encoding="utf-8")
        self.environ = {"PYTHONPATH": str(place)}

    @property
    def pid(self) -> int:
        try:
            return int((self.place / "pid").read_text() or 0)
        except FileNotFoundError:
            return 0

    @property
    def params(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.place / "params.json").read_text())
        return loaded

    @property
    def requests(self) -> list[dict[str, Any]]:
        file = self.place / "requests.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def gguf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + b"\0" * 100)
    return path
