"""The scores backend pushed to the embedded engine by the real CLI, once per test module."""

from collections.abc import Iterator

import pytest

from .support.deployment import Deployment


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    running = Deployment(tmp_path_factory.mktemp("project"))
    running.push()
    yield running
    running.close()


@pytest.fixture
def scores(deployed: Deployment) -> Deployment:
    """Without data but a token with every scope."""
    deployed.reset()
    return deployed
