"""Answers on their way from the generation child to a worker.

The child leaves one small file per cell: the key of a stored generation, or the trouble that prevented one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import is_locked, write_atomically
from pytest_convex_evals.generation.parser import parse_answer
from pytest_convex_evals.generation.store import Generation, GenerationStore
from pytest_convex_evals.records import AttemptRecord, Errored, Failed, Frozen
from pytest_convex_evals.submission import Submission

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_S = 1.0
"""How often a waiting worker looks whether the generation child still lives."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the generation child of a run leaves things."""

    generations: Path
    """The generation store."""
    log: Path
    """What the child prints."""
    lock: Path
    """Held by the child and its client as long as they live."""


class Answer(Frozen):
    """Exactly one of `generation`, `unstored` and `trouble` is set."""

    generation: str | None = None
    """Key in the generation store."""
    reused: bool = False
    """It was there already; nothing was paid."""
    unstored: Generation | None = None
    """An answer that is never reused: filtered or refused."""
    trouble: Errored | None = None
    """Why there is no answer."""
    attempts: tuple[AttemptRecord, ...] = ()
    """The calls that brought none."""


def leave_answer(path: Path, answer: Answer) -> None:
    """For the worker that waits."""
    write_atomically(path, answer.model_dump_json() + "\n")


def find_answer(path: Path) -> Answer | None:
    """What was left; None when there is nothing, or nothing that can be read."""
    try:
        return Answer.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def wait_for_submission(path: Path, places: Places) -> Submission:
    """The submission of a model, as soon as the answer file is there."""
    answer = _wait(path, places)
    if answer.trouble is not None:
        raise Trouble(answer.trouble.cause, answer.trouble.reason, remedy=answer.trouble.remedy)
    generation = answer.unstored or GenerationStore(places.generations).get(answer.generation or "")
    if generation is None:
        raise Trouble("generation_child", f"the stored answer {answer.generation} cannot be read back")
    if answer.reused:
        record = generation.record.model_copy(update={"reused": True})
        generation = generation.model_copy(update={"record": record})
    return submission_from_generation(generation)


def _wait(path: Path, places: Places) -> Answer:
    pause, look_at = 0.01, time.monotonic() + _LOOK_S
    while True:
        gone = time.monotonic() > look_at and not child_lives(places.lock)
        try:
            return Answer.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            if gone:
                raise Trouble(
                    "generation_child",
                    f"the process that calls models ended without an answer; its log is {places.log}",
                    remedy="run the same command again: answers that were stored are not paid twice",
                ) from None
        except ValidationError as error:
            raise Trouble("generation_child", f"{path} is not an answer: {error}") from None
        if time.monotonic() > look_at:
            look_at = time.monotonic() + _LOOK_S
        time.sleep(pause)
        pause = min(pause * 1.3, 0.25)


def child_lives(lock: Path) -> bool:
    """The generation child is there, or another one is on its way: it and its client hold the lock together."""
    return is_locked(lock, shared=True)


def submission_from_generation(generation: Generation) -> Submission:
    """Grade what the model is to blame for, parse the rest."""
    record, text = generation.record, generation.text
    failure: Failed | None = None
    if generation.refusal is not None or record.finish_reason == "content_filter":
        said = f": {generation.refusal}" if generation.refusal else ""
        failure = Failed(cause="refused", reason=f"the model or its provider refused to answer{said}")
    elif record.finish_reason == "length":
        reason = f"the answer was cut off by the limit of {record.output_tokens or 'unknown many'} output tokens"
        failure = Failed(cause="truncated", reason=reason)
    elif not text.strip():
        reason = f"{record.output_tokens} output tokens were used, and no text came"
        failure = Failed(cause="empty_answer", reason=reason)
    if failure is not None:
        return Submission({}, failure=failure, generation=record, answer_text=text)
    return submission_from_text(text, generation)


def submission_from_text(text: str, generation: Generation | None = None) -> Submission:
    """Parse an answer."""
    parsed = parse_answer(text)
    failure = None
    if not parsed.files:
        reason = "the answer holds no file: no heading with a path followed by a fenced block"
        failure = Failed(cause="no_files", reason=reason)
    record = generation.record if generation else None
    return Submission(parsed.files, notes=parsed.notes, failure=failure, generation=record, answer_text=text)
