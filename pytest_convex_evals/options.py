"""Settings: flags, environment, `.env` and ini, in this order of precedence; each value knows its source.

This module is loaded with the plugin, so it imports only the standard library and pytest. Nothing else
reads the environment.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cells import REFERENCE
from pytest_convex_evals.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


@dataclass(frozen=True, slots=True)
class Value:
    """A raw setting and where it came from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: how it is spelled everywhere, and its default."""

    name: str
    default: str
    help: str
    flag: str = ""
    environment: str = ""
    metavar: str = ""
    repeatable: bool = False
    switch: bool = False
    """Given or not, without a value."""

    @property
    def ini(self) -> str:
        """Every flag has an ini twin."""
        return f"evals_{self.name}"

    @property
    def dest(self) -> str:
        """Where argparse keeps the flag."""
        return f"convex_evals_{self.name}"


AUTO = "auto"

OPTIONS = (
    Option(
        "models",
        REFERENCE,
        "who answers: models of the registry (see `convex-evals models`), ids that litellm can route, or the "
        "built-in submitters reference (the answers of the suite), wrong (submissions that must fail) and "
        "empty; comma lists, repeatable",
        flag="--models",
        environment="MODELS",
        metavar="NAMES",
        repeatable=True,
    ),
    Option(
        "filter",
        "",
        "only evals whose category/name matches this regular expression",
        flag="--evals-filter",
        environment="TEST_FILTER",
        metavar="REGEX",
    ),
    Option(
        "experiment",
        "default",
        "the named condition: default (guidelines in the prompt), no_guidelines, or a name of your own "
        "together with --evals-guidelines",
        flag="--evals-experiment",
        environment="EVALS_EXPERIMENT",
        metavar="NAME",
    ),
    Option(
        "guidelines",
        "",
        "put this file into the prompt instead of the guidelines of the package",
        flag="--evals-guidelines",
        environment="CUSTOM_GUIDELINES_PATH",
        metavar="FILE",
    ),
    Option(
        "backend",
        "embedded",
        "what deploys and runs submissions: embedded (the engine of the package)",
        flag="--evals-backend",
        metavar="NAME",
    ),
    Option(
        "sandbox",
        AUTO,
        "what submitted code runs in: bwrap (bubblewrap), namespaces (of Linux), node (only Node's permission model) "
        "or auto, the strongest that holds here; submissions of models are refused when auto finds only node",
        flag="--evals-sandbox",
        environment="EVALS_SANDBOX",
        metavar="LEVEL",
    ),
    Option(
        "repeats",
        "1",
        "how often each cell is answered and graded",
        flag="--evals-repeats",
        metavar="N",
    ),
    Option(
        "concurrency",
        "8",
        "model calls in flight per provider",
        flag="--evals-concurrency",
        metavar="N",
    ),
    Option("dir", ".evals", "the run store", flag="--evals-dir", metavar="DIR"),
    Option(
        "outputs",
        "",
        "where the folders of graded submissions go instead of the run store",
        environment="OUTPUT_TEMPDIR",
        metavar="DIR",
    ),
    Option(
        "no_upload",
        "",
        "keep results on this machine, even if CONVEX_EVAL_URL and CONVEX_AUTH_TOKEN are set",
        flag="--evals-no-upload",
        switch=True,
    ),
    Option(
        "to_production",
        "",
        "upload to the production deployment of scores.toml from outside of CI",
        flag="--evals-to-production",
        switch=True,
    ),
)

EXECUTION_MODE = "EVALS_EXECUTION_MODE"
"""`answer` means `--models reference`."""

BACKENDS = ("embedded",)
SANDBOXES = (AUTO, "bwrap", "namespaces", "node")
EXPERIMENTS = ("default", "no_guidelines")
_SWITCH = {"": False, "false": False, "true": True}
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run, as really used."""

    models: tuple[str, ...]
    """Submitters in the order given, without repetition."""
    filter: str
    """Regular expression on `category/name`; empty for all."""
    experiment: str
    """Name of the condition."""
    guidelines: str
    """Absolute path of custom guidelines; empty for the package's."""
    backend: str
    """Which backend deploys submissions."""
    sandbox: str
    """The level of the cage that was asked for."""
    repeats: int
    """How often each cell is run."""
    concurrency: int
    """Model calls in flight per provider."""
    dir: str
    """Absolute path of the run store."""
    outputs: str
    """Absolute path for graded submissions; empty for the run store."""
    no_upload: bool = False
    """Results stay on this machine."""
    to_production: bool = False
    """Production may be written to from anywhere."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value that is not a default came from."""
    warnings: tuple[str, ...] = ()
    """What was ignored, and why."""

    def as_json(self) -> dict[str, Any]:
        """Plain values only; `Settings(**it)` is the way back, up to the type of sequences."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return plain | {"models": list(self.models), "warnings": list(self.warnings)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Settings:
        """The way back from `as_json`."""
        return cls(**(dict(plain) | {"models": tuple(plain["models"]), "warnings": tuple(plain["warnings"])}))


def add_options(parser: pytest.Parser) -> None:
    """Register all flags and ini values."""
    group = parser.getgroup("convex-evals", "convex evals: how well do language models write Convex backends")
    for option in OPTIONS:
        default = f" (default: {option.default})" if option.default else ""
        where = f" [environment: {option.environment}]" if option.environment else ""
        if option.switch:
            what = f"{option.help} [ini: {option.ini}]"
            group.addoption(option.flag, dest=option.dest, action="store_const", const="true", default=None, help=what)
        elif option.flag:
            group.addoption(
                option.flag,
                dest=option.dest,
                action="append" if option.repeatable else "store",
                default=None,
                metavar=option.metavar,
                help=f"{option.help}{default}{where} [ini: {option.ini}]",
            )
        parser.addini(option.ini, f"{option.help}{default}", type="string", default="")


def flags_given(config: pytest.Config) -> bool:
    """Some flag of ours stands on the command line."""
    return any(option.flag and config.getoption(option.dest, None) is not None for option in OPTIONS)


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of the process and of `.env`, read once."""

    process: Mapping[str, str]
    dotenv: Mapping[str, str]
    dotenv_path: str = ".env"
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Environment:
        """`.env` of the folder is optional; one that is not text is named and ignored."""
        path = folder / ".env"
        try:
            raw = path.read_bytes()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            warnings = () if missing else (f"{path} ignored: {error.strerror or error}",)
            return cls(dict(os.environ), {}, str(path), warnings)
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            return cls(dict(os.environ), {}, str(path), (f"{path} ignored: it is not UTF-8 text",))
        from io import StringIO

        from dotenv import dotenv_values

        found = dotenv_values(stream=StringIO(text), interpolate=False)
        return cls(dict(os.environ), {k: v for k, v in found.items() if v is not None}, str(path))

    def get(self, name: str) -> Value | None:
        """The value with its source; an empty one counts as absent."""
        if self.process.get(name):
            return Value(self.process[name], f"environment {name}")
        if self.dotenv.get(name):
            return Value(self.dotenv[name], f".env {name}")
        return None

    def merged(self) -> dict[str, str]:
        """What a child that needs everything gets."""
        return {**self.dotenv, **self.process}


