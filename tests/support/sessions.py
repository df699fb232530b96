"""A project with a suite, pytest sessions in it, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_convex_evals.records import CellRecord
from pytest_convex_evals.store.journal import read_events
from tests.support.process_tree import hear_interrupts
from tests.support.suites import Suite

PROPERTIES = [
    "eval",
    "category",
    "model",
    "experiment",
    "repeat",
    "run_id",
    "outcome",
    "cause",
    "steps",
    "checks_passed",
    "checks_total",
    "cost_usd",
    "input_tokens",
    "output_tokens",
    "generation_s",
    "grading_s",
    "backend",
    "backend_version",
    "sandbox",
    "fingerprint",
]
"""The names that dashboards know."""
TIMEOUT_S = 240
COMMON = ("-p", "no:hypothesispytest", "-p", "no:anyio", "--junitxml=junit.xml")
"""Plugins of others that only cost time here, and the report."""


@dataclass(frozen=True)
class Case:
    """A test case of a JUnit file."""

    name: str
    kind: str
    """`passed`, `failure`, `error` or `skipped`."""
    message: str
    properties: dict[str, str]


@dataclass(frozen=True)
class Done:
    """A session that has ended."""

    code: int
    output: str
    root: Path
    store: Path

    @property
    def runs(self) -> list[Path]:
        folder = self.store / "runs"
        return sorted(folder.iterdir(), key=lambda path: path.name.partition("-")[2]) if folder.is_dir() else []

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The journal of the only run."""
        (run,) = self.runs
        return list(read_events(run / "journal.jsonl"))

    @cached_property
    def records(self) -> dict[str, CellRecord]:
        """The verdicts of the only run, by what stands behind the `::` of the id."""
        found = [event["record"] for event in self.events if event["event"] == "cell_finished"]
        return {record["node_id"].partition("::")[2]: CellRecord.model_validate(record) for record in found}

    @property
    def outcomes(self) -> dict[str, str]:
        return {name: record.verdict.outcome for name, record in self.records.items()}

    @property
    def causes(self) -> dict[str, str]:
        return {name: getattr(record.verdict, "cause", "") for name, record in self.records.items()}

    @cached_property
    def cases(self) -> list[Case]:
        """The JUnit file, sorted by name."""
        tree = ElementTree.parse(self.root / "junit.xml")
        return sorted((_case(element) for element in tree.iter("testcase")), key=lambda case: case.name)


def _case(element: ElementTree.Element) -> Case:
    properties = {item.get("name", ""): item.get("value", "") for item in element.iter("property")}
    told = next((child for child in element if child.tag in {"failure", "error", "skipped"}), None)
    kind = "passed" if told is None else told.tag
    message = "" if told is None else told.text or ""
    return Case(element.get("name", ""), kind, message, properties)


class Project:
    """A folder with evals in which sessions are run."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.monkeypatch = pytester, monkeypatch
        self.root = pytester.path
        self.store = self.root / ".evals"
        self.suite = Suite(self.root / "evals")
        (self.root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def env(self, **values: str) -> None:
        """Variables of all sessions from now on."""
        for name, value in values.items():
            self.monkeypatch.setenv(name, value)

    def ini(self, **values: str) -> None:
        """The ini file, with these values."""
        lines = "".join(f"{name} = {value}\n" for name, value in values.items())
        (self.root / "pytest.ini").write_text(f"[pytest]\n{lines}", encoding="utf-8")

    def here(self, *arguments: str) -> Done:
        """A session in this process: quick, and real up to the interpreter."""
        result = self.pytester.runpytest_inprocess(*COMMON, *arguments)
        output = "\n".join([*result.outlines, *result.errlines])
        return Done(int(result.ret), output, self.root, self.store)

    def apart(self, *arguments: str, python: str = sys.executable) -> Done:
        """A session in a process of its own."""
        process = self.start(*arguments, python=python)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        return self.ended(process, output)

    def ended(self, process: subprocess.Popen[str], output: str) -> Done:
        """What a session that was started has left."""
        return Done(process.returncode, output, self.root, self.store)

    def run(self, *arguments: str, workers: str = "") -> Done:
        """With workers apart, without them here."""
        return self.apart("-n", workers, *arguments) if workers else self.here(*arguments)

    def start(self, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
        """A session that still runs, leader of its own process group."""
        return subprocess.Popen(
            [python, "-m", "pytest", *COMMON, *arguments],
            cwd=self.root,
            env=os.environ.copy(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )

    def collected(self, *arguments: str, workers: str = "") -> list[str]:
        """The ids that a session would run, in their order."""
        done = self.run("--co", "-q", *arguments, workers=workers)
        return [line for line in done.output.splitlines() if "::" in line and " " not in line]
