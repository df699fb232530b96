"""A core serves one cell after the other, and nothing of one reaches the next."""

from collections.abc import Iterator
from time import sleep
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from pytest_convex_evals.backends.embedded import Core, Cores, EmbeddedBackend
from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.errors import Trouble


@pytest.fixture
def started() -> list[Core]:
    return []


@pytest.fixture
def cores(started: list[Core]) -> Iterator[Cores]:
    def start() -> Core:
        started.append(Core.start(ensure_toolchain(lambda _: None)))
        return started[-1]

    made = Cores(start)
    yield made
    made.close()
    assert not any(core.child.alive for core in started)


def use(backend: EmbeddedBackend) -> None:
    backend.insert("notes", [{"text": "of this cell"}])
    backend._ask("env.set", variables={"SECRET": "of this cell"})
    backend.allow_fetch(["http://127.0.0.1:1"])


def test_the_next_cell_gets_the_same_process_empty_elsewhere_and_under_another_key(cores, started):
    first = cores.backend()
    use(first)
    first.close()
    first.close()
    second = cores.backend()
    assert len(started) == 1
    assert {first.url, first.site_url, first.admin_key}.isdisjoint({second.url, second.site_url, second.admin_key})
    assert second.documents("notes") == []
    assert second._ask("env.list") == {}
    assert not second.deployed()
    with urlopen(f"{second.url}/version", timeout=30) as answer:
        assert answer.read()
    with pytest.raises(URLError):
        urlopen(f"{first.url}/version", timeout=30)
    second.close()


def test_a_check_that_was_left_behind_reaches_no_other_cell(cores):
    first = cores.backend()
    first.close()
    second = cores.backend()
    with pytest.raises(Trouble, match="after the end of its cell"):
        first.insert("notes", [{"text": "from the past"}])
    assert second.documents("notes") == []
    second.close()


@pytest.mark.parametrize("how", ["discarded", "killed", "killed while idle"])
def test_a_core_that_is_not_fit_serves_no_other_cell(cores, started, how):
    first = cores.backend()
    if how == "discarded":
        first.discard()
    if how == "killed":
        started[0].child.process.kill()
    first.close()
    if how == "killed while idle":
        started[0].child.process.kill()
        started[0].child.process.wait()
    second = cores.backend()
    assert len(started) == 2
    use(second)
    second.close()
    third = cores.backend()
    assert third.documents("notes") == []
    third.close()


def test_a_core_that_ends_while_nobody_waits_for_it_is_replaced(cores, started):
    first = cores.backend()
    first.close()
    started[0].child.process.kill()
    second = cores.backend()
    assert len(started) == 2
    assert second.documents("notes") == []
    second.close()


def test_an_answer_that_nobody_waited_for_is_there_long_after(cores, started):
    core = Core.start(ensure_toolchain(lambda _: None))
    started.append(core)
    answer = core.child.ask("renew", {}, deadline_s=0.5)
    sleep(1.0)
    assert answer()["url"] != core.ready["url"]
    core.close()


def test_two_cells_at_a_time_have_two_cores(cores, started):
    first, second = cores.backend(), cores.backend()
    use(first)
    assert second.documents("notes") == []
    first.close()
    second.close()
    assert len(started) == 2
    cores.backend().close()
    assert len(started) == 2
