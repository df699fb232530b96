"""What a step is: a name, and a way to grade the cell at hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_convex_evals.places import without_places
from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed, StepName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_convex_evals.backends.base import Backend
    from pytest_convex_evals.grading.tools import Tools
    from pytest_convex_evals.grading.vitest.room import Room
    from pytest_convex_evals.submission import Submission
    from pytest_convex_evals.suite.evals import Eval


@dataclass(slots=True)
class Bench:
    """What the steps of one cell work on: each may use what the ones before it left."""

    item: Eval
    submission: Submission
    folder: Path
    """The attempt's own folder; nothing is written outside it."""
    tools: Tools
    files: dict[str, str] = field(default_factory=dict)
    """What the filesystem step wrote, by path in the project."""
    backend: Backend | None = None
    """What the deploy step pushed to."""
    room: Room | None = None
    """Where a vitest grader runs."""
    entered: Callable[[str], None] = lambda _: None
    """Told the name of each step that begins."""

    def close(self) -> None:
        """End what the steps started."""
        if self.room is not None:
            self.room.close()
        if self.backend is not None:
            self.backend.close()

    @property
    def project(self) -> Path:
        """The submission on disk."""
        return self.folder / "project"

    def tidy(self, text: str) -> str:
        """A text of a tool without paths of this machine."""
        return without_places({"project": self.project, "attempt": self.folder, "store": self.tools.cache})(text)

    def keep_log(self, step: StepName, text: str) -> None:
        """What a tool said, for people."""
        (self.folder / f"{step}.log").write_text(f"{self.tidy(text)}\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended; trouble that leaves nothing to report is raised instead."""

    verdict: Passed | Failed | Errored
    checks: tuple[CheckRecord, ...] = ()
    notes: tuple[str, ...] = ()


class Step(Protocol):
    """A step of the pipeline."""

    name: StepName
    blocks: bool
    """When it fails, the steps after it cannot run."""
    aside: bool
    """It needs nothing of the other steps that do not block, and runs beside them."""

    def run(self, bench: Bench) -> StepResult:
        """Grade; raise `Trouble` for everything that is not the submission's fault."""
        ...
