"""The server of `coder view`: who is let in, and what is given out."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from view_kit import HOSTILE, recorded, viewing

from coder.texts import Catalog
from coder.ui.browser.web_server import page_file
from kit.driving import Project


@pytest.fixture
def session(project: Project) -> str:
    script: list[dict[str, Any]] = [
        {"reasoning": "let me think", "calls": [{"name": "bash", "arguments": {"command": "echo pelican"}}]},
        {"text": f"done {HOSTILE}"},
    ]
    return recorded(project, script, f"do {HOSTILE}")


def test_nothing_without_the_token(project: Project, session: str) -> None:
    with viewing(project) as view:
        for path in ("/api/list", f"/api/events?s=0/{session}", f"/api/outline?s=0/{session}"):
            assert view.get(path)[0] == 200
            for token in ("", "wrong", view.token[:-1], "é"):
                status, body, _ = view.get(path, token=token)
                assert (status, body) == (403, b"refused")
        # A link or a form cannot send a header; a query is no substitute.
        assert view.get(f"/api/list?token={view.token}", token="")[0] == 403
        assert view.get("/api/list", method="POST")[0] == 403
        assert view.get("/api/token", method="POST", token="")[0] == 403


def test_other_names_and_origins_are_refused(project: Project, session: str) -> None:
    """DNS rebinding has the right address under a foreign name; another site has its own origin."""
    with viewing(project) as view:
        for host in ("evil.example", f"evil.example:{view.port}", "127.0.0.1", f"127.0.0.1:{view.port + 1}"):
            for path in ("/", "/app.js", "/api/list"):
                assert view.get(path, Host=host)[0] == 403, (host, path)
        assert view.get("/api/list", Host=f"localhost:{view.port}")[0] == 200
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1:{view.port + 1}"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        ):
            assert view.get("/api/list", **headers)[0] == 403, headers
        own = f"http://127.0.0.1:{view.port}"
        assert view.get("/api/list", Origin=own, Sec_Fetch_Site="same-origin")[0] == 200


def test_paths_lead_nowhere_else(project: Project, session: str) -> None:
    project.write("secret.jsonl", b'{"ts":"","session_id":"x","type":"turn_start","content":"topsecret"}\n')
    (project.cwd / ".coder" / "history" / "link.jsonl").symlink_to(project.cwd / "secret.jsonl")
    with viewing(project) as view:
        for key in (
            "0/../../secret", "0/..%2f..%2fsecret", "0/%2e%2e/%2e%2e/secret", "0/link", "0/.hidden", "0/",
            "7/x", "-1/x", f"0/{session}%00", "0/" + "a" * 5000, f"0//{session}",
        ):  # fmt: skip
            status, body, _ = view.get(f"/api/events?s={key}")
            assert (status, body) == (404, b"not found"), key
        odd = ("//[", "/api/list?" + "a=1&" * 30)  # no address, and more fields than any question has
        for path in (
            "/../server.py", "/..%2fserver.py", "/page/app.js", "/api/", "/api/other?s=0/x", "//x", *odd,
        ):  # fmt: skip
            assert view.get(path)[0] == 404, path
        assert view.get(f"/api/events?s=0/{session}&from=x")[0] == 404
        assert view.get(f"/api/events?s=0/{session}&from=-5")[0] == 200


def test_the_policy_allows_no_inline_and_no_other_origin(project: Project, session: str) -> None:
    with viewing(project) as view:
        for path in ("/", "/app.js", "/style.css", f"/api/events?s=0/{session}", "/nowhere"):
            headers = view.get(path)[2]
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'" in policy
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert "Python" not in headers["Server"]
    page = page_file("index.html", Catalog("zh")).decode()
    assert 'lang="zh"' in page
    assert "会话" in page
    assert "style=" not in page
    assert "<script>" not in page
    assert "{{" not in page


def test_a_hostile_transcript_is_only_text(project: Project, session: str) -> None:
    with viewing(project) as view:
        pages = [view.json(f"/api/events?s=0/{session}")["html"], view.json("/api/list")["html"]]
        pages.append(json.dumps(view.json("/api/outline?s=0/" + session)["plot"]))
        for html in pages:
            for harm in ("<script", "<img", "<iframe", "<style", "onerror=w>", 'href="j', "\x1b", "\u202e"):
                assert harm not in html
        assert "&lt;script&gt;window.hacked=1" in pages[0]
        assert pages[0].count("<article") == pages[0].count("</article>")
        assert pages[0].count("<details") == pages[0].count("</details>")


def test_it_listens_on_loopback_alone(project: Project) -> None:
    with viewing(project) as view:
        for address in {
            info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        }:
            if str(address).startswith("127."):
                continue
            with socket.socket() as line:
                line.settimeout(2)
                assert line.connect_ex((str(address), view.port)) != 0


@pytest.mark.thorough
def test_requests_that_never_end_keep_nobody_out(project: Project, session: str) -> None:
    """Slowloris: three hundred connections in the middle of a request. Threads stay few, and the person's own
    request is answered before any of them."""
    beginnings = [b"", b"GET ", b"GET /api/list HTTP/1.1\r\nHost: 127", b"POST /api/token HTTP/1.1\r\n"]
    with viewing(project) as view, contextlib.ExitStack() as held:
        lines = []
        for at in range(300):
            line = held.enter_context(socket.create_connection(("127.0.0.1", view.port), timeout=60))
            line.sendall(beginnings[at % len(beginnings)])
            lines.append(line)
        assert view.json("/api/list")["count"] == 1
        for line in lines[:100]:  # ended, so that there is room
            assert line.recv(1) == b""
        assert view.json(f"/api/outline?s=0/{session}")["events"] > 0
        assert len(list(Path(f"/proc/{view.pid}/task").iterdir())) < 200


def test_the_token_is_in_no_address_log_or_answer(project: Project, session: str) -> None:
    """It is sent in a header, and nothing that the server says repeats it."""
    with viewing(project) as view:
        said = []
        for path in ("/", "/app.js", "/style.css", "/api/list", f"/api/outline?s=0/{session}", "/api/nope"):
            status, body, headers = view.get(path, Referer=f"http://127.0.0.1/{view.token}", X_Coder_Code="x")
            said.append(f"{status} {body!r} {headers}")
            assert headers["Referrer-Policy"] == "no-referrer"
        assert view.token not in "".join(said)
    assert view.printed == b""
    kept = [path for top in (project.home, project.cwd) for path in top.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if view.token.encode() in path.read_bytes()]


def test_a_code_is_good_for_one_use(project: Project, tmp_path: Path) -> None:
    from coder.ui.browser.pages import PageApi
    from coder.ui.browser.web_server import ViewServer

    server = ViewServer(PageApi(tmp_path, [], Catalog("en")), Catalog("en"))
    server.server_close()
    code = server.one_time_url().partition("#code=")[2]
    assert server.token not in server.one_time_url()
    assert server.redeem("wrong") == ""
    assert server.redeem(code) == server.token
    assert server.redeem(code) == ""
    assert server.redeem("") == ""


@pytest.mark.thorough
def test_a_large_record_is_read_in_pages(project: Project, session: str) -> None:
    path = project.cwd / ".coder" / "history" / f"{session}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines * 200) + b'{"torn')
    seen, at, pages = 0, 0, 0
    with viewing(project) as view:
        while True:
            page = view.json(f"/api/events?s=0/{session}&from={at}")
            assert page["count"] <= 60
            seen, at, pages = seen + page["count"], page["next"], pages + 1
            if not page["count"]:
                break
        outline = view.json(f"/api/outline?s=0/{session}")
        assert seen == outline["events"] == 200 * len(lines)
        assert pages > 10
        before, place = outline["marks"][5]
        assert before == 250
        again = view.json(f"/api/events?s=0/{session}&from={place}&n=1")
        assert again["count"] == 1
        middle = view.json(f"/api/events?s=0/{session}&from={place + 7}&n=1")  # in the middle of a line
        assert middle["next"] > again["next"]


def test_a_page_that_begins_with_a_result_knows_its_call(project: Project, session: str) -> None:
    """As of a followed session, where each event comes alone."""
    lines = (project.cwd / ".coder" / "history" / f"{session}.jsonl").read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"type":"observation"' in line and b"pelican" in line)
    with viewing(project) as view:
        html = view.json(f"/api/events?s=0/{session}&from={sum(map(len, lines[:at]))}")["html"]
    assert html.startswith('<article class="result"')
    assert "<small>" not in html.partition("</article>")[0]


def test_a_long_text_is_cut_and_given_whole_on_request(project: Project) -> None:
    session = recorded(project, [{"text": " ".join(map(str, range(6000))) + " end of it"}], "write much")
    with viewing(project) as view:
        html = view.json(f"/api/events?s=0/{session}")["html"]
        assert "end of it" not in html
        assert 'class="more"' in html
        at = html.split('class="answer" data-at="')[1].partition('"')[0]
        assert "end of it" in view.json(f"/api/event?s=0/{session}&from={at}")["html"]


def test_an_appended_event_ends_the_wait_of_a_follower(project: Project, session: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = project.cwd / ".coder" / "history" / f"{session}.jsonl"
    with viewing(project) as view, ThreadPoolExecutor(1) as pool:
        end = path.stat().st_size
        waiting = pool.submit(view.json, f"/api/follow?s=0/{session}&from={end}")
        line = next(one for one in path.read_bytes().splitlines(keepends=True) if b'"turn_start"' in one)
        with path.open("ab") as file:
            file.write(line[:50])
            file.flush()
            assert not waiting.done()
            file.write(line[50:])
        found = waiting.result(timeout=60)
    assert found["count"] == 1
    assert found["next"] == end + len(line)


def test_a_taken_port_and_an_unknown_session_are_said(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = project.coder("view", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert project.coder("view", "--no-browser", "--port", "99999").returncode == 2
    assert "There is no session nope" in project.coder("view", "nope", "--no-browser").stderr


def test_ctrl_c_ends_it_well(project: Project) -> None:
    process = project.started("view", "--no-browser", url="")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.communicate()
