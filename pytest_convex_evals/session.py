"""The two sides of a session: the worker grades cells, the controller plans, journals and reports.

Without xdist one process is both. Nothing here is a pytest hook; `plugin.py` hands over.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_convex_evals.cells import BUILT_IN, Cell, PastedId, parse_node_id
from pytest_convex_evals.errors import BrokenEval, SettingsError, SetupError, Trouble, disk_trouble
from pytest_convex_evals.options import AUTO, Environment, Settings, build_settings, settings_lines

if TYPE_CHECKING:
    from importlib.abc import Loader

    from pytest_convex_evals.generation.answers import Places
    from pytest_convex_evals.generation.client import GenerationClient
    from pytest_convex_evals.models.registry import Model
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.scores.uploads import Uploads
    from pytest_convex_evals.store.journal import Journal
    from pytest_convex_evals.store.runs import RunFolder
    from pytest_convex_evals.submission import Submission
    from pytest_convex_evals.suite.evals import Eval
    from pytest_convex_evals.worker import CellGrader

_QUIET_S = 2.0
_SECRET = re.compile(r"(_API_KEY|_AUTH_TOKEN|_ACCESS_KEY|_DEPLOY_KEY|_ADMIN_KEY|_SECRET|_SECRET_KEY)$")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the controller decided once, for all workers."""

    settings: Settings
    run_id: str
    pasted: tuple[PastedId, ...]
    """Ids on the command line; each implies its model for its own eval."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of models, for `-k`."""
    guidelines: str = ""
    """The text that goes into the prompts: read once, so that every process has the same."""
    sandbox: str = AUTO
    """The level of the cage, tried out; `auto` until somebody needs to know."""

    def as_json(self) -> str:
        """For the way to a worker."""
        pasted = [[entry.path, entry.name, entry.submitter, entry.repeat] for entry in self.pasted]
        plain = {"settings": self.settings.as_json(), "run_id": self.run_id, "pasted": pasted}
        texts = {"guidelines": self.guidelines, "sandbox": self.sandbox}
        return json.dumps(plain | {"aliases": dict(self.aliases)} | texts)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The way back."""
        plain = json.loads(text)
        pasted = tuple(PastedId(*entry) for entry in plain["pasted"])
        settings = Settings.from_json(plain["settings"])
        return cls(settings, plain["run_id"], pasted, plain["aliases"], plain["guidelines"], plain["sandbox"])

    def folder(self) -> RunFolder:
        """The places of the run."""
        from pytest_convex_evals.store.runs import RunFolder

        return RunFolder.of(self.run_id, self.settings.dir, self.settings.outputs)


def generation_places(run: RunFolder) -> Places:
    """Where the generation child of a run leaves things."""
    from pytest_convex_evals.generation.answers import Places

    return Places(run.generations, run.path / "generation.log", run.path / "generation.lock")


def make_plan(config: pytest.Config) -> tuple[Plan, Controller]:
    """Read and check all settings; nothing is spent before this succeeded."""
    from pytest_convex_evals.models.registry import registry, resolve
    from pytest_convex_evals.prompts import guidelines_text
    from pytest_convex_evals.scores.uploads import Uploads
    from pytest_convex_evals.store.runs import check_format, new_run_id

    if config.getoption("setuponly", False) or config.getoption("setupplan", False):
        raise SettingsError("--setup-only and --setup-plan would run the models: use --collect-only to look")
    environment = Environment.read(config.rootpath)
    settings = build_settings(config, environment)
    pasted = _pasted(config)
    named = dict.fromkeys([*settings.models, *(entry.submitter for entry in pasted)])
    names = [name for name in named if name.partition(":")[0] not in BUILT_IN]
    known = registry(config.rootpath) if names else {}
    models = {name: resolve(name, known) for name in names}
    merged = environment.merged()
    for model in models.values():
        if model.key and not merged.get(model.key):
            raise SettingsError(
                f"{model.name} needs a key: the variable {model.key} is not set.\n"
                f"  what to do: export {model.key}=…, or write it into {environment.dotenv_path}"
            )
    check_format(Path(settings.dir))
    aliases = {name: f"{model.litellm} {model.display}" for name, model in models.items()}
    guidelines = guidelines_text(settings.experiment, settings.guidelines)
    sandbox = settings.sandbox if config.option.collectonly else _sandbox(settings, names)
    plan = Plan(settings, new_run_id(), pasted, aliases, guidelines, sandbox)
    uploads = Uploads.plan(merged, config.rootpath, settings, models, dry=config.option.collectonly)
    return plan, Controller(plan, models, merged, config.rootpath, list(config.invocation_params.args), uploads)


def _sandbox(settings: Settings, models: Sequence[str]) -> str:
    """The level that holds here; what models write does not run in the weakest one unless somebody said so."""
    from pytest_convex_evals.cage.choice import REMEDIES, choose_cage
    from pytest_convex_evals.engine.setup import node_executable, toolchain_root

    try:
        node = node_executable()
    except SetupError:
        return settings.sandbox  # the cells will say so
    level = choose_cage(settings.sandbox, node, toolchain_root()).level
    if level == "node" and settings.sandbox == AUTO and models:
        raise SettingsError(
            f"code written by {', '.join(models)} does not run here: this machine has no cage but Node's permission "
            f"model, which is not made to hold hostile code.\n"
            f"  what to do: {REMEDIES['bwrap']}; --evals-sandbox node accepts the risk (docs/security.md)"
        )
    return level


def _pasted(config: pytest.Config) -> tuple[PastedId, ...]:
    here = config.invocation_params.dir
    found = (parse_node_id(argument) for argument in config.args)
    return tuple(
        PastedId(os.path.abspath(here / entry.path), entry.name, entry.submitter, entry.repeat)
        for entry in found
        if entry is not None
    )


def take_keys_away(variables: set[str]) -> dict[str, str]:
    """Remove every key from the environment of this process and of all it will start."""
    taken = {name: value for name, value in os.environ.items() if name in variables or _SECRET.search(name)}
    for name in taken:
        del os.environ[name]
    return taken


@dataclass(slots=True)
class WorkerSide:
    """Grades the cells of one process."""

    plan: Plan
    loader: Loader | None
    rootpath: Path
    _grader: CellGrader | None = None

    def grade(self, item: Eval, cell: Cell, node_id: str) -> CellRecord:
        """The record of a cell."""
        return self._cells().grade(item, cell, node_id)

    def shown_folder(self, record: CellRecord) -> str:
        """The attempt's folder as people can open it."""
        return shown(self.plan.folder().outputs / record.folder, self.rootpath) if record.folder else ""

    def _cells(self) -> CellGrader:
        if self._grader is None:
            from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
            from pytest_convex_evals.grading.tools import Tools
            from pytest_convex_evals.worker import CellGrader

            tools = Tools(ensure_toolchain, toolchain_root(), self.plan.sandbox)
            self._grader = CellGrader(self.plan.folder(), self.plan.guidelines, tools, self.loader, self._submission)
        return self._grader

    def _submission(self, item: Eval, cell: Cell) -> Submission:
        from pytest_convex_evals.generation.answers import wait_for_submission
        from pytest_convex_evals.generation.builtin import built_in_submission

        if cell.kind != "model":
            return built_in_submission(item, cell)
        run = self.plan.folder()
        return wait_for_submission(run.answer(cell), generation_places(run))

    def close(self) -> None:
        """End what this process started."""
        if self._grader is not None:
            self._grader.tools.close()
            self._grader = None


