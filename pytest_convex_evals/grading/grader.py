"""Running a `grader.py`: plain test functions, arguments injected by name, each recorded as a check."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from importlib.abc import Loader
from pathlib import Path

import pytest

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.deadline import Ended, run_all_with_deadline, run_with_deadline
from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed

Check = Callable[..., object]
Providers = Mapping[str, Callable[[], object]]
"""Argument name → what makes its value, fresh for each check."""

CHECK_S = 60.0
_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_MAX_REASON = 2_000
_MAX_DETAIL = 8_000


def load_checks(path: Path, loader: Loader | None) -> dict[str, Check]:
    """The test functions in their order; a grader that cannot be used is our trouble."""
    name = f"convex_evals_grader_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise Trouble("grader", f"{path} cannot be loaded")
    execute = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        ended = run_with_deadline(lambda: execute(module), CHECK_S)
    finally:
        sys.modules.pop(name, None)
    if not ended.in_time:
        reason = f"{path} did not import within {CHECK_S:.0f} s"
        raise Trouble("grader_timeout", reason, remedy="let a grader do its work in functions, not at import")
    if ended.error is not None:
        problem = pytest.ExceptionInfo.from_exception(ended.error).exconly()
        raise Trouble("grader", f"{path} does not import: {problem}", remedy="mend the grader")
    for key, value in vars(module).items():
        if key.startswith("Test") and inspect.isclass(value) and value.__module__ == name:
            raise Trouble("grader", f"{path}: {key} is a class", remedy="write plain functions named test_…")
    checks = {key: value for key, value in vars(module).items() if _is_check(key, value, module)}
    if not checks:
        raise Trouble("grader", f"{path} has no test function", remedy="write functions named test_…")
    return checks


def _is_check(name: str, value: object, module: types.ModuleType) -> bool:
    return name.startswith("test") and inspect.isfunction(value) and value.__module__ == module.__name__


def bind(path: Path, name: str, check: Check, providers: Providers) -> list[str]:
    """The arguments that a check wants; what nobody provides is a broken grader."""
    if any(kind(check) for kind in _NOT_PLAIN):
        raise Trouble("grader", f"{path}: {name} is not a plain function", remedy="write it without async and yield")
    wanted = []
    for parameter in inspect.signature(check).parameters.values():
        if parameter.name in providers:
            wanted.append(parameter.name)
        elif parameter.default is parameter.empty:
            known = ", ".join(sorted(providers))
            raise Trouble("grader", f"{path}: {name} asks for {parameter.name!r}", remedy=f"there is: {known}")
    return wanted


def run_checks(
    path: Path,
    loader: Loader | None,
    providers: Providers,
    *,
    extra_s: float,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> tuple[CheckRecord, ...]:
    """Every check of a grader, in its order, each between `before` and `after`; none disturbs the others."""
    checks = load_checks(path, loader)
    wanted = {name: bind(path, name, check, providers) for name, check in checks.items()}

    def body(name: str, check: Check) -> None:
        before()
        try:
            check(**{key: _made(key, providers[key]) for key in wanted[name]})
        finally:
            after()

    deadline_s = CHECK_S + extra_s
    ended = run_all_with_deadline([partial(body, name, check) for name, check in checks.items()], deadline_s)
    return tuple(_record(path, name, one, deadline_s) for name, one in zip(checks, ended, strict=True))


def _record(path: Path, name: str, ended: Ended, deadline_s: float) -> CheckRecord:
    duration = round(ended.duration_s, 4)
    if not ended.in_time:
        reason = f"{name} did not end within {deadline_s:.0f} s"
        verdict = Errored(cause="grader_timeout", reason=reason, remedy="give the check a deadline of its own")
        return CheckRecord(name=name, verdict=verdict, duration_s=duration)
    error = ended.error
    if error is None:
        return CheckRecord(name=name, verdict=Passed(), duration_s=duration)
    if isinstance(error, Trouble):
        trouble = Errored(cause=error.cause, reason=error.reason, remedy=error.remedy)
        return CheckRecord(name=name, verdict=trouble, duration_s=duration)
    if isinstance(error, SystemExit | KeyboardInterrupt | pytest.skip.Exception):
        reason = f"{name} ended with {type(error).__name__}: {error}"
        broken = Errored(cause="grader", reason=reason, remedy="a check passes or fails; it neither skips nor exits")
        return CheckRecord(name=name, verdict=broken, duration_s=duration)
    reason, detail = describe(error, path)
    return CheckRecord(name=name, verdict=Failed(cause="checks", reason=reason), duration_s=duration, detail=detail)


def _made(name: str, make: Callable[[], object]) -> object:
    """The value of an argument; one that we cannot make is our trouble, not the submission's."""
    try:
        return make()
    except Trouble:
        raise
    except Exception as error:
        reason = f"the argument {name} could not be made: {type(error).__name__}: {error}"
        raise Trouble("internal", reason, remedy="please report it") from error


def describe(error: BaseException, path: Path) -> tuple[str, str]:
    """The message, and the source lines with their values, as pytest writes them."""
    info = pytest.ExceptionInfo.from_exception(error)
    own = info.traceback.filter(lambda entry: Path(entry.path) == path)
    info.traceback = own or info.traceback
    reason = info.exconly(tryshort=True).removeprefix("AssertionError: ") or type(error).__name__
    detail = str(info.getrepr(style="short", chain=False))
    # pytest names the file by whichever of its two paths is shorter; a record names it by neither.
    for shown in sorted((str(path), os.path.relpath(path)), key=len, reverse=True):
        detail = detail.replace(shown, path.name)
    return _short(reason, _MAX_REASON), _short(detail, _MAX_DETAIL)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"
