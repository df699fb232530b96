"""Outages and repetitions: whatever happens on the way, the database is that of an undisturbed run.

`make outage` runs it at full length: 200 cells, several seeds (`OUTAGE_SEED` begins with another one).
"""

import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from convex import ConvexError

from pytest_convex_evals.records import Passed
from pytest_convex_evals.scores.client import Backend
from pytest_convex_evals.scores.delivery import Delivery
from pytest_convex_evals.scores.reporter import Reporter
from pytest_convex_evals.scores.target import Target
from tests.engine.support.core import request
from tests.engine.support.durable import DurableCore
from tests.support.process_tree import command_of, descendants

from .support.database import contents
from .support.deployment import TOKEN, Deployment, sha256
from .support.journals import MODELS, VERDICTS, MadeRun

CELLS = int(os.environ.get("OUTAGE_CELLS", "24"))
ROUNDS = int(os.environ.get("OUTAGE_ROUNDS", "1"))
DISTURBANCES = int(os.environ.get("OUTAGE_DISTURBANCES", "4"))
SEED = int(os.environ.get("OUTAGE_SEED", "1"))
CALL_S = 2.0
NOW = 1_800_000_000_000
RUN = "abcd1234-20260101T000000Z"


class Outages:
    """A backend with a data folder on ports that stay, which dies, hangs, refuses and comes back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = [server.getsockname()[1] for server in (one, other)]
        self._options = (f"--port={ports[0]}", f"--site-port={ports[1]}")
        self.core = DurableCore(folder, *self._options)
        self.url = self.core.url

    def kill(self, _: random.Random) -> None:
        """It dies in the middle of whatever it does, and is there again at once."""
        self.core.kill()
        self.core = DurableCore(self.folder, *self._options)

    def refuse(self, chance: random.Random) -> None:
        """It is gone for a while."""
        self.core.kill()
        time.sleep(chance.uniform(0.2, 2.0))
        self.core = DurableCore(self.folder, *self._options)

    def hang(self, chance: random.Random) -> None:
        """It accepts connections and says nothing, sometimes for longer than anybody waits."""
        process = self.core.lines.process
        process.send_signal(signal.SIGSTOP)
        time.sleep(chance.choice((0.3, CALL_S * 1.5)))
        process.send_signal(signal.SIGCONT)

    def kill_reporter(self, _: random.Random) -> None:
        """Not the backend, for once."""
        for pid in descendants(os.getpid()):
            if "scores.child" in command_of(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def contents(self) -> dict[str, list[str]]:
        """Without files that nothing refers to: they go after a day."""
        evals = self._rows("evals")
        used = {row.get(field) for row in evals for field in ("outputId", "sourceId")}
        return contents(
            lambda table: [row for row in self._rows(table) if table != "assets" or row["_id"] in used],
        )

    def _rows(self, table: str) -> list[dict[str, Any]]:
        return self.core.control("list", table=table)["documents"]


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the backend and a token in it."""
    folder = tmp_path_factory.mktemp("pushed")
    deployment = Deployment(tmp_path_factory.mktemp("project"), DurableCore(folder / "data"))
    deployment.push()
    deployment.add_token(TOKEN, ["report"])
    deployment.close()
    return folder / "data"


