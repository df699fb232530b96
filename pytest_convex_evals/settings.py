"""Settings: flags, environment, `.env` and ini, in this order of precedence; each value knows its source.

This module is loaded with the plugin, so it imports only the standard library and pytest.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cells import REFERENCE
from pytest_convex_evals.environment import Environment, Value
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.options import (
    BACKENDS,
    EXECUTION_MODE,
    EXPERIMENTS,
    OPTIONS,
    RESUME_ERRORS,
    SANDBOXES,
    WEB_SEARCH,
    Option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

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
    budget: float | None
    """USD for all calls of the session; None: no limit."""
    yes: bool
    """Nobody is asked before money is spent."""
    dir: str
    """Absolute path of the run store."""
    outputs: str
    """Absolute path for graded submissions; empty for the run store."""
    resume: str = ""
    """The run to go on with; empty for a new one."""
    resume_errors: str = "again"
    """Whether errors of that run count as verdicts: `again` or `keep`."""
    regrade: str = ""
    """The run whose submissions are graded again; empty for none."""
    failed_in: str = ""
    """The run whose failures and errors are selected; empty for none."""
    rehearsal: str = ""
    """How replayed answers arrive; empty: all at once."""
    no_upload: bool = False
    """Results stay on this machine."""
    to_production: bool = False
    """Production may be written to from anywhere."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value that is not a default came from."""
    warnings: tuple[str, ...] = ()
    """What was ignored, and why."""

    @property
    def web_search(self) -> bool:
        """Models search the web by what their provider offers."""
        return self.experiment in WEB_SEARCH

    def as_json(self) -> dict[str, Any]:
        """Plain values only; `Settings(**it)` is the way back, up to the type of sequences."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return plain | {"models": list(self.models), "warnings": list(self.warnings)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Settings:
        """The way back from `as_json`."""
        return cls(**(dict(plain) | {"models": tuple(plain["models"]), "warnings": tuple(plain["warnings"])}))


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
        budget=_amount(get("budget"), "budget"),
        yes=_yes(get("yes"), "yes"),
        **_earlier(get),
        rehearsal=get("rehearsal").text,
        dir=folder("dir"),
        outputs=folder("outputs") if get("outputs").text else "",
        no_upload=_yes(get("no_upload"), "no_upload"),
        to_production=_yes(get("to_production"), "to_production"),
        sources={name: value.source for name, value in found.items()},
        warnings=environment.warnings,
    )


def _earlier(get: Callable[[str], Value]) -> dict[str, str]:
    """The settings that name an earlier run: one at most, because each says what is to be run."""
    given = {name: get(name).text for name in ("resume", "regrade", "failed_in")}
    flags = [f"--evals-{name.replace('_', '-')}" for name, text in given.items() if text]
    if len(flags) > 1:
        raise SettingsError(f"{' and '.join(flags)} exclude each other.\n  what to do: give one of them")
    return given | {"resume_errors": _one_of(get("resume_errors"), RESUME_ERRORS, "treatment of errors")}


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


def _amount(value: Value, what: str) -> float | None:
    if not value.text and value.source == "default":
        return None
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value.text) or float(value.text) <= 0:
        raise SettingsError(
            f"{what} must be an amount in USD above 0, not {value.text!r} ({value.source}).\n"
            "  what to do: give a number such as 2.50, or leave the setting out"
        )
    return float(value.text)


def _yes(value: Value, what: str) -> bool:
    known = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if value.text.lower() not in known:
        raise SettingsError(
            f"{what} must be yes or no, not {value.text!r} ({value.source}).\n  what to do: correct it, or leave it out"
        )
    return known[value.text.lower()]


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
