"""Grading: the warm pipeline beside a chain of cold processes on the same evals, then long sessions with workers."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import Cost, adopt_orphans, family, family_cpu, measure
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore
from pytest_convex_evals.suite.evals import Eval, load_eval

ROOT = Path(__file__).parent.parent
_BUN = {"bun": "1.4.4"}
_MANY, _WARM_REPEATS = 1_000, 12
_LOOK_S = 0.004
_CATALOGUE = {
    ("000-fundamentals", "full"): 11,
    ("001-data_modeling", "full"): 17,
    ("002-queries", "full"): 28,
    ("003-mutations", "full"): 10,
    ("004-actions", "full"): 10,
    ("005-idioms", "full"): 10,
    ("006-clients", "full"): 3,
    ("007-components", "full"): 7,
    ("007-components", "static"): 15,
}
"""How many evals of each category and pipeline the whole suite has: sessions grade copies in these shares."""
_CELLS = sum(_CATALOGUE.values())
_WORKERS = "2"
_TSCONFIG = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "target": "ESNext",
        "module": "ESNext",
        "moduleResolution": "Bundler",
        "lib": ["ES2023", "DOM", "DOM.Iterable", "ESNext.Disposable"],
        "jsx": "react-jsx",
        "skipLibCheck": True,
        "isolatedModules": True,
        "allowJs": True,
        "types": [],
    },
    "include": ["convex", "src"],
}
_ESLINT = """\
import tseslint from "%s/node_modules/typescript-eslint/dist/index.js";
export default tseslint.config({
  files: ["**/*.{ts,tsx}"],
  ignores: ["**/_generated/**"],
  extends: [tseslint.configs.recommendedTypeChecked],
  languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
  rules: { "@typescript-eslint/no-unused-vars": "off" },
});
"""


def figures() -> Iterator[str]:
    """Everything in one run, on the evals of the repository that are deployed."""
    adopt_orphans()
    toolchain = ensure_toolchain(_progress)
    present = [load_eval(path) for path in sorted(ROOT.glob("evals/*/*/TASK.txt"))]
    evals = [item for item in present if item.pipeline == "full"]
    catalogue = _catalogue(present)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm = _warm(folder / "warm", evals)
        cold = [_cold(folder / "cold" / item.name, item, toolchain) for item in evals]
        yield f"grading speed-up: {median(one.wall_s for one in cold) / median(one.wall_s for one in warm):.0f} x"
        yield f"grading cpu ratio: {median(one.cpu_s for one in cold) / median(one.cpu_s for one in warm):.0f} x"
        session, _ = _session(folder / "suite", catalogue, ["-n", _WORKERS])
        per_cell = session.cpu_s / _CELLS
        cores = len(os.sched_getaffinity(0))
        _progress(f"  {_CELLS} cells: {session.wall_s:.1f} s, {per_cell:.2f} CPU s per cell")
        yield f"grading throughput: {_CELLS / session.wall_s / (cores / per_cell):.2f}"
        yield f"grading wall per cell: {session.wall_s / _CELLS:.2f} s"
        yield from _long_session(folder / "long", catalogue)


def _catalogue(present: list[Eval]) -> list[Eval]:
    """The evals of the repository as often as it takes to have the shares of the whole suite."""
    found = []
    for (category, pipeline), count in _CATALOGUE.items():
        alike = [item for item in present if item.category == category and item.pipeline == pipeline]
        found += [alike[number % len(alike)] for number in range(count)]
    return found


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _environment(**more: str) -> dict[str, str]:
    """As users have it: Python keeps what it compiles."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(ROOT)} | more


