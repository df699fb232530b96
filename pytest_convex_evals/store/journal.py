"""The journal of a run: one JSON event per line, flushed to disk before anything else happens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.records import CellRecord

if TYPE_CHECKING:
    from collections.abc import Iterator


class LineLog:
    """Append-only lines of JSON; a line that was cut off is fenced off by the next."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._torn = _ends_torn(path)

    def append(self, content: dict[str, Any], *, durable: bool = True) -> None:
        """One line; it is on disk when this returns, unless it may be lost in a power cut."""
        line = json.dumps(content, ensure_ascii=False, allow_nan=False)
        data = (("\n" if self._torn else "") + line + "\n").encode()
        self._torn = True
        while data:
            data = data[os.write(self._handle, data) :]
        if durable:
            os.fsync(self._handle)
        self._torn = False

    def close(self) -> None:
        """No more lines."""
        os.close(self._handle)


class Journal:
    """The events of a run; the controller is its only writer."""

    def __init__(self, path: Path) -> None:
        self._lines = LineLog(path)

    def append(self, event: str, **fields: Any) -> None:
        """One event; it is on disk when this returns."""
        self._lines.append({"event": event, **fields})

    def close(self) -> None:
        """No more events."""
        self._lines.close()


def _ends_torn(path: Path) -> bool:
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return False
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """All whole events in their order; what a crash cut off is skipped."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        for line in stream:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                yield event


def parse_record(value: Any, path: Path) -> CellRecord:
    """The record of a `cell_finished`; one that cannot be read is named with its journal."""
    try:
        return CellRecord.model_validate(value)
    except ValidationError as error:
        raise SettingsError(
            f"{path} holds a verdict that cannot be read: {error.errors()[0]['msg']}.\n"
            "  what to do: read it with the version that wrote it"
        ) from None


def read_records(path: Path) -> list[CellRecord]:
    """The last verdict on each cell, in the order in which the cells first ended."""
    latest: dict[tuple[str, str, str, int], CellRecord] = {}
    for event in read_events(path):
        if event["event"] == "cell_finished":
            record = parse_record(event.get("record"), path)
            latest[(record.eval, record.model, record.experiment, record.repeat)] = record
    return list(latest.values())
