"""What was delivered of a run, and where to: lines `{"to", "did", …}` beside the journal.

What stands here is not sent again; a line that is lost costs a call that changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_convex_evals.store.journal import LineLog

FILE, JOURNAL = "upload.jsonl", "journal.jsonl"
OPENED, WHOLE, IDLE, PREPARED, FORGOTTEN = "opened", "whole", "idle", "prepared", "forgotten"
_STATES = {OPENED, WHOLE, IDLE}


class DeliveryLog:
    """The deliveries of one run to one address."""

    def __init__(self, run: Path, url: str) -> None:
        self._path, self._url = run / FILE, url
        self._done: set[str] = set()
        self._prepared: dict[str, str] = {}
        self._state = ""
        for line in read_lines(self._path):
            if line.get("to") == url:
                self._take(line)
        self._lines = LineLog(self._path)

    def _take(self, line: dict[str, Any]) -> None:
        if line.get("did") in _STATES:
            self._state = line["did"]
        elif line.get("did") == FORGOTTEN:
            kind = line["kind"]
            self._done = {key for key in self._done if kind and not key.startswith(f'["{kind}"')}
        elif line.get("did") == PREPARED:
            self._prepared[_key(line["what"])] = line["sha256"]
        else:
            self._done.add(_key(line.get("what", [])))

    def has(self, *what: str | int) -> bool:
        """Whether it was delivered."""
        return _key(what) in self._done

    def note(self, *what: str | int) -> None:
        """It has been delivered."""
        line = {"to": self._url, "did": what[0], "what": list(what)}
        self._lines.append(line, durable=False)
        self._take(line)

    def prepare(self, sha256: str, *what: str | int) -> None:
        """Choose the archive that goes with a result, whatever happens to the files."""
        line = {"to": self._url, "did": PREPARED, "what": list(what), "sha256": sha256}
        self._lines.append(line)
        self._take(line)

    def prepared(self, *what: str | int) -> str | None:
        """The archive that was chosen before."""
        return self._prepared.get(_key(what))

    def forget(self, kind: str = "") -> None:
        """The backend does not know what it was given: all of it, or all of a kind, is sent again."""
        line = {"to": self._url, "did": FORGOTTEN, "kind": kind}
        self._lines.append(line)
        self._take(line)

    def mark(self, state: str) -> None:
        """Deliveries of this run have begun, or are whole for now."""
        if self._state != state:
            self._state = state
            self._lines.append({"to": self._url, "did": state})

    def idle(self, seen: int) -> None:
        """Nothing is left of a run without an end, as long as its journal has so many bytes."""
        if self._state != IDLE:
            self._state = IDLE
            self._lines.append({"to": self._url, "did": IDLE, "at": seen})

    def close(self) -> None:
        """No more lines."""
        self._lines.close()


def _key(what: Any) -> str:
    return json.dumps(list(what))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; what a crash cut off is skipped."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    found = []
    for text in data.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            found.append(line)
    return found


def is_owed(run: Path, url: str) -> bool:
    """Deliveries of this run to the address began and never became whole, or there is more since."""
    marks = [line for line in read_lines(run / FILE) if line.get("to") == url and line.get("did") in _STATES]
    if not marks or marks[-1]["did"] == WHOLE:
        return False
    if marks[-1]["did"] == OPENED:
        return True
    try:
        return (run / JOURNAL).stat().st_size > int(marks[-1].get("at", 0))
    except OSError:
        return False
