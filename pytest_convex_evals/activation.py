"""When the plugin wakes up.

It sleeps until one of three things: a flag or an item id of ours on the command line, a TASK.txt below the
arguments of a session with workers, or the first TASK.txt that is collected. A project without evals pays nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_convex_evals.cells import parse_node_id
from pytest_convex_evals.environment import Environment
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.options import flags_given

if TYPE_CHECKING:
    from pytest_convex_evals.controller import Controller
    from pytest_convex_evals.session import Plan
    from pytest_convex_evals.worker_side import WorkerSide

WORKER_INPUT = "convex_evals_plan"
WORKER_LOOP = "convex_evals_loop"
_DEFERRED = pytest.StashKey[str]()
_WORKER: pytest.StashKey[WorkerSide] = pytest.StashKey()
_CONTROLLER: pytest.StashKey[Controller] = pytest.StashKey()


def configure(config: pytest.Config) -> None:
    """Wake up early where that is needed, and fail early on wrong settings."""
    if hasattr(config, "workerinput"):
        handed = config.workerinput.get(WORKER_INPUT)
        if handed is not None:
            from pytest_convex_evals.session import Plan

            worker = _install_worker(config, Plan.from_json(handed), config.workerinput["workerid"])
            if config.workerinput.get(WORKER_LOOP):
                from pytest_convex_evals.loops import WorkerLoop

                config.pluginmanager.register(WorkerLoop(worker.close), "convex-evals-loop")
        return
    if flags_given(config) or any(parse_node_id(argument) for argument in config.args) or _workers_need_us(config):
        try:
            _activate(config)
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from None


def _workers_need_us(config: pytest.Config) -> bool:
    """Workers get their plan when they start, so a session with workers looks for evals before."""
    if config.getoption("dist", "no") == "no" or config.getoption("usepdb", False):
        return False
    from pytest_convex_evals.collection import evals_below

    return evals_below(config)


def activate_on_collection(config: pytest.Config) -> WorkerSide | None:
    """The worker side, woken up by the first eval; None when the settings are wrong."""
    worker = active_worker(config)
    if worker is None and not hasattr(config, "workerinput") and _DEFERRED not in config.stash:
        try:
            worker = _activate(config)
        except SettingsError as error:
            # Exceptions during collection become reports; this one must end the session.
            config.stash[_DEFERRED] = str(error)
    return worker


def raise_deferred(config: pytest.Config) -> None:
    """Wrong settings noticed during collection."""
    if _DEFERRED in config.stash:
        raise pytest.UsageError(config.stash[_DEFERRED])


def active_worker(config: pytest.Config) -> WorkerSide | None:
    """The worker side; None while the plugin sleeps."""
    return config.stash.get(_WORKER, None)


def _activate(config: pytest.Config) -> WorkerSide:
    from pytest_convex_evals.controller import Controller
    from pytest_convex_evals.controller_hooks import ControllerHooks
    from pytest_convex_evals.models.registry import key_variables, registry
    from pytest_convex_evals.session import make_plan, take_keys_away

    environment = Environment.read(config.rootpath)
    # First of all: whatever is tried out while the plan is made must not see a key.
    taken = take_keys_away(key_variables(registry(config.rootpath)))
    try:
        prepared = make_plan(config, environment)
    except BaseException:
        os.environ.update(taken)
        raise
    controller = Controller(prepared, config.rootpath, list(config.invocation_params.args))
    controller.taken = taken
    config.stash[_CONTROLLER] = controller
    config.pluginmanager.register(ControllerHooks(controller, config), "convex-evals-controller")
    if not config.option.collectonly:
        controller.warm_up()
    return _install_worker(config, prepared.plan)


def _install_worker(config: pytest.Config, plan: Plan, name: str = "main") -> WorkerSide:
    from pytest_convex_evals.grading.loading import GraderLoader
    from pytest_convex_evals.worker_side import WorkerSide

    worker = WorkerSide(plan, GraderLoader(config), config.rootpath, name)
    config.stash[_WORKER] = worker
    return worker


def unconfigure(config: pytest.Config) -> None:
    """End what was started."""
    worker = active_worker(config)
    if worker is None:
        return
    worker.close()
    if _CONTROLLER in config.stash:
        config.stash[_CONTROLLER].release()
        config.stash[_CONTROLLER].restore_environment()
