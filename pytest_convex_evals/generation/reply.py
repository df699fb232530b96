"""From what a model said to what is stored: text, files, tokens, cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_convex_evals.generation.parser import parse_answer
from pytest_convex_evals.generation.store import Call, Generation
from pytest_convex_evals.models.prices import OUTPUT_LIMIT, Price, map_entry, most_tokens
from pytest_convex_evals.records import AttemptRecord, GenerationRecord

if TYPE_CHECKING:
    from pytest_convex_evals.generation.caller import Said

CostSource = Literal["provider", "registry", "litellm"]
_FAR_TOO_MANY = 10**9
"""Tokens that nobody has written."""
_MOST_INPUT = 10_000_000
"""Tokens of a prompt, with what searches brought: the largest window there is."""
_MOST_OUTPUT = 4 * OUTPUT_LIMIT
"""Tokens of an answer with its reasoning, where no limit is known."""
_DEAREST = Price(1.5e-4, 6e-4, "litellm")
"""Of all models, where the price is not known."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Each None when the provider did not say, or said what cannot be."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cached: int | None = None


def generation_of(
    call: Call, repeat: int, said: Said, price: Price | None, attempts: tuple[AttemptRecord, ...]
) -> Generation:
    """Everything that is known about an answer."""
    facts = said.exchange.facts
    tokens = _believable(call, said, _tokens(said))
    cost, source = _cost(call, said, tokens, price)
    text, refusal = _unicode("".join(said.text)), _unicode("".join(facts.refusal)) or None
    reasoning = _unicode("".join(said.reasoning))
    record = GenerationRecord(
        key=call.key(repeat),
        litellm_id=call.litellm_id,
        answered_by=facts.model or said.model,
        parameters=call.parameters,
        finish_reason=said.finish_reason,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        reasoning_tokens=tokens.reasoning,
        cached_tokens=tokens.cached,
        cost_usd=cost,
        cost_source=source,
        duration_s=round(said.duration_s, 3),
        first_token_s=None if said.first_token_s is None else round(said.first_token_s, 3),
        attempts=attempts,
        served_by=facts.provider,
        sent=_plain(said.exchange.sent),
        searches=facts.searches if "web_search_options" in call.parameters else None,
    )
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": reasoning, "refusal": refusal}
    if said.annotations:
        message["annotations"] = said.annotations
    choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
    response = {"id": said.id, "model": facts.model or said.model, "provider": facts.provider, "choices": [choice]}
    return Generation(
        call=call,
        repeat=repeat,
        record=record,
        text=text,
        refusal=refusal,
        reasoning=reasoning,
        files=dict(parse_answer(text).files),
        notes=tuple(said.notes),
        response=_plain({**response, "usage": facts.usage}),
    )


def used_nothing(generation: Generation) -> bool:
    """Neither text nor tokens: nobody was there."""
    record = generation.record
    if generation.text.strip() or generation.reasoning.strip() or generation.refusal is not None:
        return False
    if record.output_tokens is None:
        return record.finish_reason not in {"length", "content_filter"}
    return record.output_tokens == 0


def refused(generation: Generation) -> bool:
    """Filtered or refused: a result, but never one to use again."""
    return generation.refusal is not None or generation.record.finish_reason == "content_filter"


def refusal_of(call: Call, repeat: int, duration: float, said: str, attempts: tuple[AttemptRecord, ...]) -> Generation:
    """The provider's filter answered instead of the model."""
    record = GenerationRecord(
        key=call.key(repeat),
        litellm_id=call.litellm_id,
        answered_by=None,
        parameters=call.parameters,
        finish_reason="content_filter",
        input_tokens=None,
        output_tokens=None,
        cost_usd=None,
        duration_s=round(duration, 3),
        attempts=attempts,
    )
    return Generation(call=call, repeat=repeat, record=record, text="", refusal=_unicode(said[:2_000]), response={})


