"""The page of `coder view` in a real browser: read, folded, searched, replayed, followed, on a phone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from view_kit import HOSTILE, View, hostile_record, recorded, viewing

from kit import ScriptedServer
from kit.browser import PROGRAM, Browser
from kit.driving import Project, play
from kit.images import png

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine (apt install chromium)")

# Where to keep pictures of the page, for whoever wants to look at it.
PICTURES = os.environ.get("CODER_PICTURES", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    with browser.page() as page:
        page.resize(1200, 800)
        yield page
        assert page.failures == []


def picture(page: Browser, name: str) -> None:
    if PICTURES:
        page.picture(Path(PICTURES, f"{name}.png"))


@pytest.fixture
def session(project: Project) -> str:
    project.write("shop.py", "def price(n):\n    return n * 2\n\n\ndef name():\n    return 'shop'\n")
    old, new = "return n * 2", "return n * 3"
    todos = [
        {"content": "change the price", "status": "in_progress"},
        {"content": "tell", "status": "pending"},
    ]
    script: list[dict[str, Any]] = [
        {
            "reasoning": "The person wants pelicans in the shop.",
            "calls": [
                {"name": "read", "arguments": {"path": "shop.py"}},
                {"name": "todowrite", "arguments": {"todos": todos}},
                {"name": "bash", "arguments": {"command": "seq 1 60"}},
            ],
        },
        {
            "calls": [
                {"name": "edit", "arguments": {"path": "shop.py", "old_string": old, "new_string": new}},
                {"name": "bash", "arguments": {"command": "cat nowhere.txt"}},
            ]
        },
        {"text": "The price is *three times* `n` now.\n\n| n | price |\n|---|---:|\n| 1 | 3 |"},
        {"reasoning": "second thoughts", "text": f"Nothing else. {HOSTILE}"},
    ]
    return recorded(project, script, "set the price for pelicans", f"anything else? {HOSTILE}")


def opened(page: Browser, view: View, session: str = "") -> None:
    page.goto(view.url + (f"&a=0/{session}" if session else ""))
    page.wait("document.body && document.body.dataset.ready")


def shown(page: Browser, selector: str) -> int:
    found: int = page.run(f"all({json.dumps(selector)}).filter((e) => e.checkVisibility()).length")
    return found


@pytest.mark.thorough
def test_a_session_is_read_folded_and_searched(project: Project, session: str, page: Browser) -> None:
    with viewing(project) as view:
        opened(page, view)
        assert page.run("location.hash.includes('token')") is False
        assert page.run("sessionStorage.getItem('token')") == view.token
        page.run("one('#list a').click()")
        page.wait("panes[0] && panes[0].outline && all('article.end').length == 2")
        page.wait("all('.turns li').length == 2")
        assert page.run("all('article.turn').length") == 2
        assert page.run("one('details.thinking').open") is False
        page.press("t")
        assert page.run("one('details.thinking').open") is True
        assert "pelicans in the shop" in page.run("one('details.thinking').innerText")
        assert page.run("one('.diff .add mark').textContent") == "3"
        assert page.run("one('.todos').innerText").startswith("◐ change the price")
        assert page.run("one('article.failed .badge').textContent").startswith("failed (1)")
        assert page.run("one('article.result details summary').textContent").startswith("output, 6")
        assert page.run("one('.text td:last-child').textContent") == "3"
        assert page.run("getComputedStyle(one('.text td:last-child')).textAlign") == "right"
        assert page.run("one('.files code').textContent") == "shop.py"
        page.run("one('.files').closest('details').open = true; one('.files button.file').click()")
        page.wait("one('.files .changes .diff .add mark')")
        picture(page, "file-history")
        page.run("one('.files button.file').click()")
        assert page.run("one('.files .changes')") is None
        assert page.run("all('.plot .hit').length") == 2
        assert (
            page.run("all('.key').map((e) => e.textContent).join()")
            == "sent, from the cache,sent anew,received"
        )
        for kind in ("cached", "prompt", "completion"):  # the legend has the bars' colours
            key = f"getComputedStyle(one('.key.{kind}'), '::before').backgroundColor"
            assert page.run(key) == page.run(f"getComputedStyle(one('.plot .{kind}')).fill")
        assert page.run("one('.pane .title').textContent") == "set the price for pelicans"
        # What a hostile transcript brings is text.
        assert page.run("window.hacked === undefined && !one('.events script, .events img, iframe')")
        assert not [url for url in page.requests if "evil" in url]
        picture(page, "session")
        page.run("one('#search').value = 'pelicans price'; one('#search').dispatchEvent(new Event('input'))")
        page.wait("one('#list a.hit')")
        assert "set the price for pelicans" in page.run("one('#list a.hit').textContent")
        page.run("one('#search').value = 'albatross'; one('#search').dispatchEvent(new Event('input'))")
        page.wait("all('#list li').length == 0")
        assert page.run("one('#status').textContent") == "No session found."
        page.run("one('.filter').value = 'nowhere'; one('.filter').dispatchEvent(new Event('input'))")
        assert 0 < shown(page, ".events article") <= 3


@pytest.mark.thorough
def test_replay_goes_step_by_step(project: Project, session: str, page: Browser) -> None:
    with viewing(project) as view:
        opened(page, view, session)
        page.wait("panes[0].outline")
        total = page.run("panes[0].outline.events")
        assert page.run("panes[0].slider.value") == str(total)
        everything = shown(page, ".events article")
        page.run("panes[0].slider.value = 3; panes[0].slider.dispatchEvent(new Event('input'))")
        page.wait("all('.events article').some((e) => e.classList.contains('hidden'))")
        counts = [shown(page, ".events article")]
        for _ in range(4):
            page.run("document.activeElement.blur()")
            value = int(page.run("panes[0].slider.value"))
            page.press("]")
            page.wait(f"panes[0].count.textContent.startsWith('{value + 1} ')")
            page.run("new Promise((done) => setTimeout(done, 200))")
            counts.append(shown(page, ".events article"))
        assert counts == sorted(counts)
        assert counts[-1] > counts[0] < everything
        picture(page, "replay")
        page.run(f"panes[0].replay({total})")
        assert shown(page, ".events article") == everything


@pytest.mark.thorough
def test_a_running_session_is_followed(project: Project, page: Browser) -> None:
    script = [{"text": "first answer"}, {"text": "the second answer of it"}]
    with ScriptedServer(script) as server:
        project.coder("--once", "begin", url=server.url)
        (log,) = project.logs()
        with viewing(project) as view:
            opened(page, view, log.stem)
            page.wait("panes[0].outline && all('article.end').length == 1")
            page.press("l")
            assert page.run("one('.follow').getAttribute('aria-pressed')") == "true"
            page.wait("panes[0].ended")
            project.coder("--continue", "--once", "go on", url=server.url)
            page.wait("all('article.end').length == 2")
            assert "the second answer of it" in page.run("one('.events').innerText")
            page.wait("panes[0].outline.turns.length == 2")
            page.press("l")
            assert page.run("one('.follow').getAttribute('aria-pressed')") == "false"


@pytest.mark.thorough
def test_a_followed_record_that_is_torn_cut_and_deleted(project: Project, page: Browser) -> None:
    recorded(project, [{"text": "an answer that was long"}], "begin")
    (log,) = project.logs()
    whole = b"".join(line for line in log.read_bytes().splitlines(True) if b'"session_end"' not in line)
    log.write_bytes(whole + whole[:20])
    with viewing(project) as view:
        opened(page, view)
        page.run("real = ask; ask = (what, ...rest) => { window.asked = what; return real(what, ...rest); }")
        page.run("one('#list a').click()")
        page.wait("window.asked == 'follow'")
        log.write_bytes(whole.replace(b"an answer that was long", b"another"))
        page.wait("one('.events').innerText.includes('another') && window.asked == 'follow'")
        assert "an answer" not in page.run("one('.events').innerText")
        log.unlink()
        page.wait("one('.follow').getAttribute('aria-pressed') == 'false'")
        assert page.run("status.textContent") == "This session no longer exists."
    assert all("404" in failure for failure in page.failures)
    page.failures.clear()


@pytest.mark.thorough
def test_two_sessions_side_by_side_dark_and_light(project: Project, session: str, page: Browser) -> None:
    other = recorded(project, [{"text": "another answer"}], "another question")
    with viewing(project, "--lang", "zh") as view:
        opened(page, view, session)
        page.wait("panes[0].outline")
        row = f"[data-beside='0/{other}']"
        page.run(f"one({json.dumps(row)}).click()")
        page.wait("panes[1] && panes[1].outline")
        assert page.run("panes.map((pane) => pane.key)") == [f"0/{session}", f"0/{other}"]
        assert "another answer" in page.run("panes[1].events.innerText")
        wide = page.run("panes.map((pane) => Math.round(pane.element.getBoundingClientRect().width))")
        assert abs(wide[0] - wide[1]) <= 2
        assert page.run("document.documentElement.lang") == "zh"
        assert "第 1 回合" in page.run("panes[0].events.innerText")
        colours = []
        for _ in range(2):
            page.press("d")
            colours.append(page.run("getComputedStyle(document.body).backgroundColor"))
            picture(page, f"beside-{len(colours)}")
        assert len(set(colours)) == 2
        page.press("x")
        assert page.run("panes.length") == 1


@pytest.mark.thorough
def test_on_a_phone(project: Project, session: str, page: Browser) -> None:
    page.resize(390, 844)
    with viewing(project) as view:
        opened(page, view)
        assert page.run("one('#list').checkVisibility()")
        assert (
            page.run("Math.max(...all('header > *, #list *').map((e) => e.getBoundingClientRect().right))")
            <= 390
        )
        picture(page, "phone-list")
        page.run("one('#list a').click()")
        page.wait("panes[0] && panes[0].outline")
        assert page.run("one('#list').checkVisibility()") is False
        assert page.run("document.documentElement.scrollWidth") <= 390
        assert page.run("panes[0].body.scrollWidth <= panes[0].body.clientWidth")
        picture(page, "phone")
        page.run("one('#menu').click()")
        assert page.run("one('#list').checkVisibility()")


@pytest.mark.thorough
def test_a_wrong_token_is_said(project: Project, session: str, page: Browser) -> None:
    with viewing(project) as view:
        page.goto(f"http://127.0.0.1:{view.port}/#token=wrong")
        page.wait("document.querySelector('#status')?.textContent")
        assert "needs the token" in page.run("one('#status').textContent")
        assert page.run("all('#list li').length") == 0
    page.failures.clear()  # the browser's own note of the refused request


@pytest.mark.thorough
def test_the_exported_file_is_inert(project: Project, session: str, page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "session.html"
    project.coder("export", session, "--html", str(file))
    page.requests.clear()
    page.goto(file.as_uri())
    page.wait("document.querySelectorAll('article.end').length == 2")
    assert page.run("window.hacked === undefined")
    assert {url for url in page.requests if not url.startswith("about:")} == {file.as_uri()}
    assert (
        page.run("getComputedStyle(document.querySelector('.diff .add')).backgroundColor")
        != "rgba(0, 0, 0, 0)"
    )
    page.run("document.querySelector('nav details').open = true")
    picture(page, "export")


@pytest.mark.thorough
def test_generated_hostile_records_run_and_load_nothing(
    project: Project, page: Browser, tmp_path: Path
) -> None:
    log = project.cwd / ".coder" / "history" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(hostile_record(600, seed=2))
    file = tmp_path / "session.html"
    assert project.coder("export", "s", "--html", str(file)).returncode == 0
    page.requests.clear()
    page.goto(file.as_uri())
    page.wait("document.querySelector('.bar') && document.querySelectorAll('article').length > 300")
    page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.run("window.hacked === undefined")
    assert {url for url in page.requests if not url.startswith("about:")} == {file.as_uri()}
    with viewing(project) as view:
        page.requests.clear()
        opened(page, view, "s")
        page.wait("panes[0].outline")
        page.run("panes[0].replay(panes[0].outline.events)")
        page.wait("panes[0].ended")
        assert page.run("window.hacked === undefined")
        own = f"http://127.0.0.1:{view.port}/"
        assert not [url for url in page.requests if not url.startswith((own, "about:"))]


@pytest.mark.thorough
def test_the_exported_file_is_searched_and_replayed(
    project: Project, session: str, page: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "session.html"
    project.coder("export", session, "--html", str(file))
    page.goto(file.as_uri())
    page.wait("document.querySelector('.bar small')")
    everything = page.run("document.querySelectorAll('article').length")

    def visible() -> int:
        found: int = page.run("document.querySelectorAll('article:not(.hidden)').length")
        return found

    def typed(selector: str, value: str | int) -> None:
        page.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(str(value))}; e.dispatchEvent(new Event('input')); }})()"
        )

    assert visible() == everything
    typed(".bar .filter", "NOWHERE cat")
    assert 0 < visible() < 4
    typed(".bar .filter", "")
    typed(".bar [type=range]", 3)
    assert visible() == 3
    page.press("]")
    assert visible() == 4
    page.press("[")
    page.press("[")
    assert visible() == 2
    typed(".bar [type=range]", everything)
    page.press("t")
    assert page.run("document.querySelector('details.thinking').open") is True
    page.run("scrollTo(0, 0)")
    page.press("j")
    page.wait("document.querySelector('#turn-2').getBoundingClientRect().top < innerHeight && scrollY > 0")
    before = page.run("getComputedStyle(document.body).backgroundColor")
    page.press("d")
    assert page.run("getComputedStyle(document.body).backgroundColor") != before
    picture(page, "export-dark")
    page.resize(390, 844)
    assert page.run("document.documentElement.scrollWidth") <= 390
    picture(page, "export-phone")
    assert page.run("window.hacked === undefined")
    assert not [url for url in page.requests if "evil" in url]


@pytest.mark.thorough
def test_images_are_drawn_where_they_were_said_and_read(
    project: Project, page: Browser, tmp_path: Path
) -> None:
    (project.cwd / "a.png").write_bytes(png(40, 30))
    (project.cwd / "b.png").write_bytes(png(50, 20))
    script: list[dict[str, Any]] = [
        {"calls": [{"name": "read", "arguments": {"path": "b.png"}}]},
        {"text": "two pictures"},
    ]
    session = recorded(project, script, "what is on @a.png?")
    drawn = (
        "document.querySelector('article.turn figure img')?.naturalWidth == 40"
        " && document.querySelector('article.result figure img')?.naturalWidth == 50"
    )
    with viewing(project) as view:
        opened(page, view, session)
        page.wait(drawn)
        assert page.run("one('article.turn figcaption').textContent") == "image a.png (40×30)"
        picture(page, "image")
    file = tmp_path / "session.html"
    project.coder("export", session, "--html", str(file))
    page.goto(file.as_uri())
    page.wait(drawn)


@pytest.mark.thorough
def test_what_was_rewound_is_marked_and_the_replay_knows_when(
    project: Project, page: Browser, tmp_path: Path
) -> None:
    script = [{"text": "first answer"}, {"text": "second answer"}, {"text": "third answer"}]
    driven = play(project, script, ["one", "two", "/rewind 2", "/redo", "/rewind 2", "three"])
    session = driven.engine.agent.session.id
    kinds = [event["type"] for event in project.events()]
    rewinds = [at for at, kind in enumerate(kinds) if kind == "rewind"]
    assert len(rewinds) == 3
    heads = "all('article.turn').filter((e) => e.checkVisibility())"
    gone = f"{heads}.filter((e) => e.classList.contains('rewound')).map((e) => e.dataset.turn).join()"
    with viewing(project) as view:
        opened(page, view, session)
        page.wait("panes[0].outline && all('article.end').length == 3")
        page.wait(f"{gone} == '2'")
        assert page.run("one('#turn-2 .gone').checkVisibility()")
        assert page.run("one('#turn-2 .gone').textContent") == "rewound"
        assert page.run("Number(getComputedStyle(one('#turn-2')).opacity)") < 1
        assert page.run("all('.turns li').map((e) => e.className).join()") == ",rewound,"
        picture(page, "rewound")
        # Before the first rewind, after it, after it was taken back, after the second.
        for events, expected in zip((0, 1, rewinds[1] - rewinds[0] + 1), ("", "2", ""), strict=True):
            page.run(f"panes[0].replay({rewinds[0] + events})")
            page.wait(f"{heads}.length == 2 && {gone} == '{expected}'")
        assert not page.run("one('#turn-2 .gone').checkVisibility()")
        page.run(f"panes[0].replay({rewinds[2] + 1})")
        page.wait(f"{heads}.length == 2 && {gone} == '2'")
    file = tmp_path / "session.html"
    project.coder("export", session, "--html", str(file))
    page.goto(file.as_uri())
    page.wait("document.querySelectorAll('article.turn.rewound .gone').length == 1")
    static = file.read_text(encoding="utf-8").partition("<script>")[0]
    assert 'class="turn rewound" id="turn-2"' in static  # also where scripts are off
    steps = page.run("document.querySelectorAll('article').length")
    seen = []
    for _ in range(steps):
        page.press("[")
        seen.append(page.run("document.querySelectorAll('#turn-2.rewound').length"))
    assert [a for a, b in zip(seen, [*seen[1:], None], strict=True) if a != b] == [1, 0, 1, 0]


@pytest.mark.thorough
def test_a_page_that_shows_little_is_followed_by_the_next(project: Project, page: Browser) -> None:
    """Without it a high window has nothing to scroll, and what comes later is never asked for."""
    session = recorded(project, [{"text": "an answer"}], "a question")
    (log,) = project.logs()
    lines = log.read_bytes().splitlines(keepends=True)
    quiet = json.dumps({**json.loads(lines[0]), "type": "final"}).encode() + b"\n"
    log.write_bytes(lines[0] + quiet * 400 + b"".join(lines[1:]))
    with viewing(project) as view:
        opened(page, view, session)
        page.wait("all('article.answer').length == 1 && panes[0].ended")
        page.run("panes[0].filter.value = 'nothing'; panes[0].filter.dispatchEvent(new Event('input'))")
        page.wait("panes[0].hits.textContent == '0'")
        page.run("panes[0].filter.value = 'AN answer'; panes[0].filter.dispatchEvent(new Event('input'))")
        page.wait("panes[0].hits.textContent == '1'")


@pytest.mark.thorough
def test_an_answer_that_comes_after_a_jump_is_dropped(project: Project, session: str, page: Browser) -> None:
    """Else events of another place stand among those that were jumped to."""
    with viewing(project) as view:
        opened(page, view, session)
        page.wait("panes[0].outline && panes[0].ended")
        place = page.run("panes[0].outline.turns[1].at")
        page.run(f"(async () => {{ const p = panes[0]; p.load(0); await p.load({place}); }})()")
        page.wait("panes[0].ended && !panes[0].loading")
        assert page.run("Math.min(...all('.events article').map((e) => Number(e.dataset.at)))") == place
        assert page.run("all('article.turn').map((e) => e.id).join()") == "turn-2"


@pytest.mark.thorough
def test_all_of_it_by_keyboard(project: Project, session: str, page: Browser) -> None:
    recorded(project, [{"text": "another answer about pelicans"}], "another question")
    with viewing(project) as view:
        opened(page, view)
        page.press("/")
        for key in "pelicans":
            page.press(key)
        page.wait("all('#list li').length == 2 && one('#list mark')?.textContent == 'pelicans'")
        page.press("ArrowDown")
        first = page.run("document.activeElement.dataset.open")
        page.press("ArrowUp")
        assert page.run("document.activeElement.id") == "search"
        page.press("ArrowDown")
        page.press("ArrowDown")
        assert page.run("document.activeElement.className") == "hit"
        page.press("Enter")
        page.wait("panes[0] && panes[0].outline")
        assert page.run("panes[0].key") == first
        assert page.run("document.activeElement === panes[0].body")
        page.run(f"openSession('0/{session}', 0)")
        page.wait(f"panes[0].key == '0/{session}' && panes[0].outline && one('#turn-2')")
        page.press("j")
        page.wait("panes[0].turnInView() == 2")
        page.press("k")
        page.wait("panes[0].turnInView() == 1")
        page.press("[")
        page.wait("Number(panes[0].slider.value) == panes[0].outline.events - 1")
        page.press("?")
        assert page.run("one('#keys').open")
        page.press("Escape")
        page.wait("!one('#keys').open")
        page.press("m")
        assert not page.run("one('#list').checkVisibility()")
        page.press("x")
        assert page.run("panes.length") == 0
        assert page.run("one('#list').checkVisibility()")
