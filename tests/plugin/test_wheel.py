"""The built wheel: it holds what it needs, and grades a suite elsewhere."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_convex_evals.engine.setup import toolchain_root
from tests.support.environments import REPOSITORY, bare_environment
from tests.support.sessions import Project
from tests.support.suites import EXPECT, SOURCES_GRADER

NEEDED = {
    "pytest_convex_evals/py.typed",
    "pytest_convex_evals/models/models.toml",
    "pytest_convex_evals/prompts/guidelines.md",
    "pytest_convex_evals/prompts/system.md.j2",
    "pytest_convex_evals/prompts/user.md.j2",
    "pytest_convex_evals/engine/package.json",
    "pytest_convex_evals/engine/package-lock.json",
    "pytest_convex_evals/engine/.npmrc",
    "pytest_convex_evals/engine/build.mjs",
    "pytest_convex_evals/engine/slim.mjs",
    "pytest_convex_evals/engine/src/toolchain/main.ts",
    "pytest_convex_evals/scores/backend/package-lock.json",
    "pytest_convex_evals/scores/backend/convex/schema.ts",
    "pytest_convex_evals/scores/backend/convex/_generated/api.js",
}
ENTRY_POINTS = """\
[console_scripts]
convex-evals = pytest_convex_evals.cli.main:main

[pytest11]
convex-evals = pytest_convex_evals.plugin
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, REPOSITORY]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, project: Project) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= NEEDED
    engine = REPOSITORY / "pytest_convex_evals/engine/src"
    assert names >= {path.relative_to(REPOSITORY).as_posix() for path in engine.rglob("*.ts")}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"pytest_convex_evals"}
    assert [name for name in names if "node_modules" in name or name.endswith(".pyc")] == []

    environment = project.root / "environment"
    python = bare_environment(environment)
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True)
    (metadata,) = environment.glob("lib/python3.*/site-packages/pytest_convex_evals-*.dist-info")
    assert (metadata / "entry_points.txt").read_text(encoding="utf-8") == ENTRY_POINTS
    # Sources that arrived whole have the same hash, so the toolchain of this environment fits.
    (environment / "share").mkdir(exist_ok=True)
    (environment / "share/convex-evals").symlink_to(toolchain_root())
    project.suite.add("000-good/001-files", wrong={"off_by_one": EXPECT})
    project.suite.add("000-good/002-sources", grader=SOURCES_GRADER)
    (project.root / "conftest.py").write_text(
        "import pytest_convex_evals\n\n\ndef pytest_report_header():\n"
        "    return f'package: {pytest_convex_evals.__file__}'\n",
        encoding="utf-8",
    )
    done = project.apart("evals", "--models", "reference,wrong", "-n", "2", python=python)
    assert done.code == 0, done.output
    assert f"package: {environment}/lib/" in done.output
    assert done.outcomes == dict.fromkeys(
        ["001-files[reference]", "001-files[wrong:off_by_one]", "002-sources[reference]"], "passed"
    )
    command = [environment / "bin/convex-evals", "list"]
    listed = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True)
    assert listed.stdout.endswith("\n2 evals, 0 broken\n")
    program = "from pytest_convex_evals.cli.scores_project import sources; print(sources())"
    found = subprocess.run([python, "-c", program], cwd=project.root, capture_output=True, text=True, check=True)
    assert found.stdout.strip().endswith("site-packages/pytest_convex_evals/scores/backend")
