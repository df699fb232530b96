"""The settings that there are: how each is spelled as a flag, in the environment and in an ini file, and its default.

This module is loaded with the plugin, so it imports only the standard library and pytest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cells import REFERENCE

if TYPE_CHECKING:
    import pytest


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
    """The flag takes no value and means `yes`."""

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
        "built-in submitters reference (the answers of the suite), wrong (submissions that must fail), empty "
        "and replay:RUN (what models handed in in an earlier run); comma lists, repeatable",
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
        "the named condition: default (guidelines in the prompt), no_guidelines, web_search (by the provider itself), "
        "web_search_no_guidelines, or a name of your own together with --evals-guidelines",
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
    Option(
        "budget",
        "",
        "the most that all calls of the session together may cost, in USD: reserved before each call, settled after "
        "it; what no longer fits is not run; models of unknown price are refused",
        flag="--evals-budget",
        metavar="USD",
    ),
    Option(
        "yes",
        "no",
        "buy without asking, also when the estimate is above the threshold; in CI and without a terminal nobody is "
        "asked",
        flag="--evals-yes",
        switch=True,
    ),
    Option(
        "resume",
        "",
        "go on with a run, by the start of its id or `latest`: only its cells that have no verdict are run, with its "
        "settings, in its folder and journal",
        flag="--evals-resume",
        metavar="RUN",
    ),
    Option(
        "resume_errors",
        "again",
        "what --evals-resume does with cells that ended with an error: again (an error is no verdict) or keep",
        flag="--evals-resume-errors",
        metavar="WHAT",
    ),
    Option(
        "regrade",
        "",
        "grade the stored submissions of a run again, as new attempts of that run, without a key and without calls",
        flag="--evals-regrade",
        metavar="RUN",
    ),
    Option(
        "failed_in",
        "",
        "only the cells that failed or ended with an error in that run; models and experiment are that run's unless "
        "given",
        flag="--evals-failed-in",
        metavar="RUN",
    ),
    Option(
        "rehearsal",
        "",
        "how --models replay:RUN answers: latency=FACTOR of the recorded one, faults=SHARE of the answers, "
        "in_flight=N, seed=N",
        environment="EVALS_REHEARSAL",
        metavar="HOW",
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
        "no",
        "keep results on this machine, even if CONVEX_EVAL_URL and CONVEX_AUTH_TOKEN are set",
        flag="--evals-no-upload",
        switch=True,
    ),
    Option(
        "to_production",
        "no",
        "upload to the production deployment of scores.toml from outside of CI",
        flag="--evals-to-production",
        switch=True,
    ),
)

EXECUTION_MODE = "EVALS_EXECUTION_MODE"
"""`answer` means `--models reference`."""

BACKENDS = ("embedded",)
RESUME_ERRORS = ("again", "keep")
SANDBOXES = (AUTO, "bwrap", "namespaces", "node")
WEB_SEARCH = ("web_search", "web_search_no_guidelines")
EXPERIMENTS = ("default", "no_guidelines", *WEB_SEARCH)


def add_options(parser: pytest.Parser) -> None:
    """Register all flags and ini values."""
    group = parser.getgroup("convex-evals", "convex evals: how well do language models write Convex backends")
    for option in OPTIONS:
        default = f" (default: {option.default})" if option.default else ""
        where = f" [environment: {option.environment}]" if option.environment else ""
        if option.flag:
            kind: dict[str, Any] = {"action": "append" if option.repeatable else "store", "metavar": option.metavar}
            if option.switch:
                kind = {"action": "store_const", "const": "yes"}
            text = f"{option.help}{default}{where} [ini: {option.ini}]"
            group.addoption(option.flag, dest=option.dest, default=None, help=text, **kind)
        parser.addini(option.ini, f"{option.help}{default}", type="string", default="")


def flags_given(config: pytest.Config) -> bool:
    """Some flag of ours stands on the command line."""
    return any(option.flag and config.getoption(option.dest, None) is not None for option in OPTIONS)
