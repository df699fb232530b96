"""Evals and wrong submissions on disk: what is read, and what is wrong with a broken one."""

import pytest

from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.files import read_tree, walk
from pytest_convex_evals.suite.wrong import load_wrong, wrong_slugs
from tests.support.suites import EXPECT, GRADER, NO_ANSWER, RIGHT, Suite, write_tree

NAME = "000-fundamentals/003-crons"


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path / "evals")


def test_an_eval_is_read_from_its_folder(suite):
    toml = 'pipeline = "static"\ntags = ["crons", "time"]\nextra_time = 30\n'
    root = suite.add(NAME, task="Do it.\n", toml=toml)
    item = load_eval(root / "TASK.txt")
    assert (item.id, item.category, item.name) == (NAME, "000-fundamentals", "003-crons")
    assert (item.pipeline, item.tags, item.extra_time) == ("static", ("crons", "time"), 30.0)
    assert item.grader == root / "grader.py"
    assert item.task() == "Do it.\n"
    assert item.answer_files() == RIGHT


def test_without_eval_toml_the_pipeline_is_the_full_one(suite):
    item = load_eval(suite.add(NAME, toml=None) / "TASK.txt")
    assert (item.pipeline, item.tags, item.extra_time) == ("full", (), 0.0)


def test_the_grader_may_be_a_vitest_file(suite):
    root = suite.add(NAME, grader=None)
    write_tree(root, {"grader.test.ts": "test('x', () => {});\n"})
    assert load_eval(root / "TASK.txt").grader == root / "grader.test.ts"


BROKEN = {
    "an empty task": ({"TASK.txt": " \n"}, "TASK.txt", "is empty", "write the prompt that the model gets"),
    "two graders": (
        {"grader.test.ts": ""},
        "",
        "has two graders: grader.py and grader.test.ts",
        "keep exactly one of grader.py and grader.test.ts",
    ),
    "no TOML": (
        {"eval.toml": "pipeline"},
        "eval.toml",
        "is not TOML: Expected '=' after a key in a key/value pair (at end of document)",
        "correct the syntax",
    ),
    "an unknown key": (
        {"eval.toml": "timeout = 3\n"},
        "eval.toml",
        "unknown key 'timeout'",
        "use only extra_time, pipeline, tags",
    ),
    "an unknown pipeline": (
        {"eval.toml": 'pipeline = "quick"\n'},
        "eval.toml",
        "unknown pipeline 'quick'",
        "use 'full' or 'static'",
    ),
    "a list of pipelines": (
        {"eval.toml": 'pipeline = ["full"]\n'},
        "eval.toml",
        "unknown pipeline ['full']",
        "use 'full' or 'static'",
    ),
    "tags that are no list": (
        {"eval.toml": 'tags = "auth"\n'},
        "eval.toml",
        "tags must be a list of strings",
        'write for example tags = ["auth"]',
    ),
    "tags of numbers": (
        {"eval.toml": "tags = [1]\n"},
        "eval.toml",
        "tags must be a list of strings",
        'write for example tags = ["auth"]',
    ),
} | {
    f"extra_time {value}": (
        {"eval.toml": f"extra_time = {value}\n"},
        "eval.toml",
        "extra_time must be a number of seconds",
        "write for example extra_time = 30",
    )
    for value in ("-1", "3601", "true", "nan", "inf", '"30"')
}


