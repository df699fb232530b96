"""`convex-evals import`: look at a suite in the vitest layout before it is graded here."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pytest_convex_evals.cli.output import say, table


def import_suite(folder: Path) -> int:
    """What the suite has, what would not work and why, and how to go on; exit code 1 when some eval would not work."""
    from pytest_convex_evals.engine.setup import ENGINE
    from pytest_convex_evals.suite.inspection import find_suite, inspect_suite

    suite = find_suite(folder)
    manifest = json.loads((ENGINE / "package.json").read_text(encoding="utf-8"))
    about, evals = inspect_suite(suite, set(manifest["dependencies"]))
    rows = [("eval", "pipeline", "grader", "reference deployed", "known gaps")]
    rows += [
        (one.id, one.pipeline, one.grader, "yes" if one.reference else "-", "yes" if one.gaps else "-") for one in evals
    ]
    for line in table(rows):
        say(line)
    say("")
    for finding in about:
        say(f"{finding.where}: {finding.text}")
    findings = [finding for one in evals for finding in one.findings]
    for kind, heading in (("note", "good to know:"), ("problem", "would not work here:")):
        lines = dict.fromkeys(f"  {finding.where}: {finding.text}" for finding in findings if finding.kind == kind)
        if lines:
            say(f"\n{heading}")
            for line in lines:
                say(line)
    broken = [one for one in evals if any(finding.kind == "problem" for finding in one.findings)]
    say(f"\n{len(evals)} evals, {len(broken)} that would not work")
    say(f"grade its reference answers:  pytest {os.path.relpath(suite.root / 'evals')} --models reference -n 2")
    return 1 if broken else 0
