"""Money: every request is on the account of its turn and session; none is sent that would pass the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coder.config import prices as list_prices
from coder.protocol.events import CommandDone, Failed, Notice, StateChanged, TurnEnded
from coder.protocol.messages import Usage
from coder.protocol.ops import Cancel, UserInput
from kit import Chaos, ScriptedServer
from kit.driving import Driver, Project, drive, of, play
from kit.wire import by_place, main_chats, prompt_tokens, side_requests, words

LIST = {"name": "list", "arguments": {}}
OPEN = "tell me about the history of this repository and its main authors"
PRICE = {"input": 10.0, "cached_input": 1.0, "output": 20.0}
PRICES = dict.fromkeys(("scripted", "small", "big"), PRICE)
DEAR = {"scripted": {"input": 10.0, "output": 1_000.0}}


def usage(prompt: int, completion: int = 0, cached: int = 0) -> dict[str, Any]:
    counted: dict[str, Any] = {
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion
    }  # fmt: skip
    return {**counted, "prompt_tokens_details": {"cached_tokens": cached}} if cached else counted


def configure(project: Project, **budget: Any) -> None:
    project.configure(
        budget={"prices": PRICES, **budget},
        workflow={"require_todo_for_complex": False},
        routing={"fast": "small", "strong": "big"},
        runtime={"context_window": 9_000},
    )


def spent(project: Project) -> list[float]:
    return [e["meta"]["cost_usd"] for e in project.of_type("turn_end")]


def test_the_engines_own_questions_are_on_the_account_of_their_turn(project: Project) -> None:
    configure(project)
    script = by_place(
        [
            {"text": "Let me look.", "usage": usage(1_000)},
            {"text": words(1_800), "usage": usage(1_000)},
            {"text": "ok", "usage": usage(1_000)},
        ],
        routing={"text": "SIMPLE", "usage": usage(100)},
        next_speaker={"text": "MODEL", "usage": usage(200)},
        summary={"text": "short", "usage": usage(500, 50)},
    )
    driver = play(project, script, [OPEN, "hi"], model="auto")
    first = (100 + 1_000 + 200 + 1_000) * 10 / 1e6
    second = (500 + 1_000) * 10 / 1e6 + 50 * 20 / 1e6
    assert spent(project) == [pytest.approx(first), pytest.approx(second)]
    tokens = [e["meta"]["tokens"]["prompt"] for e in project.of_type("turn_end")]
    assert tokens == [2_300, 1_500]
    session = driver.engine.agent.session
    assert session.meter.budget.spent == pytest.approx(first + second)
    assert of(driver.seen, StateChanged)[-1].cost_usd == pytest.approx(first + second)
    again = play(project, [], ["/budget"], resume=session.id)
    assert again.engine.agent.session.meter.budget.spent == pytest.approx(first + second)


def test_cached_and_uncached_tokens_are_told_apart(project: Project) -> None:
    configure(project)
    driver = play(project, [{"text": "a", "usage": usage(1_000, 10, cached=900)}], ["hi", "/status"])
    (answer,) = project.of_type("assistant")
    assert answer["meta"]["tokens"]["prompt"] == 1_000
    assert answer["meta"]["tokens"]["cached"] == 900
    assert answer["meta"]["cost_usd"] == pytest.approx((100 * 10 + 900 * 1 + 10 * 20) / 1e6)
    assert "900" in of(driver.seen, CommandDone)[0].text


@pytest.mark.parametrize(("own", "price"), [({}, 12.5), ({"cache_write": 20.0}, 20.0)])
def test_what_goes_into_the_providers_cache_costs_more(
    project: Project, own: dict[str, float], price: float
) -> None:
    prices = {"claude": {"input": 10.0, "cached_input": 1.0, "output": 20.0, **own}}
    project.configure(budget={"prices": prices}, provider={"wire": "messages"})
    counted = {"input_tokens": 100, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 600}
    with Chaos([{"text": "a", "usage": counted}], wire="messages") as server:
        drive(project, server.url, ["hi"], model="claude-opus-5")
    (answer,) = project.of_type("assistant")
    tokens = answer["meta"]["tokens"]
    assert (tokens["prompt"], tokens["cached"], tokens["written"]) == (1_000, 600, 300)
    cost = (100 * 10 + 300 * price + 600 * 1 + tokens["completion"] * 20) / 1e6
    assert answer["meta"]["cost_usd"] == pytest.approx(cost)


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    """A server at an address that the list prices are for."""
    with Chaos([{"text": "a", "usage": usage(1_000, 10, cached=900)}] * 3) as server:
        monkeypatch.setitem(list_prices._TABLE, server.url, {"gpt-5.5": (5, 0.5, 30)})
        yield server


def test_list_prices_count_where_the_vendors_own_api_is_asked(project: Project, vendor: Chaos) -> None:
    driver = drive(project, vendor.url, ["hi", "/status", "/budget"], model="gpt-5.5")
    (answer,) = project.of_type("assistant")
    cost = (100 * 5 + 900 * 0.5 + 10 * 30) / 1e6
    assert answer["meta"]["cost_usd"] == pytest.approx(cost)
    for done in of(driver.seen, CommandDone):
        assert f"{cost:.4f} USD spent, no budget set. By list prices of 2026-11" in " ".join(
            done.text.split("\n")
        )


def test_a_budget_holds_with_list_prices(project: Project, vendor: Chaos) -> None:
    project.configure(budget={"max_usd": 0.03})
    driver = drive(project, vendor.url, ["/budget", words(6_000)], model="gpt-5.5")
    assert not of(driver.seen, Notice)
    assert of(driver.seen, Failed)[0].code == "budget"
    assert vendor.chats == []


@pytest.mark.parametrize("prices", [{"gpt-5.5": PRICE}, {"gpt": PRICE}])
def test_the_persons_price_comes_before_the_list(
    project: Project, vendor: Chaos, prices: dict[str, Any]
) -> None:
    project.configure(budget={"prices": prices})
    driver = drive(project, vendor.url, ["hi", "/status"], model="gpt-5.5")
    (answer,) = project.of_type("assistant")
    assert answer["meta"]["cost_usd"] == pytest.approx((100 * 10 + 900 * 1 + 10 * 20) / 1e6)
    assert "list prices" not in of(driver.seen, CommandDone)[0].text


def test_another_server_with_a_model_of_that_name_has_no_list_price(project: Project) -> None:
    driver = play(project, [{"text": "a", "usage": usage(1_000)}], ["hi", "/status"], model="gpt-5.5")
    (answer,) = project.of_type("assistant")
    assert "cost_usd" not in answer["meta"]
    assert "not counting gpt-5.5 (no price in budget.prices)" in of(driver.seen, CommandDone)[0].text


@pytest.mark.parametrize(
    ("wire", "counted"),
    [
        (
            "chat",
            {
                "prompt_tokens": 1_000,
                "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
            },
        ),
        (
            "responses",
            {
                "input_tokens": 1_000,
                "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
            },
        ),
    ],
)
def test_what_goes_into_openais_cache_costs_more(
    project: Project, wire: str, counted: dict[str, Any]
) -> None:
    project.configure(budget={"prices": {"gpt": PRICE}}, provider={"wire": wire})
    with Chaos([{"text": "a", "usage": counted}], wire=wire) as server:
        drive(project, server.url, ["hi"], model="gpt-6-sol")
    (answer,) = project.of_type("assistant")
    tokens = answer["meta"]["tokens"]
    assert (tokens["prompt"], tokens["cached"], tokens["written"]) == (1_000, 600, 300)
    cost = (100 * 10 + 300 * 12.5 + 600 * 1 + tokens["completion"] * 20) / 1e6
    assert answer["meta"]["cost_usd"] == pytest.approx(cost)


def test_what_tools_added_since_the_last_count_is_in_the_estimate(project: Project) -> None:
    """The provider counted 50 tokens; the file that was read since has thousands."""
    project.write("big.txt", words(500).replace(" ", "\n"))
    configure(project, max_usd=0.03)
    read = {"calls": [{"name": "read", "arguments": {"path": "big.txt"}}], "usage": usage(50)}
    driver = play(project, by_place([read, {"text": "ok", "usage": usage(5_000)}]), ["go"])
    assert len(driver.chats) == 1
    assert of(driver.seen, Failed)[0].code == "budget"
    session = driver.engine.agent.session
    limit = session.meter.budget.limit
    assert limit is not None
    assert session.meter.budget.spent <= limit


@pytest.mark.parametrize("place", ["routing", "next_speaker", "summary"])
def test_a_question_of_the_engine_that_would_pass_it_is_not_asked(project: Project, place: str) -> None:
    configure(project, max_usd=1.0)
    almost = usage(99_999)  # one more token is one too many
    main: list[dict[str, Any]] = [{"text": words(1_800) + " Let me look.", "usage": almost}, {"text": "ok"}]
    driver = play(
        project,
        by_place(main, next_speaker={"text": "MODEL"}, routing={"text": "SIMPLE"}),
        ["hi", OPEN],
        model="auto",
    )
    assert side_requests(driver, place) == []
    assert len(main_chats(driver)) == 1
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok", "error"]
    assert of(driver.seen, Failed)[-1].code == "budget"


def test_subagents_at_the_same_time_cannot_pass_it_together(project: Project) -> None:
    """Each alone would fit; what is under way counts as spent."""
    configure(project, max_usd=0.10)
    objective = f"dig {words(400)}"
    tasks = [{"name": "task", "arguments": {"agent": "explore", "objective": objective}} for _ in range(6)]
    sizes: list[int] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "You are a subagent" not in request["messages"][0]["content"]:
            return main.pop(0)
        sizes.append(prompt_tokens(request))
        return {"text": "found", "usage": usage(sizes[-1]), "delay": 0.02}

    main: list[dict[str, Any]] = [
        {"calls": tasks, "usage": usage(1_000)},
        {"text": "end", "usage": usage(1_000)},
    ]
    driver = play(project, by_place([answer] * 20), ["go"], mode="yolo", preset="yolo")
    budget = driver.engine.agent.session.meter.budget
    assert budget.limit == 0.10
    assert budget.spent <= budget.limit
    assert 1 <= len(sizes) < 6
    refused = [e for e in project.of_type("observation") if not e["meta"]["ok"]]
    assert len(refused) == 6 - len(sizes)
    assert all("budget" in e["content"] for e in refused)


def test_a_subagents_money_is_its_parents_also_after_a_resume(project: Project) -> None:
    configure(project)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "You are a subagent" in request["messages"][0]["content"]:
            return {"text": "Let me look.", "usage": usage(2_000)}
        return main.pop(0)

    task = {"name": "task", "arguments": {"agent": "explore", "objective": "dig"}}
    main: list[dict[str, Any]] = [
        {"calls": [task], "usage": usage(1_000)},
        {"text": "end", "usage": usage(1_000)},
    ]
    script = by_place([answer] * 9, next_speaker={"text": "USER", "usage": usage(300)})
    driver = play(project, script, ["go"], mode="yolo", preset="yolo")
    total = (1_000 + 2_000 + 300 + 1_000) * 10 / 1e6
    assert spent(project) == [pytest.approx(total)]
    again = play(project, [], ["/budget"], resume=driver.engine.agent.session.id)
    assert again.engine.agent.session.meter.budget.spent == pytest.approx(total)
    assert again.engine.agent.session.meter.usage.prompt == 4_300


def test_an_answer_that_was_cut_off_is_paid_for(project: Project) -> None:
    configure(project)

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.start()
        driver.engine.submit(UserInput("go"))

        def watch(event: Any) -> None:
            if type(event).__name__ == "Content":
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        await driver.close()
        return driver

    with ScriptedServer([{"text": words(200), "delay": 0.01}]) as server:
        driver = asyncio.run(scenario(server.url))
    (answer,) = project.of_type("assistant")
    assert answer["meta"]["partial"] is True
    assert answer["meta"]["tokens"]["source"] == "local"
    assert answer["meta"]["cost_usd"] > 0
    assert driver.engine.agent.session.meter.budget.spent == answer["meta"]["cost_usd"]
    assert spent(project) == [answer["meta"]["cost_usd"]]


def test_it_is_set_and_taken_away_by_command(project: Project) -> None:
    configure(project, prices=DEAR)
    one = {"text": "ok", "usage": usage(1_000, 1_980)}  # 1.99 USD
    inputs = [
        "/budget 2.00",
        "hi",
        "hi",
        "/budget $5",
        "hi",
        "/budget off",
        "hi",
        "/budget",
        "/budget -1",
        "/budget x",
    ]
    driver = play(project, by_place([one] * 9), inputs)
    said = [event.text for event in of(driver.seen, CommandDone)]
    assert "2.00" in said[0]
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok", "error", "ok", "ok"]
    assert "no budget" in said[3]
    assert [event.ok for event in of(driver.seen, CommandDone)] == [True] * 4 + [False] * 2


def test_a_warning_at_four_fifths_once_and_a_model_without_a_price_is_said_once(project: Project) -> None:
    configure(project, max_usd=1.0, prices=DEAR)
    script = by_place([{"text": "ok", "usage": usage(1_000, done)} for done in (780, 10, 10, 10)])
    driver = play(project, script, ["hi"] * 4)
    assert [e.text for e in of(driver.seen, Notice)] == ["0.8100 of 1.00 USD of the budget are spent."]
    script = by_place([{"text": "ok", "usage": usage(1_000, 900)}] * 3)
    other = play(project, script, ["hi", "hi", "/model scripted", "hi"], model="unpriced")
    told = [e.text for e in of(other.seen, Notice) if "no price for unpriced" in e.text]
    assert len(told) == 1
    assert [e.status for e in of(other.seen, TurnEnded)] == ["ok"] * 3


def test_a_limit_for_a_model_without_a_price_is_said_at_once(project: Project) -> None:
    configure(project)
    driver = play(project, [{"text": "ok"}] * 2, ["/budget 2", "hi", "/budget off"], model="unpriced")
    said = [event.text for event in of(driver.seen, CommandDone)]
    assert said[0].startswith("Not set: there is no price for unpriced")
    assert driver.engine.agent.session.meter.budget.limit is None
    assert not [e for e in of(driver.seen, Notice) if "no price" in e.text]  # none is to be kept
    assert "not counting unpriced (no price" in said[1]
    routed = play(project, [], ["/budget 2"], model="auto")
    assert "no price" not in of(routed.seen, CommandDone)[0].text  # both of its models have one
    project.configure(budget={"prices": {}}, routing={"fast": "small", "strong": "big"})
    routed = play(project, [], ["/budget 2", "/status"], model="auto")
    told, status = (event.text for event in of(routed.seen, CommandDone))
    assert "Not set: there is no price for small, big" in told
    (line,) = (line for line in status.split("\n") if line.startswith("budget"))
    assert "not counting small, big (no price" in line
    project.configure(
        budget={"prices": {"big": {"input": 1, "output": 1}}}, routing={"fast": "small", "strong": "big"}
    )
    routed = play(project, [], ["/budget 2"], model="auto")
    (told,) = (event.text for event in of(routed.seen, CommandDone))
    assert "of 2.00 USD" in told
    assert "no price for small" in told


def test_more_cached_tokens_than_there_were_are_not_charged(project: Project) -> None:
    configure(project)
    driver = play(project, [{"text": "a", "usage": usage(1_000, 10, cached=5_000)}], ["hi"])
    (answer,) = project.of_type("assistant")
    assert answer["meta"]["tokens"]["cached"] == 1_000
    assert answer["meta"]["cost_usd"] == pytest.approx((1_000 * 1 + 10 * 20) / 1e6)
    budget = driver.engine.agent.session.meter.budget
    odd = Usage(prompt=1_000, completion=0, total=1_000, cached=5_000)  # as an older record may have it
    assert budget.cost("scripted", odd) == pytest.approx(1_000 / 1e6)
