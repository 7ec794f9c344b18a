"""Tokenizer and context window of models, and whether they see images, by name.

Names carry vendor, date, size and quantisation; the longest known prefix matches. Unknown models use
o200k_base and `runtime.context_window` or the default.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from coder.base.files import locked, make_private, write_durably
from coder.config import ConfigError
from coder.config.files import read_bounded
from coder.config.schema import DEFAULT_CONTEXT_WINDOW, Config

DEFAULT_TOKENIZER: Final = "o200k_base"
# Models that coder serves itself: `local` is what `coder local` has fetched, `local:PATH` a GGUF file.
LOCAL_PREFIX: Final = "local:"
LOCAL_MODEL: Final = "local"
LOCAL_NAME: Final = "Qwen2.5-Coder-1.5B-Instruct"
LOCAL_FILE: Final = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
LOCAL_SIZE: Final = 1_117_320_768  # bytes
LOCAL_WINDOW: Final = 16_384  # tokens that a served model gets; its KV cache is allocated at once
SMALL: Final = 4.0  # billions of parameters up to which a model is helped by the dialect `guided`

# Prefix of the name: tokenizer (as splintr names it), context window in tokens.
# Models without a public tokenizer get an approximation.
# fmt: off
_KNOWN: Final[dict[str, tuple[str, int | None]]] = {
    "chatgpt": ("o200k_base", 128_000), "claude": ("o200k_base", 200_000),
    "claude-fable-5": ("o200k_base", 1_000_000), "claude-haiku-5": ("o200k_base", 1_000_000),
    "claude-opus-5": ("o200k_base", 1_000_000), "claude-sonnet-5": ("o200k_base", 1_000_000),
    "codellama": ("codellama", 16_384), "codestral": ("mistral_v3", 256_000),
    "deepseek": ("deepseek_v3", 128_000), "deepseek-flash": ("deepseek_v3", 1_000_000),
    "deepseek-v4": ("deepseek_v3", 1_000_000),
    "devstral": ("mistral_v3", 131_072), "gemini": ("gemma3", 1_048_576),
    "gemini-1.5-pro": ("gemma3", 2_097_152), "gemma": ("gemma2", 8_192), "gemma-3": ("gemma3", 131_072),
    "gemma-4": ("gemma4", 131_072), "gemma3": ("gemma3", 131_072), "gemma4": ("gemma4", 131_072),
    "glm": ("glm4", 131_072), "glm-4.6": ("glm4", 202_752), "glm-4.7": ("glm4", 202_752),
    "glm-5": ("glm4", 202_752), "glm-5.2": ("glm4", 1_000_000), "glm-5.3": ("glm4", 1_000_000),
    "gpt-3.5": ("cl100k_base", 16_385), "gpt-4": ("cl100k_base", 8_192),
    "gpt-4-1106": ("cl100k_base", 128_000), "gpt-4-32k": ("cl100k_base", 32_768),
    "gpt-4-turbo": ("cl100k_base", 128_000), "gpt-4.1": ("o200k_base", 1_047_576),
    "gpt-4.5": ("o200k_base", 128_000), "gpt-4o": ("o200k_base", 128_000), "gpt-5": ("o200k_base", 400_000),
    "gpt-5-chat": ("o200k_base", 128_000), "gpt-5.1-chat": ("o200k_base", 128_000),
    "gpt-5.4": ("o200k_base", 1_050_000), "gpt-5.4-mini": ("o200k_base", 400_000),
    "gpt-5.4-nano": ("o200k_base", 400_000), "gpt-5.5": ("o200k_base", 1_050_000),
    "gpt-5.6": ("o200k_base", 1_050_000), "gpt-6": ("o200k_base", 1_050_000),
    "gpt-oss": ("o200k_harmony", 131_072), "grok": ("o200k_base", 131_072), "grok-4": ("o200k_base", 256_000),
    "grok-4.3": ("o200k_base", 1_000_000), "grok-4.5": ("o200k_base", 500_000),
    "grok-4.6": ("o200k_base", 500_000), "grok-4.7": ("o200k_base", 500_000),
    "grok-code": ("o200k_base", 256_000), "kimi": ("kimi_k2", 131_072), "kimi-k2-0905": ("kimi_k2", 262_144),
    "kimi-k2-thinking": ("kimi_k2", 262_144), "kimi-k2-turbo": ("kimi_k2", 262_144),
    "kimi-k2.": ("kimi_k2", 262_144), "kimi-k3": ("kimi_k3", 1_000_000),
    "llama-2": ("llama2", 4_096), "llama-3": ("llama3", 8_192), "llama-3.1": ("llama3", 131_072),
    "llama-3.2": ("llama3", 131_072), "llama-3.3": ("llama3", 131_072), "llama-4": ("llama3", 131_072),
    "llama2": ("llama2", 4_096), "llama3": ("llama3", 8_192), "llama3.1": ("llama3", 131_072),
    "llama3.2": ("llama3", 131_072), "llama3.3": ("llama3", 131_072), "llama4": ("llama3", 131_072),
    "magistral": ("mistral_v3", 131_072), "meta-llama-3": ("llama3", 8_192),
    "meta-llama-3.1": ("llama3", 131_072), "minimax": ("o200k_base", 204_800),
    "ministral": ("mistral_v3", 131_072), "mistral": ("mistral_v3", 131_072),
    "mistral-7b": ("mistral_v3", 32_768), "mixtral": ("mistral_v1", 32_768),
    "moonshot-v1": ("kimi_k2", 131_072), "moonshot-v1-32k": ("kimi_k2", 32_768),
    "moonshot-v1-8k": ("kimi_k2", 8_192), "o1": ("o200k_base", 200_000), "o1-mini": ("o200k_base", 128_000),
    "o1-preview": ("o200k_base", 128_000), "o3": ("o200k_base", 200_000), "o4": ("o200k_base", 200_000),
    "olmo": ("olmo2", None), "phi-4": ("phi4", 16_384), "phi4": ("phi4", 16_384),
    "qwen": ("qwen3", 131_072), "qwen2.5": ("qwen3", 32_768), "qwen3-coder": ("qwen3", 262_144),
    "qwen3-coder-flash": ("qwen3", 1_000_000), "qwen3-coder-plus": ("qwen3", 1_000_000),
    "qwq": ("qwen3", 131_072),
}


# Of the models above those that see, by their beginnings, and the exceptions.
# fmt: off
_SEE: Final = (
    "chatgpt", "claude", "deepseek-flash", "gemini", "gemma-3", "gemma-4", "gemma3", "gemma4",
    "gpt-4-turbo", "gpt-4.1", "gpt-4.5", "gpt-4o", "gpt-5", "gpt-6", "grok-4", "kimi-k2.5", "kimi-k2.6",
    "kimi-k3", "kimi-latest", "llama-4", "llama4", "magistral", "ministral-3", "mistral-large-3",
    "mistral-medium", "mistral-small", "o1", "o3", "o4", "qwen3.5", "qwen3.6",
)
_BLIND: Final = (
    "claude-2", "claude-instant", "gemma-3-1b", "gemma-3-270m", "gemma3:1b", "gemma3:270m",
    "magistral-medium-2506", "magistral-small-2506", "mistral-medium-2312", "mistral-small-24",
    "mistral-small-2501", "o1-mini", "o1-preview", "o3-mini",
)
# fmt: on
_SEEING_WORD: Final = (
    r"vision|(?:^|[-_.\d])vl(?:$|[-_.:\d])|\dv(?:$|[-_:])|llava|pixtral|minicpm-v|moondream|multimodal"
)


def sees_images(config: Config, model: str) -> bool | None:
    """Whether the model takes images; None if that is not known."""
    own = config.provider.models.get(model)
    if own is not None and own.images is not None:
        return own.images
    name = _bare(model)
    if re.search(_SEEING_WORD, name):
        return True
    seeing, blind, known = (_longest(name, beginnings) for beginnings in (_SEE, _BLIND, _KNOWN))
    if seeing or blind:
        return seeing > blind
    return False if known else None


def tokenizer_of(model: str) -> str:
    """The tokenizer for this model, exact or approximate."""
    return known_tokenizer(model) or DEFAULT_TOKENIZER


def known_tokenizer(model: str) -> str:
    """As `tokenizer_of`; empty for an unknown model."""
    known = _known(model)
    return known[0] if known else ""


def context_window_of(model: str) -> int | None:
    """The context window in tokens, where known."""
    if is_local(model):
        return LOCAL_WINDOW
    known = _known(model)
    return known[1] if known else None


def window_for(config: Config, model: str) -> int:
    """What is known of the model's window, else the default."""
    return known_window(config, model) or DEFAULT_CONTEXT_WINDOW


