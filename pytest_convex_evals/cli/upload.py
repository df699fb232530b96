"""`convex-evals upload`: deliver what is kept of a run."""

from __future__ import annotations

from pathlib import Path

from pytest_convex_evals.cli.deployments import reporting_target
from pytest_convex_evals.cli.output import say
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.scores.reporter import Reporter
from pytest_convex_evals.store import runs

_STUCK_S, _LONGEST_S = 60.0, 24 * 3600.0


def upload_run(store: Path, prefix: str, asked: str, *, again: bool, to_production: bool) -> int:
    """Until everything is there, or nothing moves any more."""
    runs.check_format(store)
    run_id = runs.find_run(store, prefix)
    try:
        folder = runs.run_folder(store.absolute(), run_id)
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingsError(
            f"run {run_id} cannot be read: its run.json is damaged.\n  what to do: choose another run"
        ) from None
    target = reporting_target(asked, to_production=to_production)
    say(f"run {run_id} to {target.shown}")
    reporter = Reporter(folder, target, say, live=False, older=False, again=again)
    reporter.finish(stuck_s=_STUCK_S, longest_s=_LONGEST_S)
    for line in reporter.lines():
        say(line)
    if reporter.whole and not reporter.delivered and not reporter.refused:
        say("there was nothing to deliver: only results of models are kept, not those of built-in submitters")
    if reporter.unknown:
        say(f"{reporter.unknown} results are from a version that did not describe its suite, and stay here")
    return 0 if reporter.whole and not reporter.reason and not reporter.unknown else 1