def _tokens(said: Said) -> Tokens:
    """As the provider counted them; where its protocol is not known, as litellm translates it."""
    usage = said.exchange.facts.usage
    if usage is None:
        usage = None if said.exchange.facts.recognised else said.usage
    if isinstance(usage, dict) and "promptTokenCount" in usage:
        thoughts = _count(usage, "thoughtsTokenCount")
        output = _sum(_count(usage, "candidatesTokenCount"), thoughts or 0)
        return Tokens(_count(usage, "promptTokenCount"), output, thoughts, _count(usage, "cachedContentTokenCount"))
    if isinstance(usage, dict) and "output_tokens" in usage:
        details, prompt = _part(usage, "output_tokens_details"), _part(usage, "input_tokens_details")
        read, made = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
        cached = _count(prompt, "cached_tokens")
        return Tokens(
            _sum(_count(usage, "input_tokens"), read or 0, made or 0),
            _count(usage, "output_tokens"),
            _count(details, "reasoning_tokens"),
            read if cached is None else cached,
        )
    details, prompt = _part(usage, "completion_tokens_details"), _part(usage, "prompt_tokens_details")
    return Tokens(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(details, "reasoning_tokens"),
        _count(prompt, "cached_tokens"),
    )


def _believable(call: Call, said: Said, told: Tokens) -> Tokens:
    """Without the counts that cannot be: they would be billed, and be gone from a budget."""
    wrote = sum(map(len, said.text)) + sum(map(len, said.reasoning))
    output, prompt = told.output, told.input
    if output is not None and (output > max(_most_output(call), most_tokens(wrote)) or (output == 0 and wrote)):
        output = None
    if prompt is not None and (prompt > _MOST_INPUT or (prompt == 0 and wrote)):
        prompt = None
    if (output, prompt) != (told.output, told.input):
        said.notes.append("the provider counted tokens that cannot be: their number is unknown")
    reasoning = told.reasoning if output is not None else None
    return Tokens(prompt, output, reasoning, told.cached if prompt is not None else None)


def _most_output(call: Call) -> int:
    """Tokens that an answer can have. What was asked for is no bound: some count reasoning beside it."""
    import litellm

    known = map_entry(call.litellm_id.replace("/responses/", "/", 1), litellm.model_cost).get("max_output_tokens")
    return max(known, OUTPUT_LIMIT) if isinstance(known, int) else _MOST_OUTPUT


def _most_usd(call: Call, tokens: Tokens, price: Price | None) -> float:
    """What the call can cost; twice the price, because the dearer ways of being served cost so much."""
    characters = sum(len(message["content"]) for message in call.messages)
    prompt = max(most_tokens(characters), tokens.input or 0)
    return 2 * (price or _DEAREST).of(prompt, max(_most_output(call), tokens.output or 0))


def _sum(first: int | None, *more: int) -> int | None:
    return None if first is None else first + sum(more)


def _part(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _count(holder: Any, name: str) -> int | None:
    value = _part(holder, name)
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _FAR_TOO_MANY
    return value if right else None


def _cost(call: Call, said: Said, tokens: Tokens, price: Price | None) -> tuple[float | None, CostSource | None]:
    """What the reply says, else the prices of models.toml, else litellm's map, else unknown."""
    told = (said.exchange.facts.usage or {}).get("cost")
    if isinstance(told, int | float) and not isinstance(told, bool) and told > 0:
        if told <= _most_usd(call, tokens, price):
            return float(told), "provider"
        said.notes.append("the provider named a cost that cannot be: the cost is unknown")
        return None, None
    if tokens.input is None or tokens.output is None:
        return None, None
    if price is not None and price.source == "registry":
        return price.of(tokens.input, tokens.output), "registry"
    cost = _mapped(call, said, tokens)
    return (cost, "litellm") if cost is not None else (None, None)


def _mapped(call: Call, said: Said, tokens: Tokens) -> float | None:
    import litellm

    usage = (
        said.usage if said.usage is not None else {"prompt_tokens": tokens.input, "completion_tokens": tokens.output}
    )
    try:
        response = litellm.ModelResponse(model=call.litellm_id, usage=usage)
        cost = litellm.completion_cost(
            completion_response=response, model=call.litellm_id.replace("/responses/", "/", 1), call_type="acompletion"
        )
    except Exception:  # noqa: BLE001 - litellm raises a bare Exception for an unknown price
        return None
    return float(cost) if cost > 0 else None


def _unicode(text: str) -> str:
    """Half a character, as cut-off answers have it, cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """JSON and nothing else."""
    found = json.loads(_unicode(json.dumps(value, ensure_ascii=False, default=str, allow_nan=True)))
    assert isinstance(found, dict)
    return found