def known_window(config: Config, model: str) -> int | None:
    """`runtime.context_window`, else what is set for the model, else the model's."""
    own = config.provider.models.get(model)
    window = config.runtime.context_window or (own.context_window if own else None)
    return window or context_window_of(model)


def dialect_of(config: Config, home: Path, base_url: str, model: str) -> str:
    """The dialect to speak with a model: set for it, set for all, or found out; else `auto`."""
    own = config.provider.models.get(model)
    if own is not None and own.dialect != "auto":
        return own.dialect
    if config.provider.dialect != "auto":
        return config.provider.dialect
    if is_local(model) and is_small(file_name(model)):  # a trial would take it minutes
        return "guided"
    if not (home / "models.json").exists():
        return "auto"
    return ModelMemory(home, base_url).dialect(model) or "auto"


def keep_dialect(home: Path, base_url: str, model: str, dialect: str) -> None:
    """Remember what was found out."""
    ModelMemory(home, base_url).keep(model, dialect)


def is_local(model: str) -> bool:
    return model == LOCAL_MODEL or model.startswith(LOCAL_PREFIX)


def file_name(model: str) -> str:
    """The name of its file, which says what the model is."""
    return (
        model.removeprefix(LOCAL_PREFIX).rpartition("/")[2]
        if model not in (LOCAL_MODEL, LOCAL_PREFIX)
        else LOCAL_FILE
    )