def report(store: Path, url: str, disturb: Callable[[int], None]) -> Reporter:
    """A run that goes on while its results are delivered; the disturber is asked before each cell."""
    made = MadeRun(store, RUN, evals=CELLS // len(MODELS), models=MODELS)
    reporter = Reporter(made.folder, Target(url, "", TOKEN), lambda _: None)
    chance = random.Random(SEED)
    for number, (name, model) in enumerate((name, model) for name in made.evals for model in MODELS):
        disturb(number)
        made.verdict(name, model, chance.choice(VERDICTS))
        if chance.random() < 0.1:
            made.verdict(name, model, chance.choice(VERDICTS), attempt=2)
    made.finish()
    reporter.finish(stuck_s=120)
    return reporter


def test_after_outages_the_database_is_that_of_an_undisturbed_run(
    pushed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_convex_evals.scores.process.CALL_S", CALL_S)
    shutil.copytree(pushed, tmp_path / "calm")
    calm = Outages(tmp_path / "calm")
    assert report(tmp_path / "calm-store", calm.url, lambda _: None).done
    expected = calm.contents()
    calm.core.close()
    assert len(expected["evals"]) == CELLS
    assert len(expected["runs"]) == len(MODELS)

    for seed in range(SEED, SEED + ROUNDS):
        chance = random.Random(seed)
        shutil.copytree(pushed, tmp_path / f"rough-{seed}")
        rough = Outages(tmp_path / f"rough-{seed}")
        kinds = [rough.kill, rough.hang, rough.refuse, rough.kill_reporter]
        chosen = [kinds[number % len(kinds)] for number in range(DISTURBANCES)]
        moments = dict(zip(chance.sample(range(CELLS), DISTURBANCES), chosen, strict=True))

        def disturb(number: int) -> None:
            time.sleep(chance.uniform(0, 0.1))  # noqa: B023
            if number in moments:  # noqa: B023
                moments[number](chance)  # noqa: B023

        reporter = report(tmp_path / f"store-{seed}", rough.url, disturb)
        assert reporter.done, (seed, reporter.lines())
        assert reporter.refused == 0, (seed, reporter.lines())
        assert rough.contents() == expected, seed
        told = ", ".join(f"{moments[number].__name__} at {number}" for number in sorted(moments))
        print(f"outage: {CELLS} cells, seed {seed}: {told}: same database")
        rough.core.close()


class Recorder(Backend):
    """Remembers everything it sends."""

    def __init__(self, url: str) -> None:
        super().__init__(url, token=TOKEN, call_s=600)
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def mutation(self, name: str, /, **args: Any) -> Any:
        if name not in {"admin:prepareUpload", "admin:registerAsset"}:
            self.sent.append((name, args))
        return super().mutation(name, **args)

    def upload(self, url: str, data: bytes) -> str:
        self.sent.append(("upload", {"data": data}))
        return super().upload(url, data)


def drain(delivery: Delivery) -> None:
    delivery.read()
    while delivery.step():
        delivery.read()


def test_everything_sent_three_times_in_any_order_makes_the_same_database(scores: Deployment, tmp_path: Path) -> None:
    """As it was sent while the run grew: later verdicts on cells, a larger plan, heartbeats and all."""
    scores.reset(clock=NOW)
    recorder = Recorder(scores.core.url)
    made = MadeRun(tmp_path, RUN, evals=6, models=MODELS)
    made.begin(evals=made.evals[:3])
    delivery = Delivery(made.folder, recorder, live=True)
    made.grade()
    drain(delivery)
    for name in made.evals[:4]:
        made.verdict(name, MODELS[0], Passed(), attempt=2)
    made.finish()
    drain(delivery)
    delivery.close()
    expected = contents_a_day_later(scores)
    assert len(expected["evals"]) == 12
    assert {name for name, _ in recorder.sent} >= {"upload", "admin:heartbeat", "admin:completeRun", "admin:startRun"}

    scores.reset(clock=NOW)
    calls = recorder.sent * 3
    random.Random(SEED).shuffle(calls)
    tries = 0
    while calls:
        tries += 1
        assert tries < 10, calls[0]
        calls = [one for one in calls if not delivered(scores, *one)]
    assert contents_a_day_later(scores) == expected
    scores.reset()


def contents_a_day_later(scores: Deployment) -> dict[str, list[str]]:
    """When files that nothing refers to, such as those of replaced verdicts that came late, have been removed."""
    scores.core.control("clock.advance", ms=32 * 3_600_000)
    return contents(scores.rows)


def delivered(scores: Deployment, name: str, args: dict[str, Any]) -> bool:
    """False: what the call refers to has to come first."""
    try:
        if name == "upload":
            data = args["data"]
            prepared = scores.report("prepareUpload", sha256=sha256(data), size=len(data))
            if not prepared["stored"]:
                sent = request(prepared["uploadUrl"], data, {"Content-Type": "application/json"}, "POST")
                scores.report("registerAsset", sha256=sha256(data), storageId=sent.json()["storageId"])
        else:
            scores.report(name.removeprefix("admin:"), **args)
    except ConvexError as error:
        if error.data["code"].startswith("unknown_"):
            return False
        raise
    return True
