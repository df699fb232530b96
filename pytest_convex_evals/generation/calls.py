"""What is sent to a model, and the ticket that asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.store import Call
from pytest_convex_evals.generation.tickets import Ticket
from pytest_convex_evals.models.prices import OUTPUT_LIMIT, most_tokens

if TYPE_CHECKING:
    from pytest_convex_evals.models.registry import Model
    from pytest_convex_evals.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Order:
    """An answer that somebody wants; orders share their prompts, of which there are few."""

    path: Path
    """The answer file."""
    model: Model
    prompt: Prompt
    repeat: int

    @property
    def key(self) -> str:
        """Name in the generation store."""
        return call_for(self.model, self.prompt).key(self.repeat)

    @property
    def prompt_tokens(self) -> int:
        """Rather too many."""
        return most_tokens(len(self.prompt.system) + len(self.prompt.user))

    @property
    def most_usd(self) -> float:
        """What one call can cost; 0 when the price is not known."""
        price = self.model.price
        return price.of(self.prompt_tokens, self.model.output_limit) if price is not None else 0.0

    def ticket(self) -> Ticket:
        """For the child."""
        model = self.model
        return Ticket(
            answer=str(self.path),
            model=model.name,
            provider=model.provider,
            key_variable=model.key,
            call=call_for(model, self.prompt),
            repeat=self.repeat,
            price=model.price,
            most_usd=self.most_usd,
            prompt_tokens=self.prompt_tokens,
            requests_per_minute=model.requests_per_minute,
            tokens_per_minute=model.tokens_per_minute,
        )


def call_for(model: Model, prompt: Prompt) -> Call:
    """Everything that is sent to a model; the same for all models but for what the registry says."""
    parameters: dict[str, object] = {}
    if model.max_output_tokens is not None:
        parameters["max_tokens"] = min(model.max_output_tokens, OUTPUT_LIMIT)
    if model.reasoning:
        parameters["reasoning_effort"] = model.reasoning
    if model.web_search:
        parameters["web_search_options"] = {"search_context_size": "medium"}
    return Call(litellm_id=model.litellm, messages=prompt.messages(), parameters=parameters, api_base=model.api_base)
