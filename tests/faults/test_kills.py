"""kill -9 at random moments: after a resume nothing is bought twice, lost or counted twice, and the report is the same.

`make kills` does it 200 times (KILLS=200); KILLS_SEED=N repeats a series.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.faults.kills import KILLS, VICTIMS, Disturbed, Ground, verdicts_of

SEED = int(os.environ.get("KILLS_SEED", "20261118"))
PER_RUN = 3 if KILLS < 10 else 8


def test_whoever_is_killed_whenever_a_resume_makes_it_as_if_nothing_had_happened(tmp_path: Path) -> None:
    ground = Ground.make(tmp_path, SEED)
    draw, done, runs = random.Random(SEED), Counter[str](), 0
    undisturbed = Disturbed(ground, tmp_path / "undisturbed", draw, workers=True)
    undisturbed.run([])
    expected = verdicts_of(undisturbed.store)
    undisturbed.check(expected)
    assert Counter(expected.values())[("passed", "")] > 0
    assert len(set(expected.values())) == 3
    started = time.monotonic()
    try:
        while sum(done.values()) < KILLS:
            runs += 1
            workers = runs % 3 != 0
            known = VICTIMS if workers else (VICTIMS[0], VICTIMS[2])
            victims = [*draw.sample(known, len(known)), *draw.choices(known, k=PER_RUN)][:PER_RUN]
            one = Disturbed(ground, tmp_path / f"run-{runs}", draw, workers=workers)
            one.run(victims)
            one.check(expected)
            done += one.kills
            if KILLS > PER_RUN:
                spent = time.monotonic() - started
                sys.stderr.write(f"kills: {sum(done.values())} in {runs} runs ({dict(done)}), {spent:.0f} s\n")
    finally:
        ground.shop.provider.close()
    assert sum(done.values()) >= KILLS
