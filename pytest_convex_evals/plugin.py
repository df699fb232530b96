"""The pytest plugin: a table of contents of its hooks.

Only pytest and the standard library are imported here; everything else when an eval is there.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_convex_evals import options
from pytest_convex_evals.activation import (
    activate_on_collection,
    active_worker,
    configure,
    raise_deferred,
    unconfigure,
)
from pytest_convex_evals.cells import SUBMISSION_FOLDERS, TASK_FILE

if TYPE_CHECKING:
    from pytest_convex_evals.collection import EvalFile


def pytest_addoption(parser: pytest.Parser) -> None:
    """Flags and ini values."""
    options.add_options(parser)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Markers; settings too, when a flag is given or workers will be started."""
    config.addinivalue_line("markers", "category(name): the category of an eval")
    config.addinivalue_line("markers", "model(name): the model, or built-in submitter, of an eval item")
    configure(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was started."""
    unconfigure(config)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Answers and wrong submissions hold no tests."""
    if SUBMISSION_FOLDERS.isdisjoint(collection_path.parts):
        return None
    from pytest_convex_evals.collection import ignored

    return ignored(collection_path) or None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
    """A TASK.txt is an eval and nothing else: no other collector gets it."""
    others = yield
    if file_path.name != TASK_FILE:
        return others
    worker = activate_on_collection(parent.config)
    if worker is None:
        return []
    from pytest_convex_evals.collection import EvalFile

    node: EvalFile = EvalFile.of(parent, file_path, worker)
    return [node]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Wrong settings that were noticed with the first eval end the session."""
    result = yield
    raise_deferred(session.config)
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cells that an earlier run rules out are deselected; broken evals among the others become collection errors."""
    if active_worker(config) is not None:
        from pytest_convex_evals.collection import deselect, drop_broken

        deselect(config, items)
        drop_broken(session, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """The record of a cell travels on its report."""
    if active_worker(item.config) is None:
        return (yield)
    from pytest_convex_evals.collection import complete_report, without_traceback

    without_traceback(call)
    report = yield
    complete_report(item, call, report)
    return report
