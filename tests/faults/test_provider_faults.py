"""Every fault of a provider at random, seeded: real child, real litellm, real HTTP; each outcome is the expected one.

Meanwhile keys are revoked, the disk fills and the clock is set. `make faults` makes 1,000 calls; FAULT_CALLS and
FAULT_SEED choose others.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.mix import (
    AUTHENTICATION,
    DISK_FULL,
    FINAL,
    HOUR_S,
    PASSING,
    PATIENCE,
    REVOKED,
    STORED,
    Case,
    Full,
    Mix,
    Outcome,
    draw,
    reply_of,
)
from tests.faults.mix import RIGHT as ANSWERED
from tests.faults.provider import Provider
from tests.faults.scene import Scene, Session
from tests.support.disks import disk_of_its_own
from tests.support.generation import Child
from tests.support.process_tree import wait_until
from tests.support.set_clock import WallClock
from tests.support.suites import RIGHT

CALLS = int(os.environ.get("FAULT_CALLS", "60"))
SEED = int(os.environ.get("FAULT_SEED", "20261118"))
WHOLE = {"whole", "no_usage", "wrong_usage"}


@dataclass
class Run:
    """The sessions of a mix, one child after the other."""

    mix: Mix
    scene: Scene
    provider: Provider
    clock: WallClock
    folder: Path
    found: dict[str, Outcome] = field(default_factory=dict)
    served: list[tuple[str, str]] = field(default_factory=list)
    """Cells and the names of what they were told."""
    held: int = 0
    """Paid answers for which there was no room for a while."""
    put_off: int = 0

    def child(self) -> Child:
        environment = {key.variable: key.text for key in self.mix.keys.values()}
        return Child(self.folder, environment, self.mix.concurrency, None, PATIENCE, self.scene.hear)

    def ask(self, child: Child, session: Session, label: str = "") -> dict[str, Path]:
        self.scene.begin(session, child)
        return {
            prompt: child.ask(case.served_by(self.provider), prompt, label=prompt + label)
            for prompt, case in session.open.items()
        }

    def go_on(self, left: dict[str, Case], full: Full | None) -> dict[str, Case]:
        """One session. Returns the cells that the full disk left to the next."""
        seen, jumps = self.clock.seen, self.scene.jumps
        with self.child() as child:
            paths = self.ask(child, session := Session(left, full))
            outcomes = {prompt: child.outcome(path) for prompt, path in paths.items()}
            self.scene.end()
            told = Counter(event.ticket for event in child.wait("answered", len(left)))
        assert told == {str(path): 1 for path in paths.values()}
        assert self.clock.seen > seen or self.scene.jumps == jumps
        stopped = _check_calls(session, child, paths)
        _check_outcomes(session, stopped, outcomes)
        assert full is None or "disk_full" in stopped.values()
        stored = {prompt for prompt, outcome in outcomes.items() if outcome in STORED}
        _check_records(session, child, paths, stored)
        waited = {event.ticket for event in child.told("waiting", why="disk")}
        self.held += sum(str(paths[prompt]) in waited for prompt in stored)
        self.found |= outcomes
        self.served += [(prompt, name) for prompt, names in session.served.items() for name in names]
        left = {prompt: case for prompt, case in left.items() if outcomes[prompt] == DISK_FULL}
        self.put_off += len(left)
        return left

    def ask_again(self, stored: dict[str, Outcome]) -> None:
        """What was stored is not bought again."""
        bought = len(self.provider.asks)
        with self.child() as child:
            paths = self.ask(child, Session({prompt: self.mix.cases[prompt] for prompt in stored}, None), " again")
            assert {prompt: child.outcome(path) for prompt, path in paths.items()} == stored
        assert len(self.provider.asks) == bought
        assert not child.told("preflight")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a running process are set by prlimit")
def test_every_outcome_is_the_expected_one_and_nothing_is_bought_twice(tmp_path, capsys, monkeypatch):
    mix = draw(SEED, CALLS)
    with (
        disk_of_its_own(tmp_path / "disk") as disk,
        WallClock(tmp_path / "clock", monkeypatch) as clock,
        Provider(lambda ask: scene.answer(ask)) as provider,
    ):
        scene = Scene(mix, clock, disk)
        provider.answer_preflight = scene.answer_preflight  # type: ignore[method-assign]
        run, left = Run(mix, scene, provider, clock, tmp_path / "disk"), dict(mix.cases)
        for full in [*mix.full, None]:
            left = run.go_on(left, full)
        assert left == {}
        stored = {prompt: outcome for prompt, outcome in run.found.items() if outcome in STORED}
        _check_sold(run, set(stored))
        run.ask_again(stored)
        _check_secrets(run.folder)
    _check_keys(run)
    assert scene.jumps
    assert run.held or len(mix.full) < 5
    outcomes = Counter(" ".join(filter(None, outcome)) for outcome in run.found.values())
    with capsys.disabled():
        shown = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        print(f"\n{CALLS} cells, {len(provider.asks)} calls (seed {SEED}): {shown}")
        print(
            f"the clock set {scene.jumps} times; {len(mix.keys) - 1} keys revoked; {len(mix.full)} times no disk, ",
            end="",
        )
        print(f"{run.held} paid answers held until there was room, {run.put_off} cells left to the next session")


def _check_calls(session: Session, child: Child, paths: dict[str, Path]) -> dict[str, str]:
    """No call without a word before it, and none of a model that was stopped. Returns why models were stopped."""
    started: Counter[str] = Counter()
    stopped: dict[str, str] = {}
    for event in child.events:
        if event.event == "model_stopped":
            assert event.model not in stopped
            stopped[event.model] = event.cause
        elif event.event == "call_started":
            assert event.model not in stopped, f"{event.ticket} was called after {stopped[event.model]}"
            started[event.ticket] += 1
    assert started == Counter({str(path): len(session.served[prompt]) for prompt, path in paths.items()})
    for model, cause in stopped.items():
        assert cause in session.may_stop(model)
    assert {model for model, causes in session.stops.items() if causes} <= set(stopped)
    return stopped


def _check_outcomes(session: Session, stopped: dict[str, str], outcomes: dict[str, Outcome]) -> None:
    """The replies decide. A cell that would have had another call has none because its model was stopped, or because
    the disk was full when its own turn came."""
    wrong = {}
    for prompt, case in session.open.items():
        ending = case.ending(session.served[prompt])
        why = {stopped[case.model]} if case.model in stopped else set()
        expected = (
            {ending} if ending else {("error", cause) for cause in why | ({"disk_full"} & session.may_stop(case.model))}
        )
        if outcomes[prompt] not in expected:
            wrong[prompt] = (outcomes[prompt], expected, session.served[prompt])
    assert wrong == {}


def _check_records(session: Session, child: Child, paths: dict[str, Path], stored: set[str]) -> None:
    for prompt in stored:
        case, submission = session.open[prompt], child.submission(paths[prompt])
        record, reply = submission.generation, FINAL[case.final][0]
        assert record is not None
        unknown = reply.shape in {"wrong_usage", "no_usage"}
        assert record.output_tokens == (None if unknown else reply.output_tokens)
        assert record.input_tokens == (None if unknown else 1200)
        causes = [PASSING[fault][1] for fault in session.served[prompt][:-1]]
        assert [attempt.cause for attempt in record.attempts] == causes
        assert record.answered_by == (reply.model or case.model)
        assert record.cost_usd is None
        assert (record.first_token_s is not None) == bool(reply.text or (reply.reasoning and case.protocol == "openai"))
        # The clock is set by hours; what took seconds took seconds.
        spans = [record.duration_s, record.first_token_s or 0.0]
        spans += [span for attempt in record.attempts for span in (attempt.duration_s, attempt.waited_s)]
        assert all(0 <= span < HOUR_S / 2 for span in spans), spans
        assert submission.answer_text == reply.text
        if FINAL[case.final][1] == ANSWERED:
            assert submission.files == RIGHT


def _check_sold(run: Run, stored: set[str]) -> None:
    """All that was sold was asked for once, and what can be kept of it is kept."""
    cases = run.mix.cases
    replies = [(prompt, reply_of(name)) for prompt, name in run.served if name != REVOKED]
    sold = Counter(
        (cases[prompt].model, prompt) for prompt, reply in replies if reply.status == 200 and reply.shape in WHOLE
    )
    wait_until(lambda: run.provider.sold == sold, "all that was served is counted")
    endings = [prompt for prompt, name in run.served if name in FINAL and FINAL[name][1] in STORED]
    assert Counter(endings) == Counter(stored)
    assert len(list((run.folder / "generations").iterdir())) == len(stored)


def _check_secrets(folder: Path) -> None:
    """Providers repeat the keys that they refuse."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if b"sk-" in path.read_bytes()] == []


def _check_keys(run: Run) -> None:
    """Each cell has called with its own key, and each key has answered until it was revoked, and no cell after that."""
    assert run.scene.strangers == []
    outcomes = {key: Counter[Outcome]() for key in run.mix.keys.values() if key.answers is not None}
    for prompt, case in run.mix.cases.items():
        if case.key in outcomes:
            outcomes[case.key][run.found[prompt]] += 1
    assert all(found[ANSWERED] == key.answers and found[AUTHENTICATION] for key, found in outcomes.items())
