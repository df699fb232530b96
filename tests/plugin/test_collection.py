"""Which items a session has, and how people name them."""

from __future__ import annotations

import pytest

from tests.support.sessions import Project
from tests.support.suites import EXPECT, write_tree

CRONS = "evals/000-fundamentals/003-crons/TASK.txt::003-crons"
HTTP = "evals/000-fundamentals/004-http/TASK.txt::004-http"
JOINS = "evals/001-data/001-joins/TASK.txt::001-joins"
ROUTED = "openrouter/x/y:free"


@pytest.fixture
def three(project: Project) -> Project:
    project.suite.add("001-data/001-joins", wrong={"off_by_one": EXPECT})
    project.suite.add("000-fundamentals/004-http")
    project.suite.add("000-fundamentals/003-crons", wrong={"b_slug": EXPECT, "a_slug": EXPECT})
    project.env(OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k", OPENROUTER_API_KEY="k")
    return project


def test_an_id_names_the_eval_and_the_model(three: Project) -> None:
    assert three.collected("evals") == [f"{CRONS}[reference]", f"{HTTP}[reference]", f"{JOINS}[reference]"]
    assert three.collected("evals", "--models", "gpt-5", "-k", "crons") == [f"{CRONS}[gpt-5]"]


def test_models_come_in_the_order_given_and_each_once(three: Project) -> None:
    found = three.collected("evals", "--models", f"{ROUTED},gpt-5", "--models", "gpt-5,reference", "-k", "004-http")
    assert found == [f"{HTTP}[{ROUTED}]", f"{HTTP}[gpt-5]", f"{HTTP}[reference]"]


def test_repeats_beyond_the_first_are_numbered(three: Project) -> None:
    found = three.collected("evals", "--models", f"gpt-5,{ROUTED}", "--evals-repeats", "3", "-k", "joins")
    labels = ["gpt-5", "gpt-5+2", "gpt-5+3", ROUTED, f"{ROUTED}+2", f"{ROUTED}+3"]
    assert found == [f"{JOINS}[{label}]" for label in labels]


def test_wrong_submissions_are_items_by_their_slug_in_sorted_order(three: Project) -> None:
    found = three.collected("evals", "--models", "wrong")
    assert found == [f"{CRONS}[wrong:a_slug]", f"{CRONS}[wrong:b_slug]", f"{JOINS}[wrong:off_by_one]"]


def test_empty_makes_two_items(three: Project) -> None:
    found = three.collected("evals/001-data", "--models", "empty")
    assert found == [f"{JOINS}[empty:no-files]", f"{JOINS}[empty:no-functions]"]


@pytest.mark.parametrize(
    "label",
    [
        "reference",
        "gpt-5",
        "gpt-5+3",
        ROUTED,
        f"{ROUTED}+2",
        "anthropic/claude-opus-4-6",
        "wrong:b_slug",
        "empty:no-files",
    ],
)
def test_a_pasted_id_selects_one_item_and_implies_its_model(three: Project, label: str) -> None:
    assert three.collected(f"{CRONS}[{label}]") == [f"{CRONS}[{label}]"]


def test_pasted_ids_imply_their_models_only_for_their_own_evals(three: Project) -> None:
    found = three.collected(f"{HTTP}[gpt-5]", "evals/001-data", f"{CRONS}[wrong:a_slug]")
    assert found == [f"{HTTP}[gpt-5]", f"{JOINS}[reference]", f"{CRONS}[wrong:a_slug]"]


def test_a_pasted_id_works_from_another_folder(three: Project) -> None:
    three.monkeypatch.chdir(three.root / "evals")
    found = three.collected("000-fundamentals/003-crons/TASK.txt::003-crons[gpt-5]")
    assert found == [f"{CRONS}[gpt-5]"]


def test_evals_beside_the_root_of_the_session_have_ids_that_lead_to_them(three: Project) -> None:
    (three.root / "beside").mkdir()
    three.monkeypatch.chdir(three.root / "beside")
    assert three.collected("--rootdir=.", "../evals", "-k", "crons") == [f"../{CRONS}[reference]"]
    done = three.here("--rootdir=.", f"../{CRONS}[wrong:a_slug]", f"--evals-dir={three.store}")
    assert done.outcomes == {"003-crons[wrong:a_slug]": "passed"}, done.output
    assert done.records["003-crons[wrong:a_slug]"].eval == "000-fundamentals/003-crons"


def test_a_pasted_id_of_no_item_is_a_wrong_argument(three: Project) -> None:
    done = three.here(f"{CRONS}[wrong:no_such_slug]")
    assert done.code == 1
    assert "no_such_slug: does not exist" in done.output
    assert "the wrong submissions of this eval are: a_slug, b_slug" in done.output
    done = three.here("evals/000-fundamentals/003-crons/TASK.txt::another[reference]")
    assert done.code == 4
    assert "not found" in done.output


def test_files_and_folders_are_arguments(three: Project) -> None:
    assert three.collected("evals/000-fundamentals/004-http/TASK.txt") == [f"{HTTP}[reference]"]
    assert three.collected("evals/000-fundamentals/004-http") == [f"{HTTP}[reference]"]
    assert three.collected("evals/000-fundamentals") == [f"{CRONS}[reference]", f"{HTTP}[reference]"]


@pytest.mark.parametrize("workers", ["", "2"])
def test_a_file_and_its_folder_together_make_each_item_once(three: Project, workers: str) -> None:
    file = "evals/000-fundamentals/004-http/TASK.txt"
    done = three.run("evals/000-fundamentals", file, f"{HTTP}[reference]", workers=workers)
    assert done.code == 0, done.output
    # pytest 8 lets the narrower argument win, for ordinary tests too.
    expected = (
        ["003-crons[reference]", "004-http[reference]"] if pytest.version_tuple >= (9,) else ["004-http[reference]"]
    )
    assert sorted(done.records) == expected
    assert [event["event"] for event in done.events].count("cell_finished") == len(expected)
    assert f"{len(expected)} passed" in done.output


def test_deselect_takes_ids_and_folders(three: Project) -> None:
    found = three.collected("evals", "--deselect", f"{CRONS}[reference]", "--deselect", "evals/001-data")
    assert found == [f"{HTTP}[reference]"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("003-crons", [f"{CRONS}[reference]", f"{CRONS}[gpt-5]"]),
        ("001-data", [f"{JOINS}[reference]", f"{JOINS}[gpt-5]"]),
        ("000-fundamentals/004-http", [f"{HTTP}[reference]", f"{HTTP}[gpt-5]"]),
        ("gpt-5 and not fundamentals", [f"{JOINS}[gpt-5]"]),
        ("openai/gpt-5 and joins", [f"{JOINS}[gpt-5]"]),
        ("crons and reference", [f"{CRONS}[reference]"]),
    ],
)
def test_k_matches_eval_category_both_and_model(three: Project, expression: str, expected: list[str]) -> None:
    assert three.collected("evals", "--models", "reference,gpt-5", "-k", expression) == expected


