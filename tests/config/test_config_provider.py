"""Who answers, and that a key goes nowhere it does not belong."""

from __future__ import annotations

import pytest
from splintr import Tokenizer

from coder.config import ConfigError, models
from coder.config.models import context_window_of, tokenizer_of, window_for
from coder.config.providers import KNOWN, NoProvider, Provider, check_address, resolve_provider, wire_of
from coder.config.schema import Config, ProviderSection, RuntimeSection
from coder.texts import Catalog
from config.place import Place


def resolved(environ: dict[str, str], **provider: str) -> Provider:
    return resolve_provider(Config(provider=ProviderSection(**provider)), environ)  # type: ignore[arg-type]  # texts only


def test_no_provider_names_the_variables_and_the_demo() -> None:
    with pytest.raises(NoProvider) as caught:
        resolved({"PATH": "/bin", "OPENAI_API_KEY": " "})
    for lang in ("en", "zh"):
        said = caught.value.text(Catalog(lang))
        for name in ("CODER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CODER_BASE_URL", "coder demo"):
            assert name in said
        assert "http://127.0.0.1:11434/v1" in said


def test_a_local_server_needs_no_key_and_is_asked_for_its_models() -> None:
    provider = resolved({"CODER_BASE_URL": "http://127.0.0.1:11434/v1/"})
    assert provider == Provider(
        name="127.0.0.1",
        base_url="http://127.0.0.1:11434/v1",
        tokenizer="o200k_base",
        base_from="CODER_BASE_URL",
    )


@pytest.mark.parametrize("known", KNOWN, ids=[known.name for known in KNOWN])
def test_each_provider_by_its_own_key(known: object) -> None:
    entry = next(one for one in KNOWN if one is known)
    provider = resolved({entry.key_variable: "k1"})
    assert (provider.name, provider.base_url, provider.api_key) == (entry.name, entry.base_url, "k1")
    assert provider.model == entry.model
    check_address(provider.base_url, "table")
    assert resolved({entry.key_variable: "k1", entry.model_variable: "other"}).model == "other"


def test_the_order_of_providers() -> None:
    environ = {known.key_variable: f"key-of-{known.name}" for known in KNOWN}
    order = []
    while environ:
        provider = resolved(environ)
        assert provider.api_key == f"key-of-{provider.name}"
        order.append(provider.name)
        del environ[f"{provider.name.upper()}_API_KEY"]
    assert order[:4] == ["openai", "anthropic", "gemini", "openrouter"]
    assert len(order) == len(KNOWN)


def test_with_several_keys_the_model_asked_for_decides() -> None:
    environ = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
    assert resolved(environ, model="claude-opus-5-5").name == "anthropic"
    assert resolved(environ, model="unheard-of").name == "openai"


@pytest.mark.parametrize(
    ("variable", "value", "base_url"),
    [
        ("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1beta/openai"),
        ("GOOGLE_GEMINI_BASE_URL", "http://h/v1beta/openai", "http://h/v1beta/openai"),
        ("GOOGLE_GEMINI_BASE_URL", "http://h/v1beta/", "http://h/v1beta/openai"),
    ],
)
def test_a_providers_own_address_variable(variable: str, value: str, base_url: str) -> None:
    provider = resolved({variable: value})
    assert provider.base_url == base_url
    assert provider.model == ""  # its own default means nothing on somebody's server
    with pytest.raises(ConfigError, match=rf"^{variable} is "):
        resolved({variable: "nonsense"})


