"""The generation store: each paid answer, on disk before anything else happens to it.

A file is named by a hash of everything that was sent, and the repeat; an answer is bought once. Only answers
that can be graded again are kept here: errors and filtered answers are never reused, so they are not stored.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from pytest_convex_evals.files import write_atomically
from pytest_convex_evals.records import Frozen, GenerationRecord


class Call(Frozen):
    """Everything that is sent to a model, except the key."""

    litellm_id: str
    """The id for litellm."""
    messages: list[dict[str, str]]
    """The prompt."""
    parameters: dict[str, Any]
    """Reasoning effort, output limit, …"""
    api_base: str = ""
    """Address of the API; empty: the provider's own."""

    def key(self, repeat: int) -> str:
        """Name in the generation store."""
        sent = json.dumps([self.model_dump(), repeat], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(sent.encode()).hexdigest()


class Generation(Frozen):
    """One answer of a model."""

    format: Literal[1, 2] = 2
    """Of this file; 1 knows neither the wire nor attempts nor files."""
    call: Call
    """What was sent."""
    repeat: int
    """Which of several calls."""
    record: GenerationRecord
    """What is known about the call."""
    text: str
    """The answer."""
    refusal: str | None
    """What the provider says instead of an answer."""
    reasoning: str = ""
    """What the model thought aloud, where the provider shows it."""
    files: dict[str, str] = Field(default_factory=dict)
    """The files in the answer, as they were parsed when it came."""
    notes: tuple[str, ...] = ()
    """What was odd about the reply."""
    response: dict[str, Any]
    """The response, put together from all its pieces."""


class GenerationStore:
    """A folder of answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, key: str) -> Path:
        """Where an answer is."""
        return self._folder / f"{key}.json"

    def get(self, key: str) -> Generation | None:
        """The answer; None when there is none, or when it cannot be read as a whole."""
        try:
            return Generation.model_validate_json(self.path(key).read_bytes())
        except (OSError, ValidationError):
            return None

    def has(self, key: str) -> bool:
        """There is a file of that name; whether it can be read is another question."""
        return self.path(key).is_file()

    def put(self, generation: Generation) -> None:
        """Keep an answer; it is on disk when this returns."""
        write_atomically(self.path(generation.record.key), generation.model_dump_json(indent=1) + "\n")

    def prove_writable(self) -> None:
        """Raise `OSError` before money is spent on an answer that could not be kept."""
        probe = self._folder / ".writable"
        write_atomically(probe, b"probe" * 20_000)
        probe.unlink(missing_ok=True)
