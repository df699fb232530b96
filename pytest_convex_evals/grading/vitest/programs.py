"""The programs that a process of a grader finds by name: Node, and `npx` and `bunx` for what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_convex_evals.files import write_atomically
from pytest_convex_evals.suite.fingerprint import digest

_PARTS = ("librt.so.1", "libutil.so.1", "libresolv.so.2")
_RUN_INSTALLED = """\
#!/bin/sh
# Runs a program of an installed package; nothing is fetched.
while :; do
  case "$1" in
    -*) shift ;;
    exec | x) shift ;;
    *) break ;;
  esac
done
name=${1%@*}
test -n "$name" || name=$1
shift
folder=$PWD
while :; do
  program=$folder/node_modules/.bin/$name
  test -x "$program" && exec "$program" "$@"
  test -n "$folder" || break
  folder=${folder%/*}
done
program=TOOLCHAIN/node_modules/.bin/$name
test -x "$program" && exec "$program" "$@"
echo "$name is not installed" >&2
exit 127
"""


def c_library(libraries: Sequence[str]) -> dict[str, Path]:
    """Parts of the C library that Node does without, and compiled packages do not: path → file, for a cage."""
    folders = {Path(library).parent for library in libraries if Path(library).name.startswith("libc.so")}
    found = [folder / name for folder in folders for name in _PARTS]
    return {str(path): path for path in found if path.exists()}


def programs(cache: Path, node: Path, toolchain: Path) -> dict[str, Path]:
    """Name → file, for a cage."""
    script = _RUN_INSTALLED.replace("TOOLCHAIN", str(toolchain))
    path = cache / "vitest" / f"run-installed-{digest([('script', script.encode())])[:12]}"
    if not path.is_file():
        write_atomically(path, script, durable=False)
    path.chmod(0o755)
    return {"node": node, "npx": path, "bunx": path}
