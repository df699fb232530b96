"""Imports go downward only, and the plugin loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_convex_evals

ROOT = Path(pytest_convex_evals.__file__).parent
PACKAGE = "pytest_convex_evals"
LAYERS = (
    ("plugin", "cli"),
    (
        "activation",
        "collection",
        "controller_hooks",
        "controller",
        "asking",
        "confirmation",
        "comparing",
        "earlier",
        "live",
        "loops",
        "monitor",
        "progress",
        "readiness",
        "rehearsal",
        "worker_status",
        "workers",
        "worker_side",
        "session",
        "runinfo",
        "handout",
    ),
    ("worker", "scores"),
    ("generation", "grading", "store"),
    ("backends",),
    ("suite", "models", "prompts", "engine", "settings", "options", "environment", "cage"),
    ("rendering", "submission"),
    ("records", "errors", "cells", "files", "lines", "pipes", "places", "values"),
)
"""A module may import from its own layer and from those below it, within the limits of the tests."""
CAPABILITIES = {"generation", "grading", "store", "backends"}
HEAVY = ("litellm", "pydantic", "jinja2", "dotenv", "convex", "openai", "httpx")


def imports(path: Path) -> set[str]:
    """Names of our modules that a file imports anywhere, for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == PACKAGE else [module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}
    return found - {"__version__"}


def parts() -> dict[str, set[str]]:
    """Top-level module or package → what it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        if ("node_modules" not in relative.parts and relative.name != "__init__.py") or len(relative.parts) > 1:
            found.setdefault(relative.parts[0].removesuffix(".py"), set()).update(imports(path))
    return {name: used - {name} for name, used in found.items()}


PARTS = parts()
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def test_every_part_has_a_layer():
    assert set(PARTS) == set(LEVEL)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_imports_only_from_its_layer_and_below(part):
    upward = {used for used in PARTS[part] if LEVEL[used] < LEVEL[part]}
    assert upward == set()


@pytest.mark.parametrize("part", ["generation", "store", "grading"])
def test_capabilities_do_not_import_each_other(part):
    allowed = {"backends"} if part == "grading" else set()
    assert PARTS[part] & CAPABILITIES <= allowed


def test_nothing_imports_the_plugin_or_the_command():
    assert [part for part, used in PARTS.items() if used & {"plugin", "cli"}] == []


@pytest.mark.parametrize(
    "module",
    ["plugin", "cli.main", "models.registry", "cells", "errors", "settings", "options", "environment", "files"],
)
def test_a_light_module_loads_nothing_heavy(module):
    program = f"import sys, {PACKAGE}.{module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) & set(HEAVY) == set()


def test_only_what_runs_in_the_generation_child_knows_litellm():
    users = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] in {"litellm", "openai"} for name in names):
                users.add(path.relative_to(ROOT).as_posix())
    assert users == {"generation/caller.py", "generation/causes.py", "generation/reply.py"}
