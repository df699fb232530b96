"""The embedded engine: core processes that are spoken to over their standard streams, and the cells that use them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_convex_evals.backends.base import CronJob, CronRun, FunctionError, Identity, ScheduledFunction, Usage
from pytest_convex_evals.cage.levels import INSIDE, Cage
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import passing_folder
from pytest_convex_evals.pipes import LineChild, Refused, Silence
from pytest_convex_evals.values import Value, decode, encode

_START_S = 30.0
CONTROL_S = 30.0
"""A backend that says nothing for so long is trouble."""
_ADVANCE_S = 60.0
_MS = 1000.0
_CELLS_PER_CORE = 200
_MEMORY_PER_CORE = 400_000_000
_NOT_FOUND = "FunctionNotFound"
_SCRIPT, _PACKAGES, _RELAY = f"{INSIDE}/runner.cjs", f"{INSIDE}/node_modules", f"{INSIDE}/relay"
_ANY_PACKAGES = "/{packages}"
"""The core puts the folder of the deployment's packages here."""


@dataclass(frozen=True, slots=True)
class Pushes:
    """How pushes ended."""

    finished: int
    """How many were activated."""
    refusal: str | None
    """Why the latest one was not; None when it was, or when the client gave up."""


@dataclass(slots=True)
class Core:
    """A core process, and how it is reached at present."""

    child: LineChild
    ready: Mapping[str, Any]
    relay: Path | None = None
    """Sockets through which what is caged reaches the core and what a grader allows."""
    node_prefix: Callable[[int], list[str]] | None = None
    """What comes before Node actions that share the network of a process; None when no cage cuts the network."""
    cells: int = 0
    """How many it has served."""
    renewing: Callable[[], Any] | None = None
    """Waits until it is as new; the cell that it served need not."""

    @classmethod
    def start(cls, toolchain: Toolchain, options: Sequence[str] = (), *, cage: Cage | None = None) -> Core:
        """Start a process and wait for its greeting."""
        isolates = cage is not None and cage.isolates
        relay = passing_folder("cage-") if isolates else None
        caged = [] if cage is None else ["--cage", json.dumps(_runners(cage, toolchain, relay))]
        child = LineChild(
            [str(toolchain.node), str(toolchain.script("core")), *caged, *options],
            cwd=toolchain.folder,
            environment={"PATH": os.defpath},
            name="the backend",
            cause="backend",
            remedy="run the same command again",
        )
        shared = None
        if cage is not None and relay is not None:
            where, folder = cage, relay
            shared = lambda process: where.prefix(_node_program(toolchain, folder, process))  # noqa: E731
        return cls(child, child.greeting(_START_S), relay, shared)

    def renew(self) -> None:
        """Begin to empty it, on other ports and with another key: nobody who knew the last cell reaches the next."""
        self.renewing = self.child.ask("renew", {}, deadline_s=CONTROL_S)

    def await_ready(self) -> None:
        """It is as new from now on."""
        if self.renewing is not None:
            self.ready, self.renewing = self.renewing(), None

    def close(self) -> None:
        """End the process; its runners end with it."""
        self.child.close()
        if self.relay is not None:
            shutil.rmtree(self.relay, ignore_errors=True)


class GiveBack(Protocol):
    """Takes a core back at the end of a cell."""

    def __call__(self, core: Core, *, fit: bool) -> None: ...  # noqa: D102


class Cores:
    """The cores of one pytest worker: one that served a cell without trouble serves the next."""

    def __init__(self, start: Callable[[], Core]) -> None:
        self._start = start
        self._idle: list[Core] = []

    def backend(self) -> EmbeddedBackend:
        """A fresh, empty backend; whoever asks for it closes it."""
        while self._idle:
            core = self._idle.pop()
            try:
                core.await_ready()
            except (Trouble, Refused):
                core.close()
                continue
            if core.child.alive:
                return EmbeddedBackend(core, self._give_back)
            core.close()
        return EmbeddedBackend(self._start(), self._give_back)

    def _give_back(self, core: Core, *, fit: bool) -> None:
        core.cells += 1
        try:
            if fit and core.cells < _CELLS_PER_CORE:
                core.renew()
                self._idle.append(core)
                return
        except (Trouble, Refused):
            pass
        core.close()

    def close(self) -> None:
        """End them all."""
        while self._idle:
            self._idle.pop().close()


def _end(core: Core, *, fit: bool) -> None:  # noqa: ARG001 - one of a kind with Cores._give_back
    core.close()


