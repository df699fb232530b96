"""Run folders: names, places and the version of the format."""

from __future__ import annotations

import json
import secrets
import string
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.files import write_json

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell

FORMAT = 1
_LETTERS = string.ascii_lowercase + string.digits


def new_run_id() -> str:
    """Eight random characters, then the time for people."""
    head = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return f"{head}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The places of one run."""

    id: str
    store: Path
    """Root of the run store."""
    outputs: Path
    """Where the folders of cells are; inside the run's folder unless the settings say otherwise."""

    @classmethod
    def of(cls, run_id: str, store: str, outputs: str) -> RunFolder:
        """By the settings of a run."""
        root = Path(store)
        return cls(run_id, root, Path(outputs) / run_id if outputs else root / "runs" / run_id)

    @property
    def path(self) -> Path:
        """Folder of the run."""
        return self.store / "runs" / self.id

    @property
    def journal(self) -> Path:
        """One event per line."""
        return self.path / "journal.jsonl"

    @property
    def generations(self) -> Path:
        """Paid answers, shared by all runs."""
        return self.store / "generations"

    def cell(self, cell: Cell) -> Path:
        """Folder of a cell's attempts."""
        return self.outputs / "cells" / cell.folder

    def answer(self, cell: Cell) -> Path:
        """Where the generation child says that a model's answer is there, or why not."""
        return self.cell(cell) / "answer.json"

    def new_attempt(self, cell: Cell) -> tuple[int, Path]:
        """A fresh folder; attempts are never overwritten."""
        base = self.cell(cell)
        base.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(entry.name) for entry in base.iterdir() if entry.name.isdigit()), default=0)
        while True:
            folder = base / str(number)
            try:
                folder.mkdir()
            except FileExistsError:
                number += 1
            else:
                return number, folder


def check_format(store: Path) -> None:
    """Refuse a store that a newer version wrote."""
    path = store / "format.json"
    try:
        version = json.loads(path.read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, NotADirectoryError):
            return
        raise SettingsError(
            f"the run store {store} cannot be read: {path.name} is damaged.\n"
            "  what to do: choose another store with --evals-dir DIR"
        ) from None
    if version != FORMAT:
        raise SettingsError(
            f"the run store {store} has format {version}; this version reads format {FORMAT}.\n"
            "  what to do: choose another store with --evals-dir DIR, or use the version that wrote it"
        )


def create_run(folder: RunFolder, description: dict[str, Any]) -> None:
    """Make the folder of a run and say in it what will be run, and how."""
    folder.path.mkdir(parents=True, exist_ok=True)
    if not (folder.store / "format.json").exists():
        write_json(folder.store / "format.json", {"format": FORMAT})
    ignore = folder.store / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    newest = max((_sequence(folder.store, run_id) for run_id in list_runs(folder.store)), default=0)
    write_json(folder.path / "run.json", description | {"sequence": newest + 1})


def find_run(store: Path, prefix: str) -> str:
    """The one run whose id starts with the prefix; `latest` is the newest."""
    ids = list_runs(store)
    if not ids:
        raise SettingsError(f"there are no runs in {store}.\n  what to do: `pytest evals` makes one, free of cost")
    if prefix == "latest":
        return ids[-1]
    found = [run_id for run_id in ids if run_id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} runs start with" if found else "no run starts with"
    shown = ", ".join((found or ids)[-3:])
    raise SettingsError(f"{problem} {prefix!r} in {store}.\n  what to do: choose one, for example {shown}")


def run_folder(store: Path, run_id: str) -> RunFolder:
    """The places of a run, by what its `run.json` says about outputs."""
    description = json.loads((store / "runs" / run_id / "run.json").read_text(encoding="utf-8"))
    return RunFolder.of(run_id, str(store), description["settings"]["outputs"])


def list_runs(store: Path) -> list[str]:
    """Ids, oldest first, by the order in which they were made: a clock may have been set back."""
    try:
        entries = [entry.name for entry in (store / "runs").iterdir() if (entry / "run.json").is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(entries, key=lambda run_id: (_sequence(store, run_id), run_id.partition("-")[2], run_id))


def _sequence(store: Path, run_id: str) -> int:
    """The number of a run; 0 for those that have none, which are older than all others."""
    try:
        number = json.loads((store / "runs" / run_id / "run.json").read_bytes())["sequence"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return number if isinstance(number, int) else 0