def gather(config: pytest.Config, environment: Environment) -> dict[str, Value]:
    """Every setting that somebody made, by the order of precedence."""
    found: dict[str, Value] = {}
    for option in OPTIONS:
        value = _from_flag(config, option) or _from_environment(option, environment) or _from_ini(config, option)
        if value is not None:
            found[option.name] = value
    return found


def _from_flag(config: pytest.Config, option: Option) -> Value | None:
    given = config.getoption(option.dest, None) if option.flag else None
    if given is None:
        return None
    return Value(",".join(given) if isinstance(given, list) else given, f"flag {option.flag}")


def _from_environment(option: Option, environment: Environment) -> Value | None:
    if option.name == "models":
        mode = environment.get(EXECUTION_MODE)
        if mode is not None:
            if mode.text != "answer":
                raise SettingsError(
                    f"{EXECUTION_MODE}={mode.text!r} ({mode.source}) is not known.\n"
                    f"  what to do: set it to 'answer' to grade the reference answers, or unset it"
                )
            return Value(REFERENCE, mode.source)
    return environment.get(option.environment) if option.environment else None


def _from_ini(config: pytest.Config, option: Option) -> Value | None:
    text = str(config.getini(option.ini) or "")
    return Value(text, f"ini {option.ini}") if text else None


