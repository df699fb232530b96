"""Cells, the names of their items and of their folders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_convex_evals.cells import Cell, PastedId, folder_name, parse_node_id


@pytest.mark.parametrize(
    ("submitter", "repeat", "kind", "slug", "name"),
    [
        ("gpt-5", 1, "model", "", "003-crons[gpt-5]"),
        ("gpt-5", 2, "model", "", "003-crons[gpt-5+2]"),
        ("openrouter/a/b:free", 1, "model", "free", "003-crons[openrouter/a/b:free]"),
        ("reference", 1, "reference", "", "003-crons[reference]"),
        ("wrong:slug", 1, "wrong", "slug", "003-crons[wrong:slug]"),
        ("empty:no-files", 3, "empty", "no-files", "003-crons[empty:no-files+3]"),
    ],
)
def test_ids_of_items_can_be_pasted_back(submitter, repeat, kind, slug, name):
    cell = Cell("000-fundamentals", "003-crons", submitter, "default", repeat)
    assert (cell.kind, cell.slug, cell.item_name) == (kind, slug, name)
    pasted = parse_node_id(f"evals/000-fundamentals/003-crons/TASK.txt::{cell.item_name}")
    assert pasted == PastedId("evals/000-fundamentals/003-crons/TASK.txt", "003-crons", submitter, repeat)


@pytest.mark.parametrize(
    "node_id",
    ["tests/test_x.py::test_y[a]", "evals/x/TASK.txt", "evals/x/MYTASK.txt::a[b]", "TASK.txt::a", "TASK.txt::a[]"],
)
def test_other_ids_are_not_ours(node_id):
    assert parse_node_id(node_id) is None


@pytest.mark.parametrize(
    ("submitter", "folder"),
    [
        ("gpt-5.2-codex", "gpt-5.2-codex"),
        ("openai/gpt-5", "openai%2Fgpt-5"),
        ("wrong:slug", "wrong%3Aslug"),
        ("..", "%2E."),
        ("é", "%C3%A9"),
        ("%", "%25"),
    ],
)
def test_folders_of_submitters(submitter, folder):
    assert folder_name(submitter) == folder


@given(st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=2, unique=True))
def test_two_submitters_never_share_a_folder(pair):
    one, other = (folder_name(name) for name in pair)
    assert one != other
    assert "/" not in one
    assert one not in {".", ".."}


def test_an_escape_is_not_taken_for_another():
    assert folder_name("\u0e9a") != folder_name("\u00e9a") != folder_name("\u00e9A")
    assert folder_name("\u0e9a").lower() != folder_name("\u00e9a").lower()
