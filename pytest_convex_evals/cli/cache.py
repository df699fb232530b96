"""`convex-evals cache`: what set-up and grading keep on disk, and how to get the space back."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pytest_convex_evals.cli.output import say, table
from pytest_convex_evals.engine.setup import is_ready, outdated_folders, toolchain_root
from pytest_convex_evals.grading.package_sets import remove
from pytest_convex_evals.grading.packages import StoredSet, alone_in, prune, stored_sets

_DAY = 86_400.0
_MB = 1e6


def show_cache() -> int:
    """Where it is, what is in it, when it was used."""
    root = toolchain_root()
    say(f"cache: {root}")
    say(f"toolchain: {'ready' if is_ready() else 'not set up'}; {len(outdated_folders())} folders of other versions")
    sets = stored_sets(root / "packages")
    say(f"package sets: {len(sets)}, {sum(one.bytes for one in sets) / _MB:.0f} MB")
    if sets:
        rows = [["set", "files", "MB", "last used", "packages"], *(_row(one) for one in sets)]
        for line in table(rows):
            say(f"  {line}")
        say("remove what was not used for a month: convex-evals cache prune   (--days N, --all)")
    return 0


def prune_cache(days: float) -> int:
    """Remove what was not used for so many days, and what belongs to other versions of this package."""
    store = toolchain_root() / "packages"
    with alone_in(store) as alone:
        if not alone:
            say("a session uses the cache: nothing was removed.")
            say("what to do: wait until it has ended, then run this again")
            return 1
        gone = prune(store, time.time() - days * _DAY)
        old = outdated_folders()
        for folder in old:
            say(f"removing {folder.name}")
            remove(folder)
    say(f"removed {len(gone)} package sets ({sum(one.bytes for one in gone) / _MB:.0f} MB) and {len(old)} old folders")
    return 0


def _row(one: StoredSet) -> list[str]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.used_at)) if one.used_at else "never"
    return [one.folder.name, str(one.files), f"{one.bytes / _MB:.1f}", used, _packages(one.folder)]


def _packages(folder: Path) -> str:
    try:
        wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return ", ".join(f"{name} {version}" for name, version in wanted.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return "damaged; will be installed again when it is needed"
