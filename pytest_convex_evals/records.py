"""What is remembered about a cell: values that cross processes and outlive them.

All models are frozen, validated once and refuse unknown keys. A verdict is a closed union:
`Passed`, `Failed` (the submission's fault) or `Errored` (ours), each failure with a typed cause.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

StepName = Literal["filesystem", "install", "deploy", "tsc", "eslint", "tests"]
"""The grading steps, in their order."""

Pipeline = Literal["full", "static"]
"""`full` deploys and runs the submission, `static` grades its files only."""

FailureCause = Literal[
    "no_files",  # the answer has no file in the asked-for form
    "empty_answer",  # tokens were used, no text came
    "truncated",  # the token limit cut the answer off
    "refused",  # content filter or refusal
    "path",  # a path that the rules refuse
    "package",  # a package that the rules refuse or that does not exist
    "push",  # the backend refused the push
    "types",  # type errors
    "lint",  # lint errors
    "checks",  # at least one check failed
    "limit",  # a limit of size, time, memory, output or processes
    "crashed",  # the submission takes its cage down
    "not_caught",  # a wrong submission that did not fail where it must
]

ErrorCause = Literal[
    "grader",  # the grader does not import, or asks for what does not exist
    "grader_timeout",  # a check did not end
    "eval",  # the eval itself is broken
    "toolchain",  # the Node part is missing, broken or died
    "tool",  # a command of ours was killed or did not end
    "registry",  # packages could not be fetched
    "reference",  # the reference answer cannot be deployed
    "backend",  # the backend died, is silent or refuses
    "cage",  # the process that runs submitted code died
    "store_unwritable",
    "disk_full",
    "worker_crashed",  # the pytest worker died
    "internal",  # a defect of this package
    "generation_child",  # the process that calls models died or answered nonsense
    "rate_limited",
    "provider_unavailable",
    "provider_timeout",
    "provider_connection",
    "provider_reply",  # an answer that makes no sense: not JSON, no choices
    "zero_tokens",
    "authentication",
    "unknown_model",
    "bad_request",
    "context_window",
    "budget",
    "interrupted",
]


class Frozen(BaseModel):
    """Base of all records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Passed(Frozen):
    """Everything that was asked for is there."""

    outcome: Literal["passed"] = "passed"


class Failed(Frozen):
    """The submission's fault."""

    outcome: Literal["failed"] = "failed"
    cause: FailureCause
    """What kind of failure."""
    reason: str
    """One sentence or more for a reader."""


class Errored(Frozen):
    """Ours: infrastructure, grader, provider, budget."""

    outcome: Literal["error"] = "error"
    cause: ErrorCause
    """What kind of trouble."""
    reason: str
    """What happened, to what."""
    remedy: str = ""
    """What to do next; empty when nothing sensible can be said."""


class NotMade(Frozen):
    """A check that this backend cannot make."""

    outcome: Literal["not_made"] = "not_made"
    reason: str
    """What the backend cannot show."""


Verdict = Annotated[Passed | Failed | Errored, Field(discriminator="outcome")]
CheckVerdict = Annotated[Passed | Failed | Errored | NotMade, Field(discriminator="outcome")]


class CheckRecord(Frozen):
    """One test function of a grader."""

    name: str
    """Name of the function."""
    verdict: CheckVerdict
    """How it ended."""
    duration_s: float
    """Wall time."""
    detail: str = ""
    """Source lines and values as pytest shows them; empty when passed."""


class StepRecord(Frozen):
    """One step of the pipeline."""

    name: StepName
    """Which step."""
    verdict: Verdict
    """How it ended."""
    duration_s: float
    """Wall time."""
    checks: tuple[CheckRecord, ...] = ()
    """The checks of the tests step, in the order of the grader."""
    notes: tuple[str, ...] = ()
    """What was ignored or changed by rule."""


class AttemptRecord(Frozen):
    """One call that brought no answer."""

    cause: str
    """What kind of trouble, or `refused`."""
    reason: str
    """What happened."""
    status: int | None = None
    """Of HTTP; None: there was none."""
    duration_s: float
    """Wall time of the call."""
    waited_s: float = 0.0
    """The pause after it."""


