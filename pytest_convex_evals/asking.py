"""Asking models: the generation child on behalf of the controller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pytest_convex_evals.generation.answers import Answer, Places, child_lives, leave_answer
from pytest_convex_evals.generation.calls import Order, call_for
from pytest_convex_evals.generation.client import GenerationClient, Purchase
from pytest_convex_evals.generation.estimate import Estimate, estimate
from pytest_convex_evals.generation.store import GenerationStore
from pytest_convex_evals.prompts import Prompt, PromptMaker
from pytest_convex_evals.records import Errored
from pytest_convex_evals.session import Prepared, generation_places
from pytest_convex_evals.suite.evals import load_eval

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.errors import Trouble
    from pytest_convex_evals.generation.events import Event
    from pytest_convex_evals.store.runs import RunFolder

_LOOK_S = 1.0
_GONE_LOOKS = 3
"""So many looks in a row without a child mean that none will come back: a restart takes less."""


def start_child(prepared: Prepared) -> GenerationClient:
    """The process that will call models; it loads litellm while workers start and cells are collected."""
    settings = prepared.plan.settings
    purchase = Purchase(settings.concurrency, settings.budget)
    return GenerationClient(generation_places(prepared.plan.folder()), prepared.environment, purchase)


class Asking:
    """Gives the child a ticket for every cell that has no answer yet; `told` gets every event, `over` the end of it."""

    def __init__(
        self,
        child: GenerationClient,
        prepared: Prepared,
        run: RunFolder,
        wanted: Mapping[str, Cell],
        rootpath: Path,
        told: Callable[[dict[str, Any]], None],
        over: Callable[[], None],
        approve: Callable[[Estimate], None],
    ) -> None:
        self._told, self._over = told, over
        self._prompts = _Prompts(rootpath, prepared.plan.guidelines)
        self._store = GenerationStore(run.generations)
        self._closed = threading.Event()
        open_ = {
            node_id: cell
            for node_id, cell in wanted.items()
            if prepared.plan.mode == "new" or not self._is_there(prepared, run, node_id, cell)
        }
        if not open_:
            return
        orders = [
            Order(run.answer(cell), prepared.models[cell.submitter], self._prompts.of(node_id, cell), cell.repeat)
            for node_id, cell in open_.items()
        ]
        settings = prepared.plan.settings
        to_buy = [order for order in orders if not self._store.has(order.key)]
        approve(estimate(to_buy, len(orders) - len(to_buy), settings.budget))
        child.on_progress = self._hear
        for order in orders:
            child.ask(order)
        threading.Thread(target=self._watch, args=(child.places,), name="generation-watch", daemon=True).start()

    def _is_there(self, prepared: Prepared, run: RunFolder, node_id: str, cell: Cell) -> bool:
        """An earlier session of the run has bought the answer; what it left otherwise is taken away."""
        path = run.answer(cell)
        call = call_for(prepared.models[cell.submitter], self._prompts.of(node_id, cell))
        try:
            answer = Answer.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            answer = Answer()
        key = call.key(cell.repeat)
        if answer.generation == key and self._store.get(key) is not None:
            self._told({"event": "answered", "ticket": str(path), "model": cell.submitter, "outcome": "reused"})
            return True
        path.unlink(missing_ok=True)
        return False

    def _hear(self, event: Event) -> None:
        self._told(event.model_dump())

    def _watch(self, places: Places) -> None:
        """When the child has died for good, whatever waits may find out."""
        gone = 0
        while not self._closed.wait(_LOOK_S):
            gone = 0 if child_lives(places.lock) else gone + 1
            if gone >= _GONE_LOOKS:
                self._over()
                return

    def close(self) -> None:
        """Nobody listens any longer."""
        self._closed.set()


class _Prompts:
    """The prompt of each eval, made once."""

    def __init__(self, rootpath: Path, guidelines: str) -> None:
        self._rootpath, self._maker = rootpath, PromptMaker(guidelines)
        self._made: dict[str, Prompt] = {}

    def of(self, node_id: str, cell: Cell) -> Prompt:
        if cell.eval_id not in self._made:
            task = self._rootpath / node_id.partition("::")[0]
            self._made[cell.eval_id] = self._maker.prompt(load_eval(task).task())
        return self._made[cell.eval_id]


def leave_trouble(run: RunFolder, cells: Iterable[Cell], trouble: Trouble) -> None:
    """Cells that wait for an answer learn why none comes."""
    verdict = Errored(cause=trouble.cause, reason=trouble.reason, remedy=trouble.remedy)
    for cell in cells:
        with suppress(OSError):
            leave_answer(run.answer(cell), Answer(trouble=verdict))
