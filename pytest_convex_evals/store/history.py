"""What a run has done so far, read from its journal alone: a killed session leaves nothing else that counts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import parse_node_id
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.records import CellRecord, Errored
from pytest_convex_evals.store.journal import parse_record, read_events

STARTED = "run_started"
"""The event that names the cells of a run."""


@dataclass(slots=True)
class History:
    """The cells of a run; records are kept without their steps."""

    planned: dict[str, str] = field(default_factory=dict)
    """Key of each cell that belongs to the run → its id, in the order of collection."""
    records: dict[str, CellRecord] = field(default_factory=dict)
    """The last record of each cell."""
    verdicts: dict[str, CellRecord] = field(default_factory=dict)
    """The last record of each cell that is no error."""

    @classmethod
    def read(cls, journal: Path) -> History:
        """All whole events count."""
        found = cls()
        for event in read_events(journal):
            if event["event"] == STARTED:
                node_ids = [str(one) for one in event.get("cells", [])]
                keys = event.get("keys") or [_key(node_id) for node_id in node_ids]
                found.planned |= dict(zip(keys, node_ids, strict=False))
            elif event["event"] == "cell_finished":
                found.add(parse_record(event.get("record"), journal))
        return found

    def add(self, record: CellRecord) -> None:
        """One more record; it may belong to a cell that has some already."""
        slim = record.without_steps()
        self.records[slim.key] = slim
        if not isinstance(slim.verdict, Errored):
            self.verdicts[slim.key] = slim

    def missing(self) -> list[str]:
        """Cells without any record."""
        return [key for key in self.planned if key not in self.records]


def _key(node_id: str) -> str:
    """Of runs whose journal names ids only: the category is the folder above the eval's."""
    parsed = parse_node_id(node_id)
    if parsed is None:
        return node_id
    label = parsed.submitter if parsed.repeat == 1 else f"{parsed.submitter}+{parsed.repeat}"
    return f"{Path(parsed.path).parent.parent.name}/{parsed.name}[{label}]"


def read_description(folder: Path) -> dict[str, Any]:
    """What run.json says; only what every reader needs must be there, so that runs of other versions can be read."""
    path = folder / "run.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        settings = content["settings"]
        models, experiment, outputs = settings["models"], settings["experiment"], settings["outputs"]
        whole = isinstance(models, list) and all(isinstance(text, str) for text in (*models, experiment, outputs))
        problem = "" if whole else "it does not describe a run"
    except (ValueError, KeyError, TypeError):
        problem = "it does not describe a run"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        remedy = f"its verdicts are in {folder / 'journal.jsonl'}; remove the folder if you do not need them"
        raise SettingsError(f"{path} cannot be read: {problem}.\n  what to do: {remedy}")
    assert isinstance(content, dict)
    return content
