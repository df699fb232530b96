"""What the reference answer deploys: its schema and its function spec, computed once per content."""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble, disk_trouble
from pytest_convex_evals.files import write_json
from pytest_convex_evals.grading.steps.base import Bench, Step
from pytest_convex_evals.grading.steps.deploy import DeployStep
from pytest_convex_evals.grading.steps.filesystem import FilesystemStep
from pytest_convex_evals.grading.steps.install import InstallStep
from pytest_convex_evals.records import Passed
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.fingerprint import digest, harness_fingerprint

if TYPE_CHECKING:
    from pytest_convex_evals.backends.base import Backend
    from pytest_convex_evals.grading.tools import Tools
    from pytest_convex_evals.suite.evals import Eval


@dataclass(frozen=True, slots=True)
class Reference:
    """What the reference answer looks like once deployed."""

    schema: dict[str, Any] | None
    """As `app.schema()`."""
    functions: list[dict[str, Any]]
    """As `app.functions()`."""


def reference_of(item: Eval, tools: Tools) -> Reference:
    """From the cache, or by deploying the answer; an answer that cannot be deployed is our trouble."""

    def look(bench: Bench) -> dict[str, Any]:
        assert bench.backend is not None
        return asdict(Reference(bench.backend.schema(), bench.backend.functions()))

    return Reference(**_remembered(item, tools, "", {"schema", "functions"}, look))


def backend_with_reference(item: Eval, tools: Tools) -> Backend:
    """A backend with the answer deployed, from its remembered analysis; whoever asks for it closes it."""

    def look(bench: Bench) -> dict[str, Any]:
        assert bench.backend is not None
        return {"deployment": bench.backend.save(), "packages": str((bench.project / "node_modules").resolve())}

    found = _remembered(item, tools, "-deployed", {"deployment", "packages"}, look)
    backend = tools.backend()
    try:
        if Path(found["packages"]).is_dir():
            backend.use_packages(Path(found["packages"]))
        backend.load(found["deployment"])
    except BaseException:
        backend.discard()
        backend.close()
        raise
    return backend


def _remembered(
    item: Eval, tools: Tools, what: str, keys: set[str], look: Callable[[Bench], dict[str, Any]]
) -> dict[str, Any]:
    """What `look` finds on the bench of a deployed answer, from the cache when it was found before."""
    files = item.answer_files()
    answer = digest([(path, text.encode()) for path, text in sorted(files.items())])
    path = tools.cache / "reference" / f"{answer[:24]}-{harness_fingerprint()[:8]}{what}.json"
    found = _read(path, keys)
    if found is None:
        with _lock(path):
            found = _read(path, keys)
            if found is None:
                found = _deploy(item, files, tools, look)
                _write(path, found)
    return found


def _sum(content: dict[str, Any]) -> str:
    return digest([("reference", json.dumps(content, sort_keys=True).encode())])


def _read(path: Path, keys: set[str]) -> dict[str, Any] | None:
    """An entry that is not whole is none."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        content: dict[str, Any] = entry["content"]
        return content if set(content) == keys and entry["sum"] == _sum(content) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, content: dict[str, Any]) -> None:
    with suppress(OSError):  # then it is computed again next time
        write_json(path, {"sum": _sum(content), "content": content}, durable=False)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Whoever else wants the same waits, and then finds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise disk_trouble(error, "the cache of references") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _deploy(item: Eval, files: dict[str, str], tools: Tools, look: Callable[[Bench], dict[str, Any]]) -> dict[str, Any]:
    steps: tuple[Callable[[], Step], ...] = (FilesystemStep, InstallStep, DeployStep)
    with tempfile.TemporaryDirectory(prefix="convex-evals-reference-") as folder:
        bench = Bench(item, Submission(files), Path(folder), tools)
        try:
            for make in steps:
                step = make()
                verdict = step.run(bench).verdict
                if not isinstance(verdict, Passed):
                    reason = f"the answer of {item.id} fails at {step.name}: {verdict.reason}"
                    raise Trouble("reference", reason, remedy="mend the answer")
            return look(bench)
        finally:
            bench.close()
