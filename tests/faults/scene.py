"""What happens while the cells of a mix are called: the replies, and keys, disk and clock around them."""

from __future__ import annotations

import resource
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_convex_evals.generation.events import Event
from tests.faults.mix import FINAL, REVOKED, RIGHT, STOPS, STORED, Case, Full, Key, Mix, error, reply_of
from tests.faults.provider import Ask, Reply
from tests.support.disks import TinyDisk, limit_files
from tests.support.generation import Child
from tests.support.set_clock import WallClock

SMALL = {"no byte": 0, "only tiny files": 1_000, "no room": 0}
"""What is left for one file; the last one where there is no disk of its own."""


@dataclass
class Session:
    """One child, and what came to pass in its time."""

    open: dict[str, Case]
    """Cells that have no outcome yet, by their prompts."""
    full: Full | None
    served: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The names of the replies to each cell."""
    stops: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Causes that the provider gave to stop a model."""
    asked: int = 0
    met_by: str = ""
    """The cell whose answer was on its way when the disk filled."""

    @property
    def filled(self) -> bool:
        return bool(self.met_by)

    def fills(self, name: str) -> bool:
        """While the answer of this name is on its way."""
        if self.full is None or self.filled or self.asked <= self.full.after * len(self.open):
            return False
        return name in FINAL and FINAL[name][1] in STORED

    def may_stop(self, model: str) -> set[str]:
        """What has happened that ends the calls of a model."""
        return self.stops[model] | ({"disk_full"} if self.filled else set())


class Scene:
    """Behind the provider; sessions come one after the other."""

    def __init__(self, mix: Mix, clock: WallClock, disk: TinyDisk | None) -> None:
        self.mix, self._clock, self._disk = mix, clock, disk
        self.asked = self.jumps = 0
        self.strangers: list[Ask] = []
        """Calls with the key of somebody else."""
        self._answers: Counter[str] = Counter()
        """Right ones, by keys."""
        self._place: Counter[str] = Counter()
        """How many of its replies a cell has had."""
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None

    def begin(self, session: Session, child: Child) -> None:
        self.session, self.child = session, child

    def end(self) -> None:
        """There was room again, or no cell would have an outcome."""
        if self._timer is not None:
            self._timer.join()
            self._timer = None

    def answer(self, ask: Ask) -> Reply:
        session = self.session
        with self._guard:
            case, key = self.mix.cases[ask.prompt], self.mix.keys[ask.key]
            if key != case.key or ask.model != case.model:
                self.strangers.append(ask)
            name = self._name(case, key)
            session.served[ask.prompt].append(name)
            if name == REVOKED or name in STOPS:
                session.stops[case.model].add(FINAL[name][1][1] if name in STOPS else "authentication")
            self.asked += 1
            session.asked += 1
            fills = session.fills(name)
            if fills:
                session.met_by = ask.prompt
            if self.asked in self.mix.jumps:
                self.jumps += 1
                self._clock.set(self.mix.jumps[self.asked])
        if fills:
            self._fill()
        return _refusal(key) if name == REVOKED else reply_of(name)

    def answer_preflight(self, ask: Ask) -> Reply:
        """The one cheap call before the others: a key that is revoked is so for it too."""
        with self._guard:
            key = self.mix.keys[ask.key]
            if not self._revoked(key):
                return Reply("ready", output_tokens=2, input_tokens=12)
            self.session.stops[ask.model].add("authentication")
            return _refusal(key)

    def hear(self, event: Event) -> None:
        """An answer has met the full disk: some time later there is room."""
        if event.event not in {"waiting", "answered"} or not self.session.filled or self._timer is not None:
            return
        if Path(event.ticket or "").name.startswith(f"{self.session.met_by}-"):
            assert self.session.full is not None
            self._timer = threading.Timer(self.session.full.back_s, self._free)
            self._timer.start()

    def _name(self, case: Case, key: Key) -> str:
        if self._revoked(key):
            return REVOKED
        name = (*case.faults, case.final)[self._place[case.prompt]]
        self._place[case.prompt] += 1
        if name in FINAL and FINAL[name][1] == RIGHT:
            self._answers[key.text] += 1
        return name

    def _revoked(self, key: Key) -> bool:
        return key.answers is not None and self._answers[key.text] >= key.answers

    def _fill(self) -> None:
        assert self.session.full is not None
        if self.session.full.kind == "no room" and self._disk is not None:
            self._disk.fill()
        else:
            limit_files(self.child, SMALL[self.session.full.kind])

    def _free(self) -> None:
        assert self.session.full is not None
        if self.session.full.kind == "no room" and self._disk is not None:
            self._disk.free()
        else:
            with suppress(ProcessLookupError):  # a child that ended has other trouble, which is told elsewhere
                limit_files(self.child, resource.RLIM_INFINITY)


def _refusal(key: Key) -> Reply:
    """Some providers repeat what they refuse."""
    return error(401, message=f"Incorrect API key provided: {key.text}", code="invalid_api_key")
