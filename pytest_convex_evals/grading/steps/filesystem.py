"""Filesystem: the paths of the submission are checked, then written into the attempt's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pytest_convex_evals.errors import disk_trouble
from pytest_convex_evals.grading.paths import Ruling, folded, rule_on
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import Failed, Passed, StepName

MAX_FILES = 2_000
MAX_FILE_BYTES = 2 * 2**20
MAX_TOTAL_BYTES = 16 * 2**20


class FilesystemStep:
    """Blocks: what cannot be written cannot be graded."""

    name: StepName = "filesystem"
    blocks = True
    aside = False

    def run(self, bench: Bench) -> StepResult:
        """Check all paths, then write all files."""
        submission = bench.submission
        notes = list(submission.notes)
        if submission.failure is not None:
            return StepResult(submission.failure, notes=tuple(notes))
        rulings = {path: rule_on(path) for path in submission.files}
        notes += [f"{path} ignored: {ruling.reason}" for path, ruling in rulings.items() if ruling.answer == "ignore"]
        failure = _refusal(rulings) or _too_much(submission.files)
        if failure is not None:
            return StepResult(failure, notes=tuple(notes))
        kept = {
            rulings[path].path: content for path, content in submission.files.items() if rulings[path].answer == "keep"
        }
        failure = _functions_outside(kept)
        if failure is not None:
            return StepResult(failure, notes=tuple(notes))
        try:
            for folder in (".", *submission.folders):
                (bench.project / folder).mkdir(parents=True, exist_ok=True)
            for path, content in kept.items():
                target = bench.project / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as stream:
                    stream.write(content.encode("utf-8", errors="replace"))
        except OSError as error:
            raise disk_trouble(error, "the submission") from None
        bench.files.update(kept)
        return StepResult(Passed(), notes=tuple(notes))


def _refusal(rulings: dict[str, Ruling]) -> Failed | None:
    """The first path that the rules refuse, alone or beside another."""
    for path, ruling in rulings.items():
        if ruling.answer == "refuse":
            return Failed(cause="path", reason=f"the path {path[:200]!r} {ruling.reason}")
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path, ruling in rulings.items():
        if ruling.answer == "ignore":
            continue
        name = folded(ruling.path)
        if name in seen:
            reason = f"the paths {seen[name]!r} and {path!r} are the same file on some systems"
            return Failed(cause="path", reason=reason)
        seen[name] = path
        parts = name.split("/")
        original = ruling.path.split("/")
        for depth in range(1, len(parts)):
            spelled = "/".join(original[:depth])
            if folders.setdefault("/".join(parts[:depth]), spelled) != spelled:
                other = folders["/".join(parts[:depth])]
                reason = f"the folders {other!r} and {spelled!r} are the same on some systems"
                return Failed(cause="path", reason=reason)
    for name, path in seen.items():
        if name in folders:
            return Failed(cause="path", reason=f"{path!r} is a file and a folder")
    return None


def _too_much(files: Mapping[str, str]) -> Failed | None:
    sizes = {path: len(content.encode("utf-8", errors="replace")) for path, content in files.items()}
    if len(sizes) > MAX_FILES:
        return Failed(cause="limit", reason=f"{len(sizes)} files are more than {MAX_FILES}")
    for path, size in sizes.items():
        if size > MAX_FILE_BYTES:
            return Failed(cause="limit", reason=f"{path!r} has {size} bytes, more than {MAX_FILE_BYTES}")
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        return Failed(cause="limit", reason=f"all files together have more than {MAX_TOTAL_BYTES} bytes")
    return None


def _functions_outside(files: Mapping[str, str]) -> Failed | None:
    """`convex.json` may name another folder of functions, which the CLI writes to: one that could be submitted."""
    try:
        text = next((text for path, text in files.items() if folded(path) == "convex.json"), "{}")
        folder = json.loads(text).get("functions", "convex")
    except (ValueError, AttributeError):
        return None  # the push will say so
    except RecursionError:
        return Failed(cause="path", reason="convex.json is nested too deeply")
    if isinstance(folder, str) and rule_on(f"{folder.rstrip('/')}/functions.ts").answer == "keep":
        return None
    reason = f"convex.json: the folder of functions {str(folder)[:200]!r} is not one of the project"
    return Failed(cause="path", reason=reason)
