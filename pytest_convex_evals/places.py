"""Paths of this machine in what is kept and shown: they name people, and say nothing to anybody else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def without_places(folders: Mapping[str, Path]) -> Callable[[str], str]:
    """Writes the folders of a machine by these names, and the home folder by `~`."""
    named = [(str(path), name) for name, folder in folders.items() for path in {folder.absolute(), folder.resolve()}]
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    named += [(path, "~") for path in {home, os.path.realpath(home)} if len(path) > 1 and path.startswith("/")]
    rules = sorted(named, key=lambda pair: len(pair[0]), reverse=True)

    def tidy(text: str) -> str:
        for path, name in rules:
            if path in text:  # most texts name none
                text = re.sub(rf"{re.escape(path)}(?![\w.-])", lambda _, name=name: name, text)  # type: ignore[misc]
        return text

    return tidy


def in_all(tidy: Callable[[str], str], value: Any) -> Any:
    """The same for all texts of a value as JSON has them."""
    if isinstance(value, str):
        return tidy(value)
    if isinstance(value, dict):
        return {key: in_all(tidy, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [in_all(tidy, item) for item in value]
    return value
