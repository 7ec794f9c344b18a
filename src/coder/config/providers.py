"""Resolve the provider: URL, key and model, from the configuration and the providers' own variables.

The merged settings (`load`) come first, then the first provider of the table whose variables are set. A key
is sent only to the provider it belongs to: a custom URL gets the key configured with it, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from coder.base.text import shown
from coder.config import ConfigError
from coder.config.models import LOCAL_MODEL, LOCAL_PREFIX, host_of, is_local, tokenizer_of
from coder.config.schema import Api, Config, Wire
from coder.texts import Text

_LONGEST_SHOWN: Final = 60
_NAME_EXTRA = frozenset("!#$%&'*+-.^_`|~")


def check_address(text: str, where: str) -> None:
    """Raise for an invalid URL; `where` is the setting or variable that holds it."""
    why = _problem(text)
    if why:
        # The userinfo may hold a password
        user, at, rest = text.rpartition("@")
        short = shown(f"…@{rest}" if at and user else text)[:_LONGEST_SHOWN]
        allowed = Text("config.expect_address", why=Text(why))
        raise ConfigError("config.bad_value", where=where, found=f'"{short}"', allowed=allowed)


def plugin_of(text: str) -> str:
    """The name of an installed package's provider, of an address such as `plugin:basket`; else empty."""
    name = text.removeprefix("plugin:")
    plain = name and name.isascii() and all(char.isalnum() or char in "._-" for char in name)
    return name if plain and name != text else ""


def _problem(text: str) -> str:
    if plugin_of(text):
        return ""
    if any(char.isspace() or not char.isprintable() for char in text):
        return "config.url_space"
    if not text.lower().startswith(("http://", "https://")):
        return "config.url_scheme"
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:  # an unclosed [ of an IPv6 address, or characters that normalise to : / ? # @
        return "config.url_host"
    try:
        port = parts.port
    except ValueError:
        return "config.url_port"
    if not host:
        return "config.url_host"
    return "config.url_port" if port == 0 else ""


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Raise for invalid names or values; `where` is the setting that holds them."""
    for name, value in headers.items():
        if not _is_name(name) or not is_header_value(value):
            raise ConfigError("config.bad_header", where=shown(f"{where}.{name}"))


def is_header_value(value: str) -> bool:
    """Printable ASCII and spaces: enough for keys and tokens."""
    return value.isascii() and value.isprintable()


def _is_name(name: str) -> bool:
    return bool(name) and name.isascii() and all(c.isalnum() or c in _NAME_EXTRA for c in name)


LOCAL_EXAMPLE: Final = "http://127.0.0.1:11434/v1"
LOCAL_URL: Final = "http://127.0.0.1/"  # of a model that coder serves itself, whose port is not known yet


class Provider(msgspec.Struct, frozen=True):
    """`model` is empty if the server must be asked for its models, `"auto"` if routing chooses."""

    name: str
    base_url: str
    api_key: str = ""
    model: str = ""
    headers: dict[str, str] = {}
    tokenizer: str = ""
    wire: Wire = "auto"
    key_from: str = ""  # the variable or setting that holds the key
    base_from: str = ""  # the same for a custom URL
    factory: str = ""  # where an installed package makes its own model: `module:attribute`

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

KnownWire = Literal[Api, "local"]
_BY_ENDING: Final[dict[str, KnownWire]] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
}
AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_SECRET_WORDS: Final = ("auth", "key", "token", "secret", "cookie", "sig", "code", "pass")
_CHAT_ONLY: Final = ("gpt-3.5", "gpt-4-", "gpt-4o-search", "gpt-4o-mini-search", "gpt-4o-audio", "gpt-audio")

_PROVIDERS_VARIABLES: Final = {"CODER_API_KEY", *(known.key_variable for known in KNOWN)}
_SHORTEST_KEY: Final = 8  # shorter ones are placeholders for servers that want none, and ordinary words


def resolve_provider(config: Config, environ: Mapping[str, str]) -> Provider:
    """Raises `NoProvider` or another `ConfigError`."""
    own = config.provider
    base = own.base_url or _value(environ, "CODER_BASE_URL")
    key = own.api_key or _value(environ, "CODER_API_KEY")
    model = own.model or _value(environ, "CODER_MODEL")
    if is_local(model) and (not base or model != LOCAL_MODEL):
        return Provider(LOCAL_MODEL, LOCAL_URL, model=model, tokenizer=tokenizer_of(model))
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
    if not key and (plugin := plugin_of(base)):
        variable = _letters(plugin) + "_API_KEY"
        key = _value(environ, variable)
        key_from = variable if key else ""
    if not model and known:
        model = _value(environ, known.model_variable) or (known.model if is_theirs else "")
    if not is_header_value(key):
        raise ConfigError("config.bad_header", where="provider.api_key (CODER_API_KEY, …)")
    return Provider(
        name=known.name if known else host_of(base) or plugin_of(base),
        base_url=base.rstrip("/"),
        api_key=key,
        model=model,
        headers=own.headers,
        tokenizer=tokenizer_of(model),
        wire=own.wire,
        key_from=key_from,
        base_from=base_from,
    )


def other_provider(
    config: Config, environ: Mapping[str, str], current: Provider, model: str
) -> Provider | None:
    """The other provider that the model's name belongs to, unless one is set. Raises `ConfigError`."""
    set_for_all = {"provider.base_url", "CODER_BASE_URL", "provider.api_key", "CODER_API_KEY"}
    known = _by_environment(environ, model)
    if known is None or known.name == current.name or not model.lower().startswith(known.models):
        return None
    if current.factory or {current.base_from, current.key_from} & set_for_all:
        return None
    own = config.provider
    if own.wire != "auto" or secrets_of("", own.headers):
        raise ConfigError("model.elsewhere", model=model, provider=known.name)
    own = msgspec.structs.replace(own, model=model)
    return resolve_provider(msgspec.structs.replace(config, provider=own), environ)


