"""Records in, text out: failure messages, JUnit properties and the summary. Nothing here has side effects."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_convex_evals.records import CellRecord, Errored, Failed, NotMade

if TYPE_CHECKING:
    from pytest_convex_evals.records import CheckRecord

_INDENT = "  "
_SHOWN_CAUSES = 400


def junit_properties(record: CellRecord) -> list[tuple[str, str]]:
    """The properties of a test case, in their fixed order; unknown is said, never shown as zero."""
    generation = record.generation
    made = [check for check in record.checks if not isinstance(check.verdict, NotMade)]
    passed = sum(check.verdict.outcome == "passed" for check in made)

    def paid(value: float | None) -> str:
        return "0" if generation is None else "unknown" if value is None else f"{value:.12g}"

    return [
        ("eval", record.eval),
        ("category", record.category),
        ("model", record.model),
        ("experiment", record.experiment),
        ("repeat", str(record.repeat)),
        ("run_id", record.run_id),
        ("outcome", record.verdict.outcome),
        ("cause", record.verdict.cause if isinstance(record.verdict, Failed | Errored) else ""),
        ("steps", " ".join(f"{step.name}={step.verdict.outcome}" for step in record.steps)),
        ("checks_passed", str(passed)),
        ("checks_total", str(len(record.checks))),
        ("cost_usd", paid(generation.cost_usd if generation else None)),
        ("input_tokens", paid(generation.input_tokens if generation else None)),
        ("output_tokens", paid(generation.output_tokens if generation else None)),
        ("generation_s", paid(generation.duration_s if generation else None)),
        ("grading_s", f"{record.grading_s:.3f}"),
        ("backend", record.backend),
        ("backend_version", record.backend_version),
        ("sandbox", record.sandbox),
        ("fingerprint", record.fingerprint),
    ]


def verdict_text(record: CellRecord, folder: str) -> str:
    """What pytest shows for a cell that did not pass: every failed step and check with its reason."""
    verdict = record.verdict
    if not isinstance(verdict, Failed | Errored):
        return ""
    word = "failed" if isinstance(verdict, Failed) else "error"
    first, *rest = verdict.reason.splitlines() or [""]
    lines = [f"{word} ({verdict.cause}): {first}", *(_INDENT + line for line in rest)]
    if isinstance(verdict, Errored) and verdict.remedy:
        lines.append(f"{_INDENT}what to do: {verdict.remedy}")
    for step in record.steps:
        for check in step.checks:
            lines += _check_lines(check)
        lines += [f"{_INDENT}note: {note}" for note in step.notes]
    if folder:
        lines.append(f"{_INDENT}folder: {folder}")
    return "\n".join(lines)


def _check_lines(check: CheckRecord) -> list[str]:
    if check.verdict.outcome in {"passed", "not_made"}:
        return []
    shown = check.detail or getattr(check.verdict, "reason", "")
    return ["", f"{_INDENT}{check.name}", *(_INDENT * 2 + line for line in shown.splitlines())]


def status_word(record: CellRecord) -> str:
    """The word of a verbose line."""
    checks = record.checks
    passed = sum(check.verdict.outcome == "passed" for check in checks)
    tail = f" {passed}/{len(checks)} checks" if checks else ""
    return f"{record.verdict.outcome.upper()}{tail} {record.grading_s:.1f} s"


def summary_lines(
    records: Sequence[CellRecord], outputs: str, missing: int, command: Sequence[str], run_id: str
) -> Iterator[str]:
    """By model and category; failures, then errors apart; at last what to run next."""
    if records:
        yield from _table(records)
    for title, outcome in (("failed", Failed), ("errors (ours, not the model's)", Errored)):
        found = [record for record in records if isinstance(record.verdict, outcome)]
        if found:
            yield ""
            yield f"{title}:"
            for record in found:
                yield from _problem_lines(record, outputs)
    reused = sum(record.generation is not None and record.generation.reused for record in records)
    if reused:
        yield ""
        yield f"{reused} answers came from the generation store and were not paid again"
    if missing:
        yield ""
        yield f"not run: {missing} cells have no verdict"
    yield ""
    yield from _next_lines(records, missing, command, run_id)


def _problem_lines(record: CellRecord, outputs: str) -> Iterator[str]:
    verdict = record.verdict
    assert isinstance(verdict, Failed | Errored)
    yield f"{_INDENT}{record.eval} [{record.label}] {verdict.cause}"
    for line in verdict.reason.splitlines()[:6]:
        yield _INDENT * 2 + (line if len(line) <= _SHOWN_CAUSES else f"{line[:_SHOWN_CAUSES]}…")
    if isinstance(verdict, Errored) and verdict.remedy:
        yield f"{_INDENT * 2}what to do: {verdict.remedy}"
    if record.folder:
        yield f"{_INDENT * 2}folder: {outputs}/{record.folder}"


def _submitter(record: CellRecord) -> str:
    return record.model.partition(":")[0] if record.model.startswith(("wrong:", "empty:")) else record.model


def _table(records: Sequence[CellRecord]) -> Iterator[str]:
    """One row per model, one column per category: passed of those with a verdict."""
    categories = sorted({record.category for record in records})
    models = list(dict.fromkeys(_submitter(record) for record in records))
    rows = [["model", *categories, "all", "score", "errors"]]
    for model in models:
        mine = [record for record in records if _submitter(record) == model]
        cells = [_share([record for record in mine if record.category == category]) for category in categories]
        errors = sum(isinstance(record.verdict, Errored) for record in mine)
        rows.append([model, *cells, _share(mine), _score(mine), str(errors)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join([row[0].ljust(len(first)), *rest])


def _share(records: Sequence[CellRecord]) -> str:
    counts = Counter(record.verdict.outcome for record in records)
    graded = counts["passed"] + counts["failed"]
    return f"{counts['passed']}/{graded}" if records else "-"


def _score(records: Sequence[CellRecord]) -> str:
    counts = Counter(record.verdict.outcome for record in records)
    graded = counts["passed"] + counts["failed"]
    return f"{100 * counts['passed'] / graded:.1f} %" if graded else "-"


_ONCE = {"--lf", "--last-failed"}
_ONCE_WITH_VALUE = ("--evals-resume", "--evals-regrade", "--evals-failed-in")


def repeatable(command: Sequence[str]) -> list[str]:
    """A command without what it says about earlier runs."""
    kept: list[str] = []
    skip = False
    for part in command:
        if skip:
            skip = False
        elif part in _ONCE_WITH_VALUE:
            skip = True
        elif part not in _ONCE and not part.startswith(tuple(f"{flag}=" for flag in _ONCE_WITH_VALUE)):
            kept.append(part)
    return kept


def _next_lines(records: Sequence[CellRecord], missing: int, command: Sequence[str], run_id: str) -> Iterator[str]:
    again = ["pytest", *repeatable(command)]
    if missing or any(record.verdict.outcome == "error" for record in records):
        yield f"go on with this run:          {shlex.join([*again, '--evals-resume', run_id[:8]])}"
    if any(record.verdict.outcome != "passed" for record in records):
        yield f"run what did not pass again:  {shlex.join([*again, '--lf'])}"
    if records:
        yield f"look at this run again:       convex-evals show {run_id[:8]}"
    if all(record.generation is None for record in records):
        example = f"{records[0].node_id.partition('/')[0]} --models gpt-5 -k {records[0].name}" if records else "evals"
        yield f"run a real model:             OPENAI_API_KEY=… pytest {example}"
        yield "all models that are known:    convex-evals models"
