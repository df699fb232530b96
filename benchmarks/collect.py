"""Collection of a suite as large as the real one will be, for many models."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

_EVALS, _MODELS, _ROUNDS = 111, 50, 3
_CATEGORIES = 9
_FILES = {
    "TASK.txt": "Write a backend.\n",
    "eval.toml": 'pipeline = "static"\n',
    "grader.py": "def test_it(files):\n    assert files\n",
    "answer/package.json": "{}\n",
    "answer/convex/main.ts": "export const answer = 42;\n",
    "wrong/a_slug/expect.toml": 'step = "tests"\ncheck = "test_it"\nwhy = "it is wrong"\n',
}
_CONFTEST = """\
import time

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    started = time.perf_counter()
    result = yield
    print(f"measured {time.perf_counter() - started} {len(session.items)}")
    return result
"""


def figures() -> Iterator[str]:
    """The median time of the collection phase, in a process of its own each time."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        _write_suite(root)
        seconds = [_measure(root) for _ in range(_ROUNDS)]
    yield f"collect: {median(seconds) * 1000:.0f} ms"


def _write_suite(root: Path) -> None:
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (root / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    for number in range(_EVALS):
        folder = root / f"evals/{number % _CATEGORIES:03}-category/{number // _CATEGORIES:03}-eval"
        for path, text in _FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


def _measure(root: Path) -> float:
    models = ",".join(f"openai/synthetic-{number}" for number in range(_MODELS))
    command = [sys.executable, "-m", "pytest", "evals", "--collect-only", "-qq", "-s", "--models", models]
    environment = os.environ | {"OPENAI_API_KEY": "none"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("measured "):
            _, seconds, items = line.split()
            if int(items) != _EVALS * _MODELS:
                raise RuntimeError(f"{items} items were collected instead of {_EVALS * _MODELS}")
            return float(seconds)
    raise RuntimeError(f"no measurement in the output of the session:\n{done.stdout}{done.stderr}")