def gguf_of(model: str, home: Path) -> Path:
    named = model.removeprefix(LOCAL_PREFIX)
    return (
        models_directory(home) / LOCAL_FILE
        if model in (LOCAL_MODEL, LOCAL_PREFIX)
        else Path(named).expanduser().absolute()
    )


def models_directory(home: Path) -> Path:
    return home / "models"


def is_fetched(home: Path) -> bool:
    return gguf_of(LOCAL_MODEL, home).is_file()


def is_small(model: str) -> bool:
    """Whether its name says that it has few parameters (`qwen2.5-coder:1.5b`)."""
    size = re.search(r"(?<![a-z\d.])(\d+(?:\.\d+)?)b(?![a-z])", model.rpartition("/")[2], re.IGNORECASE)
    return size is not None and float(size[1]) <= SMALL


def _known(model: str) -> tuple[str, int | None] | None:
    name = _bare(model)
    length = _longest(name, _KNOWN)
    return _KNOWN[name[:length]] if length else None


def _bare(model: str) -> str:
    name = file_name(model) if is_local(model) else model
    return name.strip().lower().rpartition("/")[2]  # OpenRouter and local servers prefix the vendor


def _longest(name: str, beginnings: Iterable[str]) -> int:
    return max((len(beginning) for beginning in beginnings if name.startswith(beginning)), default=0)


_MOST = 200  # models that are remembered; the oldest are dropped


class _Memory(msgspec.Struct):
    dialects: dict[str, str] = {}


class ModelMemory:
    """The dialect of models at one address, read lazily. Errors are ignored: it can be found out again."""

    def __init__(self, home: Path, base_url: str) -> None:
        self._file = home / "models.json"
        self._host = host_of(base_url) or base_url
        self._known: dict[str, str] | None = None

    def dialect(self, model: str) -> str:
        if self._known is None:
            self._known = self._read()
        return self._known.get(self._key(model), "")

    def keep(self, model: str, dialect: str) -> None:
        with contextlib.suppress(OSError, ConfigError):
            make_private(self._file.parent)
            with locked(self._file):
                known = self._read()
                known.pop(self._key(model), None)
                known[self._key(model)] = dialect
                self._known = dict(list(known.items())[-_MOST:])
                data = msgspec.json.format(msgspec.json.encode(_Memory(self._known)))
                write_durably(self._file, data + b"\n")

    def _key(self, model: str) -> str:
        return f"{model} at {self._host}"

    def _read(self) -> dict[str, str]:
        try:
            data = read_bounded(self._file, str(self._file))
            return {} if data is None else msgspec.json.decode(data, type=_Memory).dialects
        except (ConfigError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}


def host_of(text: str) -> str:
    """The host of an address that has passed `check_address`."""
    return urlsplit(text).hostname or ""
