"""What the controller tells the generation child: a greeting, then one ticket per cell."""

from __future__ import annotations

from pytest_convex_evals.generation.patience import Patience
from pytest_convex_evals.generation.store import Call
from pytest_convex_evals.models.prices import Price
from pytest_convex_evals.records import Frozen


class Ticket(Frozen):
    """One cell that needs an answer."""

    answer: str
    """Path of the answer file; names the ticket."""
    model: str
    """As people type it."""
    provider: str
    """Who serves it, for people."""
    key_variable: str
    """Variable with the key; empty: litellm finds it."""
    call: Call
    """What is sent."""
    repeat: int
    """Which of several calls."""
    price: Price | None = None
    """None: unknown."""
    most_usd: float = 0.0
    """What is reserved for one call; 0: the price is not known."""
    prompt_tokens: int = 0
    """Estimated, rather too many."""
    requests_per_minute: int | None = None
    """Limit of the provider."""
    tokens_per_minute: int | None = None
    """Limit of the provider."""

    @property
    def lane(self) -> tuple[str, str]:
        """Calls with the same key at the same address share their limits."""
        return self.key_variable or self.provider.casefold(), self.call.api_base


class Greeting(Frozen):
    """The first line."""

    environment: dict[str, str]
    """Keys, proxies and settings of providers; they come by pipe, so that no process table shows them."""
    generations: str
    """Folder of the generation store."""
    log: str
    """Where the child writes what it has to say to people, once there is a run."""
    lock: str
    """Held together with the client, once there is a run."""
    concurrency: int
    """Calls in flight per provider."""
    patience: Patience = Patience()
    """Deadlines."""
    budget_usd: float | None = None
    """Over all models; None: no limit."""
    spent_usd: float = 0.0
    """By a child before this one, with what its calls in flight can have cost."""
    unknown_calls: int = 0
    """Calls of a child before this one whose cost is not known."""