@pytest.mark.parametrize(("files", "path", "problem", "remedy"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_eval_names_the_file_and_the_remedy(files, path, problem, remedy, suite):
    root = suite.add(NAME)
    write_tree(root, files)
    with pytest.raises(BrokenEval) as caught:
        load_eval(root / "TASK.txt")
    assert str(caught.value) == f"{root / path if path else root}: {problem}\n  what to do: {remedy}"


def test_an_eval_without_a_grader_is_broken(suite):
    root = suite.add(NAME, grader=None)
    with pytest.raises(BrokenEval, match=r"has no grader\n  what to do: keep exactly one of"):
        load_eval(root / "TASK.txt")


def test_an_eval_without_an_answer_is_broken(suite):
    root = suite.add(NAME, answer=None)
    with pytest.raises(BrokenEval, match=r"has no answer/ folder\n  what to do: add the reference project as answer/"):
        load_eval(root / "TASK.txt")


@pytest.mark.parametrize("name", ["TASK.txt", "eval.toml", "answer/convex/main.ts"])
def test_a_file_that_is_not_text_is_named(name, suite):
    root = suite.add(NAME)
    (root / name).write_bytes(b"\xff\xfe\0")
    with pytest.raises(BrokenEval) as caught:
        load_eval(root / "TASK.txt").answer_files()
    assert str(caught.value) == f"{root / name}: is not UTF-8 text\n  what to do: save it as UTF-8, or remove it"


@pytest.mark.parametrize("name", ["TASK.txt", "eval.toml", "answer/convex/main.ts"])
def test_a_symbolic_link_is_not_followed(name, suite, tmp_path):
    root = suite.add(NAME)
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    (root / name).unlink()
    (root / name).symlink_to(tmp_path / "secret")
    with pytest.raises(BrokenEval) as caught:
        load_eval(root / "TASK.txt").answer_files()
    assert str(caught.value) == f"{root / name}: is a symbolic link\n  what to do: put the file itself there"


def test_a_task_that_is_a_folder_is_named(suite):
    root = suite.add(NAME)
    (root / "TASK.txt").unlink()
    (root / "TASK.txt").mkdir()
    with pytest.raises(BrokenEval, match="cannot be read: Is a directory"):
        load_eval(root / "TASK.txt")


def test_trees_are_read_in_the_order_of_their_paths_without_what_tools_create(tmp_path):
    files = ["b.ts", "a/z.ts", "a.ts", "a/b/c.ts", "B.ts", "a-b/x.ts"]
    hidden = ["node_modules/x/i.js", "convex/_generated/api.ts", "__pycache__/x.pyc", ".git/config", "a/.cache/x"]
    write_tree(tmp_path, dict.fromkeys([*files, *hidden], "x"))
    assert [path.relative_to(tmp_path).as_posix() for path in walk(tmp_path)] == sorted(files)
    assert list(read_tree(tmp_path)) == sorted(files)


def test_wrong_submissions_are_laid_over_the_answer(suite):
    root = suite.add(NAME, wrong={"b-slug": EXPECT, "a-slug": EXPECT})
    write_tree(
        root,
        {"wrong/a-slug/convex/more.ts": "more\n", "wrong/a-slug/expect.toml": EXPECT + 'delete = "package.json"\n'},
    )
    write_tree(root, {"wrong/notes.md": "not a submission", "wrong/.hidden/x": ""})
    item = load_eval(root / "TASK.txt")
    assert wrong_slugs(root) == ["a-slug", "b-slug"]
    wrong = load_wrong(item, "a-slug")
    assert wrong.files == {"convex/main.ts": NO_ANSWER["convex/main.ts"], "convex/more.ts": "more\n"}
    assert (wrong.step, wrong.checks) == ("tests", ("test_answers_the_question",))
    assert wrong.why == "it computes another number"
    assert load_wrong(item, "b-slug").files == RIGHT | NO_ANSWER


def test_a_wrong_submission_may_fail_before_the_tests(suite):
    root = suite.add(NAME, wrong={"x": 'step = "filesystem"\nwhy = "it leaves"\n'})
    wrong = load_wrong(load_eval(root / "TASK.txt"), "x")
    assert (wrong.step, wrong.checks) == ("filesystem", ())


def test_an_eval_without_wrong_submissions_has_none(suite):
    assert wrong_slugs(suite.add(NAME)) == []


STEPS = "use one of filesystem, install, deploy, tsc, eslint, tests"
PAIR = 'a check goes with step = "tests", and the other way round'
BROKEN_WRONG = {
    "no step": ('why = "x"\n', "step None is not a step", STEPS),
    "an unknown step": ('step = "lint"\nwhy = "x"\n', "step 'lint' is not a step", STEPS),
    "a list of steps": ('step = ["tests"]\nwhy = "x"\n', "step ['tests'] is not a step", STEPS),
    "tests without a check": ('step = "tests"\nwhy = "x"\n', "names no check", PAIR),
    "a check elsewhere": ('step = "tsc"\ncheck = "test_a"\nwhy = "x"\n', "names a check, but step is 'tsc'", PAIR),
    "no reason": ('step = "tsc"\n', "does not say why", 'write why = "…", the mistake in one sentence'),
    "an empty reason": (
        'step = "tsc"\nwhy = " "\n',
        "does not say why",
        'write why = "…", the mistake in one sentence',
    ),
    "a number as check": (
        'step = "tests"\ncheck = [1]\nwhy = "x"\n',
        "check must be a string or a list of strings",
        'write for example check = "…"',
    ),
    "a deletion of nothing": (
        'step = "tsc"\nwhy = "x"\ndelete = "convex/none.ts"\n',
        "deletes 'convex/none.ts', which the answer does not have",
        "name a file of answer/",
    ),
    "an unknown key": (
        'step = "tsc"\nwhy = "x"\nchecks = "a"\n',
        "unknown key 'checks'",
        "use only check, delete, step, why",
    ),
}


@pytest.mark.parametrize(("text", "problem", "remedy"), BROKEN_WRONG.values(), ids=BROKEN_WRONG.keys())
def test_a_broken_wrong_submission_names_the_file_and_the_remedy(text, problem, remedy, suite):
    root = suite.add(NAME, wrong={"slug": text})
    with pytest.raises(BrokenEval) as caught:
        load_wrong(load_eval(root / "TASK.txt"), "slug")
    assert str(caught.value) == f"{root}/wrong/slug/expect.toml: {problem}\n  what to do: {remedy}"


def test_a_wrong_submission_needs_to_say_where_it_fails(suite):
    root = suite.add(NAME, wrong={"slug": None})
    with pytest.raises(BrokenEval) as caught:
        load_wrong(load_eval(root / "TASK.txt"), "slug")
    assert str(caught.value) == (
        f"{root}/wrong/slug: has no expect.toml\n  what to do: say where it must fail: step, check and why"
    )


def test_a_wrong_submission_that_changes_nothing_is_broken(suite):
    root = suite.add(NAME)
    write_tree(root, {"wrong/slug/expect.toml": EXPECT})
    with pytest.raises(BrokenEval, match="changes nothing\n  what to do: add the files that differ from answer/"):
        load_wrong(load_eval(root / "TASK.txt"), "slug")


def test_an_unknown_slug_gets_the_known_ones(suite):
    root = suite.add(NAME, wrong={"a": EXPECT, "b": EXPECT})
    with pytest.raises(BrokenEval, match="does not exist\n  what to do: the wrong submissions of this eval are: a, b"):
        load_wrong(load_eval(root / "TASK.txt"), "c")


def test_the_grader_of_the_builder_is_the_one_on_disk(suite):
    assert (suite.add(NAME) / "grader.py").read_text(encoding="utf-8") == GRADER
