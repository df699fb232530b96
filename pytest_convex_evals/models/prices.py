"""What a call costs, as far as it is known before it is made: the registry, else litellm's bundled map, else unknown.

Only the standard library, and no import of litellm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pytest_convex_evals.models.registry import Model

_CHARACTERS_PER_TOKEN = 4
_FEWEST_CHARACTERS_PER_TOKEN = 2.5
TYPICAL_OUTPUT_TOKENS = 8_000
"""Of one answer with its reasoning, for estimates."""
OUTPUT_LIMIT = 64_000
"""The same for all models that can: far above any answer, below every context window."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token."""

    input: float
    output: float
    source: Literal["registry", "litellm"]

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost."""
        return self.input * input_tokens + self.output * output_tokens


def map_entry(litellm_id: str, entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """What litellm's map says about a model; empty when it does not know it."""
    prefix, _, plain = litellm_id.partition("/")
    found = entries.get(litellm_id)
    if found is None and plain:
        found = entries.get(plain)
        if isinstance(found, dict) and str(found.get("litellm_provider")).removesuffix("_chat") != prefix:
            found = None
    return found if isinstance(found, dict) else {}


def with_prices(models: Mapping[str, Model], entries: Mapping[str, Any]) -> dict[str, Model]:
    """The same models with their prices and output limits, as far as they are known."""
    found = {}
    for name, model in models.items():
        entry = map_entry(model.litellm, entries)
        found[name] = replace(model, price=model.price or _mapped(entry), output_limit=_output_limit(model, entry))
    return found


def _mapped(entry: Mapping[str, Any]) -> Price | None:
    each = [entry.get("input_cost_per_token"), entry.get("output_cost_per_token")]
    if not all(isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 for cost in each):
        return None
    return Price(float(each[0]), float(each[1]), "litellm") if any(each) else None  # type: ignore[arg-type]


def _output_limit(model: Model, entry: Mapping[str, Any]) -> int:
    """The most that an answer can have; what is sent, where anything is."""
    if model.max_output_tokens is not None:
        return min(model.max_output_tokens, OUTPUT_LIMIT)
    known = entry.get("max_output_tokens")
    return known if isinstance(known, int) and known > 0 else OUTPUT_LIMIT


def likely_tokens(characters: int) -> int:
    """For estimates that people see."""
    return math.ceil(characters / _CHARACTERS_PER_TOKEN)


def most_tokens(characters: int) -> int:
    """For reservations: rather too many."""
    return math.ceil(characters / _FEWEST_CHARACTERS_PER_TOKEN) + 100
