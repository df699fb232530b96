"""From litellm's exceptions to typed causes: by class, never by words."""

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


def content_filtered(error: BaseException) -> bool:
    """The provider's filter refused: a result of the model, not trouble."""
    import litellm

    return any(isinstance(link, litellm.exceptions.ContentPolicyViolationError) for link in _chain(error))


def trouble_of(error: BaseException) -> Errored:
    """The trouble that an exception of a model call means."""
    import litellm

    for link in _chain(error):
        for name, cause, remedy in _BY_CLASS:
            kind = getattr(litellm.exceptions, name, None)
            if isinstance(kind, type) and isinstance(link, kind):
                return Errored(cause=cause, reason=_said(link), remedy=remedy)
    for link in _chain(error):
        if isinstance(link, TimeoutError):
            return Errored(cause="provider_timeout", reason=_said(link), remedy="run the same command again")
        if isinstance(link, ConnectionError):
            return Errored(cause="provider_connection", reason=_said(link), remedy="check the network")
        if isinstance(link, ValueError | KeyError | TypeError | AttributeError | IndexError):
            return Errored(cause="provider_reply", reason=_said(link), remedy="run the same command again")
    return Errored(cause="generation_child", reason=_said(error))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__
