"""Virtual environments that borrow the packages of this one."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def bare_environment(folder: Path, *more: Path) -> str:
    """The interpreter of an environment with all packages but this one, and with no toolchain; `more` is importable."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    places = [*map(str, more), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (own,) = (folder / "lib").glob("python3.*/site-packages")
    (own / "borrowed.pth").write_text("\n".join(dict.fromkeys(places)), encoding="utf-8")
    return str(folder / "bin" / "python")
