"""Tests: the grader of a suite in the vitest layout, one check per test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.grading.vitest.report import result_of
from pytest_convex_evals.grading.vitest.room import Room
from pytest_convex_evals.records import StepName

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_convex_evals.backends.base import Backend

STEP_S = 300.0
_OPTIONS: dict[str, Any] = {
    "strict": True,
    "target": "ESNext",
    "module": "ESNext",
    "moduleResolution": "Bundler",
    "lib": ["ES2023", "DOM", "DOM.Iterable", "ESNext.Disposable"],
    "jsx": "react-jsx",
    "skipLibCheck": True,
    "allowJs": True,
    "allowSyntheticDefaultImports": True,
    "forceConsistentCasingInFileNames": True,
    "isolatedModules": True,
    "noEmit": True,
}


class VitestStep:
    """Runs beside the checks of the sources, and always reports every test."""

    name: StepName = "tests"
    blocks = False
    aside = False

    def run(self, bench: Bench) -> StepResult:
        """The whole grader, in its room."""
        room = bench.room or open_room(bench, None)
        backends = [backend for backend in (bench.backend, room.answer) if backend is not None]
        deaths = [backend.runner_deaths() for backend in backends]
        write_tsconfigs(bench.project)
        seconds = STEP_S + bench.item.extra_time
        report = room.run(seconds)
        (bench.folder / "tests.log").write_text(report["output"], encoding="utf-8", errors="backslashreplace")
        # Clients of the grader may still be there; nobody else gets these processes when time ran out on them.
        if report["timedOut"]:
            for backend in backends:
                backend.discard()
        if [backend.runner_deaths() for backend in backends] != deaths:
            raise Trouble("cage", "the process that runs the submission died")
        return result_of(report, bench.item.grader, bench.project.resolve(), seconds)


def open_room(bench: Bench, backend: Backend | None) -> Room:
    """The room of the cell's grader, closed with the bench."""
    bench.room = Room(bench, backend)
    return bench.room


def write_tsconfigs(project: Path) -> None:
    """Graders that compile a project expect it to have these; what a submission brought along stays."""
    wanted = {"tsconfig.json": ["convex", "src"]}
    if (project / "convex").is_dir():
        wanted["convex/tsconfig.json"] = ["./**/*"]
    for name, include in wanted.items():
        if not (project / name).exists():
            content = {"compilerOptions": _OPTIONS, "include": include, "exclude": ["_generated", "./_generated"]}
            (project / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
