"""Who is at fault when a call does not bring an answer: by exception class, status and code, never by words.

litellm itself looks at words in places, and gives a status of 500 to what never had one. What went over the wire tells
what really happened, then the exceptions that were wrapped, then litellm's own class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from pytest_convex_evals.generation.wire import ErrorInsideError, NotAReplyError
from pytest_convex_evals.records import ErrorCause, Errored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_convex_evals.generation.wire import Exchange

CallCause = ErrorCause | Literal["refused"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from a cause."""

    outcome: Literal["failed", "error"]
    """The model's fault or ours."""
    retried: bool
    """The call is made again, within the limits of attempts and time."""
    stops_model: bool
    """No further call of this model in this session: it would end the same way."""
    remedy: str
    """What to do next."""


_AGAIN = "run the same command again later"
RULES: dict[CallCause, Rule] = {
    "rate_limited": Rule("error", True, False, "wait, or lower --evals-concurrency or the limits in models.toml"),
    "provider_unavailable": Rule("error", True, False, _AGAIN),
    "provider_timeout": Rule("error", True, False, _AGAIN),
    "provider_connection": Rule("error", True, False, "check the network and the proxy settings"),
    "provider_reply": Rule("error", True, False, _AGAIN),
    "zero_tokens": Rule("error", True, False, "check that the provider really serves this model"),
    "authentication": Rule("error", False, True, "check the key of this provider, what it may use, and its credit"),
    "unknown_model": Rule(
        "error", False, True, "the provider does not serve this model; `convex-evals models` lists others"
    ),
    "bad_request": Rule("error", False, False, "correct the model's entry in models.toml"),
    "context_window": Rule("error", False, False, "the prompt is too long for this model"),
    "budget": Rule("error", False, False, "raise --evals-budget, or choose fewer cells"),
    "disk_full": Rule("error", False, True, "free some space, then run the same command again"),
    "store_unwritable": Rule("error", False, True, "make the folder writable, or choose another one with --evals-dir"),
    "generation_child": Rule("error", False, False, "look into the log of the run"),
    "refused": Rule("failed", False, False, ""),
}
"""What follows from each cause; docs/reference.md shows the same table."""

_BY_CLASS: tuple[tuple[str, ErrorCause], ...] = (
    ("ContextWindowExceededError", "context_window"),
    ("RateLimitError", "rate_limited"),
    ("AuthenticationError", "authentication"),
    ("PermissionDeniedError", "authentication"),
    ("NotFoundError", "unknown_model"),
    ("Timeout", "provider_timeout"),
    ("ServiceUnavailableError", "provider_unavailable"),
    ("BadGatewayError", "provider_unavailable"),
    ("InternalServerError", "provider_unavailable"),
    ("APIConnectionError", "provider_connection"),
    ("UnsupportedParamsError", "bad_request"),
    ("BadRequestError", "bad_request"),
    ("UnprocessableEntityError", "bad_request"),
    ("APIResponseValidationError", "provider_reply"),
    ("JSONSchemaValidationError", "provider_reply"),
    ("APIError", "provider_unavailable"),
)
"""Names of litellm's exception classes, most specific first."""

_FINER_THAN_STATUS = {"ContextWindowExceededError", "AuthenticationError", "PermissionDeniedError", "NotFoundError"}
"""Some providers say these with a status of 400."""
_WRAPPERS = {"MidStreamFallbackError", "InternalServerError", "APIConnectionError"}
"""litellm gives these to whatever goes wrong inside a stream; what they wrap tells more."""

_BY_CODE: dict[str, CallCause] = {
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "context_length_exceeded": "context_window",
    "model_not_found": "unknown_model",
    "invalid_api_key": "authentication",
    "insufficient_quota": "authentication",
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "billing_error": "authentication",
    "not_found_error": "unknown_model",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "provider_unavailable",
    "api_error": "provider_unavailable",
    "server_error": "provider_unavailable",
    "timeout_error": "provider_timeout",
    "request_too_large": "bad_request",
    "invalid_request_error": "bad_request",
}
"""Codes and types of errors of OpenAI, Anthropic and those like them."""
_BEATS_STATUS = {"content_filter", "content_policy_violation", "context_length_exceeded", "insufficient_quota"}
"""Codes that say more than the status they come with."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an attempt brought no answer."""

    cause: CallCause
    reason: str
    status: int | None = None
    """Of HTTP; None: there was none."""

    @property
    def rule(self) -> Rule:
        """What follows."""
        return RULES[self.cause]

    def errored(self) -> Errored:
        """For the record of a cell."""
        assert self.cause != "refused"
        return Errored(cause=self.cause, reason=self.reason, remedy=self.rule.remedy)


