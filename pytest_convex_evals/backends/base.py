"""What grading needs of a backend, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pytest_convex_evals.values import Value


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls."""

    kind: Literal["anonymous", "admin", "user"]
    attributes: Mapping[str, Value] = field(default_factory=dict)


ANONYMOUS = Identity("anonymous")


class FunctionError(Exception):
    """A function of the submission failed, or is not there."""

    def __init__(self, message: str, *, data: Value = None, not_found: bool = False) -> None:
        self.message, self.data, self.not_found = message, data, not_found
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Usage:
    """Counted since the last reset."""

    documents_read: int
    bytes_read: int
    documents_written: int
    functions_scheduled: int

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.documents_read + other.documents_read,
            self.bytes_read + other.bytes_read,
            self.documents_written + other.documents_written,
            self.functions_scheduled + other.functions_scheduled,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.documents_read - other.documents_read,
            self.bytes_read - other.bytes_read,
            self.documents_written - other.documents_written,
            self.functions_scheduled - other.functions_scheduled,
        )


@dataclass(frozen=True, slots=True)
class CronJob:
    """A cron job of the deployment."""

    name: str
    function: str
    args: dict[str, Value]
    schedule: dict[str, Value]
    """For example `{"type": "interval", "seconds": 60}`."""


@dataclass(frozen=True, slots=True)
class CronRun:
    """One run of a cron job."""

    name: str
    function: str
    args: dict[str, Value]
    at: float
    """Milliseconds since the epoch."""
    status: str
    """`success`, `failed` or `running`."""


@dataclass(frozen=True, slots=True)
class ScheduledFunction:
    """A function that was scheduled."""

    id: str
    function: str
    args: dict[str, Value]
    due: float
    """Milliseconds since the epoch."""
    state: str
    """`pending`, `inProgress`, `success`, `failed` or `canceled`."""


class Backend(Protocol):
    """A running deployment that belongs to one cell."""

    kind: str
    version: str
    url: str
    site_url: str
    admin_key: str
    relay: Path | None
    """The folder of sockets that lead out of a cage to this backend; None when no cage cuts the network."""

    def deployed(self) -> bool:
        """A push has been finished."""
        ...

    def reset(self, start: float | None = None) -> int:
        """Drop all data, keep the deployment; begin at a time (milliseconds) when one is given. As `runner_deaths`."""
        ...

    def advance(self, milliseconds: float) -> None:
        """Move the clock forward and run what falls due, in order."""
        ...

    def share_network(self, gate: Path | None, process: int | None, hidden: Sequence[int]) -> None:
        """Let actions reach what listens in the network of a process, or on this machine, except for hidden ports.

        The gate is the socket file that leads into that network.
        """
        ...

    def accept_development_key(self) -> None:
        """Take the public key of the Convex development instance as an admin key, too."""
        ...

    def save(self) -> str:
        """The deployment, analysed, for `load` of another backend of this kind."""
        ...

    def load(self, deployment: str) -> None:
        """Deploy what was saved."""
        ...

    def use_packages(self, folder: Path) -> None:
        """Where Node actions find packages that are not bundled: a node_modules folder."""
        ...

    def allow_fetch(self, origins: Sequence[str]) -> None:
        """Addresses that actions may reach."""
        ...

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
        """Run a function; `FunctionError` when it fails."""
        ...

    def insert(self, table: str, documents: Sequence[Mapping[str, Value]]) -> list[str]: ...  # noqa: D102
    def documents(self, table: str) -> list[dict[str, Value]]: ...  # noqa: D102
    def clear(self, table: str) -> None: ...  # noqa: D102
    def schema(self) -> dict[str, Any] | None: ...  # noqa: D102
    def functions(self) -> list[dict[str, Any]]: ...  # noqa: D102
    def crons(self) -> list[CronJob]: ...  # noqa: D102
    def cron_runs(self) -> list[CronRun]: ...  # noqa: D102
    def scheduled(self) -> list[ScheduledFunction]: ...  # noqa: D102
    def logs(self) -> list[str]: ...  # noqa: D102
    def usage(self) -> Usage: ...  # noqa: D102
    def settle(self, seconds: float) -> None: ...  # noqa: D102

    def runner_deaths(self) -> int:
        """How often the process that runs submitted code has died by itself."""
        ...

    def prove_alive(self) -> None:
        """Raise `Trouble` when the backend is not there any more."""
        ...

    def discard(self) -> None:
        """Let no other cell use the process behind it."""
        ...

    def close(self) -> None:
        """End it."""
        ...