class GenerationRecord(Frozen):
    """The model call behind a submission."""

    key: str
    """Name in the generation store."""
    litellm_id: str
    """The id that was sent."""
    answered_by: str | None
    """The model name in the response; None when the response has none."""
    parameters: dict[str, object]
    """What was asked for beside messages and key."""
    finish_reason: str | None
    """As the provider said it."""
    input_tokens: int | None
    """None: the provider did not say."""
    output_tokens: int | None
    """None: the provider did not say."""
    reasoning_tokens: int | None = None
    """Part of the output tokens; None: the provider did not say."""
    cached_tokens: int | None = None
    """Part of the input tokens; None: the provider did not say."""
    cost_usd: float | None
    """None: unknown."""
    cost_source: Literal["provider", "registry", "litellm"] | None = None
    """The reply itself, the prices of models.toml, or litellm's map; None: unknown, or an answer of format 1."""
    duration_s: float
    """Wall time of the call that was answered, without waiting."""
    first_token_s: float | None = None
    """Until the first piece of the answer or of its reasoning; None: there was none."""
    attempts: tuple[AttemptRecord, ...] = ()
    """The calls before it that brought no answer."""
    served_by: str | None = None
    """Who ran the model, where an aggregator says so."""
    sent: dict[str, object] = Field(default_factory=dict)
    """The body of the request as it went over the wire, without the prompt."""
    searches: int | None = None
    """Web searches that the provider made; None: it did not say."""
    reused: bool = False
    """The answer came from the store; nothing was paid for it in this run."""


class Expectation(Frozen):
    """Where a wrong submission must fail, and whether it did."""

    step: StepName
    """The step that must fail."""
    checks: tuple[str, ...] = ()
    """Checks that must fail, when the step is `tests`."""
    why: str
    """What is wrong with the submission."""
    met: bool
    """It failed there."""


class CellRecord(Frozen):
    """The verdict on one cell, with everything a report needs."""

    run_id: str
    """The run."""
    eval: str
    """`category/name`."""
    category: str
    """First half of the eval's identity."""
    name: str
    """Second half of the eval's identity."""
    model: str
    """The submitter as people type it: a model, `reference`, `wrong:slug`, `empty:kind`."""
    experiment: str
    """The named condition."""
    repeat: int
    """1 for the first."""
    attempt: int
    """1 for the first; a regrade adds one."""
    node_id: str
    """The pytest id, to be pasted back."""
    verdict: Verdict
    """The verdict of the cell."""
    steps: tuple[StepRecord, ...] = ()
    """The steps that ran, in order."""
    expectation: Expectation | None = None
    """Only for wrong submissions."""
    generation: GenerationRecord | None = None
    """Only for models."""
    pipeline: Pipeline
    """Which pipeline graded it."""
    backend: str
    """Which backend graded it; `none` for the static pipeline."""
    backend_version: str
    """Its version; empty for the static pipeline."""
    sandbox: str
    """The level of isolation that was reached; `none` where no submitted code ran."""
    fingerprint: str
    """Of everything that decides the verdict."""
    fingerprint_parts: dict[str, str] = {}
    """The fingerprint by what it is made of, so that a change can be named; empty in records of earlier versions."""
    folder: str
    """The attempt's folder, relative to the run's output folder; empty when there is none."""
    started_at: str
    """ISO 8601, UTC."""
    grading_s: float
    """Wall time of all steps."""

    @property
    def checks(self) -> tuple[CheckRecord, ...]:
        """The checks of all steps."""
        return tuple(check for step in self.steps for check in step.checks)

    @property
    def label(self) -> str:
        """What stands in the brackets of the item id."""
        return self.model if self.repeat == 1 else f"{self.model}+{self.repeat}"

    @property
    def key(self) -> str:
        """Which cell of its run."""
        return f"{self.eval}[{self.label}]"

    def without_steps(self) -> CellRecord:
        """The same without its heavy part, for whoever keeps many."""
        return self.model_copy(update={"steps": ()})
