"""Everything that can go wrong, by type.

EvalsError
 ├─ SettingsError     a wrong setting; becomes pytest.UsageError (exit 4) before anything is spent
 ├─ BrokenEval        an eval of the suite that cannot be used; a collection error
 ├─ SetupError        a command of the set-up failed; names the command and the remedy
 └─ Trouble           ours, not the submission's: becomes outcome `error` with its cause

Each message says what happened, to what, and what to do next. Nothing is classified by words in a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_convex_evals.records import ErrorCause


class EvalsError(Exception):
    """Root of all errors that this package raises on purpose."""


class SettingsError(EvalsError):
    """A setting that cannot be used, with its source and what would be right."""


class BrokenEval(EvalsError):  # noqa: N818 - a state of the suite
    """An eval directory that breaks the rules of the suite."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = path, problem, remedy
        super().__init__(f"{path}: {problem}\n  what to do: {remedy}")


class SetupError(EvalsError):
    """A step of the set-up that did not work."""

    def __init__(self, what: str, *, command: str, output: str, remedy: str) -> None:
        self.what, self.command, self.output, self.remedy = what, command, output, remedy
        tail = "".join(f"\n  | {line}" for line in output.strip().splitlines()[-12:])
        super().__init__(f"set-up failed: {what}\n  command:    {command}{tail}\n  what to do: {remedy}")


class Trouble(EvalsError):  # noqa: N818 - an outcome, not only an exception
    """Infrastructure, grader, provider or budget: never counted against a model."""

    def __init__(self, cause: ErrorCause, reason: str, *, remedy: str = "") -> None:
        self.cause, self.reason, self.remedy = cause, reason, remedy
        super().__init__(reason)


def disk_trouble(error: OSError, what: str) -> Trouble:
    """An operating-system error while writing `what`, as the typed trouble it is."""
    import errno

    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    where = f" ({error.filename})" if error.filename else ""
    reason = f"{what} could not be written{where}: {error.strerror or error}"
    if full:
        return Trouble("disk_full", reason, remedy="free some space, then run the same command again")
    return Trouble(
        "store_unwritable",
        reason,
        remedy="make the folder writable, or choose another one with --evals-dir DIR",
    )
