"""The upload of one session's results, as the controller sees it: off, or a reporter child behind a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_convex_evals.scores.target import ADMIN_KEYS, TOKEN, Target, find_target, guard_production
from pytest_convex_evals.settings import Settings

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.models.registry import Model
    from pytest_convex_evals.scores.reporter import Reporter
    from pytest_convex_evals.store.runs import RunFolder

_INTERRUPTED_S = 0.5
_FIRST_WORD_S = 2.0


class Planned(Protocol):
    """What is asked of the plan of a session."""

    @property
    def settings(self) -> Settings: ...  # noqa: D102
    @property
    def guidelines(self) -> str: ...  # noqa: D102


@dataclass(slots=True)
class Uploads:
    """Where results go, and how it goes."""

    target: Target | None
    wanted: bool
    """There are results of models."""
    models: Mapping[str, Model]
    """Those that are asked for answers; nobody is when submissions are graded again."""
    ci_url: str | None = None
    """The page of the CI job, if this is one."""
    why_not: str = ""
    _reporter: Reporter | None = field(default=None)

    @classmethod
    def plan(
        cls,
        environment: MutableMapping[str, str],
        project: Path,
        settings: Settings,
        names: Sequence[str],
        models: Mapping[str, Model],
        *,
        dry: bool = False,
    ) -> Uploads:
        """By the settings. The token is taken out of the environment: only the reporter child gets it."""
        from pytest_convex_evals.scores.facts import ci_url, is_scored

        target, why_not = None, "--evals-no-upload"
        scored = [name for name in names if is_scored(name)]
        if scored and not settings.no_upload:
            target, why_not = find_target(environment, project)
        if target is not None and not dry:
            guard_production(
                target.name,
                environment,
                project,
                forced=settings.to_production,
                flag="keep results here with --evals-no-upload",
            )
        for name in (TOKEN, *ADMIN_KEYS):
            environment.pop(name, None)
        return cls(target, bool(scored), models, ci_url(environment), why_not)

    def header_lines(self) -> list[str]:
        """Where results go; nothing when there are none to go anywhere."""
        if not self.wanted:
            return []
        if self.target is None:
            return [f"scores: results stay here ({self.why_not})"]
        return [f"scores: results go to {self.target.shown}"]

    def suite(
        self, cells: Iterable[Cell], tasks: Mapping[str, Path], plan: Planned, git_commit: str | None
    ) -> dict[str, Any]:
        """The event of the journal that describes the suite, uploads or not; empty when there is nothing to run."""
        from pytest_convex_evals.scores.facts import suite_event

        selected = list(cells)
        if not selected:
            return {}
        return suite_event(
            selected,
            tasks,
            self.models,
            keep_sources=self.wanted,
            store=Path(plan.settings.dir),
            backend=plan.settings.backend,
            custom_guidelines=plan.guidelines if plan.settings.guidelines else "",
            git_commit=git_commit,
            ci_url=self.ci_url,
        )

    def start(self, run: RunFolder, say: Callable[[str], None]) -> None:
        """The journal is open: deliver what it gets."""
        if self.target is not None:
            from pytest_convex_evals.scores.reporter import Reporter

            self._reporter = Reporter(run, self.target, say)
            self._reporter.wait_for_word(_FIRST_WORD_S)
            self._reporter.warn()

    def nudge(self) -> None:
        """Something was journalled: a good moment for words."""
        if self._reporter is not None:
            self._reporter.warn()

    def finish(self, *, interrupted: bool) -> None:
        """The journal is closed. After an interrupt nobody waits for a backend that does not answer."""
        if self._reporter is None:
            return
        if not interrupted:
            self._reporter.finish()
        elif self._reporter.reached:
            self._reporter.finish(stuck_s=_INTERRUPTED_S, longest_s=_INTERRUPTED_S)
        else:
            self._reporter.close()

    def summary_lines(self) -> list[str]:
        """What arrived, and what did not."""
        return [] if self._reporter is None else self._reporter.lines()
