"""What a session writes into the journal of its run so that its results can be delivered later, by anyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cells import BUILT_IN, Cell
from pytest_convex_evals.scores.archives import SourceStore, source_archive
from pytest_convex_evals.suite.version import suite_roots, suite_version

if TYPE_CHECKING:
    from pytest_convex_evals.models.registry import Model

SUITE = "suite"
"""The event of the journal; it holds for the verdicts that follow it."""
_REPLAY = "replay"


def is_scored(submitter: str) -> bool:
    """A model; results of built-in submitters and of replays are never uploaded."""
    return submitter.partition(":")[0] not in {*BUILT_IN, _REPLAY}


def suite_event(
    cells: Sequence[Cell],
    tasks: Mapping[str, Path],
    models: Mapping[str, Model],
    *,
    keep_sources: bool,
    store: Path,
    backend: str,
    custom_guidelines: str,
    git_commit: str | None,
    ci_url: str | None,
) -> dict[str, Any]:
    """The fields of the event for the cells of a session; `tasks` has the TASK.txt of each of their evals."""
    suite = suite_version(suite_roots(tasks.values()), custom_guidelines)
    scored = {name: model for name, model in models.items() if is_scored(name)}
    sources = SourceStore(store)
    return {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "experiment": cells[0].experiment,
        "cells": [[cell.eval_id, cell.submitter, cell.repeat] for cell in cells],
        "fingerprint": suite.fingerprint,
        "evals": list(suite.evals),
        "parts": dict(suite.parts),
        "sources": {name: sources.keep(source_archive(task)) for name, task in tasks.items()} if keep_sources else {},
        "models": {
            name: {"slug": one.name, "display": one.display, "provider": one.provider, "formerly": list(one.formerly)}
            for name, one in scored.items()
        },
        "backend": {"kind": backend},
        "git_commit": git_commit,
        "ci_url": ci_url,
    }


def ci_url(environment: Mapping[str, str]) -> str | None:
    """The page of the job that runs this session; None outside of CI."""
    if environment.get("CI_JOB_URL"):
        return environment["CI_JOB_URL"]
    parts = [environment.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    server, repository, run = parts
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None
