"""The reporter child: the one process that holds the token and the client of the scores backend.

It reads JSON lines from standard input, first a greeting, and writes JSON lines to standard output. With `call` in the
greeting it makes that one call and ends. Otherwise it delivers a run while the run goes on, until a line says `finish`
and nothing is left. It ends when its input ends.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_convex_evals.scores.client import Backend, Broken, Refusal, Unreachable
from pytest_convex_evals.scores.delivery import UNAUTHORIZED, Delivery
from pytest_convex_evals.scores.older import OlderRuns
from pytest_convex_evals.store.runs import RunFolder

_IDLE_S, _FIRST_WAIT_S, _LONGEST_WAIT_S, _LAST_WAIT_S = 0.5, 0.5, 30.0, 2.0
_QUIET_S = 0.25


class Commands:
    """What the parent says; the end of its voice is the end of this process."""

    def __init__(self) -> None:
        self.finish = False
        self._rest = b""

    def greeting(self) -> dict[str, Any]:
        """The first line."""
        while b"\n" not in self._rest:
            self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def wait(self, seconds: float) -> None:
        """Until something is said, or so long."""
        ready, _, _ = select.select([0], [], [], 0 if b"\n" in self._rest else seconds)
        if ready:
            self._read()
        *lines, self._rest = self._rest.split(b"\n")
        self.finish = self.finish or b"finish" in lines

    def _read(self) -> None:
        data = os.read(0, 2**16)
        if not data:
            os._exit(0)
        self._rest += data


class Desk:
    """The run of this session first, then what earlier ones still owe."""

    def __init__(self, greeting: dict[str, Any], commands: Commands) -> None:
        self._commands = commands
        self._backend = Backend(greeting["url"], token=greeting["token"], call_s=greeting["call_s"])
        self._run = RunFolder(greeting["run"], Path(greeting["store"]), Path(greeting["outputs"]))
        self._delivery = Delivery(self._run, self._backend, live=greeting["live"], again=greeting["again"])
        self._older: OlderRuns | None = None
        if greeting["older"]:
            self._older = OlderRuns(self._run.store, self._run.id, self._backend, lambda told: _say({"older": told}))
        self._whole = False
        self._said_at = 0.0

    def work(self) -> None:
        """Until everything is delivered and nothing will follow."""
        wait_s = _FIRST_WAIT_S
        ready = False
        while True:
            self._delivery.read()
            try:
                if not ready:
                    self._backend.probe()
                    checked = self._backend.query("admin:checkToken")
                    if "report" not in checked["scopes"]:
                        scopes = ", ".join(checked["scopes"])
                        raise Refusal(UNAUTHORIZED, f"The token {checked['name']} may {scopes}, not report.", "scope")
                    ready = True
                    _say({"reached": True})
                if self._turn():
                    return
                wait_s = _FIRST_WAIT_S
            except (Unreachable, Broken) as error:
                ready = False
                self._report(unreachable=str(error), broken=isinstance(error, Broken))
                longest = _LAST_WAIT_S if self._commands.finish else _LONGEST_WAIT_S
                self._commands.wait(min(wait_s, longest) * random.uniform(0.7, 1.3))  # noqa: S311 - not a secret
                wait_s *= 2

    def _turn(self) -> bool:
        """One thing; true when all is done."""
        self._commands.wait(0)
        self._delivery.read()
        if self._delivery.step():
            self._report()
            return False
        if self._delivery.rest_s:
            self._report(now=True)
            self._commands.wait(self._delivery.rest_s)
            return False
        if self._commands.finish and not self._whole:
            # Whatever was written before the end was asked for is there now.
            self._delivery.read()
            if self._delivery.step():
                return False
            self._whole = True
            self._report(now=True)
            _say({"whole": True})
        pause = None if self._older is None else self._older.step()
        if pause is not None:
            self._report()
            self._commands.wait(pause)
            return False
        self._report(now=True)
        if not self._whole:
            self._commands.wait(_IDLE_S)
        return self._whole

    def _report(self, *, now: bool = False, unreachable: str = "", broken: bool = False) -> None:
        if now or unreachable or time.monotonic() - self._said_at >= _QUIET_S:
            self._said_at = time.monotonic()
            progress = self._delivery.progress
            older = (self._older.work, self._older.owing) if self._older is not None else (0, 0)
            said = {"progress": asdict(progress), "unknown": self._delivery.backlog.unknown, "owing": older[1]}
            trouble = {"unreachable": unreachable, "broken": broken} if unreachable else {}
            _say(said | trouble | {"work": progress.work + older[0]})


def _call(greeting: dict[str, Any]) -> dict[str, Any]:
    """One call for somebody at a terminal."""
    backend = Backend(
        greeting["url"], token=greeting["token"], admin_key=greeting["admin_key"], call_s=greeting["call_s"]
    )
    backend.probe()
    asked = greeting["call"]
    ask = {"query": backend.query, "mutation": backend.mutation, "internal": backend.internal}[asked["kind"]]
    return {"value": ask(asked["name"], **asked["args"])}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point of the child; nothing that libraries print may reach the protocol."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = protocol
    commands = Commands()
    greeting = commands.greeting()
    try:
        if "call" in greeting:
            _say(_call(greeting))
        else:
            Desk(greeting, commands).work()
            _say({"done": True})
    except Refusal as refusal:
        _say({"refused": {"code": refusal.code, "reason": refusal.reason, "message": refusal.message}})
    except (Unreachable, Broken) as error:
        _say({"unreachable": str(error)})
    os._exit(0)


if __name__ == "__main__":
    main()
