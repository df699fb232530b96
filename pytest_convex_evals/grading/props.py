"""What a check can ask for by naming an argument: each is made fresh for the check that wants it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pytest_convex_evals.backends.base import Backend
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.app import App
from pytest_convex_evals.grading.clock import Clock
from pytest_convex_evals.grading.http_fixture import HttpFixture
from pytest_convex_evals.grading.polling import poll_until
from pytest_convex_evals.grading.reference import reference_of
from pytest_convex_evals.grading.screen import Screen, Stage
from pytest_convex_evals.grading.sources import Sources

if TYPE_CHECKING:
    from pytest_convex_evals.grading.steps.base import Bench

_SOURCES_S = 60.0


class Props:
    """Makers of arguments, and the end of what they made."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._of_cell, self._of_check = ExitStack(), ExitStack()
        self._stage: Stage | None = None
        self._sources: Sources | None = None
        self._deaths = 0
        self.makers: dict[str, Callable[[], Any]] = {"files": self._files, "sources": self._read_sources}
        if bench.backend is not None:
            backend = bench.backend
            self.makers |= {
                "app": lambda: App(backend),
                "clock": lambda: Clock(backend),
                "http": lambda: self._http(backend),
                "poll_until": lambda: poll_until,
                "screen": lambda: self._screen(backend),
                "reference": lambda: reference_of(bench.item, bench.tools),
            }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._of_check.close()
        self._of_cell.close()

    def begin_check(self) -> None:
        """Every check starts from a freshly reset backend."""
        self._of_check.close()
        if self._bench.backend is not None:
            self._deaths = self._bench.backend.reset()
            self._bench.backend.allow_fetch([])

    def end_check(self) -> None:
        """What a check saw counts only if the process that runs the submission lived through it."""
        if self._bench.backend is not None and self._bench.backend.runner_deaths() > self._deaths:
            raise Trouble("cage", "the process that runs the submission died")

    def _files(self) -> MappingProxyType[str, str]:
        return MappingProxyType(dict(self._bench.files))

    def _read_sources(self) -> Sources:
        if self._sources is None:
            facts = self._bench.tools.worker.request("sources", {"files": self._bench.files}, deadline_s=_SOURCES_S)
            self._sources = Sources.from_facts(facts)
        return self._sources

    def _screen(self, backend: Backend) -> Screen:
        if self._stage is None:
            bench = self._bench
            tools = bench.tools
            parts = (tools.toolchain(), tools.worker, bench.project, bench.folder, backend, tools.cage())
            self._stage = Stage(*parts, start=tools.screens.take)
            self._of_cell.callback(tools.screens.prepare, backend.relay)
            self._of_cell.callback(self._stage.close)
        self._of_check.callback(self._stage.blank)
        return self._stage.screen()

    def _http(self, backend: Backend) -> HttpFixture:
        fixture = HttpFixture().start()
        self._of_check.callback(fixture.close)
        backend.allow_fetch([fixture.url])
        return fixture
