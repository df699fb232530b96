"""What a suite in the vitest layout has, and what of it would not work here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.errors import BrokenEval, SettingsError
from pytest_convex_evals.records import Pipeline
from pytest_convex_evals.suite.evals import eval_identity, load_eval
from pytest_convex_evals.suite.vitest import (
    ANSWER_PORT,
    SHARED,
    VITEST_GRADER,
    VitestSuite,
    grader_sources,
    missing_imports,
)

VARIABLES = ("CONVEX_PORT", "CONVEX_SITE_PORT", ANSWER_PORT, "MODEL_OUTPUT_DIR")
"""What graders find in their environment; static ones only the last."""
_PACKAGE = re.compile(
    r"""(?:\bfrom|\bimport|\bimport\s*\(|\brequire\s*\()\s*["'](?!node:)((?:@[\w.-]+/)?[\w-][\w.-]*)[^"']*["']"""
)
_VARIABLE = re.compile(r"""process\.env(?:\.([A-Za-z_]\w*)|\[["'](\w+)["']\])""")
_TYPES = re.compile(r"""import\s+type\s[^;]*?from\s*["'][^"']+["']""")
_BUILT_IN = re.compile(
    r"^(?:node:.*|assert|buffer|child_process|crypto|events|fs|http|https|module|net|os|path|perf_hooks|process|"
    r"readline|stream|timers|tls|url|util|vm|worker_threads|zlib)$"
)
_OWN_VARIABLES = re.compile(r"^(?:NODE_ENV|CI|VITEST\w*|TZ)$")
_CALLS_MODELS = "ai"
_CONFIGS = ("vitest.config.ts", "vitest.config.mts", "vitest.config.js", "vitest.config.mjs", "vite.config.ts")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the owner of the suite should know."""

    kind: Literal["problem", "note"]
    """A problem keeps evals from a verdict; a note only tells."""
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Inspected:
    """One eval."""

    id: str
    pipeline: Pipeline | Literal["broken"]
    grader: str
    reference: bool
    """A backend with the reference answer is deployed for it."""
    gaps: bool
    findings: tuple[Finding, ...]


def find_suite(folder: Path) -> VitestSuite:
    """The suite of a folder that holds `evals/`, or is that."""
    root = folder.resolve()
    if not list(root.glob(f"evals/*/*/{TASK_FILE}")) and list(root.glob(f"*/*/{TASK_FILE}")):
        root = root.parent
    if not list(root.glob(f"evals/*/*/{TASK_FILE}")):
        raise SettingsError(f"there is no suite in {folder}.\n  what to do: name the folder that holds evals/")
    return VitestSuite(root)


def inspect_suite(suite: VitestSuite, toolchain: set[str]) -> tuple[list[Finding], list[Inspected]]:
    """What holds for all evals, then each of them; `toolchain` names the packages that we bring along."""
    packages = toolchain | _installed(suite.root / "node_modules")
    tasks = sorted(suite.root.glob(f"evals/*/*/{TASK_FILE}"))
    return list(_about(suite)), [_inspected(task, suite, packages) for task in tasks]


def _about(suite: VitestSuite) -> Iterator[Finding]:
    if not (suite.root / SHARED).is_dir():
        yield Finding("note", f"{SHARED}/", "is not there; graders that import nothing of it work without")
    where = "node_modules"
    if (suite.root / where).is_dir():
        yield Finding(
            "note", where, "is installed, and used before the packages of the toolchain; vitest is always ours"
        )
    else:
        yield Finding("note", where, "is not installed; the packages of the toolchain are used")
    for part, path in suite.lint_configs().items():
        yield Finding("note", path.name, f"replaces our rules for {part}/")
    for name in _CONFIGS:
        if (suite.root / name).is_file():
            yield Finding("note", name, "is not read: graders run with the defaults of vitest")


def _installed(folder: Path) -> set[str]:
    """Names of installed packages."""
    if not folder.is_dir():
        return set()
    plain = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    scoped = [inner for entry in plain if entry.name.startswith("@") for inner in entry.iterdir()]
    return {entry.name for entry in plain} | {f"{entry.parent.name}/{entry.name}" for entry in scoped}


def _inspected(task: Path, suite: VitestSuite, packages: set[str]) -> Inspected:
    identity, gaps = "/".join(eval_identity(task)), (task.parent / "GAPS.txt").is_file()
    try:
        item = load_eval(task)
        files = item.answer_files()
    except BrokenEval as problem:
        return Inspected(identity, "broken", "-", False, gaps, (Finding("problem", identity, str(problem)),))
    found = []
    manifest = files.get("package.json")
    if item.pipeline == "full" and (manifest is None or "convex" not in _dependencies(manifest)):
        found.append(
            Finding("problem", identity, "its answer has no package.json that asks for convex: nothing can be pushed")
        )
    if item.grader.name != VITEST_GRADER:
        return Inspected(identity, item.pipeline, item.grader.name, False, gaps, tuple(found))
    sources = list(grader_sources(item.grader, suite))
    for path, text in sources:
        where = f"{identity} ({path.relative_to(suite.root).as_posix()})"
        found += _about_source(path, text, where, packages, static=item.pipeline == "static")
    reference = item.pipeline == "full" and any(ANSWER_PORT in text for _, text in sources)
    return Inspected(identity, item.pipeline, item.grader.name, reference, gaps, tuple(found))


def _dependencies(manifest: str) -> dict[str, str]:
    try:
        content = json.loads(manifest)
        return dict(content.get("dependencies", {})) | dict(content.get("devDependencies", {}))
    except (ValueError, AttributeError, TypeError):
        return {}


def _about_source(path: Path, text: str, where: str, packages: set[str], *, static: bool) -> Iterator[Finding]:
    text = _TYPES.sub("", text)
    for name in dict.fromkeys(missing_imports(path, text)):
        yield Finding("problem", where, f"imports {name}, which is not there")
    used = {name for name in _PACKAGE.findall(text) if not _BUILT_IN.match(name)}
    for name in sorted(used - packages):
        yield Finding("problem", where, f"imports {name}, which nobody has: run npm install in the suite")
    if used & {_CALLS_MODELS} or any(name.startswith("@ai-sdk/") for name in used):
        yield Finding(
            "note", where, "calls a model: graders have no keys and no network, only what listens beside them"
        )
    wanted = {one or other for one, other in _VARIABLE.findall(text)}
    given = set(VARIABLES[-1:] if static else VARIABLES)
    for name in sorted(wanted - given):
        if not _OWN_VARIABLES.match(name):
            yield Finding(
                "note",
                where,
                f"reads the variable {name}, which is not set {'for static evals' if name in VARIABLES else 'here'}",
            )
