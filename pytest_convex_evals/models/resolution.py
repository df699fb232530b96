"""From names to models that are ready to be called: registry, limits, prices, search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.models.prices import with_prices
from pytest_convex_evals.models.registry import litellm_price_map, registry, resolve, with_limits
from pytest_convex_evals.models.search import with_search

if TYPE_CHECKING:
    from pytest_convex_evals.models.registry import Model


def resolve_models(names: Sequence[str], project: Path, *, web_search: bool = False) -> dict[str, Model]:
    """By name; whatever cannot be called is a wrong setting."""
    if not names:
        return {}
    known = registry(project)
    models = with_limits({name: resolve(name, known) for name in names}, project)
    entries = litellm_price_map()
    priced = with_prices(models, entries)
    return with_search(priced, entries) if web_search else priced


def refuse_unknown_prices(models: Mapping[str, Model]) -> None:
    """A budget cannot be kept when nobody knows what a call costs."""
    unknown = [name for name, model in models.items() if model.price is None]
    if unknown:
        raise SettingsError(
            f"a budget cannot be kept: the price of {', '.join(unknown)} is not known.\n"
            "  what to do: set input_usd_per_million and output_usd_per_million in models.toml, or leave "
            "--evals-budget out"
        )