class EmbeddedBackend:
    """The use of one core by one cell."""

    kind = "embedded"

    def __init__(self, core: Core, give_back: GiveBack = _end) -> None:
        self._usage = Usage(0, 0, 0, 0)
        self._core, self._give_back = core, give_back
        self._closed, self._fit = False, True
        self._allowed: tuple[str, ...] = ()
        self.relay = core.relay
        ready = core.ready
        self.url, self.site_url = str(ready["url"]), str(ready["siteUrl"])
        self.admin_key, self.version = str(ready["adminKey"]), str(ready["version"])

    def _request(self, op: str, params: Mapping[str, Any], deadline_s: float) -> Any:
        if self._closed:
            raise Trouble("backend", f"the backend was asked for {op} after the end of its cell")
        try:
            return self._core.child.request(op, params, deadline_s=deadline_s)
        except Trouble:
            self._fit = False
            raise

    def _ask(self, op: str, deadline_s: float | None = None, **params: Any) -> Any:
        try:
            return self._request(op, params, CONTROL_S if deadline_s is None else deadline_s)
        except Refused as error:
            raise Trouble("backend", f"the backend refused {op}: {error}") from None

    def deployed(self) -> bool:
        """A push has been finished."""
        return bool(self._ask("components"))

    def pushes(self) -> Pushes:
        """How pushes ended so far."""
        found = self._ask("pushes")
        return Pushes(int(found["finished"]), found["refusal"])

    def reset(self, start: float | None = None) -> int:
        """Drop all data; begin at a time when one is given. How often the runner has died so far."""
        self._usage = Usage(0, 0, 0, 0)
        return int(self._ask("reset", **({} if start is None else {"clock": start}))["runnerDeaths"])

    def advance(self, milliseconds: float) -> None:
        """Move the clock; functions that do not end in time are the submission's fault."""
        try:
            params = {"ms": milliseconds, "deadline": _ADVANCE_S * _MS}
            self._request("clock.advance", params, _ADVANCE_S + CONTROL_S)
        except Refused as error:
            if error.code == "Deadline":
                raise AssertionError(f"functions that fell due were still running after {_ADVANCE_S:.0f} s") from None
            raise Trouble(
                "backend", f"the clock could not be moved: {error}", remedy="call clock.start first"
            ) from None

    def share_network(self, gate: Path | None, process: int | None, hidden: Sequence[int]) -> None:
        """Let actions reach what listens where a grader listens."""
        params: dict[str, Any] = {"hidden": list(hidden)}
        if gate is not None and process is not None and self._core.node_prefix is not None:
            params |= {"gate": str(gate), "prefix": self._core.node_prefix(process)}
        self._ask("network", **params)

    def accept_development_key(self) -> None:
        """Until the end of the cell: suites in the vitest layout hold that key, and a submission may know it, too."""
        self._ask("developmentKey")

    def save(self) -> str:
        """The deployment, analysed."""
        return str(self._ask("save")["deployment"])

    def load(self, deployment: str) -> None:
        """Deploy what was saved."""
        self._ask("load", deployment=deployment)

    def use_packages(self, folder: Path) -> None:
        """Where Node actions find packages that are not bundled."""
        self._ask("packages", folder=str(folder))

    def allow_fetch(self, origins: Sequence[str]) -> None:
        """Addresses that actions may reach."""
        if tuple(origins) != self._allowed:
            self._ask("allowFetch", origins=list(origins))
            self._allowed = tuple(origins)

    def call(
        self,
        kind: str,
        path: str,
        args: Mapping[str, Value],
        *,
        identity: Identity,
        component: str,
        deadline_s: float,
    ) -> Value:
        """Run a function; one that does not end in time is the submission's fault."""
        params = {
            "path": path,
            "args": encode(args),
            "kind": kind.capitalize(),
            "identity": identity.kind if identity.kind != "user" else encode(identity.attributes),
            "component": component,
        }
        try:
            result = self._request("call", params, deadline_s)
        except Silence:
            self.prove_alive()
            raise FunctionError(f"{kind} {path} did not end within {deadline_s:g} s") from None
        except Refused as error:
            raise Trouble("backend", f"the backend refused to call {path}: {error}") from None
        self._count(result.get("usage") or {})
        if "error" not in result:
            return decode(result.get("value"))
        failure = result["error"]
        not_found = failure.get("code") == _NOT_FOUND
        raise FunctionError(failure["message"], data=decode(failure.get("data")), not_found=not_found)

    def _count(self, used: Mapping[str, Any]) -> None:
        self._usage += Usage(
            int(used.get("documentsRead", 0)),
            int(used.get("bytesRead", 0)),
            int(used.get("documentsWritten", 0)),
            int(used.get("functionsScheduled", 0)),
        )

    def usage(self) -> Usage:
        """What calls through this object have used since the last reset."""
        return self._usage

    def insert(self, table: str, documents: Sequence[Mapping[str, Value]]) -> list[str]:
        """Documents that the schema refuses raise `FunctionError`."""
        try:
            found = self._request("insert", {"table": table, "documents": encode(documents)}, CONTROL_S)
            return list(found["ids"])
        except Refused as error:
            raise FunctionError(f"{table} refuses a document: {error.message}") from None

    def documents(self, table: str) -> list[dict[str, Value]]:
        """All documents, oldest first."""
        return [decode(document) for document in self._ask("list", table=table)["documents"]]

    def clear(self, table: str) -> None:
        """Remove all documents of a table."""
        self._ask("clear", table=table)

    def schema(self) -> dict[str, Any] | None:
        """The schema as stored."""
        found: dict[str, Any] | None = self._ask("schema")
        return found

    def functions(self) -> list[dict[str, Any]]:
        """The function spec."""
        return list(self._ask("functionSpec")["functions"])

    def crons(self) -> list[CronJob]:
        """All cron jobs of the app."""
        return [
            CronJob(job["name"], job["function"], _arguments(job["args"]), decode(job["schedule"]))
            for job in self._ask("crons")
            if not job["component"]
        ]

    def cron_runs(self) -> list[CronRun]:
        """All runs so far, oldest first."""
        jobs = {job.name: job for job in self.crons()}
        return [
            CronRun(run["name"], run["function"], jobs[run["name"]].args, run["at"], _cron_status(run["status"]))
            for run in self._ask("cronRuns")
            if not run["component"]
        ]

    def scheduled(self) -> list[ScheduledFunction]:
        """All scheduled functions of the app, oldest first."""
        rows = [decode(row) for row in self._ask("scheduled", component="")]
        return [
            ScheduledFunction(
                row["_id"],
                row["name"].replace(".js:", ":"),
                _arguments(row["args"]),
                row["scheduledTime"],
                row["state"]["kind"],
            )
            for row in rows
        ]

    def logs(self) -> list[str]:
        """All lines so far, oldest first."""
        return [line for entry in self._ask("logs") for line in entry["logLines"]]

    def settle(self, seconds: float) -> None:
        """Wait until nothing runs and nothing is due."""
        answer = self._ask("idle", seconds + CONTROL_S, deadline=seconds * _MS)
        if not answer["idle"]:
            raise AssertionError(f"functions were still running after {seconds:g} s")

    def runner_deaths(self) -> int:
        """How often the runner has died by itself; a runner that hit a limit does not count."""
        return int(self._ask("deaths")["runnerDeaths"])

    def prove_alive(self) -> None:
        """Raise `Trouble` when the core is gone or silent."""
        self._ask("stats")

    def discard(self) -> None:
        """Let no other cell use the process behind it."""
        self._fit = False

    def close(self) -> None:
        """The cell is over; may be called twice."""
        if not self._closed:
            fit = self._fit and self._is_healthy()
            self._closed = True
            self._give_back(self._core, fit=fit)

    def _is_healthy(self) -> bool:
        try:
            stats = self._ask("stats")
        except Trouble:
            return False
        return bool(stats["runnerDeaths"] == 0 and stats["memory"] < _MEMORY_PER_CORE)


