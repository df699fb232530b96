"""From litellm's exceptions to typed causes: by class and HTTP status, never by words.

litellm itself looks at words in places, and gives a status of 500 to what never had one; the exceptions that it
wrapped tell what really happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_convex_evals.records import ErrorCause, Errored

if TYPE_CHECKING:
    from collections.abc import Iterator

_BY_CLASS: tuple[tuple[str, ErrorCause, str], ...] = (
    ("ContextWindowExceededError", "context_window", "the prompt is too long for this model"),
    ("RateLimitError", "rate_limited", "wait, or lower --evals-concurrency"),
    ("AuthenticationError", "authentication", "check the key of this provider"),
    ("PermissionDeniedError", "authentication", "the key may not use this model"),
    ("NotFoundError", "unknown_model", "the provider does not serve this model; `convex-evals models` lists others"),
    ("Timeout", "provider_timeout", "run the same command again"),
    ("ServiceUnavailableError", "provider_unavailable", "run the same command again later"),
    ("BadGatewayError", "provider_unavailable", "run the same command again later"),
    ("InternalServerError", "provider_unavailable", "run the same command again later"),
    ("APIConnectionError", "provider_connection", "check the network and the proxy settings"),
    ("UnsupportedParamsError", "bad_request", "correct the model's entry in models.toml"),
    ("BadRequestError", "bad_request", "correct the model's entry in models.toml"),
    ("UnprocessableEntityError", "bad_request", "correct the model's entry in models.toml"),
    ("APIResponseValidationError", "provider_reply", "run the same command again"),
    ("JSONSchemaValidationError", "provider_reply", "run the same command again"),
    ("APIError", "provider_unavailable", "run the same command again later"),
)
"""Names of litellm's exception classes, most specific first."""


_REMEDIES: dict[ErrorCause, str] = {
    "rate_limited": "wait, or lower --evals-concurrency",
    "authentication": "check the key of this provider, and what it may use",
    "unknown_model": "the provider does not serve this model; `convex-evals models` lists others",
    "bad_request": "correct the model's entry in models.toml",
    "provider_connection": "check the network and the proxy settings",
}
_AGAIN = "run the same command again later"
_FINER_THAN_STATUS = {"ContextWindowExceededError", "AuthenticationError", "PermissionDeniedError", "NotFoundError"}
"""Some providers say these with a status of 400."""
_FILTER_CODES = {"content_filter", "content_policy_violation"}


def content_filtered(error: BaseException) -> bool:
    """The provider's filter refused: a result of the model, not trouble."""
    import litellm
    import openai

    return any(
        isinstance(link, litellm.exceptions.ContentPolicyViolationError)
        or (isinstance(link, openai.APIStatusError) and link.code in _FILTER_CODES)
        for link in _chain(error)
    )


def trouble_of(error: BaseException) -> Errored:
    """The trouble that an exception of a model call means."""
    import litellm

    links = list(_chain(error))
    for link in links:
        for name, cause, remedy in _BY_CLASS:
            kind = getattr(litellm.exceptions, name, None)
            if isinstance(kind, type) and isinstance(link, kind):
                real = _corrected(name, link, links)
                told = (cause, remedy) if real is None else (real, _REMEDIES.get(real, _AGAIN))
                return Errored(cause=told[0], reason=_said(link), remedy=told[1])
    for link in links:
        transport = _transport([link])
        if transport is not None:
            return Errored(cause=transport, reason=_said(link), remedy=_REMEDIES.get(transport, _AGAIN))
        if isinstance(link, ValueError | KeyError | TypeError | AttributeError | IndexError):
            return Errored(cause="provider_reply", reason=_said(link), remedy=_AGAIN)
    return Errored(cause="generation_child", reason=_said(error), remedy="look into the log of the run")


def _corrected(name: str, link: BaseException, links: list[BaseException]) -> ErrorCause | None:
    """What the wrapped exceptions say where litellm's class is too coarse, or was chosen by words."""
    import httpx

    replies = (link.response.status_code for link in links if isinstance(link, httpx.HTTPStatusError))
    status = next(replies, None)
    if status is not None:
        return None if name in _FINER_THAN_STATUS and 400 <= status < 500 else _by_status(status)
    if name == "APIError":
        known = getattr(link, "status_code", None)
        return _by_status(known) if isinstance(known, int) else None
    if name == "InternalServerError" and len(links) > 1:
        return _transport(links) or "provider_reply"
    return None


def _by_status(status: int) -> ErrorCause:
    known: dict[int, ErrorCause] = {401: "authentication", 402: "authentication", 403: "authentication"}
    known |= {404: "unknown_model", 408: "provider_timeout", 429: "rate_limited", 504: "provider_timeout"}
    return known.get(status, "bad_request" if 400 <= status < 500 else "provider_unavailable")


def _transport(links: list[BaseException]) -> ErrorCause | None:
    """The connection failed before there was a whole reply."""
    import httpx
    import openai

    timeouts, broken = (
        (openai.APITimeoutError, httpx.TimeoutException, TimeoutError),
        (
            openai.APIConnectionError,
            httpx.TransportError,
            ConnectionError,
        ),
    )
    if any(isinstance(link, timeouts) for link in links):
        return "provider_timeout"
    return "provider_connection" if any(isinstance(link, broken) for link in links) else None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000].encode("utf-8", "replace").decode()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__
