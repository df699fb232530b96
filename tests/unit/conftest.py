"""No setting of the machine reaches a test."""

import os

import pytest

_OURS = ("MODELS", "TEST_FILTER", "OUTPUT_TEMPDIR", "CUSTOM_GUIDELINES_PATH", "EVALS_", "PYTEST_ADDOPTS", "LITELLM_")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_OURS) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
