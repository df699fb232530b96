"""The controller's side of the generation child."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.answers import Places
from pytest_convex_evals.generation.child import Greeting, Ticket
from pytest_convex_evals.generation.store import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_convex_evals.models.registry import Model
    from pytest_convex_evals.prompts import Prompt

_BARE_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")
_END_S = 2.0
OUTPUT_LIMIT = 64_000
"""The same for all models that can: far above any answer, below every context window."""


def call_for(model: Model, prompt: Prompt) -> Call:
    """Everything that is sent to a model; the same for all models but for what the registry says."""
    parameters: dict[str, object] = {}
    if model.max_output_tokens is not None:
        parameters["max_tokens"] = min(model.max_output_tokens, OUTPUT_LIMIT)
    if model.reasoning:
        parameters["reasoning_effort"] = model.reasoning
    return Call(litellm_id=model.litellm, messages=prompt.messages(), parameters=parameters, api_base=model.api_base)


class GenerationClient:
    """Starts the child and gives it tickets.

    The child inherits a lock on a file of the run and holds it as long as it lives: whoever waits for an answer
    can see that none will come.
    """

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        concurrency: int,
        on_progress: Callable[[dict[str, object]], None] = lambda _: None,
    ) -> None:
        self._on_progress = on_progress
        lock = os.open(places.lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with places.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "pytest_convex_evals.generation.child"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={name: os.environ[name] for name in _BARE_ENVIRONMENT if name in os.environ},
                    start_new_session=True,
                    pass_fds=[lock],
                )
        finally:
            os.close(lock)
        greeting = Greeting(environment=dict(environment), generations=str(places.generations), concurrency=concurrency)
        self._send(greeting.model_dump_json())
        self._reader = threading.Thread(target=self._read, name="generation-child", daemon=True)
        self._reader.start()

    def ask(self, answer: Path, model: Model, prompt: Prompt, repeat: int) -> None:
        """Want an answer, in the file named."""
        ticket = Ticket(
            answer=str(answer),
            provider=model.provider,
            key_variable=model.key,
            call=call_for(model, prompt),
            repeat=repeat,
        )
        self._send(ticket.model_dump_json())

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the child is gone; whoever waits sees it by the lock
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._on_progress(json.loads(line))
        self._process.wait()

    def close(self) -> None:
        """End the child and everything it started."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join(_END_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