def build_settings(config: pytest.Config, environment: Environment) -> Settings:
    """Check every value; the first wrong one raises `SettingsError`."""
    found = gather(config, environment)
    here = Path(config.invocation_params.dir)

    def get(name: str) -> Value:
        default = next(option.default for option in OPTIONS if option.name == name)
        return found.get(name, Value(default, "default"))

    def folder(name: str) -> str:
        return str(_absolute(get(name), config.rootpath, here, name))

    guidelines = _readable_file(get("guidelines"), config.rootpath, here)
    return Settings(
        models=_names(get("models")),
        filter=_pattern(get("filter")),
        experiment=_experiment(get("experiment"), guidelines),
        guidelines=guidelines,
        backend=_one_of(get("backend"), BACKENDS, "backend"),
        sandbox=_one_of(get("sandbox"), SANDBOXES, "sandbox"),
        repeats=_positive(get("repeats"), "repeats"),
        concurrency=_positive(get("concurrency"), "concurrency"),
        dir=folder("dir"),
        outputs=folder("outputs") if get("outputs").text else "",
        no_upload=_switch(get("no_upload"), "no_upload"),
        to_production=_switch(get("to_production"), "to_production"),
        sources={name: value.source for name, value in found.items()},
        warnings=environment.warnings,
    )


def _names(value: Value) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.text.split(",") if name.strip()))
    if not names:
        raise SettingsError(
            f"no model is named ({value.source}).\n  what to do: name one, or leave the setting out for 'reference'"
        )
    return names


def _pattern(value: Value) -> str:
    try:
        re.compile(value.text)
    except re.error as error:
        raise SettingsError(
            f"{value.text!r} ({value.source}) is not a regular expression: {error}.\n"
            "  what to do: give a pattern that is searched in category/name, for example 000-fundamentals/003"
        ) from None
    return value.text


def _experiment(value: Value, guidelines: str) -> str:
    if guidelines and value.text in EXPERIMENTS:
        if value.source != "default":
            raise SettingsError(
                f"experiment {value.text!r} ({value.source}) has its own rules about guidelines.\n"
                "  what to do: give custom guidelines an experiment name of their own"
            )
        return re.sub(r"[^A-Za-z0-9._-]", "-", f"custom-{Path(guidelines).stem}")[:64]
    if value.text in EXPERIMENTS or (guidelines and _NAME.match(value.text)):
        return value.text
    raise SettingsError(
        f"unknown experiment {value.text!r} ({value.source}).\n"
        f"  what to do: choose one of {', '.join(EXPERIMENTS)}, or name custom guidelines with --evals-guidelines FILE"
    )


def _one_of(value: Value, known: tuple[str, ...], what: str) -> str:
    if value.text not in known:
        raise SettingsError(
            f"unknown {what} {value.text!r} ({value.source}).\n  what to do: choose one of {', '.join(known)}"
        )
    return value.text


def _positive(value: Value, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value.text) or int(value.text) < 1:
        raise SettingsError(
            f"{what} must be a whole number of at least 1, not {value.text!r} ({value.source}).\n"
            "  what to do: give a number such as 3, or leave the setting out"
        )
    return int(value.text)


def _switch(value: Value, what: str) -> bool:
    if value.text not in _SWITCH:
        raise SettingsError(
            f"{what} must be true or false, not {value.text!r} ({value.source}).\n"
            "  what to do: correct it, or leave it out"
        )
    return _SWITCH[value.text]


def _absolute(value: Value, rootpath: Path, here: Path, what: str) -> Path:
    """What files of the project say is relative to the project, what people type to where they are."""
    if not value.text.strip():
        raise SettingsError(f"{what} is empty ({value.source}).\n  what to do: name a path, or leave the setting out")
    base = rootpath if value.source.startswith(("ini ", ".env ", "default")) else here
    try:
        return Path(os.path.abspath(base / Path(value.text).expanduser()))
    except RuntimeError as error:
        raise SettingsError(f"{what} {value.text!r} ({value.source}) is no path: {error}") from None


def _readable_file(value: Value, rootpath: Path, here: Path) -> str:
    if not value.text and value.source == "default":
        return ""
    path = _absolute(value, rootpath, here, "guidelines")
    try:
        path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(
            f"guidelines {path} ({value.source}) cannot be read: {problem}.\n"
            "  what to do: name a text file, or leave the setting out"
        ) from None
    return str(path)


def settings_lines(settings: Settings) -> list[str]:
    """Each value that is not a default, with its source."""
    plain = settings.as_json()
    shown = (
        f"{name}: {', '.join(value) if isinstance(value := plain[name], list) else value} ({source})"
        for name, source in settings.sources.items()
    )
    return [*shown, *(f"warning: {warning}" for warning in settings.warnings)]