def _graded(folder: Path, arguments: list[str], expected: int, watch: tuple[str, ...] = ()) -> tuple[Cost, list[Any]]:
    """A session of reference cells that all pass, and its records."""
    store = folder / "store"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", *arguments, "--models", "reference", "-q", "--evals-dir", str(store)]
    cost = measure(command, folder, _environment(), watch)
    (journal,) = store.glob("runs/*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    records = [event["record"] for event in events if event["event"] == "cell_finished"]
    if len(records) != expected or any(record["verdict"]["outcome"] != "passed" for record in records):
        raise RuntimeError(f"{len(records)} cells instead of {expected}, or not all passed:\n{cost.output[-4000:]}")
    return cost, records


def _warm(folder: Path, evals: list[Eval]) -> list[Cost]:
    """What a cell of each eval costs in one lane: medians over several."""
    with Meter(folder / "second") as meter:
        _, records = _session(folder, evals * _WARM_REPEATS, [])
    found = []
    for item in evals:
        ours = [record for record in records if record["name"].endswith(item.name[3:])]
        cpu = median(meter.cells[record["node_id"]] for record in ours if record["node_id"] in meter.cells)
        found.append(Cost(median(record["grading_s"] for record in ours), cpu))
        steps: dict[str, list[float]] = {}
        for record in ours:
            for step in record["steps"]:
                steps.setdefault(step["name"], []).append(step["duration_s"])
        shown = ", ".join(f"{name} {median(values) * 1000:.0f}" for name, values in steps.items())
        _progress(f"  warm {item.name}: {found[-1].wall_s:.2f} s, {cpu:.2f} CPU s ({shown} ms)")
    mean = sum(meter.cells.values()) / len(meter.cells)
    _progress(f"  warm: {mean:.2f} CPU s per cell on average, with what the lane does for many cells at once")
    return found


class Meter:
    """Watches the journal of a lane, and takes down the processor time from the end of a cell to that of the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.cells: dict[str, float] = {}

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        read, before = 0, None
        while not self._ended.wait(_LOOK_S):
            for journal in self._folder.glob("store/runs/*/journal.jsonl"):
                with journal.open("rb") as file:
                    file.seek(read)
                    *lines, _ = file.read().split(b"\n")
                read += sum(len(line) + 1 for line in lines)
                for event in map(json.loads, lines):
                    if event["event"] == "cell_finished":
                        now = family_cpu(os.getpid()) - time.process_time()
                        if before is not None:
                            self.cells[event["record"]["node_id"]] = now - before
                        before = now


def _cold(folder: Path, item: Eval, toolchain: Toolchain) -> Cost:
    """Install, deploy, type-check, lint and test in processes of their own, the reference deployed too."""
    bun = _bun(toolchain)
    costs: dict[str, Cost] = {}
    for name in ("project", "reference"):
        shutil.copytree(item.answer, folder / name, ignore=shutil.ignore_patterns("_generated"))
        plain = _environment(HOME=str(ROOT / ".venv"))
        install = [str(bun), "install", "--ignore-scripts", "--no-save"]
        if name == "project":
            measure(install, folder / name, plain)
            shutil.rmtree(folder / name / "node_modules")
        costs[f"bun install ({name})"] = measure(install, folder / name, plain)
    project = folder / "project"
    (folder / "times.json").write_text("{}", encoding="utf-8")
    told = _environment(
        COLD_TASK=str(item.root / "TASK.txt"), COLD_FOLDER=str(folder), COLD_TIMES=str(folder / "times.json")
    )
    grader = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.cold_session", "-p", "no:cacheprovider"]
    rooted = ["--rootdir", str(folder), "-c", "/dev/null", str(item.grader)]
    costs["pytest"] = measure([*grader, *rooted], folder, told)
    (project / "tsconfig.json").write_text(json.dumps(_TSCONFIG), encoding="utf-8")
    (project / "eslint.config.mjs").write_text(_ESLINT % toolchain.folder, encoding="utf-8")
    node, tools = str(toolchain.node), toolchain.folder / "node_modules"
    costs["tsc"] = measure([node, str(tools / "typescript" / "bin" / "tsc"), "-p", "."], project, _environment())
    sources = [name for name in ("convex", "src") if (project / name).is_dir()]
    lint = [node, str(tools / "eslint" / "bin" / "eslint.js"), "--quiet", *sources]
    costs["eslint"] = _measured_lint(lint, project)
    inside = json.loads((folder / "times.json").read_text(encoding="utf-8"))
    shown = {name: cost.wall_s for name, cost in costs.items()} | inside
    shown["pytest"] -= sum(inside.values())
    _progress(f"  cold {item.name}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in shown.items()))
    return Cost(sum(cost.wall_s for cost in costs.values()), sum(cost.cpu_s for cost in costs.values()))


def _measured_lint(command: list[str], project: Path) -> Cost:
    """Findings end it with a code of its own; how long it took is all that counts here."""
    return measure(["sh", "-c", '"$@" || test $? = 1', "lint", *command], project, _environment())


def _bun(toolchain: Toolchain) -> Path:
    packages = PackageStore(toolchain_root() / "packages", toolchain).install(Manifest(_BUN))
    found = sorted(packages.glob("node_modules/@oven/*/bin/bun")) if isinstance(packages, Path) else []
    if not found:
        raise RuntimeError(f"bun could not be installed: {packages}")
    return found[0]


def _suite(folder: Path, evals: list[Eval]) -> None:
    """A copy of each; no two have the same sources, as in life."""
    (folder / "suite").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for number, item in enumerate(evals):
        target = folder / "suite" / f"{number // 12:03}-part" / f"{number:03}-{item.name[4:]}"
        shutil.copytree(item.root, target, ignore=shutil.ignore_patterns("wrong"))
        for path in target.glob("answer/**/*.ts*"):
            if path.suffix in {".ts", ".tsx"} and "_generated" not in path.parts:
                path.write_text(f"{path.read_text(encoding='utf-8')}// {number}\n", encoding="utf-8")


def _session(folder: Path, evals: list[Eval], workers: list[str]) -> tuple[Cost, list[Any]]:
    _suite(folder, evals)
    # The references of the copies are analysed first: that happens once per eval, not once per session.
    _graded(folder / "first", [str(folder / "suite"), "-n", _WORKERS], len(evals))
    return _graded(folder / "second", [str(folder / "suite"), *workers], len(evals))


def _long_session(folder: Path, evals: list[Eval]) -> Iterator[str]:
    """Many cells: how large the toolchain worker gets, and that nothing is left behind."""
    _suite(folder, evals)
    repeats = -(-_MANY // _CELLS)
    before, files = set(family(os.getpid())), _strays()
    arguments = [str(folder / "suite"), "-n", _WORKERS, "--evals-repeats", str(repeats)]
    cost, records = _graded(folder / "run", arguments, repeats * _CELLS, ("toolchain.mjs", "core.mjs"))
    left = set(family(os.getpid())) - before
    strays = _strays() - files
    if left or strays:
        raise RuntimeError(f"{len(records)} cells left processes {left} and files {strays}")
    peaks = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in cost.peaks.items())
    _progress(f"  {len(records)} cells: nothing left behind; largest {peaks}")
    yield f"grading memory: {cost.peaks['toolchain.mjs'] / 1e6:.0f} MB"


def _strays() -> set[str]:
    """What a session could leave in the folders for temporary files."""
    places = [Path(tempfile.gettempdir()), Path("/dev/shm")]
    found = [path for place in places if place.is_dir() for path in place.iterdir()]
    return {str(path) for path in found if "convex" in path.name or path.name.startswith("cage-")}
