"""The money of a session: reserved before a call, settled after it, over all models. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fits = Literal["now", "later", "never"]


@dataclass(slots=True)
class Purse:
    """What is spent, and what the calls in flight may cost at most."""

    budget: float | None = None
    """USD; None: no limit."""
    spent: float = 0.0
    reserved: float = 0.0
    unknown_calls: int = 0
    """Calls whose cost is not known."""

    def fits(self, amount: float) -> Fits:
        """`later`: once the calls in flight have shown what they really cost."""
        if self.budget is None:
            return "now"
        if self.spent + amount > self.budget:
            return "never"
        return "now" if self.spent + self.reserved + amount <= self.budget else "later"

    def reserve(self, amount: float) -> None:
        """Before a call."""
        self.reserved += amount

    def settle(self, amount: float, cost: float | None, *, at_most: float = 0.0) -> None:
        """After it. A call of unknown cost counts as what it can have cost."""
        self.reserved = max(0.0, self.reserved - amount)
        if cost is None:
            self.unknown_calls += 1
        self.spent += at_most if cost is None else cost
