"""Asking models: the generation child on behalf of the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.answers import Answer, leave_answer
from pytest_convex_evals.generation.client import GenerationClient
from pytest_convex_evals.prompts import Prompt, build_prompt
from pytest_convex_evals.records import Errored
from pytest_convex_evals.session import Prepared, generation_places
from pytest_convex_evals.suite.evals import load_eval

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.errors import Trouble
    from pytest_convex_evals.store.runs import RunFolder

_QUIET_S = 2.0


class Asking:
    """Gives the child a ticket for every cell that needs an answer."""

    def __init__(
        self,
        prepared: Prepared,
        run: RunFolder,
        wanted: Mapping[str, Cell],
        rootpath: Path,
        say: Callable[[str], None],
    ) -> None:
        self._say, self._total = say, len(wanted)
        self._answered, self._said_at = 0, 0.0
        plan = prepared.plan
        self._child = GenerationClient(
            generation_places(run), prepared.environment, plan.settings.concurrency, self._told
        )
        prompts: dict[str, Prompt] = {}
        for node_id, cell in wanted.items():
            if cell.eval_id not in prompts:
                task = rootpath / node_id.partition("::")[0]
                prompts[cell.eval_id] = build_prompt(load_eval(task).task(), plan.guidelines)
            self._child.ask(run.answer(cell), prepared.models[cell.submitter], prompts[cell.eval_id], cell.repeat)

    def _told(self, _: dict[str, object]) -> None:
        """An answer arrived; say so, but not more often than people can read."""
        self._answered += 1
        now = time.monotonic()
        if now - self._said_at >= _QUIET_S or self._answered == self._total:
            self._said_at = now
            self._say(f"answers of models: {self._answered} of {self._total}")

    def close(self) -> None:
        """End the child."""
        self._child.close()


def leave_trouble(run: RunFolder, cells: Iterable[Cell], trouble: Trouble) -> None:
    """Cells that wait for an answer learn why none comes."""
    verdict = Errored(cause=trouble.cause, reason=trouble.reason, remedy=trouble.remedy)
    for cell in cells:
        if cell.kind == "model":
            with suppress(OSError):
                leave_answer(run.answer(cell), Answer(trouble=verdict))
