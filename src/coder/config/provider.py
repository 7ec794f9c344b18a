"""Resolve the provider: URL, key and model, from the configuration and the providers' own variables.

The merged settings (`load`) come first, then the first provider of the table whose variables are set. A key
is sent only to the provider it belongs to: a custom URL gets the key configured with it, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from coder.config.address import check_address, host_of
from coder.config.errors import ConfigError
from coder.config.headers import is_header_value
from coder.config.models import tokenizer_of
from coder.config.schema import Config

LOCAL_EXAMPLE: Final = "http://127.0.0.1:11434/v1"


class Provider(msgspec.Struct, frozen=True):
    """`base_url` has no trailing slash. `model` is empty where the server must be asked for its models, and
    `"auto"` where routing chooses."""

    name: str
    base_url: str
    api_key: str = ""
    model: str = ""
    headers: dict[str, str] = {}
    tokenizer: str = ""
    key_from: str = ""  # the variable or setting that holds the key
    base_from: str = ""  # the same for a custom URL

    def __repr__(self) -> str:
        """Omits key and headers, so that logs cannot leak them."""
        return f"Provider(name={self.name!r}, base_url={self.base_url!r}, model={self.model!r})"


class NoProvider(ConfigError):
    """No provider is configured; the message says what to set, and names `coder demo`."""

    def __init__(self) -> None:
        keys = ", ".join(["CODER_API_KEY", *(known.key_variable for known in KNOWN[:3]), "…"])
        super().__init__("config.no_provider", keys=keys, example=LOCAL_EXAMPLE)


class KnownProvider(msgspec.Struct, frozen=True):
    """A known service with a Chat Completions API at `base_url`, and its variables."""

    name: str
    base_url: str
    model: str
    key_prefix: str = ""
    models: tuple[str, ...] = ()  # prefixes of its model names
    own_base_variable: str = ""
    tail: str = ""  # the path that its base variable omits

    @property
    def key_variable(self) -> str:
        return f"{self.name.upper()}_API_KEY"

    @property
    def base_variable(self) -> str:
        return self.own_base_variable or f"{self.name.upper()}_BASE_URL"

    @property
    def model_variable(self) -> str:
        return f"{self.name.upper()}_MODEL"


KNOWN: Final = (
    KnownProvider("openai", "https://api.openai.com/v1", "gpt-5.5", models=("gpt-", "o1", "o3", "o4")),
    KnownProvider(
        "anthropic",
        "https://api.anthropic.com/v1",
        "claude-sonnet-5-5",
        key_prefix="sk-ant-",
        models=("claude",),
        tail="/v1",
    ),
    KnownProvider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-pro-latest",
        own_base_variable="GOOGLE_GEMINI_BASE_URL",
        key_prefix="AIza",
        models=("gemini", "gemma"),
        tail="/v1beta/openai",
    ),
    KnownProvider("openrouter", "https://openrouter.ai/api/v1", "openrouter/auto", key_prefix="sk-or-"),
    KnownProvider("deepseek", "https://api.deepseek.com/v1", "deepseek-v4-pro", models=("deepseek",)),
    KnownProvider("groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", key_prefix="gsk_"),
    KnownProvider(
        "mistral",
        "https://api.mistral.ai/v1",
        "mistral-large-latest",
        models=("mistral", "ministral", "codestral", "devstral", "magistral"),
    ),
    KnownProvider("xai", "https://api.x.ai/v1", "grok-4", key_prefix="xai-", models=("grok",)),
    KnownProvider("moonshot", "https://api.moonshot.ai/v1", "kimi-k2.6", models=("kimi", "moonshot")),
    KnownProvider(
        "dashscope",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "qwen3-coder-plus",
        models=("qwen", "qwq"),
    ),
    KnownProvider("zai", "https://api.z.ai/api/paas/v4", "glm-5.2", models=("glm",)),
)


def resolve_provider(config: Config, environ: Mapping[str, str]) -> Provider:
    """Raises `NoProvider` or another `ConfigError`."""
    own = config.provider
    base = own.base_url or _value(environ, "CODER_BASE_URL")
    key = own.api_key or _value(environ, "CODER_API_KEY")
    model = own.model or _value(environ, "CODER_MODEL")
    if base:
        check_address(base, "provider.base_url (CODER_BASE_URL)")
        known = _by_host(base)
    elif key:
        known = _by_key(key)
    else:
        known = _by_environment(environ, model)
        if known is None:
            raise NoProvider
    base_from = _named(own.base_url, environ, "CODER_BASE_URL", "provider.base_url") if base else ""
    key_from = _named(own.api_key, environ, "CODER_API_KEY", "provider.api_key") if key else ""
    if not base and known:
        base = _address_of(known, environ)
        base_from = known.base_variable if _value(environ, known.base_variable) else ""
    is_theirs = known is not None and host_of(base) == host_of(known.base_url)
    if not key and known:
        key = _value(environ, known.key_variable)
        key_from = known.key_variable if key else ""
    if not model and known:
        model = _value(environ, known.model_variable) or (known.model if is_theirs else "")
    if not is_header_value(key):
        raise ConfigError("config.bad_header", where="provider.api_key (CODER_API_KEY, …)")
    return Provider(
        name=known.name if known else host_of(base),
        base_url=base.rstrip("/"),
        api_key=key,
        model=model,
        headers=own.headers,
        tokenizer=tokenizer_of(model),
        key_from=key_from,
        base_from=base_from,
    )


def _named(setting: str, environ: Mapping[str, str], variable: str, key: str) -> str:
    """The origin of a value: `load` has copied the variable into the setting."""
    return variable if not setting or setting == _value(environ, variable) else key


def _value(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable, "").strip()


def _by_host(base: str) -> KnownProvider | None:
    return next((known for known in KNOWN if host_of(known.base_url) == host_of(base)), None)


def _by_key(key: str) -> KnownProvider:
    matching = (known for known in KNOWN if known.key_prefix and key.startswith(known.key_prefix))
    return next(matching, KNOWN[0])


def _by_environment(environ: Mapping[str, str], model: str) -> KnownProvider | None:
    """The first configured provider, preferably the one of the requested model."""
    ready = [
        known
        for known in KNOWN
        if _value(environ, known.key_variable) or _value(environ, known.base_variable)
    ]
    fitting = [known for known in ready if known.models and model.lower().startswith(known.models)]
    return next(iter(fitting or ready), None)


def _address_of(known: KnownProvider, environ: Mapping[str, str]) -> str:
    """A provider's own base variable lacks the path that its client adds."""
    base = _value(environ, known.base_variable).rstrip("/")
    if not base:
        return known.base_url
    check_address(base, known.base_variable)
    return base if base.endswith(known.tail) else base + known.tail
