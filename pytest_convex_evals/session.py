"""What a session is about: read and checked once by the controller, handed to all workers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_convex_evals.cells import BUILT_IN, REPLAY, PastedId, parse_node_id, split_label
from pytest_convex_evals.environment import Environment
from pytest_convex_evals.errors import SettingsError, SetupError
from pytest_convex_evals.options import AUTO
from pytest_convex_evals.settings import Settings, build_settings

if TYPE_CHECKING:
    from pytest_convex_evals.earlier import Earlier, Mode, Submissions
    from pytest_convex_evals.generation.answers import Places
    from pytest_convex_evals.models.registry import Model
    from pytest_convex_evals.scores.uploads import Uploads
    from pytest_convex_evals.store.runs import RunFolder

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

    mode: Mode = "new"
    """Whether the session goes on with an earlier run, and how."""
    only: frozenset[str] | None = None
    """Keys of the cells that may run; None for all."""
    given: Submissions = field(default_factory=dict)
    """Submissions that are there already, by eval and label."""

    def as_json(self) -> str:
        """For the way to a worker."""
        plain = {
            "settings": self.settings.as_json(),
            "run_id": self.run_id,
            "pasted": [astuple(entry) for entry in self.pasted],
            "aliases": dict(self.aliases),
            "guidelines": self.guidelines,
            "sandbox": self.sandbox,
            "mode": self.mode,
            "only": None if self.only is None else sorted(self.only),
            "given": {
                name: {label: astuple(given) for label, given in labels.items()} for name, labels in self.given.items()
            },
        }
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The way back."""
        from pytest_convex_evals.earlier import Given

        plain = json.loads(text)
        return cls(
            **plain
            | {
                "settings": Settings.from_json(plain["settings"]),
                "pasted": tuple(PastedId(*entry) for entry in plain["pasted"]),
                "only": None if plain["only"] is None else frozenset(plain["only"]),
                "given": {
                    name: {label: Given(*given) for label, given in labels.items()}
                    for name, labels in plain["given"].items()
                },
            }
        )

    def folder(self) -> RunFolder:
        """The places of the run."""
        from pytest_convex_evals.store.runs import RunFolder

        return RunFolder.of(self.run_id, self.settings.dir, self.settings.outputs)


def generation_places(run: RunFolder) -> Places:
    """Where the generation child of a run leaves things."""
    from pytest_convex_evals.generation.answers import Places

    return Places(run.generations, run.path / "generation.log", run.path / "generation.lock")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what only the controller may know."""

    plan: Plan
    models: Mapping[str, Model]
    environment: Mapping[str, str]
    """With keys of providers: only for the generation child."""
    earlier: Earlier
    uploads: Uploads
    """Results on their way to the scores backend."""


def statuses(run: RunFolder) -> Path:
    """Where workers say what they are doing."""
    return run.path / "workers"


def make_plan(config: pytest.Config, environment: Environment) -> Prepared:
    """Read and check all settings; nothing is spent before this succeeded."""
    from pytest_convex_evals.earlier import look_back

    if config.getoption("setuponly", False) or config.getoption("setupplan", False):
        raise SettingsError("--setup-only and --setup-plan would run the models: use --collect-only to look")
    pasted = _pasted(config)
    asked = build_settings(config, environment)
    earlier = look_back(asked, [entry.submitter for entry in pasted], only_look=config.option.collectonly)
    try:
        return _prepare(config, environment, pasted, earlier)
    except BaseException:
        if earlier.lock is not None:
            earlier.lock.release()
        raise


def _prepare(
    config: pytest.Config, environment: Environment, pasted: tuple[PastedId, ...], earlier: Earlier
) -> Prepared:
    from pytest_convex_evals.models.resolution import refuse_unknown_prices, resolve_models
    from pytest_convex_evals.prompts import guidelines_text
    from pytest_convex_evals.scores.uploads import Uploads
    from pytest_convex_evals.store.runs import new_run_id

    settings, merged = earlier.settings, environment.merged()
    named = dict.fromkeys([*settings.models, *(entry.submitter for entry in pasted)])
    names = [name for name in named if name.partition(":")[0] not in BUILT_IN]
    if earlier.only is not None:
        used = {split_label(key.partition("[")[2][:-1])[0] for key in earlier.only}
        names = [name for name in names if name in used]
    asked = [] if earlier.mode == "regrade" else names
    if settings.rehearsal:
        from pytest_convex_evals.rehearsal import Rehearsal

        Rehearsal.parse(settings.rehearsal)
    models = resolve_models(asked, config.rootpath, web_search=settings.web_search)
    if settings.budget is not None:
        refuse_unknown_prices(models)
    for model in models.values():
        if model.key and not merged.get(model.key):
            raise SettingsError(
                f"{model.name} needs a key: the variable {model.key} is not set.\n"
                f"  what to do: export {model.key}=…, or write it into {environment.dotenv_path}"
            )
    try:
        guidelines = guidelines_text(settings.experiment, settings.guidelines)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"guidelines {settings.guidelines} of the run cannot be read: {error}") from None
    plan = Plan(
        settings,
        earlier.run_id or new_run_id(),
        pasted,
        aliases={name: f"{model.litellm} {model.display}" for name, model in models.items()},
        guidelines=guidelines,
        sandbox=settings.sandbox if config.option.collectonly else _sandbox(settings, names or _replayed(named)),
        mode=earlier.mode,
        only=earlier.only,
        given=earlier.given,
    )
    uploads = Uploads.plan(merged, config.rootpath, settings, names, models, dry=config.option.collectonly)
    return Prepared(plan, models, merged, earlier, uploads)


def _replayed(named: Iterable[str]) -> list[str]:
    """What models wrote is as hostile the second time."""
    return [name for name in named if name.partition(":")[0] == REPLAY]


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


def shown(path: Path, rootpath: Path) -> str:
    """A path as short as it can be pasted."""
    try:
        return str(path.relative_to(rootpath))
    except ValueError:
        return str(path)
