"""Composes a `ChatModel`: the wires, wrapped by retries, wrapped by the dialect."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from coder.base.addons import addons, function
from coder.config import ConfigError
from coder.config.providers import KnownWire, Provider, other_provider
from coder.config.schema import Config
from coder.models import wires
from coder.models.dialect import AutoDialect, in_dialect
from coder.models.model import ChatModel, Chunk, ModelRequest, closing
from coder.models.retry import RetryingModel

if TYPE_CHECKING:
    from pathlib import Path

    from coder.models.wires.wire import HttpWire


Dialect = Literal["native", "react-xml", "guided", "auto"]
Wire = KnownWire


class ListingModel(ChatModel, Protocol):
    """A `ChatModel` that can say which models its server has."""

    async def list_models(self) -> list[str]: ...


class ByModel:
    """A `ChatModel` that reaches each model by its wire, which is made with the first request."""

    def __init__(self, wire_of: Callable[[str], Wire], make: Callable[[Wire], ListingModel]) -> None:
        self._wire_of = wire_of
        self._make = make
        self._wires: dict[Wire, ListingModel] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        name = self._wire_of(request.model)
        wire = self._wires.get(name) or self._wires.setdefault(name, self._make(name))
        async with closing(wire.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        for wire in self._wires.values():
            await wire.close()


def make_wire(
    wire: Wire,
    base_url: str,
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_ms: int = 120_000,
    *,
    names: Sequence[str] = (),
) -> HttpWire:
    """`names`: the variables or settings that key and address come from."""
    return _class_of(wire)(base_url, api_key, headers, timeout_ms, names=names)


def _class_of(wire: Wire) -> type[HttpWire]:
    """Imported lazily: only the wire in use is loaded."""
    if wire == "messages":
        return wires.messages_api.Messages
    if wire == "responses":
        return wires.responses.Responses
    if wire == "gemini":
        return wires.gemini.Gemini

    return wires.chat_completions.ChatCompletions


def local_wire(home: Path) -> ListingModel:
    """For models that coder serves itself; `home` has the fetched one."""
    for addon in addons():
        if path := addon.wires.get("local"):
            wire: ListingModel = function(path)(home)
            return wire
    raise ConfigError("config.no_local")


def make_model(
    base_url: str,
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_ms: int = 120_000,
    dialect: Dialect = "auto",
    *,
    wire_of: Callable[[str], Wire] = lambda model: "chat",
    dialect_of: Callable[[str], str] | None = None,
    found: Callable[[str, str], None] = lambda model, dialect: None,
    max_attempts: int = 5,
    names: Sequence[str] = (),
    home: Path | None = None,
    around: Callable[[ChatModel], ChatModel] | None = None,
    own: ChatModel | None = None,
) -> ChatModel:
    """`names`: the variables or settings of key and address. `wire_of`: the wire of a model at this address.
    `dialect_of`: what is known of a model, instead of `dialect` for all; `found` is told what is found.
    `around` wraps the wire, below the retries. `own`: instead of the wires, of an installed package."""

    def make(wire: Wire) -> ListingModel:
        if wire == "local" and home is not None:
            return local_wire(home)
        return make_wire(wire, base_url, api_key, headers, timeout_ms, names=names)

    wire: ChatModel = own or ByModel(wire_of, make)
    model = RetryingModel(around(wire) if around is not None else wire, max_attempts=max_attempts)

    if dialect_of is None and dialect != "auto":
        return in_dialect(model, dialect)
    return AutoDialect(model, dialect_of or (lambda model: "auto"), found)


ProviderChoice = tuple[Provider, Config, Mapping[str, str], Callable[[Provider], ChatModel]]
"""A session's provider, the settings and environment that name others, and what makes their `ChatModel`."""


class OtherProviders:
    """A `ChatModel` that reaches each model by the provider that was found for it, most by `own`.

    `model` is that of `own`; `make` makes the one of another provider.
    """

    def __init__(
        self,
        model: ChatModel,
        own: Provider,
        config: Config,
        environ: Mapping[str, str],
        make: Callable[[Provider], ChatModel],
    ) -> None:
        self._own = own
        self._config, self._environ = config, environ
        self._make = make
        self._providers: dict[str, Provider] = {}  # by model
        self._made = {own.name: model}  # by provider

    def provider_of(self, model: str) -> Provider:
        """The one that a model is reached by."""
        return self._providers.get(model, self._own)

    def find(self, model: str) -> Provider:
        """The one that a model's name belongs to. Raises `ConfigError` where the settings are for one
        provider alone."""
        return other_provider(self._config, self._environ, self._own, model) or self._own

    def reach(self, model: str, provider: Provider) -> None:
        self._providers[model] = provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        provider = self.provider_of(request.model)
        if provider.name not in self._made:
            self._made[provider.name] = self._make(provider)
        async with closing(self._made[provider.name].stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        for model in self._made.values():
            await model.close()
