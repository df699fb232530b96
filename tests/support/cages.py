"""The cages of this machine."""

from __future__ import annotations

import pytest

from pytest_convex_evals.cage.choice import try_level
from pytest_convex_evals.cage.levels import LEVELS, Cage, Level
from pytest_convex_evals.engine.setup import node_executable, toolchain_root

ISOLATING: tuple[Level, ...] = ("bwrap", "namespaces")


def cage_of(level: Level) -> Cage:
    """The cage of a level; a test of one that this machine does not have is skipped."""
    problem, cage = try_level(level, node_executable(), toolchain_root())
    if cage is None:
        pytest.skip(f"no {level} here: {problem}")
    return cage


def available() -> list[Level]:
    return [level for level in LEVELS if try_level(level, node_executable(), toolchain_root())[1] is not None]


def without_a_cage() -> bool:
    """Only Node's permission model is left."""
    return available() == ["node"]