def _runners(cage: Cage, toolchain: Toolchain, relay: Path | None) -> dict[str, Any]:
    """How the core starts its runners; only those of Node actions get packages and a network."""
    script = toolchain.script("runner")
    plain = Program(read={_SCRIPT: script}, limits=Limits(memory=1024 * MB))
    node = _node_program(toolchain, relay)
    return {
        "prefix": cage.prefix(plain),
        "nodePrefix": cage.prefix(node),
        "node": cage.node_inside,
        "script": cage.place(_SCRIPT, script),
        "packages": _PACKAGES if cage.isolates else None,
        "relay": {"inside": _RELAY, "outside": str(relay)} if relay else None,
    }


def _node_program(toolchain: Toolchain, relay: Path | None, network: int | None = None) -> Program:
    read: dict[str, Path | str] = {_SCRIPT: toolchain.script("runner"), _PACKAGES: _ANY_PACKAGES}
    # Where the network is shared, its gate leads to the deployment.
    return Program(read={**read, **({_RELAY: relay} if relay else {})}, network=network)


def _cron_status(status: Any) -> str:
    kind = status.get("type") if isinstance(status, dict) else status
    return {"success": "success", "err": "failed"}.get(str(kind), "running")


def _arguments(args: Any) -> dict[str, Value]:
    """Arguments travel as a list with one object."""
    values = decode(args)
    first = values[0] if isinstance(values, list) and values else values
    return first if isinstance(first, dict) else {}
