"""`python -m benchmarks [NAME…]`: one line per figure on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    cage,
    collect,
    durability,
    engine,
    grading,
    interrupt,
    plugin_import,
    runs,
    scores_reads,
    scores_upload,
    search,
    vitest_grader,
)

BENCHMARKS: dict[str, Callable[[], Iterator[str]]] = {
    "plugin_import": plugin_import.figures,
    "collect": collect.figures,
    "engine": engine.figures,
    "durability": durability.figures,
    "search": search.figures,
    "cage": cage.figures,
    "grading": grading.figures,
    "vitest_grader": vitest_grader.figures,
    "runs": runs.figures,
    "interrupt": interrupt.figures,
    "scores_upload": scores_upload.figures,
    "scores_reads": scores_reads.figures,
}


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; there is: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        print(f"benchmark {name}…", file=sys.stderr, flush=True)
        for line in BENCHMARKS[name]():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
