"""Models of other providers than the one that a session began with: `/model` may name one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping

from coder.config.provider import Provider, other_provider
from coder.config.schema import Config
from coder.model.base import ChatModel, Chunk, ModelRequest, closing

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
