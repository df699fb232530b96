"""A core per test module; a bundler and an issuer of tokens per session."""

from collections.abc import Iterator

import pytest

from .support.components import push_project
from .support.core import Core
from .support.issuer import Issuer
from .support.project import Bundler


@pytest.fixture(scope="session")
def bundler() -> Iterator[Bundler]:
    running = Bundler()
    yield running
    running.close()


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    running = Issuer(tmp_path_factory.mktemp("issuer"))
    yield running
    running.lines.close()


@pytest.fixture(scope="module")
def core() -> Iterator[Core]:
    running = Core()
    yield running
    running.close()


@pytest.fixture(scope="module")
def app(core: Core, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Core:
    """The core with the module's FILES or PROJECT pushed; data is dropped before each test by `fresh`."""
    if hasattr(request.module, "PROJECT"):
        push_project(core, tmp_path_factory.mktemp("project"), request.module.PROJECT)
    else:
        bundler: Bundler = request.getfixturevalue("bundler")
        bundler.push(core, request.module.FILES)
    return core


@pytest.fixture
def fresh(app: Core) -> Core:
    app.control("reset")
    return app
