"""The generation child: the one process that holds keys and imports litellm.

It reads JSON lines from standard input: first a greeting, then one ticket per cell, in the order of need. For each it
leaves an answer file and says so on standard output (`events.py`). It ends when its input ends. Until the first ticket
there may be no run: meanwhile it loads litellm and touches no file.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import platform
import sys
from contextlib import suppress

from pytest_convex_evals.generation.childlog import log, log_defect
from pytest_convex_evals.generation.desk import Desk, GaveUpError
from pytest_convex_evals.generation.events import Event
from pytest_convex_evals.generation.tickets import Greeting, Ticket

DISK_EXIT = 74
"""Exit code of a child that could not write an answer; starting another one does not help."""
_LAST_WRITES_S = 1.0


async def run() -> None:
    """Serve until standard input ends, and then be gone: whatever is in flight is of no use to anybody."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    greeting = Greeting.model_validate_json(await reader.readline())
    _look_around()
    _adopt(greeting.environment)
    desk, tasks = Desk(greeting, _say), set[asyncio.Task[None]]()

    async def handle(ticket: Ticket) -> None:
        try:
            await desk.serve(ticket)
        except GaveUpError as error:
            log(f"an answer is lost: {error}")
            os._exit(DISK_EXIT)
        except Exception:  # noqa: BLE001 - a defect: the client starts another child
            log_defect()
            os._exit(1)

    desk.warm_up()
    lock: int | None = None
    while line := await reader.readline():
        if lock is None:
            lock = _enter_run(greeting)
        task = loop.create_task(handle(Ticket.model_validate_json(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    ends = loop.time() + _LAST_WRITES_S
    while desk.writing and loop.time() < ends:
        await asyncio.sleep(0.01)
    os._exit(0)


def _enter_run(greeting: Greeting) -> int:
    """What is printed goes to the log; the lock is held until this process ends."""
    with suppress(OSError):  # a disk without room for a log may have some for answers
        opened = os.open(greeting.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for stream in (1, 2):
            os.dup2(opened, stream)
        os.close(opened)
    lock = os.open(greeting.lock, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _look_around() -> None:
    """Libraries ask about the system, and Python runs `uname` for that: before there is a key to inherit, and once."""
    platform.platform()
    with suppress(ImportError):  # belongs to the SDKs
        import distro

        distro.info()


def _adopt(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    # litellm must neither load a .env nor fetch a price map when it is imported.
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # A model that repeats itself is a result, not trouble.
    os.environ["REPEATED_STREAMING_CHUNK_LIMIT"] = str(10**9)


def _say(event: Event) -> None:
    try:
        sys.stdout.write(event.model_dump_json() + "\n")
        sys.stdout.flush()
    except OSError:  # nobody listens any longer
        os._exit(0)


def main() -> None:
    """Entry point of the child; nothing that libraries print may reach the protocol."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = protocol
    asyncio.run(run())


if __name__ == "__main__":
    main()