def test_markers_select_category_and_model(three: Project) -> None:
    models = ("--models", f"reference,{ROUTED}")
    found = three.collected("evals", *models, "-m", "category(name='001-data')")
    assert found == [f"{JOINS}[reference]", f"{JOINS}[{ROUTED}]"]
    found = three.collected("evals", *models, "-m", f"model(name='{ROUTED}') and not category(name='001-data')")
    assert found == [f"{CRONS}[{ROUTED}]", f"{HTTP}[{ROUTED}]"]


def test_the_markers_are_registered(three: Project) -> None:
    assert three.collected("evals", "--strict-markers", "-m", "category(name='001-data')") == [f"{JOINS}[reference]"]


def test_the_filter_is_searched_in_category_and_name(three: Project) -> None:
    assert three.collected("evals", "--evals-filter", "000-fundamentals/003") == [f"{CRONS}[reference]"]
    assert three.collected("evals", "--evals-filter", "http$|^001") == [f"{HTTP}[reference]", f"{JOINS}[reference]"]
    three.env(TEST_FILTER="joins")
    assert three.collected("evals") == [f"{JOINS}[reference]"]


def test_a_task_is_not_offered_to_doctest(three: Project) -> None:
    task = three.suite.add("002-more/001-doctest", task="Do as this says:\n\n>>> 1 + 1\n3\n") / "TASK.txt"
    wanted = ["evals/002-more/001-doctest/TASK.txt::001-doctest[reference]"]
    assert three.collected(str(task)) == wanted
    assert three.collected(str(task), "--doctest-glob=*.txt", "--doctest-modules") == wanted


def test_submissions_inside_evals_hold_no_items(three: Project) -> None:
    nested = {"test_x.py": "def test_x(): assert False", "deep/TASK.txt": "Not a task."}
    for place in ("answer", "wrong/a_slug", "node_modules"):
        write_tree(three.root / "evals/000-fundamentals/003-crons" / place, {**nested, "TASK.txt": "Neither."})
    write_tree(three.root / "evals/000-fundamentals/003-crons/wrong/b_slug", {"conftest.py": "1 / 0"})
    assert three.collected("evals/000-fundamentals") == [f"{CRONS}[reference]", f"{HTTP}[reference]"]
    done = three.here("evals/000-fundamentals/003-crons/answer")
    assert done.code == 5, done.output


def test_folders_called_answer_are_collected_elsewhere(three: Project) -> None:
    write_tree(three.root, {"answer/test_ordinary.py": "def test_ordinary(): pass"})
    assert three.collected("answer") == ["answer/test_ordinary.py::test_ordinary"]


def test_looking_at_the_items_leaves_nothing_behind(three: Project) -> None:
    assert len(three.collected("evals", "--models", "gpt-5")) == 3
    assert not three.store.exists()


def test_workers_collect_the_same_items_in_the_same_order(three: Project) -> None:
    (three.root / "conftest.py").write_text(
        "def pytest_collection_finish(session):\n"
        "    name = getattr(session.config, 'workerinput', {}).get('workerid', 'controller')\n"
        "    with open(session.config.rootpath / f'{name}.ids', 'w') as stream:\n"
        "        stream.writelines(f'{item.nodeid}\\n' for item in session.items)\n",
        encoding="utf-8",
    )
    selected = ("evals", "--models", "reference,wrong,empty", "--evals-repeats", "2", "-k", "not wrong:a_slug")
    alone = three.here(*selected, "--co", "-q")
    assert alone.code == 0, alone.output
    done = three.run(*selected, workers="2")
    ids = [(three.root / f"{name}.ids").read_text(encoding="utf-8") for name in ("controller", "gw0", "gw1")]
    assert ids[0].count("\n") == 6 + 4 + 12
    assert ids[0] == ids[1] == ids[2]
    assert [len(event["cells"]) for event in done.events if event["event"] == "run_started"] == [22]


def test_other_names_of_a_model_select_it_in_workers_too(three: Project) -> None:
    (three.root / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.hookimpl(trylast=True)\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    path = config.rootpath / f'{config.workerinput[\"workerid\"]}.ids'\n"
        "    path.write_text(' '.join(item.nodeid for item in items))\n"
        "    items.clear()\n",
        encoding="utf-8",
    )
    three.run("evals", "--models", "reference,gpt-5", "-k", "openai/gpt-5 and joins", workers="2")
    assert (three.root / "gw0.ids").read_text(encoding="utf-8") == f"{JOINS}[gpt-5]"
