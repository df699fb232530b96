"""The registry of models (`models.toml`) and the resolution of names.

Only the standard library: names are resolved before anything heavy is loaded.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cells import BUILT_IN
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.models.prices import OUTPUT_LIMIT, Price

if TYPE_CHECKING:
    from collections.abc import Mapping

REGISTRY_FILE = "models.toml"
_FORBIDDEN = re.compile(r"[\s@\[\]+,]|::")
_KEYS = {"display", "provider", "litellm", "key", "reasoning", "max_output_tokens", "api_base", "formerly"}
_PRICES = ("input_usd_per_million", "output_usd_per_million")
_LIMITS = ("requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, slots=True)
class Model:
    """Something that answers tasks."""

    name: str
    """What people type, and what stands in ids and reports."""
    display: str
    """What tables show."""
    provider: str
    """Who serves it."""
    litellm: str
    """The id for litellm, with the provider's prefix."""
    key: str
    """The environment variable with the key; empty when litellm names it at call time."""
    reasoning: str = ""
    """Reasoning effort; empty: the provider's default."""
    max_output_tokens: int | None = None
    """Limit that is sent; None: the provider's default."""
    api_base: str = ""
    """Address of the API; empty: the provider's own."""
    formerly: tuple[str, ...] = ()
    """Names that the model had before; its results under them stay its own."""
    price: Price | None = None
    """None: unknown."""
    output_limit: int = OUTPUT_LIMIT
    """The most that an answer can have."""
    web_search: bool = False
    """The provider searches the web for it."""
    requests_per_minute: int | None = None
    """Limit of the provider, for all its models together; None: none."""
    tokens_per_minute: int | None = None
    """Limit of the provider, for all its models together; None: none."""


def load_registry(path: Path) -> dict[str, Model]:
    """All models of a registry file; a mistake in it is a wrong setting."""
    return {name: _model(path, name, entry) for name, entry in _content(path).get("models", {}).items()}


