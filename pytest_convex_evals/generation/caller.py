"""One plain call of a model through litellm."""

from __future__ import annotations

import json
import time
from typing import Any

from pytest_convex_evals.generation.answers import Answer
from pytest_convex_evals.generation.causes import content_filtered, trouble_of
from pytest_convex_evals.generation.store import Call, Generation, GenerationStore
from pytest_convex_evals.records import Errored, GenerationRecord

CALL_TIMEOUT_S = 1_800.0
_SHORTEST_KEY = 8


async def buy_answer(call: Call, repeat: int, api_key: str, store: GenerationStore) -> Answer:
    """Call the model once and keep what it said before anything else happens to it."""
    import litellm

    litellm.suppress_debug_info = True
    key = call.key(repeat)
    optional = {"api_key": api_key, "api_base": call.api_base}
    started = time.monotonic()
    try:
        response = await litellm.acompletion(
            model=call.litellm_id,
            messages=call.messages,
            timeout=CALL_TIMEOUT_S,
            num_retries=0,
            max_retries=0,
            **_passed_through(call.parameters),
            **{name: value for name, value in optional.items() if value},
        )
    except Exception as error:  # noqa: BLE001 - every failure of a call becomes a typed cause
        duration = time.monotonic() - started
        if content_filtered(error):
            return Answer(unstored=_refused(call, repeat, key, duration, str(error)))
        return Answer(trouble=_without_key(trouble_of(error), api_key))
    try:
        generation = _generation(call, repeat, key, time.monotonic() - started, response)
    except Exception as error:  # noqa: BLE001 - a reply that makes no sense
        return Answer(trouble=trouble_of(error))
    record = generation.record
    if not generation.text.strip() and not record.output_tokens and generation.refusal is None:
        return Answer(
            trouble=Errored(
                cause="zero_tokens",
                reason=f"{call.litellm_id} answered without using a token",
                remedy="check that the provider really serves this model",
            )
        )
    if generation.refusal is not None or record.finish_reason == "content_filter":
        return Answer(unstored=generation)
    store.put(generation)
    return Answer(generation=key)


def _without_key(trouble: Errored, api_key: str) -> Errored:
    """Providers may repeat the key that they refuse; reports are shown to others."""
    if len(api_key) < _SHORTEST_KEY:
        return trouble
    return trouble.model_copy(update={"reason": trouble.reason.replace(api_key, "***")})


def _passed_through(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that must arrive as labelled, or fail: never silently dropped."""
    if "reasoning_effort" in parameters:
        return {**parameters, "allowed_openai_params": ["reasoning_effort"]}
    return dict(parameters)


def _generation(call: Call, repeat: int, key: str, duration: float, response: Any) -> Generation:
    if not response.choices:
        raise ValueError("the reply has no choices")
    choice = response.choices[0]
    message = choice.message
    usage = getattr(response, "usage", None)
    record = GenerationRecord(
        key=key,
        litellm_id=call.litellm_id,
        answered_by=getattr(response, "model", None),
        parameters=call.parameters,
        finish_reason=choice.finish_reason,
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        reasoning_tokens=_count(getattr(usage, "completion_tokens_details", None), "reasoning_tokens"),
        cached_tokens=_count(getattr(usage, "prompt_tokens_details", None), "cached_tokens"),
        cost_usd=_cost(call, response),
        duration_s=round(duration, 3),
    )
    return Generation(
        call=call,
        repeat=repeat,
        record=record,
        text=_unicode(message.content or ""),
        refusal=_refusal(message),
        response=json.loads(_unicode(json.dumps(response.model_dump(), ensure_ascii=False, default=str))),
    )


def _unicode(text: str) -> str:
    """Half a character, as cut-off answers have it, cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def _refusal(message: Any) -> str | None:
    """What the model says instead of an answer; litellm keeps it among the provider's own fields."""
    own = getattr(message, "provider_specific_fields", None) or {}
    said = getattr(message, "refusal", None) or own.get("refusal")
    return _unicode(str(said)) if said else None


def _refused(call: Call, repeat: int, key: str, duration: float, said: str) -> Generation:
    record = GenerationRecord(
        key=key,
        litellm_id=call.litellm_id,
        answered_by=None,
        parameters=call.parameters,
        finish_reason="content_filter",
        input_tokens=None,
        output_tokens=None,
        cost_usd=None,
        duration_s=round(duration, 3),
    )
    return Generation(call=call, repeat=repeat, record=record, text="", refusal=_unicode(said[:2_000]), response={})


def _count(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cost(call: Call, response: Any) -> float | None:
    """What litellm's price map says; None when it does not know the model."""
    import litellm

    try:
        cost = litellm.completion_cost(completion_response=response, model=call.litellm_id)
    except Exception:  # noqa: BLE001 - litellm raises a bare Exception for an unknown price
        return None
    return float(cost) if cost > 0 else None
