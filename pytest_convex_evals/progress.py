"""A look at a session as text: one plain line, or the lines of the live view. Nothing here has side effects."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_convex_evals.monitor import Snapshot, Wait

_WHY = {
    "concurrency": "all slots taken",
    "rate_limited": "the provider asks to wait",
    "retry": "next attempt after a failed one",
    "requests_per_minute": "limit of requests per minute",
    "tokens_per_minute": "limit of tokens per minute",
    "budget": "calls in flight may use up the budget",
    "disk": "the disk is full",
}
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class AtWork:
    """What a worker is doing."""

    worker: str
    cell: str
    step: str
    since: float
    """Seconds of the clock on the wall."""


def plain_line(look: Snapshot) -> str:
    """Everything that fits into one line."""
    parts = []
    if look.asked:
        parts.append(f"answers of models: {look.answered} of {look.asked}")
        if look.in_flight:
            parts.append(f"{look.in_flight} in flight")
        parts += [f"{_waiting(wait)}" for wait in look.waits]
    parts.append(f"graded {look.done} of {look.total}")
    if look.passed + look.failed:
        parts.append(f"{_rate(look)} passed")
    if look.asked:
        parts.append(_spend(look))
    if look.left_s is not None and look.done < look.total:
        parts.append(f"about {duration(look.left_s)} left")
    return ", ".join(part for part in parts if part)


def view_lines(look: Snapshot, at_work: Sequence[AtWork], width: int, now: float | None = None) -> list[str]:
    """The live view, cut to the width of the terminal."""
    now = time.monotonic() if now is None else now
    left = f"about {duration(look.left_s)} left" if look.left_s is not None else "time left unknown"
    lines = [
        f"── convex evals ── {duration(look.elapsed_s)} ── {look.done} of {look.total} cells ── {left} ",
        f"graded    passed {look.passed}  failed {look.failed}  errors {look.errors}"
        + (f"  pass rate {_rate(look)}" if look.passed + look.failed else ""),
    ]
    if look.asked:
        lines.append(
            f"answers   {look.answered} of {look.asked}  in flight {look.in_flight}"
            + (f"  {_spend(look)}" if _spend(look) else "")
        )
        lines += [f"waiting   {_waiting(wait)}" for wait in look.waits]
        lines += [f"stopped   {model}: {cause}" for model, cause in look.stopped]
    for one in at_work:
        lines.append(f"{one.worker:<9} {one.cell}  {one.step} {duration(max(0.0, now - one.since))}")
    lines[0] = lines[0].ljust(width, "─")
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def _waiting(wait: Wait) -> str:
    how_long = f", {duration(wait.seconds)}" if wait.seconds is not None else ""
    return f"{wait.tickets} wait for {wait.provider} ({_WHY.get(wait.why, wait.why)}{how_long})"


def _rate(look: Snapshot) -> str:
    return f"{100 * look.passed / (look.passed + look.failed):.0f} %"


def _spend(look: Snapshot) -> str:
    """Unknown is said, never shown as zero."""
    parts = [f"${look.spent_usd:.2f} spent"] if look.spent_usd else []
    if look.reserved_usd:
        parts.append(f"${look.reserved_usd:.2f} reserved")
    if look.unknown_calls:
        parts.append(f"{look.unknown_calls} calls of unknown cost")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """For people."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
