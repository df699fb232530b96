"""The generation child: the one process that holds keys and imports litellm.

It reads JSON lines from standard input: first `{"environment", "generations", "concurrency"}`, then one ticket per
cell. For each it leaves an answer file and says so on standard output. It ends when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import disk_trouble
from pytest_convex_evals.generation.answers import Answer, leave_answer
from pytest_convex_evals.generation.store import Call, GenerationStore
from pytest_convex_evals.records import Errored, Frozen


class Ticket(Frozen):
    """One cell that needs an answer."""

    answer: str
    """Path of the answer file; given back when it is there."""
    provider: str
    """Calls of one provider share a limit."""
    key_variable: str
    """Variable with the key; empty: litellm finds it."""
    call: Call
    """What is sent."""
    repeat: int
    """Which of several calls."""


class Greeting(Frozen):
    """The first line."""

    environment: dict[str, str]
    """Keys, proxies and settings of providers; they come by pipe, so that no process table shows them."""
    generations: str
    """Folder of the generation store."""
    concurrency: int
    """Calls in flight per provider."""


class Desk:
    """Serves tickets: from the store, or by one call each."""

    def __init__(self, greeting: Greeting) -> None:
        self._environment = greeting.environment
        self._store = GenerationStore(Path(greeting.generations))
        self._limit = greeting.concurrency
        self._lanes: dict[str, asyncio.Semaphore] = {}

    async def serve(self, ticket: Ticket) -> dict[str, Any]:
        """Leave the answer, and describe what happened."""
        key = ticket.call.key(ticket.repeat)
        reused = self._store.get(key) is not None
        answer = Answer(generation=key, reused=True) if reused else await self._buy(ticket)
        leave_answer(Path(ticket.answer), answer)
        return {"done": ticket.answer, "reused": reused, "cause": answer.trouble.cause if answer.trouble else None}

    async def _buy(self, ticket: Ticket) -> Answer:
        lane = self._lanes.setdefault(ticket.provider, asyncio.Semaphore(self._limit))
        async with lane:
            try:
                self._store.prove_writable()
                key = self._environment.get(ticket.key_variable, "") if ticket.key_variable else ""
                return await buy(ticket, key, self._store)
            except OSError as error:
                trouble = disk_trouble(error, "the answer")
                return Answer(trouble=Errored(cause=trouble.cause, reason=trouble.reason, remedy=trouble.remedy))
            except Exception as error:  # noqa: BLE001 - a defect in one answer must not take the others with it
                traceback.print_exc()
                reason = f"defect while {ticket.call.litellm_id} was called: {type(error).__name__}"
                return Answer(trouble=Errored(cause="generation_child", reason=reason, remedy="look into the log"))


async def buy(ticket: Ticket, key: str, store: GenerationStore) -> Answer:
    """Buy one answer; litellm is loaded with the first."""
    from pytest_convex_evals.generation.caller import buy_answer

    return await buy_answer(ticket.call, ticket.repeat, key, store)


async def run() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    greeting = Greeting.model_validate_json(await reader.readline())
    _adopt(greeting.environment)
    desk, tasks = Desk(greeting), set[asyncio.Task[None]]()

    async def handle(line: bytes) -> None:
        try:
            _say(await desk.serve(Ticket.model_validate_json(line)))
        except Exception:  # noqa: BLE001 - an answer that cannot be left: the lock tells whoever waits
            traceback.print_exc()
            os._exit(1)

    while line := await reader.readline():
        task = loop.create_task(handle(line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _adopt(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    # litellm must neither load a .env nor fetch a price map when it is imported.
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point of the child; nothing that libraries print may reach the protocol."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = protocol
    asyncio.run(run())
    os._exit(0)


if __name__ == "__main__":
    main()