def wire_of(provider: Provider, model: str) -> KnownWire:
    """The API to reach this model by: what is set, what the address ends with, or the service's own. Unknown
    servers get Chat Completions, which nearly all have. `local` is ours, unless an address is set: then it is
    a model of that server."""
    if (
        provider.name == LOCAL_MODEL
        or model.startswith(LOCAL_PREFIX)
        or (model == LOCAL_MODEL and not provider.base_from)
    ):
        return "local"
    if provider.wire != "auto":
        return provider.wire
    address, _, query = provider.base_url.partition("?")
    for end, wire in _BY_ENDING.items():
        if address.endswith(end):
            return wire
    host = host_of(provider.base_url)
    path = address.partition("://")[2].partition("/")[2]
    if provider.name == "anthropic" or "anthropic" in path.split("/"):
        return "messages"
    if provider.name == "gemini" and (not model or model.lower().startswith("gemini")):
        return "gemini"
    speaks_responses = host == host_of(KNOWN[0].base_url) or (
        host.endswith(AZURE_HOSTS) and not query and "deployments" not in path
    )
    return "responses" if speaks_responses and not model.lower().startswith(_CHAT_ONLY) else "chat"


def without_ending(base_url: str, kept: str) -> str:
    """Without the path of another API than `kept`, where `provider.wire` says otherwise than the address."""
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    ending = next((end for end in _BY_ENDING if end != kept and base.endswith(end)), "")
    return base.removesuffix(ending) + mark + query if ending else base_url


def is_azure(base_url: str) -> bool:
    """Whether an address is, or is modelled on, one of Azure's."""
    base, _, query = base_url.partition("?")
    host = base.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.endswith(AZURE_HOSTS) or "api-version=" in query


def azure_base(base_url: str, model: str = "") -> str:
    """A bare Azure address completed: the model's deployment if it has an `api-version`, else the v1 API."""
    base, mark, query = base_url.strip().partition("?")
    host, _, path = base.rstrip("/").partition("://")[2].partition("/")
    if not is_azure(base_url) or path not in ("", "openai"):
        return base_url
    root = f"{base.partition('://')[0]}://{host}/openai"
    if not query:
        return f"{root}/v1"
    return f"{root}/deployments/{model}{mark}{query}" if model else root + mark + query


def secrets_of(base_url: str, headers: Mapping[str, str]) -> list[str]:
    """The secrets in headers and in an address (its userinfo and query), as they are sent and decoded."""
    found = [value for name, value in headers.items() if _names_secret(name)]
    found += [value.rpartition(" ")[2] for value in found]  # `Bearer …`
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return found
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found.append(password or user)
    queried = (one.partition("=") for one in parts.query.split("&"))
    found += [value for name, _, value in queried if _names_secret(name)]
    return [secret for secret in dict.fromkeys([*found, *map(unquote, found)]) if secret]


def own_keys(environ: Mapping[str, str], provider: Provider) -> list[str]:
    """Every API key in the environment, in headers and in the address."""
    named = [value for name, value in environ.items() if name.endswith("_API_KEY")]
    return _longest_first([*named, *provider_keys(environ, provider)])


def provider_keys(environ: Mapping[str, str], provider: Provider) -> list[str]:
    """The keys of model providers among them."""
    named = [value for name, value in environ.items() if name in _PROVIDERS_VARIABLES]
    return _longest_first([provider.api_key, *named, *secrets_of(provider.base_url, provider.headers)])


def _longest_first(keys: Sequence[str]) -> list[str]:
    return sorted({key for key in keys if len(key) >= _SHORTEST_KEY}, key=len, reverse=True)


def child_environment(environ: Mapping[str, str], provider: Provider) -> dict[str, str]:
    """Environment of the model's commands: without provider keys, and with pagers disabled."""
    keys = own_keys(environ, provider)
    kept = {
        name: value
        for name, value in environ.items()
        if not name.endswith("_API_KEY")
        and not any(key in value for key in keys)
        and (not provider.api_key or value != provider.api_key)
    }
    return {**kept, "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def expandable_env(environ: Mapping[str, str], provider: Provider) -> dict[str, str]:
    """Variables that an MCP server's settings may reference: all but the keys of model providers."""
    keys = provider_keys(environ, provider)
    return {
        name: value
        for name, value in environ.items()
        if name not in _PROVIDERS_VARIABLES and not any(key in value for key in keys)
    }


def _names_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)


def _named(setting: str, environ: Mapping[str, str], variable: str, key: str) -> str:
    """The origin of a value: `load` has copied the variable into the setting."""
    return variable if not setting or setting == _value(environ, variable) else key


def _letters(name: str) -> str:
    """A name as part of a variable's."""
    return "".join(char if char.isalnum() else "_" for char in name).upper()


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
    parts = known.tail.split("/")[1:]
    for count in range(len(parts), 0, -1):  # it may have the beginning of that path: `/v1beta`
        if base.endswith("/" + "/".join(parts[:count])):
            return "/".join([base, *parts[count:]])
    return base + known.tail
