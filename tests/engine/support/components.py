"""Projects that use components of the registry, each pushed once by the real CLI."""

from pathlib import Path

from .core import Core
from .programs import PROGRAMS
from .project import run_cli, write_project
from .toolchain import toolchain

PROJECTS = Path(__file__).parent.parent / "components"
PACKAGES = {
    "convex": "1.48.0",
    "convex-helpers": "0.1.122",
    "@convex-dev/action-retrier": "0.3.1",
    "@convex-dev/agent": "0.7.3",
    "@convex-dev/aggregate": "0.3.1",
    "@convex-dev/crons": "0.2.2",
    "@convex-dev/migrations": "0.3.6",
    "@convex-dev/persistent-text-streaming": "0.3.3",
    "@convex-dev/presence": "0.4.0",
    "@convex-dev/rate-limiter": "0.4.0",
    "@convex-dev/workflow": "0.4.8",
    "@convex-dev/workpool": "0.4.12",
    "ai": "7.0.170",
    "typescript": "5.9.3",
}
"""One set for all, so that it is installed once."""


def source_files(name: str) -> dict[str, str]:
    """The files of a project."""
    folder = PROJECTS / name
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.ts")}


def project_files(name: str) -> dict[str, str]:
    """The files of a project, and `p.ts`, whose programs reach what `project.ts` exports."""
    programs = PROGRAMS.replace("internal, components };", "internal, components, ...project };")
    return {**source_files(name), "p.ts": 'import * as project from "./project";' + programs}


def push_project(core: Core, folder: Path, name: str) -> None:
    (folder / "node_modules").symlink_to(toolchain().packages(PACKAGES))
    write_project(folder, project_files(name))
    result = run_cli(core, folder, "dev", "--once", "--typecheck", "disable")
    assert result.code == 0, result.output
    assert len(core.control("components")) > 1, result.output
