"""How screens start: from a snapshot or from the script, ahead of need or when needed, and always the same page."""

# ruff: noqa: F811 - fixtures are imported
import shutil

import pytest

from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.grading.screen import Stage
from pytest_convex_evals.grading.screen_spare import Spare
from tests.support.screens import NOBODY, project, stage, tools  # noqa: F401

ROLES = [
    *("heading", "list", "listitem", "button", "textbox", "checkbox"),
    *("combobox", "option", "link", "img", "row", "cell"),
]


def seen_on(stage: Stage) -> list[object]:
    screen = stage.screen()
    screen.render("src/Facts.tsx", online=False)
    screen.wait_for_text("done")
    return [screen.text(), *(screen.elements(role=role) for role in ROLES), screen.errors]


def test_a_screen_from_the_snapshot_shows_what_one_from_the_script_shows(tools, project, stage, tmp_path):
    whole = tools.toolchain()
    assert whole.screen_snapshot is not None
    shutil.copy(whole.script("screen"), tmp_path)
    bare = Toolchain(whole.node, whole.folder, tmp_path)
    assert bare.screen_snapshot is None
    other = Stage(bare, tools.worker, project, tmp_path, NOBODY, tools.cage())
    try:
        assert seen_on(stage) == seen_on(other)
    finally:
        other.close()


@pytest.fixture
def spare(tools):
    made = Spare(tools.toolchain, tools.cage)
    yield made
    made.close()


def test_a_spare_is_taken_once_and_only_by_who_reaches_the_same(spare, tmp_path):
    spare.prepare(None)
    spare.prepare(None)
    waiting = spare._waiting[0]
    first, second = spare.take(None), spare.take(None)
    try:
        assert first is waiting
        assert second is not first
        assert not first.used
        assert first.request("said", {}) == {"errors": [], "printed": []}
    finally:
        first.close()
        second.close()
    spare.prepare(None)
    elsewhere = spare._waiting[0]
    spare.take(tmp_path).close()
    assert elsewhere.closed


def test_a_spare_that_died_in_waiting_is_replaced(spare):
    spare.prepare(None)
    dead = spare._waiting[0]
    dead.process.kill()
    dead.process.wait(30)
    child = spare.take(None)
    try:
        child.start()
        assert child is not dead
    finally:
        child.close()


def test_a_spare_ends_with_its_tools(spare):
    spare.prepare(None)
    waiting = spare._waiting[0]
    spare.close()
    assert (waiting.alive, spare._waiting) == (False, None)
