"""Runs whose processes are killed at random moments, and what must be true of them afterwards.

A moment is a number of things that were seen on disk (answers that reached the store, verdicts in the journal) and a
short pause; both come from a seed. After the controller was killed the run is resumed, as often as it takes.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pytest_convex_evals.store.history import History
from pytest_convex_evals.store.journal import read_events
from tests.faults.provider import Ask, Provider, Reply
from tests.support.process_tree import command_of, descendants, end, hear_interrupts, lives, wait_until
from tests.support.suites import NO_ANSWER, RIGHT, Suite, answer_text

KILLS = int(os.environ.get("KILLS", "3"))
CELLS = 24 if KILLS > 3 else 12
SESSION_S = 300.0
VICTIMS = ("controller", "worker", "generation child")
Verdicts = dict[str, tuple[str, str]]


def eval_in(prompt: str) -> str:
    found = re.search(r"for 000-k/(\d+)\.", prompt)
    assert found is not None
    return found[1]


class Shop:
    """Answers after a while, in a stream, always the same for an eval: right, wrong or without files."""

    def __init__(self, seed: int) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()
        self.provider = Provider(self._reply)

    def _reply(self, ask: Ask) -> Reply:
        with self._lock:
            delay, spread = self._random.uniform(0.0, 0.3), self._random.uniform(0.0, 0.3)
        number = int(eval_in(ask.prompt))
        text = {0: answer_text(RIGHT | NO_ANSWER), 1: "Only words."}.get(number % 5, answer_text())
        return Reply(text, delay_s=delay, spread_s=spread)

    @property
    def asked(self) -> Counter[str]:
        """How often each eval was asked for."""
        return Counter(eval_in(ask.prompt) for ask in list(self.provider.asks))


@dataclass
class Ground:
    """A project with a suite, and sessions in it."""

    root: Path
    shop: Shop

    @classmethod
    def make(cls, root: Path, seed: int) -> Ground:
        suite = Suite(root / "evals")
        for number in range(CELLS):
            suite.add(f"000-k/{number:03}", task=f"Compute the answer, for 000-k/{number:03}.\n")
        (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        return cls(root, Shop(seed))

    def start(self, store: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest", "evals", "-q", "-p", "no:cacheprovider", "-p", "no:anyio"]
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        environment |= {"OPENAI_BASE_URL": self.shop.provider.url, "OPENAI_API_KEY": "k", "EVALS_SANDBOX": "node"}
        with (store.parent / f"{store.name}.log").open("a", encoding="utf-8") as log:
            return subprocess.Popen(
                [*command, "-p", "no:hypothesispytest", "--evals-dir", str(store), *arguments],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                preexec_fn=hear_interrupts,
            )

    def output(self, store: Path) -> str:
        return (store.parent / f"{store.name}.log").read_text(encoding="utf-8", errors="replace")[-6000:]


def journal_of(store: Path) -> Path | None:
    return next(iter(store.glob("runs/*/journal.jsonl")), None)


def verdicts_of(store: Path) -> Verdicts:
    journal = journal_of(store)
    records = History.read(journal).records if journal else {}
    return {key: (one.verdict.outcome, str(getattr(one.verdict, "cause", ""))) for key, one in records.items()}


def stored(store: Path) -> dict[str, str]:
    """Eval → the file of its answer, for every answer that reached the store."""
    found = {}
    for path in store.glob("generations/*.json"):
        text = path.read_text(encoding="utf-8")
        found[eval_in(json.loads(text)["call"]["messages"][-1]["content"])] = text
    return found


@dataclass
class Disturbed:
    """One run, with everything that is done to it."""

    ground: Ground
    store: Path
    random: random.Random
    workers: bool
    kills: Counter[str] = field(default_factory=Counter)
    kept: dict[str, str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def run(self, victims: list[str]) -> None:
        """Kill these one after the other, then let the run come to its end."""
        session = self._start()
        for victim in victims:
            killed = self._wait_for_moment(session) and self._kill(session, victim)
            if session.poll() is not None:
                if not killed and self._complete:
                    break
                session = self._start()
        self._ended(session)
        for _ in range(4):
            if self._complete:
                break
            self._ended(self._start())

    @property
    def _complete(self) -> bool:
        found = verdicts_of(self.store)
        return len(found) == CELLS and all(outcome != "error" for outcome, _ in found.values())

    def _start(self) -> subprocess.Popen[str]:
        runs = list(self.store.glob("runs/*/run.json"))
        workers = ["-n", "2"] if self.workers else []
        how = ["--evals-resume", "latest"] if runs else ["--models", "openai/shop"]
        self._remember()
        return self.ground.start(self.store, *how, *workers)

    def _remember(self) -> None:
        """What is in the store now must never be bought again, and must stay as it is."""
        self.kept, self.asked = stored(self.store), self.ground.shop.asked

    def _seen(self) -> int:
        journal = journal_of(self.store)
        lines = journal.read_bytes().count(b"\n") if journal else 0
        return lines + len(list(self.store.glob("generations/*.json")))

    def _wait_for_moment(self, session: subprocess.Popen[str]) -> bool:
        """False: the session ended before."""
        target = self._seen() + self.random.randrange(0, CELLS // 2)
        deadline = time.monotonic() + SESSION_S
        while self._seen() < target and session.poll() is None:
            assert time.monotonic() < deadline, self.ground.output(self.store)
            time.sleep(0.01)
        time.sleep(self.random.uniform(0.0, 0.2))
        return session.poll() is None

    def _kill(self, session: subprocess.Popen[str], victim: str) -> bool:
        """Whether there was somebody to kill."""
        family = descendants(session.pid)
        marks = {"worker": "exec(eval", "generation child": "generation.child"}
        found = [session.pid] if victim == "controller" else [p for p in family if marks[victim] in command_of(p)]
        if not found:
            return False
        end(self.random.choice(found), signal.SIGKILL)
        self.kills[victim] += 1
        if victim == "controller":
            session.wait()
            left = [pid for pid in family if lives(pid)]
            try:
                wait_until(lambda: not any(lives(pid) for pid in left), f"{list(map(command_of, left))} are gone", 60)
            finally:
                for pid in left:
                    end(pid, signal.SIGKILL)
            self._check_store()
        else:
            # The session goes on, and must not buy again what is stored by now.
            self._check_store()
            self._remember()
        return True

    def _ended(self, session: subprocess.Popen[str]) -> None:
        try:
            session.wait(SESSION_S)
        except subprocess.TimeoutExpired:
            for pid in [session.pid, *descendants(session.pid)]:
                end(pid, signal.SIGKILL)
            raise AssertionError(f"the session does not end:\n{self.ground.output(self.store)}") from None
        assert session.returncode in {0, 1}, self.ground.output(self.store)
        self._check_store()

    def _check_store(self) -> None:
        """Since the last look: nothing of the store was bought again, nothing of it is lost or changed."""
        again = self.ground.shop.asked - self.asked
        bought_twice = set(again) & set(self.kept)
        assert not bought_twice, f"bought again: {bought_twice}\n{self.ground.output(self.store)}"
        now = stored(self.store)
        assert {name: now.get(name) for name in self.kept} == self.kept, "an answer is lost"

    def check(self, undisturbed: Verdicts) -> None:
        """The final report, and that no attempt was counted twice."""
        assert verdicts_of(self.store) == undisturbed, self.ground.output(self.store)
        journal = journal_of(self.store)
        assert journal is not None
        finished = [event["record"] for event in read_events(journal) if event["event"] == "cell_finished"]
        attempts = Counter((one["node_id"], one["folder"]) for one in finished if one["folder"])
        assert max(attempts.values()) == 1, attempts.most_common(3)
        graded = Counter(one["node_id"] for one in finished if one["verdict"]["outcome"] != "error")
        assert (len(graded), max(graded.values())) == (CELLS, 1), graded.most_common(3)
        assert len(stored(self.store)) == CELLS
