"""A project with components, and screens that show them."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import read_manifest
from pytest_convex_evals.grading.packages import link_packages
from pytest_convex_evals.grading.screen import Stage
from pytest_convex_evals.grading.tools import Tools

CASES = Path(__file__).parent.parent / "unit" / "screen_cases"
NOBODY = SimpleNamespace(
    url="http://127.0.0.1:29999", site_url="http://127.0.0.1:29998", prove_alive=lambda: None, relay=None
)


@pytest.fixture(scope="module")
def tools():
    made = Tools(ensure_toolchain, toolchain_root())
    yield made
    made.close()


@pytest.fixture(scope="module")
def project(tools, tmp_path_factory):
    """The cases with their packages, pushed by nobody."""
    folder = tmp_path_factory.mktemp("screen") / "project"
    shutil.copytree(CASES, folder)
    packages = tools.packages().install(read_manifest((CASES / "package.json").read_text(encoding="utf-8")))
    link_packages(folder, packages)
    generated = folder / "convex" / "_generated"
    generated.mkdir()
    (generated / "api.js").write_text('import { anyApi } from "convex/server";\nexport const api = anyApi;\n')
    return folder


@pytest.fixture(scope="module")
def stage(tools, project):
    made = Stage(tools.toolchain(), tools.worker, project, project.parent, NOBODY, tools.cage())
    yield made
    made.close()


@pytest.fixture
def show(stage, project):
    """Render the source of a component, not connected to anything."""

    def show(source: str, **options):
        (project / "src" / "Case.tsx").write_text(source, encoding="utf-8")
        stage._bundles.clear()  # another component under the same name
        screen = stage.screen()
        screen.render("src/Case.tsx", online=False, **options)
        return screen

    return show


def effect(code: str) -> str:
    """A component that runs code once it is there, and shows its result."""
    return (
        'import { useEffect, useState } from "react";\n'
        "export default function Case() {\n"
        '  const [result, setResult] = useState("nothing yet");\n'
        f"  useEffect(() => {{ {code} }}, []);\n"
        "  return <p>{result}</p>;\n"
        "}\n"
    )
