"""A type checker that has seen other submissions says about the next one what a fresh one says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.grading.toolchain import ToolchainWorker

CLEAN = (
    "import { v } from 'convex/values';\nexport const given = v.object({ n: v.number(), s: v.optional(v.string()) });\n"
)
USES = "import { given } from './one';\nexport const n: number = given.fields.n.kind === 'float64' ? 1 : 2;\n"


@pytest.fixture(scope="module")
def toolchain():
    return ensure_toolchain(lambda _: None)


@pytest.fixture(scope="module")
def worker(toolchain):
    found = ToolchainWorker(lambda: toolchain)
    yield found
    found.close()


class Submissions:
    """Each in a folder of its own, checked by the same worker."""

    def __init__(self, worker: ToolchainWorker, folder: Path, packages: Path, toolchain: Path) -> None:
        self.worker, self.folder, self.packages, self.toolchain = worker, folder, packages, toolchain

    def check(self, op: str = "typecheck", name: str = "", **files: str) -> list[str]:
        """The rules that a submission breaks; the names of its files without their folder and ending."""
        project = self.folder / (name or str(len(list(self.folder.iterdir()))))
        (project / "convex").mkdir(parents=True, exist_ok=True)
        if not (project / "node_modules").exists():
            (project / "node_modules").symlink_to(self.packages)
        for file, text in files.items():
            (project / "convex" / f"{file}.ts").write_text(text, encoding="utf-8")
        asked = {
            "project": str(project),
            "toolchain": str(self.toolchain),
            "files": [f"convex/{file}.ts" for file in files],
        }
        findings = self.worker.request("typecheck", asked, deadline_s=60)["findings"]
        if op == "lint":
            findings = self.worker.request("lint", asked, deadline_s=60)["findings"]
        return [f"{Path(finding['file']).stem}:{finding['rule']}" for finding in findings]


@pytest.fixture
def submissions(worker, toolchain, tmp_path):
    return Submissions(worker, tmp_path, toolchain.folder / "node_modules", toolchain.folder)


def test_mistakes_are_found_after_any_number_of_clean_submissions(submissions):
    for _ in range(3):
        assert submissions.check(one=CLEAN, two=USES) == []
        assert submissions.check(one=CLEAN, two=USES.replace("? 1", "? 'x'")) == ["two:TS2322"]
        assert submissions.check(one=CLEAN, two=USES + "given.fields.other;\n") == ["two:TS2339"]
        assert submissions.check(one="import { gone } from 'convex/values';\nexport { gone };\n") == ["one:TS2305"]
        assert submissions.check(one="import x from 'not-installed';\nexport { x };\n") == ["one:TS2307"]


def test_the_same_folder_with_other_contents_is_another_submission(submissions):
    assert submissions.check(name="same", one=CLEAN, two=USES) == []
    assert submissions.check(name="same", one=CLEAN, two=USES.replace("? 1", "? 'x'")) == ["two:TS2322"]
    assert submissions.check(name="same", one=CLEAN, two=USES) == []


@pytest.mark.parametrize(
    "text",
    [
        "declare global { interface Window { planted: number } var planted: number; }\nexport {};\n",
        "declare module 'convex/values' { export const planted: number; }\nexport {};\n",
        "declare module 'planted' { export const planted: number; }\n",
        "declare module '*.planted' { const planted: number; export default planted; }\n",
        "declare var planted: number;\n",
        "interface Array<T> { planted: T }\n",
    ],
)
def test_what_a_submission_declares_for_all_ends_with_it(submissions, text):
    uses = {
        "a": "export const a = planted;\n",
        "b": "import { planted } from 'convex/values';\nexport const b = planted;\n",
        "c": "import { planted } from 'planted';\nexport const c = planted;\n",
        "d": "import planted from './some.planted';\nexport const d = planted;\n",
        "e": "export const e = [1].planted;\n",
    }
    expected = ["a:TS2304", "b:TS2305", "c:TS2307", "d:TS2307", "e:TS2339"]
    assert submissions.check(one=CLEAN, two=USES) == []
    assert submissions.check(**uses) == expected
    with_declaration = submissions.check(declared=text, **uses)
    assert len(with_declaration) < len(expected), with_declaration
    assert submissions.check(**uses) == expected
    assert submissions.check(one=CLEAN, two=USES) == []


def test_lint_sees_the_types_of_its_own_submission(submissions):
    later = "export async function later() {\n  return await Promise.resolve(1);\n}\n"
    promise = later + "export function now() {\n  %slater();\n}\n"
    assert submissions.check("lint", one=promise % "void ") == []
    assert submissions.check("lint", one=promise % "") == ["one:@typescript-eslint/no-floating-promises"]
    assert (
        submissions.check("lint", one=promise.replace("async ", "").replace("await Promise.resolve(1)", "1") % "") == []
    )


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_submissions(submissions, worker):
    def resident() -> int:
        pages = Path(f"/proc/{worker._child.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(45):
        assert submissions.check(one=CLEAN, two=USES) == []
    middle = resident()
    for _ in range(45):
        assert submissions.check(one=CLEAN, two=USES) == []
    assert resident() < middle * 1.5
