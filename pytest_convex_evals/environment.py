"""The environment of the process and of `.env`; nothing else reads it.

This module is loaded with the plugin, so it imports only the standard library and pytest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Value:
    """A raw setting and where it came from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of the process and of `.env`, read once."""

    process: Mapping[str, str]
    dotenv: Mapping[str, str]
    dotenv_path: str = ".env"
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Environment:
        """`.env` of the folder is optional; one that is not text is named and ignored."""
        path = folder / ".env"
        try:
            raw = path.read_bytes()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            warnings = () if missing else (f"{path} ignored: {error.strerror or error}",)
            return cls(dict(os.environ), {}, str(path), warnings)
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            return cls(dict(os.environ), {}, str(path), (f"{path} ignored: it is not UTF-8 text",))
        from io import StringIO

        from dotenv import dotenv_values

        found = dotenv_values(stream=StringIO(text), interpolate=False)
        return cls(dict(os.environ), {k: v for k, v in found.items() if v is not None}, str(path))

    def get(self, name: str) -> Value | None:
        """The value with its source; an empty one counts as absent."""
        if self.process.get(name):
            return Value(self.process[name], f"environment {name}")
        if self.dotenv.get(name):
            return Value(self.dotenv[name], f".env {name}")
        return None

    def merged(self) -> dict[str, str]:
        """What a child that needs everything gets."""
        return {**self.dotenv, **self.process}
