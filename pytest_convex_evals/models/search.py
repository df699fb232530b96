"""Web search by the provider itself, where litellm offers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.models.prices import map_entry

if TYPE_CHECKING:
    from pytest_convex_evals.models.registry import Model

RESPONSES = "openai/responses/"
"""What litellm wants before the name of a model of OpenAI that is to be called within responses."""
_WITHIN_CHAT = ("search-preview", "search-api")
"""OpenAI's models that search within chat completions; the others do so within responses."""


def with_search(models: Mapping[str, Model], entries: Mapping[str, Any]) -> dict[str, Model]:
    """The same models, each with its way of searching; one that has none is a wrong setting."""
    lacking = [
        name
        for name, model in models.items()
        if map_entry(model.litellm, entries).get("supports_web_search") is not True
    ]
    if lacking:
        raise SettingsError(
            f"litellm offers no web search of the provider for {', '.join(lacking)}.\n"
            "  what to do: choose models that can search, or another --evals-experiment"
        )
    return {
        name: replace(model, web_search=True, litellm=_search_id(model.litellm, entries))
        for name, model in models.items()
    }


def _search_id(litellm_id: str, entries: Mapping[str, Any]) -> str:
    """The id for litellm when the model shall search."""
    entry = map_entry(litellm_id, entries)
    plain = litellm_id.removeprefix("openai/")
    if entry.get("litellm_provider") != "openai" or any(part in plain for part in _WITHIN_CHAT):
        return litellm_id
    return f"{RESPONSES}{plain}"
