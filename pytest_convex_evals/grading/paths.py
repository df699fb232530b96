"""Which paths a submission may write.

Three answers: `keep`, `ignore` (what tools create or what would configure our tools: left out, and said so) and
`refuse` (what no honest answer contains). Rules hold for file systems that fold case or normalise Unicode, too.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

MAX_COMPONENT_BYTES = 200
MAX_PATH_BYTES = 800
MAX_DEPTH = 24

_IGNORED_FOLDERS = {
    "node_modules": "packages are installed by us",
    "_generated": "generated code is generated again",
    ".git": "version control is not part of a submission",
}
_IGNORED_NAMES = {
    ".npmrc": "would configure npm",
    ".yarnrc": "would configure yarn",
    ".yarnrc.yml": "would configure yarn",
    ".pnpmfile.cjs": "would configure pnpm",
    "bunfig.toml": "would configure bun",
    ".bunfig.toml": "would configure bun",
    ".node-version": "would configure Node",
    ".nvmrc": "would configure Node",
    ".tool-versions": "would configure Node",
    "package-lock.json": "versions are resolved by us",
    "npm-shrinkwrap.json": "versions are resolved by us",
    "yarn.lock": "versions are resolved by us",
    "pnpm-lock.yaml": "versions are resolved by us",
    "bun.lock": "versions are resolved by us",
    "bun.lockb": "versions are resolved by us",
}
_WINDOWS_DEVICE = re.compile(r"^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What happens to a path, and why."""

    answer: Literal["keep", "ignore", "refuse"]
    path: str
    """Normalised when kept."""
    reason: str = ""


def rule_on(path: str) -> Ruling:
    """The ruling on one path, by itself."""
    normal = unicodedata.normalize("NFC", path)
    # Normalised text can be longer than it was, and it is what will be written.
    problem = _problem(path) or _problem(normal)
    if problem:
        return Ruling("refuse", path, problem)
    parts = [part for part in normal.split("/") if part != "."]
    for part in parts[:-1]:
        if part.casefold() in _IGNORED_FOLDERS:
            return Ruling("ignore", path, _IGNORED_FOLDERS[part.casefold()])
    name = parts[-1].casefold()
    if name in _IGNORED_FOLDERS:
        return Ruling("ignore", path, _IGNORED_FOLDERS[name])
    if name in _IGNORED_NAMES:
        return Ruling("ignore", path, _IGNORED_NAMES[name])
    if name == ".env" or name.startswith(".env."):
        return Ruling("ignore", path, "would set the environment of tools")
    if any(part.startswith(".") for part in parts):
        return Ruling("ignore", path, "hidden files are not graded")
    return Ruling("keep", "/".join(parts))


def _problem(path: str) -> str:
    if not path or path.strip() != path:
        return "is empty or begins or ends with a space"
    if path.startswith("/") or re.match(r"^[A-Za-z]:", path):
        return "is absolute"
    if path.startswith("~"):
        return "begins with ~"
    if "\\" in path:
        return "has a backslash"
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in path):
        return "has a control or invisible character"
    try:
        if len(path.encode()) > MAX_PATH_BYTES:
            return f"is longer than {MAX_PATH_BYTES} bytes"
    except UnicodeEncodeError:
        return "is not Unicode text"
    parts = path.split("/")
    if ".." in parts:
        return "leaves the project by .."
    if "" in parts:
        return "has an empty part, or names a folder"
    if len(parts) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} folders"
    if all(part == "." for part in parts) or parts[-1] == ".":
        return "names no file"
    for part in parts:
        if len(part.encode()) > MAX_COMPONENT_BYTES:
            return f"has a part longer than {MAX_COMPONENT_BYTES} bytes"
        if part != "." and part.endswith((".", " ")):
            return "has a part that ends with a dot or a space"
        if _WINDOWS_DEVICE.match(part) or re.search(r'[<>:"|?*]', part):
            return "is not a file name on every system"
    return ""


def folded(path: str) -> str:
    """Equal for paths that are one file where case is folded or Unicode normalised."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
