"""Cells and their names: (eval, submitter, experiment, repeat) is one pytest item.

Only the standard library: this module is used during collection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TASK_FILE = "TASK.txt"
SUBMISSION_FOLDERS = frozenset({"answer", "wrong", "node_modules"})
"""Folders beside a TASK.txt that hold submissions and packages, never tests."""
REFERENCE, WRONG, EMPTY, REPLAY = "reference", "wrong", "empty", "replay"
BUILT_IN = (REFERENCE, WRONG, EMPTY, REPLAY)
EMPTY_KINDS = ("no-files", "no-functions")
"""An answer without files, and the reference's package.json with an empty convex/."""

_NODE_ID = re.compile(r"^(?P<path>.*(?:^|[/\\])TASK\.txt)::(?P<name>[^\[]+)\[(?P<label>.+)\]$", re.DOTALL)
_REPEAT = re.compile(r"^(?P<submitter>.+)\+(?P<repeat>[1-9][0-9]*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to grade."""

    category: str
    name: str
    submitter: str
    """A model, `reference`, `wrong:slug`, `empty:kind` or `replay:run:model`."""
    experiment: str
    repeat: int = 1

    @property
    def eval_id(self) -> str:
        """`category/name`."""
        return f"{self.category}/{self.name}"

    @property
    def kind(self) -> str:
        """`reference`, `wrong`, `empty`, `replay` or `model`."""
        head = self.submitter.partition(":")[0]
        return head if head in BUILT_IN else "model"

    @property
    def slug(self) -> str:
        """What stands behind the colon of `wrong:slug`, `empty:kind` and `replay:run:model`."""
        return self.submitter.partition(":")[2]

    @property
    def label(self) -> str:
        """What stands in the brackets of the item id."""
        return self.submitter if self.repeat == 1 else f"{self.submitter}+{self.repeat}"

    @property
    def item_name(self) -> str:
        """The last part of the item id."""
        return f"{self.name}[{self.label}]"

    @property
    def key(self) -> str:
        """Which cell of its run."""
        return f"{self.eval_id}[{self.label}]"

    @property
    def folder(self) -> str:
        """Where its attempts live, relative to the `cells` folder of a run; unique for each cell of a run."""
        return f"{self.category}/{self.name}/{folder_name(self.submitter)}/{self.repeat}"


def folder_name(submitter: str) -> str:
    """The submitter as one path component that is safe everywhere, reversible and free of collisions."""
    return re.sub(r"[^A-Za-z0-9._-]|^\.", _escaped, submitter)


def _escaped(match: re.Match[str]) -> str:
    """Byte by byte, as in addresses, so that every escape has the same length."""
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def split_label(label: str) -> tuple[str, int]:
    """`gpt-5+2` is the second repeat of gpt-5."""
    match = _REPEAT.match(label)
    return (match["submitter"], int(match["repeat"])) if match else (label, 1)


@dataclass(frozen=True, slots=True)
class PastedId:
    """An item id given on the command line."""

    path: str
    name: str
    submitter: str
    repeat: int


def parse_node_id(node_id: str) -> PastedId | None:
    """The parts of an item id of ours; None for any other."""
    match = _NODE_ID.match(node_id)
    if match is None:
        return None
    submitter, repeat = split_label(match["label"])
    return PastedId(match["path"], match["name"], submitter, repeat)
