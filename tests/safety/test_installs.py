"""Installs work in every mode and in every sandbox, from a cache that stays the person's own.

Each client installs into a fresh project, and then once more from what the first install has put into the
layer. The short form installs a package of this file: from a registry on loopback, a repository or a
directory. The long form installs from the registries that the person's clients are set up for.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from box import available, fingerprint, level_of

from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Event, Project
from kit.places import outside_temp

RUNGS = available()
MODES = {"approved": "default", "auto-edit": "auto-edit", "yolo": "yolo"}
CACHES = (".npm", ".cache", ".cargo", "go", ".m2", ".gradle")
WHEEL = "thing-1.0-py3-none-any.whl"


def npm_package() -> bytes:
    archive = BytesIO()
    manifest = json.dumps({"name": "thing", "version": "1.0.0", "main": "index.js"}).encode()
    with tarfile.open(fileobj=archive, mode="w:gz") as files:
        for name, data in (("package.json", manifest), ("index.js", b"module.exports = 7\n")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            files.addfile(info, BytesIO(data))
    return archive.getvalue()


def zipped(files: Mapping[str, str]) -> bytes:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return archive.getvalue()


def wheel() -> bytes:
    told = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    described = {
        "METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        "WHEEL": told,
        "RECORD": "",
    }
    return zipped(
        {
            "thing.py": "value = 7\n",
            **{f"thing-1.0.dist-info/{name}": text for name, text in described.items()},
        }
    )


@contextmanager
def registry() -> Iterator[tuple[str, list[str]]]:
    """A registry for npm and an index for pip: its address, and the archives that were fetched."""
    fetched: list[str] = []
    package, built = npm_package(), wheel()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = f"http://{self.headers['Host']}"
            release = {"name": "thing", "version": "1.0.0", "dist": {"tarball": f"{host}/thing-1.0.0.tgz"}}
            listed = {"name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": release}}
            link = f'<!DOCTYPE html><a href="/{WHEEL}">{WHEEL}</a>'
            answers = {
                "/thing": ("application/json", json.dumps(listed).encode()),
                "/thing-1.0.0.tgz": ("application/octet-stream", package),
                "/simple/thing/": ("text/html", link.encode()),
                f"/{WHEEL}": ("application/octet-stream", built),
            }
            kind, body = answers.get(self.path, ("", b""))
            if self.path.endswith((".tgz", ".whl")) and self.command == "GET":
                fetched.append(self.path)
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "public, max-age=600")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:  # uv asks first
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", fetched
    finally:
        server.shutdown()
        server.server_close()


class Client(NamedTuple):
    """`files`: of the project; `{packages}` is a directory with the packages, `{registry}` an address.
    `again`: the second install, which can use nothing but the cache, and prints `shows`.
    """

    program: str
    files: Mapping[str, str]
    install: str
    again: str
    shows: str = "7"
    environment: Mapping[str, str] = {}


QUIET = "--no-audit --no-fund"
USE = "node -p 'require(\"thing\")'"
IMPORT = ".venv/bin/python -c 'import thing; print(thing.value)'"
UV_VENV = f"uv venv -q --python {sys.executable} .venv"
VENV = f"{sys.executable} -m venv .venv"
POM = "<modelVersion>4.0.0</modelVersion>"
JAVA = {"JAVA_TOOL_OPTIONS": "-Duser.home={home}"}  # Java asks the system, not $HOME
SHORT = {
    "npm": Client(
        "npm",
        {"package.json": '{"name": "app"}'},
        f"npm install {QUIET} thing",
        f"rm -r node_modules package-lock.json && npm install --offline {QUIET} thing && {USE}",
        environment={"npm_config_registry": "{registry}"},
    ),
    "pip": Client(
        "python3",
        {},
        f"{VENV} && .venv/bin/python -m pip install thing",
        f".venv/bin/python -m pip uninstall -qy thing; .venv/bin/python -m pip install thing && {IMPORT}",
        environment={
            "PIP_INDEX_URL": "{registry}/simple",
            "PIP_TRUSTED_HOST": "127.0.0.1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONWARNINGS": "ignore",
        },
    ),
    "uv": Client(
        "uv",
        {},
        f"{UV_VENV} && uv pip install thing",
        f"rm -r .venv && {UV_VENV} && uv pip install --offline thing && {IMPORT}",
        environment={"UV_INDEX_URL": "{registry}/simple"},
    ),
    "cargo": Client(
        "cargo",
        {
            "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\n[dependencies]\n'
            'thing = {git = "file://{packages}/thing"}\n',
            "src/main.rs": 'fn main() { println!("{}", thing::value()); }\n',
        },
        "cargo build -q",
        "rm -r target && cargo run -q --offline",
        environment={"RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path("~/.rustup").expanduser())},
    ),
    "go": Client(
        "go",
        {
            "go.mod": "module app\n\ngo 1.19\n\nrequire example.com/thing v1.0.0\n",
            "main.go": 'package main\nimport "example.com/thing"\nfunc main() { println(thing.Value()) }\n',
        },
        "go build .",
        "GOPROXY=off go run .",
        environment={"GOPROXY": "file://{packages}/go", "GOSUMDB": "off", "GOFLAGS": "-mod=mod"},
    ),
    "maven": Client(
        "mvn",
        {
            "pom.xml": f"<project>{POM}<parent><groupId>example</groupId><artifactId>thing</artifactId>"
            "<version>1.0</version><relativePath/></parent><artifactId>app</artifactId><repositories><repository>"
            "<id>packages</id><url>file://{packages}/maven</url></repository></repositories></project>"
        },
        "mvn -q validate",
        "mvn -o validate && echo 7",
        environment=JAVA,
    ),
    "gradle": Client(
        "gradle",
        {
            "build.gradle": "configurations { thing }\n"
            "repositories { maven { url 'file://{packages}/maven' } }\n"
            "dependencies { thing 'example:thing:1.0' }\n"
            "task show { doLast { println zipTree(configurations.thing.singleFile).singleFile.text } }\n"
        },
        "gradle -q --no-daemon show",
        "gradle -q --no-daemon --offline show",
        environment=JAVA,
    ),
}


def packages_for(client: str, directory: Path) -> None:
    """The package as its client wants it."""

    def put(name: str, content: str | bytes) -> None:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    if client == "cargo":
        put("thing/Cargo.toml", '[package]\nname = "thing"\nversion = "1.0.0"\n')
        put("thing/src/lib.rs", "pub fn value() -> i32 { 7 }\n")
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], cwd=directory / "thing", check=True)
    elif client == "go":
        module = "module example.com/thing\n\ngo 1.19\n"
        code = "package thing\n\nfunc Value() int { return 7 }\n"
        inside = {
            f"example.com/thing@v1.0.0/{name}": text
            for name, text in {"go.mod": module, "thing.go": code}.items()
        }
        put("go/example.com/thing/@v/list", "v1.0.0\n")
        put("go/example.com/thing/@v/v1.0.0.info", '{"Version": "v1.0.0"}')
        put("go/example.com/thing/@v/v1.0.0.mod", module)
        put("go/example.com/thing/@v/v1.0.0.zip", zipped(inside))
    elif client in ("maven", "gradle"):
        kind = "<packaging>pom</packaging>" if client == "maven" else ""
        named = "<groupId>example</groupId><artifactId>thing</artifactId><version>1.0</version>"
        put("maven/example/thing/1.0/thing-1.0.pom", f"<project>{POM}{named}{kind}</project>")
        put("maven/example/thing/1.0/thing-1.0.jar", zipped({"thing.txt": "7"}))


def installed(
    project: Project,
    client: Client,
    backend: str,
    mode: str,
    fill: Callable[[str], str],
    between: Callable[[], None],
) -> list[Event]:
    """The results of both installs, which a person approves where the mode asks."""
    for name, text in client.files.items():
        project.write(name, fill(text))
    environ = project.environ
    given = {name: fill(value) for name, value in client.environment.items()}

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True, mode=MODES[mode])
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()
        for word in ("first", "second"):
            await driver.send(word, lambda asked: ApprovalReply(asked.approval_id, "yes"))
            between()
        await driver.close()

    lines = (client.install, client.again)
    script = [
        part for line in lines for part in ({"calls": [bash(line, timeout_ms=300_000)]}, {"text": "done"})
    ]
    project.environ = lambda url="", **more: environ(url, **given, **more)  # type: ignore[method-assign]
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))
    return project.of_type("observation")


def check(project: Project, results: list[Event], before: dict[str, str], shows: str) -> None:
    told = "\n".join(event["content"] for event in results)
    assert [event["meta"].get("exit_code") for event in results] == [0, 0], told
    assert (
        shows in results[1]["meta"]["stdout"].splitlines()
        or shows in results[1]["meta"]["stderr"].splitlines()
    )
    now = fingerprint(project.home)
    assert {name: now[name] for name in before} == before  # nor is anything added to a cache
    assert not {name for name in now if name.split("/")[0] in CACHES} - set(before)


def kept_caches(project: Project) -> dict[str, str]:
    """Caches of the person's, and what is in them."""
    for name in CACHES:
        (project.home / name).mkdir()
        (project.home / name / "kept").write_text("the person's", encoding="utf-8")
    return fingerprint(project.home)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.thorough]
            if name in ("maven", "gradle")
            else [outside_temp]
            if name == "pip"
            else [],
        )
        for name in SHORT
    ],
)
def test_a_package_of_ours_is_installed_and_then_taken_from_the_cache(
    project: Project, name: str, backend: str, mode: str
) -> None:
    client = SHORT[name]
    if shutil.which(client.program) is None:
        pytest.skip(f"{client.program} is not installed")
    packages = project.cwd.parent / "packages"
    packages.mkdir()
    packages_for(name, packages)
    before = kept_caches(project)
    with registry() as (url, fetched):

        def fill(text: str) -> str:
            for place, value in {"packages": packages, "registry": url, "home": project.home}.items():
                text = text.replace("{" + place + "}", str(value))
            return text

        first = 0

        def take_away() -> None:
            nonlocal first
            first = first or len(fetched)
            if name in ("cargo", "go", "maven") and packages.exists():
                packages.rename(packages.with_name("away"))

        results = installed(project, client, backend, mode, fill, take_away)
    check(project, results, before, client.shows)
    assert len(fetched) == first, fetched
    assert bool(first) == (name in ("npm", "pip", "uv"))