@dataclass(slots=True)
class Controller:
    """Plans, journals and reports; the only writer of the journal."""

    plan: Plan
    models: Mapping[str, Model]
    environment: Mapping[str, str]
    """With keys: only for the generation child."""
    rootpath: Path
    command: Sequence[str]
    uploads: Uploads
    """Results on their way to the scores backend."""
    taken: dict[str, str] = field(default_factory=dict)
    """Keys that were in the environment of this process."""
    records: dict[str, CellRecord] = field(default_factory=dict)
    planned: dict[str, Cell] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    answered: int = 0
    say: Callable[[str], None] = lambda _: None
    """Prints a line while the session runs."""
    _said_at: float = 0.0
    _journal: Journal | None = None
    _child: GenerationClient | None = None
    _started: bool = False

    def header_lines(self) -> list[str]:
        """Printed once an eval was collected."""
        from pytest_convex_evals import __version__

        lines = [f"convex-evals {__version__}: run {self.plan.run_id}, sandbox {self.plan.sandbox}"]
        return lines + [f"  {line}" for line in [*settings_lines(self.plan.settings), *self.uploads.header_lines()]]

    def order(self, node_ids: Sequence[str]) -> list[int] | None:
        """The order of hand-out, when there are cells among the items."""
        from pytest_convex_evals.handout import longest_first
        from pytest_convex_evals.store.durations import duration_key, read_durations

        if not self.planned:
            return None
        known = read_durations(Path(self.plan.settings.dir))
        keys = {node_id: duration_key(cell.eval_id, cell.submitter) for node_id, cell in self.planned.items()}
        return longest_first(node_ids, lambda node_id: known.get(keys.get(node_id, "")))

    def start(self, node_ids: Sequence[str]) -> None:
        """The selected cells are known: open the journal, ask for answers."""
        if self._started:
            return
        self._started = True
        for node_id in node_ids:
            parsed = parse_node_id(node_id)
            if parsed is not None:
                # Ids are relative to the root of the session, which may lie inside the suite or beside it.
                folder = Path(os.path.abspath(self.rootpath / parsed.path)).parent
                cell = Cell(
                    folder.parent.name, parsed.name, parsed.submitter, self.plan.settings.experiment, parsed.repeat
                )
                self.planned[node_id] = cell
        run = self.plan.folder()
        try:
            self._open_journal(run)
            self._ask_for_answers(run)
        except OSError as error:
            trouble = disk_trouble(error, "the run store")
            self.problems.append(f"{trouble.reason}; what to do: {trouble.remedy}")
            self._leave_trouble(run, trouble)
        self._set_up_tools()

    def _set_up_tools(self) -> None:
        """A first set-up takes a while, and only the controller can say so; what fails here fails in the cells."""
        from pytest_convex_evals.engine.setup import ensure_toolchain

        with suppress(SetupError, OSError):
            ensure_toolchain(lambda line: self.say(f"set-up: {line}"))

    def _open_journal(self, run: RunFolder) -> None:
        from pytest_convex_evals.runinfo import describe_run
        from pytest_convex_evals.store.journal import Journal
        from pytest_convex_evals.store.runs import create_run

        description = describe_run(self.plan.run_id, self.plan.settings, self.rootpath)
        tasks = {cell.eval_id: self.rootpath / id_.partition("::")[0] for id_, cell in self.planned.items()}
        suite = self.uploads.suite(self.planned.values(), tasks, self.plan, description["git_commit"])
        create_run(run, description | {"suite": {"fingerprint": suite["fingerprint"], "parts": suite["parts"]}})
        self._journal = Journal(run.journal)
        self._journal.append("run_started", run_id=self.plan.run_id, cells=list(self.planned))
        self._journal.append("suite", **suite)
        self.uploads.start(run, lambda line: self.say(line))

    def _ask_for_answers(self, run: RunFolder) -> None:
        wanted = {node_id: cell for node_id, cell in self.planned.items() if cell.kind == "model"}
        if not wanted:
            return
        from pytest_convex_evals.generation.client import GenerationClient
        from pytest_convex_evals.prompts import Prompt, build_prompt
        from pytest_convex_evals.suite.evals import load_eval

        places = generation_places(run)
        self._child = GenerationClient(places, self.environment, self.plan.settings.concurrency, self._answered)
        guidelines, prompts = self.plan.guidelines, dict[str, Prompt]()
        for node_id, cell in wanted.items():
            if cell.eval_id not in prompts:
                task = self.rootpath / node_id.partition("::")[0]
                prompts[cell.eval_id] = build_prompt(load_eval(task).task(), guidelines)
            self._child.ask(run.answer(cell), self.models[cell.submitter], prompts[cell.eval_id], cell.repeat)

    def _answered(self, _: dict[str, object]) -> None:
        """An answer arrived; say so, but not more often than people can read."""
        self.answered += 1
        now = time.monotonic()
        total = sum(cell.kind == "model" for cell in self.planned.values())
        if now - self._said_at >= _QUIET_S or self.answered == total:
            self._said_at = now
            self.say(f"answers of models: {self.answered} of {total}")

    def _leave_trouble(self, run: RunFolder, trouble: Trouble) -> None:
        """Cells that wait for an answer learn why none comes."""
        from pytest_convex_evals.generation.answers import Answer, leave_answer
        from pytest_convex_evals.records import Errored

        verdict = Errored(cause=trouble.cause, reason=trouble.reason, remedy=trouble.remedy)
        for cell in self.planned.values():
            if cell.kind == "model":
                with suppress(OSError):
                    leave_answer(run.answer(cell), Answer(trouble=verdict))

    def add(self, node_id: str, record: CellRecord) -> None:
        """Journal a verdict; the first one on a cell counts."""
        if node_id in self.records:
            return
        self.records[node_id] = record
        if self._journal is None:
            return
        try:
            self._journal.append("cell_finished", record=record.model_dump(mode="json"))
        except OSError as error:
            self.problems.append(f"the verdict on {node_id} is not in the journal: {error.strerror or error}")
        self.uploads.nudge()

    def crashed(self, node_id: str, message: str) -> CellRecord | None:
        """The record of a cell whose worker died."""
        cell = self.planned.get(node_id)
        if cell is None:
            return None
        from pytest_convex_evals.suite.evals import load_eval
        from pytest_convex_evals.worker import record_without_grading

        try:
            item = load_eval(self.rootpath / node_id.partition("::")[0])
        except BrokenEval:
            return None
        trouble = Trouble("worker_crashed", message, remedy="run the same command again")
        return record_without_grading(item, cell, node_id, self.plan.folder(), self.plan.guidelines, trouble)

    @property
    def missing(self) -> int:
        """Cells that were planned and have no verdict."""
        return len([node_id for node_id in self.planned if node_id not in self.records])

    def summary(self) -> list[str]:
        """The lines of the terminal summary."""
        from pytest_convex_evals.rendering import summary_lines

        outputs = shown(self.plan.folder().outputs, self.rootpath)
        ordered = [self.records[node_id] for node_id in self.planned if node_id in self.records]
        lines = list(summary_lines(ordered, outputs, self.missing, self.command))
        return [*(f"warning: {problem}" for problem in self.problems), *lines, *self.uploads.summary_lines()]

    def finish(self, exit_status: int) -> None:
        """The session ends: say so in the journal, end the child, give the environment back."""
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._journal is not None:
            try:
                self._journal.append("run_finished", exit_status=exit_status, missing=self.missing)
            except OSError as error:
                self.problems.append(f"the end of the run is not in the journal: {error.strerror or error}")
            self._journal.close()
            self._journal = None
            self._keep_durations()
        self.uploads.finish(interrupted=exit_status == pytest.ExitCode.INTERRUPTED)

    def _keep_durations(self) -> None:
        from pytest_convex_evals.store.durations import duration_key, keep_durations

        graded = [record for record in self.records.values() if record.steps]
        measured = {duration_key(record.eval, record.model): record.grading_s for record in graded}
        keep_durations(Path(self.plan.settings.dir), measured)

    def restore_environment(self) -> None:
        """Give back what `take_keys_away` took."""
        os.environ.update(self.taken)
        self.taken = {}


def shown(path: Path, rootpath: Path) -> str:
    """A path as short as it can be pasted."""
    try:
        return str(path.relative_to(rootpath))
    except ValueError:
        return str(path)