def _content(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the model registry {path} cannot be read: {error}") from None
    if set(content) - {"models", "providers"} or not all(isinstance(table, dict) for table in content.values()):
        raise SettingsError(
            f'the model registry {path} must hold tables [models."name"] and [providers."name"] and nothing else'
        )
    return content


def load_limits(path: Path) -> dict[str, dict[str, int]]:
    """Limits per minute by provider, in small letters."""
    found = {}
    for name, entry in _content(path).get("providers", {}).items():
        where = f'{path}: [providers."{name}"]'
        if not isinstance(entry, dict) or set(entry) - set(_LIMITS):
            raise SettingsError(f"{where} takes {' and '.join(_LIMITS)}")
        for key, limit in entry.items():
            _whole(where, key, limit)
        found[name.casefold()] = entry
    return found


def _whole(where: str, key: str, number: Any) -> None:
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise SettingsError(f"{where} {key} must be a whole number")


def _model(path: Path, name: str, entry: Any) -> Model:
    where = f'{path}: [models."{name}"]'
    if _FORBIDDEN.search(name) or not name:
        raise SettingsError(f"{where} the name may not hold spaces, commas, @, +, brackets or ::")
    if name.partition(":")[0] in BUILT_IN:
        raise SettingsError(f"{where} the name belongs to a built-in submitter")
    if not isinstance(entry, dict):
        raise SettingsError(f"{where} must be a table")
    for key in entry:
        if key not in {*_KEYS, *_PRICES}:
            raise SettingsError(f"{where} unknown key {key!r}; use {', '.join(sorted({*_KEYS, *_PRICES}))}")
    for key in ("provider", "litellm"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise SettingsError(f"{where} {key} is missing")
    limit = entry.get("max_output_tokens")
    _whole(where, "max_output_tokens", limit)
    prices: list[Any] = [entry.get(key) for key in _PRICES]
    right = all(isinstance(price, int | float) and not isinstance(price, bool) and price >= 0 for price in prices)
    if not right and prices != [None, None]:
        raise SettingsError(f"{where} {' and '.join(_PRICES)} must be two numbers, in USD")
    texts = {key: entry.get(key, "") for key in ("key", "reasoning", "api_base", "display")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise SettingsError(f"{where} {', '.join(texts)} must be strings")
    former = entry.get("formerly", [])
    if not isinstance(former, list) or not all(isinstance(one, str) and one and one != name for one in former):
        raise SettingsError(f"{where} formerly must be a list of other names")
    texts["display"] = texts["display"] or name
    return Model(
        name=name,
        provider=entry["provider"],
        litellm=entry["litellm"],
        max_output_tokens=limit,
        formerly=tuple(dict.fromkeys(former)),
        price=Price(prices[0] / 1e6, prices[1] / 1e6, "registry") if right else None,
        **texts,
    )


def registry(project: Path) -> dict[str, Model]:
    """The models of the package, and over them those of `models.toml` in the project's root."""
    known = load_registry(Path(__file__).parent / REGISTRY_FILE)
    own = project / REGISTRY_FILE
    return known | load_registry(own) if own.is_file() else known


def with_limits(models: Mapping[str, Model], project: Path) -> dict[str, Model]:
    """The same models with the limits per minute that `models.toml` sets for their providers."""
    own = project / REGISTRY_FILE
    limits = load_limits(own) if own.is_file() else {}
    found = {}
    for name, model in models.items():
        own_limits = limits.get(model.provider.casefold(), {})
        found[name] = replace(
            model,
            requests_per_minute=own_limits.get("requests_per_minute"),
            tokens_per_minute=own_limits.get("tokens_per_minute"),
        )
    return found


def litellm_price_map() -> dict[str, Any]:
    """Litellm's bundled map of models, read without importing litellm."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).parent / "model_prices_and_context_window_backup.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


_PROVIDER_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "cohere": "COHERE_API_KEY",
    "cohere_chat": "COHERE_API_KEY",
    "dashscope": "DASHSCOPE_API_KEY",
    "deepinfra": "DEEPINFRA_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks_ai": "FIREWORKS_AI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "minimax": "MINIMAX_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "moonshot": "MOONSHOT_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
    "zai": "ZAI_API_KEY",
}
"""The variables that litellm reads, for ids that stand in no registry."""

_KEYLESS = {"ollama", "ollama_chat", "lm_studio", "hosted_vllm", "vllm", "llamafile", "openai_like"}
"""Providers that run on the user's own machines."""


def resolve(name: str, known: Mapping[str, Model]) -> Model:
    """A name of the registry, an id of litellm's map, or `provider/anything` for a provider litellm routes."""
    if name in known:
        return known[name]
    for model in known.values():
        if name == model.litellm:
            return model
    if _FORBIDDEN.search(name):
        raise SettingsError(f"a model name may not hold spaces, @, +, brackets or ::, as {name!r} does")
    routed = {key: entry for key, entry in litellm_price_map().items() if _answers(entry)}
    if name in routed:
        return _unregistered(name, str(routed[name].get("litellm_provider", "")).removesuffix("_chat"))
    provider = name.partition("/")[0]
    if "/" in name and name.partition("/")[2] and provider in {*_PROVIDER_KEYS, *_KEYLESS}:
        return _unregistered(name, provider)
    near = nearest(name, [*known, *(key for key in routed if not _FORBIDDEN.search(key))])
    raise SettingsError(
        f"unknown model {name!r}.\n"
        f"  nearest:    {', '.join(near)}\n"
        "  what to do: `convex-evals models` lists the registry; ids that litellm can route work too "
        "(provider/model)"
    )


def _answers(entry: object) -> bool:
    """An entry of litellm's map for a model that writes text."""
    return isinstance(entry, dict) and entry.get("mode", "chat") in {"chat", "responses"}


def _unregistered(name: str, provider: str) -> Model:
    return Model(name=name, display=name, provider=provider, litellm=name, key=_PROVIDER_KEYS.get(provider, ""))


def nearest(name: str, candidates: list[str]) -> list[str]:
    """The three nearest names; the order of candidates breaks ties."""
    ranked = sorted(
        enumerate(dict.fromkeys(candidates)),
        key=lambda pair: (-difflib.SequenceMatcher(None, name.lower(), pair[1].lower()).ratio(), pair[0]),
    )
    return [candidate for _, candidate in ranked[:3]]


def key_variables(known: Mapping[str, Model]) -> set[str]:
    """Every variable that may hold a provider's key."""
    return {model.key for model in known.values() if model.key} | set(_PROVIDER_KEYS.values())
