"""What headers of a reply say about the next call: `Retry-After` and the quotas of OpenAI and Anthropic.

Dates are compared with the date of the same reply, so that a wrong clock of ours does not matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class Quota:
    """What is left until a moment."""

    remaining: int
    """Requests or tokens."""
    seconds: float
    """Until there is more."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of one reply."""

    retry_after: float | None = None
    """Seconds; None: not said."""
    requests: Quota | None = None
    tokens: Quota | None = None


def read_quotas(headers: Mapping[str, str], now: datetime | None = None) -> Quotas:
    """Names in small letters; what makes no sense is not there."""
    here = _date(headers.get("date", "")) or now or datetime.now(UTC)
    return Quotas(
        _retry_after(headers, here),
        _least(headers, here, ("requests",)),
        _least(headers, here, ("tokens", "input-tokens", "output-tokens")),
    )


def _retry_after(headers: Mapping[str, str], here: datetime) -> float | None:
    millis = _number(headers.get("retry-after-ms", "")) or _number(headers.get("x-ms-retry-after-ms", ""))
    if millis is not None:
        return millis / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    if seconds is not None:
        return seconds
    return _span(text) or _until(text, here)


def _least(headers: Mapping[str, str], here: datetime, kinds: tuple[str, ...]) -> Quota | None:
    """The quota that is used up first."""
    found = []
    for kind in kinds:
        for remaining, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
        ):
            left = _number(headers.get(remaining, ""))
            text = headers.get(reset, "").strip()
            seconds = _number(text)
            seconds = seconds if seconds is not None else _span(text)
            seconds = seconds if seconds is not None else _until(text, here)
            if left is not None and seconds is not None:
                found.append(Quota(int(left), seconds))
    return min(found, key=lambda quota: quota.remaining, default=None)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _span(text: str) -> float | None:
    """`6m0s`, `1.5s`, `20ms`."""
    parts = _SPAN.findall(text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def _until(text: str, here: datetime) -> float | None:
    when = _date(text)
    return max(0.0, (when - here).total_seconds()) if when is not None else None


def _date(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