def judge(error: BaseException, exchange: Exchange | None = None) -> Fault:
    """The fault that an exception of a call means."""
    links = list(_chain(error))
    status = exchange.status if exchange is not None else None
    told = exchange.facts.error if exchange is not None else None
    failed_status = status if status is not None and status >= 400 else None
    cause = _told(told, failed_status, links) or _by_links(links, failed_status)
    shown = next((link for link in links if isinstance(link, NotAReplyError | ErrorInsideError)), error)
    reason = _said(shown)
    if told is not None and isinstance(told.get("message"), str) and not isinstance(shown, NotAReplyError):
        where = f"status {failed_status}" if failed_status is not None else "an error within the reply"
        reason = f"{where}: {told['message'][:2_000]}"
    return Fault(cause, _unicode(reason), failed_status)


def _told(told: dict[str, Any] | None, status: int | None, links: list[BaseException]) -> CallCause | None:
    """What the provider's own error says: its code, its status, its type."""
    if content_filtered(links[0]):
        return "refused"
    named = [str(told[name]) for name in ("code", "type", "status") if told.get(name)] if told else []
    finest = next((_BY_CODE[name] for name in named if name in _BEATS_STATUS), None)
    if finest is not None:
        return finest
    if status is not None:
        finer = next((name for link in links for name in [_litellm_name(link)] if name in _FINER_THAN_STATUS), None)
        return dict(_BY_CLASS)[finer] if finer is not None and 400 <= status < 500 else by_status(status)
    if told is None:
        return None
    numbers = (int(name) for name in named if name.isdigit() and 400 <= int(name) < 600)
    number = next(numbers, None)
    if number is not None:
        return by_status(number)
    return next((_BY_CODE[name] for name in named if name in _BY_CODE), "provider_unavailable")


def _by_links(links: list[BaseException], status: int | None) -> CallCause:
    if any(isinstance(link, NotAReplyError) for link in links):
        return "provider_reply"
    if any(isinstance(link, ImportError) for link in links):
        return "generation_child"  # something is not installed here: nobody else's fault, and no better the next time
    for link in links:
        name = _litellm_name(link)
        if name is not None:
            return _corrected(name, link, links, status) or dict(_BY_CLASS)[name]
    transport = _transport(links)
    if transport is not None:
        return transport
    if any(isinstance(link, ValueError | KeyError | TypeError | AttributeError | IndexError) for link in links):
        return "provider_reply"
    return "generation_child"


def _litellm_name(link: BaseException) -> str | None:
    import litellm

    for name, _ in _BY_CLASS:
        kind = getattr(litellm.exceptions, name, None)
        if isinstance(kind, type) and isinstance(link, kind):
            return name
    return None


def content_filtered(error: BaseException) -> bool:
    """The provider's filter refused: a result of the model, not trouble."""
    import litellm
    import openai

    return any(
        isinstance(link, litellm.exceptions.ContentPolicyViolationError)
        or (isinstance(link, openai.APIStatusError) and _BY_CODE.get(str(link.code)) == "refused")
        for link in _chain(error)
    )


def _corrected(name: str, link: BaseException, links: list[BaseException], status: int | None) -> CallCause | None:
    """What the wrapped exceptions say where litellm's class is too coarse, or was chosen by words."""
    import httpx

    replies = (link.response.status_code for link in links if isinstance(link, httpx.HTTPStatusError))
    status = status or next(replies, None)
    if status is not None:
        return None if name in _FINER_THAN_STATUS and 400 <= status < 500 else by_status(status)
    if name == "APIError":
        known = getattr(link, "status_code", None)
        return by_status(known) if isinstance(known, int) else None
    wrapper = next((one for one in links if type(one).__name__ in _WRAPPERS), None)
    if wrapper is not None and links.index(wrapper) < len(links) - 1:
        inner = links[links.index(wrapper) + 1 :]
        finer = next(
            (found for one in inner for found in [_litellm_name(one)] if found not in {None, *_WRAPPERS}), None
        )
        if finer is not None and finer != name:
            return dict(_BY_CLASS)[finer]
        return _transport(inner) or "provider_reply"
    return None


def by_status(status: int) -> ErrorCause:
    """The cause that a status of HTTP means."""
    known: dict[int, ErrorCause] = {401: "authentication", 402: "authentication", 403: "authentication"}
    known |= {404: "unknown_model", 408: "provider_timeout", 429: "rate_limited", 504: "provider_timeout"}
    return known.get(status, "bad_request" if 400 <= status < 500 else "provider_unavailable")


def _transport(links: list[BaseException]) -> ErrorCause | None:
    """The connection failed before there was a whole reply."""
    import httpx
    import openai

    timeouts = (openai.APITimeoutError, httpx.TimeoutException, TimeoutError)
    broken = (openai.APIConnectionError, httpx.TransportError, ConnectionError)
    if any(isinstance(link, timeouts) for link in links):
        return "provider_timeout"
    return "provider_connection" if any(isinstance(link, broken) for link in links) else None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = (
            cast("BaseException | None", getattr(link, "original_exception", None))
            or link.__cause__
            or link.__context__
        )