# from the registries

CACHED = "grep -q 'Using cached' out"
LONG = {
    "npm": SHORT["npm"]._replace(
        install=f"npm install {QUIET} left-pad",
        again=f"rm -r node_modules package-lock.json && npm install --offline {QUIET} left-pad && "
        "node -p 'require(\"left-pad\")(7, 1)'",
        environment={},
    ),
    "pip": SHORT["pip"]._replace(
        install=f"{VENV} && .venv/bin/python -m pip install cowsay",
        again=".venv/bin/python -m pip uninstall -qy cowsay; .venv/bin/python -m pip install cowsay > out && "
        f"{CACHED} && .venv/bin/python -c 'import cowsay; print(7)'",
        environment={},
    ),
    "uv": SHORT["uv"]._replace(
        install=f"{UV_VENV} && uv pip install cowsay",
        again=f"rm -r .venv && {UV_VENV} && uv pip install --offline cowsay && "
        ".venv/bin/python -c 'import cowsay; print(7)'",
        environment={},
    ),
}
TRIED = {
    "npm": ["npm", "view", "left-pad", "version"],
    "pip": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--cache-dir", "cache", "cowsay"],
    "uv": ["uv", "pip", "install", "--no-cache", "--target", "tried", "cowsay"],
}
SET_UP = (
    "npm_config_",
    "PIP_",
    "UV_",
    "SSL_CERT_",
    "NODE_EXTRA_CA_CERTS",
    "HTTP",
    "http",
    "NO_PROXY",
    "no_proxy",
)
SETTINGS = (".npmrc", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml")


def why_no_registry(name: str, directory: Path) -> str:
    """Why this client of the person's reaches no registry; empty if it does."""
    client = LONG[name]
    if shutil.which(client.program) is None:
        return f"{client.program} is not installed"
    done = subprocess.run(
        TRIED[name], cwd=directory, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    return f"{name} reaches no registry: {done.stderr.strip()[-200:]}" if done.returncode else ""


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize("name", LONG)
def test_a_package_of_a_registry_is_installed_and_then_taken_from_the_cache(
    project: Project, tmp_path: Path, name: str, backend: str, mode: str
) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    if reason := why_no_registry(name, tried):
        pytest.skip(reason)
    for settings in SETTINGS:
        if (theirs := Path.home() / settings).is_file():
            (project.home / settings).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(theirs, project.home / settings)
    before = kept_caches(project)
    set_up = {variable: value for variable, value in os.environ.items() if variable.startswith(SET_UP)}
    set_up["PYTHONWARNINGS"] = "ignore"  # of pip's own code
    client = LONG[name]._replace(environment=set_up)
    if name == "pip" and not (tried / "cache").exists():  # this registry lets pip cache nothing
        client = client._replace(again=client.again.replace(CACHED, "true"))
    results = installed(project, client, backend, mode, lambda text: text, lambda: None)
    check(project, results, before, client.shows)
