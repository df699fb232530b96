"""Every test gets a project of its own and an environment without settings of ours."""

from __future__ import annotations

import os

import pytest

from tests.support.cages import without_a_cage
from tests.support.sessions import Project

_OURS = (
    "MODELS",
    "TEST_FILTER",
    "OUTPUT_TEMPDIR",
    "CUSTOM_GUIDELINES_PATH",
    "EVALS_",
    "PYTEST_ADDOPTS",
    "PYTEST_XDIST",
)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in list(os.environ):
        if name.startswith(_OURS) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    if without_a_cage():
        monkeypatch.setenv("EVALS_SANDBOX", "node")  # what the models of these tests write is ours
    return Project(pytester, monkeypatch)
