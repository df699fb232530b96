"""Loading graders as pytest loads test files: every cell has a module of its own, compiled as seldom as possible."""

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache
from importlib.abc import Loader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

_KEPT = 64
"""Compiled graders in memory."""


class GraderLoader(Loader):
    """Where pytest may keep compiled files beside their sources, it does that; elsewhere memory holds them.

    Rewriting the assertions of a grader takes longer than most of its checks.
    """

    def __init__(self, config: pytest.Config) -> None:
        hook = config.pluginmanager.rewrite_hook
        self._config = config
        self._theirs = hook if isinstance(hook, Loader) else None  # none with --assert=plain
        self._compiled = lru_cache(_KEPT)(self._compile)

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of a grader in this module."""
        path = Path(module.__spec__.origin or "") if module.__spec__ else Path()
        if self._theirs is not None and not sys.dont_write_bytecode and os.access(path.parent, os.W_OK):
            self._theirs.exec_module(module)
        else:
            exec(self._compiled(path, path.read_bytes()), vars(module))  # noqa: S102 - a grader is ours

    def _compile(self, path: Path, source: bytes) -> CodeType:
        from _pytest.assertion.rewrite import rewrite_asserts

        tree = ast.parse(source, filename=str(path))
        if self._theirs is not None:
            rewrite_asserts(tree, source, str(path), self._config)
        return compile(tree, str(path), "exec", dont_inherit=True)
