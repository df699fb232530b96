"""No setting of the machine reaches a test."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine only.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_OURS = ("MODELS", "TEST_FILTER", "OUTPUT_TEMPDIR", "CUSTOM_GUIDELINES_PATH", "EVALS_", "PYTEST_ADDOPTS", "LITELLM_")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(_OURS) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
