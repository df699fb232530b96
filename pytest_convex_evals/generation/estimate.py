"""What a session is going to buy, before it does. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_convex_evals.generation.calls import Order
from pytest_convex_evals.models.prices import TYPICAL_OUTPUT_TOKENS, likely_tokens

ASK_ABOVE_USD = 5.0
"""People are asked before a session that is likely to cost more."""
ASK_ABOVE_CALLS = 25
"""And before so many calls of unknown price."""


@dataclass(frozen=True, slots=True)
class Share:
    """Of one model."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    """If every answer has the usual length."""
    likely_usd: float | None
    """None: the price is not known."""
    most_usd: float | None
    """If every answer is as long as it can be."""

    def line(self) -> str:
        """For people."""
        tokens = f"about {self.input_tokens:,} tokens in and {self.output_tokens:,} out"
        if self.likely_usd is None or self.most_usd is None:
            cost = "price unknown"
        else:
            cost = f"about {self.likely_usd:.2f} USD, at most {self.most_usd:.2f} USD"
        return f"  {self.model}: {self.calls} calls, {tokens}, {cost}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Over all models."""

    shares: tuple[Share, ...]
    stored: int
    """Answers that are there already."""
    budget: float | None = None

    @property
    def calls(self) -> int:
        """That have to be made."""
        return sum(share.calls for share in self.shares)

    @property
    def likely_usd(self) -> float:
        """Of the models whose price is known."""
        return sum(share.likely_usd or 0.0 for share in self.shares)

    @property
    def calls_of_unknown_price(self) -> int:
        """Nobody knows what they cost."""
        return sum(share.calls for share in self.shares if share.likely_usd is None)

    @property
    def asks(self) -> bool:
        """Whether a person should be asked first."""
        return self.likely_usd > ASK_ABOVE_USD or self.calls_of_unknown_price > ASK_ABOVE_CALLS

    def lines(self) -> list[str]:
        """For people."""
        if not self.calls:
            return []
        stored = f", {self.stored} answers are in the store" if self.stored else ""
        budget = f", within a budget of {self.budget:.2f} USD" if self.budget is not None else ""
        return [f"calls of models: {self.calls}{stored}{budget}", *(share.line() for share in self.shares)]


def estimate(orders: Iterable[Order], stored: int, budget: float | None = None) -> Estimate:
    """Of orders whose answers are not in the store; the first call of each model is not counted."""
    by_model: dict[str, list[Order]] = {}
    for order in orders:
        by_model.setdefault(order.model.name, []).append(order)
    return Estimate(tuple(_share(name, mine) for name, mine in by_model.items()), stored, budget)


def _share(name: str, orders: list[Order]) -> Share:
    model = orders[0].model
    tokens = sum(likely_tokens(len(order.prompt.system) + len(order.prompt.user)) for order in orders)
    output = min(TYPICAL_OUTPUT_TOKENS, model.output_limit) * len(orders)
    price = model.price
    likely = price.of(tokens, output) if price is not None else None
    most = sum(order.most_usd for order in orders) if price is not None else None
    return Share(name, len(orders), tokens, output, likely, most)
