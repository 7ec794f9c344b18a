"""`coder models`: the providers that are set up and their models, with what is known or guessed of each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from coder.base.text import shown
from coder.cli.common import columns, parser_for, settings_from
from coder.config.models import context_window_of, dialect_of, sees_images, window_for
from coder.config.prices import READ
from coder.config.providers import KNOWN, Provider, resolve_provider, wire_of
from coder.config.schema import Config, Price, price_of
from coder.engine.setup import Settings, listed_models, provider_of
from coder.models.model import ModelError
from coder.ui.streams import Exit, show, show_json

_REACH_SECONDS = 5


class Row(msgspec.Struct, frozen=True):
    """A model of a provider. `in_use`: it answers now. Not `window_known`: the window is a guess. `listed`:
    the price is the vendor's list price, of prompts that are not long. `images` None: not known, they are
    tried."""

    provider: str
    model: str
    in_use: bool
    wire: str
    context_window: int
    window_known: bool
    price: Price | None
    listed: bool
    dialect: str
    keeps_reasoning: bool
    images: bool | None


def run(arguments: list[str]) -> int:
    parser = parser_for("models", arguments)
    parser.options.add_argument("--json", action="store_true", help=parser.say("cli.help.json_object"))
    options, settings = settings_from(parser.parse_args(arguments))
    provider = provider_of(options, settings)
    names, problem = _listed(provider, settings)
    rows = [_row(settings, provider, name, name == (provider.model or names[0])) for name in names]
    rows += [_row(settings, other, other.model, False) for other in _others(provider, options.environ)]
    if "--json" in arguments:
        found: dict[str, Any] = {"models": rows, **({"problem": problem} if problem else {})}
        show_json(found)
        return Exit.ANSWERED
    for line in (*_table(rows, settings), *([problem] if problem else [])):
        show(line, fit=True)
    return Exit.ANSWERED


def _listed(provider: Provider, settings: Settings) -> tuple[list[str], str]:
    """The model in use, those named in the settings, then those that the server lists, or why it does not."""
    config, problem, listed = settings.loaded.config, "", list[str]()
    try:
        listed = asyncio.run(listed_models(provider, _REACH_SECONDS, settings.home))
    except ModelError as error:
        problem = error.text(settings.texts)
    except TimeoutError:
        problem = settings.texts.say("cli.doctor.no_answer", seconds=_REACH_SECONDS)
    named = [provider.model, config.routing.fast, config.routing.strong, *config.provider.models]
    names = list(dict.fromkeys(name for name in (*named, *listed) if name and name != "auto"))
    return names or ["default"], problem


def _others(current: Provider, environ: Mapping[str, str]) -> Iterator[Provider]:
    """Further providers whose own variables are set, each with its default model."""
    for known in KNOWN:
        variables = (known.key_variable, known.base_variable, known.model_variable)
        own = {name: environ[name] for name in variables if environ.get(name, "").strip()}
        if known.name != current.name and (known.key_variable in own or known.base_variable in own):
            provider = resolve_provider(Config(), own)
            if provider.model:
                yield provider


def _row(settings: Settings, provider: Provider, model: str, in_use: bool) -> Row:
    config = settings.loaded.config
    own = config.provider.models.get(model)
    told = config.runtime.context_window or (own.context_window if own else None)
    wire = wire_of(provider, model)
    prices = config.budget.prices
    return Row(
        provider=provider.name,
        model=model,
        in_use=in_use,
        wire=wire,
        context_window=window_for(config, model),
        window_known=bool(told or context_window_of(model)),
        price=(price := price_of(prices, model, provider.base_url)),
        listed=price is not None and price_of(prices, model, "") is None,
        dialect=dialect_of(config, settings.home, provider.base_url, model),
        keeps_reasoning=wire != "chat",
        images=sees_images(config, model),
    )


def _table(rows: list[Row], settings: Settings) -> Iterator[str]:
    say = settings.texts.say
    names = ("provider", "model", "wire", "window", "price", "dialect", "images")
    head = [say(f"cli.models.{name}") for name in names]
    cells = [
        [
            row.provider,
            shown(row.model) + (" *" if row.in_use else ""),
            row.wire,
            f"{row.context_window}{'' if row.window_known else '?'}",
            _shown(row.price),
            row.dialect,
            "?" if row.images is None else say(f"cli.models.{'sees' if row.images else 'blind'}"),
        ]
        for row in rows
    ]
    yield from columns([head, *cells])
    if not all(row.window_known for row in rows):
        yield say("cli.models.guessed", window=next(r.context_window for r in rows if not r.window_known))
    if any(row.listed for row in rows):
        yield say("cli.models.listed", month=READ)
    if unpriced := next((row.model for row in rows if row.price is None), ""):
        yield say("cli.models.no_price", model=unpriced, file=settings.home / "config.json")


def _shown(price: Price | None) -> str:
    if price is None:
        return "–"
    cached = price.input if price.cached_input is None else price.cached_input
    return f"{price.input:g} / {cached:g} / {price.output:g}"
