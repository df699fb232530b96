"""Suites in the vitest layout: what lies beside their evals, and what their graders ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.suite.files import read_text

VITEST_GRADER = "grader.test.ts"
SHARED = "grader"
"""The folder that graders import as `../../../grader`."""
LINT_CONFIGS = {"convex": "eslint.config.mjs", "src": "src.eslint.config.mjs"}
"""Part of a project → the suite's ESLint config for it."""
ANSWER_PORT = "CONVEX_ANSWER_PORT"
_LOCAL = re.compile(r"""(?:\bfrom|\bimport|\bimport\s*\(|\brequire\s*\()\s*["'](\.{1,2}(?:/[^"']*)?)["']""")
_ENDINGS = ("", ".ts", ".tsx", ".mts", ".js", ".mjs", "/index.ts", "/index.js")
_WRITTEN_AS = {".js": ".ts", ".mjs": ".mts", ".jsx": ".tsx"}
"""TypeScript may import a file by the name that it will have once compiled."""


@dataclass(frozen=True, slots=True)
class VitestSuite:
    """The folder that holds `evals/` and what its graders share."""

    root: Path

    @classmethod
    def of(cls, eval_root: Path) -> VitestSuite:
        """The suite of an eval: three folders above its grader."""
        return cls(eval_root.resolve().parents[2])

    @property
    def shared(self) -> list[Path]:
        """What graders may read beside their own eval, as far as it is there; what is linked, in both places."""
        names = (SHARED, "node_modules", "package.json")
        found = [self.root / name for name in names if (self.root / name).exists()]
        return list(dict.fromkeys([*found, *(path.resolve() for path in found)]))

    def lint_configs(self) -> dict[str, Path]:
        """Part of a project → ESLint config, as far as there are any."""
        return {part: self.root / name for part, name in LINT_CONFIGS.items() if (self.root / name).is_file()}


def grader_sources(grader: Path, suite: VitestSuite) -> Iterator[tuple[Path, str]]:
    """The grader and every file of the suite that it imports, also through others; what is not there is left out."""
    seen, waiting = set(), [grader.resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_relative_to(suite.root) or "node_modules" in path.parts:
            continue
        seen.add(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield path, text
        found = (_found(path.parent, name) for name in _LOCAL.findall(text))
        waiting += [file.resolve() for file in found if file is not None]


def missing_imports(path: Path, text: str) -> list[str]:
    """Relative imports of a source that lead nowhere."""
    return [name for name in _LOCAL.findall(text) if _found(path.parent, name) is None]


def _found(folder: Path, name: str) -> Path | None:
    target = folder / name
    named = [
        target.with_name(target.name + ending) if not ending.startswith("/") else target / ending[1:]
        for ending in _ENDINGS
        if target.name
    ]
    compiled = [target.with_suffix(_WRITTEN_AS[target.suffix])] if target.suffix in _WRITTEN_AS else []
    folders = [target / "index.ts", target / "index.js"]
    return next((file for file in [*named, *compiled, *folders] if file.is_file()), None)


def asks_for_reference(grader: Path, suite: VitestSuite) -> bool:
    """It, or a helper that it imports, reads where the reference answer is deployed."""
    return any(ANSWER_PORT in text for _, text in grader_sources(grader, suite))


def answer_paths(paths: list[str]) -> list[str]:
    """What such a suite submits of its answers: TypeScript without JSX, and package.json."""
    return [path for path in paths if path.endswith(".ts") or path.rpartition("/")[2] == "package.json"]


def read_eval_json(path: Path) -> dict[str, Any]:
    """The settings of an eval that was written for another program; what that program knows beside them is its own."""
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise BrokenEval(path, f"is not JSON: {error}", "correct the syntax") from None
    if not isinstance(content, dict):
        raise BrokenEval(path, "is not a JSON object", 'write for example {"pipeline": "static"}')
    return content
