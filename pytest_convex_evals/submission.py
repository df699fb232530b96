"""A submission: the files a cell is graded on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_convex_evals.records import Failed, GenerationRecord


@dataclass(frozen=True, slots=True)
class Submission:
    """What somebody handed in, before any rule was applied to it."""

    files: Mapping[str, str]
    """Path as written → content."""
    folders: tuple[str, ...] = ()
    """Folders that exist even when no file is in them."""
    notes: tuple[str, ...] = ()
    """What the parser overlooked generously."""
    failure: Failed | None = None
    """Why there is nothing to grade, when the answer itself is at fault."""
    generation: GenerationRecord | None = None
    """The model call behind it."""
    answer_text: str | None = None
    """The answer as the model wrote it."""
    lock: str | None = None
    """The package lock of an earlier attempt at the same submission, whose versions count again."""
