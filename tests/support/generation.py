"""A generation child with a client, and a way to ask it for answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.generation.answers import Places, wait_for_submission
from pytest_convex_evals.generation.calls import Order
from pytest_convex_evals.generation.client import PATIENCE, GenerationClient, Purchase
from pytest_convex_evals.generation.events import Event
from pytest_convex_evals.generation.store import GenerationStore
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.prompts import Prompt
from pytest_convex_evals.submission import Submission

KEY = "sk-loopback-secret"
SHORT = {
    "connect_s": 10.0,
    "first_token_s": 60.0,
    "idle_s": 60.0,
    "total_s": 120.0,
    "attempts": 2,
    "pause_s": 0.01,
    "longest_pause_s": 0.02,
}
"""Deadlines that a loaded machine keeps, and pauses that nobody notices."""


@dataclass
class Child:
    """One child for all calls of a test."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    concurrency: int = 4
    budget: float | None = None
    patience: dict[str, float] = field(default_factory=dict)
    on_event: Callable[[Event], None] = lambda _: None

    def __post_init__(self) -> None:
        self.places = Places(self.folder / "generations", self.folder / "log", self.folder / "lock")
        self.store = GenerationStore(self.places.generations)
        self.events: list[Event] = []
        self.changed = threading.Condition()
        environment = {
            "LOOPBACK_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
            PATIENCE: json.dumps(SHORT | self.patience),
            **self.environment,
        }
        self.client = GenerationClient(self.places, environment, Purchase(self.concurrency, self.budget))
        self.client.on_progress = self._hear

    def _hear(self, event: Event) -> None:
        self.on_event(event)
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def told(self, name: str, **wanted: Any) -> list[Any]:
        """The events of a kind with these values."""
        return [
            event
            for event in self.events
            if event.event == name and all(getattr(event, key) == value for key, value in wanted.items())
        ]

    def wait(self, name: str, count: int = 1, **wanted: Any) -> list[Any]:
        """The same, as soon as there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told(name, **wanted)) >= count, 120), self.log()
            return self.told(name, **wanted)

    def ask(self, model: Model, prompt: str, *, repeat: int = 1, label: str = "") -> Path:
        path = self.folder / "answers" / f"{label or model.name}-{repeat}.json"
        self.client.ask(Order(path, model, Prompt("Be brief.", prompt), repeat))
        return path

    def submission(self, path: Path) -> Submission:
        return wait_for_submission(path, self.places)

    def outcome(self, path: Path) -> tuple[str, str]:
        """Outcome and cause of what came: ("answer", "") when there are files."""
        try:
            found = self.submission(path)
        except Trouble as trouble:
            return "error", trouble.cause
        return ("failed", found.failure.cause) if found.failure else ("answer", "")

    def log(self) -> str:
        return self.places.log.read_text(encoding="utf-8") if self.places.log.exists() else ""

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def loopback(
    name: str, base: str, protocol: Literal["openai", "responses", "anthropic"] = "openai", **more: Any
) -> Model:
    """A model that is served on the loopback."""
    prefix = "openai/responses" if protocol == "responses" else protocol
    return Model(name, name, "Loopback", f"{prefix}/{name}", "LOOPBACK_KEY", api_base=base, **more)
