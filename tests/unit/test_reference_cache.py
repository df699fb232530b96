"""The schema and the function spec of a reference: deployed once per content, by one process, and never read half."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_convex_evals.backends.base import Backend
from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.reference import Reference, reference_of
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.suite.evals import Eval, load_eval

ANSWER = {
    "package.json": '{"dependencies": {"convex": "1.48.0"}}',
    "convex/a.ts": 'import { query } from "./_generated/server";\n'
    "export const a = query({ args: {}, handler: async () => 1 });\n",
}


class Counting(Tools):
    """The real tools, which count the backends that are started; their cache is a folder of the test."""

    def __init__(self, cache: Path) -> None:
        super().__init__(ensure_toolchain, cache)
        (cache / "packages").symlink_to(toolchain_root() / "packages")
        self.started = 0

    def backend(self) -> Backend:
        self.started += 1
        return super().backend()


@pytest.fixture
def tools(tmp_path: Path):
    made = Counting(tmp_path)
    yield made
    made.close()


@pytest.fixture
def evals(tmp_path: Path) -> Callable[..., Eval]:
    def evals(answer: dict[str, str] = ANSWER, task: str = "Do it.") -> Eval:
        root = tmp_path / "evals" / "000-a" / "000-b"
        for path, text in {"TASK.txt": task, "grader.py": "def test_a(app): ...\n"}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for path, text in answer.items():
            (root / "answer" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "answer" / path).write_text(text)
        return load_eval(root / "TASK.txt")

    return evals


def entry(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "reference").glob("[!.]*.json")
    return found


def test_it_is_deployed_once_per_answer_and_found_afterwards(evals, tools, tmp_path):
    first = reference_of(evals(), tools)
    assert (first.schema, [one["identifier"] for one in first.functions]) == (None, ["a.js:a"])
    assert reference_of(evals(task="Do it, please."), tools) == first
    assert tools.started == 1
    other = reference_of(evals({"convex/b.ts": ANSWER["convex/a.ts"]}), tools)
    assert len(other.functions) == 2
    assert tools.started == 2


SPOILED = {
    "empty": lambda text: "",
    "cut off": lambda text: text[: len(text) // 2],
    "changed": lambda text: text.replace("a.js:a", "b.js:b"),
    "without its sum": lambda text: json.dumps({"content": json.loads(text)["content"]}),
    "another shape": lambda text: "[]",
    "no text": lambda text: "\0",
}


def test_an_entry_that_is_not_whole_is_computed_again(evals, tools, tmp_path):
    right = reference_of(evals(), tools)
    whole = entry(tmp_path).read_text()
    for number, spoil in enumerate(SPOILED.values(), 1):
        entry(tmp_path).write_text(spoil(whole))
        assert reference_of(evals(), tools) == right
        assert tools.started == 1 + number
        assert entry(tmp_path).read_text() == whole


def test_two_who_want_the_same_compute_it_once(evals, tools, tmp_path):
    item, found = evals(), list[Reference]()
    others = [tools, Counting.__new__(Counting)]
    others[1].__dict__.update(tools.__dict__)  # the same folder, without making it twice
    others[1].started = 0
    threads = [threading.Thread(target=lambda each=each: found.append(reference_of(item, each))) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 2
    assert found[0] == found[1]
    assert sum(each.started for each in others) == 1


def test_an_answer_that_cannot_be_deployed_is_our_trouble_and_not_remembered(evals, tools, tmp_path):
    with pytest.raises(Trouble) as caught:
        reference_of(evals({**ANSWER, "convex/a.ts": "export const x = ;"}), tools)
    assert (caught.value.cause, caught.value.remedy) == ("reference", "mend the answer")
    assert caught.value.reason.startswith('the answer of 000-a/000-b fails at deploy: ✘ [ERROR] Unexpected ";"')
    assert not list((tmp_path / "reference").glob("[!.]*.json"))
