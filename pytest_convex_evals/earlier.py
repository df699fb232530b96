"""Looking back: what earlier runs mean for this session.

`--evals-resume` and `--evals-regrade` go on with a run, `--evals-failed-in` selects by one, `--models replay:RUN` hands
in what models handed in there. All of it comes from the run's journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_convex_evals.cells import REPLAY, Cell
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.records import CellRecord, Errored
from pytest_convex_evals.settings import Settings
from pytest_convex_evals.store.history import History, read_description
from pytest_convex_evals.store.lock import RunLock
from pytest_convex_evals.store.runs import RunFolder, check_format, find_run

Mode = Literal["new", "resume", "regrade"]
_LOCK_FILE = "package-lock.json"
_ADOPTED = ("models", "filter", "experiment", "guidelines", "backend", "repeats")
"""The settings that decide what a run is about."""
_NARROWING = ("models", "filter")
"""Of these, the ones that may be given anew to do only a part."""
_PREFIX = 8


@dataclass(frozen=True, slots=True)
class Given:
    """A submission that is there already."""

    answer: str
    """Path of the answer file of the cell; empty for submitters that need none."""
    generation: str
    """Key of the stored answer; empty for submitters that need none."""
    reused: bool
    """Nothing was paid for it in its run."""
    lock: str
    """Path of the package lock of its last attempt; empty when there is none."""
    part: str
    """Fingerprint of the reference answer at that time: the lock of a built-in submitter counts only with it."""


Submissions = dict[str, dict[str, Given]]
"""By eval and label."""


@dataclass(slots=True)
class Earlier:
    """What a session takes over."""

    settings: Settings
    """With what the earlier run says."""
    mode: Mode = "new"
    run_id: str = ""
    """The run to go on with; empty for a new one."""
    only: frozenset[str] | None = None
    """Keys of the cells that may run; None for all."""
    given: Submissions = field(default_factory=dict)
    """Submissions that need no call."""
    history: History = field(default_factory=History)
    """Of the run that this session goes on with."""
    lock: RunLock | None = None
    """On the run that this session goes on with."""
    notes: list[str] = field(default_factory=list)
    """What people should know."""


def look_back(settings: Settings, pasted: Iterable[str], *, only_look: bool) -> Earlier:
    """By the settings; `pasted` are submitters of ids on the command line."""
    store = Path(settings.dir)
    check_format(store)
    found = Earlier(settings)
    if settings.resume or settings.regrade:
        run_id = find_run(store, settings.resume or settings.regrade)
        found.run_id, found.mode = run_id, "resume" if settings.resume else "regrade"
        found.settings = _adopt(settings, store / "runs" / run_id, strictly=True)
        if not only_look:
            found.lock = RunLock.take(store / "runs" / run_id)
        try:
            _go_on(found)
        except BaseException:
            if found.lock is not None:
                found.lock.release()
            raise
    elif settings.failed_in:
        run_id = find_run(store, settings.failed_in)
        found.settings = _adopt(settings, store / "runs" / run_id, strictly=False)
        _select_failed(found, run_id)
    _add_replays(found, pasted)
    return found


def _adopt(settings: Settings, run: Path, *, strictly: bool) -> Settings:
    """The settings of the run; what was given on purpose narrows it, contradicts it, or wins when it may."""
    told: dict[str, Any] = read_description(run)["settings"]
    adopted, sources, warnings = dict[str, Any](), dict(settings.sources), list(settings.warnings)
    for name in _ADOPTED:
        theirs = tuple(told["models"]) if name == "models" else told.get(name)
        ours, source = getattr(settings, name), settings.sources.get(name, "")
        if theirs is None or ours == theirs:
            continue
        if source.startswith("flag") and _may_differ(name, ours, theirs, strictly=strictly):
            continue
        if source.startswith("flag"):
            raise SettingsError(
                f"run {run.name[:_PREFIX]} has {name} {_shown(theirs)}, not {_shown(ours)} ({source}).\n"
                "  what to do: leave the flag out to go on with that run, or start a new run"
            )
        if source:
            warnings.append(f"{name} {_shown(ours)} ({source}) ignored: the run says {_shown(theirs)}")
        adopted[name], sources[name] = theirs, f"run {run.name[:_PREFIX]}"
    if strictly:
        adopted["outputs"] = told["outputs"]
    return replace(settings, **adopted, sources=sources, warnings=tuple(warnings))


def _may_differ(name: str, ours: Any, theirs: Any, *, strictly: bool) -> bool:
    if not strictly:
        return True
    return name in _NARROWING and (name != "models" or set(ours) <= set(theirs))


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else repr(value)


def _go_on(found: Earlier) -> None:
    run = RunFolder.of(found.run_id, found.settings.dir, found.settings.outputs)
    history = found.history = History.read(run.journal)
    if found.mode == "regrade":
        for record in history.records.values():
            given = _given(record, run)
            if given is not None:
                found.given.setdefault(record.eval, {})[record.label] = given
        found.only = frozenset(f"{name}[{label}]" for name, labels in found.given.items() for label in labels)
        without = len(history.planned) - len(found.only & history.planned.keys())
        if without:
            found.notes.append(
                f"{without} cells of run {found.run_id[:_PREFIX]} have no stored submission; --evals-resume asks"
            )
    elif history.planned:
        again = found.settings.resume_errors == "again"
        done = {key for key, record in history.records.items() if not (again and _is_error(record))}
        found.only = frozenset(key for key in history.planned if key not in done)
        found.notes.append(
            f"run {found.run_id[:_PREFIX]}: {len(done)} of {len(history.planned)} cells have a verdict, "
            f"{len(found.only)} are to be run"
        )


def _is_error(record: CellRecord) -> bool:
    return isinstance(record.verdict, Errored)


def _select_failed(found: Earlier, run_id: str) -> None:
    records = History.read(RunFolder.of(run_id, found.settings.dir, "").journal).records.values()
    found.only = frozenset(record.key for record in records if record.verdict.outcome != "passed")
    found.notes.append(f"run {run_id[:_PREFIX]}: {len(found.only)} cells failed or ended with an error")


def _given(record: CellRecord, run: RunFolder) -> Given | None:
    """The submission of a cell; None when there was none."""
    cell = Cell(record.category, record.name, record.model, record.experiment, record.repeat)
    lock = run.outputs / record.folder / _LOCK_FILE
    kept = str(lock) if record.folder and lock.is_file() else ""
    part = record.fingerprint_parts.get("answer", "")
    if record.generation is not None:
        return Given(str(run.answer(cell)), record.generation.key, record.generation.reused, kept, part)
    if cell.kind != "model":
        return Given("", "", False, kept, part)
    return _answered(run.answer(cell), kept, part)


def _answered(path: Path, lock: str, part: str) -> Given | None:
    """An answer that came, and of which the record knows nothing: its worker died."""
    from pytest_convex_evals.generation.answers import find_answer

    answer = find_answer(path)
    if answer is None or answer.trouble is not None:
        return None
    key = answer.unstored.record.key if answer.unstored is not None else answer.generation
    return Given(str(path), key, answer.reused, lock, part) if key else None


def _add_replays(found: Earlier, pasted: Iterable[str]) -> None:
    """`replay:RUN` stands for every model of that run."""
    wanted = [name for name in (*found.settings.models, *pasted) if name.partition(":")[0] == REPLAY]
    names: dict[str, str] = {}
    for name in dict.fromkeys(wanted):
        prefix = name.split(":")[1] if ":" in name else ""
        if not prefix:
            raise SettingsError(f"{name!r} does not say which run.\n  what to do: write replay:RUN or replay:latest")
        run_id = find_run(Path(found.settings.dir), prefix)
        names[name] = f"{REPLAY}:{run_id[:_PREFIX]}"
        told: Mapping[str, Any] = read_description(Path(found.settings.dir) / "runs" / run_id)["settings"]
        run = RunFolder.of(run_id, found.settings.dir, told["outputs"])
        count = _replay(found, run, names[name])
        if not count:
            raise SettingsError(f"run {run_id} holds no submission of a model.\n  what to do: replay another run")
    models = tuple(dict.fromkeys(names.get(name, name) for name in found.settings.models))
    found.settings = replace(found.settings, models=models)


def _replay(found: Earlier, run: RunFolder, name: str) -> int:
    count = 0
    for record in History.read(run.journal).records.values():
        given = _given(record, run) if record.generation is not None else None
        if given is None or record.model.partition(":")[0] == REPLAY:
            continue
        label = f"{name}:{record.label}"
        found.given.setdefault(record.eval, {})[label] = replace(given, reused=True)
        count += 1
    return count