def test_own_settings_before_the_providers_variables() -> None:
    environ = {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://o/v1", "OPENAI_MODEL": "om"}
    provider = resolved(environ, base_url="http://mine/v1", api_key="mine", model="m")
    assert (provider.base_url, provider.api_key, provider.model) == ("http://mine/v1", "mine", "m")


def test_a_key_is_not_sent_to_another_address() -> None:
    environ = {known.key_variable: "secret" for known in KNOWN}
    assert resolved(environ, base_url="http://mine/v1").api_key == ""
    assert resolved(environ, base_url="https://api.openai.com.evil/v1").api_key == ""
    assert resolved({**environ, "MISTRAL_API_KEY": "m"}, base_url="https://api.mistral.ai/v1").api_key == "m"


@pytest.mark.parametrize(
    ("key", "name"),
    [("sk-1", "openai"), ("sk-ant-1", "anthropic"), ("sk-or-1", "openrouter"), ("gsk_1", "groq")],
)
def test_a_key_alone_tells_its_provider(key: str, name: str) -> None:
    provider = resolved({"CODER_API_KEY": key})
    assert (provider.name, provider.api_key) == (name, key)


def test_layers_reach_the_provider(place: Place) -> None:
    place.person({"provider": {"base_url": "http://file/v1", "model": "file", "headers": {"X-A": "b"}}})
    environ = {"CODER_MODEL": "env", "CODER_API_KEY": "k"}
    provider = resolve_provider(place.load(environ, {}).config, environ)
    assert (provider.base_url, provider.model, provider.api_key) == ("http://file/v1", "env", "k")
    assert provider.headers == {"X-A": "b"}
    flagged = resolve_provider(place.load(environ, {"provider.model": "flag"}).config, environ)
    assert flagged.model == "flag"


@pytest.mark.parametrize(
    ("environ", "model", "wire"),
    [
        ({"OPENAI_API_KEY": "k"}, "gpt-5.5", "responses"),
        ({"OPENAI_API_KEY": "k"}, "gpt-4o-search-preview", "chat"),
        ({"OPENAI_BASE_URL": "http://h/v1"}, "gpt-5.5", "chat"),
        ({"ANTHROPIC_API_KEY": "k"}, "claude-opus-5", "messages"),
        ({"ANTHROPIC_BASE_URL": "http://h"}, "any", "messages"),
        ({"GEMINI_API_KEY": "k"}, "gemini-3-pro", "gemini"),
        ({"GEMINI_API_KEY": "k"}, "gemma-3-27b-it", "chat"),
        ({"CODER_BASE_URL": "http://127.0.0.1:8000/v1"}, "claude-opus-5", "chat"),
        ({"CODER_BASE_URL": "https://anthropic.example/v1"}, "m", "chat"),
        ({"CODER_BASE_URL": "https://api.z.ai/api/anthropic"}, "glm-5", "messages"),
        ({"CODER_BASE_URL": "http://h/v1/responses"}, "m", "responses"),
        ({"CODER_BASE_URL": "https://x.openai.azure.com"}, "m", "responses"),
        ({"CODER_BASE_URL": "https://x.openai.azure.com?api-version=2024-10-21"}, "m", "chat"),
        ({"OPENROUTER_API_KEY": "k"}, "anthropic/claude-opus-5", "chat"),
    ],
)
def test_the_wire_follows_address_and_model(environ: dict[str, str], model: str, wire: str) -> None:
    assert wire_of(resolved(environ), model) == wire
    assert wire_of(resolved(environ, wire="gemini"), model) == "gemini"


def test_auto_stays_for_routing_to_decide() -> None:
    assert resolved({"OPENAI_API_KEY": "o"}, model="auto").model == "auto"


def test_bad_address_and_bad_key_are_sentences() -> None:
    with pytest.raises(ConfigError, match="CODER_BASE_URL"):
        resolved({}, base_url="host:80")
    with pytest.raises(ConfigError, match="header cannot carry") as caught:
        resolved({"OPENAI_API_KEY": "sk-\x00bad"})
    assert "sk-" not in str(caught.value)


def test_the_key_is_not_in_the_representation() -> None:
    assert "sk-secret" not in repr(resolved({"OPENAI_API_KEY": "sk-secret"}))


@pytest.mark.parametrize(
    ("model", "tokenizer", "window"),
    [
        ("gpt-4o-mini", "o200k_base", 128_000),
        ("gpt-4-0613", "cl100k_base", 8_192),
        ("gpt-4-turbo-2024-04-09", "cl100k_base", 128_000),
        ("gpt-4.1-nano", "o200k_base", 1_047_576),
        ("openai/gpt-oss-120b", "o200k_harmony", 131_072),
        ("claude-sonnet-4-5-20250929", "o200k_base", 200_000),
        ("claude-sonnet-5-5", "o200k_base", 1_000_000),
        ("anthropic/claude-opus-5.5", "o200k_base", 1_000_000),
        ("models/gemini-2.5-pro", "gemma3", 1_048_576),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3", 131_072),
        ("llama3:8b", "llama3", 8_192),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "qwen3", 32_768),
        ("qwen3-coder-plus", "qwen3", 1_000_000),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v3", 128_000),
        ("glm-4.6", "glm4", 202_752),
        ("kimi-k2.6", "kimi_k2", 262_144),
        ("kimi-k3", "kimi_k3", 1_000_000),
        ("mistral-large-latest", "mistral_v3", 131_072),
        ("my-own", "o200k_base", None),
        ("", "o200k_base", None),
    ],
)
def test_what_is_known_of_models(model: str, tokenizer: str, window: int | None) -> None:
    assert (tokenizer_of(model), context_window_of(model)) == (tokenizer, window)


@pytest.mark.thorough
def test_every_tokenizer_of_the_table_exists() -> None:
    for name in sorted({tokenizer for tokenizer, _ in models._KNOWN.values()}):
        assert Tokenizer.from_pretrained(name) is not None


def test_the_window_that_counts() -> None:
    assert window_for(Config(), "gpt-4o") == 128_000
    assert window_for(Config(), "gpt-4.1") == 1_047_576
    assert window_for(Config(), "my-own") == 128_000
    assert window_for(Config(runtime=RuntimeSection(context_window=5)), "gpt-4o") == 5
